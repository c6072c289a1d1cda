/* explain.c - the life of one job, told from an event log.
 *
 * Two passes: the first collects the names of all jobs and finds out which one
 * is meant; the second is a replay that is watched. Lines only mark that
 * something of the job has changed; its state is looked up when the moment is
 * over, because the lines of one moment pass through states that lasted no
 * time. So a stretch always lasts, but for a wait with which the log ends.
 *
 * (1) Stretches follow each other without a gap; the first begins at
 *     submission, the last ends at the job's own account of its end.
 * (2) The jobs it shares GPUs with are looked for only when a job came to
 *     these GPUs or left them: O(jobs) then, O(1) for any other line.
 */
#include "sim/explain.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/str.h"
#include "sim/replay.h"
#include "sim/replaylog.h"
#include <limits.h>
#include <math.h>
#include <string.h>

struct name {
    int id;
    const char *text;
};

/* What holds of the job since stretch.from_s. */
struct now {
    bool is_open;
    struct explain_stretch stretch; /* `what`: waits, or else holds GPUs */
    double done_s, rate, resumes_s; /* as in struct firn_report */
};

struct telling {
    struct explain *life;
    VEC(struct name) names; /* by id */
    struct now now;
    VEC(int) with; /* ids of those it shares with, ascending */
    const char *cause, *note;
    bool is_touched, is_alive, is_aborted;
    bool adds_up; /* as in struct replay */
};

/* ---- which job ---- */

static bool is_submit(const char *line)
{
    const char *tab = strchr(line, '\t');
    return tab && strncmp(tab, "\tsubmit\t", 8) == 0;
}

/* Lines that are wrong are for the replay to name. */
static void read_names(struct telling *t, struct lines *in)
{
    struct firn_buf text = {0};
    struct firn_error err;
    enum firn_status status;
    char *columns[5];
    long id;
    while (replay_next(in, &text, &status, &err)) {
        if (status != FIRN_OK || !is_submit(text.at) ||
            replay_split(text.at, columns, 5) < 5 ||
            !str_int(columns[2], 0, INT_MAX, &id) ||
            !replay_unquote(columns[3]))
            continue;
        struct name name = {(int)id, arena_strdup(&t->life->text, columns[3])};
        vec_add(&t->names, name);
    }
    buf_release(&text);
}

static const char *name_of(const struct telling *t, int id)
{
    size_t low = 0, high = t->names.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->names.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->names.n ? t->names.at[low].text : "";
}

static enum firn_status no_such(const struct telling *t, const char *where,
                                const char *job, struct firn_error *err)
{
    const char **texts = mem_new(t->names.n + 1, sizeof *texts);
    for (size_t i = 0; i < t->names.n; i++)
        texts[i] = t->names.at[i].text;
    int best = str_nearest(job, texts, t->names.n);
    if (best < 0)
        firn_fail(err, FIRN_ENOENT, "%s: no job '%.60s'", where, job);
    else
        firn_fail(err, FIRN_ENOENT, "%s: no job '%.60s'; did you mean '%.60s'?",
                  where, job, texts[best]);
    mem_free(texts);
    return FIRN_ENOENT;
}

/* A whole name before an id before the beginning of a name. */
static enum firn_status choose(struct telling *t, const char *where,
                               const char *job, struct firn_error *err)
{
    const struct name *by_name = NULL, *by_id = NULL, *by_start = NULL;
    size_t nstarts = 0;
    long id = -1;
    bool is_number = strspn(job, "0123456789") == strlen(job) &&
                     str_int(job, 0, INT_MAX, &id);
    for (size_t i = 0; i < t->names.n; i++) {
        const struct name *name = &t->names.at[i];
        if (!by_name && strcmp(name->text, job) == 0)
            by_name = name;
        if (is_number && name->id == (int)id)
            by_id = name;
        if (strncmp(name->text, job, strlen(job)) != 0)
            continue;
        by_start = by_start ? by_start : name;
        nstarts++;
    }
    const struct name *name = by_name ? by_name : by_id ? by_id : by_start;
    if (!name)
        return no_such(t, where, job, err);
    if (name == by_start && name != by_name && name != by_id && nstarts > 1)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: '%.60s' is the beginning of %zu names, '%.60s' "
                         "first",
                         where, job, nstarts, by_start->text);
    t->life->id = name->id;
    t->life->name = name->text;
    return FIRN_OK;
}

