/* test_api_token.c - tokens, sessions and the audit on the API, and every route
 * called by every role, for its own job and for that of another user.
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

enum { HEADER = 128 };

/* A token of that user and role, as a header. */
static void make_token(const char *user, const char *role, const char *more,
                       char header[HEADER])
{
    char body[200];
    snprintf(body, sizeof body,
             "{\"name\": \"t\", \"user\": \"%s\", \"role\": \"%s\"%s}", user,
             role, more);
    json_t *answer = api_ask("POST", "/v1/tokens", body, 201);
    snprintf(header, HEADER, "Authorization: Bearer %s\r\n",
             api_at(answer, "token"));
    json_decref(answer);
}

static int ask_as(const char *header, const char *method, const char *target,
                  const char *body)
{
    struct reply r =
        caller_ask(&api_scene.caller, method, target, header, body);
    int status = r.status;
    reply_release(&r);
    return status;
}

/* --- the matrix ------------------------------------------------------------
 */

/* The route with `job` in its place and a body that it takes. */
static void target_of(const struct api_route *route, const char *job,
                      char out[128], const char **body)
{
    const char *word = strncmp(route->path, "/nodes", 6) == 0    ? "n1"
                       : strncmp(route->path, "/tokens", 7) == 0 ? "999"
                                                                 : job;
    const char *colon = strchr(route->path, ':');
    if (colon == NULL)
        snprintf(out, 128, "/v1%s", route->path);
    else
        snprintf(out, 128, "/v1%.*s%s%s", (int)(colon - route->path),
                 route->path, word, colon + strcspn(colon, "/"));
    *body = "";
    if (strcmp(route->path, "/jobs") == 0 || strcmp(route->path, "/plan") == 0)
        *body = api_simple;
    else if (strcmp(route->method, "PATCH") == 0)
        *body = colon != NULL ? "{\"priority\": 3}" : "{\"name\": \"fifo\"}";
    else if (strcmp(route->path, "/tokens") == 0)
        *body = "{}";
}

/* Is the answer what access_may() says? 403 if and only if it says NONE. */
static void check(const struct api_route *route, enum access_role role,
                  bool is_owner, const char *header, const char *job)
{
    char target[128];
    const char *body;
    target_of(route, job, target, &body);
    int status = ask_as(header, route->method, target,
                        strcmp(route->method, "GET") == 0 ? "" : body);
    bool may = access_may(role, route->right, is_owner) != ACCESS_NONE;
    bool makes_token = strcmp(route->path, "/tokens") == 0 &&
                       strcmp(route->method, "POST") == 0;
    if ((status != 403) != (may && !makes_token) && !(may && makes_token))
        fail_msg("%s %s as %s, %s job: %d", route->method, target,
                 access_role_name(role), is_owner ? "its own" : "another's",
                 status);
    if (status >= 500 && status != 501)
        fail_msg("%s %s: %d", route->method, target, status);
}

/* A fresh job of `user`, made by its token; its number as text. */
static void fresh_job(const char *header, char out[16])
{
    json_t *job = api_ask_with("POST", "/v1/jobs", header, api_simple, 201);
    snprintf(out, 16, "%s", api_at(job, "id"));
    json_decref(job);
}

static void every_route_obeys_the_table_for_every_role(void **state)
{
    (void)state;
    size_t n;
    const struct api_route *routes = api_routes(&n);
    char ann[HEADER], bob[HEADER], eve[HEADER], op[HEADER], own[HEADER];
    make_token("ann", "user", "", ann);
    make_token("bob", "user", "", bob);
    make_token("eve", "viewer", "", eve);
    make_token("opa", "operator", "", op);
    for (size_t i = 0; i < n; i++) {
        const struct {
            enum access_role role;
            bool is_owner;
            const char *header;
        } cases[] = {{ACCESS_USER, true, ann},    {ACCESS_USER, false, bob},
                     {ACCESS_VIEWER, false, eve}, {ACCESS_OPERATOR, false, op},
                     {ACCESS_JOB, true, own},     {ACCESS_JOB, false, own}};
        bool has_owner = strncmp(routes[i].path, "/jobs/:id", 9) == 0;
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            char job[16], other[16];
            fresh_job(ann, job);
            fresh_job(ann, other);
            snprintf(own, sizeof own, "Authorization: Bearer %s\r\n",
                     api_job_of((firn_job_id)strtol(job, NULL, 10))->token);
            bool is_other = cases[c].role == ACCESS_JOB && !cases[c].is_owner;
            check(&routes[i], cases[c].role, cases[c].is_owner || !has_owner,
                  cases[c].header, is_other ? other : job);
        }
    }
}

