/* slurmtext.h - what Slurm's commands print, read strictly.
 *
 * Formats are asked for explicitly and checked: a line that is not as expected
 * is an error with the line in it, never a guess. Versions from 22.05 on. Of
 * jobs of other users no text is ever read: their GPUs are told by the nodes.
 * The one exception is the inbox (slurm_inbox.c), whose texts are taken for
 * nothing but what they are.
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

/* The beginning of any bytes, fit for a sentence: what is not printable ASCII
 * is \xNN, what was cut ends in "...". Returns `out`. */
enum { SLURM_EXCERPT = 160 };
const char *slurm_excerpt(struct firn_bytes text, char out[SLURM_EXCERPT]);

/* Takes the next line off `rest`, without its end. False: there is none left,
 * or the last one has no end, which stays in `rest`: the text is cut. */
bool slurm_line_next(struct firn_bytes *rest, struct firn_bytes *line);

/* All bytes are digits and the number is at most `max`. */
bool slurm_number_read(struct firn_bytes text, int64_t max, int64_t *out);

/* Letters, digits, '_', '-' and '.', at least one. */
bool slurm_is_name(struct firn_bytes text);

/* Copied; what is not printable ASCII is '?'. */
const char *slurm_keep(struct arena *arena, struct firn_bytes text);

/* --- jobs ----------------------------------------------------------------- */

/* id (with its component), state, reason, nodes, comment, name */
#define SLURM_QUEUE_FORMAT "%i|%T|%r|%N|%k|%j"

/* Slurm's states, as far as they make a difference to us. */
enum slurm_state {
    SLURM_PENDING,    /* also REQUEUED, RESV_DEL_HOLD ... */
    SLURM_BOOTING,    /* CONFIGURING: it has its GPUs, their nodes come up */
    SLURM_RUNNING,    /* also SUSPENDED, SIGNALING, STAGE_OUT, STOPPED */
    SLURM_COMPLETING, /* over, but processes may be there */
    SLURM_COMPLETED,
    SLURM_FAILED,
    SLURM_CANCELLED,
    SLURM_TIMEOUT, /* also DEADLINE */
    SLURM_MEMORY,  /* OUT_OF_MEMORY */
    SLURM_LOST,    /* NODE_FAIL, BOOT_FAIL, PREEMPTED, REVOKED */
};
/* False: no state of any version known to us. */
bool slurm_state_named(const char *name, size_t n, enum slurm_state *out);
bool slurm_state_is_over(enum slurm_state state);

/* Our mark in name and comment: "firn:<cell>:<job>:<attempt>", where cell is a
 * number drawn once for a state folder: two firnd on one Slurm never take each
 * other's jobs for theirs. */
struct slurm_tag {
    uint64_t cell;
    int64_t job, attempt;
};
enum { SLURM_TAG_MAX = 80 };
void slurm_tag_print(const struct slurm_tag *tag, char out[SLURM_TAG_MAX]);
/* False: not one of ours, to the last byte. */
bool slurm_tag_read(const char *text, size_t n, struct slurm_tag *out);

struct slurm_job {
    int64_t id;
    int component; /* of a heterogeneous job, from 0; -1: it is none */
    enum slurm_state state;
    const char *reason, *nodes; /* in the arena */
    bool is_ours;
    struct slurm_tag tag; /* when it is */
};
struct slurm_jobs {
    struct arena text;
    VEC(struct slurm_job) at; /* by id, then component */
};
/* Release `out` in any case. Array tasks and jobs without our tag are there,
 * with is_ours false. */
enum firn_status slurm_jobs_read(struct slurm_jobs *out, struct firn_bytes text,
                                 struct firn_error *err);
void slurm_jobs_release(struct slurm_jobs *jobs);

/* What sbatch --parsable prints: "123" or "123;cluster". */
enum firn_status slurm_id_read(struct firn_bytes text, int64_t *id,
                               struct firn_error *err);

/* --- nodes ---------------------------------------------------------------- */

/* How GPUs can be named. With SLOTS each GPU has a type of its own, "a100s0",
 * "a100s1" ..., and which one a job gets is ours to say; with COUNTS only how
 * many, and Slurm picks. */
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
    const char *why;    /* Reason=, or "". Of GPUs that firn has no use for (of
                         * several types, too many, not consumed): what about
                         * them; ngpus is 0 then, and is_usable false */
    bool is_odd;        /* that is so */
    uint64_t used[16];  /* GPUs in use by anybody, whole or by shards, by
                         * index: bit i of used[b] is GPU 64 b + i */
    int nused;          /* how many; the indices may be unknown */
    bool has_indices;   /* they are known */
    const char *partitions; /* "main,inbox" */
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
