/* shares.c - a round of pollux: its time, and its fitness beside a genetic
 * search's.
 *
 * 100 jobs on 64 nodes of 4 GPUs, one in twenty of them new
 * (tests/lib/allot_random.h), with the policy's default effort and bound. The
 * genetic search is the paper's, with 100 matrices and 100 generations, and
 * gets two further rounds to improve on its own first front, as it would in a
 * scheduler that keeps running. Times are the best of several runs.
 */
#include "base/mem.h"
#include "lib/allot_random.h"
#include "lib/measure.h"
#include "lib/plain_nsga.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 100, NODES = 64, CELLS = JOBS * NODES, EFFORT = 16, RUNS = 5 };

/* The first fronts of the genetic search. */
struct front {
    int *at;
    int n;
};

static void keep(void *arg, const int *matrix)
{
    struct front *front = arg;
    if (front->n < 200)
        memcpy(front->at + (size_t)front->n++ * CELLS, matrix,
               CELLS * sizeof *matrix);
}

static double genetic(const struct allot_problem *problem, uint64_t seed)
{
    struct nsga nsga = {
        .problem = problem, .population = 100, .generations = 100};
    struct front front[2] = {{mem_new(200 * CELLS, sizeof(int)), 0},
                             {mem_new(200 * CELLS, sizeof(int)), 0}};
    int *best = mem_new(CELLS, sizeof *best);
    double fitness = 0;
    rng_seed(&nsga.rng, seed);
    for (int round = 0; round < 3; round++) {
        struct front *from = &front[round % 2], *to = &front[(round + 1) % 2];
        to->n = 0;
        fitness = nsga_run(&nsga, from->at, from->n, best, keep, to).fitness;
    }
    mem_free(best);
    mem_free(front[0].at);
    mem_free(front[1].at);
    return fitness;
}

static double ours(const struct allot_problem *problem, double *cpu_s)
{
    double fitness = 0;
    *cpu_s = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        struct arena arena = {0};
        double from_s = measure_cpu_s();
        fitness = allot_run(problem, &arena).fitness;
        *cpu_s = fmin(*cpu_s, measure_cpu_s() - from_s);
        arena_release(&arena);
    }
    return fitness;
}

int main(void)
{
    for (int seed = 1; seed <= 3; seed++) {
        struct allot_case it;
        char name[64];
        double cpu_s;
        allot_case_draw(&it, JOBS, NODES, (uint64_t)seed);
        it.problem.effort = EFFORT;
        it.problem.max_work = 1000 * JOBS;
        double fitness = ours(&it.problem, &cpu_s);
        snprintf(name, sizeof name,
                 "pollux, 100 jobs, 256 GPUs, seed %d: round", seed);
        measure_at_most(name, 1e3 * cpu_s, 50, "ms");
        snprintf(name, sizeof name, "pollux, seed %d: genetic fitness / ours",
                 seed);
        measure_at_most(name, genetic(&it.problem, (uint64_t)seed) / fitness, 1,
                        "x");
        allot_case_release(&it);
    }
    return EXIT_SUCCESS;
}
