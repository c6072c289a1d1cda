/* solvers.c - time and quality of the solvers over shared capacities.
 *
 * Menus look like a scheduler's: the value of `a` GPUs to a job is its best
 * time to finish over its time with a; speed grows with a to a power below 1;
 * waiting is worth the value after one more interval, or nothing, which makes
 * all waiting jobs tie. Times are the best of several runs.
 *
 * Then the same beside cbc, which has 60 s for each size and computes only the
 * best worst value. If it is not done by then, its time counts as 60 s.
 *
 * Last the assignment over several pools (math/priced.h), to one part in a
 * thousand as the policy firn asks for it: jobs with 1 to 16 GPUs of each of
 * three types, once with further choices that take from two types.
 */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/measure.h"
#include "lib/programs.h"
#include "math/maxmin.h"
#include "math/priced.h"
#include "math/sumrow.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 5, DEADLINE_S = 60 };

struct bench {
    struct menus menus;
    size_t *start, *entry;
    int *cost;
    double *value;
    struct arena arena;
};

enum idle { IDLE_WAITS, IDLE_IS_ZERO };

static void fill(struct bench *b, struct rng *rng, size_t i, enum idle idle)
{
    size_t length = 10 + rng_below(rng, 31), k = b->start[i];
    double age_s = 20000 * rng_unit(rng), left_s = rng_exp(rng, 20000);
    double power = 0.5 + 0.45 * rng_unit(rng);
    double best_s = age_s + left_s / fm_pow((double)length, power);
    b->cost[k] = 0;
    b->value[k++] = idle == IDLE_IS_ZERO ? 0 : best_s / (best_s + 300);
    for (size_t a = 1; a <= length; a++) {
        b->cost[k] = (int)a;
        b->value[k++] = best_s / (age_s + left_s / fm_pow((double)a, power));
    }
    b->start[i + 1] = k;
}

static void make(struct bench *b, size_t n, int capacity, enum idle idle)
{
    struct rng rng;
    rng_seed(&rng, n);
    b->arena = (struct arena){0};
    b->start = mem_new(n + 1, sizeof *b->start);
    b->entry = mem_new(n, sizeof *b->entry);
    b->cost = mem_new(n * 41, sizeof *b->cost);
    b->value = mem_new(n * 41, sizeof *b->value);
    for (size_t i = 0; i < n; i++)
        fill(b, &rng, i, idle);
    b->menus = (struct menus){n, b->start, b->cost, b->value, capacity};
}

static void drop(struct bench *b)
{
    mem_free(b->start);
    mem_free(b->entry);
    mem_free(b->cost);
    mem_free(b->value);
    arena_release(&b->arena);
}

static void time_leximin(size_t n, int capacity, enum idle idle, double limit)
{
    struct bench b;
    struct maxmin_result r = {0};
    char name[96];
    double best_ms = 1e9;
    make(&b, n, capacity, idle);
    for (int run = 0; run < RUNS; run++) {
        double from_s = measure_cpu_s();
        maxmin_leximin(&b.menus, 0, b.entry, &r, &b.arena, NULL);
        double ms = 1e3 * (measure_cpu_s() - from_s);
        best_ms = ms < best_ms ? ms : best_ms;
        arena_reset(&b.arena);
    }
    snprintf(name, sizeof name, "leximin, %zu jobs, %d GPUs%s%s", n, capacity,
             idle == IDLE_IS_ZERO ? ", idle zero" : "",
             r.is_exact ? "" : " (cut short)");
    measure_at_most(name, best_ms, limit, "ms");
    drop(&b);
}

static void time_sum(size_t n, int capacity, double limit)
{
    struct bench b;
    struct sumrow_result r = {0};
    char name[96];
    double best_ms = 1e9;
    make(&b, n, capacity, IDLE_IS_ZERO);
    for (int run = 0; run < RUNS; run++) {
        double from_s = measure_cpu_s();
        sumrow_solve(&b.menus, b.entry, &r, &b.arena, NULL);
        double ms = 1e3 * (measure_cpu_s() - from_s);
        best_ms = ms < best_ms ? ms : best_ms;
        arena_reset(&b.arena);
    }
    snprintf(name, sizeof name, "best sum, %zu jobs, %d GPUs, core %zu", n,
             capacity, r.core);
    measure_at_most(name, best_ms, limit, "ms");
    drop(&b);
}

static double least_leximin_s(struct bench *b, struct maxmin_result *r)
{
    double best_s = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        double from_s = clock_elapsed_s();
        maxmin_leximin(&b->menus, 0, b->entry, r, &b->arena, NULL);
        best_s = fmin(best_s, clock_elapsed_s() - from_s);
        arena_reset(&b->arena);
    }
    return best_s;
}

