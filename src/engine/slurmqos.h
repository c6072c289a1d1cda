/* slurmqos.h - readers of the limits of Slurm's QOS.
 *
 *     scontrol -o show assoc_mgr flags=qos     QOS=high(2) ... GrpTRES=...
 *                                              User Limits= 1006={MaxJobsPU=..}
 *     sacctmgr -n -P show assoc
 * format=Cluster,Account,User,Partition,DefaultQOS
 *
 * As in slurmrules.h, a line of another kind is passed over, and a limit that
 * is not understood is none.
 */
#ifndef ENGINE_SLURMQOS_H
#define ENGINE_SLURMQOS_H
#include "engine/slurmrules.h"

/* A limit of a QOS, and what is used of it. */
struct slurm_share {
    char qos[SLURM_RULE_NAME];
    char who[SLURM_RULE_NAME]; /* "": all its jobs; an account; a user's number
                                */
    bool is_user;
    struct slurm_assoc limit; /* without names */
};

/* The QOS of jobs that name none. */
struct slurm_default {
    char account[SLURM_RULE_NAME], user[SLURM_RULE_NAME];
    char partition[SLURM_RULE_NAME], qos[SLURM_RULE_NAME];
};

typedef void slurm_share_fn(void *arg, const struct slurm_share *share);
/* Calls `add` for each limit of a QOS; false: the line is of no QOS. */
bool slurm_qos_read(const char *line, slurm_share_fn *add, void *arg);
bool slurm_share_equal(const struct slurm_share *a,
                       const struct slurm_share *b);
/* "bed|ml|ann||high" of cluster "bed"; false: another line. */
bool slurm_default_read(const char *line, const char *cluster,
                        struct slurm_default *out);

#endif
