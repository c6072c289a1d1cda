/* store.h - everything the daemon must not forget, in one SQLite file.
 *
 * One writing connection, WAL, synchronous=FULL: what commit() has returned
 * for survives kill -9 and a power cut. Changes are collected in a transaction
 * and committed together, so that a thousand submits a second are a few
 * syncs. Reads go to the same connection, outside of transactions too.
 *
 * The schema has a version and is migrated step by step when opened. A file
 * that cannot be read is moved aside under a name that says when, a new one is
 * begun, and both names are told: never a crash loop, never a silent loss.
 *
 * A change that cannot be written for want of space, or because the disk fails
 * at present, is kept in memory and written as soon as it can be: the change
 * itself is FIRN_OK, the commit is FIRN_EUNSAVED until everything is on disk.
 * Every function can fail with FIRN_EIO (a damaged file, ...); that transaction
 * is rolled back and nothing of it has happened.
 */
#ifndef DAEMON_STORE_H
#define DAEMON_STORE_H
#include "daemon/livejob.h"
#include "daemon/room.h"
#include <firn/bytes.h>
#include <firn/status.h>

struct store;

/* Opens <dir>/firn.db, making the folder (0700) and the file. `notice` gets a
 * sentence when a damaged file was moved aside, else "". FIRN_EIO also when
 * another daemon has it. */
enum firn_status store_open(struct store **out, const char *dir, char *notice,
                            size_t nnotice, struct firn_error *err);
void store_close(struct store *store);

/* A transaction is open from the first change on. Durable on FIRN_OK. Does
 * nothing when nothing changed. FIRN_EUNSAVED: all changes since the last
 * FIRN_OK are pending in memory; call it again, at store_retry_s() or later.
 * FIRN_EIO: the transaction was rolled back. When one of its changes has
 * failed, later changes are refused and this returns the failure again, so that
 * a change that was rolled back with it is not taken for done. */
enum firn_status store_commit(struct store *store, struct firn_error *err);
void store_rollback(struct store *store);
bool store_has_changes(const struct store *store);
/* Are there changes that could not be written so far? */
bool store_is_stalled(const struct store *store);
/* How often changes were rolled back; a copy in memory is then wrong. */
unsigned store_rollbacks(const struct store *store);

/* --- the disk: store_room.c ----------------------------------------------- */

/* Looks at the free space of the folder's disk, at most once a second, and
 * makes the reserve file if it is wanted and there is room. Returns the moment
 * of the next look, by clock_elapsed_s(). */
double store_look(struct store *store);
enum room store_room(const struct store *store);
/* When pending changes are tried again, by clock_elapsed_s(); INFINITY: there
 * are none. */
double store_retry_s(const struct store *store);
/* One sentence: what is wrong with the disk and what to do; NULL while there is
 * ample room. */
const char *store_trouble(const struct store *store);

/* The id of the next new job: above all earlier ids. */
firn_job_id store_next_id(const struct store *store);
/* The lowest id in use; above a billion after a state file was lost. */
firn_job_id store_first_id(const struct store *store);

/* Adds a new job. */
enum firn_status store_add_job(struct store *store, const struct live_job *job,
                               struct firn_error *err);
/* Writes what changes after the submit: state, reason, attempt, times, ... */
enum firn_status store_put_job(struct store *store, const struct live_job *job,
                               struct firn_error *err);
/* One job, given away; FIRN_ENOENT, FIRN_EDATA (cannot be understood). */
enum firn_status store_read_job(struct store *store, firn_job_id id,
                                struct live_job **out, struct firn_error *err);
/* The newest job of that name; FIRN_NO_JOB: none. */
enum firn_status store_find_name(struct store *store, const char *name,
                                 firn_job_id *out, struct firn_error *err);
/* The names that begin with `word`, each with its newest job, in their order:
 * those of living jobs, or with `with_over` of all. */
typedef bool store_name_fn(void *arg, const char *name, firn_job_id newest);
enum firn_status store_find_prefix(struct store *store, const char *word,
                                   bool with_over, store_name_fn *fn, void *arg,
                                   struct firn_error *err);
