/* dock.h - the engine's side of firnd: its clock, its nodes, and how jobs are
 * launched.
 *
 * The dock owns the engine and everything that is known by it: the cluster as
 * it was discovered, names of nodes, which nodes are drained or down, where a
 * job's files are. It knows nothing of rounds and of the life of a job: the
 * loop takes the engine's events, and the engine asks the loop for attempts and
 * launches by the host that is given to dock_open().
 */
#ifndef DAEMON_DOCK_H
#define DAEMON_DOCK_H
#include "base/vec.h"
#include "daemon/book.h"
#include "daemon/config.h"
#include <firn/alloc.h>
#include <firn/cluster.h>
#include <firn/engine.h>

struct dock {
    const struct config *config; /* of the start */
    struct store *store;
    struct book *book;
    const struct firn_engine_def *engine;
    void *engine_state;
    bool is_open;
    struct firn_cluster cluster; /* as it was discovered */
    /* Nodes. */
    bool *is_drained, *is_down;   /* by node: its operator, the engine */
    struct firn_buf drained_away; /* names of drained nodes that are not here */
    VEC(firn_node_id)
    renumbered;             /* by a node's number in the run before: its number
                             * now, -1 for none; empty: the same */
    char (*node_names)[16]; /* of engines that have none */
    /* Launches. */
    struct firn_buf url; /* where trainers call; empty: nowhere */
    int64_t log_mib;     /* of a job's output that is kept */
    unsigned tunes;      /* FIRN_TUNE_*: of the policy */
    VEC(firn_job_id)
    older;                     /* control files are where an older firnd had
                                * them */
    struct launchtext *launch; /* behind dock_launch() */
    VEC(firn_job_id) unkept;   /* attempts whose numbers are not on disk yet */
    char mark[17];             /* of all processes of its jobs */
};

/* --- the engine: dock.c --------------------------------------------------- */

/* Opens the engine that `engine` or, if it is NULL, the config names. `host` is
 * complete but for its mark. */
enum firn_status dock_open(struct dock *dock,
                           const struct firn_engine_def *engine, bool has_http,
                           const struct firn_engine_host *host,
                           struct firn_error *err);
void dock_close(struct dock *dock);
/* Time is the engine's, which never goes back. */
double dock_now_s(const struct dock *dock);
enum firn_phase dock_phase(const struct dock *dock, firn_job_id id);
/* Ends a job for good. */
void dock_cancel(struct dock *dock, firn_job_id id);
/* Behind it: kills the job's processes now. False: this engine cannot. */
bool dock_kill(struct dock *dock, firn_job_id id);
/* Why the engine can start nothing at present, or not this job; NULL: it can.
 */
const char *dock_trouble(const struct dock *dock);
const char *dock_job_trouble(const struct dock *dock, firn_job_id id);
/* As firn_engine_def.starts_in_s. */
double dock_starts_in_s(const struct dock *dock, firn_job_id id);
/* What the engine does not let the job have; false: nothing is barred to it. */
bool dock_bars(const struct dock *dock, firn_job_id id, struct firn_bars *out);
/* Why no two jobs can share a GPU here; NULL: they can. */
const char *dock_no_sharing(const struct dock *dock);

/* --- nodes: dock_nodes.c -------------------------------------------------- */

void dock_nodes_open(struct dock *dock);
void dock_nodes_close(struct dock *dock);
/* Before jobs are taken over: which numbers nodes had, and now have. */
enum firn_status dock_number_nodes(struct dock *dock, struct firn_error *err);
/* An allocation of the run before, by the numbers of this one; false: a node of
 * it is no longer there. */
bool dock_renumber(const struct dock *dock, struct firn_alloc *held);
const char *dock_node_name(const struct dock *dock, firn_node_id node);
/* Why the engine has it out; "" if it does not say. */
const char *dock_node_why(const struct dock *dock, firn_node_id node);
bool dock_node_find(const struct dock *dock, const char *name,
                    firn_node_id *out);
/* "n0[0-3] n7[1]" with the nodes' names, appended. */
void dock_gpus_text(const struct dock *dock, const char *held,
                    struct firn_buf *out);
/* The same of an allocation. */
void dock_alloc_text(const struct dock *dock, const struct firn_alloc *gpus,
                     struct firn_buf *out);
/* Writes which nodes are drained, by name; also those that are not here at
 * present, for when they are back. */
enum firn_status dock_keep_drained(struct dock *dock, struct firn_error *err);
/* Sets those that were, in a list by node. */
enum firn_status dock_recall_drained(struct dock *dock, bool *is_drained,
                                     struct firn_error *err);

/* --- launches: dock_launch.c ---------------------------------------------- */

/* Fills in a job's launch; false: there is no such job to start. Texts live
 * until the next one. */
bool dock_launch(struct dock *dock, firn_job_id id, struct firn_launch *out);
void dock_launch_free(struct dock *dock);
/* The mark of this state folder (engine/herd.h): read, or drawn. */
enum firn_status dock_mark(struct dock *dock, struct firn_error *err);
/* Finds where the control files are of a job that was started before. FIRN_EIO:
 * that cannot be looked at; the scheduler must not start. */
enum firn_status dock_layout(struct dock *dock, const struct live_job *job,
                             struct firn_error *err);
/* Where a job's log and checkpoints are; in `out`. */
const char *dock_job_folder(const struct dock *dock, firn_job_id id,
                            struct firn_buf *out);

#endif
