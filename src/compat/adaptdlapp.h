/* adaptdlapp.h - an application as the AdaptDL and Sia simulators know it.
 *
 * An application consists of two tables: how long a step takes on given GPUs
 * (struct adlsteps, one for each GPU type), and how far one step at a given
 * batch advances the training (struct adlapp, from the files validation-B.csv).
 * Everything is a pure function of the tables; compat/adaptdlmodel.h has what a
 * policy learns of them, compat/adaptdljob.h how a job trains by them.
 *
 * Symbols: n nodes, r GPUs, b samples a GPU and pass, s further passes before
 * the one that synchronises (0: none), B = r b (s + 1) the total batch, B0 the
 * batch that progress is counted in, e the number of completed epochs.
 */
#ifndef COMPAT_ADAPTDLAPP_H
#define COMPAT_ADAPTDLAPP_H
#include "model/steptable.h"
#include <firn/bytes.h>
#include <firn/goodput.h>
#include <stdint.h>

enum { ADLPLACE_NODES = 64 };

/* GPUs on each node a job holds, in the order the artifact lists the nodes;
 * no zeros. The order counts: 1,2,3 and 1,3,2 are different, rotations of one
 * another are not. */
struct adlplace {
    int nodes, gpus;
    int at[ADLPLACE_NODES];
};

/* r GPUs on as few nodes of `per_node` as possible: 4,4,..,rest. */
struct adlplace adlplace_packed(int gpus, int per_node);
/* Appends a node with `gpus` GPUs; false when there is no room. */
bool adlplace_add(struct adlplace *place, int gpus);
bool adlplace_equal(const struct adlplace *a, const struct adlplace *b);

/* ---- step times ---- */

struct adltime {
    double step_s, sync_s; /* of a pass that synchronises */
};

/* One application on one type of GPU. */
struct adlsteps {
    struct steptable table;
    struct firn_bytes far; /* rows of 5 nodes and more: a mapped file */
    double b_min, b_max;   /* of the measured placements */
    double one_b, one_s;   /* largest b and largest step time on one GPU */
};

/* `far` (may be NULL) has the artifact's own interpolated values for 5 nodes
 * and more: num_nodes,num_replicas,local_bsz,step_time,sync_time, sorted. The
 * other two are the measured tables. The caller releases. */
enum firn_status adlsteps_open(struct adlsteps *out, const char *placements,
                               const char *scalability, const char *far,
                               struct firn_error *err);
void adlsteps_release(struct adlsteps *steps);

/* A measured placement: linear in b between its rows. Any other: the row of
 * (n, r, b) in `far`; without one, between the rows of the grid, as
 * model/steptable.h says. O(log rows). */
struct adltime adlsteps_at(const struct adlsteps *steps,
                           const struct adlplace *place, int b);

/* All passes of one iteration: step + s (step - sync). */
double adltime_iteration(struct adltime time, int s);

/* The largest b measured on this placement; if it was not measured, on at
 * least as many nodes and GPUs; never more than was measured with as many GPUs
 * on any placement. (Sia's limit; AdaptDL uses b_max for all.) */
double adlsteps_b_max_at(const struct adlsteps *steps,
                         const struct adlplace *place);

/* ---- training ---- */

/* By epoch; row e of batch j is at [e * nbatches + j]. */
struct adlapp {
    int epochs;       /* in all */
    size_t nbatches;  /* measured total batches, rising */
    double *batch;    /* batch[0] is B0, the last the largest total batch */
    double *progress; /* P(e), e = 0..epochs; in steps at B0 */
    double *grad_sqr, *grad_var, *iteration;
};

/* Reads all validation-B.csv of a folder. FIRN_ENOENT when there is none. The
 * caller releases. */
enum firn_status adlapp_open(struct adlapp *out, const char *folder,
                             struct firn_error *err);
void adlapp_release(struct adlapp *app);

/* Gradient statistics in epoch e at total batch B: linear in B between the
 * two files around it. */
struct firn_noise adlapp_noise(const struct adlapp *app, double batch, int e);
/* Iterations that were needed for e epochs and one more, the same way: the
 * column `iteration` of row e. */
double adlapp_iterations(const struct adlapp *app, double batch, int e);
/* How many steps at B0 one step at this batch is worth, by the statistics. */
double adlapp_gain(const struct adlapp *app, const struct firn_noise *noise,
                   double batch);

/* ---- batches ---- */

/* Bounds of a job's batch on given GPUs. */
struct adllimits {
    double b0;           /* B0 */
    double b_min, b_max; /* of b */
    double total_max;    /* of B */
};

struct adlbatch {
    int b, s; /* s: passes before the last one */
};

/* A fixed total batch: L = ceil(B / r); s = ceil(L / b_max) - 1, at least 1
 * for one GPU beyond B0; b = ceil(L / (s + 1)), cut so that the total stays
 * within total_max. What comes out may be above or below B. `always_two`: one
 * GPU takes two passes whatever the batch (Optimus predicts so). */
struct adlbatch adlbatch_fixed(const struct adllimits *limits, double batch,
                               int gpus, bool always_two);
/* b cut so that the total stays within total_max. */
struct adlbatch adlbatch_cut(const struct adllimits *limits,
                             struct adlbatch batch, int gpus);
/* r b (s + 1) */
double adlbatch_total(struct adlbatch batch, int gpus);

#endif
