/* firn_menu.c - the ways in which a seat of the policy firn could run.
 *
 * A job alone: the offers of firn/offer.h with all freedoms that the options
 * leave: numbers of GPUs, types, a tuned batch or elastic threads, frozen
 * layers, the ways to spread a model. What the job holds is always on its
 * menu, at the rate it has on as many nodes as it is on; if it would be faster
 * on fewer nodes, that is another choice. Some jobs are faster on more nodes,
 * where fewer of their GPUs are on one: YOLOv3 on 5 V100 of three nodes by 23 %
 * than on two, as measured. (Held GPUs had the rate of as few nodes as can be
 * before, if that was lower, and such jobs were moved to slower GPUs: with it
 * 240 tuning jobs, one of twelve YOLOv3, have a mean JCT of 0.95 and,
 * with resizes without a stop, 0.91 of that; 21 other workloads are equal to
 * 1 %.) New GPUs are always on as few nodes as can be. Two that are trained
 * together have the numbers of GPUs and types that both have.
 *
 * Several types: elastic threads use GPUs of several types at once (EasyScale,
 * Li et al., SC 2023). Where no type alone has as many GPUs as a job can use,
 * its menu has up to `MIXES` ways on two types, 1, 2, 4, 8 or 16 GPUs of each:
 * of each total the two that get most of their GPUs, if they are `mix-min`
 * times as fast as either part. The rest of the mixes are made from what is
 * left free (firn_rest.c). Measured on traces of 100 elastic jobs, seeds 11 to
 * 42, on 2 V100, 4 P100 and 4 T4, mean JCT in seconds by load:
 *
 *     load                                     0.3   0.5     1     2     4
 *     no mixes in the assignment              1802  1938  2345  3005  3941
 *     those that are held                     1781  1899  2310  2997  3943
 *     those and the ones made here            1777  1893  2299  2982  3923
 *
 * In the first row, a mix that was held could only be kept, and its GPUs of all
 * types but one were kept from all jobs. On EasyScale's 64 GPUs, at loads of
 * 0.8 to 10, the third row differs from the second by -0.3 to 0.1 %. The mixes
 * cost a tenth more processor time with 1500 jobs on 480 GPUs of three types;
 * without the condition that no type alone has enough 60 % more, for no gain.
 *
 * A job of which nothing is forecast is taken to gain (GPUs / asked)^0.7.
 *
 * Cost: O(offers) forecasts for each seat, and 25 at most for each two types.
 */
#include "base/fmath.h"
#include "policy/firn.h"
#include <string.h>

static const double unknown_scaling = 0.7;

struct one_choice *one_add(const struct one_round *round, struct one_seat *seat)
{
    if (seat->n == seat->cap) {
        int cap = seat->cap > 0 ? 2 * seat->cap : 24;
        struct one_choice *all =
            firn_view_alloc(round->view, (size_t)cap * sizeof *all);
        if (seat->n > 0)
            memcpy(all, seat->choices, (size_t)seat->n * sizeof *all);
        seat->choices = all;
        seat->cap = cap;
    }
    struct one_choice *choice = &seat->choices[seat->n++];
    const struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    *choice = (struct one_choice){.how = how};
    return choice;
}

/* The type of all GPUs it holds; ONE_NONE: it holds none, or several types. */
static firn_type_id type_held(const struct firn_view *view,
                              const struct firn_job *job)
{
    const struct firn_node *nodes = view->cluster->nodes;
    if (job->held.nparts == 0)
        return ONE_NONE;
    firn_type_id type = nodes[job->held.parts[0].node].type;
    for (int i = 1; i < job->held.nparts; i++)
        if (nodes[job->held.parts[i].node].type != type)
            return ONE_NONE;
    return type;
}

/* The forecast for what the job holds; `counts`: of several types. */
static double rate_held(const struct one_round *round,
                        const struct firn_job *job, firn_type_id type,
                        const int *counts)
{
    const struct firn_alloc *held = &job->held;
    struct firn_way way = {.gpus = held->ngpus,
                           .nodes = firn_alloc_nodes(held),
                           .type = type,
                           .tunes = held->tunes,
                           .passes = held->how.passes,
                           .tensor = held->how.tensor,
                           .parallel = held->how.parallel,
                           .stages = held->how.stages,
                           .counts = counts};
    return firn_view_rate(round->view, job, &way);
}

/* ---- what it holds ---- */

static struct one_choice *add_held(const struct one_round *round,
                                   struct one_seat *seat, double rate)
{
    const struct firn_alloc *held = &seat->job->held;
    struct one_choice *choice = one_add(round, seat);
    choice->type = seat->held_type;
    choice->gpus = choice->taken = held->ngpus;
    choice->rate = rate > 0 ? rate : 1;
    choice->how = held->how;
    choice->tunes = held->tunes;
    choice->is_held = true;
    return choice;
}

