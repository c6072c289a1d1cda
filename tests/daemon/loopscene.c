/* loopscene.c - the engine that a test plays; see loopscene.h.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "daemon/jobfile.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 64 };

/* What outlives the scheduler: a job's processes. */
struct actor {
    firn_job_id id; /* 0: the slot is free */
    int64_t attempt;
    enum firn_phase phase;
    bool is_asked, is_cancelled;
    firn_job_id mate, after; /* as its launch names them; 0: none */
    double grace_s;
    char told[200]; /* loopscene_told() */
};

struct loopscene_play loopscene_play;
static struct actor actors[JOBS];
static double clock_s = 1000;

struct fake {
    char spec[FIRN_TEXT_MAX];
    struct firn_engine_host host;
    struct {
        firn_job_id id;
        struct firn_alloc want; /* nparts counts; parts are not kept */
    } wants[JOBS];
    VEC(struct firn_event) owed;
};

static struct actor *actor_of(firn_job_id id)
{
    for (int i = 0; i < JOBS; i++)
        if (actors[i].id == id && id > 0)
            return &actors[i];
    return NULL;
}

static int *want_of(struct fake *f, firn_job_id id)
{
    for (int i = 0; i < JOBS; i++)
        if (f->wants[i].id == id)
            return &f->wants[i].want.nparts;
    for (int i = 0; i < JOBS; i++)
        if (f->wants[i].id == 0) {
            f->wants[i].id = id;
            return &f->wants[i].want.nparts;
        }
    fail_msg("too many jobs");
    return NULL;
}

static void owe(struct fake *f, struct firn_event event)
{
    event.at_s = clock_s;
    vec_add(&f->owed, event);
}

static void start(struct fake *f, firn_job_id id, int64_t attempt)
{
    struct firn_launch launch;
    struct actor *actor = actor_of(0);
    for (int i = 0; i < JOBS && actor == NULL; i++)
        if (actors[i].id == 0)
            actor = &actors[i];
    assert_non_null(actor);
    assert_null(actor_of(id));
    assert_true(f->host.launch(f->host.arg, id, &launch));
    assert_true(launch.argv[0] != NULL || launch.inbox[0] != '\0');
    *actor = (struct actor){.id = id,
                            .attempt = attempt,
                            .phase = FIRN_PHASE_RUNNING,
                            .mate = launch.mate != NULL ? launch.mate->job : 0,
                            .after = launch.after_job,
                            .grace_s = launch.grace_s};
    snprintf(actor->told, sizeof actor->told,
             "freeze '%s' %g, threads %d, grace %g, every %g%s, mate %g",
             launch.freeze, launch.freeze_max, launch.threads, launch.grace_s,
             launch.ckpt_every_s, launch.can_checkpoint ? "" : " never",
             launch.mate != NULL ? launch.mate->freeze_max : 0);
    if (launch.mate != NULL)
        assert_int_equal(
            launch.mate->attempt,
            book_job(((struct loop *)f->host.arg)->book, launch.mate->job)
                ->attempt);
    owe(f, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                               .job = id,
                               .attempt = attempt,
                               .phase = FIRN_PHASE_RUNNING});
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct fake *f = state;
    struct actor *actor = actor_of(step->job->id);
    (void)err;
    bool is_queued = actor == NULL && *want_of(f, step->job->id) > 0;
    *want_of(f, step->job->id) = step->to->nparts;
    if (actor != NULL && actor->phase == FIRN_PHASE_RUNNING) {
        actor->phase = FIRN_PHASE_LEAVING;
        actor->is_asked = true;
    } else if (is_queued && step->to->nparts == 0) {
        owe(f, (struct firn_event){.kind = FIRN_EVENT_LEFT,
                                   .job = step->job->id,
                                   .end = FIRN_END_CHECKPOINT});
    }
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct fake *f = state;
    struct firn_error why = {0};
    int64_t attempts[JOBS] = {0};
    bool has_some = false;
    (void)err;
    for (int i = 0; i < JOBS && !loopscene_play.is_stuck; i++) {
        if (f->wants[i].id == 0 || f->wants[i].want.nparts == 0 ||
            actor_of(f->wants[i].id) != NULL)
            continue;
        enum firn_status status = f->host.next_attempt(
            f->host.arg, f->wants[i].id, &attempts[i], &why);
        if (status == FIRN_EUNSAVED || status == FIRN_EINVAL)
            continue; /* not now, or not written: it is tried again */
        assert_int_equal(status, FIRN_OK);
        has_some = true;
    }
    enum firn_status kept =
        has_some ? f->host.keep(f->host.arg, &why) : FIRN_OK;
    if (kept == FIRN_EUNSAVED)
        return FIRN_OK; /* none of them is on disk */
    assert_int_equal(kept, FIRN_OK);
    for (int i = 0; i < JOBS; i++)
        if (attempts[i] > 0)
            start(f, f->wants[i].id, attempts[i]);
    return FIRN_OK;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct fake *f = state;
    (void)until_s;
    settled(f, err);
    if (f->owed.n == 0)
        return false;
    *out = f->owed.at[0];
    memmove(f->owed.at, f->owed.at + 1, --f->owed.n * sizeof *f->owed.at);
    return true;
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t attempt, struct firn_error *err)
{
    struct fake *f = state;
    struct actor *actor = actor_of(job->id);
    (void)err;
    bool is_there = actor != NULL && actor->attempt == attempt;
    *want_of(f, job->id) = is_there ? job->held.nparts : 0;
    if (is_there)
        owe(f, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                                   .job = job->id,
                                   .attempt = attempt,
                                   .phase = FIRN_PHASE_RUNNING});
    else /* never started, or gone */
        owe(f, (struct firn_event){.kind = FIRN_EVENT_FAIL,
                                   .job = job->id,
                                   .attempt = attempt,
                                   .end = FIRN_END_LOST});
    return FIRN_OK;
}

