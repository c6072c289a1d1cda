/* pairs.c - Ymir's assignment with pairs: time and quality, beside cbc.
 *
 * Sizes 1 to 16 GPUs, speeds that grow with a power of the size over the fair
 * one, and a gain for merging two tasks in one of two ways; pairs that lose a
 * tenth are left out, as the policy leaves out those below a weight; the search
 * stops at the policy's gap of 0.1 %. Means over instances. The first few are
 * solved by cbc too, with 60 s for each; if it is not done by then, its time
 * counts as 60 s and the sum is compared with the bound that no choice exceeds.
 */
#include "math/pairs.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "lib/measure.h"
#include "lib/programs.h"
#include <math.h>
#include <stdio.h>

enum { DEADLINE_S = 60, RUNS = 5 };
enum { TASKS = 80, SIZES = 5, MODES = 2, INSTANCES = 20, ASKED = 2 };
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
        .capacity = capacity,
        .tolerance = 1e-3};
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

/* The largest shortfall below the best sum over some instances, in percent, and
 * the time of both. */
struct beside {
    double missed, our_s, cbc_s;
    int nsolved;
};

/* One instance with cbc; false when there is no such program. */
static bool ask(size_t n, int capacity, uint64_t seed, struct beside *worst)
{
    struct arena arena = {0};
    struct rng rng;
    struct pairs_choice choice[TASKS];
    struct pairs_result r;
    struct cbc cbc = {.deadline_s = DEADLINE_S};
    rng_seed(&rng, seed);
    struct pairs_problem p = draw_tasks(&rng, n, capacity);
    double from_s, our_s = INFINITY;
    for (int run = 0; run < RUNS; run++) { /* the machine may be busy */
        from_s = clock_elapsed_s();
        pairs_solve(&p, choice, &r, &arena, NULL);
        our_s = fmin(our_s, clock_elapsed_s() - from_s);
    }
    struct milp program = program_of_pairs(&p, &arena);
    double *x = arena_alloc(&arena, (size_t)program.ncols * sizeof *x);
    from_s = clock_elapsed_s();
    enum cbc_answer answer = cbc_solve(&cbc, &program, &arena, x);
    double cbc_s = clock_elapsed_s() - from_s;
    double best = answer == CBC_SOLVED ? -milp_value(&program, x) : r.bound;
    worst->missed = fmax(worst->missed, 100 * (1 - r.value / best));
    worst->our_s += our_s;
    worst->cbc_s += cbc_s;
    worst->nsolved += answer == CBC_SOLVED;
    arena_release(&arena);
    return answer != CBC_MISSING;
}

static void beside_cbc(size_t n, int capacity)
{
    struct beside worst = {0};
    char name[96];
    for (int seed = 1; seed <= ASKED; seed++)
        if (!ask(n, capacity, (uint64_t)seed, &worst)) {
            measure_say("no cbc here to hold pairs against");
            return;
        }
    snprintf(name, sizeof name, "cbc, %zu tasks, %d GPUs, %d of %d solved", n,
             capacity, worst.nsolved, ASKED);
    measure_tell(name, 1e3 * worst.cbc_s / ASKED, "ms");
    snprintf(name, sizeof name, "pairs / cbc, %zu tasks, %d GPUs: time", n,
             capacity);
    measure_at_most(name, worst.our_s / worst.cbc_s, 0.01, "");
    snprintf(name, sizeof name, "pairs below cbc, %zu tasks, %d GPUs: sum", n,
             capacity);
    measure_at_most(name, worst.missed, 1, "%");
}

int main(void)
{
    static const struct {
        size_t n;
        int capacity;
        double limit_ms;
    } sizes[] = {{20, 32, 5}, {40, 64, 10}, {80, 64, 50}, {80, 240, 50}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        time_pairs(sizes[k].n, sizes[k].capacity, sizes[k].limit_ms);
        beside_cbc(sizes[k].n, sizes[k].capacity);
    }
    return 0;
}
