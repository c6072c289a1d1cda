/* slurmwork.h - the Slurm engine's state, shared by its files.
 *
 * What is wanted of each job and what it holds is in its base
 * (engine/roster.h). What the engine knows of an attempt comes from three
 * sources, and none of them is trusted alone:
 *
 *     the folder   pid and exit files of the shepherd, and the locks
 *                  (engine/attemptfiles.h): what runs, and how it ended
 *     squeue       by our tag, never by Slurm's job number alone: what may
 *                  still start, and what Slurm took away
 *     the host     the number of the attempt, which is durable
 *
 * No file below depends on one above it:
 *
 *     slurm.c                      the engine's functions
 *     slurm_poll.c                 when Slurm is asked, where answers go
 *     slurm_chain.c                a further allocation that ends soon
 *     slurm_resize.c               an attempt changes its size as it runs
 *     slurm_start.c slurm_queue.c  a start; what squeue says
 *     slurm_times.c                when attempts began and ended, by Slurm
 *     slurm_reason.c, _pending.c   the kinds of its reasons, and what follows
 *     slurm_estimate.c             when Slurm expects to start a job
 *     slurm_attempt.c              an attempt from its start to its end
 *     slurm_resized.c              what a resize left
 *     slurm_pilot.c                further allocations of an attempt
 *     slurm_inbox.c slurm_open.c   jobs of Slurm's users; finding the cluster
 *     slurm_bars.c                 what Slurm does not let a job have
 *     slurm_nodes.c slurm_kept.c   what scontrol says; the same from a file
 *     slurm_ahead.c                what Slurm will not allow
 *     slurm_limits.c slurm_qos.c   what a partition and QOS allow
 *     slurm_rights.c               may firnd change other users' jobs?
 *     slurm_job.c slurm_ask.c      one job's record; running a command
 *     slurm_users.c                as which user
 *     slurm_return.c               further allocations that go back
 *     slurm_hold.c                 the GPUs of a job's allocations
 *     slurm_pilotfile.c            the list of an attempt's, on disk
 *     slurm_pilot_table.c          their states, a pure table
 *     slurm_cell.c slurm_batch.c   the state folder's number; sbatch's
 * arguments
 */
#ifndef ENGINE_SLURMWORK_H
#define ENGINE_SLURMWORK_H
#include "base/arena.h"
#include "base/buf.h"
#include "engine/attemptfiles.h"
#include "engine/childcmd.h"
#include "engine/resizefile.h"
#include "engine/roster.h"
#include "engine/slurm_pilot_table.h"
#include "engine/slurmrules.h"
#include "engine/slurmtext.h"

/* Tags of commands. */
enum slurm_command {
    SLURM_CMD_QUEUE,
    SLURM_CMD_NODES,
    SLURM_CMD_SUBMIT, /* about: job, more: attempt */
    SLURM_CMD_CANCEL,
    SLURM_CMD_ESTIMATE,
    SLURM_CMD_AHEAD, /* about: the question */
    SLURM_CMD_PILOT, /* about: job, more: slurm_pilot_key() */
    SLURM_CMD_INBOX, /* this tag and all above it: slurm_inbox.c */
};

/* What is known of an attempt's one submission. */
enum slurm_submit {
    SUBMIT_NONE,   /* sbatch was not started */
    SUBMIT_ASKED,  /* sbatch runs */
    SUBMIT_DONE,   /* Slurm has, or had, a job with its tag */
    SUBMIT_UNSURE, /* Slurm may have such a job */
};

enum { SLURM_KEY_MAX = 104, SLURM_USER_MAX = 64 };

/* A further allocation of an attempt: slurm_pilot.c. */
struct slurm_pilot {
    int64_t number; /* 1, 2, ... in its attempt, never used again */
    enum pilot_state state;
    struct firn_part part; /* GPUs of one node */
    int64_t slurm_id;      /* 0: not known */
    double asked_s;        /* when it was asked for, or found again */
    double known_s;        /* answers to questions asked earlier do not count */
    double settle_s;       /* when a missing one counts as never submitted */
    int nmissing;
    char reason[64]; /* Slurm's reason why it is pending */

