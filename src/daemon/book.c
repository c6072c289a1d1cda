/* book.c - the jobs, and every change of one.
 *
 * (1) A change is made in memory, written to the open transaction and recorded
 * as an event, in this order; it is durable when the caller commits. (2)
 * Reports and requests are checked before anything changes. (3) When the store
 * has rolled back, memory is ahead of the disk: from then on every change is
 * refused. (4) The number of an attempt is committed before a process gets it;
 * one commit serves all attempts that begin together. (5) While the book is
 * paused, the list of jobs and the jobs in it are only read: new jobs are kept
 * in a second list until it is resumed.
 *
 * Cost: a change is one row written and one event; finding a job by id is a
 * binary search; a job that leaves or enters memory moves the pointers above
 * it.
 */
#include "daemon/book.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/bookwork.h"
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REQUEST_MAX = 128 };

/* --- memory -------------------------------------------------------------- */

static void insert(struct book *book, struct live_job *job)
{
    size_t i = book_place(book, job->id);
    vec_reserve(&book->jobs, book->jobs.n + 1);
    memmove(&book->jobs.at[i + 1], &book->jobs.at[i],
            (book->jobs.n - i) * sizeof *book->jobs.at);
    book->jobs.at[i] = job;
    book->jobs.n++;
}

void book_put(struct book *book, struct live_job *job)
{
    if (book->is_paused)
        vec_add(&book->arrived, job); /* (5) */
    else
        insert(book, job);
    book_token_add(book, job);
    if (live_state_is_over(job->state))
        vec_add(&book->over, job->id);
    else
        book_limit_began(book, job);
}

/* Drops the jobs from memory that finished first. */
static void leave(struct book *book)
{
    if (book->is_paused)
        return; /* (5) */
    while (book->over.n - book->over_first > book->keep)
        book_forget(book, book->over.at[book->over_first++]);
    if (2 * book->over_first > book->over.n) {
        book->over.n -= book->over_first;
        memmove(book->over.at, book->over.at + book->over_first,
                book->over.n * sizeof *book->over.at);
        book->over_first = 0;
    }
}

void book_keep(struct book *book, size_t keep)
{
    book->keep = keep;
}

size_t book_count(const struct book *book)
{
    return book->jobs.n;
}

struct live_job *book_at(struct book *book, size_t i)
{
    return book->jobs.at[i];
}

void book_pause(struct book *book)
{
    book->is_paused = true;
}

void book_resume(struct book *book)
{
    book->is_paused = false;
    for (size_t i = 0; i < book->arrived.n; i++)
        insert(book, book->arrived.at[i]);
    book->arrived.n = 0;
}

/* --- opening ------------------------------------------------------------- */

struct job_list {
    struct live_job **at;
    size_t n, cap;
};

/* Living jobs come by rising id, finished ones by falling id. */
static bool take(void *arg, struct live_job *job)
{
    struct job_list *list = arg;
    vec_add(list, job);
    return true;
}

/* Merges finished jobs, by falling id, into the living, by rising id: from the
 * end, so that every pointer moves once. */
static void merge(struct book *book, const struct job_list *over)
{
    size_t from = book->jobs.n, to = from + over->n;
    vec_reserve(&book->jobs, to);
    book->jobs.n = to;
    for (size_t i = 0; i < over->n; i++) {
        while (from > 0 && book->jobs.at[from - 1]->id > over->at[i]->id)
            book->jobs.at[--to] = book->jobs.at[--from];
        book->jobs.at[--to] = over->at[i];
    }
    for (size_t i = over->n; i > 0; i--) /* the newest leave memory last */
        vec_add(&book->over, over->at[i - 1]->id);
}

