/* slurm_reason.c - the kind of a reason that Slurm gives for a pending job.
 *
 * A pure table of prefixes; what follows from the kind is slurm_pending.c's for
 * jobs and slurm_pilot.c's for further allocations. A reason that no list has
 * means that Slurm is at work, or that a person holds the job.
 *
 * Cost: the length of the lists.
 */
#include "engine/slurmwork.h"
#include <string.h>

static bool begins(const char *text, const char *const *with, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(text, with[i], strlen(with[i])) == 0)
            return true;
    return false;
}

enum slurm_pending slurm_pending_of(const char *reason)
{
    static const char *const nodes[] = {
        "ReqNodeNotAvail", "Nodes required", "NodeDown",    "Reserved",
        "Reservation",     "BadConstraints", "NodeNotAvail"};
    static const char *const limits[] = {
        "Assoc",       "QOS",       "MaxGRESPer", "MaxCpuPer",
        "MaxNodesPer", "MaxMemPer", "MaxTRESPer"};
    static const char *const never[] = {
        "PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig",
        "AccountNotAllowed",  "AccountingPolicy",   "InvalidAccount",
        "InvalidQOS",         "QOSNotAllowed",      "PartitionInactive",
        "PartitionDown",      "Job's account not",  "Job's QOS not"};
    if (strncmp(reason, "Priority", 8) == 0)
        return SLURM_WAITS_PRIORITY;
    if (strncmp(reason, "Resources", 9) == 0)
        return SLURM_WAITS_RESOURCES;
    if (strncmp(reason, "ReqNodeNotAvail", 15) == 0 &&
        strstr(reason, "reserved for other job") != NULL)
        return SLURM_WAITS_BEHIND;
    if (begins(reason, nodes, sizeof nodes / sizeof *nodes))
        return SLURM_WAITS_NODES;
    if (begins(reason, never, sizeof never / sizeof *never))
        return SLURM_WAITS_NEVER;
    if (begins(reason, limits, sizeof limits / sizeof *limits))
        return SLURM_WAITS_LIMIT;
    return SLURM_WAITS_OTHER;
}
