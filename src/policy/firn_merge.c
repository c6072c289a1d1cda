/* firn_merge.c - fine-tuning under the policy firn.
 *
 * Jobs that fine-tune one model for different tasks help each other (Ymir, Gao
 * et al., ICS 2024). Three things can be done for a job that has not begun:
 *
 *   weights   it begins with those of an ended job of the task that saves it
 *             the most work, if that is at least `after-min` times less
 *   together  it is paired with another that has not begun. Pairs are made
 *             greedily by TranWt, the time of both alone, one after the other,
 *             over their time together, above `pair-min`
 *   waiting   it waits up to `gather` seconds for a partner that is better than
 *             `gather-min`, if such pairs were seen; and for the weights of a
 *             job that runs, if it will end sooner with them
 *
 * By honest estimates the best of many ended jobs is mostly the most
 * overestimated one, so only estimates that promise much are believed. On
 * ViT-large and RoBERTa-large at loads 1 and 2, which no table reports, mean
 * JCT over that of ymir with firn's options is 0.983 and 0.967 without weights,
 * and with them for `after-min` 1.02: 1.087, 1.097; 2: 1.030, 1.078; 2.5:
 * 0.981, 0.938; 3: 0.964, 0.932; 4: 0.942, 0.954.
 *
 * What a task gains by another is asked when jobs of both are there
 * (firn_view_merge) and remembered for the time when the first has ended.
 *
 * Invariant: the answers do not depend on what is remembered of pairs whose
 * jobs are there: these are asked anew, so that a second decision on the same
 * view is the same.
 * Cost: O(tasks^2) questions a round, and O(new jobs^2) for pairs, of `POOL`
 * new jobs at most.
 */
#include "policy/firn.h"
#include <stdlib.h>
#include <string.h>

enum { POOL = 64, GPUS = 4 };

static bool may_merge(const struct one_round *round, const struct firn_job *job)
{
    return job->spec.may_merge && one_is_fresh(round, job);
}

static bool may_follow(const struct one_round *round,
                       const struct firn_job *job)
{
    return round->one->rules.weights && may_merge(round, job) &&
           firn_job_can(job, FIRN_CAN_AFTER);
}

/* ---- gains ---- */

/* One job of each task that there is, for questions: the first by id, and of
 * those that have not begun. */
struct samples {
    const struct firn_job *any[ONE_TASKS], *fresh[ONE_TASKS];
};

static void take_samples(const struct one_round *round, struct samples *samples)
{
    *samples = (struct samples){0};
    for (size_t i = 0; i < round->njobs; i++) {
        const struct firn_job *job = round->jobs[i];
        int task = job->spec.may_merge ? one_task(round->one, job->spec.app)
                                       : ONE_NONE;
        if (task == ONE_NONE)
            continue;
        if (samples->any[task] == NULL)
            samples->any[task] = job;
        if (samples->fresh[task] == NULL && may_follow(round, job))
            samples->fresh[task] = job;
    }
}

/* Times less work for `b` with the weights of `a`; 0: not known. */
static double gain_of(const struct one_round *round, const struct firn_job *a,
                      const struct firn_job *b)
{
    struct firn_way way = {.gpus = b->spec.gpus_min > 0 ? b->spec.gpus_min : 1,
                           .type = FIRN_ANY_TYPE};
    struct firn_merge merge;
    double alone_s = firn_view_left_s(round->view, b, &way);
    if (!firn_view_merge(round->view, a, b, FIRN_MERGE_AFTER, &way, &merge))
        return 0;
    return alone_s / fmax(merge.left_s[1] - merge.left_s[0], 1e-9);
}

static void learn_gains(const struct one_round *round)
{
    struct one *one = round->one;
    struct samples samples;
    take_samples(round, &samples);
    for (size_t a = 0; a < one->tasks.n; a++)
        for (size_t b = 0; b < one->tasks.n; b++)
            if (a != b && samples.any[a] != NULL && samples.fresh[b] != NULL)
                one->gain[a][b] =
                    gain_of(round, samples.any[a], samples.fresh[b]);
}

/* The best weights of an ended job. */
static void take_weights(const struct one_round *round, struct one_seat *seat)
{
    struct one *one = round->one;
    seat->after =
        seat->job->held.nparts > 0 ? seat->job->held.how.after : FIRN_NO_JOB;
    if (!may_follow(round, seat->job))
        return;
    int to = one_task(one, seat->job->spec.app);
    for (size_t from = 0; to != ONE_NONE && from < one->tasks.n; from++) {
        double gain = one->gain[from][to];
        if (one->ended[from] == FIRN_NO_JOB || gain < one->rules.after_min ||
            gain <= seat->gain)
            continue;
        seat->gain = gain;
        seat->after = one->ended[from];
    }
}

/* ---- pairs ---- */

struct pair {
    struct one_seat *a, *b;
    double weight;
};

static int best_first(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = firn_cmp(y->weight, x->weight);
    if (order == 0)
        order = firn_cmp(x->a->job->id, y->a->job->id);
    return order != 0 ? order : firn_cmp(x->b->job->id, y->b->job->id);
}

