/* yarn_cs.c - the capacity scheduler deep-learning papers compare with.
 *
 * FIFO of gangs: all GPUs of a job at once or none, all of one type, and the
 * first job that does not fit blocks the queue. Which type is left to the
 * placement: the one with the fewest nodes, then the tightest fit. On a
 * cluster of one type it is fifo.
 *
 * A job larger than every type is rejected: it could never run, and would
 * block the queue for ever.
 *
 * EasyScale's own simulator runs one job at a time under this name; that quirk
 * is not reproduced here.
 * Cost: O(log jobs) per job started on one type; O(jobs) a round on several.
 */
#include <firn/policy.h>

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    firn_plan_serve(plan, view, FIRN_SERVE_STRICT | FIRN_SERVE_ONE_TYPE);
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_yarn_cs = {
    .size = sizeof(struct firn_policy_def),
    .name = "yarn-cs",
    .summary = "FIFO of gangs, each on one GPU type",
    .paper = "YARN capacity scheduler, as compared with in EasyScale, SC 2023",
    .does = FIRN_DOES_REJECT,
    .decide = decide,
    .rank = firn_rank_fcfs,
};
