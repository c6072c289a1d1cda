/* firn_due.c - the latest moment at which a job of the policy firn runs.
 *
 * A job's wait is bounded by the wait it would have had under first come,
 * first served. That queue is played beside the real one: jobs in the order of
 * submission, each with the GPUs it asked for and for the time it is expected
 * to take on them when it is submitted, over as many GPUs as are up, of
 * whatever type; a job that does not fit holds up those behind it. With f the
 * wait of a job in it, the job is due when it has been without GPUs for
 *
 *     max(`wait` x f, `wait-least`)                                   seconds
 *
 * in all, times between two runs included. A job that is due goes before every
 * job that is not, in the order of submission, and is not stopped again. For a
 * big gang this is a reservation: the others use its GPUs until its time
 * has come.
 *
 * So a job is without GPUs for at most this bound, one decision, and as long as
 * the jobs before it that are due too hold all GPUs that it could use.
 *
 * Invariant: `ends` is a heap by time; `free` GPUs and those in it add up to
 * the GPUs of the queue.
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

/* When the job would start; the queue then has it. */
static double enter(struct one_queue *queue, const struct one_known *known,
                    double time_s)
{
    int gpus = known->gpus < queue->gpus ? known->gpus : queue->gpus;
    double start_s = fmax(queue->last_s, known->submit_s);
    while (queue->ends.n > 0 &&
           (queue->free < gpus || queue->ends.at[0].at_s <= start_s)) {
        struct one_end end = take_first(queue);
        queue->free += end.gpus;
        start_s = fmax(start_s, end.at_s);
    }
    queue->free -= gpus;
    queue->last_s = start_s;
    struct one_end end = {start_s + time_s, gpus};
    vec_add(&queue->ends, end);
    sift_up(queue, queue->ends.n - 1);
    return start_s;
}

/* The queue follows the number of GPUs that are up. */
static void resize_queue(struct one_queue *queue, int gpus)
{
    queue->free += gpus - queue->gpus;
    queue->gpus = gpus;
}

void one_queue_jobs(struct one *one, const struct firn_view *view)
{
    resize_queue(&one->queue, view->gpus_up);
    size_t first = one->known.n;
    while (first > 0 && isnan(one->known.at[first - 1].fifo_s))
        first--;
    for (size_t i = first; i < one->known.n; i++) {
        struct one_known *known = &one->known.at[i];
        double start_s = enter(&one->queue, known, one_expected_s(one, known));
        known->fifo_s = start_s - known->submit_s;
    }
}

/* ---- the moment ---- */

double one_due_s(const struct one_round *round, const struct firn_job *job)
{
    const struct one_rules *rules = &round->one->rules;
    const struct one_known *known = one_known_of(round->one, job->id);
    if (rules->wait_times == 0 || known == NULL || !isfinite(known->fifo_s))
        return INFINITY;
    double held_s =
        job->held_s +
        (job->held.nparts > 0 ? round->view->now_s - job->since_s : 0);
    return job->spec.submit_s + held_s +
           fmax(rules->wait_times * known->fifo_s, rules->wait_least_s);
}

/* ---- over a restart ---- */

void one_queue_save(const struct one_queue *queue, struct firn_buf *out)
{
    keep_int(out, queue->gpus);
    keep_int(out, queue->free);
    keep_double(out, queue->last_s);
    keep_int(out, (long)queue->ends.n);
    for (size_t i = 0; i < queue->ends.n; i++) {
        keep_double(out, queue->ends.at[i].at_s);
        keep_int(out, queue->ends.at[i].gpus);
    }
}

void one_queue_load(struct one_queue *queue, struct keep *keep)
{
    queue->gpus = (int)keep_read_int(keep, 0, INT32_MAX);
    queue->free = (int)keep_read_int(keep, INT32_MIN, INT32_MAX);
    queue->last_s = keep_read_double(keep);
    long n = keep_read_int(keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep->is_bad; i++) {
        struct one_end end = {.at_s = keep_read_double(keep)};
        end.gpus = (int)keep_read_int(keep, 0, INT32_MAX);
        vec_add(&queue->ends, end);
    }
}
