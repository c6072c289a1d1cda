/* merger.c - menus of times, objectives, and pairs that pay.
 *
 * Ymir, section 5.1. T(a) is the forecast time to the end on a GPUs, with
 * `charges` plus the restart that a change would cost; T_fair that on the fair
 * share of GPUs, R / N rounded up, or the nearest count below it. The paper
 * minimises the sum of T_fair / T, which is a speed-up; read in the two ways
 * that make sense, a unit on a GPUs is worth, against waiting,
 *
 *     SPEEDUP    T_fair / T(a)
 *     SLOWDOWN   1 + (wait I + restart) / T_fair - T(a) / T_fair
 *
 * where waiting is charged `wait` intervals I, and the restart that it will
 * cost to go on, if any. So every job is worth something, alone. A pair counts
 * for two, its own fair share is twice as large, and TranWt, w, favours pairs
 * that gain much:
 *
 *     SPEEDUP    2 w T_fair / T(a)
 *     SLOWDOWN   what waiting costs both - 2 / w x T(a) / T_fair
 *
 * T of a pair lasts until both are done. Pairs with w below `weight_min` on the
 * fair share of a pair are left out, as in the paper; so are all jobs but the
 * `pool` shortest that might be paired, for pairs are many and those that have
 * long to go are not served next.
 *
 * Without pairs the choice is exact (math/sumrow.h), with them near-exact, with
 * a bound (math/pairs.h).
 *
 * Invariants: (1) a unit is in one pair at most; (2) no more GPUs are given
 * than there are; (3) a job that may not be merged is in no pair.
 */
#include "policy/merger.h"
#include "math/sumrow.h"
#include <firn/offer.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double pinned_value = 1e6; /* before everything else */
static const double least_s = 1;        /* no time counts as less */

/* A growing list of entries in scratch memory. */
struct table {
    const struct firn_view *view;
    size_t *start; /* of each menu, one more than there are */
    size_t nmenus, menus_cap;
    int *cost;
    double *value;
    size_t n, cap;
};

/* The numbers of GPUs on which a unit may run. */
struct counts {
    const int *at;
    size_t n;
};

struct duo {
    int first, second;
    enum firn_merge_kind kind;
    double gain; /* AFTER */
};

struct merger {
    const struct firn_view *view;
    const struct merger_rules *rules;
    struct merger_unit *units;
    size_t n;
    int fair; /* GPUs of a fair share */
    struct counts *counts;
    double *waiting; /* SLOWDOWN: what each is charged for waiting */
    double *alone_s; /* on the fair share */
    struct table alone, together;
    struct duo *duos;
    size_t duos_cap;
};

/* ---- lists ---- */

static void *larger(const struct firn_view *view, const void *old, size_t n,
                    size_t *cap, size_t size)
{
    *cap = *cap ? 2 * *cap : 64;
    void *at = firn_view_alloc(view, *cap * size);
    if (n > 0)
        memcpy(at, old, n * size);
    return at;
}

static void add_entry(struct table *t, int cost, double value)
{
    if (t->n == t->cap) {
        size_t cap = t->cap;
        t->cost = larger(t->view, t->cost, t->n, &cap, sizeof *t->cost);
        t->value = larger(t->view, t->value, t->n, &t->cap, sizeof *t->value);
    }
    t->cost[t->n] = cost;
    t->value[t->n++] = value;
}

/* Everything added since the last call is a menu. */
static void end_menu(struct table *t)
{
    if (t->nmenus + 2 > t->menus_cap)
        t->start = larger(t->view, t->start, t->menus_cap ? t->nmenus + 1 : 0,
                          &t->menus_cap, sizeof *t->start);
    t->start[++t->nmenus] = t->n;
}

static struct menus menus_of(const struct table *t)
{
    static const size_t none[1];
    return (struct menus){.n = t->nmenus,
                          .start = t->start ? t->start : none,
                          .cost = t->cost,
                          .value = t->value};
}

/* ---- times ---- */

const int *merger_counts(const struct firn_view *view,
                         const struct firn_job *job, size_t *n)
{
    size_t noffers;
    const struct firn_offer *offers =
        firn_offers(view, job, FIRN_OFFER_ELASTIC, &noffers);
    int *counts = firn_view_alloc(view, (noffers + 1) * sizeof *counts);
    *n = 0;
    for (size_t i = 0; i < noffers; i++) {
        int gpus = offers[i].way.gpus;
        if (gpus <= 4 || gpus % 4 == 0 || i == 0 || gpus == job->held.ngpus)
            counts[(*n)++] = gpus;
    }
    if (*n == 0 && job->spec.gpus <= view->gpus_up)
        counts[(*n)++] = job->spec.gpus; /* nothing is known of it */
    return counts;
}

static struct firn_way way_of(int gpus)
{
    return (struct firn_way){.gpus = gpus, .type = FIRN_ANY_TYPE};
}

