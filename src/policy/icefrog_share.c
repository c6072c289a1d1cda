/* icefrog_share.c - which two jobs share a GPU, and when they part.
 *
 * IceFrog (8) and the rules above it: two jobs that accept one GPU may share
 * it when their predicted memory (times 1.1) fits and their predicted
 * utilisations are at most 100 % together. What is not known does not pass,
 * unless the user says so.
 *
 * Pairs are made from the busiest down, each with the busiest that still fits,
 * so that the less busy ones are left for jobs that fit with no other. Existing
 * pairs stay. A job that fits with none at all never chooses half a GPU.
 *
 * A job on one GPU is held so that another may join it without a restart. A
 * pair is judged by what its jobs report: one that goes slower than `evict`
 * times its forecast alone makes the pair a bad one. Bad pairs are remembered
 * by application (a job that names none has one of its own) and never made
 * again.
 *
 * Invariants:
 * (1) every bad pair is listed once, in order;
 * (2) judging the same view twice adds nothing.
 *
 * Cost: O(halves^2) at worst to pair, hardly more than O(halves log halves)
 * where most fit with most.
 */
#include "policy/icefrog.h"
#include <firn/sharing.h>
#include <stdlib.h>

/* ---- as they are ---- */

/* Finds the jobs that hold half of the same GPU. */
static int by_place(const void *a, const void *b)
{
    const struct ice_seat *x = *(struct ice_seat *const *)a;
    const struct ice_seat *y = *(struct ice_seat *const *)b;
    const struct firn_part *p = x->job->held.parts, *q = y->job->held.parts;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    if (p->board != q->board)
        return p->board < q->board ? -1 : 1;
    if (p->gpus != q->gpus)
        return p->gpus < q->gpus ? -1 : 1;
    return (x > y) - (x < y);
}

static bool is_same_gpu(const struct ice_seat *x, const struct ice_seat *y)
{
    const struct firn_part *p = x->job->held.parts, *q = y->job->held.parts;
    return p->node == q->node && p->board == q->board && p->gpus == q->gpus;
}

static void find_mates(struct ice_round *round)
{
    struct ice_seat **half = firn_view_alloc(
        round->view, (round->n + 1) * sizeof(struct ice_seat *));
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++) {
        const struct firn_alloc *held = &round->seats[i].job->held;
        if (held->ngpus == 1 && held->is_shared)
            half[n++] = &round->seats[i];
    }
    qsort(half, n, sizeof *half, by_place);
    for (size_t i = 1; i < n; i++)
        if (is_same_gpu(half[i - 1], half[i])) {
            half[i]->sharer = (size_t)(half[i - 1] - round->seats);
            half[i - 1]->sharer = (size_t)(half[i] - round->seats);
        }
}

static int compare_pairs(struct icefrog_pair x, struct icefrog_pair y)
{
    return x.a != y.a ? (x.a > y.a) - (x.a < y.a) : (x.b > y.b) - (x.b < y.b);
}

static struct icefrog_pair pair_of(const struct ice_seat *x,
                                   const struct ice_seat *y)
{
    return x->app < y->app ? (struct icefrog_pair){x->app, y->app}
                           : (struct icefrog_pair){y->app, x->app};
}

