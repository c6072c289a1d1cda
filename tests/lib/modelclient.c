/* modelclient.c - a client of a real firnd that knows what each answer may be.
 *
 * Numbers in brackets are those of tests/fault/test_http_model.c.
 */
#include "lib/modelclient.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct modelclient model;

uint64_t model_below(uint64_t n)
{
    return rng_below(&model.rng, n);
}

void model_pause_s(double seconds)
{
    struct timespec nap = {.tv_sec = (time_t)seconds};
    nap.tv_nsec = (long)((seconds - (double)nap.tv_sec) * 1e9);
    nanosleep(&nap, NULL);
}

/* --- lives --------------------------------------------------------------- */

static void nothing(void *arg)
{
    (void)arg;
}

struct caller model_dial(void)
{
    char sock[FIRNDLIFE_PATH];
    struct caller c = {.pump = nothing};
    firndlife_path(&model.life, sock, "sock");
    caller_open_path(&c, sock);
    return c;
}

void model_hang_up(void)
{
    if (model.is_open)
        caller_close(&model.c);
    model.is_open = false;
}

void model_end_life(int signal_number)
{
    firndlife_end(&model.life, signal_number);
    model_hang_up();
}

/* --- one request --------------------------------------------------------- */

/* Status 0: firnd was killed before a whole answer came. */
static struct reply ask(const char *method, const char *target,
                        const char *headers, const char *body)
{
    char head[600];
    if (model.is_open) {
        caller_hear(&model.c);
        if (model.c.is_closed)
            model_hang_up();
    }
    if (!model.is_open)
        model.c = model_dial();
    model.is_open = true;
    model.nrequests++;
    int n =
        snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n"
                 "\r\n",
                 method, target, headers != NULL ? headers : "", strlen(body));
    assert_true(n > 0 && (size_t)n < sizeof head);
    caller_send(&model.c, head, (size_t)n);
    caller_send(&model.c, body, strlen(body));
    if (model.fate == KILLED_UNDER_WAY) {
        model_pause_s(0.003 * rng_unit(&model.rng) * rng_unit(&model.rng));
        kill(model.life.pid, SIGKILL);
    }
    struct reply r = caller_reply(&model.c);
    if (model.fate == KILLED_AFTER)
        kill(model.life.pid, SIGKILL);
    if (r.status == 0 && model.fate == LIVES) {
        firndlife_check(&model.life);
        fail_msg("%s %s was not answered", method, target);
    }
    if (r.status >= 500)
        fail_msg("%s %s: status %d: %s", method, target, r.status, r.body);
    return r;
}

void model_see(struct jobmodel *job, const struct jobmodel_seen *seen)
{
    char why[300];
    if (!jobmodel_see(job, seen, why, sizeof why))
        fail_msg("job %d (%s): %s", seen->id, job->name, why);
}

static struct jobmodel *job_of(int id)
{
    return id > 0 && id < 2 * MODEL_JOBS && model.of_id[id] > 0
               ? &model.jobs[model.of_id[id] - 1]
               : NULL;
}

static void see_reply(struct jobmodel *job, const struct reply *r)
{
    struct jobmodel_seen seen;
    if (jobmodel_read(r->body, &seen) == NULL)
        fail_msg("there is no job in the answer: %s", r->body);
    model_see(job, &seen);
}

/* --- submits ------------------------------------------------------------- */

static const char *file_of(const struct jobmodel *job)
{
    static char text[300];
    static const char *const runs[] = {"/bin/true", "/bin/false"};
    int n = snprintf(text, sizeof text, "name: %s\ngpus: 1\n", job->name);
    if (job->kind == MODEL_SLEEPS)
        snprintf(text + n, sizeof text - (size_t)n, "run: [/bin/sleep, '%s']\n",
                 model.sleep_s);
    else
        snprintf(text + n, sizeof text - (size_t)n, "run: [%s]\n",
                 runs[job->kind == MODEL_FAILS]);
    return text;
}