static void cancel(void *state, firn_job_id id)
{
    struct fake *f = state;
    struct actor *actor = actor_of(id);
    struct firn_launch launch = {0};
    *want_of(f, id) = 0;
    if (actor == NULL && f->host.launch(f->host.arg, id, &launch) &&
        launch.inbox[0] != '\0') {
        loopscene_play.ninbox_cancels++;
    } else if (actor != NULL) {
        actor->phase = FIRN_PHASE_LEAVING;
        actor->is_cancelled = true;
    } else {
        owe(f, (struct firn_event){
                   .kind = FIRN_EVENT_FAIL, .job = id, .end = FIRN_END_KILLED});
    }
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    const struct actor *actor = actor_of(id);
    if (actor != NULL)
        return actor->phase;
    const struct fake *f = state;
    for (int i = 0; i < JOBS; i++)
        if (f->wants[i].id == id && f->wants[i].want.nparts > 0)
            return FIRN_PHASE_QUEUED;
    return FIRN_PHASE_GONE;
}

static enum firn_status open_fake(void *state, struct firn_error *err)
{
    (void)state;
    (void)err;
    return FIRN_OK;
}

static void close_fake(void *state)
{
    vec_release(&((struct fake *)state)->owed);
}

static double now_s(void *state)
{
    (void)state;
    return clock_s;
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *err)
{
    FIRN_TRY(firn_cluster_parse_spec(out, ((struct fake *)state)->spec, err));
    for (int i = 0; i < out->nnodes && i < 32; i++)
        out->nodes[i].is_up = !(loopscene_play.nodes_down >> i & 1);
    return FIRN_OK;
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *err)
{
    (void)err;
    ((struct fake *)state)->host = *host;
    return FIRN_OK;
}

static int wake_fd(void *state)
{
    (void)state;
    return -1;
}

static const char *trouble(void *state)
{
    (void)state;
    return loopscene_play.trouble;
}

static const char *no_sharing(void *state)
{
    (void)state;
    return loopscene_play.no_sharing;
}

static const char *node_name(void *state, firn_node_id node)
{
    (void)state;
    return loopscene_play.names != NULL ? loopscene_play.names[node] : NULL;
}

static const char *node_why(void *state, firn_node_id node)
{
    (void)state;
    (void)node;
    return loopscene_play.node_why;
}

static const struct firn_option options[] = {
    {.name = "gpus",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .offset = offsetof(struct fake, spec)},
    {.name = NULL},
};

const struct firn_engine_def loopscene_engine = {
    .name = "fake",
    .options = options,
    .state_size = sizeof(struct fake),
    .open = open_fake,
    .close = close_fake,
    .now_s = now_s,
    .discover = discover,
    .apply = apply,
    .settled = settled,
    .next = next,
    .adopt = adopt,
    .attach = attach,
    .wake_fd = wake_fd,
    .cancel = cancel,
    .phase = phase,
    .trouble = trouble,
    .no_sharing = no_sharing,
    .node_name = node_name,
    .node_why = node_why,
};

