/* firn_due.c - the latest moment at which a job of the policy firn runs.
 *
 * A job's wait is bounded by the wait it would have had under first come,
 * first served. That queue is played beside the real one: jobs in the order of
 * submission, each with the GPUs it asked for, of any types it accepts, for the
 * time it is expected to take on them when it is submitted; a job that does not
 * fit holds up those behind it. How GPUs lie on nodes does not count. With f
 * the wait of a job in this queue, a job that waits is due as soon as it has
 * been without GPUs for
 *
 *     max(`wait` x f, `wait-least`) + h / `turn`        seconds
 *
 * in all, h being the time for which it has held some.
 * A job that is due goes before every job that is not, in the order of
 * submission, and is not stopped before it has held GPUs for the share `turn`
 * of the time that it has waited. Then shorter jobs may have their turn again:
 * if long jobs that were due once could never be stopped, they would in the end
 * hold all GPUs and short ones would wait for hours. (A turn is rarely enough
 * to end a job, so it delays the others for little. Language models of up to 16
 * GPUs on Sia's cluster, 12 tuning traces at load 0.8: `turn` 0.05 has a mean
 * JCT of 0.991 and a 99th percentile of 1.00 of those with 0.1; on 4 of them,
 * with older rules, 0.3 had 1.035 and 0.98, 1 1.108 and 0.92, no bound 0.987
 * and 0.97. On 21 other tuning workloads 0.03 to 0.1 are equal.) For a big gang
 * this is a reservation: the others use its GPUs until its time has come.
 *
 * So a job waits at most this bound for its first start, and in its life at
 * most as long again as it holds GPUs; one decision longer, and as long as the
 * jobs before it that are due too have the share `due-share` of the GPUs that
 * it could use; the first of them has any share (firn_assign.c).
 *
 * A job that a quota holds back is not seen by the policy. If jobs that were
 * submitted after it have been seen, its wait counts from the moment at which
 * the quota lets it in, in both queues.
 *
 * Invariant: `ends` is a heap by time; the `free` GPUs of a type and those in
 * it add up to those that are up.
 * Cost: O(log jobs) for each submission.
 */
#include "policy/firn.h"

/* ---- the queue ---- */

static void sift_up(struct one_queue *queue, size_t i)
{
    for (; i > 0; i = (i - 1) / 2) {
        struct one_end *at = &queue->ends.at[i];
        struct one_end *above = &queue->ends.at[(i - 1) / 2];
        if (!(at->at_s < above->at_s))
            return;
        struct one_end end = *at;
        *at = *above;
        *above = end;
    }
}

static struct one_end take_first(struct one_queue *queue)
{
    struct one_end *at = queue->ends.at, first = at[0];
    size_t n = --queue->ends.n, i = 0;
    at[0] = at[n];
    for (size_t next = 1; next < n; next = 2 * i + 1) {
        if (next + 1 < n && at[next + 1].at_s < at[next].at_s)
            next++;
        if (!(at[next].at_s < at[i].at_s))
            break;
        struct one_end end = at[i];
        at[i] = at[next];
        at[next] = end;
        i = next;
    }
    return first;
}

static void add_end(struct one_queue *queue, struct one_end end)
{
    vec_add(&queue->ends, end);
    sift_up(queue, queue->ends.n - 1);
}

static int free_for(const struct one_queue *queue, uint32_t types)
{
    int free = 0;
    for (int t = 0; t < FIRN_TYPES_MAX; t++)
        if ((types >> t & 1) && queue->free[t] > 0)
            free += queue->free[t];
    return free;
}

/* Takes GPUs of the types given until `end_s`, of the type with the most free
 * ones first. */
static void take(struct one_queue *queue, uint32_t types, int gpus,
                 double end_s)
{
    while (gpus > 0) {
        int most = 0;
        for (int t = 1; t < FIRN_TYPES_MAX; t++)
            if ((types >> t & 1) &&
                (!(types >> most & 1) || queue->free[t] > queue->free[most]))
                most = t;
        int here = queue->free[most] < gpus ? queue->free[most] : gpus;
        if (!(types >> most & 1) || here <= 0)
            return; /* larger than what is up: it has that */
        queue->free[most] -= here;
        gpus -= here;
        add_end(queue, (struct one_end){end_s, most, here});
    }
}

