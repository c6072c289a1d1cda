/* loop.c - the daemon from its first file to its last commit.
 *
 * Opening: the state, the engine, the policy, what ran before, and last the
 * socket, so that no request is answered before the state is complete.
 *
 * (1) What a turn changed is on disk before a change is acknowledged. (2) When
 * the disk takes no writes (it is full, it fails), the changes of the turn stay
 * pending in the store and the loop goes on: it notices ends, shows, cancels,
 * refuses new work, starts nothing, and commits when the disk can be written
 * again (store_redo.c has the argument). The processes of a cancelled job are
 * ended before the cancel is on disk: a firnd that is killed in between comes
 * back to a job that was ended, which harms less than one that cannot be ended
 * while it fills the disk. (3) When the state is damaged the loop ends: memory
 * and disk would tell different stories. Jobs go on meanwhile, and the next
 * start takes them over. (4) Time is the engine's, which never goes back.
 *
 * libuv only waits here: for the engine's descriptor, for the HTTP server's,
 * for signals and for the next moment at which something is due.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/str.h"
#include "core/llmjobs.h"
#include "daemon/announce.h"
#include "daemon/loopwork.h"
#include "daemon/notify.h"
#include "daemon/retain.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static const double TICK_S = 0.25, LONGEST_WAIT_S = 60;
/* A disk that fills while nothing happens is seen after so long. */
static const double LOOK_S = 5;

/* The engine's events that one turn takes in at most. */
enum { MOST_EVENTS = 10000 };

/* libmicrohttpd 0.9 watches a connection again that was answered late only
 * after some more runs, and its timeout does not say so: it is run often for a
 * while after each answer. */
static const double FLUSH_S = 0.1, FLUSH_EVERY_S = 0.001;

/* --- opening ------------------------------------------------------------- */

/* What earlier firnds learned of fine-tuning tasks. */
static void load_merges(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    enum firn_status status =
        store_get_meta(loop->store, "merges", &text, &err);
    if (status == FIRN_OK && text.n > 0)
        status = livemerge_load(loop->desk.merges,
                                (struct firn_bytes){text.at, text.n}, &err);
    if (status == FIRN_EDATA)
        log_warn("gains of fine-tuning tasks are learned anew: %s", err.text);
    buf_release(&text);
}

static enum firn_status open_round(struct loop *loop, struct firn_error *err)
{
    const struct firn_policy_def *policy = NULL;
    FIRN_TRY(loop_choose_policy(loop, &policy, err));
    loop_engine_init(loop);
    loop->desk.forecast = liveforecast_new(&loop->dock.cluster);
    liveforecast_first(loop->desk.forecast, loop->desk.first_id);
    struct firn_buf pairs = {0};
    struct firn_error none = {0};
    if (store_get_meta(loop->store, "bad-pairs", &pairs, &none) == FIRN_OK &&
        pairs.n > 0)
        liveforecast_load_pairs(loop->desk.forecast, pairs.at);
    buf_release(&pairs);
    loop_costs_open(loop);
    loop_memory_load(loop);
    loop->desk.merges = livemerge_new();
    load_merges(loop);
    FIRN_TRY(loop_shares_open(loop, err));
    enum firn_status status = loop_new_round(loop, policy, err);
    if (status != FIRN_OK && loop_unchoose(loop, err, &policy))
        status = loop_new_round(loop, policy, err);
    return status;
}

static enum firn_status open_http(struct loop *loop,
                                  const struct loop_setup *setup,
                                  struct firn_error *err)
{
    struct firn_buf path = {0};
    struct firn_error none = {0};
    buf_printf(&path, "%s/audit.log", setup->config->state);
    if (!setup->is_deaf && audit_open(&loop->audit, path.at, &none) != FIRN_OK)
        log_warn("there is no audit: %s", none.text);
    buf_release(&path);
    struct api_host host = loop_host(loop);
    FIRN_TRY(api_new(&loop->api, &host, err));
    if (setup->is_deaf)
        return FIRN_OK;
    struct http_config config = {.socket = setup->config->socket,
                                 .address = setup->config->listen,
                                 .token = setup->token,
                                 .group = setup->config->socket_group,
                                 .certificate = setup->certificate,
                                 .key = setup->key,
                                 .job_of_token = api_job_of_token,
                                 .user_of_token = api_user_of_token,
                                 .role_of_uid = api_role_of_uid,
                                 .session_of_token = api_session_of_token,
                                 .is_open = api_is_open,
                                 .handle = api_handle,
                                 .refused = api_count,
                                 .turned_away = api_turned_away,
                                 .arg = loop->api};
    FIRN_TRY(http_open(&loop->http, &config, err));
    if (config.address != NULL)
        log_info("listens on %s://%.*s:%d",
                 config.certificate != NULL ? "https" : "http",
                 (int)(strrchr(config.address, ':') - config.address),
                 config.address, http_port(loop->http));
    return config_url(setup->config, loop->dock.engine->is_remote,
                      http_port(loop->http), &loop->dock.url, err);
}

