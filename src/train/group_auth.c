/* group_auth.c - see groupauth.h.
 *
 * Each state that waits for a message has a line in `waits`: where its bytes
 * go, how many they are, and what a complete message does. Before the key is
 * proven an answerer reads only the fixed fields of a hello; its claim is
 * judged afterwards, so that only members learn what is wrong.
 *
 * Numbers are little endian; `order` is as this machine has it, since gradients
 * travel as they lie in memory and hosts of another byte order are refused.
 *
 * Without libsodium nothing here can prove anything, and
 * firn_grp_auth_ready() says so before a connection is made.
 */
#include "train/groupauth.h"
#include <stdio.h>
#include <string.h>
#ifdef FIRN_WITH_SODIUM
#include <sodium.h>
#endif

static const char hello_word[] = {'f', 'i', 'r', 'n', 'g', 'r', 'p', '2'};
static const char answer_word[] = {'f', 'i', 'r', 'n', 'h', 'e', 'r', 'e'};
static const uint32_t order = 0x01020304;

/* --- libsodium ----------------------------------------------------------- */

struct span {
    const void *at;
    size_t n;
};

#ifdef FIRN_WITH_SODIUM
_Static_assert(GRP_KEY == crypto_auth_hmacsha512256_KEYBYTES, "size of a key");
_Static_assert(GRP_MAC == crypto_auth_hmacsha512256_BYTES, "size of a MAC");

enum firn_status firn_grp_auth_ready(struct firn_error *err)
{
    if (sodium_init() >= 0)
        return FIRN_OK;
    return firn_fail(err, FIRN_EIO, "libsodium cannot be initialised");
}

/* The name with its 0 goes before the rest: no name is the start of another. */
static void mac_of(unsigned char out[GRP_MAC], const unsigned char key[GRP_KEY],
                   const char *name, const struct span *span, size_t nspans)
{
    crypto_auth_hmacsha512256_state state;
    crypto_auth_hmacsha512256_init(&state, key, GRP_KEY);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)name,
                                     strlen(name) + 1);
    for (size_t i = 0; i < nspans; i++)
        crypto_auth_hmacsha512256_update(&state, span[i].at, span[i].n);
    crypto_auth_hmacsha512256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

static bool is_same(const unsigned char *a, const unsigned char *b)
{
    return sodium_memcmp(a, b, GRP_MAC) == 0;
}

static void draw_nonce(unsigned char *at)
{
    randombytes_buf(at, GRP_NONCE);
}

void firn_grp_key_wipe(void *bytes, size_t n)
{
    sodium_memzero(bytes, n);
}
#else
enum firn_status firn_grp_auth_ready(struct firn_error *err)
{
    return firn_fail(err, FIRN_EINVAL,
                     "libfirn_train was built without libsodium: processes on "
                     "several hosts cannot prove who they are");
}

static void mac_of(unsigned char out[GRP_MAC], const unsigned char key[GRP_KEY],
                   const char *name, const struct span *span, size_t nspans)
{
    (void)key, (void)name, (void)span, (void)nspans;
    memset(out, 0, GRP_MAC);
}

static bool is_same(const unsigned char *a, const unsigned char *b)
{
    (void)a, (void)b;
    return false;
}

static void draw_nonce(unsigned char *at)
{
    memset(at, 0, GRP_NONCE);
}

void firn_grp_key_wipe(void *bytes, size_t n)
{
    memset(bytes, 0, n);
}
#endif

bool firn_grp_key_read(unsigned char key[GRP_KEY], const char *hex)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (strlen(hex) != 2 * (size_t)GRP_KEY)
        return false;
    for (size_t i = 0; i < 2 * (size_t)GRP_KEY; i++) {
        const char *at = strchr(digits, hex[i]);
        if (at == NULL)
            return false;
        unsigned value = (unsigned)(at - digits) % 16;
        key[i / 2] =
            (unsigned char)(i % 2 == 0 ? value << 4 : key[i / 2] | value);
    }
    return true;
}