    /* slurm_chain.c */
    int64_t follows; /* the pilot whose GPUs it is to have; 0: none */
    bool is_ending;  /* Slurm will end it soon, */
    bool was_left;   /* and its workers were ordered to leave it */
};

/* One that goes back to Slurm. */
struct slurm_return {
    struct slurm_tag tag;
    char user[SLURM_USER_MAX]; /* as in struct slurmjob */
    struct slurm_pilot pilot;
    double cancel_s;
};

struct slurmjob {
    struct rosterjob base;

    /* Resizes of the current attempt without a stop: slurm_resize.c. */
    VEC(struct slurm_pilot) pilots;
    int64_t npilots;       /* the last number */
    int64_t nresizes;      /* the last resize that was ordered */
    struct firn_alloc own; /* GPUs of its first allocation */
    struct firn_alloc before,
        after;           /* of the resize under way; none: nothing */
    double waits_s;      /* since when it wants other GPUs; 0: it does not */
    double again_s;      /* no further allocation is asked for before */
    bool has_lost_pilot; /* Slurm took one in which workers trained */
    bool must_restart;   /* for its next size */
    int nfailures;       /* growths in a row that failed */
    double ended_s;      /* since when it has ended, with pilots */

    /* The current attempt. */
    bool has_pid;
    double look_s; /* when its files are read again */
    double exit_s; /* since when it has an exit file and a held lock */
    enum attempt_request request;
    bool was_asked; /* to leave, by an earlier firnd */

    /* The Slurm job of the attempt. */
    char user[SLURM_USER_MAX]; /* whose it is; "": firnd's own user's */
    char inbox[SLURM_KEY_MAX]; /* key of a job of the inbox; "": our own job */
    enum slurm_submit submit;
    int64_t slurm_id; /* 0: not known */
    double known_s;   /* answers to questions asked earlier do not count */
    double settle_s;  /* UNSURE: when a missing job counts as never submitted */
    bool is_seen;     /* in the last answer that counts, in this state: */
    enum slurm_state state;
    int nmissing;        /* answers in a row without the job */
    int nrevived;        /* ... with the job pending after it ran */
    bool is_withdrawn;   /* we cancel it, through no fault of the job */
    bool is_refused;     /* sbatch or scontrol refused it */
    double idle_since_s; /* enough GPUs elsewhere are idle; 0: they are not */
    bool gives_back;     /* its GPUs go back to the host at the attempt's end */
    bool is_damaged;     /* its exit file is damaged */
    bool is_unread;      /* its files or the cell are not readable yet */
    int nlosses;         /* attempts in a row that were lost */
    char refusal[SLURM_EXCERPT]; /* sbatch's last refusal */
    char reason[64];             /* Slurm's reason why the job is pending */
    double expected_s; /* when Slurm expects to start it; 0: not known */
    double cancel_s;   /* the last scancel */
    bool is_slow;      /* its long wait was logged */
    double deserted_s; /* since when both locks are free though Slurm says
                          RUNNING; 0: a lock is held */
};

/* A node of the cluster, by id. */
struct slurm_host {
    const char *name, *host, *type;
    const char *features; /* "a100,ib" */
    int ngpus;
    enum slurm_naming naming;
    int shards_per_gpu;
    bool is_mps;
    bool is_up, is_drained;
    double unclear_s; /* since when its state is unclear; 0: it is clear */
    char why[200];
    uint64_t taken[16]; /* GPUs that foreign jobs use, as reported */
    uint64_t seen[16];  /* ... by the previous answer: two answers decide */
    uint64_t used[16];  /* GPUs in use by any job, by the last answer */
    int nused;          /* how many GPUs are in use */
    bool has_indices;   /* `used` says which GPUs */
    bool is_there;      /* the last answer had the node */
};

/* GPUs of an ended attempt that Slurm may still count as used. */
struct slurm_release {
    struct slurm_tag tag;
    char user[SLURM_USER_MAX]; /* as in struct slurmjob */
    struct firn_alloc held;
    double since_s;
    bool was_withdrawn; /* its Slurm job is to be cancelled */
};

