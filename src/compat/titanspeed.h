/* titanspeed.h - true and predicted speed of a job in TitanSched.
 *
 * Private to the titan world. Step times are measured; a job's total batch is
 * fixed and split over its GPUs and passes.
 */
#ifndef COMPAT_TITANSPEED_H
#define COMPAT_TITANSPEED_H
#include "base/vec.h"
#include <firn/alloc.h>

enum {
    TITAN_NODE_GPUS = 4,
    TITAN_GPUS_MAX = 32, /* a job never has more, nor is more predicted */
    TITAN_MODELS = 4,
};

/* One measured row. `place` is the GPUs on each node as digits, or, for rows
 * that have only nodes and GPUs, a number of its own. */
struct titanspeed_cell {
    int place, batch; /* samples on one GPU */
    double step_s, sync_s;
};

struct titanspeed_model {
    const char *name;
    bool is_read;
    int batch_min, batch_max; /* on one GPU */
    double load_s;            /* what a start costs, without the checkpoint */
    VEC(struct titanspeed_cell) cells; /* by place, then batch */
};

/* One iteration. */
struct titanspeed_pace {
    double iter_s, samples;
};

/* Jobs of one model and total batch, on n GPUs of as few nodes as possible. */
struct titanspeed_kind {
    int model, total;
    int gpus_max; /* GPUs that get the smallest batch each */
    double load_s;
    struct titanspeed_pace packed[TITAN_GPUS_MAX + 1];  /* the truth */
    struct titanspeed_pace expects[TITAN_GPUS_MAX + 1]; /* one-pass-more */
};

struct titanspeed {
    struct titanspeed_model models[TITAN_MODELS];
    VEC(struct titanspeed_kind) kinds;
};

/* The kind of a job of application "model@dataset", into *out: an index of
 * `kinds`. Reads the model's tables in FOLDER/ymir when it is the first. */
enum firn_status titanspeed_kind(struct titanspeed *speed, const char *folder,
                                 const char *app, int total, int *out,
                                 struct firn_error *err);

/* Its pace on these GPUs; iter_s is NaN when they were never measured. */
struct titanspeed_pace titanspeed_on(const struct titanspeed *speed, int kind,
                                     const struct firn_alloc *alloc);

void titanspeed_release(struct titanspeed *speed);

#endif
