/* firn_past.c - what the policy firn knows of jobs: from forecasts, from jobs
 * that ended, from what a job has had.
 *
 * The work that is left of a job, in reference seconds, by the option `knows`:
 *
 *   forecast  what the engine says: the progress that the trainer reports, or
 *             the duration that the trace or the user tells
 *   progress  the same of a job that has trained and began a minute ago: its
 *             trainer has reported how far it is; of others as by `history`
 *   history   the mean work of ended jobs of the same application and group,
 *             of those that had more than this job has done; as one more such
 *             job counts one with as much left as it has done
 *   service   as much as it has done, at least a minute: short jobs reveal
 *             themselves by ending (Tiresias, NSDI 2019; the rule is optimal in
 *             expectation where run times have a heavy tail)
 *
 * `history` and `service` never look at the duration of a job that has not
 * ended, `progress` not before the job's trainer could tell it.
 *
 * Work is kept in classes of a quarter of a decade, with the sum in each, so
 * that a kind costs the same whether ten or ten million jobs of it have ended.
 *
 * Invariant: `known` is ordered by id; an entry whose job has ended has kind
 * ONE_NONE until the next compaction.
 * Cost: O(log jobs) for an event, O(jobs) for a decision if some job was held
 * back by a quota or never seen, O(classes) for an estimate.
 */
#include "base/buf.h"
#include "base/fmath.h"
#include "policy/firn.h"
#include <string.h>

static const double recent_s = 1800; /* arrivals of a task count for so long */
static const double least_s = 60;
static const double unknown_s = 3600; /* of jobs of which nothing is known */

/* Ids rise by 1 at least from one entry to the next: the first and the last one
 * bound the place, and leave none to look at where no id is missing. */
