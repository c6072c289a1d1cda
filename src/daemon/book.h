/* book.h - the daemon's jobs in memory, and every change of one.
 *
 * The one place that changes a live job: each function here alters the copy in
 * memory, writes it to the store's open transaction and appends an event. So
 * memory, disk and history cannot tell different stories; when a commit fails,
 * the daemon stops rather than go on with a story of its own.
 *
 * Jobs that are over stay on disk and leave memory when there are more than
 * `keep` of them; looking one up reads it back.
 */
#ifndef DAEMON_BOOK_H
#define DAEMON_BOOK_H
#include "daemon/livejob.h"
#include "daemon/store.h"

struct book;

/* Told of every event, for streams; its memory is borrowed. */
typedef void book_listener(void *arg, const struct store_event *event);

enum firn_status book_open(struct book **out, struct store *store,
                           struct firn_error *err);
void book_close(struct book *book);
void book_listen(struct book *book, book_listener *listener, void *arg);

/* A new job from an ask, which is given away on FIRN_OK; PENDING, NEW. The same
 * user's same request id gives the job it made before, and *is_new false. */
enum firn_status book_submit(struct book *book, struct live_ask *ask,
                             const char *text, const char *request,
                             double now_s, struct live_job **out, bool *is_new,
                             struct firn_error *err);

/* By id; NULL: none. Borrowed until the next call that changes the book. */
struct live_job *book_job(struct book *book, firn_job_id id);
/* By number, name, or unique beginning of a name; the newest of that name
 * first. FIRN_ENOENT, FIRN_EINVAL (several: names them). */
enum firn_status book_find(struct book *book, const char *word,
                           struct live_job **out, struct firn_error *err);
/* The jobs in memory by rising id. */
size_t book_count(const struct book *book);
struct live_job *book_at(struct book *book, size_t i);
/* -1: no job has this token. */
firn_job_id book_token(const struct book *book, const char *token);

/* Changes; each says why in a sentence that becomes the event's text. */
enum firn_status book_state(struct book *book, struct live_job *job,
                            enum live_state state, enum live_reason reason,
                            double now_s, const char *why,
                            struct firn_error *err);
/* The next start; on disk when it returns. */
enum firn_status book_next_epoch(struct book *book, struct live_job *job,
                                 int64_t *epoch, struct firn_error *err);
enum firn_status book_epoch_ended(struct book *book, struct live_job *job,
                                  const struct store_epoch *epoch,
                                  struct firn_error *err);
/* What it holds now, as text. */
enum firn_status book_held(struct book *book, struct live_job *job,
                           const char *held, struct firn_error *err);
/* A trainer's word; FIRN_EINVAL for an old epoch or a number that cannot be
 * (progress that falls, ...): nothing changes then. */
enum firn_status book_report(struct book *book, struct live_job *job,
                             int64_t epoch,
                             const struct firn_trainer_report *report,
                             double now_s, struct firn_error *err);
enum firn_status book_hold(struct book *book, struct live_job *job, bool held,
                           double now_s, struct firn_error *err);
enum firn_status book_bounds(struct book *book, struct live_job *job,
                             int gpus_min, int gpus_max, double now_s,
                             struct firn_error *err);
enum firn_status book_priority(struct book *book, struct live_job *job,
                               int priority, double now_s,
                               struct firn_error *err);

#endif