/* What starting a job again costs, or, if it keeps running, what other GPUs
 * cost it; its first start is free. */
static double again_s(const struct merger *m, const struct firn_job *job,
                      bool keeps_running)
{
    if (job->starts == 0 || !m->rules->charges)
        return 0;
    double cost_s =
        job->spec.restart_s >= 0 ? job->spec.restart_s : m->rules->restart_s;
    if (keeps_running)
        cost_s = firn_view_change_s(m->view, job, m->rules->restart_s);
    int ahead_s = m->rules->ahead_s < m->view->ahead_s ? m->rules->ahead_s
                                                       : m->view->ahead_s;
    return fmax(cost_s - ahead_s, 0);
}

/* What it costs to run it on that many GPUs. */
static double restart_s(const struct merger *m, const struct firn_job *job,
                        int gpus)
{
    bool is_kept = job->held.nparts > 0 && job->held.ngpus == gpus;
    return is_kept ? 0 : again_s(m, job, true);
}

static double alone_s(const struct merger *m, const struct merger_unit *unit,
                      int gpus)
{
    struct firn_way way = way_of(gpus);
    double left_s = firn_view_left_s(m->view, unit->job, &way) / unit->gain;
    if (!isfinite(left_s)) /* as if it scaled */
        left_s = firn_job_work_s(unit->job) * unit->job->spec.gpus / gpus;
    return left_s;
}

/* Until both are done; NaN when they cannot be merged. */
static double pair_s(const struct merger *m, const struct firn_job *a,
                     const struct firn_job *b, enum firn_merge_kind kind,
                     int gpus, struct firn_merge *out)
{
    struct firn_way way = way_of(gpus);
    if (!firn_view_merge(m->view, a, b, kind, &way, out) || !(out->weight > 0))
        return (double)NAN;
    double left_s = fmax(out->left_s[0], out->left_s[1]);
    return isfinite(left_s) ? left_s : (double)NAN;
}

/* The largest count up to `share`, or the smallest. */
static int nearest(struct counts counts, int share)
{
    size_t i = 0;
    while (i + 1 < counts.n && counts.at[i + 1] <= share)
        i++;
    return counts.at[i];
}

/* Counts that both have. */
static struct counts common(const struct merger *m, struct counts a,
                            struct counts b)
{
    size_t i = 0, j = 0, n = 0;
    int *out = firn_view_alloc(m->view, (a.n + 1) * sizeof *out);
    while (i < a.n && j < b.n) {
        if (a.at[i] == b.at[j])
            out[n++] = a.at[i];
        if (a.at[i] <= b.at[j])
            i++;
        else
            j++;
    }
    return (struct counts){out, n};
}

static struct counts counts_of(const struct merger *m,
                               const struct merger_unit *unit)
{
    struct counts mine, theirs;
    mine.at = merger_counts(m->view, unit->job, &mine.n);
    if (unit->with == NULL)
        return mine;
    theirs.at = merger_counts(m->view, unit->with, &theirs.n);
    return common(m, mine, theirs);
}

/* ---- values ---- */

static double value_alone(const struct merger_rules *rules, double t_s,
                          double fair_s, double waiting)
{
    double t = fmax(t_s, least_s);
    double fair = fmax(fair_s, least_s);
    return rules->objective == MERGER_SPEEDUP ? fair / t : waiting - t / fair;
}

static double value_pair(const struct merger_rules *rules, double t_s,
                         double fair_s, double waiting, double weight)
{
    double t = fmax(t_s, least_s);
    double fair = fmax(fair_s, least_s);
    return rules->objective == MERGER_SPEEDUP ? 2 * weight * fair / t
                                              : waiting - 2 / weight * t / fair;
}

/* Waiting delays a job by some intervals, and by the restart that follows. */
static double charge(const struct merger *m, const struct firn_job *job,
                     double fair_s)
{
    const struct merger_rules *rules = m->rules;
    double delay_s = rules->wait * rules->interval_s + again_s(m, job, false);
    return 1 + delay_s / fmax(fair_s, least_s);
}

/* The menu of a job by itself. */
static void list_alone(struct merger *m, size_t i)
{
    const struct merger_unit *unit = &m->units[i];
    struct counts counts = m->counts[i];
    double fair_s = alone_s(m, unit, nearest(counts, m->fair));
    m->alone_s[i] = fair_s;
    m->waiting[i] = charge(m, unit->job, fair_s);
    for (size_t k = 0; k < counts.n; k++) {
        double t_s = alone_s(m, unit, counts.at[k]) +
                     restart_s(m, unit->job, counts.at[k]);
        double value = value_alone(m->rules, t_s, fair_s, m->waiting[i]);
        if (unit->pinned == 0)
            add_entry(&m->alone, counts.at[k], value);
        else if (unit->pinned == counts.at[k])
            add_entry(&m->alone, counts.at[k], pinned_value);
    }
}

