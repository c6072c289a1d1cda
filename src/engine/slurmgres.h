/* slurmgres.h - reads Slurm's lists of generic resources: Gres=, GresUsed=.
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
    int64_t count;                /* 1 if the entry has none */
    bool is_free;                 /* no_consume: use is not counted */
};
struct gres_list {
    VEC(struct gres) entries; /* they point into the text */
};

/* Fills an empty list; false: not a list. Release `entries` in any case. */
bool gres_read(struct gres_list *out, struct firn_bytes text);

/* Sets type, ngpus, naming, shards_per_gpu and is_mps: NULL, or why firn cannot
 * use these GPUs (several types, more than FIRN_NODE_GPUS_MAX, a type with too
 * long a name, or not consumed). */
const char *gres_gpus(struct slurm_node *out, const struct gres_list *list,
                      struct arena *arena);

/* Sets used, nused and has_indices, after gres_gpus(). */
void gres_used(struct slurm_node *out, const struct gres_list *list);

#endif