/* When the job would start; the queue then has it. */
static double enter(struct one_queue *queue, const struct one_known *known,
                    double time_s)
{
    double start_s = fmax(queue->last_s, known->submit_s);
    while (queue->ends.n > 0 && (free_for(queue, known->types) < known->gpus ||
                                 queue->ends.at[0].at_s <= start_s)) {
        struct one_end end = take_first(queue);
        queue->free[end.type] += end.gpus;
        start_s = fmax(start_s, end.at_s);
    }
    take(queue, known->types, known->gpus, start_s + time_s);
    queue->last_s = start_s;
    return start_s;
}

/* The queue follows the GPUs that are up. The plan is empty. */
static void resize_queue(struct one_queue *queue, const struct firn_view *view,
                         const struct firn_plan *plan)
{
    for (int t = 0; t < view->cluster->ntypes; t++) {
        int up = firn_plan_free_of(plan, t);
        queue->free[t] += up - queue->up[t];
        queue->up[t] = up;
    }
}

void one_queue_job(struct one *one, struct one_known *known)
{
    double start_s = enter(&one->queue, known, one_expected_s(one, known));
    known->fifo_s = start_s - known->submit_s;
}

void one_queue_jobs(struct one *one, const struct firn_view *view,
                    const struct firn_plan *plan)
{
    resize_queue(&one->queue, view, plan);
    size_t first = one->known.n;
    while (first > 0 && isnan(one->known.at[first - 1].fifo_s))
        first--;
    for (size_t i = first; i < one->known.n; i++)
        one_queue_job(one, &one->known.at[i]);
}

/* ---- the moment ---- */

double one_due_s(const struct one_round *round, const struct firn_job *job)
{
    const struct one_rules *rules = &round->one->rules;
    const struct one_known *known = one_known_of(round->one, job->id);
    double now_s = round->view->now_s;
    if (rules->wait_times == 0 || known == NULL || !isfinite(known->fifo_s))
        return INFINITY;
    double bound_s =
        fmax(rules->wait_times * known->fifo_s, rules->wait_least_s);
    if (job->held.nparts == 0)
        return known->submit_s + job->held_s + bound_s +
               job->held_s / rules->turn;
    double held_s = job->held_s + now_s - job->since_s;
    double waited_s = now_s - known->submit_s - held_s;
    return waited_s >= fmax(bound_s, held_s / rules->turn) ? now_s : INFINITY;
}

/* ---- over a restart ---- */

void one_queue_save(const struct one_queue *queue, struct firn_buf *out)
{
    int ntypes = FIRN_TYPES_MAX;
    while (ntypes > 0 && queue->up[ntypes - 1] == 0 &&
           queue->free[ntypes - 1] == 0)
        ntypes--;
    keep_int(out, ntypes);
    for (int t = 0; t < ntypes; t++) {
        keep_int(out, queue->up[t]);
        keep_int(out, queue->free[t]);
    }
    keep_double(out, queue->last_s);
    keep_int(out, (long)queue->ends.n);
    for (size_t i = 0; i < queue->ends.n; i++) {
        keep_double(out, queue->ends.at[i].at_s);
        keep_int(out, queue->ends.at[i].type);
        keep_int(out, queue->ends.at[i].gpus);
    }
}

void one_queue_load(struct one_queue *queue, struct keep *keep)
{
    long ntypes = keep_read_int(keep, 0, FIRN_TYPES_MAX);
    for (long t = 0; t < ntypes; t++) {
        queue->up[t] = (int)keep_read_int(keep, 0, INT32_MAX);
        queue->free[t] = (int)keep_read_int(keep, INT32_MIN, INT32_MAX);
    }
    queue->last_s = keep_read_double(keep);
    long n = keep_read_int(keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep->is_bad; i++) {
        struct one_end end = {.at_s = keep_read_double(keep)};
        end.type = (int)keep_read_int(keep, 0, FIRN_TYPES_MAX - 1);
        end.gpus = (int)keep_read_int(keep, 0, INT32_MAX);
        vec_add(&queue->ends, end);
    }
}
