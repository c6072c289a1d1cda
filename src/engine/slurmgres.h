/* slurmgres.h - Slurm's lists of generic resources: Gres= and GresUsed=.
 *
 * A list is entries kind[:type][:count][(where)] with commas between them. In
 * GresUsed an entry of kind shard or mps counts GPUs in use, not shards.
 */
#ifndef ENGINE_SLURMGRES_H
#define ENGINE_SLURMGRES_H
#include "engine/slurmtext.h"

struct gres {
    struct firn_bytes kind, type; /* type: empty when there is none */
    struct firn_bytes where;      /* between the brackets, or empty */
    int64_t count;                /* 1 when nobody says */
    bool is_free; /* no_consume: anybody may use it at any time */
};
struct gres_list {
    VEC(struct gres) entries; /* they point into the text */
};

/* Fills an empty list; false: that is no list. The caller releases `entries`
 * in any case. */
bool gres_read(struct gres_list *out, struct firn_bytes text);

/* Sets type, ngpus, naming, shards_per_gpu and is_mps. Else why firn has no
 * use for these GPUs: they are of several types, more than FIRN_NODE_GPUS_MAX,
 * of a type whose name firn has no room for, or not consumed. */
const char *gres_gpus(struct slurm_node *out, const struct gres_list *list,
                      struct arena *arena);

/* Sets used, nused and has_indices of a node that has its GPUs. */
void gres_used(struct slurm_node *out, const struct gres_list *list);

#endif
