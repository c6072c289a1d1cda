/* cluster.h - the machines: nodes of several GPU types.
 *
 * A cluster is an array of nodes ordered by id; each node has GPUs of one
 * type. It is built once, from a preset name, a short spec such as
 * "24x8:v100,2x4:a100@80" or a YAML file, and then only `is_up` changes.
 * Speeds are relative: the cluster's commonest type (first named on ties)
 * has speed 1, so on a cluster of one type a trace's durations hold as they
 * are.
 */
#ifndef FIRN_CLUSTER_H
#define FIRN_CLUSTER_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

FIRN_C_BEGIN

typedef int firn_node_id;
typedef int firn_type_id;

enum {
    FIRN_TYPES_MAX = 32,      /* a set of types is a bit mask */
    FIRN_NODES_MAX = 1 << 20, /* nodes in a cluster */
    FIRN_NODE_GPUS_MAX = 1024,
    FIRN_BOARD_GPUS = 64, /* GPUs named by one part: see alloc.h */
    FIRN_NAME_MAX = 32,
};

struct firn_gpu_type {
    char name[FIRN_NAME_MAX];
    double mem_gib; /* 0: not known, fits everything */
    double speed;   /* relative to the reference type, > 0 */
    int ngpus;      /* how many the cluster has, up or down */
};

struct firn_node {
    firn_node_id id;
    firn_type_id type;
    int ngpus; /* 1..FIRN_NODE_GPUS_MAX */
    int rack;
    bool is_up;
};

struct firn_cluster {
    char name[FIRN_NAME_MAX];
    struct firn_gpu_type types[FIRN_TYPES_MAX];
    int ntypes;
    struct firn_node *nodes;
    int nnodes;
    int ngpus;        /* sum over nodes, up or down */
    int jobs_per_gpu; /* C: how many jobs may share one GPU; 2 by default */
};

/* A preset, for `firn cluster`. */
struct firn_preset {
    const char *name, *spec, *summary;
};

/* Reads `text` as a preset name, else as a spec, else as a YAML file's path.
 * The caller releases `out`. FIRN_EINVAL with file and line when it is none of
 * them, or has no GPU. */
FIRN_API enum firn_status firn_cluster_open(struct firn_cluster *out,
                                            const char *text,
                                            struct firn_error *err);

/* The three parts of it. `where` names the text in the sentence. */
FIRN_API enum firn_status firn_cluster_parse_spec(struct firn_cluster *out,
                                                  const char *spec,
                                                  struct firn_error *err);
FIRN_API enum firn_status firn_cluster_parse_yaml(struct firn_cluster *out,
                                                  struct firn_bytes yaml,
                                                  const char *where,
                                                  struct firn_error *err);
FIRN_API const struct firn_preset *firn_cluster_presets(size_t *n);

/* Frees the nodes; NULL is fine. */
FIRN_API void firn_cluster_release(struct firn_cluster *cluster);

/* The type called `name` (case does not matter), or -1. */
FIRN_API firn_type_id firn_cluster_type(const struct firn_cluster *cluster,
                                        const char *name);

FIRN_C_END

#endif
