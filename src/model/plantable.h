/* plantable.h - measured steps of execution plans, and the models they are of.
 *
 * The tables of Rubick (MLSys 2025): placements/MODEL.csv with a row for each
 * (plan, placement), a placement being one digit a node. plan_models.def has
 * the models with the terms fitted to all of their rows; the tables themselves
 * are read from a data folder.
 */
#ifndef MODEL_PLANTABLE_H
#define MODEL_PLANTABLE_H
#include "model/plantime.h"

enum { PLANTABLE_NODES = 16 };

/* A model that plans were measured of. */
struct plan_model {
    const char *name;
    const char *type; /* GPU type of its law */
    double params;    /* weights of the model */
    int layers;       /* that stages divide */
    int heads;        /* that tensor shares divide */
    int batch;        /* samples of a step: no more copies than these */
    struct plan_law law;
};

const struct plan_model *plan_models(size_t *n);
/* NULL: no plan of it was measured. */
const struct plan_model *plan_model_find(const char *name);

/* GiB that weights, gradients and Adam's states take on a GPU in mixed
 * precision (16 bytes a weight), without activations: whole copies 16 W, ZeRO
 * 4 W + 12 W / d (stage 1), offload 4 W, split 16 W / (p t). */
double plan_states_gib(const struct plan_model *model,
                       const struct exec_plan *plan);

/* Could it run so on GPUs of that much memory, nodes having `node_gpus`:
 * stages divide the layers, tensor shares the heads and stay on a node, copies
 * are no more than samples, and the states leave a tenth of the memory. A
 * memory of 0 is not known and suffices. */
bool plan_is_possible(const struct plan_model *model,
                      const struct exec_plan *plan, double mem_gib,
                      int node_gpus);

/* Measured rows of one model, sorted. */
struct plantable_row {
    struct plan_row row;
    int each[PLANTABLE_NODES]; /* GPUs on the nodes, rising */
};
struct plantable {
    struct plantable_row *rows;
    size_t n;
};

/* Reads a file. Rows without a time (a plan that did not run) are passed over;
 * of two rows of a plan on the same GPUs the first holds. FIRN_EINVAL with file
 * and row for a plan or placement that cannot be read. The caller releases. */
enum firn_status plantable_read(struct plantable *out, const char *path,
                                struct firn_error *err);
void plantable_release(struct plantable *table);

/* Seconds of the row measured with exactly this plan on these numbers of GPUs,
 * in any order of nodes; NaN: none was. */
double plantable_at(const struct plantable *table, const struct exec_plan *plan,
                    const int *each, int nodes);

#endif
