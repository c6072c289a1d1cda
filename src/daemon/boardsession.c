/* boardsession.c - one-time codes and sessions of browsers, in memory.
 *
 * A code and a token are 128 random bits as hexadecimal digits. Only their
 * hashes are kept, so that a core dump holds no key of a session. A restart of
 * firnd ends all sessions; people sign in again.
 *
 * The token goes in a header and not in a cookie: a browser adds it to no
 * request by itself, so that a foreign page, or a foreign name that resolves to
 * this address, can do nothing with it.
 *
 * (1) A code opens one session at most, and none when BOARD_CODE_S are over.
 * (2) There are at most KEPT codes and KEPT sessions; the oldest makes room.
 * (3) A comparison takes the same time whatever the token.
 *
 * Cost: a hash and KEPT comparisons of 32 bytes for each request that has a
 * session's token.
 */
#include "daemon/boardsession.h"
#include "base/mem.h"
#include "base/str.h"
#include <sodium.h>
#include <string.h>

enum { KEPT = 64, HASH = 32 };

struct kept {
    unsigned char hash[HASH];
    double until_s; /* 0: unused place */
    struct http_caller caller;
};

struct boardsessions {
    struct kept codes[KEPT], sessions[KEPT];
};

struct boardsessions *boardsessions_new(void)
{
    if (sodium_init() < 0)
        FIRN_BUG("libsodium cannot start");
    return mem_new(1, sizeof(struct boardsessions));
}

void boardsessions_free(struct boardsessions *all)
{
    if (all != NULL)
        sodium_memzero(all, sizeof *all);
    mem_free(all);
}

static void hash_of(const char *secret, unsigned char out[HASH])
{
    crypto_generichash(out, HASH, (const unsigned char *)secret, strlen(secret),
                       NULL, 0);
}

/* Draws a secret into `list`. */
static void draw(struct kept *list, const struct http_caller *caller,
                 double until_s, char secret[BOARD_SECRET])
{
    unsigned char bytes[(BOARD_SECRET - 1) / 2];
    /* The place of the oldest: an unused one is older than all others. */
    struct kept *place = list;
    for (int i = 1; i < KEPT; i++)
        if (list[i].until_s < place->until_s)
            place = &list[i];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(secret, BOARD_SECRET, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
    hash_of(secret, place->hash);
    place->until_s = until_s;
    place->caller = *caller;
    place->caller.address[0] = '\0';
}

/* NULL: none has this secret. Invariant (3). */
static const struct kept *find(const struct kept *list, const char *secret)
{
    unsigned char hash[HASH];
    const struct kept *found = NULL;
    hash_of(secret, hash);
    for (int i = 0; i < KEPT; i++)
        if (sodium_memcmp(list[i].hash, hash, HASH) == 0 && list[i].until_s > 0)
            found = &list[i];
    return found;
}

void boardsessions_code(struct boardsessions *all,
                        const struct http_caller *caller, double now_s,
                        char code[BOARD_SECRET])
{
    draw(all->codes, caller, now_s + BOARD_CODE_S, code);
}

bool boardsessions_open(struct boardsessions *all, const char *code,
                        double now_s, char token[BOARD_SECRET])
{
    const struct kept *found = find(all->codes, code);
    if (found == NULL)
        return false;
    struct kept used = *found;
    all->codes[found - all->codes] = (struct kept){0}; /* invariant (1) */
    if (now_s > used.until_s)
        return false;
    draw(all->sessions, &used.caller, now_s + BOARD_SESSION_S, token);
    return true;
}

bool boardsessions_find(const struct boardsessions *all, const char *token,
                        double now_s, struct http_caller *caller)
{
    const struct kept *found = find(all->sessions, token);
    char address[sizeof caller->address];
    if (found == NULL || now_s > found->until_s)
        return false;
    memcpy(address, caller->address, sizeof address);
    *caller = found->caller;
    memcpy(caller->address, address, sizeof address);
    return true;
}

bool boardsessions_end(struct boardsessions *all, const char *token)
{
    const struct kept *found = find(all->sessions, token);
    if (found == NULL)
        return false;
    all->sessions[found - all->sessions] = (struct kept){0};
    return true;
}
