/* slurmwork.h - the Slurm engine's state, shared by its files.
 *
 * What is wanted and what is there of each job is in its base
 * (engine/roster.h). What is there is known from three sides, none of which is
 * believed alone:
 *
 *     the folder   pid and exit of its shepherd, locks (engine/epochfiles.h):
 *                  what runs, and how it ended
 *     squeue       by our tag, never by Slurm's number alone: what may still
 *                  come to run, and what Slurm took away
 *     the host     the number of the epoch, which is durable
 */
#ifndef ENGINE_SLURMWORK_H
#define ENGINE_SLURMWORK_H
#include "base/arena.h"
#include "base/buf.h"
#include "engine/childcmd.h"
#include "engine/epochfiles.h"
#include "engine/roster.h"
#include "engine/slurmtext.h"

/* Tags of commands. */
enum slurm_command {
    SLURM_CMD_QUEUE,
    SLURM_CMD_NODES,
    SLURM_CMD_SUBMIT, /* about: job, more: epoch */
    SLURM_CMD_CANCEL,
    SLURM_CMD_INBOX, /* this and all above it: slurm_inbox.c */
};

/* What is known of an epoch's one submission. */
enum slurm_submit {
    SUBMIT_NONE,   /* not asked for yet */
    SUBMIT_ASKED,  /* sbatch runs */
    SUBMIT_DONE,   /* Slurm has, or had, a job with its tag */
    SUBMIT_UNSURE, /* it may have one */
};

enum { SLURM_KEY_MAX = 104 };

struct slurmjob {
    struct rosterjob base;

    /* Of the epoch that is there. */
    bool has_pid;
    double look_s; /* then its files are looked at again */
    enum epoch_word word;

    /* Slurm's side of it. */
    char inbox[SLURM_KEY_MAX]; /* a job of Slurm's own users; "": ours */
    enum slurm_submit submit;
    int64_t slurm_id; /* 0: not known */
    double known_s;   /* answers to earlier questions do not count */
    double settle_s;  /* UNSURE: not before, if it is not there */
    bool is_seen;     /* in the last answer that counts, in this state: */
    enum slurm_state state;
    int nmissing;             /* answers in a row without it */
    int nrevived;             /* ... with it waiting, though it had run */
    bool is_withdrawn;        /* we cancel it, for no fault of its own */
    bool is_refused;          /* sbatch said no */
    bool is_damaged;          /* its exit file is */
    bool owes_words;          /* its files or the cell were not readable yet */
    int nlosses;              /* starts in a row that were lost, not refused */
    char said[SLURM_EXCERPT]; /* by sbatch, when it said no last */
    char reason[64];          /* why it waits in Slurm, in its words */
    double cancel_s;          /* the last scancel */
    bool is_slow;             /* somebody was told that it waits */
    double deserted_s;        /* since when nobody is there, though Slurm has it
                                 running; 0: somebody is */
};

/* A node of the cluster, by id. */
struct slurm_host {
    const char *name, *host, *type;
    int ngpus;
    enum slurm_naming naming;
    int shards_per_gpu;
    bool is_mps;
    bool is_up, is_drained;
    double unclear_s; /* since when Slurm does not know; 0: it does */
    char why[200];
    uint64_t taken[16], seen[16]; /* by others: as told; as of the answer
                                     before, for it must be seen twice */
    uint64_t used[16];            /* by whomever, as of the last answer, */
    int nused;                    /* and how many */
    bool has_indices, is_there;   /* which ones; at all */
};

/* GPUs of an epoch that is gone, which Slurm may still count. */
struct slurm_rest {
    struct slurm_tag tag;
    struct firn_alloc held;
    double since_s;
};

/* A Slurm job with our mark that nobody wants. */
struct slurm_stray {
    int64_t id;
    struct slurm_tag tag;
    int nseen;
    double since_s, cancel_s;
};

struct slurm_inbox;

struct slurm {
    /* Options. */
    char pass_env[FIRN_TEXT_MAX]; /* engine/passenv.h */
    char partition[FIRN_TEXT_MAX], options[FIRN_TEXT_MAX];
    char memory[FIRN_TEXT_MAX], program[FIRN_TEXT_MAX], path[FIRN_TEXT_MAX];
    char inbox_partition[FIRN_TEXT_MAX]; /* "" or "off": no inbox */
    char state[FIRN_TEXT_MAX];           /* the host's folder; "": none */
    double poll_s, limit_s, force_s;

