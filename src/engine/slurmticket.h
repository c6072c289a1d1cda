/* slurmticket.h - jobs of other users, as squeue lists them.
 *
 * The texts come from any user of the cluster: a job's name may contain any
 * bytes, also line ends, and may imitate other records. So fields are separated
 * by a random mark, drawn for each question, and a record counts only if it has
 * all its marks.
 *
 *     slurm_ticket_format(mark, &format);
 *     squeue -h -a -r -p inbox -t PD -O <format>
 *     slurm_tickets_read(&tickets, bytes, mark, "inbox", &err)
 *
 * A job's request is supported if it is one number of GPUs, of one type or of
 * any, for a node, for the job or for a task; otherwise `why` says what is not.
 */
#ifndef ENGINE_SLURMTICKET_H
#define ENGINE_SLURMTICKET_H
#include "engine/slurmtext.h"

/* Times are asked for in seconds: SLURM_TICKET_ENV goes with the command. */
#define SLURM_TICKET_ENV "SLURM_TIME_FORMAT=%s"

enum { SLURM_TICKET_ID = 32, SLURM_TICKET_KEY = 80, SLURM_TICKET_WHY = 120 };

struct slurm_ticket {
    char id[SLURM_TICKET_ID];   /* "17", "17_3" of an array */
    int64_t number;             /* 17 */
    char key[SLURM_TICKET_KEY]; /* id and moment of submission */
    double submit_s;
    double limit_s; /* 0: none */
    int nrestarts;  /* a requeued job has another moment of submission */
    enum slurm_state state;
    bool is_inside; /* in the inbox's partition */
    bool is_ready;  /* not held; waits for no other job, no time and no task of
                     * its array */
    int nnodes;     /* that it asks for */
    int gpus;       /* on all of them */
    char type[FIRN_NAME_MAX];   /* "" for any */
    char why[SLURM_TICKET_WHY]; /* the request is unsupported; "": it is fine */
    const char *user, *name;    /* in the arena */
    const char *features;       /* --constraint, in the arena; "": none */
    const char *account;        /* in the arena */
};
struct slurm_tickets {
    struct arena text;
    VEC(struct slurm_ticket) at;
};

void slurm_ticket_format(uint64_t mark, struct firn_buf *out);
/* FIRN_EDATA, with an excerpt, if a record is incomplete. Release `out` in any
 * case. */
enum firn_status slurm_tickets_read(struct slurm_tickets *out,
                                    struct firn_bytes text, uint64_t mark,
                                    const char *partition,
                                    struct firn_error *err);
void slurm_tickets_release(struct slurm_tickets *tickets);

/* The released job with this key, requeued or not; NULL: not listed. */
const struct slurm_ticket *slurm_ticket_of(const struct slurm_tickets *all,
                                           const char *key);

/* Do the features of a node, "ib,a100", fulfil a --constraint? UNKNOWN: it has
 * counts, brackets, or both "and" and "or". */
enum slurm_fit { SLURM_FIT_NO, SLURM_FIT_YES, SLURM_FIT_UNKNOWN };
enum slurm_fit slurm_features_fit(const char *asked, const char *features);

/* "UNLIMITED" (0), "10:00", "1:00:00", "1-02:04:00", in seconds; false: not a
 * time. */
bool slurm_time_read(const char *text, double *out);

/* "17.3-1700000000" to "17_3"; false: not a key. */
bool slurm_key_id(const char *key, char id[SLURM_TICKET_ID]);

#endif