/* (3); 0: no answer. */
int model_send_submit(struct jobmodel *job)
{
    char header[100];
    bool is_held = job->is_pinned && job->state[0] == '\0';
    struct jobmodel_seen seen;
    snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", job->key);
    struct reply r =
        ask("POST", is_held ? "/jobs?hold=1" : "/jobs", header, file_of(job));
    int status = r.status;
    if (status != 0) {
        bool is_known = job->exists == MODEL_YES;
        if (status != 200 && (status != 201 || is_known))
            fail_msg("submit of %s: %d: %s", job->name, status, r.body);
        if (status == 200 && job->exists == MODEL_NO)
            fail_msg("a new submit of %s was taken for one sent again",
                     job->name);
        assert_non_null(jobmodel_read(r.body, &seen));
        if (!is_known && seen.id <= model.highest_id && status == 201)
            fail_msg("id %d after %d", seen.id, model.highest_id);
        assert_true(seen.id > 0 && seen.id < 2 * MODEL_JOBS);
        model.highest_id =
            seen.id > model.highest_id ? seen.id : model.highest_id;
        model.of_id[seen.id] = (int)(job - model.jobs) + 1;
        model_see(job, &seen);
    } else if (job->exists == MODEL_NO) {
        job->exists = MODEL_MAYBE;
    }
    reply_release(&r);
    return status;
}

void model_submit_new(void)
{
    enum jobmodel_kind kind = (enum jobmodel_kind)model_below(MODEL_STRANGE);
    if (model.n == MODEL_JOBS)
        return;
    struct jobmodel *job = &model.jobs[model.n++];
    jobmodel_init(job, kind, model_below(2) == 0);
    job->exists = MODEL_NO;
    snprintf(job->name, sizeof job->name, "j%d", model.n);
    snprintf(job->key, sizeof job->key, "key-%d", model.n);
    model_send_submit(job);
}

static struct jobmodel *any_job(void)
{
    struct jobmodel *job =
        model.n > 0 ? &model.jobs[model_below((uint64_t)model.n)] : NULL;
    if (job != NULL && model.n > 30 &&
        model_below(4) > 0) /* the newest change most */
        job = &model.jobs[model.n - 1 - (int)model_below(30)];
    return job != NULL && job->exists == MODEL_YES ? job : NULL;
}

void model_submit_again(void)
{
    struct jobmodel *job = any_job();
    if (job == NULL || job->kind == MODEL_STRANGE)
        return;
    if (model_below(3) > 0) {
        model_send_submit(job);
        return;
    }
    char header[100];
    snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", job->key);
    struct reply r = ask("POST", "/jobs", header, "run: [/bin/other]\n");
    if (r.status != 409 && r.status != 0)
        fail_msg("the key of %s with another file: %d", job->name, r.status);
    reply_release(&r);
}

/* --- changes ------------------------------------------------------------- */

/* By id, or by name. */
static void target_of(char out[128], const struct jobmodel *job,
                      const char *rest)
{
    const char *v1 = model_below(2) == 0 ? "/v1" : "";
    if (model_below(2) == 0 || job->kind == MODEL_STRANGE)
        snprintf(out, 128, "%s/jobs/%d%s", v1, job->id, rest);
    else
        snprintf(out, 128, "%s/jobs/%s%s", v1, job->name, rest);
}

/* 200, or 409 of a job that is over. True: 200 or no answer. */
bool model_change(struct jobmodel *job, const char *method, const char *rest,
                  const char *body, struct reply *r)
{
    char target[128];
    target_of(target, job, rest);
    *r = ask(method, target, NULL, body);
    bool is_refused = r->status == 409;
    if (is_refused && strstr(r->body, "\"over\"") == NULL)
        fail_msg("%s %s: 409: %s", method, target, r->body);
    if (r->status != 200 && r->status != 0 && !is_refused)
        fail_msg("%s %s: %d: %s", method, target, r->status, r->body);
    if (r->status == 200 && job->is_over)
        fail_msg("%s %s is 200 for a job that is over", method, target);
    if (is_refused)
        job->is_over = true;
    return !is_refused;
}