/* The menu of two jobs that are trained together already. */
static void list_merged(struct merger *m, size_t i)
{
    const struct merger_unit *unit = &m->units[i];
    struct firn_merge merge;
    struct counts counts = m->counts[i];
    double fair_s = pair_s(m, unit->job, unit->with, FIRN_MERGE_TOGETHER,
                           nearest(counts, 2 * m->fair), &merge);
    m->waiting[i] = 2 * charge(m, unit->job, fair_s);
    for (size_t k = 0; k < counts.n; k++) {
        double t_s = pair_s(m, unit->job, unit->with, FIRN_MERGE_TOGETHER,
                            counts.at[k], &merge) +
                     restart_s(m, unit->job, counts.at[k]);
        if (!isnan(t_s) && !isnan(fair_s))
            add_entry(
                &m->alone, counts.at[k],
                value_pair(m->rules, t_s, fair_s, m->waiting[i], merge.weight));
    }
}

/* ---- pairs ---- */

static void add_duo(struct merger *m, struct duo duo)
{
    size_t k = m->together.nmenus;
    if (k == m->duos_cap)
        m->duos = larger(m->view, m->duos, k, &m->duos_cap, sizeof *m->duos);
    m->duos[k] = duo;
    end_menu(&m->together);
}

/* `b` with `a`, or after it. */
static void try_pair(struct merger *m, int a, int b, enum firn_merge_kind kind)
{
    const struct merger_unit *x = &m->units[a], *y = &m->units[b];
    struct firn_merge merge;
    size_t before = m->together.n;
    /* Most pairs are ruled out here, before their counts are looked for. */
    if (isnan(pair_s(m, x->job, y->job, kind, 1, &merge)))
        return;
    struct counts counts = common(m, m->counts[a], m->counts[b]);
    if (counts.n == 0)
        return;
    int fair = nearest(counts, 2 * m->fair);
    double fair_s = pair_s(m, x->job, y->job, kind, fair, &merge);
    if (isnan(fair_s) || merge.weight < m->rules->weight_min)
        return;
    double gain = alone_s(m, y, fair) / (merge.left_s[1] - merge.left_s[0]);
    for (size_t k = 0; k < counts.n; k++) {
        double t_s = pair_s(m, x->job, y->job, kind, counts.at[k], &merge) +
                     restart_s(m, x->job, counts.at[k]);
        if (!isnan(t_s) && merge.weight >= m->rules->weight_min)
            add_entry(&m->together, counts.at[k],
                      value_pair(m->rules, t_s, fair_s,
                                 m->waiting[a] + m->waiting[b], merge.weight));
    }
    if (m->together.n > before)
        add_duo(m,
                (struct duo){a, b, kind, kind == FIRN_MERGE_AFTER ? gain : 1});
}

struct turn {
    int unit;
    double key;
};

static int by_key(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int c = firn_cmp(x->key, y->key);
    return c ? c : (x->unit > y->unit) - (x->unit < y->unit);
}

/* The `pool` shortest jobs that might be paired, those of existing pairs
 * first. */
static size_t choose_pool(const struct merger *m, struct turn *turns)
{
    size_t n = 0, most = (size_t)m->rules->pool;
    for (size_t i = 0; i < m->n; i++)
        if (m->units[i].may_merge || m->units[i].may_follow)
            turns[n++] = (struct turn){(int)i, m->alone_s[i]};
    if (n > 1)
        qsort(turns, n, sizeof *turns, by_key);
    return n < most ? n : most;
}

static void list_pairs(struct merger *m)
{
    struct turn *pool = firn_view_alloc(m->view, (m->n + 1) * sizeof *pool);
    size_t n = choose_pool(m, pool);
    for (size_t i = 0; i < n; i++) {
        int b = pool[i].unit;
        for (size_t k = 0; m->rules->spatial && k < i; k++)
            if (m->units[pool[k].unit].may_merge && m->units[b].may_merge)
                try_pair(m, pool[k].unit, b, FIRN_MERGE_TOGETHER);
        for (size_t a = 0; m->rules->temporal && a < m->n; a++)
            if (m->units[a].may_lead && (int)a != b && m->units[b].may_follow)
                try_pair(m, (int)a, b, FIRN_MERGE_AFTER);
    }
}

/* ---- solving ---- */

static void take(struct merger *m, size_t i, const struct pairs_choice *choice)
{
    struct merger_unit *unit = &m->units[i];
    if (choice->entry == SIZE_MAX)
        return;
    if (choice->pair == PAIRS_NONE) {
        unit->gpus = m->alone.cost[choice->entry];
        return;
    }
    const struct duo *duo = &m->duos[choice->pair];
    unit->is_second = duo->second == (int)i;
    unit->partner = unit->is_second ? duo->first : duo->second;
    unit->kind = duo->kind;
    unit->gpus = m->together.cost[choice->entry];
    unit->follow_gain = duo->gain;
    if (unit->is_second && duo->kind == FIRN_MERGE_AFTER)
        unit->gpus = 0;
}