/* The job that a user's request made; FIRN_NO_JOB: none. */
enum firn_status store_find_request(struct store *store, const char *user,
                                    const char *request, firn_job_id *out,
                                    struct firn_error *err);

/* An attempt to run a job, and its end. */
struct store_attempt {
    firn_job_id job;
    int64_t number; /* from 1 */
    double started_s, ended_s;
    int end; /* enum firn_end; -1: still open */
    int exit_status;
    const char *held;
    /* Read only: store_stop_attempt() and store_first_step() write them. */
    struct live_stop stop;
    double first_step_s; /* from its start to its first step; 0: not known */
};
enum firn_status store_put_attempt(struct store *store,
                                   const struct store_attempt *attempt,
                                   struct firn_error *err);

/* Ends the open attempts of last->job up to last->number as `last` says; each
 * at the start of the next one, the last of all at last->ended_s. *nclosed: how
 * many there were. */
enum firn_status store_close_attempts(struct store *store,
                                      const struct store_attempt *last,
                                      int *nclosed, struct firn_error *err);
/* Ends the open attempts of all finished jobs as lost: once, when it is opened.
 * *nclosed: how many there were. */
enum firn_status store_close_over(struct store *store, int *nclosed,
                                  struct firn_error *err);

/* Sets both times of an attempt that has an end, and what it used of its GPUs
 * with them. An attempt whose GPUs changed while it ran keeps what it used
 * before the last change. Nothing is done for the job of another user than
 * `user`; NULL: any. */
enum firn_status store_time_attempt(struct store *store,
                                    const struct store_attempt *times,
                                    const char *user, struct firn_error *err);

/* The attempt is being stopped by that cause. The first cause of an attempt
 * stays. */
enum firn_status store_stop_attempt(struct store *store, firn_job_id job,
                                    int64_t number,
                                    const struct live_stop *stop,
                                    struct firn_error *err);

enum firn_status store_first_step(struct store *store, firn_job_id job,
                                  int64_t number, double first_step_s,
                                  struct firn_error *err);

/* From `at_s` on the open attempt of a job has these GPUs. */
enum firn_status store_resize_attempt(struct store *store, firn_job_id job,
                                      int64_t number, double at_s,
                                      const char *held, struct firn_error *err);

/* GPU-seconds of one attempt; or the sum of a day's attempts that are kept no
 * longer (job is FIRN_NO_JOB then). */
struct store_usage {
    firn_job_id job;
    const char *user, *project, *app;
    double started_s, ended_s; /* ended_s of an open one: now */
    bool is_open;
    double gpu_s;
    int64_t attempts;
};
typedef void store_usage_fn(void *arg, const struct store_usage *usage);
/* Attempts that ended after `since_s` or are open at `now_s`, and kept sums. */
enum firn_status store_each_usage(struct store *store, double since_s,
                                  double now_s, store_usage_fn *fn, void *arg,
                                  struct firn_error *err);

/* One line of history. `id` is given by the store, rising by one. */
struct store_event {
    int64_t id;
    double at_s;
    firn_job_id job;  /* FIRN_NO_JOB: of no job */
    const char *kind; /* "submitted", "started", ... */
    const char *text; /* one sentence */
    /* The caller that asked for it: "ann" by the Unix socket, "token, ADDRESS"
     * or "job 7, ADDRESS" by TCP, "SIGHUP". "" or NULL: firnd itself. */
    const char *caller;
    struct live_stop stop; /* why it loses GPUs; LIVE_CAUSE_NONE: it does not */
};
/* The number of the last event there ever was; 0: none. */
int64_t store_last_event(const struct store *store);
enum firn_status store_add_event(struct store *store, struct store_event *event,
                                 struct firn_error *err);
enum firn_status store_add_report(struct store *store, firn_job_id job,
                                  int64_t attempt, double at_s,
                                  const struct firn_trainer_report *report,
                                  struct firn_error *err);

