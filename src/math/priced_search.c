/* priced_search.c - what the prices of priced.c leave of the gap.
 *
 * At prices p, let loss(i, k) >= 0 be how much less item i nets with option k
 * than with its best one. Any choice that fits is worth exactly
 *
 *     bound(p) - sum of losses - sum over pools of p * units left idle
 *
 * so the best is the one that loses and idles least, and an option whose loss
 * alone is more than bound - value of the best known need not be looked at.
 * That leaves one option for most items. A depth-first search goes through the
 * rest, the options of an item in order of loss, and cuts a branch when its
 * losses so far, and the idling that the items to come cannot prevent even if
 * each takes all it can of each pool, cost as much as the best known.
 *
 * Invariants:
 * (a) every choice better than the incumbent by more than rounding is a leaf
 *     that is not cut: when the search ends by itself the incumbent is best;
 * (b) the incumbent only ever improves.
 *
 * An option of several pools differs in nothing: its loss is by the prices of
 * all its units.
 *
 * Cost: at most `nodes` steps of O(pools). Items whose second best option is
 * dear come first: few branches there, and the cheap exchanges at the end fit
 * the pieces together.
 */
#include "base/arena.h"
#include "math/priced_work.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One option of one item (or none), with its loss. */
struct branch {
    int option;
    int pool, units;
    int more; /* further takes, as of an option */
    double loss;
};

struct level {
    int item;
    struct branch *branches; /* ascending loss */
    int n;
    int fill[PRICED_POOLS_MAX]; /* most that this and later ones can take */
};

struct search {
    struct priced_work *work;
    struct level *levels;
    int n;
    double budget; /* what the incumbent loses, less rounding */
    double enough; /* the loss at which the search may stop */
    long left;     /* steps */
    int *path;     /* branch of each level */
    int *best;     /* the incumbent's options by item */
    bool has_best;
};

static void add_branch(struct level *level, struct branch branch, double budget)
{
    if (!(branch.loss < budget))
        return;
    int at = level->n++;
    while (at > 0 && level->branches[at - 1].loss > branch.loss) {
        level->branches[at] = level->branches[at - 1];
        at--;
    }
    level->branches[at] = branch;
}

static void make_level(struct search *search, int i, struct branch *room)
{
    const struct priced_work *work = search->work;
    struct level *level = &search->levels[i];
    double most = 0;
    for (int k = work->first[i]; k < work->first[i + 1]; k++) {
        const struct priced_option *o = &work->option[k];
        most = fmax(most, priced_net_of(work, o, work->price));
    }
    *level = (struct level){.item = i, .branches = room};
    for (int k = work->first[i]; k < work->first[i + 1]; k++) {
        const struct priced_option *o = &work->option[k];
        double net = priced_net_of(work, o, work->price);
        add_branch(level,
                   (struct branch){k, o->pool, o->units, o->more, most - net},
                   search->budget);
    }
    add_branch(level, (struct branch){PRICED_NONE, 0, 0, 0, most},
               search->budget);
}

/* Dear second options first. */
static int by_second_loss(const void *a, const void *b)
{
    const struct level *x = a, *y = b;
    double dx = x->branches[1].loss, dy = y->branches[1].loss;
    return dx != dy ? (dx < dy) - (dx > dy) : x->item - y->item;
}

static inline void give_back(const struct priced_work *work,
                             const struct branch *branch, int *free)
{
    free[branch->pool] += branch->units;
    if (branch->more != 0)
        priced_add_more(work, branch->more, 1, free);
}

/* Takes the further units of a branch; false, and nothing taken, when some are
 * missing. */
SELDOM static bool take_more(const struct priced_work *work, int more,
                             int *free)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        if (t->units > free[t->pool])
            return false;
    priced_add_more(work, more, -1, free);
    return true;
}

/* Takes the branch's units; false, and nothing taken, when some are missing. */
static inline bool take_branch(const struct priced_work *work,
                               const struct branch *branch, int *free)
{
    if (branch->units > free[branch->pool] ||
        (branch->more != 0 && !take_more(work, branch->more, free)))
        return false;
    free[branch->pool] -= branch->units;
    return true;
}

/* Items with one option left take it, the others stay as levels; false when
 * that alone does not fit. */