/* The first pair that is not before this one. */
static size_t place_of(const struct icefrog *ice, struct icefrog_pair pair)
{
    size_t low = 0, high = ice->bad.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_pairs(ice->bad.at[middle], pair) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_bad(const struct icefrog *ice, struct icefrog_pair pair)
{
    size_t at = place_of(ice, pair);
    return at < ice->bad.n && compare_pairs(ice->bad.at[at], pair) == 0;
}

static void remember(struct icefrog *ice, struct icefrog_pair pair)
{
    if (is_bad(ice, pair))
        return;
    size_t at = place_of(ice, pair);
    vec_add(&ice->bad, pair);
    for (size_t i = ice->bad.n - 1; i > at; i--)
        ice->bad.at[i] = ice->bad.at[i - 1];
    ice->bad.at[at] = pair;
}

/* The job is slower beside its partner than it should be; known once it has
 * resumed. */
static bool is_slowed(const struct ice_round *round,
                      const struct ice_seat *seat)
{
    const struct firn_job *job = seat->job;
    struct firn_way way = {
        .gpus = 1, .type = ice_type_held(round, job), .tunes = job->held.tunes};
    if (!(job->rate > 0) || job->resumes_s > round->view->now_s)
        return false;
    double alone = firn_view_rate(round->view, job, &way);
    return job->rate < round->ice->evict * alone; /* false for NaN */
}

/* Whether it may share, and as which application. */
static void look_at_load(struct ice_round *round, struct ice_seat *seat)
{
    const struct firn_job *job = seat->job;
    struct firn_way one = {
        .gpus = 1, .type = FIRN_ANY_TYPE, .tunes = FIRN_TUNE_FREEZE};
    bool may = round->ice->sharing && round->view->cluster->jobs_per_gpu > 1;
    if (!may || !job->spec.may_share || job->spec.gpus_min != 1)
        return;
    seat->load = firn_view_load(round->view, job, &one);
    bool is_known = seat->load.util >= 0 && seat->load.mem_gib >= 0;
    seat->shares = is_known || round->ice->packs_unknown;
    seat->app = -1 - job->id;
    if (seat->shares && *job->spec.app)
        seat->app = map_add(&round->ice->apps, job->spec.app);
}

void ice_meet(struct ice_round *round)
{
    find_mates(round);
    for (size_t i = 0; i < round->n; i++)
        look_at_load(round, &round->seats[i]);
    for (size_t i = 0; i < round->n; i++) {
        struct ice_seat *seat = &round->seats[i];
        if (seat->sharer != ICE_NONE && is_slowed(round, seat))
            remember(round->ice, pair_of(seat, &round->seats[seat->sharer]));
    }
}

/* ---- as they are to be ---- */

/* Rules 1 and 2 of firn/sharing.h, and not a bad pair before. */
static bool may_pair(const struct ice_round *round, const struct ice_seat *x,
                     const struct ice_seat *y, firn_type_id type)
{
    const struct firn_load *p = &x->load, *q = &y->load;
    double gpu_gib = round->view->cluster->types[type].mem_gib;
    struct firn_share_need need[2] = {
        {p->mem_gib > 0 ? p->mem_gib * 1024 : 0, p->util * 100},
        {q->mem_gib > 0 ? q->mem_gib * 1024 : 0, q->util * 100}};
    for (int i = 0; i < 2; i++)
        if (isnan(need[i].util_pct))
            need[i].util_pct = 0;
    gpu_gib = gpu_gib > 0 ? gpu_gib : 1e9;
    return firn_share_check(need, 2, gpu_gib * 1024) == FIRN_SHARE_OK &&
           !is_bad(round->ice, pair_of(x, y));
}

static void join(struct ice_round *round, struct ice_seat *x,
                 struct ice_seat *y)
{
    x->partner = (size_t)(y - round->seats);
    y->partner = (size_t)(x - round->seats);
}

/* The busiest first; those of one type together. */
static int by_load(const void *a, const void *b)
{
    const struct ice_seat *x = *(struct ice_seat *const *)a;
    const struct ice_seat *y = *(struct ice_seat *const *)b;
    double p = isnan(x->load.util) ? 0 : x->load.util;
    double q = isnan(y->load.util) ? 0 : y->load.util;
    if (ice_type(x) != ice_type(y))
        return ice_type(x) < ice_type(y) ? -1 : 1;
    return p != q ? firn_cmp(q, p) : (x > y) - (x < y);
}

/* Two jobs that share a GPU now and are to have halves stay together. */
static void keep_pairs(struct ice_round *round, struct ice_seat **half,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ice_seat *seat = half[i];
        if (seat->sharer == ICE_NONE || !seat->details[seat->chosen].is_held)
            continue;
        struct ice_seat *sharer = &round->seats[seat->sharer];
        if (sharer > seat && ice_is_half(sharer) &&
            sharer->details[sharer->chosen].is_held &&
            may_pair(round, seat, sharer, ice_type(seat)))
            join(round, seat, sharer);
    }
}

