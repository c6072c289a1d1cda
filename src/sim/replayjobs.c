/* replayjobs.c - follows the jobs of an event log and checks each line.
 *
 * A small machine of its own: jobs wait, run and end; the ledger counts GPUs;
 * work is summed from the rates logged. It is written from the log's format and
 * from what a valid schedule is, without core.
 *
 * (1) A job is submitted once, before any other line on it, and no line
 *     is on it after its end.
 * (2) At no time that lasts is a GPU over-full or held on a node that is down.
 *     Within one moment lines may pass through such states: two jobs that
 *     swap places do.
 * (3) A job holds between gpus_min and gpus_max GPUs, or none.
 * (4) The work logged agrees with the rates logged before, and is the duration
 *     when the job is done. Not so in worlds that round as others do.
 */
#include "sim/replaylog.h"

#include "base/str.h"
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum firn_status wrong(struct replay *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static enum firn_status wrong(struct replay *r, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return firn_fail(r->err, FIRN_EINVAL, "%s", text);
}

/* The place of the job with this id, or jobs.n; ids ascend. */
static size_t place_of(const struct replay *r, int id)
{
    size_t low = 0, high = r->jobs.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->jobs.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < r->jobs.n && r->jobs.at[low].id == id;
    return is_there ? low : r->jobs.n;
}

static struct replay_job *find(struct replay *r, int id)
{
    size_t at = place_of(r, id);
    return at < r->jobs.n ? &r->jobs.at[at] : NULL;
}

const struct replay_job *replay_find(const struct replay *r, int id)
{
    size_t at = place_of(r, id);
    return at < r->jobs.n ? &r->jobs.at[at] : NULL;
}

static bool read_int(const char *text, int min, int *out)
{
    long value;
    if (!str_int(text, min, INT_MAX, &value))
        return false;
    *out = (int)value;
    return true;
}

/* Reference seconds done by now. */
static double work_s(const struct replay *r, const struct replay_job *job)
{
    if (job->state != REPLAY_RUNNING || r->now_s <= job->resumes_s)
        return job->done_s;
    return job->done_s + job->rate * (r->now_s - job->resumes_s);
}

/* How far two accounts of a job's work may differ: 1e-9 of it, and what the
 * last bits of the time are worth. */
static double slack_s(const struct replay *r, const struct replay_job *job)
{
    return 1e-9 * fmax(job->duration_s, 1) +
           8e-16 * r->now_s * fmax(job->rate, 1);
}

/* (4): a job that has done its work may hold its GPUs until the end of the
 * quantum, and does no more work meanwhile. */
static enum firn_status check_over(struct replay *r,
                                   const struct replay_job *job)
{
    double over_s = work_s(r, job) - job->duration_s;
    if (r->adds_up && over_s > slack_s(r, job) + job->rate * r->quantum_s)
        return wrong(r, "job %d goes on after %.17g s of work, it has %.17g",
                     job->id, job->duration_s + over_s, job->duration_s);
    return FIRN_OK;
}

static double told_s(const struct replay *r, const struct replay_job *job)
{
    return fmin(work_s(r, job), job->duration_s);
}

static void release_gpus(struct replay *r, struct replay_job *job)
{
    double held_s = r->now_s - job->since_s;
    job->held_s += held_s;
    r->count.gpu_s_given += held_s * (double)job->held.gpus.n;
    ledger_drop(&r->ledger, &job->held);
    vec_release(&job->held.gpus);
    job->since_s = r->now_s;
}

static enum firn_status on_submit(struct replay *r, struct replay_job *none)
{
    struct replay_job job = {.submitted_s = r->now_s, .since_s = r->now_s};
    (void)none;
    if (!read_int(r->columns[2], 0, &job.id) ||
        !read_int(r->columns[4], 1, &job.gpus) ||
        !read_int(r->columns[5], 1, &job.gpus_min) ||
        !read_int(r->columns[6], 1, &job.gpus_max) ||
        !str_double(r->columns[7], &job.duration_s) ||
        (r->ncolumns > 9 && !str_double(r->columns[9], &job.submitted_s)))
        return wrong(r, "a number cannot be read");
    if (!replay_unquote(r->columns[3]))
        return wrong(r, "job %d has no name", job.id);
    if (r->jobs.n > 0 && job.id <= r->jobs.at[r->jobs.n - 1].id)
        return wrong(r, "job %d is submitted behind job %d", job.id,
                     r->jobs.at[r->jobs.n - 1].id);
    if (job.gpus_min > job.gpus_max)
        return wrong(r, "job %d wants at least %d and at most %d GPUs", job.id,
                     job.gpus_min, job.gpus_max);
    if (!(job.duration_s > 0))
        return wrong(r, "job %d has no duration", job.id);
    job.may_share = strcmp(r->columns[8], "1") == 0;
    vec_add(&r->jobs, job);
    recount_submit(&r->count, r->now_s);
    return FIRN_OK;
}

/* (3) */
static enum firn_status check_size(struct replay *r,
                                   const struct replay_job *job,
                                   const struct holding *to)
{
    size_t n = to->gpus.n;
    if (job->gpus_min == job->gpus_max && n != (size_t)job->gpus_min)
        return wrong(r, "job %d is a gang of %d GPUs and gets %zu", job->id,
                     job->gpus_min, n);
    if (n < (size_t)job->gpus_min || n > (size_t)job->gpus_max)
        return wrong(r, "job %d runs on %d to %d GPUs and gets %zu", job->id,
                     job->gpus_min, job->gpus_max, n);
    if (to->is_shared && !job->may_share)
        return wrong(r, "job %d does not share GPUs", job->id);
    return FIRN_OK;
}

static bool is_same_place(const struct holding *a, const struct holding *b)
{
    return a->gpus.n == b->gpus.n && a->is_shared == b->is_shared &&
           a->stages == b->stages && a->shares == b->shares &&
           a->saves == b->saves &&
           memcmp(a->gpus.at, b->gpus.at, a->gpus.n * sizeof(int)) == 0;
}

/* Goes past this text and a whole number behind it. */
static bool skip_number(const char **at, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0)
        return false;
    const char *digits = *at + n + ((*at)[n] == '-');
    size_t ndigits = strspn(digits, "0123456789");
    *at = digits + ndigits;
    return ndigits > 0 && ndigits < 10;
}

