/* firn_rest.c - GPUs of several types for one job of the policy firn.
 *
 * The menus have few of the ways in which elastic threads could use several
 * types at once (firn_menu.c). GPUs that the assignment leaves free go to such
 * jobs (EasyScale, Li et al., SC 2023): again and again to the job that gains
 * most for each GPU by more GPUs of one type, if it gets at least `mix-min`
 * times as fast and that pays for its restart.
 *
 * Invariant: a job that is placed loses nothing here.
 * Cost: O(jobs x types x free GPUs) forecasts.
 */
#include "policy/firn.h"
#include <string.h>

enum { GROWTHS = 64, FINE = 8 };

/* A job with more GPUs than it has in the plan. */
struct growth {
    struct one_seat *seat;
    double rate, gain;
    int gpus, counts[FIRN_TYPES_MAX];
};

static void count_types(const struct one_round *round,
                        const struct firn_alloc *alloc, int *counts)
{
    memset(counts, 0, FIRN_TYPES_MAX * sizeof *counts);
    for (int i = 0; i < alloc->nparts; i++)
        counts[round->view->cluster->nodes[alloc->parts[i].node].type] +=
            __builtin_popcountll(alloc->parts[i].gpus);
}

/* What the job gains for each of `more` GPUs of a type. */
static void try_growth(const struct one_round *round, struct one_seat *seat,
                       firn_type_id type, int more, struct growth *best)
{
    const struct firn_alloc *has = firn_plan_of(round->plan, seat->job);
    const struct one_choice *now = &seat->choices[seat->chosen];
    struct growth next = {.seat = seat, .gpus = has->ngpus + more};
    count_types(round, has, next.counts);
    next.counts[type] += more;
    struct firn_way way = {.gpus = next.gpus,
                           .type = type,
                           .tunes = FIRN_TUNE_THREADS |
                                    (now->tunes & FIRN_TUNE_FREEZE),
                           .counts = next.counts};
    next.rate = firn_view_rate(round->view, seat->job, &way) * seat->gain;
    if (!(next.rate > now->rate * round->one->rules.mix_min))
        return;
    double was = 1, is = 1;
    if (now->is_held) {
        was = one_lasting(seat, seat->change_s, seat->left_s, now->rate, true);
        is = one_lasting(seat, seat->change_s, seat->left_s, next.rate, false);
    }
    next.gain = seat->weight * (next.rate * is - now->rate * was) / more;
    if (next.gain > best->gain)
        *best = next;
}

static bool may_mix(const struct one_round *round, const struct one_seat *seat)
{
    return seat->is_placed && seat->with == NULL && seat->beside == NULL &&
           seat->chosen != ONE_NONE && !seat->job->spec.one_type &&
           seat->job->spec.seq == 0 && !seat->is_settled &&
           seat->pinned == ONE_NONE &&
           !firn_plan_of(round->plan, seat->job)->is_shared;
}

static void best_growth(const struct one_round *round, struct one_seat *seat,
                        struct growth *best)
{
    const struct firn_view *view = round->view;
    int has = firn_plan_of(round->plan, seat->job)->ngpus;
    int most = firn_view_gpus_max(view, seat->job, FIRN_TUNE_THREADS);
    for (int t = 0; t < view->cluster->ntypes; t++) {
        int free = firn_plan_free_of(round->plan, t);
        if (free > most - has)
            free = most - has;
        if (!(seat->job->type_mask >> t & 1))
            continue;
        for (int more = 1; more <= free; more += more < FINE ? 1 : FINE)
            try_growth(round, seat, t, more, best);
        if (free > FINE && (free - FINE) % FINE != 0)
            try_growth(round, seat, t, free, best);
    }
}

static bool grow(const struct one_round *round, const struct growth *growth)
{
    struct one_seat *seat = growth->seat;
    struct one_choice next = seat->choices[seat->chosen];
    size_t mark = firn_plan_mark(round->plan);
    next.how.parallel = next.how.stages = next.how.tensor = 0;
    struct firn_how how = one_how(round, seat, &next);
    struct firn_want want = {
        .gpus = growth->gpus, .counts = growth->counts, .how = &how};
    firn_plan_drop(round->plan, seat->job);
    if (!firn_plan_give_want(round->plan, seat->job, &want)) {
        firn_plan_undo(round->plan, mark);
        return false;
    }
    next.tunes = FIRN_TUNE_THREADS | (next.tunes & FIRN_TUNE_FREEZE);
    firn_plan_tune(round->plan, seat->job, next.tunes);
    next.is_held = false;
    next.is_mixed = true;
    next.counts = NULL; /* nothing reads them from here on */
    next.rate = growth->rate;
    next.gpus = growth->gpus;
    seat->chosen = seat->n;
    *one_add(round, seat) = next;
    return true;
}

void one_mix(struct one_round *round)
{
    const struct one_rules *rules = &round->one->rules;
    if (!rules->mixed || !rules->threads || round->view->cluster->ntypes < 2)
        return;
    for (int i = 0; i < GROWTHS && firn_plan_free(round->plan) > 0; i++) {
        struct growth best = {0};
        for (size_t k = 0; k < round->n; k++)
            if (may_mix(round, &round->seats[k]))
                best_growth(round, &round->seats[k], &best);
        if (best.seat == NULL || !grow(round, &best))
            return;
    }
}
