/* menus.c - checking menus, and striking out what is never worth taking.
 *
 * A menu sorted by cost is walked once: an entry stays when it is worth more
 * than all before it, and replaces the one before when it costs the same.
 */
#include "math/menus.h"
#include "base/arena.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static enum firn_status check_menu(const struct menus *menus, size_t i,
                                   const char *what, struct firn_error *err)
{
    if (menus->start[i] >= menus->start[i + 1])
        return firn_fail(err, FIRN_EINVAL, "%s: menu %zu is empty", what,
                         i + 1);
    for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
        if (menus->cost[e] < 0 || !isfinite(menus->value[e]))
            return firn_fail(err, FIRN_EINVAL,
                             "%s: menu %zu, entry %zu: cost %d, value %g", what,
                             i + 1, e - menus->start[i] + 1, menus->cost[e],
                             menus->value[e]);
    return FIRN_OK;
}

enum firn_status menus_check(const struct menus *menus, const char *what,
                             struct firn_error *err)
{
    int64_t least = 0;
    if (menus->capacity < 0)
        return firn_fail(err, FIRN_EINVAL, "%s: capacity %d", what,
                         menus->capacity);
    for (size_t i = 0; i < menus->n; i++) {
        FIRN_TRY(check_menu(menus, i, what, err));
        int cheapest = menus->cost[menus->start[i]];
        for (size_t e = menus->start[i] + 1; e < menus->start[i + 1]; e++)
            cheapest = menus->cost[e] < cheapest ? menus->cost[e] : cheapest;
        least += cheapest;
    }
    if (least > menus->capacity)
        return firn_fail(err, FIRN_EDATA,
                         "%s: the cheapest entries cost %lld, capacity %d",
                         what, (long long)least, menus->capacity);
    return FIRN_OK;
}

struct entry {
    int cost;
    double value;
    size_t at;
};

static int by_cost(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The entries of menu i by cost, then as listed; `list` has room for them. */
static void sorted_menu(const struct menus *menus, size_t i, struct entry *list)
{
    size_t n = 0;
    bool is_sorted = true;
    for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++) {
        list[n] = (struct entry){menus->cost[e], menus->value[e], e};
        is_sorted = is_sorted && (n == 0 || list[n - 1].cost <= list[n].cost);
        n++;
    }
    if (!is_sorted)
        qsort(list, n, sizeof *list, by_cost);
}

struct frontier menus_frontier(const struct menus *menus, struct arena *scratch)
{
    size_t total = 0, longest = 0, k = 0, n = menus->n;
    for (size_t i = 0; i < n; i++) {
        size_t length = menus->start[i + 1] - menus->start[i];
        total += length;
        longest = length > longest ? length : longest;
    }
    size_t *start = arena_alloc(scratch, (n + 1) * sizeof *start);
    int *cost = arena_alloc(scratch, total * sizeof *cost);
    double *value = arena_alloc(scratch, total * sizeof *value);
    size_t *entry = arena_alloc(scratch, total * sizeof *entry);
    struct entry *list = arena_alloc(scratch, longest * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        start[i] = k;
        sorted_menu(menus, i, list);
        for (size_t e = 0; e < menus->start[i + 1] - menus->start[i]; e++) {
            if (k > start[i] && list[e].value <= value[k - 1])
                continue;
            if (k > start[i] && list[e].cost == cost[k - 1])
                k--;
            cost[k] = list[e].cost;
            value[k] = list[e].value;
            entry[k++] = list[e].at;
        }
    }
    start[n] = k;
    return (struct frontier){n, start, cost, value, entry};
}