/* A job that stays on its GPUs is run in another way: the fifth column. */
static enum firn_status check_how(struct replay *r,
                                  const struct replay_job *job,
                                  const struct holding *to)
{
    const char *how = r->columns[4], *at = how;
    if (!skip_number(&at, "passes=") || !skip_number(&at, " tensor=") ||
        !skip_number(&at, " with=") || !skip_number(&at, " after=") ||
        *at != '\0')
        return wrong(r, "'%.60s' is no way to run job %d", how, job->id);
    if (!is_same_place(to, &job->held))
        return wrong(r,
                     "job %d is moved to other GPUs and run another way "
                     "in one line",
                     job->id);
    if (strcmp(how, job->how) == 0)
        return wrong(r, "job %d is moved to where it is", job->id);
    return FIRN_OK;
}

static enum firn_status check_kind(struct replay *r,
                                   const struct replay_job *job,
                                   const struct holding *to)
{
    const char *kind = r->columns[1];
    const struct holding *from = &job->held;
    size_t n = to->gpus.n;
    if (strcmp(kind, "resize") == 0 && n == from->gpus.n)
        return wrong(r, "job %d is resized from %zu GPUs to as many", job->id,
                     n);
    if (strcmp(kind, "move") != 0)
        return FIRN_OK;
    if (n != from->gpus.n)
        return wrong(r, "job %d is moved from %zu GPUs to %zu", job->id,
                     from->gpus.n, n);
    if (r->ncolumns > 4)
        return check_how(r, job, to);
    if (is_same_place(to, from))
        return wrong(r, "job %d is moved to where it is", job->id);
    return FIRN_OK;
}

