/* slurmtext.h - strict readers of the output of Slurm's commands.
 *
 * Output formats are requested explicitly and checked: an unexpected line is an
 * error that quotes the line, never a guess. Slurm 22.05 and later. Texts of
 * other users' jobs are not read: the nodes show which GPUs they use. The one
 * exception is the inbox (slurm_inbox.c).
 *
 *     squeue --me -h -a -r -t all -o SLURM_QUEUE_FORMAT
 *     scontrol -o -d show node
 *     sbatch --version
 */
#ifndef ENGINE_SLURMTEXT_H
#define ENGINE_SLURMTEXT_H
#include "base/arena.h"
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

/* --- texts ---------------------------------------------------------------- */

/* The first bytes of a text, for a message: bytes that are not printable ASCII
 * become \xNN, a cut text ends in "...". Returns `out`. */
enum { SLURM_EXCERPT = 160 };
const char *slurm_excerpt(struct firn_bytes text, char out[SLURM_EXCERPT]);

/* Takes the next line off `rest`, without its end. False: no line is left; a
 * last line without an end stays in `rest`. */
bool slurm_line_next(struct firn_bytes *rest, struct firn_bytes *line);

/* Reads a number; false: a byte is not a digit, or the number exceeds `max`. */
bool slurm_number_read(struct firn_bytes text, int64_t max, int64_t *out);

/* At least one byte, all letters, digits, '_', '-' and '.'. */
bool slurm_is_name(struct firn_bytes text);

/* Copies a text; bytes that are not printable ASCII become '?'. */
const char *slurm_keep(struct arena *arena, struct firn_bytes text);

/* --- jobs ----------------------------------------------------------------- */

/* id (with its component), state, reason, nodes, user with the times of start
 * and end, comment, name. Times are asked for in seconds: SLURM_QUEUE_ENV goes
 * with the command. */
#define SLURM_QUEUE_FORMAT "%i|%T|%r|%N|%u %S %e|%k|%j"
#define SLURM_QUEUE_ENV    "SLURM_TIME_FORMAT=%s"

/* Slurm's states of a job, as far as the engine distinguishes them. */
enum slurm_state {
    SLURM_PENDING,    /* also REQUEUED, RESV_DEL_HOLD ... */
    SLURM_BOOTING,    /* CONFIGURING: it has its GPUs, their nodes come up */
    SLURM_RUNNING,    /* also SIGNALING, STAGE_OUT */
    SLURM_SUSPENDED,  /* also STOPPED: its processes are stopped */
    SLURM_COMPLETING, /* over, but processes may be there */
    SLURM_COMPLETED,
    SLURM_FAILED,
    SLURM_CANCELLED,
    SLURM_TIMEOUT, /* also DEADLINE */
    SLURM_MEMORY,  /* OUT_OF_MEMORY */
    SLURM_LOST,    /* NODE_FAIL, BOOT_FAIL, PREEMPTED, REVOKED */
};
/* False: not a state of any known version. */
bool slurm_state_named(const char *name, size_t n, enum slurm_state *out);
bool slurm_state_is_over(enum slurm_state state);

/* The tag of our Slurm jobs, in name and comment:
 * "firn:<cell>:<job>:<attempt>". The cell is a random number of the state
 * folder, so that two firnd on one Slurm never take each other's jobs for their
 * own. */
struct slurm_tag {
    uint64_t cell;
    int64_t job, attempt;
};
enum { SLURM_TAG_MAX = 80 };
void slurm_tag_print(const struct slurm_tag *tag, char out[SLURM_TAG_MAX]);
/* False: the text is not exactly a tag. */
bool slurm_tag_read(const char *text, size_t n, struct slurm_tag *out);
/* The tag of a further allocation of an attempt, with its number (1 or more)
 * behind: "firn:<cell>:<job>:<attempt>:<pilot>". */
void slurm_pilot_print(const struct slurm_tag *tag, int64_t pilot,
                       char out[SLURM_TAG_MAX]);
bool slurm_pilot_read(const char *text, size_t n, struct slurm_tag *out,
                      int64_t *pilot);

struct slurm_job {
    int64_t id;
    int component; /* of a heterogeneous job, from 0; -1: it is none */
    enum slurm_state state;
    const char *reason, *nodes, *user; /* in the arena */
    double began_s, ended_s; /* since 1970, whole seconds; 0: not known. Of a
                                job that never started both are its end */
    bool is_ours;
    struct slurm_tag tag; /* when it is */
    int64_t pilot;        /* a further allocation of its attempt; 0: it is the
                             attempt's first */
};
struct slurm_jobs {
    struct arena text;
    VEC(struct slurm_job) at; /* by id, then component */
};
/* Array tasks and jobs without a tag are included, with is_ours false. Release
 * `out` in any case. */
enum firn_status slurm_jobs_read(struct slurm_jobs *out, struct firn_bytes text,
                                 struct firn_error *err);
void slurm_jobs_release(struct slurm_jobs *jobs);

/* What sbatch --parsable prints: "123" or "123;cluster". */
enum firn_status slurm_id_read(struct firn_bytes text, int64_t *id,
                               struct firn_error *err);

/* --- nodes ---------------------------------------------------------------- */

/* How GPUs are requested. With SLOTS each GPU has a type of its own, "a100s0",
 * "a100s1" ..., and the engine chooses the GPU; with COUNTS it asks for a
 * number, and Slurm chooses. */
enum slurm_naming { SLURM_COUNTS, SLURM_SLOTS };

struct slurm_node {
    const char *name, *type; /* "a100", the slot's number taken off; "gpu" for
                              * GPUs without a type */
    const char *host;        /* NodeAddr: where it can be reached */
    int ngpus;
    enum slurm_naming naming;
    int shards_per_gpu; /* of every GPU; 0: none, or not the same for all, or
                         * not by slots, or gres/mps of several GPUs */
    bool is_mps;        /* the shards are gres/mps, 100 a GPU or what it says */
    bool is_usable;     /* not down, drained, failing, reserved, powered off,
                         * planned for maintenance, or without an answer */
    bool is_reserved;   /* it would be usable, were it not reserved */
    const char *state;  /* as Slurm has it: "IDLE+DRAIN" */
    const char *why;    /* Reason=, or ""; if is_odd, why firn cannot use its
                         * GPUs */
    bool is_odd;        /* its GPUs are of several types, too many, or not
                         * consumed: ngpus is 0 and is_usable false */
    uint64_t used[16];  /* GPUs in use by any job, whole or by shards, by
                         * index: bit i of used[b] is GPU 64 b + i */
    int nused;          /* how many; the indices may be unknown */
    bool has_indices;   /* they are known */
    const char *partitions; /* "main,inbox" */
    const char *features;   /* "a100,ib"; "" for none */
};
struct slurm_nodes {
    struct arena text;
    VEC(struct slurm_node)
    at; /* in Slurm's order; nodes without GPUs too,
         * with ngpus 0 */
};
enum firn_status slurm_nodes_read(struct slurm_nodes *out,
                                  struct firn_bytes text,
                                  struct firn_error *err);
void slurm_nodes_release(struct slurm_nodes *nodes);

/* "slurm 22.05.8" as 2205; FIRN_EREFUSED with the text when it is older than
 * 22.05 or no version. */
enum firn_status slurm_version_read(struct firn_bytes text, int *version,
                                    struct firn_error *err);

#endif