void model_finish_change(struct jobmodel *job, struct reply *r)
{
    if (r->status == 200)
        see_reply(job, r);
    reply_release(r);
}

void model_hold(void)
{
    struct jobmodel *job = any_job();
    bool is_held = model_below(2) == 0;
    struct reply r;
    if (job == NULL || (job->kind == MODEL_STRANGE && !is_held))
        return;
    if (model_change(job, "POST", is_held ? "/hold" : "/release", "", &r))
        jobmodel_hold(job, is_held, r.status == 200);
    model_finish_change(job, &r);
}

void model_cancel(void)
{
    struct jobmodel *job = any_job();
    struct reply r;
    if (job == NULL)
        return;
    if (model_change(job, "POST", "/cancel", "", &r))
        jobmodel_cancel(job, r.status == 200);
    model_finish_change(job, &r);
}

void model_patch(void)
{
    struct jobmodel *job = any_job();
    struct reply r;
    char body[64];
    int value = 1 + (int)model_below(4);
    if (job == NULL || job->kind == MODEL_STRANGE)
        return;
    bool is_priority = model_below(2) == 0;
    snprintf(body, sizeof body, "{\"%s\": %d}",
             is_priority ? "priority" : "gpus", value);
    if (model_change(job, "PATCH", "", body, &r))
        (is_priority ? jobmodel_priority : jobmodel_gpus)(job, value,
                                                          r.status == 200);
    model_finish_change(job, &r);
}

void model_drain(void)
{
    char target[64];
    int node = (int)model_below(MODEL_NODES);
    enum jobmodel_tri now = model_below(3) == 0 ? MODEL_YES : MODEL_NO;
    snprintf(target, sizeof target, "/nodes/n%d/%s", node,
             now == MODEL_YES ? "drain" : "undrain");
    struct reply r = ask("POST", target, NULL, "");
    if (r.status != 200 && r.status != 0)
        fail_msg("POST %s: %d: %s", target, r.status, r.body);
    if (r.status == 200)
        model.drained[node] = now;
    else if (model.drained[node] != now)
        model.drained[node] = MODEL_MAYBE;
    reply_release(&r);
}

void model_set_policy(void)
{
    static const char *const names[] = {"fifo", "sjf", "srtf", "tiresias"};
    char body[64];
    const char *name = names[model_below(4)];
    snprintf(body, sizeof body, "{\"name\": \"%s\"}", name);
    struct reply r = ask("PATCH", "/policy", NULL, body);
    if (r.status != 200 && r.status != 0)
        fail_msg("PATCH /policy %s: %d: %s", body, r.status, r.body);
    model.policy[1] = name;
    if (r.status == 200)
        model.policy[0] = name;
    reply_release(&r);
}

/* --- questions ----------------------------------------------------------- */

void model_look_at_job(void)
{
    struct jobmodel *job = any_job();
    char target[128];
    if (job == NULL)
        return;
    target_of(target, job, "");
    struct reply r = ask("GET", target, NULL, "");
    if (r.status != 200 && r.status != 0)
        fail_msg("GET %s: %d: %s", target, r.status, r.body);
    model_finish_change(job, &r);
}

void model_look_at_nodes(void)
{
    struct reply r = ask("GET", "/nodes", NULL, "");
    for (int i = 0; i < MODEL_NODES && r.status == 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "{\"name\": \"n%d\"", i);
        const char *at = strstr(r.body, name);
        at = at != NULL ? strstr(at, "\"drained\": ") : NULL;
        assert_non_null(at);
        bool is_drained = strncmp(at + 11, "true", 4) == 0;
        if (model.drained[i] == MODEL_MAYBE)
            model.drained[i] = is_drained ? MODEL_YES : MODEL_NO;
        if ((model.drained[i] == MODEL_YES) != is_drained)
            fail_msg("node n%d is drained: %d", i, is_drained); /* (5) */
    }
    reply_release(&r);
}