void loopscene_remove_state(void)
{
    folder_empty(folder_path());
}

int loopscene_remove(void **state)
{
    loopscene_play = (struct loopscene_play){0};
    loopscene_remove_state();
    return folder_remove(state);
}

/* --- the scene ----------------------------------------------------------- */

void loopscene_open(struct loopscene *s, const char *gpus, const char *policy,
                    bool keeps)
{
    struct firn_error err = {0};
    char state[512], socket[512];
    snprintf(state, sizeof state, "%s", folder_path());
    snprintf(socket, sizeof socket, "%s", folder_file("s"));
    static struct firn_engine_def engine;
    if (!keeps)
        memset(actors, 0, sizeof actors);
    engine = loopscene_engine;
    engine.is_remote = loopscene_play.is_remote;
    engine.load = loopscene_play.load;
    engine.prepares = loopscene_play.prepares;
    engine.prepared_s = loopscene_play.prepared_s;
    engine.ahead_s = loopscene_play.ahead_s;
    engine.foresee = loopscene_play.foresee;
    s->config = (struct config){0};
    /* Ymir by the paper decides at its rounds only; tests do not wait. */
    char *argv[] = {"firnd",        "--state",          state,
                    "--gpus",       (char *)gpus,       "--policy",
                    (char *)policy, "--socket",         socket,
                    "--set",        "ymir.between=yes", NULL};
    assert_int_equal(config_flags(&s->config, 11, argv, &err), FIRN_OK);
    assert_int_equal(config_finish(&s->config, &err), FIRN_OK);
    struct loop_setup setup = {.config = &s->config,
                               .engine = &engine,
                               .is_deaf = !loopscene_play.hears};
    if (loop_open(&s->loop, &setup, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

void loopscene_kill(struct loopscene *s)
{
    store_rollback(s->loop->store);
    s->loop->is_broken = true; /* nothing is written at the end */
    loopscene_close(s);
}

void loopscene_close(struct loopscene *s)
{
    loop_close(s->loop);
    config_release(&s->config);
}

struct live_job *loopscene_submit(struct loopscene *s, const char *name,
                                  const char *lines)
{
    struct firn_buf text = {0};
    struct live_ask ask = {0};
    struct live_job *job = NULL;
    struct firn_error err = {0};
    bool is_new = false;
    buf_printf(&text, "name: %s\nrun: [/bin/true]\n%s\n", name, lines);
    if (jobfile_read(&ask, (struct firn_bytes){text.at, text.n}, "test",
                     &err) != FIRN_OK ||
        book_submit(s->loop->book, &ask, text.at, "", clock_s, &job, &is_new,
                    &err) != FIRN_OK)
        fail_msg("%s", err.text);
    loop_changed(s->loop, job);
    buf_release(&text);
    return job;
}

struct live_job *loopscene_job(struct loopscene *s, const char *name)
{
    struct live_job *job = NULL;
    struct firn_error err = {0};
    if (book_find(s->loop->book, name, &job, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return job;
}

void loopscene_turn(struct loopscene *s)
{
    for (int i = 0; i < 20; i++) {
        struct firn_error err = {0};
        double next_s = INFINITY;
        if (loop_turn(s->loop, &next_s, &err) != FIRN_OK)
            fail_msg("%s", err.text);
        clock_s += 0.1;
        if (next_s > clock_s && i > 1)
            return;
    }
}

void loopscene_pass(struct loopscene *s, double seconds)
{
    clock_s += seconds;
    loopscene_turn(s);
}

#define fake_of(s) ((struct fake *)(s)->loop->dock.engine_state)

static void finish(struct loopscene *s, const char *name,
                   enum firn_event_kind kind, enum firn_end end, int status)
{
    firn_job_id id = loopscene_job(s, name)->id;
    struct actor *actor = actor_of(id);
    if (actor == NULL)
        fail_msg("job %s has no processes", name);
    owe(fake_of(s), (struct firn_event){.kind = kind,
                                        .job = id,
                                        .attempt = actor->attempt,
                                        .end = (int)end,
                                        .exit_status = status});
    *actor = (struct actor){0};
    if (kind != FIRN_EVENT_LEFT)
        *want_of(fake_of(s), id) = 0;
    loopscene_turn(s);
}

void loopscene_event(struct loopscene *s, struct firn_event event)
{
    owe(fake_of(s), event);
    loopscene_turn(s);
}

void loopscene_taken(struct loopscene *s, firn_node_id node, uint64_t gpus)
{
    loopscene_event(s, (struct firn_event){.kind = FIRN_EVENT_TAKEN,
                                           .taken = {node, 0, gpus}});
}

void loopscene_node(struct loopscene *s, firn_node_id node, bool is_up)
{
    loopscene_event(s, (struct firn_event){.kind = is_up ? FIRN_EVENT_NODE_UP
                                                         : FIRN_EVENT_NODE_DOWN,
                                           .node = node});
}

void loopscene_hold(struct loopscene *s, struct live_job *job, bool is_held)
{
    struct firn_error err = {0};
    book_hold(s->loop->book, job, is_held, 1, &err);
    loop_changed(s->loop, job);
}

void loopscene_cancel(struct loopscene *s, struct live_job *job)
{
    struct firn_error err = {0};
    book_cancel(s->loop->book, job, 1, "test", &err);
    loop_cancelled(s->loop, job);
}

void loopscene_done(struct loopscene *s, const char *name)
{
    finish(s, name, FIRN_EVENT_DONE, FIRN_END_DONE, 0);
}

void loopscene_fail(struct loopscene *s, const char *name, enum firn_end end,
                    int status)
{
    finish(s, name, FIRN_EVENT_FAIL, end, status);
}

void loopscene_leave_as(struct loopscene *s, const char *name,
                        enum firn_end end, int status)
{
    const struct actor *actor = actor_of(loopscene_job(s, name)->id);
    if (actor == NULL || (!actor->is_asked && !actor->is_cancelled))
        fail_msg("job %s was not asked to leave", name);
    if (actor->is_cancelled)
        finish(s, name, FIRN_EVENT_FAIL, FIRN_END_KILLED, status);
    else
        finish(s, name, FIRN_EVENT_LEFT, end, status);
}

void loopscene_report(struct loopscene *s, const char *name, double progress,
                      double step_s, double memory_mib)
{
    struct live_job *job = loopscene_job(s, name);
    struct firn_error err = {0};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = progress;
    report.step = (uint64_t)(progress * 100);
    report.step_s = step_s;
    report.memory_mib = memory_mib;
    if (book_report(s->loop->book, job, job->attempt, &report, clock_s, &err) !=
        FIRN_OK)
        fail_msg("%s", err.text);
    loop_reported(s->loop, job);
    loopscene_turn(s);
}

double loopscene_ends_in_s(struct loopscene *s, const char *name)
{
    static const char key[] = "\"finish_s\":";
    struct firn_buf json = {0};
    struct firn_error err = {0};
    if (dryrun_eta(s->loop, loopscene_job(s, name), &json, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    const char *at = strstr(json.at, key);
    assert_non_null(at);
    double end_s = strtod(at + strlen(key), NULL);
    buf_release(&json);
    return end_s;
}

const char *loopscene_text(struct loopscene *s)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < book_count(s->loop->book); i++) {
        const struct live_job *job = book_at(s->loop->book, i);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s %s %s",
                              i > 0 ? "; " : "", job->ask.name,
                              live_state_name(job->state), job->held);
    }
    return out;
}

int loopscene_attempts(void)
{
    int n = 0;
    for (int i = 0; i < JOBS; i++)
        n += actors[i].id > 0;
    return n;
}

firn_job_id loopscene_mate(struct loopscene *s, const char *name)
{
    const struct actor *actor = actor_of(loopscene_job(s, name)->id);
    return actor != NULL ? actor->mate : FIRN_NO_JOB;
}

firn_job_id loopscene_after(struct loopscene *s, const char *name)
{
    const struct actor *actor = actor_of(loopscene_job(s, name)->id);
    return actor != NULL ? actor->after : FIRN_NO_JOB;
}

double loopscene_grace_s(struct loopscene *s, const char *name)
{
    const struct actor *actor = actor_of(loopscene_job(s, name)->id);
    return actor != NULL ? actor->grace_s : -1;
}

const char *loopscene_told(struct loopscene *s, const char *name)
{
    const struct actor *actor = actor_of(loopscene_job(s, name)->id);
    assert_non_null(actor);
    return actor->told;
}

void loopscene_open_pair(struct loopscene *s)
{
    loopscene_open(s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(s, "a", LOOPSCENE_TASK("one"));
    loopscene_submit(s, "b", LOOPSCENE_TASK("two"));
    loopscene_turn(s);
    assert_string_equal(loopscene_text(s), LOOPSCENE_MERGED);
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_equal(loopscene_mate(s, "a"), loopscene_job(s, "b")->id);
}
