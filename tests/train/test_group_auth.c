/* test_group_auth.c - the handshake of a group, and callers before they are
 * known.
 *
 * A handshake is two structs that are handed each other's bytes; no socket is
 * needed to replay, to send back or to change them.
 */
#define _GNU_SOURCE
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "train/groupwork.h"
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LOOKS = 6000 };
static const char other_key[] = "ff112233445566778899aabbccddeeff"
                                "fedcba9876543210a5a5a5a50f0f0f0f";

/* Hands bytes over; returns what the other answers. */
static struct shake_out feed(struct grp_shake *to, struct shake_out bytes)
{
    struct shake_out out = {NULL, 0};
    while (bytes.n > 0) {
        unsigned char *at;
        size_t room = firn_grp_shake_room(to, &at);
        size_t n = room < bytes.n ? room : bytes.n;
        if (n == 0)
            break;
        memcpy(at, bytes.at, n);
        out = firn_grp_shake_take(to, n);
        bytes.at += n;
        bytes.n -= n;
    }
    return out;
}

static void read_key(unsigned char key[GRP_KEY], const char *hex)
{
    assert_int_equal(firn_grp_auth_ready(NULL), FIRN_OK);
    assert_true(firn_grp_key_read(key, hex));
}

static const struct grp_claim some_claim = {1, 11, 12, 2, 1, 1, 4000, 5000};

/* Field by field: the bytes between and behind fields are not the claim's. */
static void assert_claim(const struct grp_claim *a, const struct grp_claim *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->name == b->name && a->shape == b->shape);
    assert_int_equal(a->world, b->world);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->nprocs, b->nprocs);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->called, b->called);
}

static void members_know_each_other_and_the_claim_arrives(void **state)
{
    (void)state;
    unsigned char key[GRP_KEY];
    struct grp_shake a, b;
    read_key(key, groupscene_key);
    firn_grp_shake_expect(&b, key);
    struct shake_out out = firn_grp_shake_call(&a, key, &some_claim);
    out = feed(&a, feed(&b, out));
    feed(&b, out);
    assert_int_equal(b.state, SHAKE_JUDGE);
    assert_claim(&b.claim, &some_claim);
    struct grp_shake refused = a, refusing = b;
    feed(&a, firn_grp_shake_judge(&b, NULL));
    assert_int_equal(a.state, SHAKE_DONE);
    assert_int_equal(b.state, SHAKE_DONE);
    feed(&refused, firn_grp_shake_judge(&refusing, "a reason"));
    assert_int_equal(refused.state, SHAKE_REFUSED);
    assert_string_equal(refused.why, "a reason");
}

static void another_key_is_no_member_on_either_side(void **state)
{
    (void)state;
    unsigned char key[GRP_KEY], other[GRP_KEY];
    struct grp_shake a, b;
    read_key(key, groupscene_key);
    read_key(other, other_key);
    firn_grp_shake_expect(&b, key);
    struct shake_out out =
        feed(&b, firn_grp_shake_call(&a, other, &some_claim));
    assert_int_equal(feed(&a, out).n, 0);
    assert_int_equal(a.state, SHAKE_NO_MEMBER);
    unsigned char guess[SHAKE_PROOF_BYTES] = {0};
    feed(&b, (struct shake_out){guess, sizeof guess});
    assert_int_equal(b.state, SHAKE_NO_MEMBER);
}

static void a_recorded_handshake_cannot_be_replayed(void **state)
{
    (void)state;
    unsigned char key[GRP_KEY];
    struct grp_shake a, b, again;
    read_key(key, groupscene_key);
    firn_grp_shake_expect(&b, key);
    struct shake_out out = firn_grp_shake_call(&a, key, &some_claim);
    feed(&b, feed(&a, feed(&b, out)));
    assert_int_equal(b.state, SHAKE_JUDGE);
    firn_grp_shake_expect(&again, key); /* the caller's bytes, once more */
    feed(&again, (struct shake_out){a.hello, sizeof a.hello});
    feed(&again, (struct shake_out){a.proof, sizeof a.proof});
    assert_int_equal(again.state, SHAKE_NO_MEMBER);
    (void)firn_grp_shake_call(&again, key, &some_claim);
    feed(&again, (struct shake_out){b.answer, sizeof b.answer});
    assert_int_equal(again.state, SHAKE_NO_MEMBER); /* the answerer's */
}