static bool settle(struct search *search, int *free)
{
    int n = 0;
    for (int i = 0; i < search->n; i++) {
        const struct level *level = &search->levels[i];
        if (level->n > 1) {
            search->levels[n++] = *level;
            continue;
        }
        const struct branch *only = &level->branches[0];
        search->best[level->item] = only->option;
        if (!take_branch(search->work, only, free))
            return false;
    }
    search->n = n;
    return true;
}

static void order_levels(struct search *search)
{
    qsort(search->levels, (size_t)search->n, sizeof *search->levels,
          by_second_loss);
    for (int i = search->n - 1; i >= 0; i--) {
        struct level *level = &search->levels[i];
        if (i + 1 < search->n)
            memcpy(level->fill, level[1].fill, sizeof level->fill);
        int most[PRICED_POOLS_MAX] = {0};
        for (int k = 0; k < level->n; k++) {
            const struct branch *branch = &level->branches[k];
            priced_raise_to(&most[branch->pool], branch->units);
            for (const struct priced_take *t =
                     &search->work->take[branch->more];
                 t->pool >= 0; t++)
                priced_raise_to(&most[t->pool], t->units);
        }
        for (int p = 0; p < search->work->npools; p++)
            level->fill[p] += most[p];
    }
}

/* The price of the units that must stay idle from level `at` on. */
static double idle_cost(const struct search *search, int at, const int *free)
{
    double sum = 0;
    for (int p = 0; p < search->work->npools; p++) {
        int most = at < search->n ? search->levels[at].fill[p] : 0;
        if (free[p] > most)
            sum += search->work->price[p] * (free[p] - most);
    }
    return sum;
}

/* False when the search is to stop. */
static bool descend(struct search *search, int at, double loss, int *free)
{
    if (loss + idle_cost(search, at, free) >= search->budget)
        return true;
    if (at == search->n) { /* a leaf, and better: (b) */
        search->budget = loss + idle_cost(search, at, free);
        search->budget -= priced_tiny(search->work);
        search->has_best = true;
        for (int i = 0; i < search->n; i++)
            search->best[search->levels[i].item] =
                search->levels[i].branches[search->path[i]].option;
        return search->budget > search->enough;
    }
    const struct level *level = &search->levels[at];
    for (int k = 0; k < level->n; k++) {
        const struct branch *branch = &level->branches[k];
        if (loss + branch->loss >= search->budget)
            break; /* the options after it lose more */
        if (!take_branch(search->work, branch, free))
            continue;
        if (search->left-- <= 0)
            return false;
        search->path[at] = k;
        bool goes_on = descend(search, at + 1, loss + branch->loss, free);
        give_back(search->work, branch, free);
        if (!goes_on)
            return false;
    }
    return true;
}

/* The incumbent of the search becomes what is chosen. */
static void adopt(struct search *search)
{
    struct priced_work *work = search->work;
    memcpy(work->free, work->capacity, sizeof work->free);
    work->value = 0;
    for (int i = 0; i < work->n; i++) {
        work->chosen[i] = search->best[i];
        work->value += priced_value_of(work, work->chosen[i]);
        priced_add_units(work, priced_option_of(work, work->chosen[i]), -1,
                         work->free);
    }
}

bool priced_search_rest(struct priced_work *work, double gap, long nodes,
                        struct arena *scratch, long *looked_at)
{
    size_t n = (size_t)work->n;
    size_t nbranches = (size_t)work->first[work->n] + n;
    struct search search = {
        .work = work,
        .n = work->n,
        .budget = work->bound - work->value - priced_tiny(work),
        .enough = gap * work->bound,
        .left = nodes,
    };
    if (search.budget <= search.enough || nodes <= 0)
        return search.budget <= 0;
    search.levels = arena_alloc(scratch, n * sizeof *search.levels);
    search.path = arena_alloc(scratch, n * sizeof(int));
    search.best = arena_alloc(scratch, n * sizeof(int));
    struct branch *room = arena_alloc(scratch, nbranches * sizeof *room);
    for (int i = 0; i < work->n; i++)
        make_level(&search, i, room + work->first[i] + i);
    int free[PRICED_POOLS_MAX];
    memcpy(free, work->capacity, sizeof free);
    if (!settle(&search, free))
        return true; /* nothing better than the incumbent fits */
    order_levels(&search);
    bool is_complete = descend(&search, 0, 0, free);
    *looked_at = nodes - search.left;
    if (search.has_best)
        adopt(&search);
    return is_complete;
}
