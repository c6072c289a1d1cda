/* reporter.c - reports sent beside training, orders back.
 *
 *   say() ──► queue (at most 16) ──► sender thread ──► POST ──► orders
 *
 * Training calls say() and orders(); both only hold a lock for as long as a
 * copy takes. The sender alone waits for the network. It sends the oldest
 * report first. When the scheduler is away (no answer, an unreadable answer, a
 * status that may pass) the report goes back into the queue, all but the newest
 * of each kind are dropped and counted, and the next try comes after a pause
 * that doubles up to pause_max_s, shortened at random by up to half so that a
 * thousand trainers do not return at one moment. A report that the scheduler
 * refuses for good (another 4xx) is dropped: it would block all behind it.
 *
 * Closing waits longer for a scheduler that is slow than for one that is away:
 * the last report says how the job ended, and the newest of each kind are what
 * is sent when half of the time is over.
 *
 * Orders are merged field by field: a field that a reply does not mention keeps
 * its value. A scheduler withdraws a stop by sending stop: 0.
 *
 * Invariants:
 * (1) `lock` guards everything from `queue` on; it is never held across a
 *     system call that can wait;
 * (2) memory is bounded: 16 reports of at most FIRN_MESSAGE_LAYERS layers, one
 *     text, one reply;
 * (3) nsent + ndropped + reports in the queue or under way = calls of say();
 * (4) a reply changes orders only when it is 2xx and whole and reads as orders.
 *
 * Signals: the sender blocks all of them, so handlers of the host program run
 * in threads of the host program. After fork() the child has no sender: there
 * say() fails, orders() is empty and close() does nothing, without touching a
 * lock that may have been held at the moment of the fork.
 */
#include "base/rng.h"
#include "base/str.h"
#include "train/httppost.h"
#include "train/reportqueue.h"
#include "train/stopsignal.h"
#include <firn/report.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double pause_first_s = 0.25;
static const double pause_default_s = 30;
static const double closing_pause_s = 0.05;
static const double closing_away = 0.2; /* of the time, for one that is away */

struct firn_reporter {
    pid_t pid;
    bool catches, has_thread;
    unsigned signals_before;
    double pause_max_s;
    struct firn_post *post; /* NULL: nothing is sent */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;

    struct firn_reportqueue queue; /* (1) from here */
    struct firn_orders heard;
    uint64_t nsent, ndropped, nfailed;
    bool away, closing;
    double closing_thin_s, closing_away_s, closing_until_s;