static void bytes_that_are_sent_back_prove_nothing(void **state)
{
    (void)state;
    unsigned char key[GRP_KEY];
    struct grp_shake a, b;
    read_key(key, groupscene_key);
    struct shake_out hello = firn_grp_shake_call(&a, key, &some_claim);
    feed(&a, hello);
    assert_int_equal(a.state, SHAKE_NO_MEMBER);
    /* The MAC of an answerer is no proof of a caller. */
    firn_grp_shake_expect(&b, key);
    hello = firn_grp_shake_call(&a, key, &some_claim);
    struct shake_out answer = feed(&b, hello);
    feed(&b, (struct shake_out){answer.at + 8 + GRP_NONCE, GRP_MAC});
    assert_int_equal(b.state, SHAKE_NO_MEMBER);
}

/* One byte after the other, of each of the four messages. */
static void a_changed_byte_of_any_message_is_noticed(void **state)
{
    (void)state;
    unsigned char key[GRP_KEY];
    read_key(key, groupscene_key);
    size_t n = SHAKE_HELLO_BYTES + SHAKE_ANSWER_BYTES + SHAKE_PROOF_BYTES +
               SHAKE_VERDICT_BYTES;
    for (size_t i = 0; i < n; i++) {
        struct grp_shake a, b;
        unsigned char copy[256];
        size_t at = i;
        firn_grp_shake_expect(&b, key);
        struct shake_out out = firn_grp_shake_call(&a, key, &some_claim);
        for (int turn = 0; turn < 4 && out.n > 0; turn++) {
            memcpy(copy, out.at, out.n);
            if (at < out.n)
                copy[at] ^= 0x10;
            at = at < out.n ? SIZE_MAX : at == SIZE_MAX ? at : at - out.n;
            out =
                feed(turn % 2 == 0 ? &b : &a, (struct shake_out){copy, out.n});
            if (b.state == SHAKE_JUDGE)
                out = firn_grp_shake_judge(&b, NULL);
        }
        if (a.state == SHAKE_DONE)
            print_message("byte %zu was changed unnoticed\n", i);
        assert_int_not_equal(a.state, SHAKE_DONE);
    }
}

/* --- callers ------------------------------------------------------------- */

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < LOOKS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        FORKS_CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        firn_grp_nap(0.01);
    }
    FORKS_CHECK(false);
    return -1;
}

static void refuse_all(void *arg, const struct grp_claim *claim, int fd)
{
    (void)arg;
    (void)claim;
    close(fd);
}

static const char *no_reason(void *arg, const struct grp_claim *claim)
{
    (void)arg;
    (void)claim;
    return NULL;
}

/* 1: open, 0: closed by the other side. */
static int is_open(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n < 0 && errno == EAGAIN;
}

static void of_too_many_callers_the_oldest_are_dropped(void **state)
{
    (void)state;
    enum { CALLERS = 100, KEPT = 64 };
    unsigned char key[GRP_KEY];
    int fd[CALLERS], port = forks_free_port();
    read_key(key, groupscene_key);
    struct grp_door door = {.listener = firn_grp_listen("127.0.0.1", port),
                            .key = key,
                            .judge = no_reason,
                            .let_in = refuse_all};
    struct grp_callers *callers = firn_grp_callers_new();
    assert_true(door.listener >= 0 && callers != NULL);
    for (int i = 0; i < CALLERS; i++)
        fd[i] = connect_to(port);
    for (int i = 0; i < LOOKS && is_open(fd[CALLERS - KEPT - 1]); i++)
        firn_grp_callers_hear(callers, &door, 10);
    assert_int_equal(firn_grp_callers_refused(callers), CALLERS - KEPT);
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(is_open(fd[i]), i >= CALLERS - KEPT);
        close(fd[i]);
    }
    firn_grp_callers_free(callers);
    close(door.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_know_each_other_and_the_claim_arrives),
        cmocka_unit_test(another_key_is_no_member_on_either_side),
        cmocka_unit_test(a_recorded_handshake_cannot_be_replayed),
        cmocka_unit_test(bytes_that_are_sent_back_prove_nothing),
        cmocka_unit_test(a_changed_byte_of_any_message_is_noticed),
        cmocka_unit_test(of_too_many_callers_the_oldest_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
