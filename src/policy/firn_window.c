/* firn_window.c - which jobs a decision of the policy firn looks at.
 *
 * Up to `effort` jobs, every event divides all GPUs anew. With more, a decision
 * looks at a window: `effort` / 2 running jobs, those that follow the last
 * window by id and again from the first one, and as many waiting jobs, those
 * with the least work and those that are due before them. All other jobs keep
 * what they have, and the GPUs of the window and the free ones are divided. So
 * a decision costs the same however many jobs there are, but for one walk over
 * the lists, and every running job has its turn again and again. Decisions are
 * then a second apart for each `effort` jobs, 60 s at most, or a second after
 * one that started a quarter of the waiting jobs it looked at; events between
 * them cost nothing. Once all running jobs in a row had their best way, there
 * is nothing to divide: decisions are made at every event, and look at waiting
 * jobs only, until one of these lacks GPUs.
 *
 * Jobs that share GPUs with another are in no window: what one of them gets
 * depends on the other.
 *
 * Invariant: asked twice at one time, the window is the same.
 * Cost: O(jobs) for the lists, nothing else grows with the jobs.
 */
#include "policy/firn.h"
#include <stdlib.h>

/* A waiting job, by what it is chosen. */
struct applicant {
    const struct firn_job *job;
    double key;
};

static bool is_before(const struct applicant *a, const struct applicant *b)
{
    return a->key != b->key ? a->key < b->key : a->job->id < b->job->id;
}

/* Keeps the first `most` by key in a heap with the last of them on top. */
static void apply_for(struct applicant *heap, size_t *n, size_t most,
                      struct applicant new)
{
    size_t i = *n;
    if (i < most) {
        heap[(*n)++] = new;
        for (; i > 0 && is_before(&heap[(i - 1) / 2], &heap[i]);
             i = (i - 1) / 2) {
            struct applicant above = heap[(i - 1) / 2];
            heap[(i - 1) / 2] = heap[i];
            heap[i] = above;
        }
        return;
    }
    if (!is_before(&new, &heap[0]))
        return;
    heap[0] = new;
    for (size_t at = 0, next = 1; next < most; next = 2 * at + 1) {
        if (next + 1 < most && is_before(&heap[next], &heap[next + 1]))
            next++;
        if (!is_before(&heap[at], &heap[next]))
            return;
        struct applicant below = heap[next];
        heap[next] = heap[at];
        heap[at] = below;
        at = next;
    }
}

/* GPU-seconds that are left of it by what was expected at its submission; below
 * 0 for a job that is due. */
static double key_of(const struct one_round *round, const struct firn_job *job)
{
    const struct one_known *known = one_known_of(round->one, job->id);
    double now_s = round->view->now_s;
    if (known == NULL)
        return 0;
    if (one_due_s(round, job) <= now_s)
        return job->spec.submit_s - now_s - 1;
    double left_s =
        one_expected_s(round->one, known) - firn_job_done_s(job, now_s);
    return fmax(left_s, 0) * known->gpus;
}

/* As many waiting jobs, and as many running ones, are looked at. */
static size_t half_of(const struct one *one)
{
    return (size_t)one->rules.effort / 2 + 1;
}

static size_t choose_waiting(const struct one_round *round,
                             const struct firn_job **out)
{
    size_t n = 0, most = half_of(round->one);
    struct applicant *heap = firn_view_alloc(round->view, most * sizeof *heap);
    const struct firn_job *const *waiting = round->waiting;
    for (size_t i = 0; i < round->view->nwaiting; i++)
        apply_for(heap, &n, most,
                  (struct applicant){waiting[i], key_of(round, waiting[i])});
    for (size_t i = 0; i < n; i++)
        out[i] = heap[i].job;
    return n;
}

/* Does the job have its GPUs alone? The plan keeps all. */
static bool is_alone(const struct one_round *round, const struct firn_job *job)
{
    return !job->held.is_shared ||
           (job->held.how.merged_with == FIRN_NO_JOB &&
            firn_plan_room(round->plan, job, 2) == job->held.ngpus);
}

static size_t choose_running(const struct one_round *round,
                             const struct firn_job **out)
{
    struct one *one = round->one;
    size_t nrunning = round->view->nrunning, first = 0, n = 0, i = 0;
    size_t most = half_of(one);
    const struct firn_job *const *running = firn_view_running(round->view);
    while (first < nrunning && running[first]->id <= one->window_from)
        first++;
    for (; i < nrunning && n < most; i++) {
        const struct firn_job *job = running[(first + i) % nrunning];
        if (is_alone(round, job))
            out[n++] = job;
    }
    if (i > 0)
        one->window_to = running[(first + i - 1) % nrunning]->id;
    return n;
}

static int by_id(const void *a, const void *b)
{
    const struct firn_job *x = *(const struct firn_job *const *)a;
    const struct firn_job *y = *(const struct firn_job *const *)b;
    return firn_cmp(x->id, y->id);
}

bool one_is_many(const struct one *one, const struct firn_view *view)
{
    return view->njobs > (size_t)one->rules.effort;
}

double one_gap_s(const struct one *one, const struct firn_view *view)
{
    double times = (double)view->njobs / one->rules.effort;
    if (times <= 1 || !one->is_tight)
        return 0;
    return one->is_filling ? 1 : fmin(times, 60);
}

/* Would a seat have used more GPUs? */
static bool lacks(const struct one_seat *seat)
{
    double best = 0, has = 0;
    for (int c = 0; c < seat->n; c++)
        best = fmax(best, seat->choices[c].value);
    if (seat->chosen != ONE_NONE)
        has = seat->choices[seat->chosen].value;
    return seat->n > 0 && !(has >= 0.999 * best);
}

void one_loosen(const struct one_round *round)
{
    struct one *one = round->one;
    size_t calm = (size_t)one->was_calm, started = 0;
    for (size_t i = 0; i < round->n; i++)
        started += round->seats[i].job->held.nparts == 0 &&
                   round->seats[i].chosen != ONE_NONE;
    one->is_filling = started > half_of(one) / 4;
    for (size_t i = 0; i < round->n; i++) {
        if (lacks(&round->seats[i])) {
            one->is_tight = true;
            one->is_calm = 0;
            return;
        }
        calm += round->seats[i].job->held.nparts > 0;
    }
    calm = calm < round->view->nrunning ? calm : round->view->nrunning;
    one->is_calm = (long)calm;
    one->is_tight = one->was_tight && calm < round->view->nrunning;
}

void one_window(struct one_round *round)
{
    struct one *one = round->one;
    const struct firn_view *view = round->view;
    firn_plan_keep_all(round->plan);
    if (!round->is_again)
        one->window_from = one->window_to;
    size_t most = 2 * half_of(one);
    const struct firn_job **jobs =
        firn_view_alloc(view, (most + 1) * sizeof(struct firn_job *));
    size_t n = choose_waiting(round, jobs);
    size_t nrunning = one->was_tight ? choose_running(round, jobs + n) : 0;
    for (size_t i = n; i < n + nrunning; i++)
        firn_plan_drop(round->plan, jobs[i]);
    qsort(jobs, n + nrunning, sizeof *jobs, by_id);
    round->jobs = jobs;
    round->njobs = n + nrunning;
}