/* A Slurm job with our tag that belongs to no current attempt. */
struct slurm_orphan {
    int64_t id;
    struct slurm_tag tag;
    char user[SLURM_USER_MAX]; /* as in struct slurmjob */
    int nseen;
    double since_s, cancel_s;
};

/* What Slurm does not let a job have: slurm_bars.c. Times are when a bar ends;
 * 0: there is none. */
struct slurm_bar {
    firn_job_id job;
    double all_s;           /* it cannot be started at all */
    double gpus_s, nodes_s; /* at most gpus_max GPUs; not on these nodes */
    int gpus_max;
    uint64_t *nodes; /* a bit each; NULL until there is one */
    int nrefusals;
    double last_s; /* of the last bar */
    char why[SLURM_EXCERPT + 32];
};

/* An attempt that is over and whose times the host has: slurm_times.c. */
struct slurm_timed {
    int64_t job, attempt, slurm_id;
    bool is_listed; /* by the last answer of squeue */
};

struct slurm_inbox;
struct slurm_ahead;
struct slurm_qos;
struct launchfile;
enum { SLURM_WHYS = 64 }; /* texts of events that are not read yet */

struct slurm {
    /* Options. */
    char pass_env[FIRN_TEXT_MAX]; /* engine/passenv.h */
    char partition[FIRN_TEXT_MAX], options[FIRN_TEXT_MAX];
    char memory[FIRN_TEXT_MAX], program[FIRN_TEXT_MAX], path[FIRN_TEXT_MAX];
    char inbox_partition[FIRN_TEXT_MAX]; /* "" or "off": no inbox */
    char state[FIRN_TEXT_MAX];           /* the host's folder; "": none */
    char launcher[FIRN_TEXT_MAX];  /* socket of firn-launch; "": none, and all
                                      jobs are firnd's own user's */
    char own_user[SLURM_USER_MAX]; /* name of firnd's user */
    double poll_s, limit_s, force_s, join_s;
    double asked_limit_s; /* slurm.limit, before the partition's counts */
    bool has_asked_limit;
    bool asks_unlimited; /* the partition has a DefaultTime and no MaxTime */
    char allow_accounts[FIRN_TEXT_MAX], deny_accounts[FIRN_TEXT_MAX];

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
    VEC(struct slurm_release) releases;
    VEC(struct slurm_orphan) orphans;
    VEC(struct slurm_return) returns;
    VEC(struct slurm_timed) timed;
    VEC(const char *) users; /* names in events of times, in `text` */
    char why[SLURM_WHYS][200];
    unsigned nwhy;
    VEC(struct slurm_bar) bars;
    bool has_looked;  /* slurm_nodes_first() is done */
    bool has_changes; /* a file appeared in a watched folder */

    double queue_asked_s; /* when the queue was last asked for */
    double queue_known_s; /* when the last answer had been asked for */
    double queue_due_s, nodes_due_s, estimate_due_s;
    double used_s;       /* when the hosts' `used` came; 0: already evaluated */
    char queue_mark[24]; /* at the end of each record of the queue */
    double away_s;       /* since when Slurm does not answer; 0: it answers */
    struct firn_buf trouble, job_trouble; /* sentences for the host */
    VEC(uint64_t) barred;                 /* nodes of the last bars() */
    bool is_from_file; /* the nodes come from slurm_kept.c, not from Slurm */

    struct slurm_ahead *ahead; /* slurm_ahead.c's own */
    struct slurm_qos *qos;     /* slurm_qos.c's own */
    char partition_qos[64];    /* "": the partition has none */
    struct slurm_inbox *inbox; /* slurm_inbox.c's own; NULL: none */
};

/* How long a command may take. */
static const double slurm_answer_s = 20;

static inline double slurm_now_s(const struct slurm *slurm)
{
    return roster_now_s(&slurm->roster);
}

/* A job whose answer was lost may appear in the queue within this time. */
static inline double slurm_settle_s(const struct slurm *slurm)
{
    return 6 * slurm->poll_s;
}

/* The job at this place of the roster. */
static inline struct slurmjob *slurm_at(const struct slurm *slurm, size_t i)
{
    return (struct slurmjob *)slurm->roster.jobs.at[i];
}

