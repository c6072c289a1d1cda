/* resize.c - how long training pauses for a resize without a stop.
 *
 * A toy job (lib/joinjob.h) of eight threads on one to four processes is
 * resized to random layouts while it trains, and the ends of all steps are
 * noted. The pause of a resize is the longest time between the ends of two
 * steps around it, less the median step; it is also what the job says itself.
 * Prints median, 99th percentile and longest of both, for two sizes of the
 * state.
 *
 *     build/bench/resize [RESIZES]
 */
#include "base/rng.h"
#include "lib/joinjob.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 8, MOST = 4, RESIZES = 2000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_line(const char *what, double *s, int n)
{
    qsort(s, (size_t)n, sizeof *s, by_value);
    printf("  %-24s median %8.3f ms, p99 %8.3f ms, longest %8.3f ms\n", what,
           1e3 * s[n / 2], 1e3 * s[(99 * n) / 100 < n ? (99 * n) / 100 : n - 1],
           1e3 * s[n - 1]);
}

/* The longest time between the ends of two steps from `from` to `to`. */
static double longest_s(const struct joinjob *job, uint64_t from, uint64_t to)
{
    double most = 0;
    for (uint64_t i = from > 0 ? from : 1; i < to; i++)
        most =
            fmax(most, joinjob_ended_s(job, i) - joinjob_ended_s(job, i - 1));
    return most;
}

/* The median step between these. */
static double usual_s(const struct joinjob *job, uint64_t from, uint64_t to)
{
    enum { SEEN = 64 };
    double s[SEEN];
    int n = 0;
    for (uint64_t i = from > 0 ? from : 1; i < to && n < SEEN; i++)
        s[n++] = joinjob_ended_s(job, i) - joinjob_ended_s(job, i - 1);
    qsort(s, (size_t)n, sizeof *s, by_value);
    return n > 0 ? s[n / 2] : 0;
}

static int draw(struct rng *rng, int nold, int *from)
{
    int nnew = 1 + (int)rng_below(rng, MOST);
    bool taken[JOINJOB_PROCS] = {false};
    for (int r = 0; r < nnew; r++) {
        int old = (int)rng_below(rng, (uint64_t)nold);
        from[r] = rng_below(rng, 4) != 0 && !taken[old] ? old : -1;
        taken[old] = taken[old] || from[r] == old;
    }
    return nnew;
}

static void wait_for_step(struct joinjob *job, uint64_t step)
{
    while (joinjob_step(job) < step)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void measure(const char *dir, size_t nelements, int nresizes)
{
    struct joinjob job;
    struct rng rng;
    double told[RESIZES], seen[RESIZES];
    int n = 0;
    joinjob_open(&job, dir, THREADS, nelements, JOINJOB_STEPS - 1);
    job.every = 0;
    rng_seed(&rng, 20);
    joinjob_start(&job, 1);
    joinjob_allow(&job, UINT64_MAX);
    wait_for_step(&job, 10);
    while (n < nresizes && joinjob_step(&job) < JOINJOB_STEPS - 2000) {
        int from[JOINJOB_PROCS];
        int nnew = draw(&rng, job.nprocs, from);
        if (joinjob_resize(&job, nnew, from, JOINJOB_NONE) != FIRN_JOIN_DONE)
            continue;
        struct firn_join_result result = joinjob_result(&job);
        wait_for_step(&job, result.step + 12);
        told[n] = result.pause_s;
        seen[n] = fmax(0, longest_s(&job, result.step - 1, result.step + 2) -
                              usual_s(&job, result.step + 2, result.step + 12));
        n++;
    }
    printf("%zu weights and as much optimiser state, %d resizes:\n", nelements,
           n);
    print_line("pause, as seen", seen, n);
    print_line("pause, as the job says", told, n);
    joinjob_close(&job);
}

int main(int argc, char **argv)
{
    char top[] = "/tmp/firn-resize-XXXXXX", dir[64];
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 100;
    n = n > 0 && n <= RESIZES ? n : 100;
    if (mkdtemp(top) == NULL)
        return 1;
    snprintf(dir, sizeof dir, "%s/run", top);
    printf(
        "Pauses of resizes without a stop, %d threads on 1 to %d processes\n",
        THREADS, MOST);
    measure(dir, 10000, n);
    measure(dir, 250000, n / 4 + 1);
    rmdir(top);
    return 0;
}
