/* easyscalemenu.c - the artifact's planner inside one job, quirks and all.
 *
 * C_i = time on a t4 / time on i is the power of a type. For each scale m the
 * ideal number of workers on a GPU is m C_i, and A_i is that rounded down or
 * up; with every set of two or three types, and single types with any A, these
 * are the candidates. Of a candidate all numbers of GPUs are offers that seat
 * the workers, largest A first, so that the last GPU is needed. Then
 *
 *     f       = max over types used of A_i / (m C_i)
 *     waste   = [sum over GPUs of (m C_i - A_i / f) + (seats - maxP) / f]
 *               / sum over GPUs of m C_i;   0 on one type, A = ceil(maxP / N)
 *     speedup = sum of N_i C_i x (1 - waste)
 *
 * and of the offers with the same counts the one with the least waste stays
 * (the artifact's older planner; its newer one compares a speedup with a waste
 * there). Very many candidates tie, because a type that was considered and is
 * not used changes A and nothing else. The artifact lists its candidates in
 * the order of a Python set, so ties go by the hashes of pairs of tuples; that
 * order (CPython 3.8 and later, 64 bits) is imitated here (set-order), and
 * sums are made in the artifact's order, because gains that are equal on paper
 * differ in their last bits.
 *
 * Growth: at least as fast, waste at most 0.30, at most twice the GPUs, one
 * type grows and no other; the granted counts are the holder's own with that
 * one raised, A and speedup those of the offer (stale-offer).
 *
 * Cost: some 2000 candidates and 10^5 to 10^6 offers for 32 workers.
 */
#include "compat/easyscalemenu.h"
#include <firn/job.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const es_type_names[ES_TYPES] = {"v100", "p100", "t4"};
const int es_type_gpus[ES_TYPES] = {32, 16, 16};

static const double most_waste = 0.30;

double es_batch_s(const struct es_app *app, int type, int batch)
{
    double t_s = app->batch_s[type], x = batch / app->batch[type];
    if (app->slope == 1) /* the digits of the check vectors */
        return t_s * batch / app->batch[type];
    return t_s * (1 + app->slope * (x - 1));
}

int es_gpus(const int counts[ES_TYPES])
{
    return counts[0] + counts[1] + counts[2];
}

/* ---- candidates ---- */

/* A for each type (0: not considered) at the scale m. */
struct candidate {
    int ests[ES_TYPES], m;
    uint64_t hash;
};

struct candidates {
    VEC(struct candidate) list;
};

static uint64_t hash_tuple(const uint64_t *items, size_t n)
{
    const uint64_t p1 = 11400714785074694791U, p2 = 14029467366897019727U,
                   p5 = 2870177450012600261U;
    uint64_t sum = p5;
    for (size_t i = 0; i < n; i++) {
        sum += items[i] * p2;
        sum = (sum << 31 | sum >> 33) * p1;
    }
    sum += n ^ (p5 ^ 3527539U);
    return sum == UINT64_MAX ? 1546275796 : sum;
}

static void add_candidate(struct candidates *all, const int ests[ES_TYPES],
                          int m)
{
    struct candidate c = {.m = m};
    uint64_t inner[ES_TYPES], outer[2] = {0, (uint64_t)m};
    for (int i = 0; i < ES_TYPES; i++) {
        c.ests[i] = ests[i];
        inner[i] = (uint64_t)ests[i];
    }
    outer[0] = hash_tuple(inner, ES_TYPES);
    c.hash = hash_tuple(outer, 2);
    vec_add(&all->list, c);
}

/* The sets of two types and the set of three, in the artifact's order, without
 * those in which A exceeds the number of workers on every type. */
static void add_sets(struct candidates *all, const int ests[ES_TYPES], int m,
                     int workers)
{
    static const int sets[][ES_TYPES] = {
        {1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}};
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        int some[ES_TYPES];
        bool fits = false;
        for (int i = 0; i < ES_TYPES; i++) {
            some[i] = sets[s][i] ? ests[i] : 0;
            fits = fits || (sets[s][i] && ests[i] <= workers);
        }
        if (fits)
            add_candidate(all, some, m);
    }
}

/* Every rounding of m C_i, and single types. */
static void list_candidates(struct candidates *all,
                            const double power[ES_TYPES], int workers)
{
    for (int m = 1; m <= workers; m++) {
        int low[ES_TYPES], n[ES_TYPES];
        for (int i = 0; i < ES_TYPES; i++) {
            low[i] = (int)floor(power[i] * m);
            n[i] = (int)ceil(power[i] * m) - low[i] + 1;
        }
        for (int a = 0; a < n[0]; a++)
            for (int b = 0; b < n[1]; b++)
                for (int c = 0; c < n[2]; c++)
                    add_sets(all, (int[]){low[0] + a, low[1] + b, low[2] + c},
                             m, workers);
    }
    for (int i = 0; i < ES_TYPES; i++)
        for (int m = 1; m <= workers; m++) {
            int one[ES_TYPES] = {0};
            one[i] = m;
            add_candidate(all, one, m);
        }
}

/* ---- the order of a set (set-order) ---- */