void model_look_at_policy(void)
{
    char name[2][64];
    struct reply r = ask("GET", "/policy", NULL, "");
    if (r.status == 200) {
        for (int i = 0; i < 2; i++)
            snprintf(name[i], sizeof name[i], "{\"name\": \"%s\"",
                     model.policy[i]);
        bool is_first = strncmp(r.body, name[0], strlen(name[0])) == 0;
        if (!is_first && strncmp(r.body, name[1], strlen(name[1])) != 0)
            fail_msg("the policy is neither %s nor %s: %.60s", model.policy[0],
                     model.policy[1], r.body); /* (5) */
        model.policy[0] = model.policy[1] = model.policy[!is_first];
    }
    reply_release(&r);
}

/* (6) */
void model_look_at_events(void)
{
    char target[64];
    long long from = model.last_event > 0 ? model.last_event - 1 : 0;
    snprintf(target, sizeof target, "/events?after=%lld&limit=10000", from);
    struct reply r = ask("GET", target, NULL, "");
    long long before = from;
    const char *at = r.status == 200 ? r.body : "";
    bool is_first = true;
    while ((at = strstr(at, "{\"id\": ")) != NULL) {
        long long id = strtoll(at += 7, NULL, 10);
        if (id <= before ||
            (is_first && model.last_event > 0 && id != before + 1))
            fail_msg("event %lld after %lld, of which %lld was shown", id,
                     before, model.last_event);
        is_first = false;
        before = id;
    }
    if (r.status == 200) {
        if (is_first && model.last_event > 0)
            fail_msg("event %lld was shown and is gone", model.last_event);
        model.last_event = before;
    }
    reply_release(&r);
}

/* Questions whose answers are not compared. A forecast is not asked for of jobs
 * that were taken over from the life before. */
void model_look_at_others(void)
{
    static const char *const targets[] = {
        "/metrics",
        "/version",
        "/health",
        "/trace",
        "/jobs?pending=3",
        "/jobs?limit=5",
        "/jobs?state=running,pending&user=root",
        "/events?limit=3"};
    static const char *const of_job[] = {"/why", "/logs", "/logs?tail=3",
                                         "/eta"};
    char target[128];
    struct jobmodel *job = any_job();
    if (job == NULL || model_below(2) == 0)
        snprintf(target, sizeof target, "%s", targets[model_below(8)]);
    else
        target_of(target, job, of_job[model_below(4)]);
    struct reply r = ask("GET", target, NULL, "");
    /* 410: a job that is over and whose processes never started has no log. */
    if (r.status != 200 && r.status != 0 && r.status != 404 &&
        r.status != 422 && r.status != 409 && r.status != 410)
        fail_msg("GET %s: %d: %s", target, r.status, r.body);
    reply_release(&r);
}

/* (2), (4) */
void model_look_at_all(void)
{
    struct jobmodel_seen seen;
    static char is_seen[MODEL_JOBS];
    memset(is_seen, 0, sizeof is_seen);
    struct reply r = ask("GET", "/jobs?all=1&limit=100000", NULL, "");
    const char *at = r.status == 200 ? r.body : "";
    while ((at = jobmodel_read(at, &seen)) != NULL) {
        struct jobmodel *job = job_of(seen.id);
        if (job == NULL || is_seen[job - model.jobs]++)
            fail_msg("job %d (%s) is listed: %s", seen.id, seen.name,
                     job == NULL ? "it was never acknowledged" : "twice");
        model_see(job, &seen);
    }
    for (int i = 0; i < model.n && r.status == 200; i++)
        if (model.jobs[i].exists == MODEL_YES && !is_seen[i])
            fail_msg("job %d (%s) was acknowledged and is lost",
                     model.jobs[i].id, model.jobs[i].name);
    reply_release(&r);
}