    struct rng rng; /* the sender's, from here */
    double pause_s, next_try_s;
    char *body;
    size_t body_max;
    struct firn_post_reply reply;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- the sender ----------------------------------------------------------- */

/* How long the exchange under way may go on: for as long as libcurl lets it,
 * unless the reporter is being closed. */
static double left_s(void *arg)
{
    struct firn_reporter *r = arg;
    pthread_mutex_lock(&r->lock);
    double left = r->closing ? r->closing_until_s - now_s() : 1e9;
    pthread_mutex_unlock(&r->lock);
    return left;
}

enum outcome { SENT, AWAY, REFUSED };

/* Statuses after which the same report may be taken later. */
static bool may_pass(long http)
{
    return http < 400 || http >= 500 || http == 401 || http == 403 ||
           http == 404 || http == 408 || http == 409 || http == 425 ||
           http == 429;
}

static enum outcome judge(const struct firn_post_reply *reply,
                          struct firn_orders *orders)
{
    *orders = firn_orders_none();
    if (reply->http >= 200 && reply->http < 300) {
        if (reply->n == 0)
            return SENT;
        return firn_orders_read(orders, reply->text, reply->n, NULL) == FIRN_OK
                   ? SENT
                   : AWAY; /* (4): not the scheduler's answer */
    }
    return may_pass(reply->http) ? AWAY : REFUSED;
}

static enum outcome send_one(struct firn_reporter *r,
                             const struct firn_reportitem *item,
                             struct firn_orders *orders)
{
    size_t n = firn_trainer_report_write(r->body, r->body_max, &item->report);
    if (n >= r->body_max) {
        char *body = realloc(r->body, n + 1);
        if (body == NULL)
            return AWAY;
        r->body = body;
        r->body_max = n + 1;
        firn_trainer_report_write(r->body, r->body_max, &item->report);
    }
    firn_post_send(r->post, r->body, n, &r->reply, left_s, r);
    return judge(&r->reply, orders);
}

static void merge_word(int *heard, int word)
{
    if (word >= 0)
        *heard = word;
}

/* With the lock: handles the result of sending this item. */
static void settle(struct firn_reporter *r, struct firn_reportitem *item,
                   enum outcome outcome, const struct firn_orders *orders)
{
    r->away = outcome == AWAY;
    if (outcome == AWAY) {
        r->nfailed++;
        r->ndropped += firn_reportqueue_back(&r->queue, item);
        r->ndropped += firn_reportqueue_thin(&r->queue);
        r->pause_s = fmin(fmax(2 * r->pause_s, pause_first_s), r->pause_max_s);
        r->next_try_s = now_s() + r->pause_s * (1 - 0.5 * rng_unit(&r->rng));
        r->closing_until_s =
            fmin(r->closing_until_s, now_s() + r->closing_away_s);
        return;
    }
    r->pause_s = 0;
    r->next_try_s = 0;
    firn_reportitem_release(item);
    if (outcome == REFUSED) {
        r->nfailed++;
        r->ndropped++;
        return;
    }
    r->nsent++;
    merge_word(&r->heard.nfrozen, orders->nfrozen);
    merge_word(&r->heard.passes, orders->passes);
    merge_word(&r->heard.stop, orders->stop);
    merge_word(&r->heard.batch, orders->batch);
}

/* With the lock: waits until a report is to be sent. False: the reporter is
 * closing. */
static bool wait_for_work(struct firn_reporter *r)
{
    for (;;) {
        double now = now_s();
        if (r->closing && (r->queue.n == 0 || now >= r->closing_until_s))
            return false;
        if (r->closing && now >= r->closing_thin_s)
            r->ndropped += firn_reportqueue_thin(&r->queue);
        double next_s = r->next_try_s;
        if (r->closing)
            next_s =
                fmin(next_s, fmin(now + closing_pause_s, r->closing_until_s));
        if (r->queue.n == 0) {
            pthread_cond_wait(&r->wake, &r->lock);
        } else if (now < r->next_try_s) {
            struct timespec until = {.tv_sec = (time_t)next_s};
            until.tv_nsec = (long)((next_s - floor(next_s)) * 1e9);
            pthread_cond_timedwait(&r->wake, &r->lock, &until);
            if (r->closing)
                r->next_try_s = fmin(r->next_try_s, next_s);
        } else {
            return true;
        }
    }
}

static void *run(void *arg)
{
    struct firn_reporter *r = arg;
    pthread_mutex_lock(&r->lock);
    while (wait_for_work(r)) {
        struct firn_reportitem item = firn_reportqueue_take(&r->queue);
        struct firn_orders orders;
        pthread_mutex_unlock(&r->lock);
        enum outcome outcome = send_one(r, &item, &orders);
        pthread_mutex_lock(&r->lock);
        settle(r, &item, outcome, &orders);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* --- opened and closed ---------------------------------------------------- */

/* The given value, else the environment's; NULL: neither, or empty. */
static const char *setting(const char *given, const char *name)
{
    const char *text = given != NULL ? given : getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/* FIRN_EPOCH is the name that older schedulers set. */
static enum firn_status find_attempt(int64_t given, int64_t *attempt,
                                     struct firn_error *err)
{
    const char *text = setting(NULL, "FIRN_ATTEMPT");
    const char *name = text != NULL ? "FIRN_ATTEMPT" : "FIRN_EPOCH";
    long value = 0;
    if (text == NULL)
        text = setting(NULL, name);
    if (given < 0 && text != NULL && !str_int(text, 0, 1L << 30, &value))
        return firn_fail(err, FIRN_EINVAL, "%s '%s' is not a whole number",
                         name, text);
    *attempt = given >= 0 ? given : value;
    return FIRN_OK;
}

static enum firn_status open_post(struct firn_reporter *r,
                                  const struct firn_reporter_config *c,
                                  struct firn_error *err)
{
    struct firn_post_config post = {.url = setting(c->url, "FIRN_URL"),
                                    .job = setting(c->job, "FIRN_JOB"),
                                    .token = setting(c->token, "FIRN_TOKEN")};
    if (post.url == NULL)
        return FIRN_OK;
    FIRN_TRY(find_attempt(c->attempt, &post.attempt, err));
    post.timeout_s = fmin(fmax(4 * r->pause_max_s, 1), 10);
    return firn_post_open(&r->post, &post, err);
}

static enum firn_status start_thread(struct firn_reporter *r,
                                     struct firn_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    r->has_thread = rc == 0;
    if (rc != 0)
        return firn_fail(err, FIRN_EIO, "no thread to send reports: %s",
                         strerror(rc));
    return FIRN_OK;
}

static enum firn_status init_sync(struct firn_reporter *r,
                                  struct firn_error *err)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0 ||
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&r->wake, &attr) != 0)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a reporter");
    pthread_condattr_destroy(&attr);
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        pthread_cond_destroy(&r->wake);
        return firn_fail(err, FIRN_ENOMEM, "no memory for a reporter");
    }
    return FIRN_OK;
}