static inline void slurm_report(struct slurm *slurm, struct firn_event event)
{
    roster_report(&slurm->roster, event);
}

/* --- slurm_job.c: one job's record ---------------------------------------- */

struct slurmjob *slurm_find(const struct slurm *slurm, firn_job_id id);
/* Removes the job from the roster. */
void slurm_drop(struct slurm *slurm, struct slurmjob *job);
void slurm_forget_attempt(struct slurm *slurm, struct slurmjob *job);
/* Notes that Slurm has the job in this state. */
void slurm_seen(struct slurm *slurm, struct slurmjob *job, int64_t id,
                enum slurm_state state);
/* Sends a request to the shepherd, unless an equal or stronger one was sent. */
void slurm_request(struct slurmjob *job, enum attempt_request request);

/* --- slurm_cell.c --------------------------------------------------------- */

/* Finds or draws the number of the state folder, beside a job's folder. */
enum firn_status slurm_cell(struct slurm *slurm, const char *job_folder,
                            struct firn_error *err);

/* Arguments of a command; texts lie in an arena. */
struct slurm_argv {
    VEC(const char *) at; /* ends with NULL, which is not counted */
};

/* --- slurm_users.c: whose Slurm jobs ----------------------------------------
 */

void slurm_users_open(struct slurm *slurm);
/* Jobs of several users are submitted. */
bool slurm_has_users(const struct slurm *slurm);
/* Notes as whom the job is submitted. */
void slurm_user_of(const struct slurm *slurm, struct slurmjob *job,
                   const struct firn_launch *launch);
/* squeue's user is that of a record, "" for firnd's own. */
bool slurm_is_user(const struct slurm *slurm, const char *user,
                   const char *listed);
/* squeue's user as a record has it. */
const char *slurm_user_listed(const struct slurm *slurm, const char *listed);
/* The first arguments of a command that runs Slurm's `program` as the user, who
 * is not firnd's own. */
void slurm_users_argv(const struct slurm *slurm, const char *program,
                      const char *user, const struct slurm_tag *tag,
                      struct slurm_argv *out, struct arena *text);

/* --- slurm_ask.c: commands ------------------------------------------------ */

/* Starts a command. argv[0] is the bare name; `argv` ends with NULL. */
void slurm_run(struct slurm *slurm, const char *const *argv,
               const struct command *command);
/* Runs scancel as `user`; "": as firnd's own user. */
void slurm_cancel_by(struct slurm *slurm, const char *user,
                     const struct slurm_tag *tag, const char *const *argv);
/* Cancels a Slurm job of `user` by number and tag: after a crash of the
 * controller the number alone may belong to another job. `is_gentle`: only if
 * pending. */
void slurm_cancel(struct slurm *slurm, const char *user,
                  const struct slurm_tag *tag, int64_t id, bool is_gentle);
/* Asks for the queue soon. */
void slurm_poll_soon(struct slurm *slurm);
/* A command that asks the controller ended: did the controller answer? Keeps
 * `trouble`. */
bool slurm_is_answer(struct slurm *slurm, const char *name,
                     const struct command_done *done);
/* The controller does not answer: command `name` failed with this text. */
void slurm_went_away(struct slurm *slurm, const char *name, const char *why);
void slurm_came_back(struct slurm *slurm);
/* The command's error text, for a sentence. Returns `out`. */
const char *slurm_failure(const struct command_done *done,
                          char out[SLURM_EXCERPT]);
/* The controller itself refused; false: it may not have been reached. */
bool slurm_is_refusal(const struct command_done *done);

/* --- slurm_bars.c: what Slurm does not let a job have --------------------- */

/* The job cannot be started for `for_s` seconds; 0: 2, 4, ... 60, longer each
 * time. */
void slurm_bar_all(struct slurm *slurm, firn_job_id id, double for_s,
                   const char *why);
/* For a minute: at most that many GPUs. For 5, 8, ... 60 s: not on the nodes of
 * `alloc`. */
void slurm_bar_gpus(struct slurm *slurm, firn_job_id id, int gpus_max,
                    const char *why);