static struct one_known *find_known(struct one *one, firn_job_id id)
{
    size_t low = 0, high = one->known.n;
    if (high > 0 && id >= one->known.at[0].id &&
        id <= one->known.at[high - 1].id) {
        size_t before = (size_t)(id - one->known.at[0].id);
        size_t behind = (size_t)(one->known.at[high - 1].id - id);
        low = behind < high ? high - 1 - behind : 0;
        high = before < high ? before + 1 : high;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (one->known.at[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    bool is_there = low < one->known.n && one->known.at[low].id == id;
    return is_there ? &one->known.at[low] : NULL;
}

const struct one_known *one_known_of(const struct one *one, firn_job_id id)
{
    struct one *same = (struct one *)(uintptr_t)one;
    return find_known(same, id);
}

int one_task(struct one *one, const char *app)
{
    int task = map_find(&one->tasks, app);
    if (task < 0 && one->tasks.n < ONE_TASKS) {
        task = map_add(&one->tasks, app);
        one->ended[task] = FIRN_NO_JOB;
    }
    return task >= 0 ? task : ONE_NONE;
}

static int kind_of(struct one *one, const struct firn_job_spec *spec)
{
    struct firn_buf name = {0};
    buf_printf(&name, "%s\n%s", spec->app, spec->group);
    int kind = map_add(&one->kinds, name.at);
    buf_release(&name);
    vec_reserve(&one->pasts, one->kinds.n);
    one->pasts.n = one->kinds.n;
    return kind;
}

/* What is left of a count of arrivals after so long. */
static double faded(double age_s)
{
    return fm_exp(-fmax(age_s, 0) / recent_s);
}

double one_arrivals(const struct one *one, int task, double now_s)
{
    return one->came[task] * faded(now_s - one->came_s[task]) / recent_s;
}

double one_gap_of_late_s(const struct one *one, double now_s, double prior_s)
{
    long n = one->ncame < ONE_LATELY ? one->ncame : ONE_LATELY;
    long missing = n < ONE_FEW ? ONE_FEW - n : 0;
    double since_s =
        n > 0 ? now_s - one->lately_s[(one->ncame - n) % ONE_LATELY] : 0;
    return (since_s + (double)missing * prior_s) / (double)(n + missing);
}

static void count_arrival(struct one *one, const struct one_known *known)
{
    one->lately_s[one->ncame++ % ONE_LATELY] = known->submit_s;
    int task = known->task;
    if (task == ONE_NONE)
        return;
    one->came[task] *= faded(known->submit_s - one->came_s[task]);
    one->came[task]++;
    one->came_s[task] = fmax(one->came_s[task], known->submit_s);
}

static struct one_known new_known(struct one *one, const struct firn_job *job)
{
    const struct firn_job_spec *spec = &job->spec;
    int gpus = spec->gpus > 0 ? spec->gpus : 1;
    return (struct one_known){.id = job->id,
                              .kind = kind_of(one, spec),
                              .task = spec->may_merge ? one_task(one, spec->app)
                                                      : ONE_NONE,
                              .gpus = gpus,
                              .types = job->type_mask,
                              .submit_s = spec->submit_s,
                              .work_s = spec->duration_s * gpus,
                              .fifo_s = (double)NAN};
}

void one_meet(struct one *one, const struct firn_job *job)
{
    if (one->known.n > 0 && one->known.at[one->known.n - 1].id >= job->id)
        return;
    firn_job_id next = one->met_last + 1; /* ids begin at 0 or 1 */
    one->has_missed = one->has_missed || job->id > (next > 1 ? next : 1);
    one->met_last = job->id;
    struct one_known known = new_known(one, job);
    count_arrival(one, &known);
    vec_add(&one->known, known);
}

void one_meet_late(struct one *one, const struct firn_job *const *jobs,
                   size_t n, double now_s)
{
    size_t at = 0;
    for (size_t i = 0; one->has_missed && i < n; i++) {
        while (at < one->known.n && one->known.at[at].id < jobs[i]->id)
            at++;
        if (at == one->known.n || one->known.at[at].id == jobs[i]->id)
            continue;
        struct one_known known = new_known(one, jobs[i]);
        known.submit_s = now_s;
        one_queue_job(one, &known);
        vec_add(&one->known, known);
        for (size_t k = one->known.n - 1; k > at; k--)
            one->known.at[k] = one->known.at[k - 1];
        one->known.at[at] = known;
    }
}

/* Takes the entries of ended jobs out once they are half of all. */
static void compact(struct one *one)
{
    size_t kept = 0;
    if (2 * one->nended < one->known.n || one->known.n < 64)
        return;
    for (size_t i = 0; i < one->known.n; i++)
        if (one->known.at[i].kind != ONE_NONE)
            one->known.at[kept++] = one->known.at[i];
    one->known.n = kept;
    one->nended = 0;
}

static int class_of(double work)
{
    int class = (int)(4 * fm_log(work > 1 ? work : 1) / fm_log(10));
    return class < ONE_CLASSES ? class : ONE_CLASSES - 1;
}

static void learn(struct one *one, const struct one_known *known)
{
    struct one_past *past = &one->pasts.at[known->kind];
    int class = class_of(known->work_s);
    past->sum[class] += known->work_s;
    past->count[class]++;
}

void one_observe(void *state, const struct firn_event *event)
{
    struct one *one = state;
    if (event->kind != FIRN_EVENT_DONE && event->kind != FIRN_EVENT_FAIL)
        return;
    struct one_known *known = find_known(one, event->job);
    if (known == NULL || known->kind == ONE_NONE)
        return;
    if (event->kind == FIRN_EVENT_DONE) {
        learn(one, known);
        if (known->task != ONE_NONE)
            one->ended[known->task] = event->job;
    }
    known->kind = ONE_NONE;
    one->nended++;
    compact(one);
}

/* ---- the work left ---- */

/* Mean of the work above `done` of jobs that had more than that; NaN: no such
 * job has ended. `n` gets their number. */
static double more_than(const struct one_past *past, double done, double *n)
{
    double sum = 0;
    *n = 0;
    for (int i = class_of(done); i < ONE_CLASSES; i++) {
        double mean = past->count[i] > 0 ? past->sum[i] / past->count[i] : 0;
        if (!(mean > done))
            continue;
        sum += past->sum[i] - done * past->count[i];
        *n += past->count[i];
    }
    return *n > 0 ? sum / *n : (double)NAN;
}

double one_expected_s(const struct one *one, const struct one_known *known)
{
    double n = 0, gpus = known->gpus;
    if (one->rules.knows == ONE_FORECAST)
        return known->work_s / gpus;
    if (one->rules.knows != ONE_SERVICE && known->kind != ONE_NONE) {
        double seen = more_than(&one->pasts.at[known->kind], 0, &n);
        if (n > 0)
            return seen / gpus;
    }
    return unknown_s;
}

static double guess_left_s(const struct one_round *round,
                           const struct firn_job *job)
{
    const struct one *one = round->one;
    double gpus = job->spec.gpus > 0 ? job->spec.gpus : 1, n = 0;
    double done_s = firn_job_done_s(job, round->view->now_s);
    double served_s = fmax(done_s, least_s);
    const struct one_known *known = one_known_of(one, job->id);
    if (one->rules.knows == ONE_SERVICE || known == NULL ||
        known->kind == ONE_NONE)
        return served_s;
    double seen =
        more_than(&one->pasts.at[known->kind], done_s * gpus, &n) / gpus;
    return n > 0 ? (n * seen + served_s) / (n + 1) : served_s;
}

/* Has its trainer reported how far the job is? */
static bool is_reported(const struct firn_job *job, double now_s)
{
    return firn_job_done_s(job, now_s) > 0 &&
           now_s - job->first_start_s >= least_s;
}

double one_left_s(const struct one_round *round, const struct firn_job *job)
{
    int knows = round->one->rules.knows;
    double left_s = guess_left_s(round, job);
    if (knows == ONE_FORECAST ||
        (knows == ONE_PROGRESS && is_reported(job, round->view->now_s))) {
        struct firn_way way = {.gpus = job->spec.gpus > 0 ? job->spec.gpus : 1,
                               .type = FIRN_ANY_TYPE,
                               .tunes = FIRN_TUNE_BATCH | FIRN_TUNE_FREEZE};
        double rate = firn_view_rate(round->view, job, &way);
        double time_s = firn_view_left_s(round->view, job, &way);
        left_s =
            job->spec.duration_s - firn_job_done_s(job, round->view->now_s);
        if (isfinite(time_s) && rate > 0)
            left_s = time_s * rate;
    }
    return left_s > 1e-3 ? left_s : 1e-3;
}

/* ---- over a restart ---- */

static void save_past(const struct one_past *past, struct firn_buf *out)
{
    for (int c = 0; c < ONE_CLASSES; c++) {
        keep_int(out, past->count[c]);
        if (past->count[c] > 0)
            keep_double(out, past->sum[c]);
    }
}

static void save_tasks(const struct one *one, struct firn_buf *out)
{
    keep_names(out, &one->tasks);
    for (size_t a = 0; a < one->tasks.n; a++) {
        keep_int(out, one->ended[a]);
        keep_double(out, one->came[a]);
        keep_double(out, one->came_s[a]);
        for (size_t b = 0; b < one->tasks.n; b++) {
            keep_double(out, one->pair[a][b]);
        }
    }
}

void one_past_save(const struct one *one, struct firn_buf *out)
{
    keep_names(out, &one->kinds);
    for (size_t i = 0; i < one->kinds.n; i++)
        save_past(&one->pasts.at[i], out);
    save_tasks(one, out);
    keep_int(out, one->ncame);
    for (int i = 0; i < ONE_LATELY; i++)
        keep_double(out, one->lately_s[i]);
    keep_int(out, (long)one->nended);
    keep_int(out, (long)one->known.n);
    for (size_t i = 0; i < one->known.n; i++) {
        const struct one_known *known = &one->known.at[i];
        keep_int(out, known->id);
        keep_int(out, known->kind);
        keep_int(out, known->task);
        keep_int(out, known->gpus);
        keep_int(out, (long)known->types);
        keep_double(out, known->submit_s);
        keep_double(out, known->work_s);
        keep_double(out, known->fifo_s);
    }
}

static void load_tasks(struct one *one, struct keep *keep)
{
    keep_read_names(keep, &one->tasks);
    if (one->tasks.n > ONE_TASKS)
        keep->is_bad = true;
    for (size_t a = 0; a < one->tasks.n && !keep->is_bad; a++) {
        one->ended[a] = (int)keep_read_int(keep, FIRN_NO_JOB, INT32_MAX);
        one->came[a] = keep_read_double(keep);
        one->came_s[a] = keep_read_double(keep);
        for (size_t b = 0; b < one->tasks.n; b++) {
            one->pair[a][b] = keep_read_double(keep);
        }
    }
}

static struct one_past load_past(struct keep *keep)
{
    struct one_past past = {0};
    for (int c = 0; c < ONE_CLASSES; c++) {
        past.count[c] = (int)keep_read_int(keep, 0, INT32_MAX);
        if (past.count[c] > 0)
            past.sum[c] = keep_read_double(keep);
    }
    return past;
}

void one_past_load(struct one *one, struct keep *keep)
{
    keep_read_names(keep, &one->kinds);
    for (size_t i = 0; i < one->kinds.n && !keep->is_bad; i++)
        vec_add(&one->pasts, load_past(keep));
    load_tasks(one, keep);
    one->ncame = keep_read_int(keep, 0, INT32_MAX);
    for (int i = 0; i < ONE_LATELY; i++)
        one->lately_s[i] = keep_read_double(keep);
    one->nended = (size_t)keep_read_int(keep, 0, INT32_MAX);
    long n = keep_read_int(keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep->is_bad; i++) {
        struct one_known known = {.id = (int)keep_read_int(keep, 0, INT32_MAX)};
        known.kind = (int)keep_read_int(keep, ONE_NONE, (long)one->kinds.n - 1);
        known.task = (int)keep_read_int(keep, ONE_NONE, (long)one->tasks.n - 1);
        known.gpus = (int)keep_read_int(keep, 1, INT32_MAX);
        known.types = (uint32_t)keep_read_int(keep, 0, UINT32_MAX);
        known.submit_s = keep_read_double(keep);
        known.work_s = keep_read_double(keep);
        known.fifo_s = keep_read_double(keep);
        vec_add(&one->known, known);
    }
}

void one_past_free(struct one *one)
{
    vec_release(&one->known);
    vec_release(&one->pasts);
    map_release(&one->kinds);
    map_release(&one->tasks);
}