static enum firn_status load(struct book *book, size_t *nbad,
                             struct firn_error *err)
{
    struct job_list living = {0}, over = {0};
    size_t nbad_over = 0;
    enum firn_status status =
        store_each_job(book->store, false, take, &living, nbad, err);
    book->jobs.at = living.at;
    book->jobs.n = living.n;
    book->jobs.cap = living.cap;
    for (size_t i = 0; i < living.n; i++)
        book_limit_began(book, living.at[i]);
    if (status == FIRN_OK)
        status = store_each_over(book->store, book->keep, take, &over,
                                 &nbad_over, err);
    merge(book, &over);
    vec_release(&over);
    book_tokens(book);
    *nbad += nbad_over;
    return status;
}

enum firn_status book_open(struct book **out, struct store *store,
                           struct firn_error *err)
{
    size_t nbad = 0;
    if (sodium_init() < 0)
        return firn_fail(err, FIRN_EIO, "the system gives no random numbers");
    struct book *book = mem_new(1, sizeof *book);
    book->store = store;
    book->rollbacks = store_rollbacks(store);
    book->keep = BOOK_KEEP;
    randombytes_buf(book->key, sizeof book->key);
    enum firn_status status = load(book, &nbad, err);
    if (status != FIRN_OK) {
        book_close(book);
        return status;
    }
    if (nbad > 0)
        log_warn("%zu jobs on disk cannot be understood", nbad);
    *out = book;
    return FIRN_OK;
}

void book_close(struct book *book)
{
    if (book == NULL)
        return;
    for (size_t i = 0; i < book->jobs.n; i++)
        live_job_free(book->jobs.at[i]);
    for (size_t i = 0; i < book->arrived.n; i++)
        live_job_free(book->arrived.at[i]);
    vec_release(&book->jobs);
    vec_release(&book->arrived);
    vec_release(&book->over);
    book_limit_release(book);
    mem_free(book->cells);
    sodium_memzero(book->key, sizeof book->key);
    mem_free(book);
}

void book_listen(struct book *book, book_listener *listener, void *arg)
{
    book->listener = listener;
    book->listener_arg = arg;
}

/* --- what every change does ---------------------------------------------- */

static enum firn_status in_step(const struct book *book, struct firn_error *err)
{
    if (book->rollbacks == store_rollbacks(book->store))
        return FIRN_OK;
    return firn_fail(err, FIRN_EIO,
                     "changes could not be written and were taken back; what "
                     "is in memory is not what is on disk");
}

enum firn_status book_may_change(const struct book *book,
                                 const struct live_job *job,
                                 struct firn_error *err)
{
    if (live_state_is_over(job->state))
        return firn_fail(err, FIRN_EINVAL, "job %d (%s) is over: it %s",
                         job->id, job->ask.name,
                         job->state == LIVE_SUCCEEDED   ? "succeeded"
                         : job->state == LIVE_FAILED    ? "failed"
                         : job->state == LIVE_CANCELLED ? "was cancelled"
                                                        : "was lost");
    return in_step(book, err);
}

bool book_wrote(struct book *book, enum firn_status status,
                const struct firn_error *err)
{
    if (status == FIRN_OK)
        return true;
    if (status != FIRN_EUNSAVED && book->broken.status == FIRN_OK) {
        book->broken = *err;
        book->broken.status = status;
    }
    return false;
}

const struct firn_error *book_broken(const struct book *book)
{
    return &book->broken;
}

void book_caller(struct book *book, const char *caller)
{
    str_copy(book->caller, sizeof book->caller, caller);
}

struct live_stop book_because(struct book *book, struct live_stop stop)
{
    struct live_stop before = book->because;
    book->because = stop;
    return before;
}

static enum firn_status tell(struct book *book, const struct live_job *job,
                             double now_s, const char *kind, const char *text,
                             struct firn_error *err)
{
    struct store_event event = {.at_s = now_s,
                                .job = job != NULL ? job->id : FIRN_NO_JOB,
                                .kind = kind,
                                .text = text,
                                .caller = book->caller,
                                .stop = book->because};
    FIRN_TRY(store_add_event(book->store, &event, err));
    if (book->listener != NULL)
        book->listener(book->listener_arg, &event);
    return FIRN_OK;
}

