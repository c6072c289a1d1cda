/* solvers.c - time and quality of the solvers: one capacity, pairs.
 *
 * Menus look like a scheduler's: what a job gets from a GPUs is its best time
 * to finish over its time with a, speed grows with a to a power below 1, and
 * waiting is worth what is left after one more interval, or nothing, which
 * makes all waiting jobs tie. Pairs: sizes 1 to 16, speeds that grow with a
 * power of the size over the fair one, and a gain for merging two tasks.
 * Times are the best of several runs, or, for pairs, the mean over instances.
 *
 * `solvers cbc` instead holds the worst value against cbc's, with 60 s for
 * each size, and says how many times longer that took.
 */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/measure.h"
#include "math/cbc.h"
#include "math/maxmin.h"
#include "math/pairs.h"
#include "math/sumrow.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 5 };

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

enum { TASKS = 80, SIZES = 5, MODES = 2, INSTANCES = 20 };
enum { PAIRS = MODES * TASKS * (TASKS - 1) / 2 };

static struct {
    size_t alone_start[TASKS + 1], pair_start[PAIRS + 1];
    int alone_cost[TASKS * SIZES], pair_cost[PAIRS * SIZES];
    double alone_value[TASKS * SIZES], pair_value[PAIRS * SIZES];
    int first[PAIRS], second[PAIRS];
} tasks;

static size_t add_sizes(int *cost, double *value, size_t at, double scale,
                        double fair, double power)
{
    for (int size = 1; size <= 16; size *= 2, at++) {
        cost[at] = size;
        value[at] = scale * fm_pow(size / fair, power);
    }
    return at;
}

static struct pairs_problem draw_tasks(struct rng *rng, size_t n, int capacity)
{
    double power[TASKS], fair = (double)capacity / (double)n;
    size_t k = 0, a = 0, e = 0;
    for (size_t i = 0; i < n; i++) {
        power[i] = 0.5 + 0.45 * rng_unit(rng);
        tasks.alone_start[i] = a;
        a = add_sizes(tasks.alone_cost, tasks.alone_value, a,
                      0.5 + rng_unit(rng), fair, power[i]);
    }
    tasks.alone_start[n] = a;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            for (int mode = 0; mode < MODES; mode++) {
                double gain = 0.6 + 0.9 * rng_unit(rng);
                if (gain < 0.9)
                    continue;
                tasks.pair_start[k] = e;
                tasks.first[k] = (int)i;
                tasks.second[k++] = (int)j;
                e = add_sizes(tasks.pair_cost, tasks.pair_value, e, 2 * gain,
                              2 * fair, (power[i] + power[j]) / 2);
            }
    tasks.pair_start[k] = e;
    return (struct pairs_problem){
        .alone = {n, tasks.alone_start, tasks.alone_cost, tasks.alone_value, 0},
        .together = {k, tasks.pair_start, tasks.pair_cost, tasks.pair_value, 0},
        .first = tasks.first,
        .second = tasks.second,
        .capacity = capacity};
}

static void time_pairs(size_t n, int capacity, double limit_ms)
{
    struct arena arena = {0};
    double sum_s = 0, worst = 0, sum = 0;
    char name[96];
    for (int seed = 1; seed <= INSTANCES; seed++) {
        struct rng rng;
        struct pairs_choice choice[TASKS];
        struct pairs_result r;
        rng_seed(&rng, (uint64_t)seed);
        struct pairs_problem p = draw_tasks(&rng, n, capacity);
        double from_s = measure_cpu_s();
        pairs_solve(&p, choice, &r, &arena, NULL);
        sum_s += measure_cpu_s() - from_s;
        double gap = 100 * pairs_gap(&r);
        sum += gap;
        worst = gap > worst ? gap : worst;
        arena_reset(&arena);
    }
    snprintf(name, sizeof name, "pairs, %zu tasks, %d GPUs", n, capacity);
    measure_at_most(name, 1e3 * sum_s / INSTANCES, limit_ms, "ms");
    snprintf(name, sizeof name, "pairs, %zu tasks, %d GPUs, worst gap", n,
             capacity);
    measure_at_most(name, worst, 1, "%");
    snprintf(name, sizeof name, "pairs, %zu tasks, %d GPUs, mean gap", n,
             capacity);
    measure_tell(name, sum / INSTANCES, "%");
    arena_release(&arena);
}