    struct commands *commands;
    int version;
    struct arena text;    /* names of nodes */
    struct firn_buf spec; /* as firn_cluster_parse_spec() reads it */
    struct firn_cluster cluster;
    VEC(struct slurm_host) hosts;
    VEC(const char *) names; /* of nodes, by id */
    struct firn_buf no_sharing;

    struct firn_engine_host host;
    uint64_t cell;        /* 0: not known yet */
    struct roster roster; /* its jobs */
    VEC(struct slurm_rest) rests;
    VEC(struct slurm_stray) strays;
    bool has_looked; /* slurm_nodes_first() is done */
    bool is_stirred; /* something happened in a folder */

    double queue_asked_s; /* of the question under way */
    double queue_due_s, nodes_due_s;
    double used_s;       /* when the hosts' `used` came; 0: it was looked at */
    char queue_mark[24]; /* at the end of each record of the queue */
    double away_s;       /* since when Slurm does not answer; 0: it does */
    struct firn_buf trouble, word; /* word: of job_trouble() */
    bool is_kept; /* the nodes are those of the file, and unheard of yet */

    struct slurm_inbox *inbox; /* slurm_inbox.c's own; NULL: none */
};

static inline double slurm_now_s(const struct slurm *l)
{
    return roster_now_s(&l->roster);
}

/* The job at this place of the roster. */
static inline struct slurmjob *slurm_at(const struct slurm *l, size_t i)
{
    return (struct slurmjob *)l->roster.jobs.at[i];
}

static inline void slurm_tell(struct slurm *l, struct firn_event event)
{
    roster_tell(&l->roster, event);
}

/* Jobs: slurm.c. */
struct slurmjob *slurm_find(const struct slurm *l, firn_job_id id);
/* The job leaves the roster. */
void slurm_drop(struct slurm *l, struct slurmjob *job);

/* Discovery: slurm_open.c. Waits: some seconds when there is a cluster that was
 * kept, which is then begun from, in trouble; else until Slurm answers. */
enum firn_status slurm_open(struct slurm *l, struct firn_error *err);
/* The number of the state folder, once a job's folder is known. */
enum firn_status slurm_cell(struct slurm *l, const char *job_folder,
                            struct firn_error *err);
/* The partition's nodes with GPUs, as slurm_nodes_read() has them. */
bool slurm_is_mine(const struct slurm *l, const struct slurm_node *node);

/* What discovery was told last: slurm_kept.c. */
struct slurm_kept {
    int version;
    char asked[FIRN_TEXT_MAX], partition[FIRN_TEXT_MAX];
    struct firn_buf nodes; /* as scontrol printed them */
};
/* `asked`: the partition that was asked for, "" for the default one. */
void slurm_kept_write(const struct slurm *l, const char *asked,
                      const struct firn_buf *nodes);
/* False: there is none for the partition asked for. Release `nodes` in any
 * case. */
bool slurm_kept_read(const struct slurm *l, struct slurm_kept *out);
/* Says what is other than it was kept. */
void slurm_kept_compare(const struct slurm *l, const struct slurm_nodes *nodes);

/* Commands: slurm_ask.c. `argv` without the folder of the commands; ends with
 * NULL. */
void slurm_run(struct slurm *l, const char *const *argv,
               const struct command *how);
/* Asks for queue and nodes when they are due, and takes answers in. */
void slurm_poll(struct slurm *l);
void slurm_poll_soon(struct slurm *l);
/* Takes in what commands said. */
void slurm_answers(struct slurm *l);
/* A command that asks something of the controller ended: did it answer?
 * Keeps `trouble`. */
bool slurm_is_answer(struct slurm *l, const char *name,
                     const struct command_done *done);
/* The controller does not answer, says `name` in these words. */
void slurm_went_away(struct slurm *l, const char *name, const char *why);
/* What it said of its failure, for a sentence. Returns `out`. */
const char *slurm_said(const struct command_done *done,
                       char out[SLURM_EXCERPT]);
/* scancel, not more often than every second. `is_gentle`: only while it
 * waits. */
void slurm_cancel(struct slurm *l, struct slurmjob *job, bool is_gentle);
/* For scancel: "--name=firn:...". Its number alone may be another job's by
 * now, since the controller may have crashed after its last answer. */
const char *slurm_mark_option(const struct slurm_tag *tag,
                              char out[SLURM_TAG_MAX + 8]);

/* What squeue says: slurm_queue.c. */
void slurm_queue_take(struct slurm *l, const struct slurm_jobs *jobs,
                      double asked_s);