enum firn_status book_tell(struct book *book, double now_s, const char *kind,
                           const char *text, struct firn_error *err)
{
    FIRN_TRY(in_step(book, err));
    return tell(book, NULL, now_s, kind, text, err);
}

enum firn_status book_change(struct book *book, const struct live_job *job,
                             double now_s, const char *kind, const char *text,
                             struct firn_error *err)
{
    FIRN_TRY(store_put_job(book->store, job, err));
    return tell(book, job, now_s, kind, text, err);
}

/* --- submitting ---------------------------------------------------------- */

static enum firn_status check_request(const char *request,
                                      struct firn_error *err)
{
    size_t n = strnlen(request, REQUEST_MAX + 1);
    bool is_good = n <= REQUEST_MAX;
    for (size_t i = 0; i < n; i++)
        is_good = is_good && request[i] > ' ' && request[i] < 0x7f;
    return is_good ? FIRN_OK
                   : firn_fail(err, FIRN_EINVAL,
                               "a request id is 1 to %d printable ASCII "
                               "letters without blanks",
                               REQUEST_MAX);
}

/* From here on no text of the ask is NULL, and it has a name. */
static void complete(struct live_ask *ask, firn_job_id id)
{
    live_ask_complete(ask);
    if (ask->name[0] != '\0')
        return;
    struct firn_buf name = {0};
    buf_printf(&name, "job-%d", id);
    mem_free(ask->name);
    ask->name = name.at;
}

static struct live_job *make_job(struct book *book, struct live_ask *ask,
                                 const char *text, const char *request,
                                 double now_s)
{
    struct live_job *job = mem_new(1, sizeof *job);
    job->id = store_next_id(book->store);
    job->ask = *ask;
    complete(&job->ask, job->id);
    job->text = mem_strdup(text);
    job->request = mem_strdup(request);
    book_token_make(job->token);
    job->submitted_s = now_s;
    job->state = LIVE_PENDING;
    job->reason = LIVE_BECAUSE_NEW;
    str_copy(job->why, sizeof job->why, "no round has seen it yet");
    job->held = mem_strdup("-");
    job->how = (struct firn_how)FIRN_HOW_AS_SUBMITTED;
    job->last = firn_trainer_report_unknown();
    job->orders = firn_orders_none();
    return job;
}

/* The job that the same request made before; NULL: none. */
static enum firn_status made_before(struct book *book,
                                    const struct live_ask *ask,
                                    const char *request, struct live_job **out,
                                    struct firn_error *err)
{
    firn_job_id id = FIRN_NO_JOB;
    *out = NULL;
    if (request[0] == '\0')
        return FIRN_OK;
    FIRN_TRY(store_find_request(book->store, ask->user != NULL ? ask->user : "",
                                request, &id, err));
    if (id == FIRN_NO_JOB)
        return FIRN_OK;
    *out = book_job(book, id);
    if (*out == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "this request made job %d before, of which what is "
                         "kept cannot be understood",
                         id);
    return FIRN_OK;
}

enum firn_status book_submit(struct book *book, struct live_ask *ask,
                             const char *text, const char *request,
                             double now_s, struct live_job **out, bool *is_new,
                             struct firn_error *err)
{
    struct live_job *job = NULL;
    request = request != NULL ? request : "";
    FIRN_TRY(in_step(book, err));
    FIRN_TRY(check_request(request, err));
    leave(book);
    FIRN_TRY(made_before(book, ask, request, &job, err));
    *is_new = job == NULL;
    if (job != NULL) {
        live_ask_release(ask);
        *out = job;
        return FIRN_OK;
    }
    FIRN_TRY(book_room(book, ask, err));
    job = make_job(book, ask, text != NULL ? text : "", request, now_s);
    struct firn_buf said = {0};
    buf_printf(&said, "%s was submitted by %s", job->ask.name,
               job->ask.user[0] != '\0' ? job->ask.user : "an unknown user");
    enum firn_status status = store_add_job(book->store, job, err);
    if (status == FIRN_OK)
        status = tell(book, job, now_s, "submitted", said.at, err);
    buf_release(&said);
    if (status != FIRN_OK) {
        *ask = job->ask; /* stays the caller's */
        job->ask = (struct live_ask){0};
        live_job_free(job);
        return status;
    }
    *ask = (struct live_ask){0};
    book_put(book, job);
    *out = job;
    return FIRN_OK;
}