/* ---- stretches ---- */

bool explain_same_place(const struct explain_stretch *a,
                        const struct explain_stretch *b)
{
    if (strcmp(a->alloc, b->alloc) != 0 || a->nwith != b->nwith)
        return false;
    for (size_t i = 0; i < a->nwith; i++)
        if (strcmp(a->with[i], b->with[i]) != 0)
            return false;
    return true;
}

/* Are the two one stretch? Never when the second has a cause. */
static bool goes_on(const struct explain_stretch *a,
                    const struct explain_stretch *b)
{
    if (b->cause[0] != '\0' || a->what != b->what)
        return false;
    if (a->what == EXPLAIN_WAITS)
        return strcmp(a->note, b->note) == 0;
    return explain_same_place(a, b) &&
           (a->what == EXPLAIN_RESTARTS || a->rate == b->rate);
}

/* Adds what lasts; what goes on as before makes the last one longer. */
static void add(struct explain *life, struct explain_stretch *s,
                enum explain_what what, double to_s, double done_to_s)
{
    s->what = what;
    s->to_s = to_s;
    s->done_to_s = done_to_s;
    if (to_s > s->from_s) {
        size_t n = life->stretches.n;
        if (n > 0 && goes_on(&life->stretches.at[n - 1], s)) {
            life->stretches.at[n - 1].to_s = to_s;
            life->stretches.at[n - 1].done_to_s = done_to_s;
        } else {
            vec_add(&life->stretches, *s);
        }
        s->cause = "";
    }
    s->from_s = fmax(s->from_s, to_s);
    s->done_from_s = done_to_s;
}

/* What held until `to_s`: a restart, progress, and standing still, each if it
 * lasted. */
static void close_now(struct telling *t, double to_s)
{
    struct explain *life = t->life;
    struct now *now = &t->now;
    struct explain_stretch s = now->stretch;
    now->is_open = false;
    s.done_from_s = fmin(now->done_s, life->duration_s);
    if (s.what == EXPLAIN_WAITS) {
        add(life, &s, EXPLAIN_WAITS, to_s, s.done_from_s);
        return;
    }
    double begin_s = fmin(fmax(now->resumes_s, s.from_s), to_s);
    add(life, &s, EXPLAIN_RESTARTS, begin_s, s.done_from_s);
    double done_s = now->done_s + now->rate * fmax(begin_s - now->resumes_s, 0);
    double left_s = fmax(life->duration_s - done_s, 0);
    s.done_from_s = life->duration_s - left_s;
    double end_s = to_s;
    if (!(now->rate > 0))
        end_s = begin_s;
    else if (t->adds_up && begin_s + left_s / now->rate < to_s * (1 - 1e-12))
        end_s = begin_s + left_s / now->rate;
    done_s = fmin(done_s + now->rate * (end_s - begin_s), life->duration_s);
    add(life, &s, EXPLAIN_TRAINS, end_s, done_s);
    add(life, &s, EXPLAIN_STANDS, to_s, done_s);
}

/* ---- what holds now ---- */

static bool is_beside(const struct replay_job *a, const struct replay_job *b)
{
    if (a->id == b->id || a->state != REPLAY_RUNNING ||
        b->state != REPLAY_RUNNING || !a->held.is_shared || !b->held.is_shared)
        return false;
    for (size_t i = 0, k = 0; i < a->held.gpus.n && k < b->held.gpus.n;) {
        int x = a->held.gpus.at[i], y = b->held.gpus.at[k];
        if (x == y)
            return true;
        i += x < y;
        k += y < x;
    }
    return false;
}

static void look_beside(struct telling *t, const struct replay *r,
                        const struct replay_job *job,
                        struct explain_stretch *out)
{
    t->with.n = 0;
    for (size_t i = 0; job->held.is_shared && i < r->jobs.n; i++)
        if (is_beside(job, &r->jobs.at[i]))
            vec_add(&t->with, r->jobs.at[i].id);
    out->nwith = t->with.n;
    out->with =
        arena_alloc(&t->life->text, (t->with.n + 1) * sizeof *out->with);
    for (size_t i = 0; i < t->with.n; i++)
        out->with[i] = name_of(t, t->with.at[i]);
}

