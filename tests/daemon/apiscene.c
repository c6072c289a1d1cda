/* apiscene.c - the API over a real book, store and socket.
 *
 * The host keeps what it was told; its clock moves on with every look.
 */
#include "apiscene.h"
#include "base/buf.h"
#include "lib/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char api_token[] = "the-operators-own-token";
const char api_simple[] = "name: a\nrun: [sleep, '1']\ngpus: 2\n";
const char api_elastic[] = "name: e\nrun: [sleep, '1']\ngpus: 1..4\n"
                           "elastic: {consistency: D1}\n";

struct api_scene api_scene;

/* --- the host ---------------------------------------------------------- */

static double now_s(void *arg)
{
    return ((struct api_scene *)arg)->now_s += 1;
}

static size_t nodes(void *arg, const struct api_node **out)
{
    static struct api_node list[2] = {
        {"n0", "v100", 16, 4, 1, 1, true, false, ""},
        {"n1", "a100", 80, 8, 8, 0, true, false, ""}};
    const struct api_scene *s = arg;
    list[1].is_drained = s->is_drained;
    list[1].is_up = s->why == NULL;
    list[1].why = s->why != NULL ? s->why : "";
    *out = list;
    return 2;
}

static enum firn_status drain(void *arg, const char *node, bool is_drained,
                              struct firn_error *err)
{
    if (strcmp(node, "n1") != 0)
        return firn_fail(err, FIRN_ENOENT, "there is no node '%s'", node);
    ((struct api_scene *)arg)->is_drained = is_drained;
    return FIRN_OK;
}

/* Node 0 is called "zero". */
static void gpus_text(void *arg, const char *held, struct firn_buf *out)
{
    (void)arg;
    bool is_first = strncmp(held, "n0[", 3) == 0;
    buf_printf(out, "%s%s", is_first ? "zero" : "", held + (is_first ? 2 : 0));
}

static const char *trouble(void *arg)
{
    return ((const struct api_scene *)arg)->trouble;
}

static void changed(void *arg, struct live_job *job)
{
    (void)job;
    ((struct api_scene *)arg)->nchanged++;
}

static void cancel(void *arg, struct live_job *job)
{
    struct api_scene *s = arg;
    struct firn_error err;
    s->ncancelled++;
    assert_true(job->is_ending);
    if (job->state == LIVE_PENDING)
        assert_int_equal(book_state(s->book, job, LIVE_CANCELLED,
                                    LIVE_BECAUSE_USER, s->now_s, "by its user",
                                    &err),
                         FIRN_OK);
}

static void reported(void *arg, struct live_job *job)
{
    ((struct api_scene *)arg)->nreported++;
    job->orders.nfrozen = 3;
}

static void policy(void *arg, struct api_policy *out)
{
    struct api_scene *s = arg;
    static struct api_setting setting;
    struct firn_error err;
    setting = (struct api_setting){s->option, s->value};
    *out = (struct api_policy){firn_policy_find(s->policy, &err), &setting, 1};
    assert_non_null(out->def);
}

static enum firn_status set_policy(void *arg, const char *name,
                                   const struct api_setting *settings,
                                   size_t nsettings, struct firn_error *err)
{
    struct api_scene *s = arg;
    if (name != NULL && firn_policy_find(name, err) == NULL)
        return err->status;
    if (name != NULL)
        snprintf(s->policy, sizeof s->policy, "%s", name);
    for (size_t i = 0; i < nsettings; i++) {
        snprintf(s->option, sizeof s->option, "%s", settings[i].name);
        snprintf(s->value, sizeof s->value, "%s", settings[i].value);
    }
    return FIRN_OK;
}

static enum firn_status why(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err)
{
    ((struct api_scene *)arg)->nasked++;
    if (job->is_held)
        return firn_fail(err, FIRN_EDATA, "it is held");
    buf_printf(json, "{\"reason\": \"capacity\", \"job\": %d}", job->id);
    return FIRN_OK;
}

static enum firn_status plan(void *arg, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err)
{
    (void)err;
    ((struct api_scene *)arg)->nasked++;
    buf_printf(json, "{\"gpus\": %d}", ask->gpus_max);
    return FIRN_OK;
}

static bool log_path(void *arg, const struct live_job *job, char *out,
                     size_t max)
{
    (void)job;
    snprintf(out, max, "%s", ((struct api_scene *)arg)->log);
    return true;
}

static void board_url(void *arg, struct firn_buf *out)
{
    buf_printf(out, "http://127.0.0.1:%d",
               http_port(((const struct api_scene *)arg)->http));
}

/* --- a turn ------------------------------------------------------------ */

void api_scene_turn(void *arg)
{
    struct api_scene *s = arg;
    struct firn_error err = {0};
    http_run(s->http);
    if (s->keeps_changes)
        return;
    api_settle(s->api, store_commit(s->store, &err), &err);
    api_tick(s->api);
}

