/* cluster.c - building clusters, the known GPU types, the presets.
 *
 * Two tables are read at compile time: gpu_types.def (memory and speed by name)
 * and presets.def (specs by name). Both readers, cluster_spec.c and
 * cluster_yaml.c, add groups of nodes here.
 *
 * Invariants of a finished cluster:
 * (1) nodes[i].id == i, in the order they were named, all up;
 * (2) 1 <= nnodes <= FIRN_NODES_MAX, each with 1..FIRN_NODE_GPUS_MAX GPUs;
 * (3) a type has one memory and one speed, and at least one GPU;
 * (4) the type with the most GPUs (the first named of equals) has speed 1.
 * Cost: O(nodes + groups x types).
 */
#include "base/mem.h"
#include "base/str.h"
#include "core/cluster_build.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { YAML_BYTES_MAX = 4 << 20, JOBS_PER_GPU = 2 };

static const struct type_known known[] = {
#define GPU_TYPE(name, mem_gib, speed) {name, mem_gib, speed},
#include "core/gpu_types.def"
#undef GPU_TYPE
};

static const struct firn_preset presets[] = {
#define PRESET(name, spec, summary) {name, spec, summary},
#include "core/presets.def"
#undef PRESET
};

enum {
    NKNOWN = sizeof known / sizeof *known,
    NPRESETS = sizeof presets / sizeof *presets,
};

const struct firn_preset *firn_cluster_presets(size_t *n)
{
    *n = NPRESETS;
    return presets;
}

const struct type_known *type_find(const char *name)
{
    for (size_t i = 0; i < NKNOWN; i++)
        if (((name[0] ^ known[i].name[0]) & ~0x20) == 0 && /* but for case */
            str_equal_nocase(name, known[i].name))
            return &known[i];
    return NULL;
}

bool type_name_is_good(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+";
    size_t n = strlen(name);
    return n > 0 && n < FIRN_NAME_MAX && strspn(name, good) == n;
}

/* The type with every figure filled in. */
static struct firn_gpu_type type_of(const struct type_said *said)
{
    struct firn_gpu_type type = {.speed = 1.0};
    str_copy(type.name, sizeof type.name, said->name);
    const struct type_known *found = type_find(said->name);
    if (found != NULL) {
        str_copy(type.name, sizeof type.name, found->name);
        type.mem_gib = found->mem_gib;
        type.speed = found->speed;
    }
    if (said->mem_gib >= 0.0)
        type.mem_gib = said->mem_gib;
    if (said->speed >= 0.0)
        type.speed = said->speed;
    return type;
}

static enum firn_status check_group(const struct cluster_build *build,
                                    const struct node_group *group,
                                    struct firn_error *err)
{
    long room = FIRN_NODES_MAX - build->cluster.nnodes;
    if (group->gpus < 1 || group->gpus > FIRN_NODE_GPUS_MAX)
        return firn_fail(err, FIRN_EINVAL, "a node has 1 to %d GPUs, not %ld",
                         FIRN_NODE_GPUS_MAX, group->gpus);
    if (group->count < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "the number of nodes is 1 or more, not %ld",
                         group->count);
    if (group->count > room)
        return firn_fail(err, FIRN_EINVAL,
                         "a cluster has at most %d nodes in all",
                         FIRN_NODES_MAX);
    if (!type_name_is_good(group->type.name))
        return firn_fail(err, FIRN_EINVAL,
                         "a GPU type is 1 to %d letters, digits and . _ - +",
                         FIRN_NAME_MAX - 1);
    return FIRN_OK;
}

/* The type's number in the cluster, entered if it is new. */
static enum firn_status find_type(struct firn_cluster *cluster,
                                  const struct type_said *said,
                                  firn_type_id *out, struct firn_error *err)
{
    struct firn_gpu_type type = type_of(said);
    firn_type_id id = firn_cluster_type(cluster, type.name);
    if (id < 0 && cluster->ntypes == FIRN_TYPES_MAX)
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is one GPU type too many: %d are possible",
                         type.name, FIRN_TYPES_MAX);
    if (id < 0) {
        id = cluster->ntypes++;
        cluster->types[id] = type;
    }
    const struct firn_gpu_type *old = &cluster->types[id]; /* (3) */
    if (old->mem_gib != type.mem_gib)
        return firn_fail(err, FIRN_EINVAL,
                         "type '%s' has %g GiB here and %g GiB before; give "
                         "the two kinds different names",
                         type.name, type.mem_gib, old->mem_gib);
    *out = id;
    return FIRN_OK;
}

