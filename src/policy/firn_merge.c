/* firn_merge.c - fine-tuning under the policy firn.
 *
 * Jobs that fine-tune one model for different tasks help each other (Ymir, Gao
 * et al., ICS 2024). Three things can be done for a job that has not begun:
 *
 *   weights   it begins with those of an ended job of the task that saves it
 *             the most work (firn_view_after)
 *   together  it is paired with another that has not begun. Pairs are made
 *             greedily by TranWt, the time of both alone, one after the other,
 *             over their time together, above `pair-min`
 *   waiting   for a partner, or for the weights of a job that runs, if it will
 *             end sooner with them
 *
 * Weights. By honest estimates the best of many ended jobs is mostly the most
 * overestimated one. So weights that a job of the task has used to its end are
 * told from those that were only estimated: the former are used where they save
 * `after-known` times the work, the latter from `after-min` times on and by one
 * job of a task at a time, a trial. A trial costs two or three epochs where it
 * fails, because the engine's guard ends it, and is used by every later job
 * where it does not. (RoBERTa saves up to nine epochs of ten by weights, ViT
 * hardly any.)
 *
 * Waiting for a partner. With l the jobs of a task that come in a second, by
 * those of the last half hour, and S the seconds that such a partner would save
 * the job, waiting a second saves the sum of l S over the tasks: the job waits
 * while that is more than `gather-min`, up to `gather` seconds. What a partner
 * of a task would save is asked of any job of that task that is there.
 *
 * A pair is parted if the metric of either job has not improved in two epochs,
 * or if by these both would end sooner alone (merger_harm()). On the tuning
 * traces below that makes no difference to the mean (0.98 to 1.02).
 *
 * Mean JCT over that of ymir with firn's options on ViT-large and RoBERTa-large
 * at load 1, and both at load 2, six seeds of the estimator each (eight and
 * four in the first row, whose partners had to be better than 1.3); no table
 * reports them:
 *
 *   before: no trials, 120 s of waiting    .94  1.02  1.00   .99
 *   now                                    .91   .91   .97   .73
 *   with `pair-min` 1.35                   .93   .90   .97   .73
 *   with `pair-min` 1.5                    .94   .90   .97   .74
 *   1.35, `after-min` 1.6                  .95   .93   .97   .78
 *   1.35, `gather-min` 1                   .96   .88   .97   .78
 *   1.35, `gather` 150                     .97   .89  1.02   .73
 *   1.35, `gather` 900                     .93   .95   .99   .85
 *   1.35, `gather` 900, `after-min` 2.5    .92  1.00   .97   .84
 *
 * Tried and left out: waiting only for partners of tasks that were seen in a
 * pair before (.96 .83 1.02 .76: RoBERTa's pairs are not worth waiting for, and
 * ViT's, which are, become known too late).
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

/* Times less work for `b` with the weights of `a`, which has not ended; 0: not
 * known. */
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

/* Tasks of which a job has begun with weights that were never measured to the
 * end for it: one such trial at a time. */
struct trials {
    bool is_on[ONE_TASKS];
};

/* Looks at all running jobs, and so only where a seat may use the answer. */
static void find_trials(const struct one_round *round, struct trials *trials)
{
    *trials = (struct trials){0};
    size_t k = 0;
    while (k < round->n && !may_follow(round, round->seats[k].job))
        k++;
    if (k == round->n)
        return;
    const struct firn_job *const *running = firn_view_running(round->view);
    for (size_t i = 0; i < round->view->nrunning; i++) {
        const struct firn_job *job = running[i];
        struct firn_after after;
        int task = job->held.how.after != FIRN_NO_JOB
                       ? one_task(round->one, job->spec.app)
                       : ONE_NONE;
        if (task != ONE_NONE &&
            firn_view_after(round->view, job->held.how.after, job, &after))
            trials->is_on[task] = trials->is_on[task] || after.ended == 0;
    }
}

/* The best weights of an ended job: of those that were measured to the end, and
 * of the others if no job of the task tries such now. */