static double loop_clock(void *arg)
{
    return dock_now_s(&((struct loop *)arg)->dock);
}

static enum firn_status open_all(struct loop *loop,
                                 const struct loop_setup *setup,
                                 struct firn_error *err)
{
    char message[512] = "";
    double began_s = clock_elapsed_s();
    FIRN_TRY(store_open(&loop->store, setup->config->state, message,
                        sizeof message, err));
    if (message[0] != '\0')
        log_warn("%s", message);
    store_look(loop->store);
    loop->desk.first_id = store_first_id(loop->store);
    int nclosed = 0;
    FIRN_TRY(store_close_over(loop->store, &nclosed, err));
    if (nclosed > 0)
        log_warn("%d attempts of finished jobs had no end; they are closed as "
                 "lost",
                 nclosed);
    FIRN_TRY(book_open(&loop->book, loop->store, err));
    loop_limit_jobs(loop, setup->config);
    loop->dock.config = setup->config;
    loop->dock.store = loop->store;
    loop->dock.book = loop->desk.book = loop->book;
    loop->dock.log_mib = setup->config->keep.log_mib;
    struct firn_engine_host host = loop_engine_host(loop);
    FIRN_TRY(
        dock_open(&loop->dock, setup->engine, !setup->is_deaf, &host, err));
    foreign_open(&loop->desk);
    book_clock(loop->book, loop_clock, loop);
    loop->desk.history = livehistory_new();
    desk_span_recover(&loop->desk);
    FIRN_TRY(open_round(loop, err));
    FIRN_TRY(recover_jobs(loop, err));
    loop_after_recover(loop);
    FIRN_TRY(loop_nodes_begin(loop, err));
    enum firn_status status = store_commit(loop->store, err);
    if (status != FIRN_OK && status != FIRN_EUNSAVED)
        return status;
    loop->desk.saved_s = dock_now_s(&loop->dock);
    FIRN_TRY(open_http(loop, setup, err));
    metrics_set(loop->metrics, METRIC_START_S, 0, dock_now_s(&loop->dock));
    log_info("engine %s, policy %s, %d GPUs on %d nodes, %zu jobs; ready in "
             "%.3f s",
             loop->dock.engine->name, loop->desk.policy->name,
             loop->dock.cluster.ngpus, loop->dock.cluster.nnodes,
             book_count(loop->book), clock_elapsed_s() - began_s);
    return FIRN_OK;
}

enum firn_status loop_open(struct loop **out, const struct loop_setup *setup,
                           struct firn_error *err)
{
    struct loop *loop = mem_new(1, sizeof *loop);
    loop->config = loop->current = setup->config;
    loop->argc = setup->argc;
    loop->argv = setup->argv;
    loop->announce = announce_new();
    loop->desk.think_from = LOOP_THINK_FROM;
    loop->metrics = loop->desk.metrics = metrics_new();
    loop->desk.dock = &loop->dock;
    loop->desk.types_text = mem_new(LLMJOBS_TYPES_TEXT, 1);
    loop->desk.merge_key = mem_new(1, sizeof *loop->desk.merge_key);
    struct firn_error why = {0};
    enum firn_status status = open_all(loop, setup, &why);
    if (status != FIRN_OK) {
        loop->is_broken = true;
        loop_close(loop);
        return firn_fail(err, status, "%s", why.text);
    }
    *out = loop;
    return FIRN_OK;
}