uint64_t firn_grp_key_number(const unsigned char key[GRP_KEY],
                             const void *bytes, size_t n)
{
    unsigned char mac[GRP_MAC];
    uint64_t number;
    mac_of(mac, key, "number", &(struct span){bytes, n}, 1);
    memcpy(&number, mac, sizeof number);
    return number;
}

/* --- the messages -------------------------------------------------------- */

static void put(unsigned char *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *at, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static int get_int(const unsigned char *at)
{
    uint64_t value = get(at, 4);
    return value <= 0x7fffffff ? (int)value : -1;
}

static void write_hello(unsigned char *at, const struct grp_claim *c)
{
    memcpy(at, hello_word, 8);
    memcpy(at + 8, &order, 4);
    put(at + 12, (uint64_t)c->kind, 4);
    put(at + 16, c->name, 8);
    put(at + 24, c->shape, 8);
    put(at + 32, (uint64_t)c->world, 4);
    put(at + 36, (uint64_t)c->first, 4);
    put(at + 40, (uint64_t)c->nprocs, 4);
    put(at + 44, (uint64_t)c->port, 4);
    put(at + 48, (uint64_t)c->called, 4);
    put(at + 52, 0, 4);
    draw_nonce(at + 56);
}

static struct grp_claim read_hello(const unsigned char *at)
{
    return (struct grp_claim){.kind = get_int(at + 12),
                              .name = get(at + 16, 8),
                              .shape = get(at + 24, 8),
                              .world = get_int(at + 32),
                              .first = get_int(at + 36),
                              .nprocs = get_int(at + 40),
                              .port = get_int(at + 44),
                              .called = get_int(at + 48)};
}

static void answer_mac(const struct grp_shake *s, unsigned char out[GRP_MAC])
{
    struct span span[] = {{s->hello, sizeof s->hello},
                          {s->answer, SHAKE_ANSWER_BYTES - GRP_MAC}};
    mac_of(out, s->key, "answer", span, 2);
}

static void proof_mac(const struct grp_shake *s, unsigned char out[GRP_MAC])
{
    struct span span[] = {{s->hello, sizeof s->hello},
                          {s->answer, sizeof s->answer}};
    mac_of(out, s->key, "proof", span, 2);
}

static void verdict_mac(const struct grp_shake *s, unsigned char out[GRP_MAC])
{
    struct span span[] = {{s->hello, sizeof s->hello},
                          {s->answer, sizeof s->answer},
                          {s->proof, sizeof s->proof},
                          {s->verdict, SHAKE_VERDICT_BYTES - GRP_MAC}};
    mac_of(out, s->key, "verdict", span, 4);
}

/* --- what a whole message does ------------------------------------------- */

typedef struct shake_out took(struct grp_shake *s);
static const struct shake_out nothing = {NULL, 0};

static struct shake_out took_hello(struct grp_shake *s)
{
    if (memcmp(s->hello, hello_word, 8) != 0 ||
        memcmp(s->hello + 8, &order, 4) != 0) {
        s->state = SHAKE_NO_MEMBER;
        return nothing;
    }
    s->claim = read_hello(s->hello);
    memcpy(s->answer, answer_word, 8);
    draw_nonce(s->answer + 8);
    answer_mac(s, s->answer + SHAKE_ANSWER_BYTES - GRP_MAC);
    s->state = SHAKE_WANTS_PROOF;
    return (struct shake_out){s->answer, sizeof s->answer};
}

static struct shake_out took_answer(struct grp_shake *s)
{
    unsigned char mac[GRP_MAC];
    answer_mac(s, mac);
    if (memcmp(s->answer, answer_word, 8) != 0 ||
        !is_same(mac, s->answer + SHAKE_ANSWER_BYTES - GRP_MAC)) {
        s->state = SHAKE_NO_MEMBER;
        return nothing;
    }
    proof_mac(s, s->proof);
    s->state = SHAKE_WANTS_VERDICT;
    return (struct shake_out){s->proof, sizeof s->proof};
}

static struct shake_out took_proof(struct grp_shake *s)
{
    unsigned char mac[GRP_MAC];
    proof_mac(s, mac);
    s->state = is_same(mac, s->proof) ? SHAKE_JUDGE : SHAKE_NO_MEMBER;
    return nothing;
}

static struct shake_out took_verdict(struct grp_shake *s)
{
    unsigned char mac[GRP_MAC];
    verdict_mac(s, mac);
    if (!is_same(mac, s->verdict + SHAKE_VERDICT_BYTES - GRP_MAC)) {
        s->state = SHAKE_NO_MEMBER;
        return nothing;
    }
    s->state = get(s->verdict, 4) == 0 ? SHAKE_DONE : SHAKE_REFUSED;
    memcpy(s->why, s->verdict + 4, GRP_WHY);
    s->why[GRP_WHY - 1] = '\0';
    return nothing;
}

/* The message that a state waits for. */
static const struct {
    size_t at, n;
    took *took;
} waits[] = {
    [SHAKE_WANTS_HELLO] = {offsetof(struct grp_shake, hello), SHAKE_HELLO_BYTES,
                           took_hello},
    [SHAKE_WANTS_PROOF] = {offsetof(struct grp_shake, proof), SHAKE_PROOF_BYTES,
                           took_proof},
    [SHAKE_JUDGE] = {0, 0, NULL},
    [SHAKE_WANTS_ANSWER] = {offsetof(struct grp_shake, answer),
                            SHAKE_ANSWER_BYTES, took_answer},
    [SHAKE_WANTS_VERDICT] = {offsetof(struct grp_shake, verdict),
                             SHAKE_VERDICT_BYTES, took_verdict},
    [SHAKE_DONE] = {0, 0, NULL},
    [SHAKE_NO_MEMBER] = {0, 0, NULL},
    [SHAKE_REFUSED] = {0, 0, NULL},
};

/* --- the calls ----------------------------------------------------------- */

static void begin(struct grp_shake *s, const unsigned char *key,
                  enum shake_state state)
{
    memset(s, 0, sizeof *s);
    s->key = key;
    s->state = state;
}

struct shake_out firn_grp_shake_call(struct grp_shake *s,
                                     const unsigned char key[GRP_KEY],
                                     const struct grp_claim *claim)
{
    begin(s, key, SHAKE_WANTS_ANSWER);
    s->claim = *claim;
    write_hello(s->hello, claim);
    return (struct shake_out){s->hello, sizeof s->hello};
}

void firn_grp_shake_expect(struct grp_shake *s,
                           const unsigned char key[GRP_KEY])
{
    begin(s, key, SHAKE_WANTS_HELLO);
}

size_t firn_grp_shake_room(struct grp_shake *s, unsigned char **at)
{
    *at = (unsigned char *)s + waits[s->state].at + s->nread;
    return waits[s->state].n - s->nread;
}

struct shake_out firn_grp_shake_take(struct grp_shake *s, size_t n)
{
    s->nread += n;
    if (waits[s->state].n == 0 || s->nread < waits[s->state].n)
        return nothing;
    s->nread = 0;
    return waits[s->state].took(s);
}

struct shake_out firn_grp_shake_judge(struct grp_shake *s, const char *why)
{
    put(s->verdict, why != NULL, 4);
    if (why != NULL)
        snprintf(s->why, sizeof s->why, "%s", why);
    memcpy(s->verdict + 4, s->why, GRP_WHY);
    verdict_mac(s, s->verdict + SHAKE_VERDICT_BYTES - GRP_MAC);
    s->state = why == NULL ? SHAKE_DONE : SHAKE_REFUSED;
    return (struct shake_out){s->verdict, sizeof s->verdict};
}
