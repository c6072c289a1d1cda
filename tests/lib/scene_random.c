/* scene_random.c - random clusters, jobs and events, as text where possible:
 * a failing case can be read, and typed into a test of its own.
 */
#include "scene_random.h"

#include "base/buf.h"
#include <math.h>

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

static const char *const types[] = {"v100", "t4", "a100"};

/* What it may be merged with, and what its trainer cannot do. */
static void able_text(struct rng *rng, unsigned kinds, struct firn_buf *out)
{
    char words[FIRN_CAN_TEXT];
    unsigned cannot = 0;
    if (kinds & SCENE_MODELS)
        buf_puts(out, below(rng, 2) ? " merges M" : " seq 128");
    if (kinds & SCENE_UNABLE)
        cannot = (unsigned)below(rng, FIRN_CAN_ALL + 1);
    if (cannot == 0)
        return;
    firn_can_write(words, cannot);
    buf_printf(out, " cannot %s", words);
}

/* A job's clause; returns the GPUs it wants. Sizes are often small and
 * sometimes all there is. */
static int job_text(struct rng *rng, unsigned kinds, int number, int cap,
                    struct firn_buf *out)
{
    int gpus = below(rng, 8) == 0 ? 1 + below(rng, cap)
                                  : 1 + below(rng, cap < 8 ? cap : 8);
    buf_printf(out, "J%d wants %d for %d", number, gpus, 1 + below(rng, 200));
    if ((kinds & SCENE_ELASTIC) && below(rng, 2))
        buf_printf(out, " from 1 to %d", gpus + below(rng, 8));
    if ((kinds & SCENE_SHARING) && below(rng, 3) > 0)
        buf_puts(out, " shares");
    able_text(rng, kinds, out);
    return gpus;
}

/* A type that has as many GPUs as the job wants. */
static void type_text(struct rng *rng, const struct firn_cluster *cluster,
                      int gpus, struct firn_buf *out)
{
    int t = below(rng, cluster->ntypes);
    if (cluster->types[t].ngpus >= gpus)
        buf_printf(out, " types %s", cluster->types[t].name);
}

/* It keeps to one type, where one has as many as `most` GPUs. */
static void alike_text(struct rng *rng, unsigned kinds, int gpus, int most,
                       struct firn_buf *out)
{
    if ((kinds & SCENE_ALIKE) && gpus <= most && below(rng, 3) > 0)
        buf_puts(out, " alike");
}

struct firn_buf scene_random(struct rng *rng, unsigned kinds)
{
    struct firn_buf out = {0};
    int ntypes = kinds & SCENE_TYPES ? 2 + below(rng, 2) : 1, cap = 0;
    int most = 0; /* of one type */
    for (int t = 0; t < ntypes; t++) {
        int nodes = 1 + below(rng, 4), gpus = 1 + below(rng, 8);
        if (below(rng, 20) == 0)
            gpus = 60 + below(rng, 140);
        buf_printf(&out, "%d nodes x %d gpus of %s; ", nodes, gpus, types[t]);
        cap += nodes * gpus;
        most = nodes * gpus > most ? nodes * gpus : most;
    }
    int njobs = below(rng, 12);
    for (int i = 0; i < njobs; i++) {
        int gpus = job_text(rng, kinds, i, cap, &out);
        alike_text(rng, kinds, gpus, most, &out);
        if (below(rng, 4) == 0)
            buf_printf(&out, " served %d", below(rng, 300));
        buf_puts(&out, "; ");
    }
    return out;
}

static int most_of_one_type(const struct scene *scene)
{
    int most = 0;
    for (int t = 0; t < scene->cluster.ntypes; t++)
        if (scene->cluster.types[t].ngpus > most)
            most = scene->cluster.types[t].ngpus;
    return most;
}

static void new_job(struct scene *scene, struct rng *rng, unsigned kinds)
{
    struct firn_buf text = {0};
    int gpus =
        job_text(rng, kinds, (int)scene->names.n, scene->cluster.ngpus, &text);
    if ((kinds & SCENE_CHOOSY) && below(rng, 2))
        type_text(rng, &scene->cluster, gpus, &text);
    else
        alike_text(rng, kinds, gpus, most_of_one_type(scene), &text);
    scene_submit(scene, text.at);
    buf_release(&text);
}

/* Some living job, or NULL. */
static const struct firn_job *some_job(const struct scene *scene,
                                       struct rng *rng)
{
    const struct state *state = scene_state(scene);
    int n = (int)(state->nwaiting + state->nrunning);
    if (n == 0)
        return NULL;
    const struct state_job *sj = state->first;
    for (int i = below(rng, n); i > 0; i--)
        sj = sj->after;
    return &sj->job;
}

static void flip_node(struct scene *scene, struct rng *rng)
{
    int node = below(rng, scene->cluster.nnodes);
    scene_node(scene, node, !scene_state(scene)->cluster.nodes[node].is_up);
}

/* The jobs that end now. */
static void finish(struct scene *scene)
{
    while (scene_next_done_s(scene) <= scene->now_s) {
        struct state_job *sj = scene_state(scene)->first;
        while (sj->job.state != FIRN_JOB_RUNNING ||
               firn_job_left_s(&sj->job, scene->now_s) > 0)
            sj = sj->after;
        scene_done(scene, scene->names.at[sj->job.id]);
    }
}

void scene_shake(struct scene *scene, struct rng *rng, unsigned kinds)
{
    double to_s = scene->now_s + below(rng, 40);
    scene->now_s = fmin(to_s, scene_next_done_s(scene));
    finish(scene);
    int what = below(rng, 20);
    const struct firn_job *job = some_job(scene, rng);
    if (what < 10)
        new_job(scene, rng, kinds);
    else if (what < 12)
        flip_node(scene, rng);
    else if (what < 13 && job != NULL)
        scene_fail(scene, scene->names.at[job->id]);
}