enum { SET_LEAST = 8, SET_PROBES = 9, SET_SHIFT = 5 };

/* Open addressing; slots hold 1 + an index, 0 for none. */
struct hashset {
    const struct candidate *list;
    size_t *slots, mask, used;
};

/* The slot that has the candidate or would. */
static size_t *find_slot(const struct hashset *set, size_t index)
{
    const struct candidate *own = &set->list[index];
    uint64_t rest = own->hash;
    size_t at = (size_t)rest & set->mask;
    for (;;) {
        size_t probes = at + SET_PROBES <= set->mask ? SET_PROBES : 0;
        for (size_t i = at; i <= at + probes; i++) {
            size_t *slot = &set->slots[i];
            const struct candidate *c = &set->list[*slot - (*slot > 0)];
            if (*slot == 0 || (c->hash == own->hash && c->m == own->m &&
                               memcmp(c->ests, own->ests, sizeof c->ests) == 0))
                return slot;
        }
        rest >>= SET_SHIFT;
        at = (at * 5 + 1 + (size_t)rest) & set->mask;
    }
}

static void resize_set(struct hashset *set)
{
    size_t n = set->mask + 1, size = SET_LEAST, *old = set->slots;
    while (size <= set->used * 4)
        size *= 2;
    set->slots = mem_new(size, sizeof *set->slots);
    set->mask = size - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i] != 0)
            *find_slot(set, old[i] - 1) = old[i];
    mem_free(old);
}

/* By A of the first type; stable, and the lists are short. */
static void sort_candidates(struct candidate *at, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct candidate c = at[i];
        size_t j = i;
        for (; j > 0 && at[j - 1].ests[0] > c.ests[0]; j--)
            at[j] = at[j - 1];
        at[j] = c;
    }
}

/* Drops duplicates; the order is that of the set, then by A of the first
 * type. */
static void order_as_set(struct candidates *all)
{
    if (all->list.n == 0)
        return;
    struct hashset set = {all->list.at, mem_new(SET_LEAST, sizeof(size_t)),
                          SET_LEAST - 1, 0};
    struct candidates ordered = {0};
    for (size_t i = 0; i < all->list.n; i++) {
        size_t *slot = find_slot(&set, i);
        if (*slot != 0)
            continue;
        *slot = i + 1;
        set.used++;
        if (set.used * 5 >= set.mask * 3)
            resize_set(&set);
    }
    for (size_t i = 0; i <= set.mask; i++)
        if (set.slots[i] != 0)
            vec_add(&ordered.list, all->list.at[set.slots[i] - 1]);
    mem_free(set.slots);
    vec_release(&all->list);
    sort_candidates(ordered.list.at, ordered.list.n);
    *all = ordered;
}

/* ---- offers ---- */

/* The best offer for one vector of counts, and its place in the order found. */
struct found {
    struct es_offer offer;
    size_t candidate, turn;
    bool is_there;
};

enum { COUNTS = 33 * 17 * 17 };

struct planning {
    const double *power; /* C_i = time on a t4 / time on i */
    int workers;
    const struct candidate *candidate;
    size_t index, turn;
    int order[ES_TYPES], norder; /* its types, largest A first */
    struct found *found;         /* COUNTS of them */
};

/* Share of the GPUs' power that A leaves idle, over two or more types. */
static double waste_of(const struct planning *p, const int gpus[ES_TYPES])
{
    const int *ests = p->candidate->ests;
    double f = 0, waste = 0, power = 0, placed = 0;
    double ideal[ES_TYPES]; /* m C_i */
    for (int i = 0; i < ES_TYPES; i++) {
        ideal[i] = p->power[i] * p->candidate->m;
        if (gpus[i] > 0)
            f = fmax(f, ests[i] / ideal[i]);
    }
    for (int k = 0; k < p->norder; k++) {
        int i = p->order[k];
        for (int n = 0; n < gpus[i]; n++) { /* one by one: the same rounding */
            power += ideal[i];
            placed += ests[i];
            waste += ideal[i] - ests[i] / f;
        }
    }
    waste += (placed - p->workers) / f;
    return waste / power;
}

static void look_at(struct planning *p, const int gpus[ES_TYPES])
{
    struct es_offer offer = {.waste = 0};
    int used = 0, last = 0;
    for (int i = 0; i < ES_TYPES; i++) {
        offer.gpus[i] = gpus[i];
        used += gpus[i] > 0;
        last = gpus[i] > 0 ? i : last;
    }
    p->turn++;
    if (used == 1) {
        offer.ests[last] = (p->workers + gpus[last] - 1) / gpus[last];
    } else {
        memcpy(offer.ests, p->candidate->ests, sizeof offer.ests);
        offer.waste = waste_of(p, gpus);
    }
    double speed = 0;
    for (int i = 0; i < ES_TYPES; i++)
        speed += p->power[i] * gpus[i];
    offer.speedup = speed * (1.0 - offer.waste);
    struct found *found = &p->found[(gpus[0] * 17 + gpus[1]) * 17 + gpus[2]];
    if (!found->is_there || offer.waste < found->offer.waste)
        *found = (struct found){offer, p->index, p->turn, true};
}