/* Pairs each of the others with the busiest that still fits. */
static void make_pairs(struct ice_round *round, struct ice_seat **half,
                       size_t n)
{
    qsort(half, n, sizeof *half, by_load);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n && half[i]->partner == ICE_NONE; k++) {
            if (ice_type(half[k]) != ice_type(half[i]))
                break;
            if (half[k]->partner == ICE_NONE &&
                may_pair(round, half[i], half[k], ice_type(half[i])))
                join(round, half[i], half[k]);
        }
    }
}

/* The busiest first, and of equally busy ones the youngest. */
static int by_load_youngest(const void *a, const void *b)
{
    const struct ice_seat *x = *(struct ice_seat *const *)a;
    const struct ice_seat *y = *(struct ice_seat *const *)b;
    double p = isnan(x->load.util) ? 0 : x->load.util;
    double q = isnan(y->load.util) ? 0 : y->load.util;
    return p != q ? firn_cmp(q, p) : (x < y) - (x > y);
}

/* Bars the busiest half of the jobs without a partner from sharing, or all. A
 * job that fits with few others would otherwise take the place of one that fits
 * with many, and both would lose the choice. Returns the number of jobs without
 * a partner. */
static size_t bar_alone(struct ice_seat **half, size_t n, bool is_last)
{
    size_t nalone = 0;
    for (size_t i = 0; i < n; i++)
        if (half[i]->partner == ICE_NONE) {
            half[i]->chosen = 0;
            half[nalone++] = half[i];
        }
    qsort(half, nalone, sizeof(struct ice_seat *), by_load_youngest);
    for (size_t i = 0; i < (is_last ? nalone : (nalone + 1) / 2); i++)
        ice_bar_half(half[i]);
    return nalone;
}

static bool has_partner(const struct ice_round *round, struct ice_seat **least,
                        size_t n, const struct ice_seat *seat)
{
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        for (size_t i = 0; i < n && (seat->job->type_mask >> t & 1); i++) {
            if (least[i] == seat || !(least[i]->job->type_mask >> t & 1))
                continue;
            if (least[i]->load.util + seat->load.util > 1)
                break; /* and so are all that follow */
            if (may_pair(round, seat, least[i], t))
                return true;
        }
    return false;
}

void ice_bar_lone(struct ice_round *round)
{
    struct ice_seat **least = firn_view_alloc(
        round->view, (round->n + 1) * sizeof(struct ice_seat *));
    size_t n = 0;
    for (size_t i = round->n; i-- > 0;)
        if (round->seats[i].shares)
            least[n++] = &round->seats[i];
    qsort(least, n, sizeof(struct ice_seat *), by_load_youngest);
    for (size_t i = 0; i < n / 2; i++) {
        struct ice_seat *seat = least[i];
        least[i] = least[n - 1 - i];
        least[n - 1 - i] = seat;
    }
    for (size_t i = 0; i < n; i++)
        if (!has_partner(round, least, n, least[i]))
            ice_bar_half(least[i]);
}

size_t ice_pair(struct ice_round *round, bool is_last)
{
    struct ice_seat **half = firn_view_alloc(
        round->view, (round->n + 1) * sizeof(struct ice_seat *));
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++) {
        round->seats[i].partner = ICE_NONE;
        if (ice_is_half(&round->seats[i]))
            half[n++] = &round->seats[i];
    }
    keep_pairs(round, half, n);
    make_pairs(round, half, n);
    return bar_alone(half, n, is_last);
}