/* What it holds is of several types: elastic threads. */
static void add_held_mixed(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_view *view = round->view;
    const struct firn_alloc *held = &seat->job->held;
    int *counts = firn_view_alloc(view, FIRN_TYPES_MAX * sizeof *counts);
    int most = 0;
    for (int i = 0; i < held->nparts; i++)
        counts[view->cluster->nodes[held->parts[i].node].type] +=
            __builtin_popcountll(held->parts[i].gpus);
    for (int t = 0; t < view->cluster->ntypes; t++)
        if (counts[t] > counts[most])
            most = t;
    double rate = rate_held(round, seat->job, most, counts);
    struct one_choice *choice = add_held(round, seat, rate);
    choice->type = most;
    choice->taken = counts[most];
    choice->is_mixed = true;
    choice->counts = counts;
}

/* Is this choice what the job holds? */
static bool is_held(const struct one_seat *seat,
                    const struct one_choice *choice)
{
    const struct firn_alloc *held = &seat->job->held;
    return seat->held_type == choice->type && held->ngpus == choice->gpus &&
           held->how.parallel == choice->how.parallel &&
           held->how.stages == choice->how.stages &&
           held->how.tensor == choice->how.tensor &&
           ((held->tunes ^ choice->tunes) & FIRN_TUNE_THREADS) == 0;
}

/* The held choice has the rate it has on its nodes; other nodes are another
 * choice. */
static void spread_held(const struct one_round *round, struct one_seat *seat,
                        int index)
{
    struct one_choice packed = seat->choices[index];
    double rate = rate_held(round, seat->job, packed.type, NULL);
    seat->choices[index].is_held = true;
    if (!(rate > 0) || (rate >= 0.98 * packed.rate && rate <= packed.rate))
        return;
    seat->choices[index].rate = rate;
    if (rate < packed.rate)
        *one_add(round, seat) = packed;
}

/* ---- several types ---- */

enum { MIXES = 12, MIXES_OF_TOTAL = 2, NSIZES = 5 };

static const int mix_sizes[NSIZES] = {1, 2, 4, 8, 16};

/* A way on GPUs of two types. */
struct mix {
    firn_type_id types[2];
    int gpus[2];
    double rate;
    double score; /* rate over what the GPUs do in the best way of each type */
};

struct mixes {
    struct mix at[MIXES];
    int n;
    unsigned tunes;
    double each[FIRN_TYPES_MAX]; /* most rate for a GPU of a type alone */
    int most[FIRN_TYPES_MAX];    /* GPUs of a type alone on the menu */
};

/* The rate of the best choice on at most as many GPUs of one type. */
static double rate_alone(const struct one_seat *seat, firn_type_id type,
                         int gpus)
{
    double best = 0;
    for (int i = 0; i < seat->n; i++)
        if (seat->choices[i].type == type && seat->choices[i].gpus <= gpus)
            best = fmax(best, seat->choices[i].rate);
    return best;
}

static int total_of(const struct mix *mix)
{
    return mix->gpus[0] + mix->gpus[1];
}

/* Keeps the mix, in place of the worst one if there are enough. */
static void keep_mix(struct mixes *mixes, const struct mix *mix)
{
    int total = total_of(mix), same = 0, worst = ONE_NONE;
    for (int i = 0; i < mixes->n; i++)
        same += total_of(&mixes->at[i]) == total;
    if (same < MIXES_OF_TOTAL && mixes->n < MIXES) {
        mixes->at[mixes->n++] = *mix;
        return;
    }
    for (int i = 0; i < mixes->n; i++) {
        if (same == MIXES_OF_TOTAL && total_of(&mixes->at[i]) != total)
            continue;
        if (worst == ONE_NONE || mixes->at[i].score < mixes->at[worst].score)
            worst = i;
    }
    if (mix->score > mixes->at[worst].score)
        mixes->at[worst] = *mix;
}

static void try_mix(const struct one_round *round, const struct one_seat *seat,
                    struct mix mix, struct mixes *mixes)
{
    int counts[FIRN_TYPES_MAX] = {0};
    for (int i = 0; i < 2; i++)
        counts[mix.types[i]] = mix.gpus[i];
    struct firn_way way = {.gpus = total_of(&mix),
                           .type = mix.types[0],
                           .tunes = mixes->tunes,
                           .counts = counts};
    mix.rate = firn_view_rate(round->view, seat->job, &way);
    double least = fmax(rate_alone(seat, mix.types[0], mix.gpus[0]),
                        rate_alone(seat, mix.types[1], mix.gpus[1]));
    if (!(mix.rate > least * round->one->rules.mix_min))
        return;
    mix.score = mix.rate / (mix.gpus[0] * mixes->each[mix.types[0]] +
                            mix.gpus[1] * mixes->each[mix.types[1]]);
    keep_mix(mixes, &mix);
}

