/* test_api_board.c - the files of the board, one-time links and sessions, over
 * TCP as a browser calls them.
 */
#include "apiscene.h"
#include "base/buf.h"
#include "daemon/boardfiles.h"
#include "daemon/boardsession.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct caller dial(void)
{
    struct caller c = {.pump = api_scene_turn, .arg = &api_scene};
    caller_open_port(&c, http_port(api_scene.http));
    return c;
}

/* One request over a connection of its own. */
static struct reply ask(const char *method, const char *target,
                        const char *headers, const char *body)
{
    struct caller c = dial();
    struct reply r = caller_ask(&c, method, target, headers, body);
    caller_close(&c);
    return r;
}

static void expect_status(const char *method, const char *target,
                          const char *headers, const char *body, int status)
{
    struct reply r = ask(method, target, headers, body);
    if (r.status != status)
        fail_msg("%s %s: %d %s", method, target, r.status, r.body);
    reply_release(&r);
}

static void expect_header(const struct reply *r, const char *line)
{
    if (strstr(r->head, line) == NULL)
        fail_msg("'%s' is not in\n%s", line, r->head);
}

static void the_page_needs_no_token_and_runs_no_foreign_script(void **state)
{
    (void)state;
    struct reply r = ask("GET", "/", NULL, "");
    assert_int_equal(r.status, 200);
    expect_header(&r, "Content-Type: text/html; charset=utf-8\r\n");
    expect_header(&r, "Content-Security-Policy: default-src 'none'; "
                      "script-src 'self'; style-src 'self'; ");
    expect_header(&r, "frame-ancestors 'none'");
    expect_header(&r, "Cache-Control: no-cache\r\n");
    expect_header(&r, "Referrer-Policy: no-referrer\r\n");
    expect_header(&r, "X-Content-Type-Options: nosniff\r\n");
    assert_null(strstr(r.head, "no-store"));
    assert_non_null(strstr(r.body, "<!doctype html>"));
    reply_release(&r);
}

static void only_files_of_the_board_and_nothing_else_are_open(void **state)
{
    (void)state;
    static const char *const closed[] = {"/jobs", "/nodes",   "/events",
                                         "/plan", "/metrics", "/health"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        expect_status("GET", closed[i], NULL, "", 401);
    expect_status("GET", "/board/nothing.js", NULL, "", 404);
    expect_status("GET", "/board/a/b", NULL, "", 401);
    expect_status("POST", "/board/links", NULL, "", 401);
    expect_status("POST", "/board/sign-out", NULL, "", 401);
    expect_status("GET", "/", "Authorization: Bearer wrong-token\r\n", "", 401);
}

static void a_file_that_the_browser_has_is_not_sent_again(void **state)
{
    (void)state;
    char header[128];
    size_t n;
    const struct board_file *all = board_files(&n);
    for (size_t i = 0; i < n; i++) {
        char target[160];
        snprintf(target, sizeof target, "/board/%s", all[i].name);
        struct reply r = ask("GET", target, NULL, "");
        assert_int_equal(r.status, 200);
        assert_int_equal(r.nbody, all[i].nplain);
        assert_memory_equal(r.body, all[i].plain, all[i].nplain);
        assert_null(strstr(r.head, "Content-Encoding"));
        reply_release(&r);
        snprintf(header, sizeof header, "If-None-Match: W/%s\r\n", all[i].tag);
        r = ask("GET", target, header, "");
        assert_int_equal(r.status, 304);
        assert_int_equal(r.nbody, 0);
        reply_release(&r);
    }
    expect_status("GET", "/", "If-None-Match: \"another\"\r\n", "", 200);
}

static void a_file_is_compressed_for_those_who_accept_it(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool is_packed;
    } cases[] = {{"gzip, deflate, br", true}, {"br, gzip;q=0.5", true},
                 {"deflate,gzip", true},      {"gzip;q=0", false},
                 {"gzip; q=0.0", false},      {"gzipped", false},
                 {"x-gzip", false},           {"br", false}};
    const struct board_file *file = board_file("index.html");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[128];
        snprintf(header, sizeof header, "Accept-Encoding: %s\r\n",
                 cases[i].accept);
        struct reply r = ask("GET", "/", header, "");
        bool is_packed = strstr(r.head, "Content-Encoding: gzip\r\n") != NULL;
        if (is_packed != cases[i].is_packed)
            fail_msg("'%s' is answered with\n%s", cases[i].accept, r.head);
        assert_int_equal(r.nbody, is_packed ? file->npacked : file->nplain);
        expect_header(&r, "Vary: Accept-Encoding\r\n");
        reply_release(&r);
    }
}

/* A code, by an operator on the socket, as the body that exchanges it. */
static void draw_code(char body[128])
{
    json_t *link = api_ask("POST", "/board/links", "", 201);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", http_port(api_scene.http));
    api_expect(link, "url", url);
    api_expect(link, "valid_s", "60");
    snprintf(body, 128, "{\"code\": \"%s\"}", api_at(link, "code"));
    json_decref(link);
}