/* Without pairs: exact. Each menu gets an entry for waiting. */
static void solve_alone(struct merger *m, int capacity,
                        struct pairs_result *result)
{
    struct table t = {.view = m->view};
    struct sumrow_result sum;
    struct firn_error err = {0};
    size_t *entry = firn_view_alloc(m->view, (m->n + 1) * sizeof *entry);
    for (size_t i = 0; i < m->n; i++) {
        add_entry(&t, 0, 0);
        for (size_t k = m->alone.start[i]; k < m->alone.start[i + 1]; k++)
            add_entry(&t, m->alone.cost[k], m->alone.value[k]);
        end_menu(&t);
    }
    struct menus menus = menus_of(&t);
    menus.capacity = capacity;
    if (sumrow_solve(&menus, entry, &sum, m->view->scratch, &err) != FIRN_OK)
        FIRN_BUG("%s", err.text);
    for (size_t i = 0; i < m->n; i++)
        m->units[i].gpus = t.cost[entry[i]];
    *result = (struct pairs_result){
        .value = sum.value, .bound = sum.value, .price = sum.price};
}

static void solve(struct merger *m, int capacity, struct pairs_result *result)
{
    size_t npairs = m->together.nmenus;
    int *first = firn_view_alloc(m->view, (2 * npairs + 1) * sizeof *first);
    int *second = first + npairs;
    struct pairs_choice *choice =
        firn_view_alloc(m->view, (m->n + 1) * sizeof *choice);
    struct firn_error err = {0};
    for (size_t k = 0; k < npairs; k++) {
        first[k] = m->duos[k].first;
        second[k] = m->duos[k].second;
    }
    struct pairs_problem problem = {.alone = menus_of(&m->alone),
                                    .together = menus_of(&m->together),
                                    .first = first,
                                    .second = second,
                                    .capacity = capacity,
                                    .tolerance = 1e-3};
    if (pairs_solve(&problem, choice, result, m->view->scratch, &err) !=
        FIRN_OK)
        FIRN_BUG("%s", err.text);
    for (size_t i = 0; i < m->n; i++)
        take(m, i, &choice[i]);
}

void merger_solve(const struct firn_view *view,
                  const struct merger_rules *rules, struct merger_unit *units,
                  size_t n, int capacity, struct pairs_result *result)
{
    struct merger m = {.view = view,
                       .rules = rules,
                       .units = units,
                       .n = n,
                       .alone = {.view = view},
                       .together = {.view = view}};
    size_t njobs = view->njobs > 0 ? view->njobs : 1;
    m.fair = (int)(((size_t)view->gpus_up + njobs - 1) / njobs);
    m.waiting = firn_view_alloc(view, (n + 1) * sizeof *m.waiting);
    m.counts = firn_view_alloc(view, (n + 1) * sizeof *m.counts);
    m.alone_s = firn_view_alloc(view, (n + 1) * sizeof *m.alone_s);
    *result = (struct pairs_result){0};
    for (size_t i = 0; i < n; i++) {
        units[i].gpus = 0;
        units[i].partner = MERGER_NONE;
        m.counts[i] = counts_of(&m, &units[i]);
        if (m.counts[i].n > 0 && units[i].with != NULL)
            list_merged(&m, i);
        else if (m.counts[i].n > 0)
            list_alone(&m, i);
        end_menu(&m.alone);
    }
    list_pairs(&m);
    if (n > 0 && m.together.nmenus > 0)
        solve(&m, capacity, result);
    else if (n > 0)
        solve_alone(&m, capacity, result);
}

/* ---- the guard ---- */

const char *merger_harm(const struct firn_view *view, const struct firn_job *a,
                        const struct firn_job *b, bool guard)
{
    const struct firn_job *jobs[2] = {a, b};
    struct firn_way way = way_of(a->held.ngpus);
    struct firn_merge merge;
    double alone_s[2];
    if (!firn_view_merge(view, a, b, FIRN_MERGE_TOGETHER, &way, &merge))
        return "their gain is not known";
    if (!guard || !(merge.epochs >= 2))
        return NULL;
    if (merge.stalled != 0)
        return "one learned nothing in 2 epochs";
    for (int i = 0; i < 2; i++)
        alone_s[i] = firn_view_left_s(view, jobs[i], &way);
    return merge.left_s[0] + merge.left_s[1] >
                   2 * fmin(alone_s[0], alone_s[1]) +
                       fmax(alone_s[0], alone_s[1])
               ? "both end sooner alone"
               : NULL;
}