static void add_mix(const struct one_round *round, struct one_seat *seat,
                    const struct mix *mix, unsigned tunes)
{
    int *counts = firn_view_alloc(round->view, FIRN_TYPES_MAX * sizeof *counts);
    int most = mix->gpus[1] > mix->gpus[0] ? 1 : 0;
    struct one_choice *choice = one_add(round, seat);
    for (int i = 0; i < 2; i++)
        counts[mix->types[i]] = mix->gpus[i];
    choice->type = mix->types[most];
    choice->gpus = total_of(mix);
    choice->taken = mix->gpus[most];
    choice->rate = mix->rate;
    choice->tunes = tunes;
    choice->is_mixed = true;
    choice->counts = counts;
}

static bool may_mix(const struct one_round *round, const struct one_seat *seat,
                    unsigned kinds)
{
    const unsigned needs = FIRN_OFFER_THREADS | FIRN_OFFER_ELASTIC;
    const struct firn_job_spec *spec = &seat->job->spec;
    return round->one->rules.mixed && (kinds & needs) == needs &&
           round->view->cluster->ntypes > 1 && seat->n > 0 &&
           spec->gpus_max > 1 && !spec->one_type && spec->seq == 0;
}

/* What the menu has of each type alone. */
static void survey(const struct one_seat *seat, struct mixes *mixes)
{
    mixes->tunes =
        FIRN_TUNE_THREADS | (seat->choices[0].tunes & FIRN_TUNE_FREEZE);
    for (int i = 0; i < seat->n; i++) {
        const struct one_choice *choice = &seat->choices[i];
        mixes->each[choice->type] =
            fmax(mixes->each[choice->type], choice->rate / choice->gpus);
        if (choice->gpus > mixes->most[choice->type])
            mixes->most[choice->type] = choice->gpus;
    }
}

/* Adds the best ways on two types, of which neither alone has as many GPUs as
 * the job can use. */
static void add_mixes(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_job *job = seat->job;
    int ntypes = round->view->cluster->ntypes;
    int most = firn_view_gpus_max(round->view, job, FIRN_TUNE_THREADS);
    struct mixes mixes = {0};
    survey(seat, &mixes);
    for (int k = 0; k < ntypes * ntypes; k++) {
        int t = k / ntypes, u = k % ntypes;
        if (t >= u || mixes.most[t] == 0 || mixes.most[u] == 0 ||
            mixes.most[t] >= most || mixes.most[u] >= most)
            continue;
        for (int m = 0; m < NSIZES * NSIZES; m++) {
            struct mix mix = {
                .types = {t, u},
                .gpus = {mix_sizes[m / NSIZES], mix_sizes[m % NSIZES]}};
            if (mix.gpus[0] <= mixes.most[t] && mix.gpus[1] <= mixes.most[u] &&
                total_of(&mix) >= job->spec.gpus_min && total_of(&mix) <= most)
                try_mix(round, seat, mix, &mixes);
        }
    }
    for (int i = 0; i < mixes.n; i++)
        add_mix(round, seat, &mixes.at[i], mixes.tunes);
}

/* ---- alone ---- */

static unsigned kinds_of(const struct one_rules *rules)
{
    unsigned kinds = FIRN_OFFER_TYPES | FIRN_OFFER_PARALLEL | FIRN_OFFER_PLANS;
    kinds |= rules->resize ? FIRN_OFFER_ELASTIC : 0u;
    kinds |= rules->batch ? FIRN_OFFER_BATCH : 0u;
    kinds |= rules->freeze ? FIRN_OFFER_FREEZE : 0u;
    kinds |= rules->threads ? FIRN_OFFER_THREADS : 0u;
    return kinds;
}

static bool add_offer(const struct one_round *round, struct one_seat *seat,
                      const struct firn_offer *offer)
{
    const struct firn_way *way = &offer->way;
    if (way->gpus < seat->job->spec.gpus_min ||
        way->gpus > seat->job->spec.gpus_max || way->counts != NULL ||
        way->type == FIRN_ANY_TYPE ||
        (way->tensor > 0 && seat->job->spec.seq > 0) ||
        !(seat->job->type_mask >> way->type & 1))
        return false;
    struct one_choice *choice = one_add(round, seat);
    choice->type = way->type;
    choice->gpus = choice->taken = way->gpus;
    choice->rate = offer->rate;
    choice->tunes = way->tunes;
    choice->how.parallel = way->parallel;
    choice->how.stages = way->stages;
    choice->how.tensor = way->tensor;
    if (one_may_spread(round, seat, way))
        one_spread(round, seat, choice);
    if (!is_held(seat, choice))
        return false;
    spread_held(round, seat, seat->n - 1);
    return true;
}