/* Slurm has the job in this state. */
void slurm_seen(struct slurm *l, struct slurmjob *job, int64_t id,
                enum slurm_state state);
/* What scontrol says: slurm_nodes.c. */
void slurm_nodes_take(struct slurm *l, const struct slurm_nodes *nodes);
/* What of it is others', by a queue that was asked for at `asked_s`; 0: by what
 * we hold, whether it waits or not. */
void slurm_nodes_use(struct slurm *l, double asked_s);
/* What is known from the beginning of GPUs of others, once. */
void slurm_nodes_first(struct slurm *l);
/* Do others use one of these? */
bool slurm_is_taken(const struct slurm *l, const struct firn_alloc *alloc);

/* Starting: slurm_start.c. */
void slurm_start(struct slurm *l, struct slurmjob *job);
/* sbatch ended. */
void slurm_submitted(struct slurm *l, const struct command_done *done);
/* A job of the inbox could not be let go. If Slurm said no it is lost, some
 * times in a row and then for good: GPUs that it cannot have are not kept. But
 * one that is too late to be let go has them, or is over. */
void slurm_not_let_go(struct slurm *l, const struct command_done *done);
/* The words of sbatch, for tests: slurm_batch.c. Texts lie in the arena. */
struct slurm_words {
    VEC(const char *) at; /* ends with NULL, which is not counted */
};
void slurm_batch_words(const struct slurm *l, const struct slurmjob *job,
                       bool is_per_node, struct slurm_words *out,
                       struct arena *text);
/* What its shell is to do; FIRN_EINVAL: a path that cannot be written so. */
enum firn_status slurm_batch_script(const struct slurm *l,
                                    const struct slurmjob *job,
                                    struct firn_buf *out,
                                    struct firn_error *err);

/* An epoch's life: slurm_epoch.c. */
/* A job whose answer was lost may still turn up so long. */
double slurm_settle_s(const struct slurm *l);
void slurm_leave(struct slurm *l, struct slurmjob *job, bool is_loss);
/* It is not to start: it waits in Slurm, and others have its GPUs. */
void slurm_withdraw(struct slurm *l, struct slurmjob *job);
void slurm_look(struct slurm *l, struct slurmjob *job);
/* Gives a word to its shepherd, once, and only upwards. */
void slurm_say(struct slurmjob *job, enum epoch_word word);
/* What it was asked before we came, and whether it is where the book has it;
 * `owes_words` when that cannot be read: slurm_adopt.c. */
void slurm_take_words(struct slurm *l, struct slurmjob *job);
enum firn_status slurm_take_over(struct slurm *l, struct slurmjob *job,
                                 struct firn_error *err);
void slurm_forget_epoch(struct slurm *l, struct slurmjob *job);

/* Waking: slurm_wake.c. */
void slurm_wake_arm(struct slurm *l);

/* --- the inbox: slurm_inbox.c ----------------------------------------------
 *
 * Jobs that users gave to a closed partition of Slurm's. The engine calls; with
 * no inbox all of these do nothing. A job whose launch has an `inbox` has no
 * shepherd, no folder's locks and no tag: it is known by its key alone, and
 * slurm_seen() is to be called for it with what Slurm says of it; when Slurm
 * does not know it any more, with SLURM_COMPLETED (or what was last known).
 */
enum firn_status slurm_inbox_open(struct slurm *l, struct firn_error *err);
void slurm_inbox_close(struct slurm *l);
/* Starts its commands when they are due; when that is. */
void slurm_inbox_poll(struct slurm *l);
double slurm_inbox_due_s(const struct slurm *l);
/* A command with tag SLURM_CMD_INBOX or above ended. */
void slurm_inbox_answer(struct slurm *l, const struct command_done *done);
/* Lets job->inbox go, onto job->held. slurm_seen() follows; what fails is told
 * by job->submit = SUBMIT_UNSURE and tried again by who it is. */
void slurm_inbox_start(struct slurm *l, struct slurmjob *job);
/* Ends it: scancel, again and again until slurm_seen() says that it is over. */
void slurm_inbox_cancel(struct slurm *l, struct slurmjob *job);
/* Ends one that was not begun, if it is one of the inbox: the host hears that
 * it is gone. */
void slurm_inbox_end(struct slurm *l, firn_job_id id);
/* Could it be started on these? FIRN_EREFUSED when it is of the inbox and was
 * sent with another shape. */
enum firn_status slurm_inbox_check(struct slurm *l, firn_job_id id,
                                   const struct firn_alloc *to,
                                   struct firn_error *err);

#endif
