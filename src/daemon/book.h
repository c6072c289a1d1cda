/* book.h - the daemon's jobs in memory, and every change of one.
 *
 * The one place that changes a live job: each function here alters the copy in
 * memory, writes it to the store's open transaction and appends an event. So
 * memory, disk and history cannot tell different stories; when a commit fails,
 * the daemon stops rather than go on with a story of its own: once the store
 * has rolled back, every change here is FIRN_EIO until the book is closed and
 * opened again.
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

/* Told of every event, for streams; its memory is borrowed. */
typedef void book_listener(void *arg, const struct store_event *event);

enum firn_status book_open(struct book **out, struct store *store,
                           struct firn_error *err);
void book_close(struct book *book);
/* Told when a change is made, which is before it is committed. */
void book_listen(struct book *book, book_listener *listener, void *arg);
/* The caller that the events from now on are because of; "": firnd itself. */
enum { BOOK_CALLER = 128 };
void book_caller(struct book *book, const char *caller);
/* An event of no job: "drained", "policy", ... */
enum firn_status book_tell(struct book *book, double now_s, const char *kind,
                           const char *text, struct firn_error *err);
/* How many jobs that are over stay in memory: BOOK_KEEP at first. */
enum { BOOK_KEEP = 10000 };
void book_keep(struct book *book, size_t keep);
/* From here on no job that is in memory changes, moves or leaves by a submit,
 * so that another thread may look jobs up by their ids; until it goes on. New
 * jobs are found too, by the thread that submits them. Nothing but submits,
 * holds of new jobs and reading is allowed meanwhile. */
void book_pause(struct book *book);
void book_resume(struct book *book);

/* How many jobs that are not over it takes, in all and of one user; 0, as at
 * first: any number. */
void book_limits(struct book *book, size_t jobs_max, size_t user_max);
/* A job that is over leaves memory; if its row is deleted too, it is gone. Not
 * within a walk by book_at(). */
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

/* Changes; each says why in a sentence that becomes the event's text. Those of
 * a job that is over are FIRN_EINVAL.
 *
 * The same state and reason again: only the sentence changes, and only in
 * memory. Another reason in the same state: written, no event. `started_s` and
 * `ended_s` are set when it first runs and when it is over, and are not before
 * what came before them, whatever the clock says. */
enum firn_status book_state(struct book *book, struct live_job *job,
                            enum live_state state, enum live_reason reason,
                            double now_s, const char *why,
                            struct firn_error *err);
/* Why a job that is PENDING waits, in memory only: a decision says it of all
 * that wait, and the next one says it again. */
void book_note(struct live_job *job, enum live_reason reason, const char *why);
/* Where the times of starts and of GPUs come from; else it is the time of day,
 * which may jump. */
typedef double book_now(void *arg);
void book_clock(struct book *book, book_now *now_s, void *arg);
/* The next start; on disk when it returns, with all that was changed so far. */
enum firn_status book_next_epoch(struct book *book, struct live_job *job,
                                 int64_t *epoch, struct firn_error *err);
/* The same of a job that is trained by another one's processes: on disk with
 * that one's start, which is to follow. */
enum firn_status book_ride(struct book *book, struct live_job *job,
                           int64_t *epoch, struct firn_error *err);
/* Its end, and the job's exit status if it is the last start. */
enum firn_status book_epoch_ended(struct book *book, struct live_job *job,
                                  const struct store_epoch *epoch,
                                  struct firn_error *err);
/* Ends its open attempts up to last->epoch, as `last` says, with an event; an
 * end that is known stays. Nothing happens when there is none. book_attempt.c
 */
enum firn_status book_close_attempts(struct book *book, struct live_job *job,
                                     const struct store_epoch *last,
                                     struct firn_error *err);
/* How long it has had GPUs, in all its attempts, up to `now_s`. */
double book_ran_s(struct book *book, const struct live_job *job, double now_s);
/* What it holds now, as text; with "-" nobody runs it in any way either. */
enum firn_status book_held(struct book *book, struct live_job *job,
                           const char *held, struct firn_error *err);
/* The GPU type that it keeps to; "" for none. No event. */
enum firn_status book_type(struct book *book, struct live_job *job,
                           const char *type, struct firn_error *err);
/* How it is run on what it holds. No event. */
enum firn_status book_how(struct book *book, struct live_job *job,
                          const struct firn_how *how, struct firn_error *err);
/* A trainer's word; FIRN_EINVAL for an old epoch or a number that cannot be
 * (progress or steps that fall within an epoch, ...): nothing changes then. No
 * event: reports have a list of their own. Progress that it does not name is
 * as before. */
enum firn_status book_report(struct book *book, struct live_job *job,
                             int64_t epoch,
                             const struct firn_trainer_report *report,
                             double now_s, struct firn_error *err);
/* What its trainer shall be told from now on. No event. */
enum firn_status book_orders(struct book *book, struct live_job *job,
                             const struct firn_orders *orders,
                             struct firn_error *err);
/* Its user wants it gone: is_ending, until a state says that it is over. */
enum firn_status book_cancel(struct book *book, struct live_job *job,
                             double now_s, const char *why,
                             struct firn_error *err);
/* PENDING again because of RETRY, one retry more, with `mem_gib` (0: as
 * before). */
enum firn_status book_retry(struct book *book, struct live_job *job,
                            double mem_gib, double now_s, const char *why,
                            struct firn_error *err);
enum firn_status book_hold(struct book *book, struct live_job *job, bool held,
                           double now_s, struct firn_error *err);
enum firn_status book_bounds(struct book *book, struct live_job *job,
                             int gpus_min, int gpus_max, double now_s,
                             struct firn_error *err);
enum firn_status book_priority(struct book *book, struct live_job *job,
                               int priority, double now_s,
                               struct firn_error *err);

#endif
