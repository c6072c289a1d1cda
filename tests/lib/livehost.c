/* livehost.c - a host for a live engine: jobs as a test declares them.
 */
#include "lib/livehost.h"
#include "base/buf.h"
#include "base/mem.h"
#include "lib/alloc_text.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST_S = 120 }; /* that anything is waited for */

static bool launch(void *arg, firn_job_id id, struct firn_launch *out)
{
    struct livehost *host = arg;
    struct livehost_job *job = &host->jobs[id];
    if (job->argv[0] == NULL)
        return false;
    *out = (struct firn_launch){.name = "test",
                                .argv = job->argv,
                                .env = job->env,
                                .workdir = folder_path(),
                                .folder = job->folder,
                                .log = job->log,
                                .url = "unix:/nowhere",
                                .token = "secret",
                                .ckpt = "",
                                .freeze = "",
                                .threads = job->threads,
                                .grace_s = job->grace_s,
                                .can_checkpoint = job->can_checkpoint,
                                .is_per_node = job->is_per_node};
    return true;
}

/* "<folder>.attempt" has the number. */
static void number_file(const struct livehost *host, int id, char out[400])
{
    snprintf(out, 400, "%s.attempt", host->jobs[id].folder);
}

int64_t livehost_attempt(const struct livehost *host, int id)
{
    char path[400];
    long long attempt = 0;
    number_file(host, id, path);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return 0;
    if (fscanf(in, "%lld", &attempt) != 1)
        attempt = 0;
    fclose(in);
    return attempt;
}

static enum firn_status next_attempt(void *arg, firn_job_id id,
                                     int64_t *attempt, struct firn_error *err)
{
    struct livehost *host = arg;
    char path[400];
    if (host->nrefused > 0) {
        host->nrefused--;
        return firn_fail(err, FIRN_EIO, "no space left");
    }
    *attempt = livehost_attempt(host, id) + 1;
    number_file(host, id, path);
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return firn_fail(err, FIRN_EIO, "no file");
    fprintf(out, "%lld\n", (long long)*attempt);
    return fclose(out) == 0 ? FIRN_OK : firn_fail(err, FIRN_EIO, "no file");
}

static enum firn_status keep_numbers(void *arg, struct firn_error *err)
{
    struct livehost *host = arg;
    if (host->nunkept > 0) {
        host->nunkept--;
        return firn_fail(err, FIRN_EUNSAVED, "the disk is full");
    }
    host->nkept++;
    return FIRN_OK;
}

static void set(struct livehost *host, const char *name, const char *value)
{
    assert_int_equal(firn_option_set(host->engine->options, host->state,
                                     host->engine->name, name, value,
                                     &host->err),
                     FIRN_OK);
}

static void open_once(struct livehost *host, const char *engine,
                      const char *gpus)
{
    memset(host, 0, sizeof *host);
    host->engine = firn_engine_find(engine, &host->err);
    assert_non_null(host->engine);
    host->state = mem_new(1, host->engine->state_size);
    firn_options_default(host->engine->options, host->state);
    if (strcmp(engine, "slurm") == 0) {
        set(host, "path", fakeslurm_path());
        set(host, "program", workers_program());
        set(host, "poll", "0.02");
        set(host, "state", folder_path());
        set(host, "options", gpus);
    } else {
        set(host, "gpus", gpus);
        set(host, "shepherd", workers_program());
    }
    set(host, "pass-env", "LD_PRELOAD,SLOW_CALLS,TEST_*"); /* make slow */
    assert_int_equal(host->engine->open(host->state, &host->err), FIRN_OK);
    /* Of this folder alone: tests run beside each other. */
    uint64_t sum = 14695981039346656037u;
    for (const char *at = folder_path(); *at != '\0'; at++)
        sum = (sum ^ (unsigned char)*at) * 1099511628211u;
    snprintf(host->mark, sizeof host->mark, "%016llx", (unsigned long long)sum);
    struct firn_engine_host calls = {host, host->mark, launch, next_attempt,
                                     keep_numbers};
    assert_int_equal(host->engine->attach(host->state, &calls, &host->err),
                     FIRN_OK);
}

/* A Slurm engine that was opened before begins with what it knows, when
 * Slurm does not answer within seconds. */
static bool was_too_slow(const struct livehost *host)
{
    return host->engine->trouble != NULL &&
           host->engine->trouble(host->state) != NULL && !fakeslurm_is_away();
}

void livehost_open(struct livehost *host, const char *engine, const char *gpus)
{
    open_once(host, engine, gpus);
    for (int i = 0; i < 20 && was_too_slow(host); i++) {
        livehost_close(host);
        open_once(host, engine, gpus);
    }
}

void livehost_close(struct livehost *host)
{
    host->engine->close(host->state);
    mem_free(host->state);
    arena_release(&host->text);
}

struct livehost_job *livehost_job(struct livehost *host, int id,
                                  const char *work)
{
    struct livehost_job *job = &host->jobs[id];
    *job = (struct livehost_job){.grace_s = 60, .can_checkpoint = true};
    job->job.id = id;
    snprintf(job->folder, sizeof job->folder, "%s/job-%d", folder_path(), id);
    snprintf(job->log, sizeof job->log, "%s/job-%d.log", folder_path(), id);
    job->argv[0] = arena_strdup(&host->text, workers_program());
    job->argv[1] = "--work";
    char *words = arena_strdup(&host->text, work);
    for (int i = 2; i < LIVE_WORDS - 1 && words != NULL; i++) {
        job->argv[i] = words;
        words = strchr(words, ' ');
        if (words != NULL)
            *words++ = '\0';
    }
    return job;
}

