/* book.h - the daemon's jobs in memory, and every change of one.
 *
 * The one place that changes a live job: each function here alters the copy in
 * memory, writes it to the store's open transaction and appends an event, so
 * that memory, disk and history agree. Once the store has rolled back, every
 * change here is FIRN_EIO until the book is closed and opened again.
 *
 * Jobs that are over stay on disk and leave memory when there are more than
 * `keep` of them; looking one up reads it back. They leave in book_submit()
 * only, so that a walk by book_at() may change jobs on its way.
 */
#ifndef DAEMON_BOOK_H
#define DAEMON_BOOK_H
#include "daemon/livejob.h"
#include "daemon/store.h"

struct book;

/* False: `status` is that of a write that failed, as `err` says. The first such
 * is remembered, but for FIRN_EUNSAVED, which the store tries again. */
bool book_wrote(struct book *book, enum firn_status status,
                const struct firn_error *err);
/* That failure; its status is FIRN_OK while there is none. */
const struct firn_error *book_broken(const struct book *book);

/* Called with every event, for streams; its memory is borrowed. */
typedef void book_listener(void *arg, const struct store_event *event);

enum firn_status book_open(struct book **out, struct store *store,
                           struct firn_error *err);
void book_close(struct book *book);
/* The listener is called when a change is made, before it is committed. */
void book_listen(struct book *book, book_listener *listener, void *arg);
/* The caller whose request causes the events from now on; "": firnd itself. */
enum { BOOK_CALLER = 128 };
void book_caller(struct book *book, const char *caller);
/* Why jobs lose GPUs by the events from now on: their `stop`. Returns the cause
 * before. */
struct live_stop book_because(struct book *book, struct live_stop stop);
/* Its open attempt is being stopped: the cause is kept with the attempt and in
 * job->stop, which has none so far. */
enum firn_status book_stopped(struct book *book, struct live_job *job,
                              const struct live_stop *stop,
                              struct firn_error *err);
/* Its open attempt made its first step so long after its start. */
enum firn_status book_first_step(struct book *book, struct live_job *job,
                                 double first_step_s, struct firn_error *err);
/* Adds an event that belongs to no job: "drained", "policy", ... */
enum firn_status book_tell(struct book *book, double now_s, const char *kind,
                           const char *text, struct firn_error *err);
/* How many finished jobs stay in memory: BOOK_KEEP at first. */
enum { BOOK_KEEP = 10000 };
void book_keep(struct book *book, size_t keep);
/* Between pause and resume no job in memory changes, moves or leaves by a
 * submit, so that another thread may look jobs up by their ids. New jobs are
 * found too, by the thread that submits them. Only submits, holds of new jobs
 * and reading are allowed meanwhile. */
void book_pause(struct book *book);
void book_resume(struct book *book);

/* Limits the number of unfinished jobs, of all users and of one; 0 (at first):
 * no limit. */
void book_limits(struct book *book, size_t jobs_max, size_t user_max);
/* Drops a finished job from memory. Not within a walk by book_at(). */
void book_forget(struct book *book, firn_job_id id);

/* A new job from an ask, which is given away on FIRN_OK; PENDING, NEW. The same
 * user's same request id gives the job it made before, and *is_new false. An
 * ask without a name becomes "job-<id>". FIRN_EINVAL: a request id is 1 to 128
 * printable ASCII letters; "" for none. FIRN_ELIMIT: see book_limits(). */
enum firn_status book_submit(struct book *book, struct live_ask *ask,
                             const char *text, const char *request,
                             double now_s, struct live_job **out, bool *is_new,
                             struct firn_error *err);

/* By id; NULL: none. Borrowed until it is over and the next submit. */
struct live_job *book_job(struct book *book, firn_job_id id);
/* By number, name, or unique beginning of a name, of the living first; the
 * newest of that name. A word of digits only is a number and nothing else.
 * FIRN_ENOENT, FIRN_EINVAL (several: names them). */
enum firn_status book_find(struct book *book, const char *word,
                           struct live_job **out, struct firn_error *err);
/* The jobs in memory by rising id. */
size_t book_count(const struct book *book);
struct live_job *book_at(struct book *book, size_t i);
/* The job in memory that has this token, or -1. Takes the same time whatever
 * the token. */
firn_job_id book_token(const struct book *book, const char *token);

/* Changes; `why` is a sentence that becomes the event's text. Changes of a
 * finished job are FIRN_EINVAL.
 *
 * The same state and reason again: only the sentence changes, and only in
 * memory. Another reason in the same state: written, no event. `started_s` and
 * `ended_s` are set when it first runs and when it is over, and never
 * earlier than the times before them, whatever the clock says. */