static int open_all(struct api_scene *s)
{
    char said[256];
    struct firn_error err;
    struct api_host host = {.arg = s,
                            .engine = "toy",
                            .now_s = now_s,
                            .nodes = nodes,
                            .drain = drain,
                            .gpus_text = gpus_text,
                            .trouble = trouble,
                            .changed = changed,
                            .cancel = cancel,
                            .reported = reported,
                            .policy = policy,
                            .set_policy = set_policy,
                            .why = why,
                            .plan = plan,
                            .board_url = board_url,
                            .log_path = log_path};
    if (store_open(&s->store, folder_path(), said, sizeof said, &err) ||
        book_open(&s->book, s->store, &err))
        return 1;
    host.metrics = s->metrics = metrics_new();
    char audit[300];
    snprintf(audit, sizeof audit, "%s/audit.log", folder_path());
    if (audit_open(&s->audit, audit, &err))
        return 1;
    host.audit = s->audit;
    host.book = s->book;
    host.store = s->store;
    if (api_new(&s->api, &host, &err))
        return 1;
    struct http_config config = {.socket = s->path,
                                 .address = "127.0.0.1:0",
                                 .token = api_token,
                                 .job_of_token = api_job_of_token,
                                 .user_of_token = api_user_of_token,
                                 .role_of_uid = api_role_of_uid,
                                 .session_of_token = api_session_of_token,
                                 .is_open = api_is_open,
                                 .handle = api_handle,
                                 .turned_away = api_turned_away,
                                 .refused = api_count,
                                 .arg = s->api};
    if (http_open(&s->http, &config, &err))
        return 1;
    s->caller = (struct caller){.pump = api_scene_turn, .arg = s};
    caller_open_path(&s->caller, s->path);
    return 0;
}

static void close_all(struct api_scene *s)
{
    caller_close(&s->caller);
    http_close(s->http);
    api_free(s->api);
    audit_close(s->audit);
    metrics_free(s->metrics);
    book_close(s->book);
    store_close(s->store);
}

int api_scene_start(void **state)
{
    api_scene = (struct api_scene){.now_s = 1000, .policy = "fifo"};
    if (folder_make(state) != 0)
        return 1;
    snprintf(api_scene.path, sizeof api_scene.path, "%s/s", folder_path());
    snprintf(api_scene.log, sizeof api_scene.log, "%s/log", folder_path());
    return open_all(&api_scene);
}

int api_scene_stop(void **state)
{
    close_all(&api_scene);
    return folder_remove(state);
}

/* --- asking ------------------------------------------------------------ */

json_t *api_ask_with(const char *method, const char *target,
                     const char *headers, const char *body, int status)
{
    struct reply r =
        caller_ask(&api_scene.caller, method, target, headers, body);
    if (r.status != status)
        fail_msg("%s %s: %d, not %d: %s", method, target, r.status, status,
                 r.body);
    json_error_t err;
    json_t *root = json_loadb(r.body, r.nbody, JSON_DECODE_ANY, &err);
    if (root == NULL)
        fail_msg("%s %s: no JSON: %s: %s", method, target, err.text, r.body);
    reply_release(&r);
    return root;
}

json_t *api_ask(const char *method, const char *target, const char *body,
                int status)
{
    return api_ask_with(method, target, NULL, body, status);
}

void api_just(const char *method, const char *target, const char *body,
              int status)
{
    json_decref(api_ask(method, target, body, status));
}

const char *api_at(const json_t *root, const char *path)
{
    static char out[512];
    char key[64];
    while (path != NULL && root != NULL) {
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        root = json_is_array(root)
                   ? json_array_get(root, strtoul(key, NULL, 10))
                   : json_object_get(root, key);
        path = path[n] == '.' ? path + n + 1 : NULL;
    }
    if (json_is_string(root))
        snprintf(out, sizeof out, "%s", json_string_value(root));
    else if (json_is_integer(root))
        snprintf(out, sizeof out, "%lld", (long long)json_integer_value(root));
    else if (json_is_real(root))
        snprintf(out, sizeof out, "%g", json_real_value(root));
    else
        snprintf(out, sizeof out, "%s",
                 json_is_true(root)    ? "true"
                 : json_is_false(root) ? "false"
                                       : "-");
    return out;
}

void api_expect(const json_t *root, const char *path, const char *value)
{
    if (strcmp(api_at(root, path), value) != 0)
        fail_msg("%s is %s, not %s", path, api_at(root, path), value);
}

void api_says(const char *method, const char *target, const char *want)
{
    json_t *root = api_ask(method, target, "", 200);
    while (*want != '\0') {
        char path[64], value[64];
        size_t npath = strcspn(want, "="), n = strcspn(want, " ");
        assert_true(npath < n && npath < sizeof path &&
                    n - npath <= sizeof value);
        snprintf(path, sizeof path, "%.*s", (int)npath, want);
        snprintf(value, sizeof value, "%.*s", (int)(n - npath - 1),
                 want + npath + 1);
        api_expect(root, path, value);
        want += n + (want[n] == ' ');
    }
    json_decref(root);
}

struct live_job *api_job_of(firn_job_id id)
{
    struct live_job *job = book_job(api_scene.book, id);
    assert_non_null(job);
    return job;
}

void api_run_job(firn_job_id id)
{
    struct firn_error err;
    int64_t attempt;
    struct live_job *job = api_job_of(id);
    assert_int_equal(book_next_attempt(api_scene.book, job, &attempt, &err),
                     FIRN_OK);
    assert_int_equal(book_state(api_scene.book, job, LIVE_RUNNING,
                                LIVE_BECAUSE_NONE, ++api_scene.now_s, "it runs",
                                &err),
                     FIRN_OK);
}