void loop_close(struct loop *loop)
{
    struct firn_error err = {0};
    if (loop == NULL)
        return;
    if (loop->desk.round != NULL && !loop->is_broken &&
        book_broken(loop->book)->status == FIRN_OK) {
        loop_save_policy(loop, true);
        if (store_commit(loop->store, &err) != FIRN_OK)
            log_warn("at the end: %s", err.text);
    }
    http_close(loop->http);
    api_free(loop->api);
    audit_close(loop->audit);
    announce_free(loop->announce);
    round_free(loop->desk.round);
    foreseen_free(loop->foreseen);
    vec_release(&loop->ahead.told);
    desk_close(&loop->desk);
    dock_close(&loop->dock);
    retain_free(loop->retain);
    mem_free(loop->nodes);
    vec_release(&loop->waiting);
    config_release(&loop->reread);
    vec_release(&loop->shown);
    arena_release(&loop->shown_text);
    book_close(loop->book);
    store_close(loop->store);
    metrics_free(loop->metrics);
    mem_free(loop);
}

/* --- a turn -------------------------------------------------------------- */

/* What the disk has room for, and when to look or to write again. */
static void look_at_disk(struct loop *loop, double *next_s)
{
    double elapsed_s = clock_elapsed_s(), now_s = dock_now_s(&loop->dock);
    double look_s = store_look(loop->store);
    bool is_ample = store_room(loop->store) == ROOM_AMPLE;
    for (enum room r = 0; r < ROOM_N; r++)
        metrics_set(loop->metrics, METRIC_ROOM, (int)r,
                    store_room(loop->store) == r);
    *next_s = fmin(*next_s,
                   now_s + (is_ample ? LOOK_S : fmax(look_s - elapsed_s, 0)));
    if (store_is_stalled(loop->store))
        *next_s = fmin(*next_s,
                       now_s + fmax(store_retry_s(loop->store) - elapsed_s, 0));
}

enum firn_status loop_turn(struct loop *loop, double *next_s,
                           struct firn_error *err)
{
    struct firn_event event;
    struct firn_error failure = {0};
    struct turnwatch *watch = &loop->watch;
    turnwatch_begin(watch);
    if (loop->http != NULL)
        http_run(loop->http);
    turnwatch_part(watch, TURN_REQUESTS);
    double now_s = dock_now_s(&loop->dock);
    while (watch->nevents < MOST_EVENTS &&
           loop->dock.engine->next(loop->dock.engine_state, now_s, &event,
                                   &failure)) {
        loop_event(loop, &event);
        watch->nevents++;
    }
    if (failure.status != FIRN_OK)
        log_warn("engine %s: %s", loop->dock.engine->name, failure.text);
    turnwatch_part(watch, TURN_EVENTS);
    desk_span_look(&loop->desk, now_s);
    *next_s = loop_retry(loop, now_s);
    loop_after_look(loop, now_s);
    *next_s = fmin(*next_s, loop_limits_look(loop, now_s));
    if (watch->nevents == MOST_EVENTS)
        *next_s = now_s; /* the rest in the next turn */
    *next_s = fmin(*next_s, loop_decide(loop, now_s));
    *next_s = fmin(*next_s, loop_ahead(loop, now_s));
    loop_save_policy(loop, false);
    turnwatch_part(watch, TURN_DECISION);
    *next_s = fmin(*next_s, retain_turn(loop, now_s));
    enum firn_status status = loop_answer(loop, err);
    *next_s =
        fmin(*next_s, announce_turn(loop->announce,
                                    loop->current->notify_command, now_s));
    look_at_disk(loop, next_s);
    if (loop->http != NULL && now_s < loop->answered_s + FLUSH_S)
        *next_s = fmin(*next_s, now_s + FLUSH_EVERY_S);
    if (api_wants_tick(loop->api)) {
        api_tick(loop->api);
        *next_s = fmin(*next_s, now_s + TICK_S);
    }
    turnwatch_part(watch, TURN_ANSWERS);
    turnwatch_tell(watch, loop->metrics);
    return status; /* (3) */
}

/* --- waiting ------------------------------------------------------------- */

struct waiting {
    bool has_loop; /* `uv` is one */
    uv_loop_t uv;
    uv_poll_t engine, http;
    uv_timer_t timer;
    uv_signal_t terminate, interrupt, hang_up;
};

static void on_poll(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)status;
    (void)events;
}