void slurm_bar_nodes(struct slurm *slurm, firn_job_id id,
                     const struct firn_alloc *alloc, const char *why);
/* The node is up again, and barred to no job. */
void slurm_bars_node(struct slurm *slurm, firn_node_id node);
/* How long a further refusal of the job would keep it waiting. */
double slurm_bar_next_s(const struct slurm *slurm, firn_job_id id);
/* As firn_engine_def.bars. */
bool slurm_bars(struct slurm *slurm, firn_job_id id, struct firn_bars *out);
/* Ends bars whose time has come. */
void slurm_bars_end(struct slurm *slurm);
/* When the next one does. */
double slurm_bars_due_s(const struct slurm *slurm);
/* The job runs, or is over. */
void slurm_bars_drop(struct slurm *slurm, firn_job_id id);
void slurm_bars_close(struct slurm *slurm);

/* --- slurm_open.c: discovery ---------------------------------------------- */

/* Runs a command and waits for it, `limit_s` at most. FIRN_EIO: it failed. */
enum firn_status slurm_ask(struct slurm *slurm, const char *const *argv,
                           double limit_s, struct firn_buf *out,
                           struct firn_error *err);

/* ... with variables, and without a sentence. */
enum firn_status slurm_ask_with(struct slurm *slurm, const char *const *argv,
                                const char *const *env, double limit_s,
                                struct firn_buf *out);

/* Waits for Slurm: a few seconds if an earlier answer was kept, which is then
 * used; else without end. */
enum firn_status slurm_open(struct slurm *slurm, struct firn_error *err);

/* --- slurm_limits.c: what a partition allows ------------------------------ */

/* Reads scontrol's line of the partition. */
void slurm_limits_read(struct slurm *slurm, const char *line);
bool slurm_limits_allow(const struct slurm *slurm, const char *account);

/* --- slurm_qos.c: limits of QOS --------------------------------------------
 */

void slurm_qos_open(struct slurm *slurm);
void slurm_qos_close(struct slurm *slurm);
/* Answers of scontrol and sacctmgr. True: they differ from those before. */
bool slurm_qos_take(struct slurm *slurm, struct firn_bytes text);
bool slurm_qos_defaults(struct slurm *slurm, const char *cluster,
                        struct firn_bytes text);
/* The limits for a job of this association that names this QOS ("": none), as
 * associations with the names of the limits. */
struct slurm_qos_limits {
    struct slurm_assoc at[6];
    size_t n;
};
void slurm_qos_limits(const struct slurm *slurm, const char *named,
                      const struct slurm_assoc *assoc,
                      struct slurm_qos_limits *out);

/* --- slurm_ahead.c: what Slurm will not allow ------------------------------
 */

struct slurm_bounds {
    int gpus_max;    /* -1: no limit; 0: not one */
    double until_s;  /* it cannot be started before; 0: it can */
    bool has_nodes;  /* slurm->barred has nodes of reservations */
    const char *why; /* NULL: no bound */
};
void slurm_ahead_open(struct slurm *slurm);
void slurm_ahead_poll(struct slurm *slurm);
double slurm_ahead_due_s(const struct slurm *slurm);
/* Reads all again at the next poll: a limit is not as it was known. */
void slurm_ahead_soon(struct slurm *slurm);
void slurm_ahead_take(struct slurm *slurm, const struct command_done *done);
void slurm_ahead_close(struct slurm *slurm);
/* The longest time limit that association and QOS allow a job; 0: any. */
double slurm_ahead_wall_s(const struct slurm *slurm,
                          const struct firn_launch *launch);
/* For a job that may be waiting. Adds nodes to slurm->barred. */
void slurm_ahead_bounds(struct slurm *slurm, firn_job_id id,
                        const struct firn_launch *launch,
                        struct slurm_bounds *out);

/* --- slurm_rights.c: may firnd's user change other users' jobs? ---------- */

/* Logs it if not. */
void slurm_rights_check(struct slurm *slurm);

/* --- slurm_kept.c: the last answer of discovery, in a file ---------------- */

