/* failure.h - nodes that die and come back: from a file, or drawn.
 *
 * The file is CSV: time_s,node,down|up, in order of time; lines that start
 * with # and the header are passed over. Drawn failures: each node alternates
 * between exponential times up (mean mtbf) and down (mean mttr), from its own
 * stream of the seed, so one node's fate does not depend on another's.
 */
#ifndef SIM_FAILURE_H
#define SIM_FAILURE_H
#include "base/heap.h"
#include "base/lines.h"
#include "base/rng.h"
#include "base/vec.h"
#include <firn/event.h>

struct failure_row {
    double at_s;
    firn_node_id node;
    bool is_up;
};

/* A zeroed struct has no failures. */
struct failures {
    VEC(struct failure_row) rows; /* from a file */
    size_t next_row;
    struct rng *streams; /* drawn: per node */
    bool *is_up;
    int nnodes;
    struct heap next; /* nodes by the time of their next change */
    double mtbf_s, mttr_s;
};

/* Reads the rows; FIRN_EINVAL with file and line for a bad one. */
enum firn_status failures_read(struct failures *failures, const char *path,
                               int nnodes, struct firn_error *err);
enum firn_status failures_parse(struct failures *failures, struct lines *in,
                                const char *path, int nnodes,
                                struct firn_error *err);
void failures_draw(struct failures *failures, int nnodes, double mtbf_s,
                   double mttr_s, uint64_t seed);
/* When the next one happens; infinity for never. */
double failures_next_s(const struct failures *failures);
/* What it is; moves on. */
struct failure_row failures_take(struct failures *failures);
/* No change will come that is not drawn for ever. */
bool failures_are_drawn(const struct failures *failures);
void failures_release(struct failures *failures);

#endif