static void look_holding(struct telling *t, const struct replay *r,
                         const struct replay_job *job,
                         struct explain_stretch *out)
{
    struct firn_buf text = {0};
    out->what = EXPLAIN_TRAINS;
    out->rate = job->rate;
    out->gpus = (int)job->held.gpus.n;
    out->nodes = ledger_print(&r->ledger, &job->held, &text);
    out->alloc = arena_strdup(&t->life->text, text.at);
    buf_release(&text);
    look_beside(t, r, job, out);
}

static void on_moment(void *arg, const struct replay *r)
{
    struct telling *t = arg;
    const struct replay_job *job;
    if (!t->is_touched || !t->is_alive || !(job = replay_find(r, t->life->id)))
        return;
    struct explain_stretch next = {
        .cause = t->cause, .note = "", .alloc = "", .from_s = r->now_s};
    if (t->now.is_open)
        close_now(t, r->now_s);
    else if (t->life->stretches.n == 0) /* (1) */
        next.from_s = t->life->submit_s;
    if (job->state == REPLAY_RUNNING)
        look_holding(t, r, job, &next);
    else {
        next.what = EXPLAIN_WAITS;
        next.note = t->note;
        next.gpus_up = r->ledger.nup;
        next.gpus_free = r->ledger.nup - r->ledger.nbusy;
        for (size_t i = 0; i < r->jobs.n && r->jobs.at[i].id < t->life->id; i++)
            next.jobs_before += r->jobs.at[i].state == REPLAY_WAITING;
    }
    if (strcmp(next.cause, "anew") == 0 && job->state == REPLAY_RUNNING) {
        next.note = t->note;
        t->note = "";
    }
    t->now = (struct now){true, next, job->done_s, job->rate, job->resumes_s};
    t->cause = "";
    t->is_touched = false;
}

/* ---- lines ---- */

static void take_submit(struct telling *t, const struct replay *r,
                        const struct replay_job *job)
{
    struct explain *life = t->life;
    life->gpus = job->gpus;
    life->gpus_min = job->gpus_min;
    life->gpus_max = job->gpus_max;
    life->duration_s = job->duration_s;
    life->submit_s = job->submitted_s;
    t->adds_up = r->adds_up;
    t->is_alive = true;
}

/* A log may end in the moment a job begins to wait; that wait is kept, since
 * why it waits is asked for. */
static void keep_last(struct explain *life, const struct now *now)
{
    struct explain_stretch s = now->stretch;
    if (!now->is_open || s.what != EXPLAIN_WAITS || s.from_s < life->end_s)
        return;
    s.to_s = s.from_s;
    s.done_from_s = s.done_to_s = now->done_s;
    vec_add(&life->stretches, s);
}

/* (1): what lies behind the job's own account of its end is cut off. */
static void finish(struct telling *t, enum explain_end how, double end_s)
{
    struct explain *life = t->life;
    struct now last_now = t->now;
    if (t->now.is_open)
        close_now(t, fmax(end_s, t->now.stretch.from_s));
    life->end = how;
    life->end_s = end_s;
    t->is_alive = false;
    if (how == EXPLAIN_OPEN) {
        keep_last(life, &last_now);
        return;
    }
    while (life->stretches.n > 0 &&
           life->stretches.at[life->stretches.n - 1].from_s >= end_s)
        life->stretches.n--;
    if (life->stretches.n > 0) {
        struct explain_stretch *last =
            &life->stretches.at[life->stretches.n - 1];
        last->to_s = fmin(last->to_s, end_s);
    }
}

static void take_end(struct telling *t, const struct replay *r,
                     const struct replay_job *job)
{
    const char *kind = r->columns[1];
    enum explain_end how = strcmp(kind, "done") == 0   ? EXPLAIN_DONE
                           : strcmp(kind, "fail") == 0 ? EXPLAIN_FAILED
                                                       : EXPLAIN_REJECT;
    if (how == EXPLAIN_REJECT)
        t->life->reason = arena_strdup(&t->life->text, r->columns[3]);
    finish(t, how, job->finished_s);
}

