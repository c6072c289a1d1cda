/* cluster_build.h - putting a cluster together, type by type, node by node.
 *
 * What the spec reader and the YAML reader share. A build starts from a zeroed
 * struct, adds groups of nodes and ends with cluster_finish; until then speeds
 * are relative to a V100. The sentences say what is wrong, the readers put the
 * place before them.
 */
#ifndef CORE_CLUSTER_BUILD_H
#define CORE_CLUSTER_BUILD_H
#include <firn/cluster.h>

/* A type as a spec or file describes it. Below 0: left out, so the figure of
 * gpu_types.def, or memory 0 and speed 1 for a name that is not there. */
struct type_said {
    const char *name;
    double mem_gib, speed;
};

/* Nodes of one kind. */
struct node_group {
    long count, gpus;
    int rack;
    struct type_said type;
};

struct cluster_build {
    struct firn_cluster cluster;
    size_t cap; /* nodes there is room for */
};

/* A type that firn knows by name; a V100 has speed 1. */
struct type_known {
    const char *name;
    double mem_gib, speed;
};

/* By a name in any case; NULL: not known. */
const struct type_known *type_find(const char *name);

/* True for 1 to FIRN_NAME_MAX - 1 letters, digits, '.', '_', '-', '+'. */
bool type_name_is_good(const char *name);

/* FIRN_EINVAL when a number is out of range, the type's memory or speed differs
 * from an earlier mention, or the cluster becomes too large. */
enum firn_status cluster_add(struct cluster_build *build,
                             const struct node_group *group,
                             struct firn_error *err);

/* Makes speeds relative to the commonest type, and hands the cluster over to
 * `out`; the build is empty then. FIRN_EINVAL when there is no GPU. */
enum firn_status cluster_finish(struct cluster_build *build, const char *name,
                                struct firn_cluster *out,
                                struct firn_error *err);

#endif
