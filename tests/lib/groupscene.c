/* groupscene.c - see groupscene.h.
 */
#include "lib/groupscene.h"
#include "base/rng.h"
#include "lib/forks.h"
#include <firn/fold.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3 };

const char groupscene_key[] = "00112233445566778899aabbccddeeff"
                              "fedcba9876543210a5a5a5a50f0f0f0f";

struct groupscene groupscene_of(int nprocs, int nthreads, const int *owner)
{
    static int nscenes;
    struct groupscene s = {.nprocs = nprocs, .nthreads = nthreads, .nhosts = 1};
    for (int v = 0; v < nthreads; v++)
        s.owner[v] = owner != NULL ? owner[v] : v * nprocs / nthreads;
    s.key = groupscene_key;
    s.timeout_s = 120; /* nothing here takes so long on any machine */
    s.victim = -1;
    snprintf(s.name, sizeof s.name, "test-%d-%d", (int)getpid(), nscenes++);
    return s;
}

struct groupscene groupscene_on(struct groupscene s, int a, int b, int c)
{
    s.nhosts = c > 0 ? 3 : 2;
    s.host_procs[0] = a;
    s.host_procs[1] = b;
    s.host_procs[2] = c;
    s.port = forks_free_port();
    return s;
}

enum firn_status groupscene_try(struct firn_group **g,
                                const struct groupscene *s, int rank,
                                struct firn_error *err)
{
    struct firn_group_config c = {.name = s->name,
                                  .rank = rank,
                                  .nprocs = s->nprocs,
                                  .nthreads = s->nthreads,
                                  .owner = s->owner,
                                  .nelements = SCENE_N,
                                  .chain = s->chain,
                                  .sum = s->sum,
                                  .timeout_s = s->timeout_s};
    int host = 0, first = 0;
    while (s->nhosts > 1 && rank >= first + s->host_procs[host])
        first += s->host_procs[host++];
    if (s->nhosts > 1) {
        c.local_rank = rank - first;
        c.local_nprocs = s->host_procs[host];
        c.address = "127.0.0.1";
        c.port = s->port;
        c.key = host == 1 && s->other_key ? s->other_key : s->key;
    }
    return firn_group_open(g, &c, err);
}

struct firn_group *groupscene_open(const struct groupscene *s, int rank)
{
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    enum firn_status status = groupscene_try(&g, s, rank, &err);
    if (status != FIRN_OK)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    FORKS_CHECK(status == FIRN_OK);
    return g;
}

void groupscene_draw(float *grad, int thread, int step)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)(thread * 1000 + step));
    for (size_t i = 0; i < SCENE_N; i++) {
        double scale = (double)(1 << rng_below(&rng, 20));
        grad[i] = (float)((rng_unit(&rng) - 0.5) * scale);
    }
}

static void fold_here(float *out, int nthreads, int step, enum firn_sum sum)
{
    static float grad[SCENE_THREADS][SCENE_N];
    const float *in[SCENE_THREADS];
    for (int v = 0; v < nthreads; v++) {
        groupscene_draw(grad[v], v, step);
        in[v] = grad[v];
    }
    if (sum == FIRN_SUM_CHAIN)
        firn_fold_f32(out, in, (size_t)nthreads, SCENE_N, (float)nthreads);
    else
        firn_fold_tree_f32(out, in, NULL, (size_t)nthreads, SCENE_N,
                           (float)nthreads);
}

enum firn_status groupscene_step(struct firn_group *g,
                                 const struct groupscene *s, int step,
                                 float *out, struct firn_error *err)
{
    static float grad[SCENE_N];
    const int *threads;
    size_t n = firn_group_threads(g, &threads);
    for (size_t i = 0; i < n; i++) {
        float *slot = firn_group_slot(g, threads[i]);
        float *at = slot != NULL && step % 2 == 0 ? slot : grad;
        groupscene_draw(at, threads[i], step);
        FIRN_TRY(firn_group_put(g, threads[i], at, s->start, err));
    }
    return firn_group_reduce(g, out, s->start, (float)s->nthreads, err);
}

int groupscene_equal(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N], want[SCENE_N];
    for (int step = 0; step < STEPS; step++) {
        if (step == 1 && s->then != FIRN_SUM_DEFAULT)
            FORKS_CHECK(firn_group_set_sum(g, s->then, NULL) == FIRN_OK);
        for (size_t i = 0; i < SCENE_N; i++)
            out[i] = -7;
        enum firn_status status = groupscene_step(g, s, step, out, &err);
        if (status != FIRN_OK)
            fprintf(stderr, "process %d: %s\n", rank, err.text);
        FORKS_CHECK(status == FIRN_OK);
        fold_here(want, s->nthreads, step, firn_group_sum(g));
        for (size_t i = 0; i < s->start; i++)
            want[i] = -7;
        FORKS_CHECK(memcmp(out, want, sizeof out) == 0);
    }
    firn_group_close(g);
    return 0;
}