static void against_cbc(size_t n, int capacity, double limit)
{
    struct bench b;
    struct maxmin_result r;
    struct cbc cbc = {.deadline_s = DEADLINE_S};
    char name[96];
    make(&b, n, capacity, IDLE_WAITS);
    double our_s = least_leximin_s(&b, &r);
    struct milp program = program_of_menus(&b.menus, &b.arena);
    double *x = arena_alloc(&b.arena, (size_t)program.ncols * sizeof *x);
    double from_s = clock_elapsed_s();
    enum cbc_answer answer = cbc_solve(&cbc, &program, &b.arena, x);
    double cbc_s = clock_elapsed_s() - from_s;
    snprintf(name, sizeof name, "cbc, %zu jobs, %d GPUs: %s", n, capacity,
             cbc_answer_text(answer));
    measure_tell(name, 1e3 * cbc_s, "ms");
    snprintf(name, sizeof name, "leximin / cbc, %zu jobs, %d GPUs: time", n,
             capacity);
    if (limit > 0 && answer != CBC_MISSING)
        measure_at_most(name, our_s / cbc_s, limit, "");
    else
        measure_tell(name, our_s / cbc_s, "");
    snprintf(name, sizeof name, "leximin below cbc, %zu jobs, %d GPUs: worst",
             n, capacity);
    if (answer == CBC_SOLVED)
        measure_at_most(name, -milp_value(&program, x) - r.worst, 1e-6, "");
    drop(&b);
}

enum { POOLS = 3, SIZES = 8, MIXES = 12, CHOICES = POOLS * SIZES + MIXES };

/* Numbers of GPUs on one type, and beside others. */
static const int pool_sizes[SIZES] = {1, 2, 3, 4, 6, 8, 12, 16};

struct assignment {
    struct priced_item *items;
    struct priced_choice *choices;
    struct priced_take *takes;
    int *chosen;
};

static void fill_item(struct assignment *a, struct rng *rng, size_t i,
                      int mixes)
{
    struct priced_choice *choices = &a->choices[i * CHOICES];
    double power = 0.5 + 0.45 * rng_unit(rng), weight = rng_exp(rng, 1);
    double speed[POOLS];
    int n = 0;
    for (int p = 0; p < POOLS; p++) {
        speed[p] = 1 + p * rng_unit(rng);
        for (int k = 0; k < SIZES; k++)
            choices[n++] = (struct priced_choice){
                .pool = p,
                .units = pool_sizes[k],
                .value = weight * speed[p] * fm_pow(pool_sizes[k], power)};
    }
    for (int m = 0; m < mixes; m++) {
        int p = m % POOLS, other = (p + 1) % POOLS;
        int units = pool_sizes[rng_below(rng, SIZES)];
        struct priced_take *take = &a->takes[i * MIXES + (size_t)m];
        *take = (struct priced_take){other, pool_sizes[rng_below(rng, SIZES)]};
        double sum = speed[p] * units + speed[other] * take->units;
        choices[n++] = (struct priced_choice){
            .pool = p,
            .units = units,
            .value =
                0.95 * weight * sum * fm_pow(units + take->units, power - 1),
            .more = take,
            .nmore = 1};
    }
    a->items[i] = (struct priced_item){choices, n, PRICED_NONE};
}

static void time_pools(size_t n, int mixes, double limit)
{
    const int capacity[POOLS] = {(int)n, (int)n, (int)n};
    struct assignment a = {
        mem_new(n, sizeof *a.items), mem_new(n * CHOICES, sizeof *a.choices),
        mem_new(n * MIXES, sizeof *a.takes), mem_new(n, sizeof *a.chosen)};
    struct arena arena = {0};
    struct rng rng;
    struct priced_result result = {0};
    char name[96];
    double best_ms = 1e9;
    rng_seed(&rng, n);
    for (size_t i = 0; i < n; i++)
        fill_item(&a, &rng, i, mixes);
    struct priced_problem problem = {a.items, (int)n, capacity, POOLS};
    for (int run = 0; run < RUNS; run++) {
        double from_s = measure_cpu_s();
        priced_solve(&problem, &(struct priced_limits){1e-3, 40000}, &arena,
                     a.chosen, &result);
        best_ms = fmin(best_ms, 1e3 * (measure_cpu_s() - from_s));
        arena_reset(&arena);
    }
    snprintf(name, sizeof name, "assignment, %zu jobs, 3 types%s, gap %.1e", n,
             mixes > 0 ? " and mixes" : "", result.gap);
    measure_at_most(name, best_ms, limit, "ms");
    mem_free(a.items);
    mem_free(a.choices);
    mem_free(a.takes);
    mem_free(a.chosen);
    arena_release(&arena);
}

int main(void)
{
    static const struct {
        size_t n;
        int capacity;
        double limit_ms;
    } sizes[] = {{60, 48, 1}, {120, 240, 1}, {400, 960, 1}, {4000, 10000, 50}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int idle = IDLE_WAITS; idle <= IDLE_IS_ZERO; idle++)
            time_leximin(sizes[k].n, sizes[k].capacity, (enum idle)idle,
                         sizes[k].limit_ms);
    time_leximin(4000, 2000, IDLE_IS_ZERO, 50);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        time_sum(sizes[k].n, sizes[k].capacity, 5 * sizes[k].limit_ms);
    for (size_t k = 0; k < 3; k++)
        against_cbc(sizes[k].n, sizes[k].capacity,
                    sizes[k].capacity == 960 ? 0.001 : 0);
    for (int mixes = 0; mixes <= MIXES; mixes += MIXES) {
        time_pools(40, mixes, 2);
        time_pools(400, mixes, 10);
        time_pools(4000, mixes, 100);
    }
    return EXIT_SUCCESS;
}