/* Gives `job` the GPUs `to`, which become its own. */
static enum firn_status give(struct replay *r, struct replay_job *job,
                             struct holding *to)
{
    FIRN_TRY(check_size(r, job, to));
    FIRN_TRY(check_kind(r, job, to));
    FIRN_TRY(check_over(r, job));
    job->done_s = told_s(r, job);
    if (job->state == REPLAY_RUNNING)
        release_gpus(r, job);
    int nconflicts = r->ledger.nconflicts;
    FIRN_TRY(ledger_take(&r->ledger, to, r->err));
    if (nconflicts == 0 && r->ledger.nconflicts > 0)
        r->conflict_line = r->line;
    job->held = *to;
    str_copy(job->how, sizeof job->how, r->ncolumns > 4 ? r->columns[4] : "");
    *to = (struct holding){0};
    job->state = REPLAY_RUNNING;
    job->since_s = job->resumes_s = r->now_s;
    job->rate = 0;
    job->is_unrated = true;
    r->count.restarts += job->starts++ > 0;
    r->count.steps++;
    return FIRN_OK;
}

static enum firn_status on_give(struct replay *r, struct replay_job *job)
{
    bool is_start = strcmp(r->columns[1], "start") == 0;
    if (is_start && job->state == REPLAY_RUNNING)
        return wrong(r, "job %d starts but runs already", job->id);
    if (!is_start && job->state != REPLAY_RUNNING)
        return wrong(r, "job %d does not run", job->id);
    struct holding to;
    FIRN_TRY(ledger_read(&r->ledger, r->columns[3], &to, r->err));
    enum firn_status status = give(r, job, &to);
    vec_release(&to.gpus);
    return status;
}

static enum firn_status on_rate(struct replay *r, struct replay_job *job)
{
    double done_s, rate, resumes_s;
    if (job->state != REPLAY_RUNNING)
        return wrong(r, "job %d does not run", job->id);
    if (!str_double(r->columns[3], &done_s) ||
        !str_double(r->columns[4], &rate) ||
        !str_double(r->columns[5], &resumes_s))
        return wrong(r, "a number cannot be read");
    if (rate < 0)
        return wrong(r, "job %d has a rate of %g", job->id, rate);
    double now_done_s = done_s + rate * fmax(r->now_s - resumes_s, 0);
    FIRN_TRY(check_over(r, job));
    double had_s = told_s(r, job), slack = slack_s(r, job);
    bool is_less = now_done_s < had_s - slack;
    if (r->adds_up && (now_done_s > had_s + slack || now_done_s < 0 ||
                       (is_less && !job->may_lose)))
        return wrong(r, "job %d has done %.17g s, the rates before say %.17g",
                     job->id, now_done_s, had_s);
    job->done_s = done_s;
    job->rate = rate;
    job->resumes_s = resumes_s;
    job->is_unrated = job->may_lose = false;
    return FIRN_OK;
}

/* A job that ran without a `rate` line. */
static enum firn_status check_rated(struct replay *r,
                                    const struct replay_job *job)
{
    if (job->is_unrated && r->now_s > job->since_s)
        return wrong(r, "job %d has run without a rate", job->id);
    return FIRN_OK;
}

/* What it had done is lost; its next `rate` begins at 0. */
static enum firn_status on_anew(struct replay *r, struct replay_job *job)
{
    if (job->state != REPLAY_RUNNING)
        return wrong(r, "job %d does not run", job->id);
    if (!replay_unquote(r->columns[3]))
        return wrong(r, "job %d begins anew without a reason", job->id);
    FIRN_TRY(check_rated(r, job));
    FIRN_TRY(check_over(r, job));
    job->done_s = job->rate = 0;
    job->resumes_s = r->now_s;
    return FIRN_OK;
}

