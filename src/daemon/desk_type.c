/* desk_type.c - the GPU type that a job keeps to.
 *
 * An elastic job whose consistency is D0 or D1 trains to bits that depend on
 * the GPU type (docs/determinism.md), so its GPUs are of one type, and of the
 * same one whenever it runs: core sees to the first (spec.one_type) and, while
 * the job is in the round, to the second. Here is what outlives the round: the
 * name of the type is written with the job's first start, before there is a
 * process, and is all that its spec accepts from then on. By its name, for
 * numbers of nodes and types may change in a restart.
 *
 * A job that ran out of memory before it reported anything has no bits to keep:
 * it may try another type. One whose type is here no longer, or has another
 * name, waits and says so: no other GPUs are taken in its stead.
 */
#include "base/buf.h"
#include "base/str.h"
#include "daemon/desk.h"
#include "daemon/jobfile.h"
#include <stdio.h>

enum firn_status desk_type_keep(struct desk *desk, struct live_job *job,
                                firn_node_id on, struct firn_error *err)
{
    const struct firn_cluster *c = &desk->dock->cluster;
    struct firn_job_spec spec;
    jobfile_spec(&job->ask, job->submitted_s, &spec);
    if (!spec.one_type || job->gpu_type[0] != '\0')
        return FIRN_OK;
    return book_type(desk->book, job, c->types[c->nodes[on].type].name, err);
}

bool desk_type_is_fixed(const struct desk *desk, const struct live_job *job)
{
    return desk->dock->cluster.ntypes > 1 && job->gpu_type[0] != '\0' &&
           job->reported_s > 0;
}

void desk_type_free(struct desk *desk, struct live_job *job)
{
    struct firn_error err = {0};
    if (job->gpu_type[0] != '\0' && !(job->reported_s > 0))
        book_wrote(desk->book, book_type(desk->book, job, "", &err), &err);
}

bool desk_type_is_lost(const struct desk *desk, const struct live_job *job)
{
    const struct firn_cluster *c = &desk->dock->cluster;
    for (int t = 0; t < c->ntypes; t++)
        if (c->types[t].ngpus > 0 &&
            str_equal_nocase(c->types[t].name, job->gpu_type))
            return false;
    return job->gpu_type[0] != '\0';
}

void desk_type_lost_text(const struct desk *desk, const struct live_job *job,
                         char out[LIVE_TEXT])
{
    const struct firn_cluster *c = &desk->dock->cluster;
    struct firn_buf there = {0};
    for (int t = 0; t < c->ntypes; t++)
        if (c->types[t].ngpus > 0)
            buf_printf(&there, "%s%s", there.n > 0 ? ", " : "",
                       c->types[t].name);
    snprintf(out, LIVE_TEXT,
             "has run on %s and keeps to that type (consistency %s), of which "
             "no node has a GPU now; there is %.80s",
             job->gpu_type, job->ask.consistency,
             there.n > 0 ? there.at : "none");
    buf_release(&there);
}

void desk_type_spec(const struct desk *desk, const char *keeps,
                    struct firn_job_spec *spec)
{
    const struct firn_cluster *c = &desk->dock->cluster;
    bool is_all_there_is =
        c->ntypes == 1 && str_equal_nocase(c->types[0].name, keeps);
    if (keeps[0] != '\0' && !is_all_there_is)
        spec->types = keeps;
    spec->one_type = spec->one_type && c->ntypes > 1;
}

void desk_type_copied(const struct state *from, const struct firn_job *job,
                      struct firn_job_spec *spec)
{
    uint32_t mask = job->type_mask;
    if (!job->spec.one_type || mask == 0 || (mask & (mask - 1)) != 0)
        return;
    const struct firn_gpu_type *type =
        &from->cluster.types[__builtin_ctz(mask)];
    spec->types = type->name;
    if (spec->gpus > type->ngpus)
        spec->gpus = type->ngpus;
}

double desk_type_gib(const struct desk *desk, const struct live_job *job)
{
    double most = 0;
    bool keeps = desk_type_is_fixed(desk, job);
    for (int t = 0; t < desk->dock->cluster.ntypes; t++) {
        const struct firn_gpu_type *type = &desk->dock->cluster.types[t];
        if ((!keeps || str_equal_nocase(type->name, job->gpu_type)) &&
            type->mem_gib > most)
            most = type->mem_gib;
    }
    return most;
}
