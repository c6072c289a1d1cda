/* sharers.c - occupants of shared GPUs, so that rates follow the neighbours.
 *
 * Invariant: a slot is in the occupants of a GPU exactly while its job holds a
 * half-share of it; empty places are -1.
 */
#include "sim/sharers.h"
#include "sim/simengine.h"
#include <string.h>

/* The occupants of GPU `gpu` of a board. */
static int *places(const struct simengine *engine, const struct firn_part *part,
                   int gpu)
{
    int index =
        engine->first_gpu[part->node] + part->board * FIRN_BOARD_GPUS + gpu;
    return engine->occupants +
           (size_t)index * (size_t)engine->world.options->cluster->jobs_per_gpu;
}

static void make(struct simengine *engine)
{
    const struct firn_cluster *cluster = engine->world.options->cluster;
    size_t n = (size_t)cluster->ngpus * (size_t)cluster->jobs_per_gpu;
    engine->first_gpu =
        mem_new((size_t)cluster->nnodes, sizeof *engine->first_gpu);
    for (int i = 1; i < cluster->nnodes; i++)
        engine->first_gpu[i] =
            engine->first_gpu[i - 1] + cluster->nodes[i - 1].ngpus;
    engine->occupants = mem_new(n, sizeof *engine->occupants);
    memset(engine->occupants, -1, n * sizeof *engine->occupants);
}

static void mark_dirty(struct simengine *engine, int slot)
{
    struct simjob *sj = &engine->jobs.at[slot];
    if (sj->is_dirty)
        return;
    sj->is_dirty = true;
    vec_add(&engine->dirty, slot);
}

/* Replaces `from` by `to` on every GPU of the job; marks the others. */
static void exchange(struct simengine *engine, const struct firn_alloc *alloc,
                     int from, int to)
{
    int self = from < 0 ? to : from;
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        for (uint64_t left = part->gpus; left; left &= left - 1) {
            int *at = places(engine, part, __builtin_ctzll(left));
            bool is_changed = false;
            for (int k = 0; k < engine->world.options->cluster->jobs_per_gpu;
                 k++) {
                if (at[k] >= 0 && at[k] != self)
                    mark_dirty(engine, at[k]);
                if (at[k] == from && !is_changed) {
                    at[k] = to;
                    is_changed = true;
                }
            }
        }
    }
}

int sharers_join(struct simengine *engine, struct simjob *sj,
                 const struct firn_alloc *alloc)
{
    if (!alloc->is_shared)
        return 1;
    if (engine->occupants == NULL)
        make(engine);
    struct firn_part *parts =
        mem_grow(sj->alloc.parts, 0, (size_t)alloc->nparts, sizeof *parts);
    memcpy(parts, alloc->parts, (size_t)alloc->nparts * sizeof *parts);
    sj->alloc = *alloc;
    sj->alloc.parts = parts;
    exchange(engine, &sj->alloc, -1, sj->job->slot);
    return sharers_most(engine, sj);
}

void sharers_leave(struct simengine *engine, struct simjob *sj)
{
    if (!sj->alloc.is_shared)
        return;
    exchange(engine, &sj->alloc, sj->job->slot, -1);
    sj->alloc.is_shared = false;
    sj->alloc.nparts = 0;
}

void sharers_touch(struct simengine *engine, struct simjob *sj)
{
    exchange(engine, &sj->alloc, sj->job->slot, sj->job->slot);
}

/* Is there a job at the place that counts for `sj`? */
static bool counts(const struct simengine *engine, int place,
                   const struct simjob *sj)
{
    return place >= 0 && (place == sj->job->slot ||
                          (!sj->is_ending && !engine->jobs.at[place].is_quiet));
}

int sharers_most(const struct simengine *engine, const struct simjob *sj)
{
    int most = 1;
    for (int i = 0; i < sj->alloc.nparts; i++) {
        const struct firn_part *part = &sj->alloc.parts[i];
        for (uint64_t left = part->gpus; left; left &= left - 1) {
            const int *at = places(engine, part, __builtin_ctzll(left));
            int n = 0;
            for (int k = 0; k < engine->world.options->cluster->jobs_per_gpu;
                 k++)
                n += counts(engine, at[k], sj);
            most = n > most ? n : most;
        }
    }
    return most;
}

static void add_app(struct truth_near *near, const char *app)
{
    for (int i = 0; i < near->napps; i++)
        if (strcmp(near->apps[i], app) == 0)
            return;
    if (near->napps < TRUTH_NEIGHBOURS)
        near->apps[near->napps++] = app;
}

static void add_job(struct truth_near *near, const struct simjob *sj)
{
    for (int i = 0; i < near->njobs; i++)
        if (near->jobs[i].job == sj->job)
            return;
    if (near->njobs == TRUTH_JOBS)
        return;
    near->jobs[near->njobs].job = sj->job;
    near->jobs[near->njobs++].alloc = &sj->alloc;
    add_app(near, sj->job->spec.app);
}

/* The job that it is trained together with, if that one is there. */
static const struct firn_job *partner(const struct simengine *engine,
                                      const struct simjob *sj)
{
    const struct firn_part *part = &sj->alloc.parts[0];
    firn_job_id with = sj->alloc.how.merged_with;
    if (with == FIRN_NO_JOB)
        return NULL;
    const int *at = places(engine, part, __builtin_ctzll(part->gpus));
    for (int k = 0; k < engine->world.options->cluster->jobs_per_gpu; k++)
        if (at[k] >= 0 && engine->jobs.at[at[k]].job->id == with)
            return engine->jobs.at[at[k]].job;
    return NULL;
}

void sharers_near(const struct simengine *engine, const struct simjob *sj,
                  struct truth_near *out)
{
    *out = (struct truth_near){.sharers = 1};
    if (!sj->alloc.is_shared)
        return;
    out->sharers = sharers_most(engine, sj);
    out->merged = partner(engine, sj);
    for (int i = 0; i < sj->alloc.nparts; i++) {
        const struct firn_part *part = &sj->alloc.parts[i];
        for (uint64_t left = part->gpus; left; left &= left - 1) {
            const int *at = places(engine, part, __builtin_ctzll(left));
            for (int k = 0; k < engine->world.options->cluster->jobs_per_gpu;
                 k++)
                if (counts(engine, at[k], sj) && at[k] != sj->job->slot)
                    add_job(out, &engine->jobs.at[at[k]]);
        }
    }
}