static enum firn_status on_stop(struct replay *r, struct replay_job *job)
{
    double done_s;
    bool is_loss = strcmp(r->columns[4], "node") == 0;
    if (job->state != REPLAY_RUNNING)
        return wrong(r, "job %d does not run", job->id);
    if (!is_loss && strcmp(r->columns[4], "preempt") != 0)
        return wrong(r, "'%.40s' is no reason to stop", r->columns[4]);
    FIRN_TRY(check_rated(r, job));
    FIRN_TRY(check_over(r, job));
    if (!str_double(r->columns[3], &done_s) ||
        (r->adds_up && fabs(done_s - told_s(r, job)) > slack_s(r, job)))
        return wrong(r, "job %d has done %.40s s, the rates before say %.17g",
                     job->id, r->columns[3], told_s(r, job));
    job->done_s = done_s;
    release_gpus(r, job);
    job->state = REPLAY_WAITING;
    job->may_lose = is_loss && r->checkpoint_s > 0;
    job->is_unrated = false;
    r->count.steps++;
    return FIRN_OK;
}

/* The job's own account of when it finished: the fourth column, or now. */
static enum firn_status read_finished(struct replay *r, struct replay_job *job)
{
    job->finished_s = r->now_s;
    if (r->ncolumns > 3 && (!str_double(r->columns[3], &job->finished_s) ||
                            job->finished_s < job->submitted_s))
        return wrong(r, "job %d cannot have finished at '%.40s'", job->id,
                     r->columns[3]);
    return FIRN_OK;
}

static enum firn_status on_done(struct replay *r, struct replay_job *job)
{
    if (job->state != REPLAY_RUNNING)
        return wrong(r, "job %d is done but does not run", job->id);
    FIRN_TRY(check_rated(r, job));
    FIRN_TRY(check_over(r, job));
    FIRN_TRY(read_finished(r, job));
    if (r->adds_up && work_s(r, job) < job->duration_s - slack_s(r, job))
        return wrong(r, "job %d is done after %.17g s of work, not %.17g",
                     job->id, work_s(r, job), job->duration_s);
    double jct_s = job->finished_s - job->submitted_s;
    double held_s = job->held_s + (job->finished_s - job->since_s);
    recount_done(&r->count, job->gpus, job->finished_s, jct_s, jct_s - held_s);
    release_gpus(r, job);
    job->state = REPLAY_ENDED;
    return FIRN_OK;
}

static enum firn_status on_end(struct replay *r, struct replay_job *job)
{
    bool is_reject = strcmp(r->columns[1], "reject") == 0;
    if (!is_reject)
        FIRN_TRY(read_finished(r, job));
    else if (!replay_unquote(r->columns[3]))
        return wrong(r, "job %d is rejected without a reason", job->id);
    job->finished_s = is_reject ? r->now_s : job->finished_s;
    if (job->state == REPLAY_RUNNING)
        release_gpus(r, job);
    job->state = REPLAY_ENDED;
    r->count.rejected += is_reject;
    r->count.failed += !is_reject;
    return FIRN_OK;
}

static enum firn_status on_note(struct replay *r, struct replay_job *job)
{
    if (!replay_unquote(r->columns[3]))
        return wrong(r, "the note on job %d is no text", job->id);
    return FIRN_OK;
}

static enum firn_status on_node(struct replay *r, struct replay_job *none)
{
    bool is_up = strcmp(r->columns[1], "node_up") == 0;
    int node;
    (void)none;
    if (!read_int(r->columns[2], 0, &node))
        return wrong(r, "'%.40s' is no node", r->columns[2]);
    int nondown = r->ledger.nondown;
    FIRN_TRY(ledger_node_set(&r->ledger, node, is_up, r->err));
    if (nondown == 0 && r->ledger.nondown > 0)
        r->down_line = r->line;
    r->count.failures += !is_up;
    return FIRN_OK;
}