static void let_go(struct firn_reporter *r)
{
    if (r->catches)
        firn_stopsignal_release();
    firn_post_close(r->post);
    firn_reportqueue_release(&r->queue);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r->body);
    free(r);
}

static enum firn_status start(struct firn_reporter *r,
                              const struct firn_reporter_config *c,
                              struct firn_error *err)
{
    FIRN_TRY(open_post(r, c, err));
    r->signals_before = firn_stopsignal_count();
    if (c->catch_signal) {
        FIRN_TRY(firn_stopsignal_catch(err));
        r->catches = true;
    }
    if (r->post != NULL && firn_post_possible())
        return start_thread(r, err);
    return FIRN_OK;
}

enum firn_status firn_reporter_open(struct firn_reporter **out,
                                    const struct firn_reporter_config *config,
                                    struct firn_error *err)
{
    static const struct firn_reporter_config by_environment = {
        .attempt = -1, .catch_signal = true};
    const struct firn_reporter_config *c =
        config != NULL ? config : &by_environment;
    if (!isfinite(c->pause_max_s) || c->pause_max_s < 0)
        return firn_fail(err, FIRN_EINVAL, "the longest pause is %g s",
                         c->pause_max_s);
    struct firn_reporter *r = calloc(1, sizeof *r);
    if (r == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a reporter");
    if (init_sync(r, err) != FIRN_OK) {
        free(r);
        return FIRN_ENOMEM;
    }
    r->pid = getpid();
    r->heard = firn_orders_none();
    r->pause_max_s = c->pause_max_s > 0 ? c->pause_max_s : pause_default_s;
    rng_seed(&r->rng, (uint64_t)r->pid ^ (uint64_t)(now_s() * 1e6));
    enum firn_status status = start(r, c, err);
    if (status == FIRN_OK)
        *out = r;
    else
        let_go(r);
    return status;
}

/* With the lock. */
static void begin_closing(struct firn_reporter *r, double wait_s)
{
    double now = now_s();
    r->closing = true;
    r->closing_away_s = closing_away * wait_s;
    r->closing_thin_s = now + wait_s / 2;
    r->closing_until_s = now + (r->away ? r->closing_away_s : wait_s);
}

void firn_reporter_close(struct firn_reporter *reporter, double wait_s)
{
    struct firn_reporter *r = reporter;
    if (r == NULL || r->pid != getpid())
        return;
    if (r->has_thread) {
        pthread_mutex_lock(&r->lock);
        begin_closing(r, wait_s > 0 ? fmin(wait_s, 1e9) : 0);
        pthread_cond_signal(&r->wake);
        pthread_mutex_unlock(&r->lock);
        firn_post_wake(r->post);
        pthread_join(r->thread, NULL);
    }
    let_go(r);
}

/* --- used ----------------------------------------------------------------- */

static enum firn_status check_report(const struct firn_trainer_report *report,
                                     struct firn_error *err)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"progress", report->progress},
                   {"effective", report->effective},
                   {"step_s", report->step_s},
                   {"loss", report->loss},
                   {"metric", report->metric},
                   {"memory_mib", report->memory_mib},
                   {"utilisation", report->utilisation},
                   {"psi", report->psi}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].value))
            return firn_fail(err, FIRN_EINVAL, "the report's %s is %g",
                             numbers[i].name, numbers[i].value);
    for (int i = 0; i < FIRN_STEP_NPARTS; i++)
        if (!isfinite(report->part_s[i]))
            return firn_fail(err, FIRN_EINVAL, "the report's %s time is %g s",
                             firn_step_part_name((enum firn_step_part)i),
                             report->part_s[i]);
    if (report->variance == NULL)
        return FIRN_OK;
    if (report->nlayers > FIRN_MESSAGE_LAYERS)
        return firn_fail(err, FIRN_EINVAL,
                         "a report of %zu layers; the limit is %d",
                         report->nlayers, FIRN_MESSAGE_LAYERS);
    for (size_t i = 0; i < report->nlayers; i++)
        if (!isfinite(report->variance[i]))
            return firn_fail(err, FIRN_EINVAL,
                             "the report's variance of layer %zu is %g", i + 1,
                             report->variance[i]);
    return FIRN_OK;
}

