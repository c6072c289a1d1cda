/* test_http_head.c - heads that two readers can take for different requests are
 * refused, and what stands behind them is never read as a request.
 */
#include "httpscene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define POST_ECHO "POST /echo HTTP/1.1\r\nHost: x\r\n"
#define WHO       "GET /who HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED   POST_ECHO "Transfer-Encoding: chunked\r\n\r\n"

/* A request and the answer's status; with a NUL for each '@'. Behind each the
 * head of another request is sent, which must not be answered. */
struct shape {
    const char *text;
    int status;
};

static void send_shape(struct caller *c, const char *text)
{
    static const char behind[] = "\r\n" WHO "\r\n";
    char bytes[4096];
    size_t n = strlen(text);
    assert_true(n < sizeof bytes);
    memcpy(bytes, text, n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = bytes[i] == '@' ? '\0' : bytes[i];
    caller_send(c, bytes, n);
    caller_send(c, behind, sizeof behind - 1);
}

static void expect_refusals(const struct shape *shapes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct caller c = http_dial();
        send_shape(&c, shapes[i].text);
        struct reply r = caller_reply(&c);
        if (r.status != shapes[i].status)
            fail_msg("status %d, not %d, for: %s", r.status, shapes[i].status,
                     shapes[i].text);
        reply_release(&r);
        r = caller_reply(&c);
        if (r.status != 0)
            fail_msg("a second answer (%d) to: %s", r.status, shapes[i].text);
        reply_release(&r);
        caller_close(&c);
    }
    assert_int_equal(http_scene.ncalls, 0);
}

static void a_body_of_two_lengths_is_refused(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {POST_ECHO "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "0\r\n\r\n",
         400},
        {POST_ECHO "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
                   "0\r\n\r\n",
         400},
        {POST_ECHO "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400},
        {POST_ECHO "content-length: 5\r\nCONTENT-LENGTH: 0\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 5, 5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 5\r\n 5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: +5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: -5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 0x5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 5.0\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: \r\n\r\nhello", 400},
        {POST_ECHO "Content-Length : 5\r\n\r\nhello", 400},
        {POST_ECHO "Content-Length: 18446744073709551621\r\n\r\nhello", 413},
    };
    expect_refusals(shapes, sizeof shapes / sizeof *shapes);
}

static void an_encoding_that_is_not_chunked_is_refused(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {POST_ECHO "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
        {POST_ECHO "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501},
        {POST_ECHO "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
        {POST_ECHO "Transfer-Encoding: chunked\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
        {POST_ECHO "Transfer-Encoding: chunked\r\n"
                   "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400},
    };
    expect_refusals(shapes, sizeof shapes / sizeof *shapes);
}

static void a_malformed_chunk_is_refused(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {CHUNKED "-5\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "+5\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED " 5\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "5 \r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "g\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "\r\nhello\r\n0\r\n\r\n", 400},
        {CHUNKED "5\r\nhelloXX0\r\n\r\n", 400},
        {CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n", 413},
    };
    expect_refusals(shapes, sizeof shapes / sizeof *shapes);
}

static void malformed_header_names_and_values_are_refused(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {WHO "X-A : 1\r\n\r\n", 400},
        {WHO "X A: 1\r\n\r\n", 400},
        {WHO "no colon\r\n\r\n", 400},
        {WHO "X-A: a\r\n b\r\n\r\n", 400},
        {WHO "X-A:\r\n\tb\r\n\r\n", 400},
        {WHO "X-A: a\r\n Content-Length: 5\r\n\r\n", 400},
        {"GET /who HTTP/1.1\r\n X: 1\r\nHost: x\r\n\r\n", 400},
        {WHO "X@A: a\r\n\r\n", 400},
        {WHO "X-A: a\rb\r\n\r\n", 400},
        {WHO "X-A: a\x7f\r\n\r\n", 400},
        {WHO "Host: y\r\n\r\n", 400},
        {WHO "Authorization: Bearer the-token-of-job-seven\r\n"
             "Authorization: Bearer an-operator-token-of-27-bytes\r\n\r\n",
         400},
    };
    expect_refusals(shapes, sizeof shapes / sizeof *shapes);
}

static void other_versions_of_http_are_refused(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {"GET /who\r\n\r\n", 400},
        {"GET /who HTTP/0.9\r\n\r\n", 505},
        {"GET /who HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"GET /who HTTP/1.1\r\n\r\n", 400},
    };
    expect_refusals(shapes, sizeof shapes / sizeof *shapes);
}

static int ask_with_headers(int n)
{
    struct caller c = http_dial();
    char line[32];
    caller_send(&c, WHO, strlen(WHO));
    for (int i = 1; i < n; i++) {
        int len = snprintf(line, sizeof line, "X-%d: 1\r\n", i);
        caller_send(&c, line, (size_t)len);
    }
    caller_send(&c, "\r\n", 2);
    struct reply r = caller_reply(&c);
    int status = r.status;
    reply_release(&r);
    caller_close(&c);
    return status;
}

static void a_request_has_at_most_a_hundred_headers(void **state)
{
    (void)state;
    assert_int_equal(ask_with_headers(100), 200);
    assert_int_equal(ask_with_headers(101), 431);
    assert_int_equal(ask_with_headers(1500), 431);
}

/* What RFC 9112 lets a server read, and ours reads in one way. */
static void unusual_but_unambiguous_heads_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *text, *body;
    } clear[] = {
        {CHUNKED "5\r\nhello\r\n0\r\n\r\n", "hello"},
        {CHUNKED "5;a=b\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n", "hello"},
        {POST_ECHO "transfer-encoding: CHUNKED\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
         "he"},
        {"GET /query HTTP/1.1\r\nHost:x\r\nX-Word:  \ta b\r\n\r\n", "-|a b"},
        {"GET /query HTTP/1.1\r\nHost: x\r\nX-Empty:\r\n: 1\r\n\r\n", "-|-"},
        {"POST /echo HTTP/1.1\nHost: x\nContent-Length: 2\n\nhi", "hi"},
    };
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++) {
        struct caller c = http_dial();
        caller_send(&c, clear[i].text, strlen(clear[i].text));
        http_expect(caller_reply(&c), 200, clear[i].body);
        caller_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_body_of_two_lengths_is_refused),
        CASE(an_encoding_that_is_not_chunked_is_refused),
        CASE(a_malformed_chunk_is_refused),
        CASE(malformed_header_names_and_values_are_refused),
        CASE(other_versions_of_http_are_refused),
        CASE(a_request_has_at_most_a_hundred_headers),
        CASE(unusual_but_unambiguous_heads_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
