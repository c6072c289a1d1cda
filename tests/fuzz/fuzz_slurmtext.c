/* fuzz_slurmtext.c - no bytes crash the readers of Slurm's texts; what is read
 * can be used, what is refused is said in printable words.
 */
#include "engine/slurmtext.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            abort();
}

static void check_error(enum firn_status status, const struct firn_error *err)
{
    if (status != FIRN_EINVAL && status != FIRN_EREFUSED)
        abort();
    if (err->text[0] == '\0')
        abort();
    check_text(err->text);
}

static void try_jobs(struct firn_bytes text)
{
    struct slurm_jobs jobs;
    struct firn_error err = {0};
    enum firn_status status = slurm_jobs_read(&jobs, text, &err);
    if (status != FIRN_OK)
        check_error(status, &err);
    for (size_t i = 0; i < jobs.at.n; i++) {
        const struct slurm_job *job = &jobs.at.at[i];
        struct slurm_tag tag;
        char again[SLURM_TAG_MAX];
        check_text(job->reason);
        check_text(job->nodes);
        slurm_tag_print(&job->tag, again);
        if (job->id < 1 || job->component < -1 ||
            (i > 0 && job[-1].id > job->id) ||
            (job->is_ours && !slurm_tag_read(again, strlen(again), &tag)))
            abort();
    }
    slurm_jobs_release(&jobs);
}

static void check_node(const struct slurm_node *node)
{
    int nbits = 0;
    for (int i = 0; i < FIRN_NODE_GPUS_MAX; i++)
        if (node->used[i / 64] >> i % 64 & 1) {
            nbits++;
            if (i >= node->ngpus)
                abort();
        }
    if (node->ngpus < 0 || node->ngpus > FIRN_NODE_GPUS_MAX ||
        node->shards_per_gpu < 0 || node->nused > node->ngpus ||
        node->nused < nbits || (node->has_indices && node->nused != nbits) ||
        strlen(node->type) >= FIRN_NAME_MAX ||
        (node->ngpus > 0) != (node->type[0] != '\0') || node->name[0] == '\0')
        abort();
    check_text(node->name);
    check_text(node->type);
    check_text(node->host);
    check_text(node->state);
    check_text(node->why);
    check_text(node->partitions);
}

static void try_nodes(struct firn_bytes text)
{
    struct slurm_nodes nodes;
    struct firn_error err = {0};
    enum firn_status status = slurm_nodes_read(&nodes, text, &err);
    if (status != FIRN_OK)
        check_error(status, &err);
    for (size_t i = 0; i < nodes.at.n; i++)
        check_node(&nodes.at.at[i]);
    slurm_nodes_release(&nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct firn_bytes text = {(const char *)data, size};
    struct firn_error err = {0};
    int64_t id = 0;
    int version = 0;
    try_jobs(text);
    try_nodes(text);
    enum firn_status status = slurm_id_read(text, &id, &err);
    if (status != FIRN_OK)
        check_error(status, &err);
    else if (id < 1)
        abort();
    status = slurm_version_read(text, &version, &err);
    if (status != FIRN_OK)
        check_error(status, &err);
    else if (version < 2205)
        abort();
    return 0;
}
