/* handover.h - GPUs that their last job has not let go yet.
 *
 * A running job that loses a GPU goes on to the end of its mini-batch and
 * writes a checkpoint; the next job on that GPU waits for it. Off (all GPUs are
 * free at once) until handover_open() is called.
 */
#ifndef SIM_HANDOVER_H
#define SIM_HANDOVER_H
#include <firn/alloc.h>
#include <firn/cluster.h>
#include <stdint.h>

/* Zeroed, it is off. */
struct handover {
    double *free_s; /* by GPU, numbered through the nodes */
    int *first_gpu; /* of each node */
};

void handover_open(struct handover *handover,
                   const struct firn_cluster *cluster);
void handover_close(struct handover *handover);

/* The GPUs of `from` that are not in `to` are free at `at_s`, and not before
 * the moment they had been told already. */
void handover_leave(struct handover *handover, const struct firn_alloc *from,
                    const struct firn_alloc *to, double at_s);

/* When all of them are free; `now_s` if they are. */
double handover_ready_s(const struct handover *handover,
                        const struct firn_alloc *alloc, double now_s);

#endif