/* The header with the token of a new session. */
static void sign_in(char header[128])
{
    char body[128];
    json_error_t what;
    draw_code(body);
    struct reply r = ask("POST", "/board/sessions", NULL, body);
    assert_int_equal(r.status, 201);
    json_t *session = json_loads(r.body, 0, &what);
    assert_non_null(session);
    snprintf(header, 128, "Authorization: Bearer %s\r\n",
             api_at(session, "token"));
    json_decref(session);
    reply_release(&r);
}

static void a_link_signs_one_browser_in_and_no_second_one(void **state)
{
    (void)state;
    char body[128], header[128];
    draw_code(body);
    expect_status("POST", "/v1/board/sessions", NULL, body, 201);
    expect_status("POST", "/board/sessions", NULL, body, 401);
    expect_status("POST", "/board/sessions", NULL, "{\"code\": \"\"}", 401);
    expect_status("POST", "/board/sessions", NULL, "{\"code\": 7}", 401);
    expect_status("POST", "/board/sessions", NULL, "{}", 401);
    expect_status("POST", "/board/sessions", NULL, "no JSON", 400);
    sign_in(header);
    expect_status("GET", "/jobs", header, "", 200);
    expect_status("POST", "/jobs", header, api_simple, 201);
}

static void a_session_ends_when_the_browser_signs_out(void **state)
{
    (void)state;
    char one[128], other[128];
    sign_in(one);
    sign_in(other);
    expect_status("POST", "/board/sign-out", one, "", 200);
    expect_status("GET", "/jobs", one, "", 401);
    expect_status("GET", "/jobs", other, "", 200);
}

static void the_token_of_a_job_makes_no_link(void **state)
{
    (void)state;
    char header[128];
    api_just("POST", "/jobs", api_simple, 201);
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n",
             api_job_of(1)->token);
    expect_status("POST", "/board/links", header, "", 403);
}

/* --- without a server ---------------------------------------------------- */

static void codes_and_sessions_end_in_time(void **state)
{
    (void)state;
    struct http_caller ann = {
        .role = ACCESS_OPERATOR, .job = -1, .user = "ann"};
    struct http_caller found = {.job = -1, .address = "10.0.0.5"};
    char code[BOARD_SECRET], late[BOARD_SECRET], token[BOARD_SECRET];
    struct boardsessions *all = boardsessions_new();
    boardsessions_code(all, &ann, 100, code);
    boardsessions_code(all, &ann, 100, late);
    assert_int_equal(strlen(code), 32);
    assert_string_not_equal(code, late);
    assert_true(boardsessions_open(all, code, 160, token));
    assert_false(boardsessions_open(all, late, 160.1, token + 0));
    assert_false(boardsessions_open(all, late, 101, token + 0));
    assert_true(boardsessions_find(all, token, 160 + BOARD_SESSION_S, &found));
    assert_string_equal(found.user, "ann");
    assert_string_equal(found.address, "10.0.0.5");
    assert_int_equal(found.role, ACCESS_OPERATOR);
    assert_false(boardsessions_find(all, token, 161 + BOARD_SESSION_S, &found));
    assert_false(boardsessions_find(all, code, 170, &found));
    boardsessions_free(all);
}

static void the_oldest_session_makes_room_for_a_new_one(void **state)
{
    (void)state;
    struct http_caller ann = {
        .role = ACCESS_OPERATOR, .job = -1, .user = "ann"};
    char code[BOARD_SECRET], first[BOARD_SECRET], token[BOARD_SECRET];
    struct boardsessions *all = boardsessions_new();
    boardsessions_code(all, &ann, 1, code);
    assert_true(boardsessions_open(all, code, 1, first));
    for (int i = 0; i < 64; i++) {
        assert_true(boardsessions_find(all, first, 2 + i, &ann));
        boardsessions_code(all, &ann, 2 + i, code);
        assert_true(boardsessions_open(all, code, 2 + i, token));
    }
    assert_false(boardsessions_find(all, first, 70, &ann));
    assert_true(boardsessions_find(all, token, 70, &ann));
    boardsessions_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_page_needs_no_token_and_runs_no_foreign_script),
        CASE(only_files_of_the_board_and_nothing_else_are_open),
        CASE(a_file_that_the_browser_has_is_not_sent_again),
        CASE(a_file_is_compressed_for_those_who_accept_it),
        CASE(a_link_signs_one_browser_in_and_no_second_one),
        CASE(a_session_ends_when_the_browser_signs_out),
        CASE(the_token_of_a_job_makes_no_link),
        cmocka_unit_test(codes_and_sessions_end_in_time),
        cmocka_unit_test(the_oldest_session_makes_room_for_a_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
