/* traingroup.c - time of a common mean over the processes of one host.
 *
 * Four threads with gradients of 25 million float32 on two and on four
 * processes, gradients written in place (no put copies): each process folds
 * its share and copies the mean out. Wall time of process 0, meetings
 * included, the best of several, beside a memcpy of one gradient by process 0
 * alone in between; so on two cores the processes also pay for each other.
 * The chain is timed from its first put, its passes being one after another.
 */
#include "lib/forks.h"
#include "lib/measure.h"
#include <firn/group.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N = 25000000, V = 4, RUNS = 7 };

struct subject {
    int nprocs;
    bool chain;
};

static double wall_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool hand_in(struct firn_group *g, const float *grad)
{
    const int *threads;
    size_t n = firn_group_threads(g, &threads);
    for (size_t i = 0; i < n; i++) {
        const float *slot = firn_group_slot(g, threads[i]);
        if (firn_group_put(g, threads[i], slot != NULL ? slot : grad, 0,
                           NULL) != FIRN_OK)
            return false;
    }
    return true;
}

static void fill(struct firn_group *g, float *grad)
{
    const int *threads;
    size_t n = firn_group_threads(g, &threads);
    for (size_t i = 0; i < n; i++) {
        float *slot = firn_group_slot(g, threads[i]);
        for (size_t j = 0; j < N && slot != NULL; j++)
            slot[j] = (float)(j % 1000) + (float)threads[i];
    }
    for (size_t j = 0; j < N; j++)
        grad[j] = (float)(j % 1000);
}

static void tell(const struct subject *s, double reduce_s, double copy_s)
{
    char name[64];
    const char *kind = s->chain ? "chain" : "mean";
    snprintf(name, sizeof name, "%s of 4 x 25M on %d processes", kind,
             s->nprocs);
    measure_tell(name, reduce_s * 1e3, "ms");
    snprintf(name, sizeof name, "%s on %d, by a memcpy of 25M", kind,
             s->nprocs);
    measure_tell(name, reduce_s / copy_s, "");
    fflush(stdout);
}

/* Reductions and, in process 0 while the others wait, copies by turns. */
static bool measure(struct firn_group *g, const struct subject *s, int rank,
                    float *grad, float *out)
{
    double copy_s = INFINITY, reduce_s = INFINITY;
    int64_t value = 0;
    for (int i = 0; i < RUNS; i++) {
        double since_s = wall_s();
        if (rank == 0)
            memcpy(out, grad, N * sizeof *out);
        copy_s = fmin(copy_s, wall_s() - since_s);
        if (firn_group_max(g, &value, NULL) != FIRN_OK)
            return false;
        since_s = wall_s();
        if (!hand_in(g, grad) ||
            firn_group_reduce(g, out, 0, V, NULL) != FIRN_OK)
            return false;
        reduce_s = fmin(reduce_s, wall_s() - since_s);
    }
    if (rank == 0)
        tell(s, reduce_s, copy_s);
    return true;
}

static int body(int rank, void *arg)
{
    const struct subject *s = arg;
    struct firn_group *g;
    struct firn_error err = {0};
    char name[64];
    snprintf(name, sizeof name, "bench-%d-%d", (int)getppid(), s->chain);
    struct firn_group_config c = {.name = name,
                                  .rank = rank,
                                  .nprocs = s->nprocs,
                                  .nthreads = V,
                                  .nelements = N,
                                  .chain = s->chain};
    if (firn_group_open(&g, &c, &err) != FIRN_OK) {
        if (rank == 0)
            printf("# %s\n", err.text);
        fflush(stdout);
        return 1;
    }
    float *grad = malloc(N * sizeof *grad), *out = malloc(N * sizeof *out);
    bool well = grad != NULL && out != NULL;
    if (well) {
        fill(g, grad);
        well = measure(g, s, rank, grad, out);
    }
    free(grad);
    free(out);
    firn_group_close(g);
    return well ? 0 : 1;
}

int main(void)
{
    static const struct subject subjects[] = {
        {2, false}, {4, false}, {2, true}};
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        struct subject s = subjects[i];
        int status[8];
        forks_run(s.nprocs, body, &s, status);
        for (int r = 0; r < s.nprocs; r++)
            if (status[r] != 0)
                return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