static void take_own(struct telling *t, const struct replay *r,
                     const struct replay_job *job)
{
    static const char *const gives[] = {"start", "resize", "move"};
    const char *kind = r->columns[1];
    t->is_touched = true;
    for (size_t i = 0; i < sizeof gives / sizeof *gives; i++)
        if (strcmp(kind, gives[i]) == 0) {
            t->cause = gives[i];
            t->note = "";
            t->life->restarts += job->starts > 1;
            return;
        }
    if (strcmp(kind, "submit") == 0) {
        t->cause = "submit";
        take_submit(t, r, job);
    } else if (strcmp(kind, "note") == 0) {
        t->note = arena_strdup(&t->life->text, r->columns[3]);
    } else if (strcmp(kind, "stop") == 0) {
        bool is_node = strcmp(r->columns[4], "node") == 0;
        t->cause = is_node ? "node" : "preempt";
        t->life->node_losses += is_node;
        t->life->preemptions += !is_node;
    } else if (strcmp(kind, "anew") == 0) {
        t->cause = "anew";
        t->note = arena_strdup(&t->life->text, r->columns[3]);
    } else if (strcmp(kind, "rate") != 0) {
        take_end(t, r, job);
    }
}

/* (2) */
static void on_line(void *arg, const struct replay *r,
                    const struct replay_job *job)
{
    struct telling *t = arg;
    if (job->id == t->life->id) {
        take_own(t, r, job);
        return;
    }
    if (!t->is_alive || !t->now.is_open || t->now.stretch.what == EXPLAIN_WAITS)
        return;
    for (size_t i = 0; i < t->with.n && !t->is_touched; i++)
        t->is_touched = t->with.at[i] == job->id;
    const struct replay_job *own = replay_find(r, t->life->id);
    if (!t->is_touched && own && own->held.is_shared)
        t->is_touched = is_beside(own, job);
}

static void on_over(void *arg, const struct replay *r,
                    const struct firn_sim_result *said)
{
    struct telling *t = arg;
    t->is_aborted = r->is_aborted;
    str_copy(t->life->trace, sizeof t->life->trace, said->trace);
    str_copy(t->life->policy, sizeof t->life->policy, said->policy);
    str_copy(t->life->world, sizeof t->life->world, said->world);
    if (!t->is_alive)
        return;
    on_moment(t, r);
    finish(t, EXPLAIN_OPEN, fmax(r->now_s, t->life->submit_s));
}

static void sum_up(struct explain *life)
{
    double *const sums[] = {
        [EXPLAIN_WAITS] = &life->waited_s,
        [EXPLAIN_RESTARTS] = &life->restarted_s,
        [EXPLAIN_TRAINS] = &life->trained_s,
        [EXPLAIN_STANDS] = &life->stood_s,
    };
    for (size_t i = 0; i < life->stretches.n; i++) {
        const struct explain_stretch *s = &life->stretches.at[i];
        *sums[s->what] += s->to_s - s->from_s;
        if (i > 0 && life->node_losses > 0)
            life->lost_s += fmax(s[-1].done_to_s - s->done_from_s, 0);
    }
}

static enum firn_status tell(struct telling *t, struct lines *in,
                             const char *where, const char *job,
                             struct firn_error *err)
{
    struct replay_watch watch = {t, on_line, on_moment, on_over};
    struct firn_sim_result result;
    if (lines_size(in) < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: a life is told from a file, which is read twice",
                         where);
    read_names(t, in);
    lines_seek(in, 0, 1);
    enum firn_status chosen = choose(t, where, job, err);
    if (chosen != FIRN_OK && t->names.n > 0)
        return chosen;
    enum firn_status status = replay_watched(in, where, &watch, &result, err);
    if (status != FIRN_OK && !t->is_aborted)
        return status;
    if (chosen != FIRN_OK)
        return choose(t, where, job, err);
    sum_up(t->life);
    return FIRN_OK;
}

enum firn_status explain_lines(struct explain *out, struct lines *in,
                               const char *where, const char *job,
                               struct firn_error *err)
{
    struct explain life = {.id = -1, .name = "", .reason = ""};
    struct telling t = {.life = &life, .cause = "", .note = ""};
    enum firn_status status = tell(&t, in, where, job, err);
    vec_release(&t.names);
    vec_release(&t.with);
    if (status == FIRN_OK)
        *out = life;
    else
        explain_release(&life);
    return status;
}

enum firn_status explain_read(struct explain *out, const char *log_path,
                              const char *job, struct firn_error *err)
{
    struct lines *in;
    FIRN_TRY(lines_open(&in, log_path, err));
    enum firn_status status = explain_lines(out, in, log_path, job, err);
    lines_close(in);
    return status;
}

void explain_release(struct explain *life)
{
    vec_release(&life->stretches);
    arena_release(&life->text);
    *life = (struct explain){0};
}