enum firn_status book_state(struct book *book, struct live_job *job,
                            enum live_state state, enum live_reason reason,
                            double now_s, const char *why,
                            struct firn_error *err);
/* Sets why a PENDING job waits, in memory only: every decision sets it anew for
 * all pending jobs. */
void book_note(struct live_job *job, enum live_reason reason, const char *why);
/* Sets the clock for the times of attempts; without one it is the time of day,
 * which may jump. */
typedef double book_now(void *arg);
void book_clock(struct book *book, book_now *now_s, void *arg);
/* Opens the next attempt. No process may get its number before
 * book_keep_attempts() is FIRN_OK. */
enum firn_status book_open_attempt(struct book *book, struct live_job *job,
                                   int64_t *attempt, struct firn_error *err);
/* Commits: the attempts opened so far are on disk, with all changes before
 * them. */
enum firn_status book_keep_attempts(struct book *book, struct firn_error *err);
/* Both for one job. */
enum firn_status book_next_attempt(struct book *book, struct live_job *job,
                                   int64_t *attempt, struct firn_error *err);
/* Ends an attempt; the last one's exit status is the job's. */
enum firn_status book_attempt_ended(struct book *book, struct live_job *job,
                                    const struct store_attempt *attempt,
                                    struct firn_error *err);
/* Ends the open attempts up to last->number as `last` says, with an event;
 * attempts that have an end keep it. See book_attempt.c. */
enum firn_status book_close_attempts(struct book *book, struct live_job *job,
                                     const struct store_attempt *last,
                                     struct firn_error *err);
/* When an attempt that has an end began and ended, by the cluster's own
 * accounting; equal times: it never began. Attempts of jobs of other users than
 * `user` (NULL: any user) keep theirs. */
enum firn_status book_attempt_times(struct book *book,
                                    const struct store_attempt *times,
                                    const char *user, struct firn_error *err);
/* Seconds that the job has had GPUs, in all its attempts, up to `now_s`. */
double book_ran_s(struct book *book, const struct live_job *job, double now_s);
/* An event of the job; nothing of it changes. */
enum firn_status book_say(struct book *book, struct live_job *job, double now_s,
                          const char *kind, const char *text,
                          struct firn_error *err);
/* A resize of the running attempt is over: an event with this text. */
enum firn_status book_resized(struct book *book, struct live_job *job,
                              const char *text, struct firn_error *err);
/* Sets the GPUs that the job holds, as text. "-": none; job->how is then
 * cleared. */
enum firn_status book_held(struct book *book, struct live_job *job,
                           const char *held, struct firn_error *err);
/* The same for an attempt that is opened next: one that is still open keeps its
 * own GPUs in the accounting. */
enum firn_status book_held_next(struct book *book, struct live_job *job,
                                const char *held, struct firn_error *err);
/* Sets the GPU type that the job keeps to; "" for none. No event. */
enum firn_status book_type(struct book *book, struct live_job *job,
                           const char *type, struct firn_error *err);
/* Sets how the job runs on its GPUs. No event. */
enum firn_status book_how(struct book *book, struct live_job *job,
                          const struct firn_how *how, struct firn_error *err);
/* Takes a trainer's report. FIRN_EINVAL, and nothing changes: it is of an older
 * attempt or has an impossible number (progress or steps that fall within an
 * attempt, ...). No event: reports have a list of their own. Progress that the
 * report does not have stays as it was. */
enum firn_status book_report(struct book *book, struct live_job *job,
                             int64_t attempt,
                             const struct firn_trainer_report *report,
                             double now_s, struct firn_error *err);
/* Sets the orders for its trainer. No event. */
enum firn_status book_orders(struct book *book, struct live_job *job,
                             const struct firn_orders *orders,
                             struct firn_error *err);
/* Cancels the job: is_ending is set until its state is a finished one. */
enum firn_status book_cancel(struct book *book, struct live_job *job,
                             double now_s, const char *why,
                             struct firn_error *err);
/* Makes the job PENDING again for reason RETRY, counts the retry, and sets
 * `mem_gib` unless it is 0. */
enum firn_status book_retry(struct book *book, struct live_job *job,
                            double mem_gib, double now_s, const char *why,
                            struct firn_error *err);
enum firn_status book_hold(struct book *book, struct live_job *job, bool held,
                           double now_s, struct firn_error *err);
/* The same with another sentence for the event. */
enum firn_status book_hold_why(struct book *book, struct live_job *job,
                               bool held, double now_s, const char *why,
                               struct firn_error *err);
enum firn_status book_bounds(struct book *book, struct live_job *job,
                             int gpus_min, int gpus_max, double now_s,
                             struct firn_error *err);
enum firn_status book_priority(struct book *book, struct live_job *job,
                               int priority, double now_s,
                               struct firn_error *err);

#endif