struct slurm_kept {
    int version;
    char asked[FIRN_TEXT_MAX], partition[FIRN_TEXT_MAX];
    struct firn_buf nodes; /* as scontrol printed them */
};
/* `asked`: the partition that was asked for, "" for the default one. */
void slurm_kept_write(const struct slurm *slurm, const char *asked,
                      const struct firn_buf *nodes);
/* False: no usable file for the partition asked for. Release `nodes` in any
 * case. */
bool slurm_kept_read(const struct slurm *slurm, struct slurm_kept *out);
/* Logs how the nodes differ from the file's. */
void slurm_kept_compare(const struct slurm *slurm,
                        const struct slurm_nodes *nodes);

/* --- slurm_poll.c --------------------------------------------------------- */

/* Asks for the queue and the nodes when they are due. */
void slurm_poll(struct slurm *slurm);
/* Handles all commands that have ended. */
void slurm_answers(struct slurm *slurm);
/* Sets the timer for whatever is due next. */
void slurm_wake_arm(void *slurm_engine);

/* --- slurm_queue.c: squeue's answer --------------------------------------- */

void slurm_queue_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                      double asked_s);

/* --- slurm_reason.c and slurm_pending.c: Slurm's reasons ----------------- */

enum slurm_pending {
    SLURM_WAITS_OTHER,
    SLURM_WAITS_PRIORITY,
    SLURM_WAITS_RESOURCES,
    SLURM_WAITS_BEHIND, /* its nodes are kept for other jobs of the queue */
    SLURM_WAITS_NODES,  /* not on these nodes */
    SLURM_WAITS_LIMIT,  /* of an association or a QOS */
    SLURM_WAITS_NEVER,  /* not as it was submitted */
};
enum slurm_pending slurm_pending_of(const char *reason);
/* Of all pending attempts. `is_sure`: as slurm_nodes_use() says. */
void slurm_pending_look(struct slurm *slurm, bool is_sure);

/* --- slurm_times.c -------------------------------------------------------- */

/* Reports the times of attempts that are over, by squeue's answer. */
void slurm_times_take(struct slurm *slurm, const struct slurm_jobs *jobs);

/* --- slurm_estimate.c: when Slurm expects to start a job ------------------ */

void slurm_estimate_poll(struct slurm *slurm);
void slurm_estimate_take(struct slurm *slurm, const struct command_done *done);

/* --- slurm_nodes.c: scontrol's answer ------------------------------------- */

bool slurm_is_in_partition(const struct slurm *slurm,
                           const struct slurm_node *node);
/* The node is in the partition and has GPUs. */
bool slurm_is_mine(const struct slurm *slurm, const struct slurm_node *node);
void slurm_nodes_take(struct slurm *slurm, const struct slurm_nodes *nodes);
/* Finds the GPUs of foreign jobs, by a queue that was asked for at `asked_s`;
 * 0: by what we hold, pending or not. True: the queue was asked for after the
 * nodes, so pending jobs of ours held none of the GPUs in use. */
bool slurm_nodes_use(struct slurm *slurm, double asked_s);
/* Reports the foreign GPUs that were known when the engine was opened. */
void slurm_nodes_first(struct slurm *slurm);
/* A foreign job uses one of these GPUs. */
bool slurm_is_taken(const struct slurm *slurm, const struct firn_alloc *alloc);
/* The job has been pending in Slurm for a while. */
bool slurm_is_waiting(const struct slurm *slurm, const struct slurmjob *job);

/* --- slurm_start.c -------------------------------------------------------- */

void slurm_launch(struct slurm *slurm, struct slurmjob *job);
/* sbatch ended. */
void slurm_submitted(struct slurm *slurm, const struct command_done *done);

/* The workers' variables on these GPUs. */
void slurm_variables(const struct slurm *slurm, const struct slurmjob *job,
                     const struct firn_alloc *held,
                     const struct firn_launch *launch, struct launchfile *file);

/* --- slurm_resize.c: an attempt changes its size as it runs -------------- */

/* A step to other GPUs. False: it has to be restarted for that. */
bool slurm_resize(struct slurm *slurm, struct slurmjob *job,
                  const struct firn_alloc *to);