static void take_weights(const struct one_round *round, struct trials *trials,
                         struct one_seat *seat)
{
    const struct one *one = round->one;
    seat->after =
        seat->job->held.nparts > 0 ? seat->job->held.how.after : FIRN_NO_JOB;
    if (!may_follow(round, seat->job))
        return;
    int to = one_task(round->one, seat->job->spec.app);
    bool is_trial = false;
    for (size_t from = 0; to != ONE_NONE && from < one->tasks.n; from++) {
        struct firn_after after;
        if ((int)from == to ||
            !firn_view_after(round->view, one->ended[from], seat->job, &after))
            continue;
        double least =
            after.ended > 0 ? one->rules.after_known : one->rules.after_min;
        if (after.gain < least || after.gain <= seat->gain ||
            (after.ended == 0 && trials->is_on[to]))
            continue;
        seat->gain = after.gain;
        seat->after = one->ended[from];
        is_trial = after.ended == 0;
    }
    if (is_trial)
        trials->is_on[to] = true;
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

/* TranWt of two jobs, which weights of ended jobs would save `gain_a` and
 * `gain_b` times the work alone; 0: not to be paired. */
static double pair_weight(const struct one_round *round,
                          const struct firn_job *a, double gain_a,
                          const struct firn_job *b, double gain_b)
{
    int gpus = GPUS;
    gpus = a->spec.gpus_max < gpus ? a->spec.gpus_max : gpus;
    gpus = b->spec.gpus_max < gpus ? b->spec.gpus_max : gpus;
    struct firn_way way = {.gpus = gpus, .type = FIRN_ANY_TYPE};
    struct firn_merge merge;
    if (!firn_job_may_merge(a, b) ||
        !firn_view_merge(round->view, a, b, FIRN_MERGE_TOGETHER, &way, &merge))
        return 0;
    double a_s = firn_view_left_s(round->view, a, &way) / gain_a;
    double b_s = firn_view_left_s(round->view, b, &way) / gain_b;
    return (2 * fmin(a_s, b_s) + fmax(a_s, b_s)) /
           (merge.left_s[0] + merge.left_s[1]);
}

static void remember_pair(const struct one_round *round,
                          const struct firn_job *a, const struct firn_job *b,
                          double weight)
{
    int x = one_task(round->one, a->spec.app);
    int y = one_task(round->one, b->spec.app);
    if (x != ONE_NONE && y != ONE_NONE)
        round->one->pair[x][y] = round->one->pair[y][x] = weight;
}

/* Asks what new jobs would gain by partners of each task that has a job, so
 * that it is known when the next one of that task comes: of each task the first
 * job by id, of new ones and of all. */
static void learn_pairs(const struct one_round *round)
{
    const struct firn_job *any[ONE_TASKS] = {0}, *fresh[ONE_TASKS] = {0};
    size_t ntasks = round->one->tasks.n;
    for (size_t i = 0; i < round->njobs; i++) {
        const struct firn_job *job = round->jobs[i];
        int task = job->spec.may_merge ? one_task(round->one, job->spec.app)
                                       : ONE_NONE;
        if (task == ONE_NONE)
            continue;
        if (any[task] == NULL)
            any[task] = job;
        if (fresh[task] == NULL && may_merge(round, job))
            fresh[task] = job;
    }
    for (size_t x = 0; x < ntasks; x++)
        for (size_t y = 0; y < ntasks; y++) {
            if (x == y || fresh[x] == NULL || any[y] == NULL)
                continue;
            double weight = pair_weight(round, fresh[x], 1, any[y], 1);
            if (weight > 0)
                remember_pair(round, fresh[x], any[y], weight);
        }
}

static size_t list_pairs(const struct one_round *round, struct one_seat **fresh,
                         size_t n, struct pair *pairs)
{
    size_t npairs = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            double weight = pair_weight(round, fresh[i]->job, fresh[i]->gain,
                                        fresh[k]->job, fresh[k]->gain);
            if (weight > 0)
                remember_pair(round, fresh[i]->job, fresh[k]->job, weight);
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
    struct trials trials;
    if (!round->one->rules.merge)
        return;
    find_trials(round, &trials);
    for (size_t i = 0; i < round->n; i++) {
        struct one_seat *seat = &round->seats[i];
        take_weights(round, &trials, seat);
        if (n < POOL && seat->with == NULL && may_merge(round, seat->job))
            fresh[n++] = seat;
    }
    if (n > 0)
        learn_pairs(round);
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

/* The rate of a job alone in its fastest way of a few GPUs; 0: none. */
static double fair_rate(const struct one_seat *seat)
{
    double best = 0;
    for (int i = 0; i < seat->n; i++)
        if (seat->choices[i].gpus <= GPUS)
            best = fmax(best, seat->choices[i].rate);
    return best;
}

/* Is it worth waiting for a partner? If the time that it would save with the
 * partners that come in a second, by the jobs of late, is more than
 * `gather-min` seconds. */
static bool awaits_partner(const struct one_round *round,
                           const struct one_seat *seat)
{
    struct one *one = round->one;
    double now_s = round->view->now_s, saved = 0;
    double alone_s = seat->left_s / fmax(fair_rate(seat), 1e-9);
    int task = one_task(one, seat->job->spec.app);
    for (size_t i = 0; task != ONE_NONE && i < one->tasks.n; i++)
        if (one->pair[task][i] > one->rules.pair_min * seat->gain)
            saved += one_arrivals(one, (int)i, now_s) * alone_s *
                     (1 - seat->gain / one->pair[task][i]);
    return now_s - seat->job->spec.submit_s < one->rules.gather_s &&
           saved > one->rules.gather_min;
}

/* Will it end sooner with the weights of a job that runs? Of tasks only of
 * which no job has ended: the others' weights are there. */
static bool awaits_weights(const struct one_round *round,
                           const struct one_seat *seat)
{
    struct one *one = round->one;
    const struct firn_view *view = round->view;
    const struct firn_job *const *running = firn_view_running(view);
    int to = one_task(one, seat->job->spec.app);
    double best = fair_rate(seat);
    if (!(best > 0) || to == ONE_NONE)
        return false;
    for (size_t i = 0; i < view->nrunning; i++) {
        int from = running[i]->spec.may_merge
                       ? one_task(one, running[i]->spec.app)
                       : ONE_NONE;
        if (from == ONE_NONE || from == to || !(running[i]->rate > 0) ||
            one->ended[from] != FIRN_NO_JOB)
            continue;
        double gain = gain_of(round, running[i], seat->job);
        double then_s = firn_job_left_s(running[i], view->now_s) +
                        seat->left_s * seat->gain / (best * fmax(gain, 1e-9));
        if (gain >= one->rules.after_min && gain > seat->gain &&
            then_s < one->rules.after_gain * seat->left_s / best)
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