/* Maximise t: each menu takes one entry, worth at least t. */
static struct milp program_of(const struct menus *menus, struct arena *arena)
{
    size_t n = menus->n, t = menus->start[n];
    struct milp_col *cols = arena_alloc(arena, (t + 1) * sizeof *cols);
    struct milp_row *rows = arena_alloc(arena, (2 * n + 1) * sizeof *rows);
    struct milp_term *terms = arena_alloc(arena, (3 * t + n) * sizeof *terms);
    cols[t] = (struct milp_col){-1, 0, 1, false};
    rows[2 * n] = (struct milp_row){-INFINITY, menus->capacity, terms, (int)t};
    for (size_t e = 0; e < t; e++) {
        cols[e] = (struct milp_col){0, 0, 1, true};
        *terms++ = (struct milp_term){(int)e, menus->cost[e]};
    }
    for (size_t i = 0; i < n; i++) {
        int length = (int)(menus->start[i + 1] - menus->start[i]);
        rows[2 * i] = (struct milp_row){1, 1, terms, length};
        for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
            *terms++ = (struct milp_term){(int)e, 1};
        rows[2 * i + 1] = (struct milp_row){0, INFINITY, terms, length + 1};
        for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
            *terms++ = (struct milp_term){(int)e, menus->value[e]};
        *terms++ = (struct milp_term){(int)t, -1};
    }
    return (struct milp){cols, (int)t + 1, rows, (int)(2 * n + 1)};
}

static void against_cbc(size_t n, int capacity)
{
    struct bench b;
    struct maxmin_result r;
    struct cbc cbc = {.deadline_s = 60};
    make(&b, n, capacity, IDLE_WAITS);
    double from_s = clock_elapsed_s();
    maxmin_leximin(&b.menus, 0, b.entry, &r, &b.arena, NULL);
    double our_s = clock_elapsed_s() - from_s;
    struct milp program = program_of(&b.menus, &b.arena);
    double *x = arena_alloc(&b.arena, (size_t)program.ncols * sizeof *x);
    from_s = clock_elapsed_s();
    enum cbc_answer answer = cbc_solve(&cbc, &program, &b.arena, x);
    double cbc_s = clock_elapsed_s() - from_s;
    measure_say("%zu jobs, %d GPUs: worst %.9g; cbc %s %.9g after %.2f s, "
                "%.0f times ours",
                n, capacity, r.worst, cbc_answer_text(answer),
                answer == CBC_SOLVED ? -milp_value(&program, x) : 0.0, cbc_s,
                cbc_s / our_s);
    drop(&b);
}

int main(int argc, char **argv)
{
    static const struct {
        size_t n;
        int capacity;
        double limit_ms;
    } sizes[] = {{60, 48, 1}, {120, 240, 1}, {400, 960, 1}, {4000, 10000, 50}};
    if (argc > 1 && strcmp(argv[1], "cbc") == 0) {
        for (size_t k = 0; k < 3; k++)
            against_cbc(sizes[k].n, sizes[k].capacity);
        return EXIT_SUCCESS;
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int idle = IDLE_WAITS; idle <= IDLE_IS_ZERO; idle++)
            time_leximin(sizes[k].n, sizes[k].capacity, (enum idle)idle,
                         sizes[k].limit_ms);
    time_leximin(4000, 2000, IDLE_IS_ZERO, 50);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        time_sum(sizes[k].n, sizes[k].capacity, 5 * sizes[k].limit_ms);
    time_pairs(20, 32, 5);
    time_pairs(40, 64, 10);
    time_pairs(80, 64, 50);
    time_pairs(80, 240, 50);
    return EXIT_SUCCESS;
}