/* Does what is due. True: the job has to be restarted. */
bool slurm_resize_look(struct slurm *slurm, struct slurmjob *job);
/* NULL: the attempt can train on `to` without a stop; else why not, or "". */
const char *slurm_resize_obstacle(struct slurm *slurm,
                                  const struct slurmjob *job,
                                  const struct firn_alloc *to);
/* Orders a resize to `to`, of whose allocations none is missing. */
enum firn_status slurm_resize_begin(struct slurm *slurm, struct slurmjob *job,
                                    const struct firn_alloc *to,
                                    struct firn_error *err);

/* --- slurm_chain.c: a further allocation that ends soon ------------------- */

void slurm_chain_look(struct slurm *slurm, struct slurmjob *job);

/* --- slurm_resized.c: what a resize left, and what a crash left ----------- */

/* Reads whether the resize under way is over. */
void slurm_resized_look(struct slurm *slurm, struct slurmjob *job);
/* `stays`: the job trains on as it was; else, if it is not done, it restarts.
 */
void slurm_resized_report(struct slurm *slurm, const struct slurmjob *job,
                          const struct resized *resized, bool stays);
/* An attempt of an earlier firnd. */
void slurm_resize_recover(struct slurm *slurm, struct slurmjob *job);
/* The attempt has ended, and Slurm may not have said yet whether it took one of
 * its pilots. */
bool slurm_pilots_are_unclear(struct slurm *slurm, struct slurmjob *job);
/* Further allocations are awaited, or a resize is under way. */
static inline bool slurm_resize_is_busy(const struct slurmjob *job)
{
    return job->waits_s > 0 || job->after.nparts > 0;
}

/* --- slurm_pilot.c: further allocations ----------------------------------- */

/* Writes the list down, then asks Slurm for these GPUs. */
enum firn_status slurm_pilot_ask(struct slurm *slurm, struct slurmjob *job,
                                 const struct firn_part *part,
                                 struct firn_error *err);
/* sbatch ended. */
void slurm_pilot_submitted(struct slurm *slurm,
                           const struct command_done *done);
/* Something happened to pilot `i` of the job, which may be gone afterwards. */
void slurm_pilot_happens(struct slurm *slurm, struct slurmjob *job, size_t i,
                         enum pilot_event event);
/* The same for all pilots of the job in this state. */
void slurm_pilots_happen(struct slurm *slurm, struct slurmjob *job,
                         enum pilot_state state, enum pilot_event event);
/* Compares squeue's answer with all pilots. */
void slurm_pilots_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                       double asked_s);

/* --- slurm_return.c: allocations that go back ----------------------------- */

/* Cancels a pilot until Slurm does not have it any more. */
void slurm_return(struct slurm *slurm, const struct slurmjob *job,
                  const struct slurm_pilot *pilot);
/* The attempt is over: all its pilots go back. */
void slurm_return_all(struct slurm *slurm, struct slurmjob *job);
/* Compares squeue's answer with them, and with pilots of no current attempt. */
void slurm_returns_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                        double asked_s);
/* sbatch has told the number of one. */
void slurm_return_known(struct slurm *slurm, firn_job_id job, int64_t attempt,
                        int64_t number, int64_t slurm_id);
/* Adds their GPUs. */
void slurm_returns_add(const struct slurm *slurm, firn_node_id node,
                       uint64_t ours[16]);
/* Of several jobs of this user with this tag the one that is not over; NULL:
 * none. */
const struct slurm_job *slurm_pilot_find(const struct slurm *slurm,
                                         const struct slurm_jobs *jobs,
                                         const struct slurm_tag *tag,
                                         const char *user, int64_t number);

/* --- slurm_hold.c: the GPUs of a job's allocations ----------------------- */

/* `gpus` with all else as in `like`; the old parts of `to` are freed. */
void slurm_take_gpus(struct firn_alloc *to, const struct firn_alloc *like,
                     const struct firn_alloc *gpus);
/* The GPUs on which the attempt trains now; release it. */
struct firn_alloc slurm_resized_trains(const struct slurmjob *job);
/* The GPUs of all its allocations become what it holds. */
void slurm_resized_hold(struct slurmjob *job);