/* All ways to seat `left` more workers on the types from order[k] on, so that
 * the last GPU is needed. */
static void cover(struct planning *p, int k, int left, int gpus[ES_TYPES])
{
    if (k == p->norder || k == ES_TYPES)
        return;
    int i = p->order[k], ests = p->candidate->ests[i];
    int enough = (left + ests - 1) / ests;
    int most = enough < es_type_gpus[i] ? enough : es_type_gpus[i];
    for (int n = most; n >= 0; n--) {
        gpus[i] = n;
        if (n == enough)
            look_at(p, gpus);
        else
            cover(p, k + 1, left - n * ests, gpus);
    }
    gpus[i] = 0;
}

static void look_through(struct planning *p, const struct candidate *c)
{
    int gpus[ES_TYPES] = {0};
    p->candidate = c;
    p->norder = 0;
    for (int i = 0; i < ES_TYPES; i++) {
        if (c->ests[i] == 0)
            continue;
        int k = p->norder++;
        for (; k > 0 && c->ests[p->order[k - 1]] < c->ests[i]; k--)
            p->order[k] = p->order[k - 1];
        p->order[k] = i;
    }
    cover(p, 0, p->workers, gpus);
}

/* Fastest first; of equal ones more of the first type, less waste, and then
 * as they were found. */
static int by_speedup(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int order = firn_cmp(y->offer.speedup, x->offer.speedup);
    if (order == 0)
        order = y->offer.gpus[0] - x->offer.gpus[0];
    if (order == 0)
        order = firn_cmp(x->offer.waste, y->offer.waste);
    if (order == 0)
        order = (x->candidate > y->candidate) - (x->candidate < y->candidate);
    if (order == 0)
        order = es_gpus(x->offer.gpus) - es_gpus(y->offer.gpus);
    return order ? order : (x->turn > y->turn) - (x->turn < y->turn);
}

static void fill_menu(struct es_menu *menu)
{
    double power[ES_TYPES];
    struct candidates all = {0};
    for (int i = 0; i < ES_TYPES; i++)
        power[i] = es_batch_s(menu->app, ES_TYPES - 1, menu->batch) /
                   es_batch_s(menu->app, i, menu->batch);
    list_candidates(&all, power, menu->workers);
    order_as_set(&all);
    struct planning p = {.power = power,
                         .workers = menu->workers,
                         .found = mem_new(COUNTS, sizeof *p.found)};
    for (; p.index < all.list.n; p.index++)
        look_through(&p, &all.list.at[p.index]);
    size_t n = 0;
    for (size_t i = 0; i < COUNTS; i++)
        if (p.found[i].is_there)
            p.found[n++] = p.found[i];
    qsort(p.found, n, sizeof *p.found, by_speedup);
    for (size_t i = 0; i < n; i++)
        vec_add(&menu->offers, p.found[i].offer);
    mem_free(p.found);
    vec_release(&all.list);
}

struct es_menu *es_menu_new(const struct es_app *app, int batch, int workers)
{
    struct es_menu *menu = mem_new(1, sizeof *menu);
    menu->app = app;
    menu->batch = batch;
    menu->workers = workers;
    fill_menu(menu);
    return menu;
}

void es_menu_free(struct es_menu *menu)
{
    if (menu != NULL)
        vec_release(&menu->offers);
    mem_free(menu);
}

/* ---- growing ---- */

static bool is_open(const struct es_offer *offer, int only)
{
    return only == ES_ANY || offer->gpus[only] == es_gpus(offer->gpus);
}

const struct es_offer *es_menu_slowest(const struct es_menu *menu, int only)
{
    for (size_t i = menu->offers.n; i-- > 0;)
        if (is_open(&menu->offers.at[i], only))
            return &menu->offers.at[i];
    FIRN_BUG("no offer to jobs of %s", menu->app->name);
}

static bool may_grow_to(const struct es_offer *has, int type,
                        const struct es_offer *offer)
{
    int twice = 2 * es_gpus(has->gpus);
    if (offer->speedup < has->speedup || offer->waste > most_waste ||
        es_gpus(offer->gpus) > twice)
        return false;
    for (int i = 0; i < ES_TYPES; i++)
        if ((offer->gpus[i] > has->gpus[i]) != (i == type))
            return false;
    int added = offer->gpus[type] - has->gpus[type];
    return es_gpus(has->gpus) + added <= twice;
}

bool es_menu_grow(const struct es_menu *menu, int only,
                  const struct es_offer *has, int type, struct es_offer *to,
                  double *gain)
{
    bool is_found = false;
    for (size_t i = 0; i < menu->offers.n; i++) {
        const struct es_offer *offer = &menu->offers.at[i];
        if (!may_grow_to(has, type, offer) || !is_open(offer, only))
            continue;
        int added = offer->gpus[type] - has->gpus[type];
        double each = (offer->speedup / has->speedup - 1) / added + 1;
        if (is_found && each <= *gain)
            continue;
        is_found = true;
        *gain = each;
        *to = *offer; /* stale-offer */
        memcpy(to->gpus, has->gpus, sizeof has->gpus);
        to->gpus[type] += added;
    }
    return is_found;
}
