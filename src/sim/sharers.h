/* sharers.h - which jobs are on which shared GPU, in the simulator.
 *
 * Only jobs that hold half-shares are entered; a simulation without sharing
 * pays nothing.
 */
#ifndef SIM_SHARERS_H
#define SIM_SHARERS_H

struct simengine;
struct simjob;
struct firn_alloc;
struct truth_near;

/* Enters a job; returns the most jobs on any of its GPUs, itself included (1
 * when it does not share). Those it meets are marked dirty. O(GPUs). */
int sharers_join(struct simengine *engine, struct simjob *sj,
                 const struct firn_alloc *alloc);
/* The reverse; those left behind are marked dirty. */
void sharers_leave(struct simengine *engine, struct simjob *sj);
/* Those on its GPUs are marked dirty. */
void sharers_touch(struct simengine *engine, struct simjob *sj);
/* The most jobs on any of its GPUs, itself included; a quiet one is none. */
int sharers_most(const struct simengine *engine, const struct simjob *sj);
/* The same with the applications of the others, at most TRUTH_NEIGHBOURS. */
void sharers_near(const struct simengine *engine, const struct simjob *sj,
                  struct truth_near *out);

#endif