/* --- states -------------------------------------------------------------- */

enum firn_status book_state(struct book *book, struct live_job *job,
                            enum live_state state, enum live_reason reason,
                            double now_s, const char *why,
                            struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (live_state_is_over(state))
        FIRN_TRY(book_close_all(book, job, state, now_s, err));
    if (job->is_ending && reason == LIVE_BECAUSE_USER && job->end_why != NULL)
        why = job->end_why;
    bool is_other = job->state != state;
    bool is_same = !is_other && job->reason == reason;
    job->state = state;
    job->reason = reason;
    str_copy(job->why, sizeof job->why, why);
    if (is_same)
        return FIRN_OK;
    if (state == LIVE_RUNNING && !(job->started_s > 0))
        job->started_s = fmax(now_s, job->submitted_s);
    if (live_state_is_over(state)) {
        job->ended_s = fmax(now_s, fmax(job->submitted_s, job->started_s));
        job->is_ending = false;
        vec_add(&book->over, job->id);
        book_limit_ended(book, job);
    }
    FIRN_TRY(store_put_job(book->store, job, err));
    return is_other
               ? tell(book, job, now_s, live_state_name(state), job->why, err)
               : FIRN_OK;
}

void book_note(struct live_job *job, enum live_reason reason, const char *why)
{
    if (job->state != LIVE_PENDING)
        return;
    job->reason = reason;
    str_copy(job->why, sizeof job->why, why);
}

enum firn_status book_cancel(struct book *book, struct live_job *job,
                             double now_s, const char *why,
                             struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (job->is_ending)
        return FIRN_OK;
    job->is_ending = true;
    mem_free(job->end_why);
    job->end_why = mem_strdup(why);
    return book_change(book, job, now_s, "cancelling", why, err);
}

enum firn_status book_retry(struct book *book, struct live_job *job,
                            double mem_gib, double now_s, const char *why,
                            struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    job->state = LIVE_PENDING;
    job->reason = LIVE_BECAUSE_RETRY;
    job->nretries++;
    if (mem_gib > 0)
        job->ask.mem_gib = mem_gib;
    str_copy(job->why, sizeof job->why, why);
    return book_change(book, job, now_s, "retry", job->why, err);
}

/* --- attempts ------------------------------------------------------------ */

void book_clock(struct book *book, book_now *now_s, void *arg)
{
    book->now_s = now_s;
    book->now_arg = arg;
}