/* TranWt of the two; 0: not to be paired. */
static double pair_weight(const struct one_round *round,
                          const struct one_seat *a, const struct one_seat *b)
{
    int gpus = GPUS;
    gpus = a->job->spec.gpus_max < gpus ? a->job->spec.gpus_max : gpus;
    gpus = b->job->spec.gpus_max < gpus ? b->job->spec.gpus_max : gpus;
    struct firn_way way = {.gpus = gpus, .type = FIRN_ANY_TYPE};
    struct firn_merge merge;
    if (!firn_job_may_merge(a->job, b->job) ||
        !firn_view_merge(round->view, a->job, b->job, FIRN_MERGE_TOGETHER, &way,
                         &merge))
        return 0;
    double a_s = firn_view_left_s(round->view, a->job, &way) / a->gain;
    double b_s = firn_view_left_s(round->view, b->job, &way) / b->gain;
    return (2 * fmin(a_s, b_s) + fmax(a_s, b_s)) /
           (merge.left_s[0] + merge.left_s[1]);
}

static void remember_pair(const struct one_round *round,
                          const struct one_seat *a, const struct one_seat *b,
                          double weight)
{
    int x = one_task(round->one, a->job->spec.app);
    int y = one_task(round->one, b->job->spec.app);
    if (x != ONE_NONE && y != ONE_NONE)
        round->one->pair[x][y] = round->one->pair[y][x] = weight;
}

static size_t list_pairs(const struct one_round *round, struct one_seat **fresh,
                         size_t n, struct pair *pairs)
{
    size_t npairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            double weight = pair_weight(round, fresh[i], fresh[k]);
            if (weight == 0)
                continue;
            remember_pair(round, fresh[i], fresh[k], weight);
            if (weight > round->one->rules.pair_min)
                pairs[npairs++] = (struct pair){fresh[i], fresh[k], weight};
        }
    return npairs;
}

static void unite(const struct one_round *round, struct one_seat *a,
                  struct one_seat *b)
{
    a->with = b->job;
    a->is_new_pair = true;
    a->left_with_s = one_left_s(round, b->job);
    a->gain = 1;
    a->after = FIRN_NO_JOB;
    b->job = NULL; /* has no seat of its own */
}

/* Takes out the seats of those that sit with another. */
static void close_ranks(struct one_round *round)
{
    size_t kept = 0;
    for (size_t i = 0; i < round->n; i++)
        if (round->seats[i].job != NULL)
            round->seats[kept++] = round->seats[i];
    round->n = kept;
}

void one_match(struct one_round *round)
{
    struct one_seat **fresh =
        firn_view_alloc(round->view, (POOL + 1) * sizeof(struct one_seat *));
    size_t n = 0;
    if (!round->one->rules.merge)
        return;
    learn_gains(round);
    for (size_t i = 0; i < round->n; i++) {
        struct one_seat *seat = &round->seats[i];
        take_weights(round, seat);
        if (n < POOL && seat->with == NULL && may_merge(round, seat->job))
            fresh[n++] = seat;
    }
    if (n < 2)
        return;
    struct pair *pairs = firn_view_alloc(round->view, n * n * sizeof *pairs);
    size_t npairs = list_pairs(round, fresh, n, pairs);
    if (npairs > 1)
        qsort(pairs, npairs, sizeof *pairs, best_first);
    for (size_t i = 0; i < npairs; i++) {
        struct one_seat *a = pairs[i].a, *b = pairs[i].b;
        if (a->job != NULL && b->job != NULL && a->with == NULL &&
            b->with == NULL)
            unite(round, a, b);
    }
    close_ranks(round);
}

/* ---- waiting ---- */

/* Is a better partner to be expected soon? */
static bool awaits_partner(const struct one_round *round,
                           const struct one_seat *seat)
{
    struct one *one = round->one;
    double age_s = round->view->now_s - seat->job->spec.submit_s, best = 0;
    int task = one_task(one, seat->job->spec.app);
    for (size_t i = 0; task != ONE_NONE && i < one->tasks.n; i++)
        best = fmax(best, one->pair[task][i]);
    return age_s < one->rules.gather_s &&
           best >= one->rules.gather_min * seat->gain;
}

/* Will it end sooner with the weights of a job that runs? */
static bool awaits_weights(const struct one_round *round,
                           const struct one_seat *seat)
{
    struct one *one = round->one;
    const struct firn_view *view = round->view;
    const struct firn_job *const *running = firn_view_running(view);
    int to = one_task(one, seat->job->spec.app);
    double best = 0;
    for (int i = 0; i < seat->n; i++)
        if (seat->choices[i].gpus <= GPUS)
            best = fmax(best, seat->choices[i].rate);
    if (!(best > 0) || to == ONE_NONE)
        return false;
    for (size_t i = 0; i < view->nrunning; i++) {
        int from = running[i]->spec.may_merge
                       ? one_task(one, running[i]->spec.app)
                       : ONE_NONE;
        if (from == ONE_NONE || from == to || !(running[i]->rate > 0) ||
            !(one->gain[from][to] > seat->gain))
            continue;
        double then_s =
            firn_job_left_s(running[i], view->now_s) +
            seat->left_s * seat->gain / (best * one->gain[from][to]);
        if (then_s < one->rules.after_gain * seat->left_s / best)
            return true;
    }
    return false;
}

void one_hold_back(struct one_round *round, struct one_seat *seat)
{
    if (!round->one->rules.merge || seat->with != NULL ||
        !may_merge(round, seat->job))
        return;
    seat->waits = awaits_partner(round, seat) ||
                  (may_follow(round, seat->job) && awaits_weights(round, seat));
}