static void on_timer(uv_timer_t *handle)
{
    (void)handle;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct loop *loop = handle->data;
    if (number == SIGHUP) {
        loop_reload(loop);
        return;
    }
    log_info("signal %d: jobs go on, the scheduler stops", number);
    loop_stop(loop);
}

void loop_stop(struct loop *loop)
{
    loop->wants_stop = 1;
}

/* 0, or libuv's error. */
static int watch_signal(struct waiting *w, uv_signal_t *handle,
                        struct loop *loop, int number)
{
    sigset_t set;
    int failed = uv_signal_init(&w->uv, handle);
    if (failed != 0)
        return failed; /* the handle must not be touched */
    handle->data = loop;
    failed = uv_signal_start(handle, on_signal, number);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* one may wait since we started */
    return failed;
}

static enum firn_status begin(struct waiting *w, struct loop *loop,
                              struct firn_error *err)
{
    int wait_ms, failed = uv_loop_init(&w->uv);
    if (failed != 0)
        return firn_fail(err, FIRN_EIO, "no event loop: %s",
                         uv_strerror(failed));
    w->has_loop = true;
    uv_timer_init(&w->uv, &w->timer);
    failed = watch_signal(w, &w->terminate, loop, SIGTERM);
    if (failed == 0)
        failed = watch_signal(w, &w->interrupt, loop, SIGINT);
    if (failed == 0)
        failed = watch_signal(w, &w->hang_up, loop, SIGHUP);
    if (failed == 0)
        failed =
            uv_poll_init(&w->uv, &w->engine,
                         loop->dock.engine->wake_fd(loop->dock.engine_state));
    if (failed == 0)
        failed = uv_poll_start(&w->engine, UV_READABLE, on_poll);
    if (failed == 0 && loop->http != NULL)
        failed = uv_poll_init(&w->uv, &w->http, http_fd(loop->http, &wait_ms));
    if (failed == 0 && loop->http != NULL)
        failed = uv_poll_start(&w->http, UV_READABLE, on_poll);
    if (failed != 0)
        return firn_fail(err, FIRN_EIO, "cannot wait for events: %s",
                         uv_strerror(failed));
    return FIRN_OK;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void end(struct waiting *w)
{
    if (!w->has_loop)
        return;
    /* From here to the end of the process: libuv gives the signals back to the
     * system, and a second one would end firnd before loop_close() has
     * committed.
     */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    uv_walk(&w->uv, close_handle, NULL);
    uv_run(&w->uv, UV_RUN_DEFAULT);
    uv_loop_close(&w->uv);
}

/* Until something happens, or it is `next_s`. */
static void wait_until(struct waiting *w, struct loop *loop, double next_s)
{
    double wait_s = fmin(next_s - dock_now_s(&loop->dock), LONGEST_WAIT_S);
    int http_ms = -1;
    if (loop->http != NULL)
        http_fd(loop->http, &http_ms);
    if (http_ms >= 0)
        wait_s = fmin(wait_s, 1e-3 * http_ms);
    uint64_t ms = wait_s > 0 ? (uint64_t)ceil(1000 * wait_s) : 0;
    uv_update_time(&w->uv);
    /* A timer that is due when uv_run() begins, for it is one of 0 or we stood
     * still meanwhile, fires before libuv polls, which then waits for the next:
     * there must be one, or it would wait for ever. */
    uv_timer_start(&w->timer, on_timer, ms, 1);
    uv_run(&w->uv, ms > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

enum firn_status loop_run(struct loop *loop, struct firn_error *err)
{
    struct waiting *w = mem_new(1, sizeof *w);
    enum firn_status status = begin(w, loop, err);
    struct notify notify;
    notify_open(&notify);
    if (status == FIRN_OK)
        notify_ready(&notify);
    while (status == FIRN_OK && !loop->wants_stop) {
        double next_s = INFINITY;
        status = loop_turn(loop, &next_s, err);
        double alive_s = notify_alive(&notify);
        if (status == FIRN_OK && !loop->wants_stop)
            wait_until(w, loop,
                       fmin(next_s, dock_now_s(&loop->dock) + alive_s));
    }
    notify_stopping(&notify);
    notify_close(&notify);
    if (status != FIRN_OK)
        loop->is_broken = true;
    end(w);
    mem_free(w);
    return status;
}
