/* tokens.h - tokens of users: made, found, revoked.
 *
 * A token is 64 hexadecimal digits of 32 random bytes. It is shown once, to the
 * caller that asked for it; firnd keeps its BLAKE2b hash (libsodium), so that a
 * copy of the state file opens nothing. A token has a number, a name for
 * people, the user that it speaks for, a role, and a time at which it expires.
 *
 * (1) A number is never given twice.
 * (2) The time to look a token up depends on the number of tokens only.
 * (3) An expired token is found by tokens_at() until it is revoked, and never
 * by tokens_find().
 */
#ifndef DAEMON_TOKENS_H
#define DAEMON_TOKENS_H
#include "daemon/access.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stddef.h>

enum { TOKEN_TEXT = 65, TOKEN_HASH = 32, TOKEN_NAME = 64, TOKENS_MOST = 10000 };

struct token {
    int id;                /* from 1 */
    char name[TOKEN_NAME]; /* "laptop"; "": none */
    char user[64];
    enum access_role role;
    double made_s, expires_s; /* since 1970; 0: it does not expire */
    unsigned char hash[TOKEN_HASH];
};

struct tokens;
struct tokens *tokens_new(void);
void tokens_free(struct tokens *tokens);

/* Adds a token like `like` (its id and hash are set here) and writes its secret
 * text. FIRN_EINVAL: a wrong name; FIRN_ELIMIT: there are TOKENS_MOST. */
enum firn_status tokens_add(struct tokens *tokens, const struct token *like,
                            char secret[TOKEN_TEXT], const struct token **out,
                            struct firn_error *err);
/* The token with that secret text that has not expired at `now_s`, or NULL. */
const struct token *tokens_find(const struct tokens *tokens, const char *secret,
                                double now_s);
/* By number; NULL: none. */
const struct token *tokens_numbered(const struct tokens *tokens, int id);
size_t tokens_count(const struct tokens *tokens);
const struct token *tokens_at(const struct tokens *tokens, size_t i);
/* False: there is no such token. */
bool tokens_revoke(struct tokens *tokens, int id);

/* All tokens as JSON, for the state file, and back. FIRN_EDATA: the text is
 * not such a list; `tokens` is then empty. */
void tokens_write(const struct tokens *tokens, struct firn_buf *out);
enum firn_status tokens_read(struct tokens *tokens, struct firn_bytes text,
                             struct firn_error *err);

#endif