/* --- slurm_pilotfile.c: their list on disk -------------------------------- */

enum firn_status slurm_pilots_write(const struct slurmjob *job,
                                    struct firn_error *err);
/* Replaces the list in memory; all are ASKED. */
enum attempt_found slurm_pilots_read(struct slurmjob *job);
/* Before an attempt: writes down which GPUs its first allocation has. */
enum firn_status slurm_pilots_prepare(struct slurmjob *job,
                                      struct firn_error *err);
/* Slurm's number of the pilot into which a resize under way puts a worker on
 * this GPU; 0: none. */
int64_t slurm_pilot_of(const struct slurmjob *job, firn_node_id node,
                       int index);

/* --- slurm_batch.c: sbatch's arguments ----------------------------------- */

void slurm_batch_argv(const struct slurm *slurm, const struct slurmjob *job,
                      const struct firn_launch *launch, struct slurm_argv *out,
                      struct arena *text);
void slurm_batch_pilot(const struct slurm *slurm, const struct slurmjob *job,
                       const struct slurm_pilot *pilot,
                       const struct firn_launch *launch, struct slurm_argv *out,
                       struct arena *text);
enum firn_status slurm_batch_pilot_script(const struct slurm *slurm,
                                          const struct slurmjob *job,
                                          struct firn_buf *out,
                                          struct firn_error *err);
/* The script for sbatch; FIRN_EINVAL: a path that a script cannot hold. */
enum firn_status slurm_batch_script(const struct slurm *slurm,
                                    const struct slurmjob *job,
                                    struct firn_buf *out,
                                    struct firn_error *err);

/* --- slurm_attempt.c: an attempt's life ---------------------------------- */

void slurm_leave(struct slurm *slurm, struct slurmjob *job, bool is_loss);
/* Takes a pending Slurm job back, because foreign jobs have its GPUs. */
void slurm_withdraw(struct slurm *slurm, struct slurmjob *job);
/* Reads the attempt's state; the job may be gone afterwards. */
void slurm_look(struct slurm *slurm, struct slurmjob *job);
/* Takes over an attempt that an earlier firnd started. */
enum firn_status slurm_take_over(struct slurm *slurm, struct slurmjob *job,
                                 struct firn_error *err);

/* --- slurm_inbox.c: jobs that users gave to a closed partition
 * ------------------
 *
 * Without an inbox all of these do nothing. A job whose launch has an `inbox`
 * has no shepherd, no lock files and no tag: only its key identifies it, and
 * its state comes by slurm_seen(). When Slurm no longer knows the job, its
 * state is SLURM_COMPLETED, or what was last known.
 */
enum firn_status slurm_inbox_open(struct slurm *slurm, struct firn_error *err);
void slurm_inbox_close(struct slurm *slurm);
/* Starts the inbox's commands when they are due. */
void slurm_inbox_poll(struct slurm *slurm);
/* When the next command is due. */
double slurm_inbox_due_s(const struct slurm *slurm);
/* A command with tag SLURM_CMD_INBOX or above ended. */
void slurm_inbox_answer(struct slurm *slurm, const struct command_done *done);
/* Releases job->inbox from the inbox onto job->held. slurm_seen() follows; a
 * failure leaves SUBMIT_UNSURE and is tried again. */
void slurm_inbox_start(struct slurm *slurm, struct slurmjob *job);
/* Ends the job: scancel until slurm_seen() says that it is over. */
void slurm_inbox_cancel(struct slurm *slurm, struct slurmjob *job);
/* Ends a job of the inbox that was not started; its end is reported. Does
 * nothing for other jobs. */
void slurm_inbox_end(struct slurm *slurm, firn_job_id id);
/* Nodes that a job of the inbox excludes by its --constraint, a bit each; NULL:
 * none, or not a job of the inbox. */
const uint64_t *slurm_inbox_barred(struct slurm *slurm, firn_job_id id);
/* FIRN_EREFUSED: the job came by the inbox and its shape does not fit these
 * GPUs. */
enum firn_status slurm_inbox_check(struct slurm *slurm, firn_job_id id,
                                   const struct firn_alloc *to,
                                   struct firn_error *err);

#endif