/* --- privacy ---------------------------------------------------------------
 */

static void command_and_environment_are_shown_to_the_owner_only(void **state)
{
    (void)state;
    static const char file[] =
        "name: a\nrun: [train, --key=s3cret]\nworkdir: /home/ann\n"
        "env: {API_KEY: s3cret}\ngpus: 1\n";
    char ann[HEADER], bob[HEADER], op[HEADER];
    make_token("ann", "user", "", ann);
    make_token("bob", "user", "", bob);
    make_token("opa", "operator", "", op);
    json_decref(api_ask_with("POST", "/v1/jobs", ann, file, 201));
    const struct {
        const char *header;
        bool sees;
    } cases[] = {{ann, true}, {bob, false}, {op, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *job =
            api_ask_with("GET", "/v1/jobs/a", cases[i].header, "", 200);
        char *text = json_dumps(job, 0);
        assert_int_equal(strstr(text, "s3cret") != NULL, cases[i].sees);
        assert_int_equal(strstr(text, "/home/ann") != NULL, cases[i].sees);
        api_expect(job, "user", "ann");
        free(text);
        json_decref(job);
        assert_int_equal(
            ask_as(cases[i].header, "GET", "/v1/jobs/a/logs?limit=1", ""),
            cases[i].sees ? 200 : 403);
    }
    json_t *error = api_ask_with("POST", "/v1/jobs/a/cancel", bob, "", 403);
    assert_non_null(strstr(api_at(error, "error.text"), "belongs to user ann"));
    json_decref(error);
    json_t *list = api_ask_with("GET", "/v1/jobs", bob, "", 200);
    api_expect(list, "jobs.0.user", "ann");
    char *text = json_dumps(list, 0);
    assert_null(strstr(text, "s3cret"));
    free(text);
    json_decref(list);
}

/* --- tokens ----------------------------------------------------------------
 */

static void a_token_ends_when_it_expires_or_is_revoked(void **state)
{
    (void)state;
    char ann[HEADER], bob[HEADER];
    make_token("ann", "user", "", ann);
    make_token("bob", "user", ", \"for_s\": 1000", bob);
    assert_int_equal(ask_as(bob, "GET", "/v1/jobs", ""), 200);
    api_scene.now_s += 1000;
    assert_int_equal(ask_as(bob, "GET", "/v1/jobs", ""), 401);
    caller_close(&api_scene.caller); /* a refused connection is closed */
    caller_open_path(&api_scene.caller, api_scene.path);
    assert_int_equal(ask_as(ann, "DELETE", "/v1/tokens/2", ""), 403);
    assert_int_equal(ask_as(ann, "DELETE", "/v1/tokens/1", ""), 200);
    assert_int_equal(ask_as(ann, "GET", "/v1/jobs", ""), 401);
    caller_close(&api_scene.caller);
    caller_open_path(&api_scene.caller, api_scene.path);
    json_t *list = api_ask("GET", "/v1/tokens", "", 200);
    api_expect(list, "tokens.0.user", "bob");
    api_expect(list, "tokens.0.token", "-");
    api_expect(list, "tokens.1.id", "-");
    json_decref(list);
}

static void tokens_give_no_more_rights_than_their_maker_has(void **state)
{
    (void)state;
    char ann[HEADER];
    make_token("ann", "user", "", ann);
    assert_int_equal(ask_as(ann, "POST", "/v1/tokens", "{}"), 403);
    api_just("POST", "/v1/tokens", "{\"role\": \"root\"}", 400);
    api_just("POST", "/v1/tokens", "{\"role\": \"job\"}", 400);
    api_just("POST", "/v1/tokens", "{\"for_s\": -1}", 400);
    api_just("POST", "/v1/tokens", "{\"user\": \"\"}", 400);
    json_t *list = api_ask_with("GET", "/v1/tokens", ann, "", 200);
    api_expect(list, "tokens.0.id", "1");
    json_decref(list);
}

/* The header of a browser's session that `header` began. */
static void begin_session(const char *header, char out[HEADER])
{
    char body[128];
    json_t *link = api_ask_with("POST", "/v1/board/links", header, "", 201);
    snprintf(body, sizeof body, "{\"code\": \"%s\"}", api_at(link, "code"));
    json_decref(link);
    json_t *session = api_ask("POST", "/v1/board/sessions", body, 201);
    snprintf(out, HEADER, "Authorization: Bearer %s\r\n",
             api_at(session, "token"));
    json_decref(session);
}

static void a_session_has_the_rights_of_its_token_and_ends_with_it(void **state)
{
    (void)state;
    char eve[HEADER], session[HEADER];
    make_token("eve", "viewer", "", eve);
    begin_session(eve, session);
    json_t *me = api_ask_with("GET", "/v1/whoami", session, "", 200);
    api_expect(me, "user", "eve");
    api_expect(me, "role", "viewer");
    json_decref(me);
    assert_int_equal(ask_as(session, "POST", "/v1/jobs", api_simple), 403);
    assert_int_equal(ask_as(session, "POST", "/v1/tokens", "{}"), 403);
    api_just("DELETE", "/v1/tokens/1", "", 200);
    assert_int_equal(ask_as(session, "GET", "/v1/jobs", ""), 401);
}

static void a_session_makes_no_tokens(void **state)
{
    (void)state;
    char session[HEADER];
    begin_session(NULL, session);
    assert_int_equal(ask_as(session, "GET", "/v1/tokens", ""), 200);
    assert_int_equal(ask_as(session, "POST", "/v1/tokens", "{}"), 403);
}

/* --- the audit -------------------------------------------------------------
 */

static void changes_and_refusals_are_in_the_audit(void **state)
{
    (void)state;
    char ann[HEADER], eve[HEADER];
    make_token("ann", "user", "", ann);
    make_token("eve", "viewer", "", eve);
    json_decref(api_ask_with("POST", "/v1/jobs", ann, api_simple, 201));
    assert_int_equal(ask_as(ann, "GET", "/v1/jobs/1", ""), 200);
    assert_int_equal(ask_as(eve, "POST", "/v1/jobs/1/cancel", ""), 403);
    assert_int_equal(ask_as(ann, "GET", "/v1/audit", ""), 403);
    json_t *audit = api_ask("GET", "/v1/audit", "", 200);
    api_expect(audit, "lines.2.user", "ann");
    api_expect(audit, "lines.2.did", "POST /v1/jobs");
    api_expect(audit, "lines.2.status", "201");
    api_expect(audit, "lines.2.from", "socket");
    api_expect(audit, "lines.2.token", "1");
    api_expect(audit, "lines.3.user", "eve");
    api_expect(audit, "lines.3.role", "viewer");
    api_expect(audit, "lines.3.did", "POST /v1/jobs/1/cancel");
    api_expect(audit, "lines.3.status", "403");
    json_decref(audit);
    json_t *tail = api_ask("GET", "/v1/audit?tail=1", "", 200);
    api_expect(tail, "lines.0.did", "GET /v1/audit"); /* ann's, refused */
    api_expect(tail, "lines.1.did", "-");
    json_decref(tail);
}

static void an_audit_that_was_moved_away_goes_on_in_a_new_file(void **state)
{
    (void)state;
    char path[300], moved[300];
    snprintf(path, sizeof path, "%s/audit.log", folder_path());
    snprintf(moved, sizeof moved, "%s/audit.old", folder_path());
    api_just("POST", "/v1/jobs", api_simple, 201);
    assert_int_equal(rename(path, moved), 0);
    api_just("POST", "/v1/jobs/1/cancel", "", 200);
    json_t *audit = api_ask("GET", "/v1/audit", "", 200);
    api_expect(audit, "lines.0.did", "POST /v1/jobs/1/cancel");
    api_expect(audit, "lines.1.did", "-");
    json_decref(audit);
    remove(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_route_obeys_the_table_for_every_role),
        CASE(command_and_environment_are_shown_to_the_owner_only),
        CASE(a_token_ends_when_it_expires_or_is_revoked),
        CASE(tokens_give_no_more_rights_than_their_maker_has),
        CASE(a_session_has_the_rights_of_its_token_and_ends_with_it),
        CASE(a_session_makes_no_tokens),
        CASE(changes_and_refusals_are_in_the_audit),
        CASE(an_audit_that_was_moved_away_goes_on_in_a_new_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
