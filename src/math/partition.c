/* partition.c - heaviest first, to the lightest group; shares by remainders.
 *
 * Dealing by falling weight keeps two groups apart by at most the weight of
 * one user (Graham 1969), and unlike a random split gives the same groups on
 * every run. A group's share of the capacity is its part of all weight,
 * rounded down; the units left over go to the largest remainders.
 */
#include "math/partition.h"
#include "base/arena.h"
#include <math.h>
#include <stdlib.h>

struct user {
    double weight;
    size_t i;
};

static int heavier_first(const void *left, const void *right)
{
    const struct user *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->i < b->i ? -1 : a->i > b->i;
}

/* Divides the capacity by load; equally if there is no load at all. */
static void divide(double *load, size_t k, int capacity, int *share)
{
    double sum = 0;
    int left = capacity;
    for (size_t g = 0; g < k; g++)
        sum += load[g];
    for (size_t g = 0; g < k; g++) {
        double exact = capacity * (sum > 0 ? load[g] / sum : 1 / (double)k);
        share[g] = (int)floor(exact);
        load[g] = exact - share[g]; /* from here on: the remainder */
        left -= share[g];
    }
    for (; left > 0; left--) {
        size_t most = 0;
        for (size_t g = 1; g < k; g++)
            if (load[g] > load[most])
                most = g;
        share[most]++;
        load[most]--;
    }
    for (; left < 0; left++) { /* rounding: a sum just above the capacity */
        size_t least = 0;
        for (size_t g = 1; g < k; g++)
            if (share[g] > share[least])
                least = g;
        share[least]--;
    }
}

void partition_split(const double *weight, size_t n, size_t k, int capacity,
                     int *group, int *share, struct arena *scratch)
{
    struct user *users = arena_alloc(scratch, n * sizeof *users);
    double *load = arena_alloc(scratch, k * sizeof *load);
    for (size_t i = 0; i < n; i++)
        users[i] = (struct user){weight != NULL ? weight[i] : 1, i};
    qsort(users, n, sizeof *users, heavier_first);
    for (size_t u = 0; u < n; u++) {
        size_t lightest = 0;
        for (size_t g = 1; g < k; g++)
            if (load[g] < load[lightest])
                lightest = g;
        group[users[u].i] = (int)lightest;
        load[lightest] += users[u].weight;
    }
    divide(load, k, capacity, share);
}
