/* tokens.c - tokens of users in memory and as text: see the header.
 */
#include "daemon/tokens.h"
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <jansson.h>
#include <sodium.h>
#include <string.h>

struct tokens {
    VEC(struct token) all;
    int next;
};

struct tokens *tokens_new(void)
{
    struct tokens *tokens = mem_new(1, sizeof *tokens);
    tokens->next = 1;
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (tokens == NULL)
        return;
    vec_release(&tokens->all);
    mem_free(tokens);
}

static void hash_of(const char *secret, unsigned char out[TOKEN_HASH])
{
    crypto_generichash(out, TOKEN_HASH, (const unsigned char *)secret,
                       strlen(secret), NULL, 0);
}

/* Letters, digits and ".-_", so that a name needs no quotes anywhere. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    bool is_good = n < TOKEN_NAME;
    for (size_t i = 0; i < n; i++)
        is_good = is_good && (isalnum((unsigned char)name[i]) ||
                              strchr(".-_", name[i]) != NULL);
    return is_good;
}

enum firn_status tokens_add(struct tokens *tokens, const struct token *like,
                            char secret[TOKEN_TEXT], const struct token **out,
                            struct firn_error *err)
{
    unsigned char bytes[(TOKEN_TEXT - 1) / 2];
    if (!is_name(like->name))
        return firn_fail(err, FIRN_EINVAL,
                         "the name of a token has at most %d letters, digits "
                         "and characters of '.-_'",
                         TOKEN_NAME - 1);
    if (tokens->all.n >= TOKENS_MOST)
        return firn_fail(err, FIRN_ELIMIT,
                         "there are %d tokens; revoke some with 'firn token "
                         "revoke'",
                         TOKENS_MOST);
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(secret, TOKEN_TEXT, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
    struct token one = *like;
    one.id = tokens->next++;
    hash_of(secret, one.hash);
    vec_add(&tokens->all, one);
    *out = &tokens->all.at[tokens->all.n - 1];
    return FIRN_OK;
}

const struct token *tokens_find(const struct tokens *tokens, const char *secret,
                                double now_s)
{
    unsigned char hash[TOKEN_HASH];
    const struct token *found = NULL;
    hash_of(secret, hash);
    for (size_t i = 0; i < tokens->all.n; i++) /* (2): to the end */
        if (sodium_memcmp(hash, tokens->all.at[i].hash, TOKEN_HASH) == 0)
            found = &tokens->all.at[i];
    if (found != NULL && found->expires_s > 0 && now_s >= found->expires_s)
        return NULL;
    return found;
}

static size_t place_of(const struct tokens *tokens, int id)
{
    size_t i = 0;
    while (i < tokens->all.n && tokens->all.at[i].id != id)
        i++;
    return i;
}

const struct token *tokens_numbered(const struct tokens *tokens, int id)
{
    size_t i = place_of(tokens, id);
    return i < tokens->all.n ? &tokens->all.at[i] : NULL;
}

size_t tokens_count(const struct tokens *tokens)
{
    return tokens->all.n;
}

const struct token *tokens_at(const struct tokens *tokens, size_t i)
{
    return &tokens->all.at[i];
}

bool tokens_revoke(struct tokens *tokens, int id)
{
    size_t i = place_of(tokens, id);
    if (i == tokens->all.n)
        return false;
    memmove(&tokens->all.at[i], &tokens->all.at[i + 1],
            (tokens->all.n - i - 1) * sizeof *tokens->all.at);
    tokens->all.n--;
    return true;
}

/* --- as text ------------------------------------------------------------- */

void tokens_write(const struct tokens *tokens, struct firn_buf *out)
{
    jsonbuf_open(out, NULL, '{');
    jsonbuf_int(out, "next", tokens->next);
    jsonbuf_open(out, "tokens", '[');
    for (size_t i = 0; i < tokens->all.n; i++) {
        const struct token *token = &tokens->all.at[i];
        char hash[2 * TOKEN_HASH + 1];
        sodium_bin2hex(hash, sizeof hash, token->hash, TOKEN_HASH);
        jsonbuf_open(out, NULL, '{');
        jsonbuf_int(out, "id", token->id);
        jsonbuf_text(out, "name", token->name);
        jsonbuf_text(out, "user", token->user);
        jsonbuf_text(out, "role", access_role_name(token->role));
        jsonbuf_double(out, "made_s", token->made_s);
        jsonbuf_double(out, "expires_s", token->expires_s);
        jsonbuf_text(out, "hash", hash);
        jsonbuf_close(out, '}');
    }
    jsonbuf_close(out, ']');
    jsonbuf_close(out, '}');
}

static bool read_text(const json_t *object, const char *key, char *out,
                      size_t max)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && str_copy(out, max, text);
}

static bool read_one(const json_t *object, struct token *out)
{
    char role[16], hash[2 * TOKEN_HASH + 1];
    size_t nhash = 0;
    json_int_t id = json_integer_value(json_object_get(object, "id"));
    out->id = (int)id;
    out->made_s = json_number_value(json_object_get(object, "made_s"));
    out->expires_s = json_number_value(json_object_get(object, "expires_s"));
    return id > 0 && id < INT32_MAX &&
           read_text(object, "name", out->name, sizeof out->name) &&
           is_name(out->name) &&
           read_text(object, "user", out->user, sizeof out->user) &&
           read_text(object, "role", role, sizeof role) &&
           access_role_named(role, &out->role) &&
           read_text(object, "hash", hash, sizeof hash) &&
           sodium_hex2bin(out->hash, TOKEN_HASH, hash, strlen(hash), NULL,
                          &nhash, NULL) == 0 &&
           nhash == TOKEN_HASH;
}

enum firn_status tokens_read(struct tokens *tokens, struct firn_bytes text,
                             struct firn_error *err)
{
    json_t *root = json_loadb(text.at, text.n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(root, "tokens");
    json_int_t next = json_integer_value(json_object_get(root, "next"));
    size_t n = json_array_size(list);
    bool is_good = json_is_array(list) && next > 0 && next < INT32_MAX;
    tokens->all.n = 0;
    for (size_t i = 0; is_good && i < n && i < TOKENS_MOST; i++) {
        struct token one = {0};
        is_good = read_one(json_array_get(list, i), &one) && one.id < next;
        vec_add(&tokens->all, one);
    }
    tokens->next = is_good ? (int)next : 1;
    if (!is_good)
        tokens->all.n = 0;
    json_decref(root);
    return is_good ? FIRN_OK
                   : firn_fail(err, FIRN_EDATA,
                               "the list of tokens cannot be understood");
}
