/* liveforecast_merge.c - a prior from measured pairs, and what was seen here.
 *
 * Together (Ymir's spatial transfer): two jobs that would take A and B seconds
 * alone take turns, each in proportion to its work, and each needs g times less
 * of it for what the other learns. Both are done after (A + B) / g seconds. g
 * is what a training of both gets done in a second, counted in seconds of each
 * alone: 1 when they only share the time.
 *
 * After (temporal): the second needs h times less for the weights of the first.
 *
 * What g and h are before anything was seen: the medians over the pairs of the
 * Titan artifact that the simulator runs by (sim/transfers.def): epochs alone
 * over epochs together, 256 pairs, and over epochs after the other, 192; one
 * that never got to its target in ten epochs counts as twenty, tasks that got
 * there with nobody are left out. Once seen: the pair's own g if these two
 * datasets were trained together before; else the mean of the pairs of that
 * base and of one imagined pair of the prior. What h was cannot be seen in
 * reports and stays the prior's.
 *
 * TranWt is Ymir's eq. (12) and (13): both alone, the shorter first, over both
 * merged. So two jobs of the same length are worth merging with g above 4/3.
 *
 * Not kept over a restart. Cost: O(pairs seen) for an answer.
 */
#include "daemon/liveforecast_merge.h"
#include "base/mem.h"
#include "base/vec.h"
#include <math.h>
#include <string.h>

#define TOGETHER 1.50
#define AFTER    1.11

struct pair {
    char *base, *set[2]; /* in the order of their names */
    double gain;
};

struct livemerge {
    VEC(struct pair) pairs;
};

struct livemerge *livemerge_new(void)
{
    return mem_new(1, sizeof(struct livemerge));
}

void livemerge_free(struct livemerge *merges)
{
    if (merges == NULL)
        return;
    for (size_t i = 0; i < merges->pairs.n; i++) {
        mem_free(merges->pairs.at[i].base);
        mem_free(merges->pairs.at[i].set[0]);
        mem_free(merges->pairs.at[i].set[1]);
    }
    vec_release(&merges->pairs);
    mem_free(merges);
}

static bool is_of(const struct pair *pair, const struct livemerge_side side[2])
{
    int first = strcmp(side[0].dataset, side[1].dataset) > 0;
    return strcmp(pair->base, side[0].base) == 0 &&
           strcmp(pair->set[0], side[first].dataset) == 0 &&
           strcmp(pair->set[1], side[1 - first].dataset) == 0;
}

static double gain_of(const struct livemerge *merges,
                      const struct livemerge_side side[2])
{
    double sum = TOGETHER, n = 1;
    for (size_t i = 0; i < merges->pairs.n; i++) {
        const struct pair *pair = &merges->pairs.at[i];
        if (is_of(pair, side))
            return pair->gain;
        if (strcmp(pair->base, side[0].base) == 0) {
            sum += pair->gain;
            n++;
        }
    }
    return sum / n;
}

bool livemerge_expect(const struct livemerge *merges,
                      const struct livemerge_side side[2],
                      enum firn_merge_kind kind, struct firn_merge *out)
{
    double a = side[0].alone_s, b = side[1].alone_s;
    struct firn_merge merge;
    if (side[0].base[0] == '\0' || strcmp(side[0].base, side[1].base) != 0 ||
        strcmp(side[0].dataset, side[1].dataset) == 0 || !(a > 0) || !(b > 0))
        return false;
    if (kind == FIRN_MERGE_AFTER && !side[1].is_new)
        return false;
    if (kind == FIRN_MERGE_AFTER) {
        merge.left_s[0] = a;
        merge.left_s[1] = a + b / AFTER;
        merge.epoch_s = side[1].epoch_s;
    } else {
        double gain = gain_of(merges, side);
        merge.left_s[0] = merge.left_s[1] = (a + b) / gain;
        merge.epoch_s = side[0].epoch_s + side[1].epoch_s;
    }
    merge.weight =
        (2 * fmin(a, b) + fmax(a, b)) / (merge.left_s[0] + merge.left_s[1]);
    *out = merge;
    return true;
}

void livemerge_saw(struct livemerge *merges,
                   const struct livemerge_side side[2], double together)
{
    int first = strcmp(side[0].dataset, side[1].dataset) > 0;
    if (!(together > 0) || !isfinite(together))
        return;
    for (size_t i = 0; i < merges->pairs.n; i++)
        if (is_of(&merges->pairs.at[i], side)) {
            merges->pairs.at[i].gain = together;
            return;
        }
    struct pair pair = {
        mem_strdup(side[0].base),
        {mem_strdup(side[first].dataset), mem_strdup(side[1 - first].dataset)},
        together};
    vec_add(&merges->pairs, pair);
}
