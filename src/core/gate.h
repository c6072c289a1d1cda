/* gate.h - shares, quotas and deadlines, before the policy sees the jobs.
 *
 * Fair share is not written in each policy. Before a decision core divides the
 * GPUs among the members (a user in a project) and keeps back the waiting jobs
 * for which their members' part has no room: no view shows them. The policy
 * decides among the others as ever. So every policy obeys shares and quotas, in
 * the simulator and in firnd.
 */
#ifndef CORE_GATE_H
#define CORE_GATE_H
#include "core/state.h"
#include <firn/engine.h>

struct gate {
    double wake_s;  /* look again then at the latest */
    bool is_again;  /* a second look at the same moment */
    size_t npassed; /* waiting jobs that were let in */
};

/* A running job whose GPUs are to be taken back. */
struct gate_stop {
    struct firn_job *job;
    enum gate_why why;
    enum firn_cause cause;
    firn_job_id for_job; /* the waiting job that was dealt its GPUs;
                          * FIRN_NO_JOB: none was */
};

/* Is there anything to divide by? */
bool gate_is_used(const struct state *state);

/* Opens and closes the gate for each waiting job. `stops` gets the running jobs
 * whose GPUs are to be taken back (in `scratch`), in the order of their ids;
 * returns how many they are. */
size_t gate_divide(struct gate *gate, struct state *state, double now_s,
                   struct arena *scratch, struct gate_stop **stops);

/* Behind the decision: are GPUs free, and jobs kept back that may have them
 * because jobs that were let in found no room? Then gate_divide() is to be
 * called once more, and the policy too. */
bool gate_has_room(struct gate *gate, const struct state *state);

/* Behind the decision: when to look again at the latest. */
double gate_next_s(const struct state *state, double now_s);

/* Why the job is kept back, in a sentence with numbers; "": it is not. */
void gate_text(const struct state *state, const struct firn_job *job,
               double now_s, char *out, size_t size);

#endif