static const struct {
    const char *name;
    int ncolumns, nmore; /* columns, and how many more there may be */
    bool is_of_job;      /* the third column is a job that lives */
    enum firn_status (*on)(struct replay *r, struct replay_job *job);
} kinds[] = {
    {"submit", 9, 1, false, on_submit},  {"start", 4, 0, true, on_give},
    {"resize", 4, 0, true, on_give},     {"move", 4, 1, true, on_give},
    {"rate", 6, 0, true, on_rate},       {"stop", 5, 0, true, on_stop},
    {"done", 3, 1, true, on_done},       {"fail", 3, 1, true, on_end},
    {"reject", 4, 0, true, on_end},      {"note", 4, 0, true, on_note},
    {"node_down", 3, 0, false, on_node}, {"node_up", 3, 0, false, on_node},
    {"anew", 4, 0, true, on_anew},
};

enum firn_status replay_settled(struct replay *r)
{
    if (r->ledger.nconflicts > 0) {
        r->line = r->conflict_line;
        return wrong(r, "GPU %d of node %d is held by more jobs than may",
                     r->ledger.conflict_gpu, r->ledger.conflict_node);
    }
    if (r->ledger.nondown > 0) {
        r->line = r->down_line;
        return wrong(r, "a job keeps GPUs of a node that went down");
    }
    return FIRN_OK;
}

static enum firn_status advance(struct replay *r)
{
    double at_s;
    if (!str_double(r->columns[0], &at_s) || at_s < 0)
        return wrong(r, "'%.40s' is no time", r->columns[0]);
    if (at_s < r->now_s)
        return wrong(r, "time goes back from %.17g to %.17g", r->now_s, at_s);
    if (at_s == r->now_s)
        return FIRN_OK;
    FIRN_TRY(replay_settled(r)); /* (2) */
    if (r->watch && r->watch->moment)
        r->watch->moment(r->watch->arg, r);
    recount_pass(&r->count, at_s - r->now_s, r->ledger.nbusy, r->ledger.nup);
    r->now_s = at_s;
    return FIRN_OK;
}

static void tell_line(const struct replay *r, bool is_new,
                      const struct replay_job *job)
{
    const struct replay_watch *watch = r->watch;
    if (is_new)
        job = &r->jobs.at[r->jobs.n - 1];
    if (watch && watch->line && job)
        watch->line(watch->arg, r, job);
}

enum firn_status replay_event(struct replay *r)
{
    FIRN_TRY(advance(r));
    const char *kind = r->ncolumns > 1 ? r->columns[1] : "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i].name) != 0)
            continue;
        if (r->ncolumns < kinds[i].ncolumns ||
            r->ncolumns > kinds[i].ncolumns + kinds[i].nmore)
            return wrong(r, "'%s' has %d columns, not %d", kind, r->ncolumns,
                         kinds[i].ncolumns);
        struct replay_job *job = NULL;
        int id;
        if (kinds[i].is_of_job) { /* (1) */
            if (!read_int(r->columns[2], 0, &id) || !(job = find(r, id)))
                return wrong(r, "job %.20s was never submitted", r->columns[2]);
            if (job->state == REPLAY_ENDED)
                return wrong(r, "job %d has ended before", id);
        }
        FIRN_TRY(kinds[i].on(r, job));
        tell_line(r, kinds[i].on == on_submit, job);
        return FIRN_OK;
    }
    return wrong(r, "'%.40s' is no kind of event", kind);
}

void replay_release(struct replay *r)
{
    for (size_t i = 0; i < r->jobs.n; i++)
        vec_release(&r->jobs.at[i].held.gpus);
    vec_release(&r->jobs);
    ledger_release(&r->ledger);
    recount_release(&r->count);
}