/* Nothing is forecast of the job: its fewest, asked and most GPUs. */
static bool add_unknown(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_job_spec *spec = &seat->job->spec;
    const struct firn_cluster *cluster = round->view->cluster;
    int gpus[] = {spec->gpus, spec->gpus_min, spec->gpus_max};
    struct firn_way way = {.gpus = spec->gpus, .type = FIRN_ANY_TYPE};
    bool any_held = false;
    if (!isnan(firn_view_rate(round->view, seat->job, &way)))
        return false;
    for (int t = 0; t < cluster->ntypes; t++)
        for (int i = 0; i < (round->one->rules.resize ? 3 : 1); i++) {
            if (!(seat->job->type_mask >> t & 1) ||
                (i > 0 && gpus[i] == gpus[0]))
                continue;
            struct one_choice *choice = one_add(round, seat);
            choice->type = t;
            choice->gpus = choice->taken = gpus[i];
            choice->rate =
                cluster->types[t].speed *
                fm_pow((double)gpus[i] / spec->gpus, unknown_scaling);
            choice->is_held = is_held(seat, choice);
            any_held = any_held || choice->is_held;
        }
    return any_held;
}

static void menu_alone(const struct one_round *round, struct one_seat *seat,
                       unsigned kinds)
{
    const struct firn_job *job = seat->job;
    size_t n;
    bool any_held = false;
    seat->held_type = type_held(round->view, job);
    const struct firn_offer *offers = firn_offers(round->view, job, kinds, &n);
    for (size_t i = 0; i < n; i++)
        if (add_offer(round, seat, &offers[i]))
            any_held = true;
    if (n == 0)
        any_held = add_unknown(round, seat);
    else if (may_mix(round, seat, kinds))
        add_mixes(round, seat);
    if (job->held.nparts > 0 && seat->held_type == ONE_NONE)
        add_held_mixed(round, seat);
    else if (job->held.nparts > 0 && !any_held)
        add_held(round, seat, rate_held(round, job, seat->held_type, NULL));
    for (int i = 0; i < seat->n; i++) {
        seat->choices[i].rate *= seat->gain;
        /* A guest holds no GPU of its own, nor do two that are parted. */
        if (seat->is_guest || seat->parted != NULL)
            seat->choices[i].is_held = false;
    }
}

/* ---- trained together ---- */

static double best_of(const struct one_seat *seat)
{
    double best = 0;
    for (int i = 0; i < seat->n; i++)
        best = fmax(best, seat->choices[i].rate / seat->choices[i].gpus);
    return best;
}

/* One way of both. */
static bool add_both(const struct one_round *round, struct one_seat *seat,
                     const struct one_choice *alone)
{
    struct firn_way way = {.gpus = alone->gpus, .type = alone->type};
    struct firn_merge merge;
    if (!firn_view_merge(round->view, seat->job, seat->with,
                         FIRN_MERGE_TOGETHER, &way, &merge))
        return false;
    struct one_choice *choice = one_add(round, seat);
    choice->type = alone->type;
    choice->gpus = choice->taken = alone->gpus;
    choice->tunes = alone->tunes;
    choice->rate = seat->left_s / fmax(merge.left_s[0], 1e-3);
    choice->rate_with = seat->left_with_s / fmax(merge.left_s[1], 1e-3);
    choice->is_held = !seat->is_new_pair && seat->held_type == alone->type &&
                      seat->job->held.ngpus == alone->gpus;
    return true;
}

static void menu_pair(const struct one_round *round, struct one_seat *seat)
{
    unsigned kinds =
        kinds_of(&round->one->rules) & ~(unsigned)FIRN_OFFER_THREADS;
    struct one_seat a = {.job = seat->job, .gain = 1};
    struct one_seat b = {.job = seat->with, .gain = 1};
    menu_alone(round, &a, kinds);
    menu_alone(round, &b, kinds);
    seat->held_type =
        seat->is_new_pair ? ONE_NONE : type_held(round->view, seat->job);
    seat->best = best_of(&a);
    seat->best_with = best_of(&b);
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < b.n; k++)
            if (a.choices[i].type == b.choices[k].type &&
                a.choices[i].gpus == b.choices[k].gpus) {
                add_both(round, seat, &a.choices[i]);
                break;
            }
}

void one_menu(struct one_round *round, struct one_seat *seat)
{
    if (seat->with != NULL) {
        menu_pair(round, seat);
        if (seat->n > 0 || seat->is_new_pair)
            return;
        seat->with = NULL; /* no longer to be trained together */
    }
    menu_alone(round, seat, kinds_of(&round->one->rules));
    seat->best = best_of(seat);
}