static double moment_s(const struct book *book)
{
    struct timespec now;
    if (book->now_s != NULL)
        return book->now_s(book->now_arg);
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum firn_status book_open_attempt(struct book *book, struct live_job *job,
                                   int64_t *attempt, struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    char text[64];
    struct store_attempt start = {.job = job->id,
                                  .number = job->attempt + 1,
                                  .started_s = moment_s(book),
                                  .end = -1,
                                  .held = job->held};
    job->attempt = start.number;
    job->stop = (struct live_stop){LIVE_CAUSE_NONE, FIRN_NO_JOB};
    job->is_ran_known = false;
    snprintf(text, sizeof text, "attempt %lld", (long long)start.number);
    FIRN_TRY(store_put_attempt(book->store, &start, err));
    FIRN_TRY(book_change(book, job, start.started_s, "attempt", text, err));
    *attempt = start.number;
    return FIRN_OK;
}

enum firn_status book_keep_attempts(struct book *book, struct firn_error *err)
{
    failpoint("book.attempt.before");
    FIRN_TRY(store_commit(book->store, err));
    failpoint("book.attempt.after");
    return FIRN_OK;
}

enum firn_status book_next_attempt(struct book *book, struct live_job *job,
                                   int64_t *attempt, struct firn_error *err)
{
    int64_t next = 0;
    FIRN_TRY(book_open_attempt(book, job, &next, err));
    FIRN_TRY(book_keep_attempts(book, err));
    *attempt = next;
    return FIRN_OK;
}

enum firn_status book_attempt_ended(struct book *book, struct live_job *job,
                                    const struct store_attempt *attempt,
                                    struct firn_error *err)
{
    static const char *const ends[] = {"done",   "checkpointed",  "failed",
                                       "killed", "out of memory", "lost"};
    char text[128];
    FIRN_TRY(in_step(book, err));
    if (attempt->job != job->id || attempt->number < 1 ||
        attempt->number > job->attempt)
        return firn_fail(err, FIRN_EINVAL, "job %d has had no attempt %lld",
                         job->id, (long long)attempt->number);
    bool is_named =
        attempt->end >= 0 && (size_t)attempt->end < sizeof ends / sizeof *ends;
    FIRN_TRY(store_put_attempt(book->store, attempt, err));
    job->is_ran_known = false;
    if (attempt->number == job->attempt)
        job->exit_status = attempt->exit_status;
    snprintf(text, sizeof text, "attempt %lld ended: %s, exit status %d",
             (long long)attempt->number,
             is_named ? ends[attempt->end] : "not finished",
             attempt->exit_status);
    return book_change(book, job, attempt->ended_s, "ended", text, err);
}

enum firn_status book_attempt_times(struct book *book,
                                    const struct store_attempt *times,
                                    const char *user, struct firn_error *err)
{
    struct live_job *job = book_job(book, times->job);
    FIRN_TRY(in_step(book, err));
    if (job != NULL)
        job->is_ran_known = false;
    return store_time_attempt(book->store, times, user, err);
}

enum firn_status book_held(struct book *book, struct live_job *job,
                           const char *held, struct firn_error *err)
{
    FIRN_TRY(in_step(book, err));
    if (strcmp(held, "-") == 0)
        job->how = (struct firn_how)FIRN_HOW_AS_SUBMITTED;
    if (strcmp(job->held, held) == 0)
        return FIRN_OK;
    FIRN_TRY(store_resize_attempt(book->store, job->id, job->attempt,
                                  moment_s(book), held, err));
    return book_held_next(book, job, held, err);
}

enum firn_status book_held_next(struct book *book, struct live_job *job,
                                const char *held, struct firn_error *err)
{
    FIRN_TRY(in_step(book, err));
    if (strcmp(job->held, held) == 0)
        return FIRN_OK;
    mem_free(job->held);
    job->held = mem_strdup(held);
    return book_change(book, job, moment_s(book), "gpus", job->held, err);
}

enum firn_status book_say(struct book *book, struct live_job *job, double now_s,
                          const char *kind, const char *text,
                          struct firn_error *err)
{
    FIRN_TRY(in_step(book, err));
    return book_change(book, job, now_s, kind, text, err);
}

enum firn_status book_resized(struct book *book, struct live_job *job,
                              const char *text, struct firn_error *err)
{
    FIRN_TRY(in_step(book, err));
    return book_change(book, job, moment_s(book), "resized", text, err);
}

enum firn_status book_how(struct book *book, struct live_job *job,
                          const struct firn_how *how, struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (firn_how_equal(&job->how, how))
        return FIRN_OK;
    job->how = *how;
    return store_put_job(book->store, job, err);
}

enum firn_status book_type(struct book *book, struct live_job *job,
                           const char *type, struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (strcmp(job->gpu_type, type) == 0)
        return FIRN_OK;
    str_copy(job->gpu_type, sizeof job->gpu_type, type);
    return store_put_job(book->store, job, err);
}