/* How many reports of a job there are. */
enum firn_status store_count_reports(struct store *store, firn_job_id job,
                                     int64_t *out, struct firn_error *err);
/* A job that has more reports than STORE_REPORTS_MOST loses every second one of
 * the older half; `nreports` is how many it has, before and after. */
enum { STORE_REPORTS_MOST = 2000 };
enum firn_status store_thin_reports(struct store *store, firn_job_id job,
                                    int64_t *nreports, struct firn_error *err);

/* Small things by name: the policy's state, drained nodes, options. */
enum firn_status store_put_meta(struct store *store, const char *key,
                                struct firn_bytes value,
                                struct firn_error *err);
/* FIRN_ENOENT: there is none. Appends to `out`. */
enum firn_status store_get_meta(struct store *store, const char *key,
                                struct firn_buf *out, struct firn_error *err);

/* Reads jobs by ascending id; a callback that returns false ends it and owns
 * the job that it got. A row that cannot be understood is left out, named in
 * the log and counted in *nbad. */
typedef bool store_job_fn(void *arg, struct live_job *job);
enum firn_status store_each_job(struct store *store, bool with_over,
                                store_job_fn *fn, void *arg, size_t *nbad,
                                struct firn_error *err);
/* The newest `most` finished jobs, by descending id. */
enum firn_status store_each_over(struct store *store, size_t most,
                                 store_job_fn *fn, void *arg, size_t *nbad,
                                 struct firn_error *err);
typedef bool store_event_fn(void *arg, const struct store_event *event);
enum firn_status store_each_event(struct store *store, int64_t after,
                                  size_t most, store_event_fn *fn, void *arg,
                                  struct firn_error *err);
/* The same from the newest on: ids from `from` to below `before`, of one kind
 * ("": all) and one job (FIRN_NO_JOB: all). */
struct store_events {
    int64_t before, from;
    const char *kind;
    firn_job_id job;
};
enum firn_status store_each_event_back(struct store *store,
                                       const struct store_events *which,
                                       store_event_fn *fn, void *arg,
                                       struct firn_error *err);
typedef bool store_attempt_fn(void *arg, const struct store_attempt *attempt);
enum firn_status store_each_attempt(struct store *store, firn_job_id job,
                                    store_attempt_fn *fn, void *arg,
                                    struct firn_error *err);

/* The reports of a job from the oldest on. */
typedef bool store_report_fn(void *arg, int64_t attempt, double at_s,
                             const struct firn_trainer_report *report);
enum firn_status store_each_report(struct store *store, firn_job_id job,
                                   store_report_fn *fn, void *arg,
                                   struct firn_error *err);

/* --- what is forgotten: store_trim.c -------------------------------------- */

/* Where the deletion of old events or reports is; zeroed at the beginning. */
struct store_trim {
    int64_t after; /* rows up to this id were looked at */
    bool is_done;  /* no older ones are left */
};
enum store_list { STORE_EVENTS, STORE_REPORTS };
/* Looks at the next `most` rows from the oldest on, and deletes those that are
 * older than `before_s` and of no living job. */
enum firn_status store_trim(struct store *store, enum store_list list,
                            double before_s, size_t most, struct store_trim *at,
                            struct firn_error *err);

/* Jobs by rising id behind `after`, `most` of them. */
struct store_end {
    firn_job_id id;
    bool is_over;
    double ended_s;
    int64_t attempt; /* its last attempt */
};
typedef bool store_end_fn(void *arg, const struct store_end *end);
enum firn_status store_each_end(struct store *store, firn_job_id after,
                                size_t most, store_end_fn *fn, void *arg,
                                struct firn_error *err);
/* Deletes a finished job with its attempts and reports, at most `most` of them
 * at a time: *is_gone is false while some are left. Events are deleted by
 * age. */
enum firn_status store_forget_job(struct store *store, firn_job_id id,
                                  size_t most, bool *is_gone,
                                  struct firn_error *err);

#endif
