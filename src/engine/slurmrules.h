/* slurmrules.h - readers of what Slurm will not allow, before a job asks.
 *
 *     scontrol -o show reservation             ReservationName=fans
 * StartTime=.. scontrol -o show assoc_mgr flags=assoc   ... Account=ml
 * UserName=ann(1000) GrpTRES=...,gres/gpu=4(2) ...
 *
 * Times are requested as seconds (SLURM_TIME_FORMAT=%s). A line of another kind
 * is passed over: these answers only narrow what is tried, and Slurm's own
 * refusal still counts.
 */
#ifndef ENGINE_SLURMRULES_H
#define ENGINE_SLURMRULES_H
#include <stdbool.h>
#include <stddef.h>

enum { SLURM_RULE_NAME = 64 };

/* A reservation. */
struct slurm_booking {
    char name[SLURM_RULE_NAME];
    double start_s, end_s;
    char nodes[1024];  /* "n[0-3],m1" */
    bool is_automatic; /* MAGNETIC: jobs use it without naming it */
};

/* An association: limits of an account, or of a user in it. Limits of -1: none.
 */
struct slurm_assoc {
    char account[SLURM_RULE_NAME], parent[SLURM_RULE_NAME];
    char user[SLURM_RULE_NAME]; /* "": of the account */
    char partition[SLURM_RULE_NAME];
    bool is_default;         /* the user's account unless a job names one */
    int gpus_all, gpus_used; /* of all its jobs together */
    int gpus_each;           /* of one job */
    int jobs_all, jobs_used;
    int wall_min; /* time limit of one job, in minutes */
    int uid;      /* of the user; -1: of an account */
};

/* No limit and no name. */
struct slurm_assoc slurm_no_limits(void);
/* "4(2)": 4, of which 2 are used; "N(2)" and others: -1. */
int slurm_limit_of(const char *text, int *used);
/* Of "cpu=N(0),gres/gpu=4(2)" the GPUs. */
int slurm_gpus_of(const char *tres, int *used);

/* The value of " Key=value " in a line, cut to fit; false: not there. */
bool slurm_value_of(const char *line, const char *key, char *out, size_t max);
/* False: it is no such line. */
bool slurm_booking_read(const char *line, struct slurm_booking *out);
bool slurm_assoc_read(const char *line, struct slurm_assoc *out);
bool slurm_booking_equal(const struct slurm_booking *a,
                         const struct slurm_booking *b);
bool slurm_assoc_equal(const struct slurm_assoc *a,
                       const struct slurm_assoc *b);
/* Is the node in a list such as "n[0-3,08],m1"? */
bool slurm_hosts_have(const char *list, const char *node);

#endif