enum firn_status firn_reporter_say(struct firn_reporter *reporter,
                                   const struct firn_trainer_report *report,
                                   struct firn_error *err)
{
    struct firn_reporter *r = reporter;
    struct firn_reportitem item;
    if (r->pid != getpid())
        return firn_fail(err, FIRN_EINVAL,
                         "the reporter belongs to process %ld, which forked "
                         "this one",
                         (long)r->pid);
    FIRN_TRY(check_report(report, err));
    if (!r->has_thread) {
        pthread_mutex_lock(&r->lock);
        r->ndropped++;
        pthread_mutex_unlock(&r->lock);
        return FIRN_OK;
    }
    FIRN_TRY(firn_reportitem_init(&item, report, err));
    pthread_mutex_lock(&r->lock);
    r->ndropped += firn_reportqueue_add(&r->queue, &item);
    if (r->away)
        r->ndropped += firn_reportqueue_thin(&r->queue);
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    return FIRN_OK;
}

struct firn_orders firn_reporter_orders(struct firn_reporter *reporter)
{
    struct firn_orders orders = firn_orders_none();
    if (reporter->pid != getpid())
        return orders;
    pthread_mutex_lock(&reporter->lock);
    orders = reporter->heard;
    pthread_mutex_unlock(&reporter->lock);
    if (reporter->catches &&
        firn_stopsignal_count() != reporter->signals_before)
        orders.stop = 1;
    return orders;
}

void firn_reporter_counts(struct firn_reporter *reporter, uint64_t *nsent,
                          uint64_t *ndropped, uint64_t *nfailed)
{
    bool ours = reporter->pid == getpid();
    if (ours)
        pthread_mutex_lock(&reporter->lock);
    *nsent = reporter->nsent;
    *ndropped = reporter->ndropped;
    *nfailed = reporter->nfailed;
    if (ours)
        pthread_mutex_unlock(&reporter->lock);
}

bool firn_reporter_can_send(void)
{
    return firn_post_possible();
}