void livehost_say(struct livehost *host, int id, const char *gpus)
{
    struct firn_job *job = &host->jobs[id].job;
    struct firn_alloc to = FIRN_ALLOC_NONE;
    if (gpus[0] != '\0')
        to = alloc_read(gpus, &host->text);
    struct firn_step step = {.job = job, .to = &to, .kind = FIRN_STEP_MOVE};
    if (to.nparts == 0)
        step.kind = FIRN_STEP_STOP;
    else if (job->held.nparts == 0)
        step.kind = FIRN_STEP_START;
    else if (job->held.ngpus != to.ngpus)
        step.kind = FIRN_STEP_RESIZE;
    assert_int_equal(host->engine->apply(host->state, &step, &host->err),
                     FIRN_OK);
    job->held = to;
}

void livehost_step(struct livehost *host, int id, const char *gpus)
{
    livehost_say(host, id, gpus);
    assert_int_equal(host->engine->settled(host->state, &host->err), FIRN_OK);
}

static void keep(struct livehost *host, const struct firn_event *event)
{
    static const char *const phases[] = {"QUEUED", "STARTING", "RUNNING",
                                         "LEAVING", "GONE"};
    static const char *const words[] = {
        [FIRN_EVENT_LEFT] = "LEFT",      [FIRN_EVENT_DONE] = "DONE",
        [FIRN_EVENT_FAIL] = "FAIL",      [FIRN_EVENT_NODE_UP] = "UP",
        [FIRN_EVENT_NODE_DOWN] = "DOWN", [FIRN_EVENT_TAKEN] = "TAKEN",
        [FIRN_EVENT_BARS] = "BARS",      [FIRN_EVENT_RESIZED] = "RESIZED",
        [FIRN_EVENT_TIMES] = "TIMES",    [FIRN_EVENT_PREPARED] = "PREPARED"};
    const char *word = event->kind == FIRN_EVENT_PHASE ? phases[event->phase]
                       : words[event->kind] != NULL    ? words[event->kind]
                                                       : "?";
    size_t n = strlen(host->seen);
    snprintf(host->seen + n, sizeof host->seen - n, "%s %d.%lld", word,
             event->job, (long long)event->attempt);
    n = strlen(host->seen);
    if (event->kind != FIRN_EVENT_PHASE)
        snprintf(host->seen + n, sizeof host->seen - n, "=%d",
                 event->exit_status);
    n = strlen(host->seen);
    snprintf(host->seen + n, sizeof host->seen - n, "; ");
}

static bool take(struct livehost *host, double until_s, struct firn_event *out)
{
    if (!host->engine->next(host->state, until_s, out, &host->err))
        return false;
    keep(host, out);
    return true;
}

/* By the descriptor, as a daemon's loop does. */
struct firn_event livehost_await(struct livehost *host,
                                 enum firn_event_kind kind, int id)
{
    struct firn_event event;
    double until_s = host->engine->now_s(host->state) + LONGEST_S;
    for (;;) {
        while (take(host, 0, &event))
            if (event.kind == kind && event.job == id)
                return event;
        struct pollfd fd = {.fd = host->engine->wake_fd(host->state),
                            .events = POLLIN};
        if (poll(&fd, 1, 1000 * LONGEST_S) != 1 ||
            host->engine->now_s(host->state) > until_s)
            fail_msg("no event %d of job %d; seen: %s", (int)kind, id,
                     host->seen);
    }
}

void livehost_await_phase(struct livehost *host, enum firn_phase phase, int id)
{
    while (livehost_await(host, FIRN_EVENT_PHASE, id).phase != (int)phase)
        ;
}

void livehost_await_ready(struct livehost *host, const char *file, size_t n)
{
    double until_s = host->engine->now_s(host->state) + LONGEST_S;
    while (workers_ready(file) < n) {
        if (host->engine->now_s(host->state) > until_s)
            fail_msg("%s: %zu processes are ready, not %zu", file,
                     workers_ready(file), n);
        livehost_drain(host);
        poll(NULL, 0, 2);
    }
}

void livehost_drain(struct livehost *host)
{
    struct firn_event event;
    while (take(host, 0, &event))
        ;
}

enum firn_status livehost_adopt(struct livehost *host, int id, const char *gpus)
{
    struct firn_job *job = &host->jobs[id].job;
    job->held = alloc_read(gpus, &host->text);
    return host->engine->adopt(host->state, job, livehost_attempt(host, id),
                               &host->err);
}

struct livehost_job *livehost_work(struct livehost *host, int id,
                                   const char *what, const char *file)
{
    char work[600];
    snprintf(work, sizeof work, "%s %s", what, file);
    return livehost_job(host, id, work);
}

void livehost_pass_ms(struct livehost *host, int ms)
{
    for (int i = 0; i < ms / 5; i++) {
        livehost_drain(host);
        poll(NULL, 0, 5);
    }
}

bool livehost_has_seen(const struct livehost *host, const char *text)
{
    return strstr(host->seen, text) != NULL;
}

enum firn_phase livehost_phase(const struct livehost *host, int id)
{
    return host->engine->phase(host->state, id);
}

int livehost_set_up(struct livehost *host, const char *engine, const char *gpus,
                    void **state)
{
    if (folder_make(state) != 0)
        return 1;
    if (strcmp(engine, "slurm") == 0)
        fakeslurm_open();
    livehost_open(host, engine, gpus);
    return 0;
}

int livehost_tear_down(struct livehost *host, void **state)
{
    livehost_close(host);
    return workers_sweep(state);
}