enum firn_status cluster_add(struct cluster_build *build,
                             const struct node_group *group,
                             struct firn_error *err)
{
    struct firn_cluster *cluster = &build->cluster;
    firn_type_id type = -1;
    FIRN_TRY(check_group(build, group, err));
    FIRN_TRY(find_type(cluster, &group->type, &type, err));
    size_t want = (size_t)cluster->nnodes + (size_t)group->count;
    if (want > build->cap) {
        size_t cap = want > 2 * build->cap ? want : 2 * build->cap;
        cluster->nodes =
            mem_grow(cluster->nodes, build->cap, cap, sizeof *cluster->nodes);
        build->cap = cap;
    }
    int gpus = (int)group->gpus;
    for (long i = 0; i < group->count; i++) {
        firn_node_id id = cluster->nnodes++;
        cluster->nodes[id] = (struct firn_node){.id = id, /* (1) */
                                                .type = type,
                                                .ngpus = gpus,
                                                .rack = group->rack,
                                                .is_up = true};
    }
    cluster->types[type].ngpus += gpus * (int)group->count;
    cluster->ngpus += gpus * (int)group->count;
    return FIRN_OK;
}

enum firn_status cluster_finish(struct cluster_build *build, const char *name,
                                struct firn_cluster *out,
                                struct firn_error *err)
{
    struct firn_cluster *cluster = &build->cluster;
    if (cluster->ngpus == 0)
        return firn_fail(err, FIRN_EINVAL, "the cluster has no GPU");
    int common = 0;
    for (int i = 1; i < cluster->ntypes; i++)
        if (cluster->types[i].ngpus > cluster->types[common].ngpus)
            common = i;
    double reference = cluster->types[common].speed;
    for (int i = 0; i < cluster->ntypes; i++)
        cluster->types[i].speed /= reference; /* (4): x / x is 1 */
    str_copy(cluster->name, sizeof cluster->name, name);
    if (cluster->jobs_per_gpu == 0)
        cluster->jobs_per_gpu = JOBS_PER_GPU;
    *out = *cluster;
    *build = (struct cluster_build){0};
    return FIRN_OK;
}

void firn_cluster_release(struct firn_cluster *cluster)
{
    if (cluster == NULL)
        return;
    mem_free(cluster->nodes);
    *cluster = (struct firn_cluster){0};
}

firn_type_id firn_cluster_type(const struct firn_cluster *cluster,
                               const char *name)
{
    for (int i = 0; i < cluster->ntypes; i++)
        if (str_equal_nocase(cluster->types[i].name, name))
            return i;
    return -1;
}

static enum firn_status nothing(const char *text, const char *why,
                                struct firn_error *err)
{
    const char *names[NPRESETS];
    for (size_t i = 0; i < NPRESETS; i++)
        names[i] = presets[i].name;
    int nearest = str_nearest(text, names, NPRESETS);
    return firn_fail(err, FIRN_EINVAL,
                     "cluster '%.200s' is no preset%s%s%s, no spec such as "
                     "24x8:v100 and no file that can be read (%s)",
                     text, nearest < 0 ? "" : " (did you mean '",
                     nearest < 0 ? "" : names[nearest],
                     nearest < 0 ? "" : "'?)", why);
}

static enum firn_status open_file(struct firn_cluster *out, const char *path,
                                  struct firn_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return nothing(path, strerror(errno), err);
    char *bytes = mem_new(YAML_BYTES_MAX + 1, 1);
    size_t n = fread(bytes, 1, YAML_BYTES_MAX + 1, file);
    const char *why = ferror(file) ? strerror(errno) : NULL;
    enum firn_status status;
    if (why != NULL)
        status = nothing(path, why, err);
    else if (n > YAML_BYTES_MAX)
        status = firn_fail(err, FIRN_EINVAL,
                           "%s: over %d MiB, too large for a cluster file",
                           path, YAML_BYTES_MAX >> 20);
    else
        status = firn_cluster_parse_yaml(out, (struct firn_bytes){bytes, n},
                                         path, err);
    fclose(file);
    mem_free(bytes);
    return status;
}

enum firn_status firn_cluster_open(struct firn_cluster *out, const char *text,
                                   struct firn_error *err)
{
    for (size_t i = 0; i < NPRESETS; i++) {
        if (strcmp(text, presets[i].name) != 0)
            continue;
        FIRN_TRY(firn_cluster_parse_spec(out, presets[i].spec, err));
        str_copy(out->name, sizeof out->name, presets[i].name);
        return FIRN_OK;
    }
    bool is_spec = text[0] >= '0' && text[0] <= '9' &&
                   strchr(text, 'x') != NULL && strchr(text, ':') != NULL;
    return is_spec ? firn_cluster_parse_spec(out, text, err)
                   : open_file(out, text, err);
}
