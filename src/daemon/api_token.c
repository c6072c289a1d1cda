/* api_token.c - tokens of users on the API, and the audit.
 *
 * A user of the Unix socket makes tokens for himself, an operator for any user,
 * none with a higher role than the maker has. A token of a user and a session
 * of a browser make no tokens, so that what was made with a stolen one ends
 * with it; the operator's token (token-file) may.
 *
 * The list is kept in the state file under the name "tokens", without secrets.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include "daemon/tokens.h"
#include <sodium.h>
#include <stdio.h>
#include <string.h>

void api_tokens_load(struct api *api)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    api->tokens = tokens_new();
    if (store_get_meta(api->host.store, "tokens", &text, &err) == FIRN_OK &&
        text.n > 0 &&
        tokens_read(api->tokens, (struct firn_bytes){text.at, text.n}, &err) !=
            FIRN_OK)
        log_warn("%s: all tokens of users are revoked", err.text);
    buf_release(&text);
}

/* A failure shows at the commit. */
static void keep(struct api *api)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    tokens_write(api->tokens, &text);
    enum firn_status status = store_put_meta(
        api->host.store, "tokens", (struct firn_bytes){text.at, text.n}, &err);
    book_wrote(api->host.book, status, &err);
    buf_release(&text);
}

bool api_user_of_token(void *arg, const char *secret,
                       struct http_caller *caller)
{
    const struct api *api = arg;
    if (tokens_count(api->tokens) == 0)
        return false;
    const struct token *token =
        tokens_find(api->tokens, secret, api->host.now_s(api->host.arg));
    if (token == NULL)
        return false;
    caller->role = token->role;
    caller->token = token->id;
    str_copy(caller->user, sizeof caller->user, token->user);
    return true;
}

bool api_owns_token(const struct api_call *call, const char *word)
{
    long id;
    const struct token *token =
        str_id(word, INT32_MAX, &id)
            ? tokens_numbered(call->api->tokens, (int)id)
            : NULL;
    return token == NULL ||
           strcmp(token->user, call->request->caller.user) == 0;
}

/* --- the list ------------------------------------------------------------ */

static void add_token(struct firn_buf *out, const struct token *token,
                      const char *secret)
{
    jsonbuf_open(out, NULL, '{');
    jsonbuf_int(out, "id", token->id);
    jsonbuf_text(out, "name", token->name);
    jsonbuf_text(out, "user", token->user);
    jsonbuf_text(out, "role", access_role_name(token->role));
    jsonbuf_double(out, "made_s", token->made_s);
    if (token->expires_s > 0)
        jsonbuf_double(out, "expires_s", token->expires_s);
    if (secret != NULL)
        jsonbuf_text(out, "token", secret);
    jsonbuf_close(out, '}');
}

void api_token_list(struct api_call *call)
{
    const struct http_caller *caller = &call->request->caller;
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_open(&out, "tokens", '[');
    for (size_t i = 0; i < tokens_count(call->api->tokens); i++) {
        const struct token *token = tokens_at(call->api->tokens, i);
        bool is_own = strcmp(token->user, caller->user) == 0;
        if (access_may(caller->role, ACCESS_RIGHT_TOKEN, is_own) != ACCESS_NONE)
            add_token(&out, token, NULL);
    }
    jsonbuf_close(&out, ']');
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

/* --- a new one ----------------------------------------------------------- */

/* A text of the body into `out`, which keeps what it has if there is none. */
static bool take_text(const json_t *root, const char *key, char *out,
                      size_t max)
{
    const json_t *value = json_object_get(root, key);
    return value == NULL || (json_is_string(value) &&
                             str_copy(out, max, json_string_value(value)));
}

/* NULL, or what is wrong. */
static const char *read_token(const json_t *root, struct token *out)
{
    char role[16];
    double for_s = 0;
    const json_t *lasts = json_object_get(root, "for_s");
    str_copy(role, sizeof role, access_role_name(out->role));
    if (!take_text(root, "name", out->name, sizeof out->name))
        return "'name' must be a text of at most 63 bytes";
    if (!take_text(root, "user", out->user, sizeof out->user) ||
        out->user[0] == '\0')
        return "'user' must be the name of a user";
    if (!take_text(root, "role", role, sizeof role) ||
        !access_role_named(role, &out->role))
        return "'role' must be scraper, viewer, user or operator";
    if (lasts != NULL && !json_is_number(lasts))
        return "'for_s' must be a number of seconds";
    for_s = json_number_value(lasts);
    if (!(for_s >= 0 && for_s < 1e10))
        return "'for_s' must be a number of seconds from 0 (for ever) on";
    out->expires_s = for_s > 0 ? out->made_s + for_s : 0;
    return NULL;
}

/* NULL, or why the caller may not make it. */
static const char *may_not(const struct http_caller *caller,
                           const struct token *want)
{
    if (caller->token != 0)
        return "a token or a session cannot make tokens: use the Unix socket "
               "of firnd's "
               "host, or ask an operator";
    if (want->role > caller->role)
        return "a token cannot have more rights than its maker";
    if (caller->role != ACCESS_OPERATOR &&
        strcmp(want->user, caller->user) != 0)
        return "only an operator makes tokens for other users";
    return NULL;
}

static void reply_new(struct api_call *call, const struct token *want)
{
    struct api *api = call->api;
    char secret[TOKEN_TEXT], text[LIVE_TEXT];
    const struct token *made;
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (tokens_add(api->tokens, want, secret, &made, &err) != FIRN_OK) {
        api_fail(call, &err);
        return;
    }
    keep(api);
    snprintf(text, sizeof text, "token %d of %s, role %s", made->id, made->user,
             access_role_name(made->role));
    book_tell(api->host.book, made->made_s, "token", text, &err);
    add_token(&out, made, secret);
    sodium_memzero(secret, sizeof secret);
    api_reply(call, 201, &out);
}

void api_token_new(struct api_call *call)
{
    static const char *const keys[] = {"name", "user", "role", "for_s", NULL};
    const struct http_caller *caller = &call->request->caller;
    struct token want = {.role = caller->role,
                         .made_s = call->api->host.now_s(call->api->host.arg)};
    json_t *root;
    str_copy(want.user, sizeof want.user, caller->user);
    if (!api_read_object(call, keys, &root))
        return;
    const char *wrong = read_token(root, &want);
    json_decref(root);
    const char *denied = wrong == NULL ? may_not(caller, &want) : NULL;
    if (wrong != NULL)
        http_fail(call->exchange, FIRN_EINVAL, wrong);
    else if (denied != NULL)
        http_refuse(call->exchange, 403, "forbidden", denied);
    else
        reply_new(call, &want);
}

void api_token_revoke(struct api_call *call)
{
    struct api *api = call->api;
    struct firn_error err = {0};
    struct firn_buf out = {0};
    char text[LIVE_TEXT];
    long id = 0;
    const struct token *token = str_id(call->word, INT32_MAX, &id)
                                    ? tokens_numbered(api->tokens, (int)id)
                                    : NULL;
    if (token == NULL) {
        firn_fail(&err, FIRN_ENOENT, "there is no token '%.40s'", call->word);
        api_fail(call, &err);
        return;
    }
    snprintf(text, sizeof text, "token %d of %s is revoked", token->id,
             token->user);
    add_token(&out, token, NULL);
    tokens_revoke(api->tokens, (int)id);
    keep(api);
    book_tell(api->host.book, api->host.now_s(api->host.arg), "token", text,
              &err);
    api_reply(call, 200, &out);
}

/* Name and role of the caller: the web page shows what the role allows. */
void api_token_whoami(struct api_call *call)
{
    const struct http_caller *caller = &call->request->caller;
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "user", caller->user);
    jsonbuf_text(&out, "role", access_role_name(caller->role));
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

bool api_token_is_good(const struct api *api, int id)
{
    const struct token *token = tokens_numbered(api->tokens, id);
    return token != NULL && (token->expires_s <= 0 ||
                             api->host.now_s(api->host.arg) < token->expires_s);
}

/* --- the audit ----------------------------------------------------------- */

void api_audit_get(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf out = {0}, lines = {0};
    struct firn_error err = {0};
    int64_t after, limit, tail, next;
    if (!api_has(call, host->audit != NULL) ||
        !api_query_int(call, "after", INT64_MAX, 0, &after) ||
        !api_query_int(call, "limit", 10000, 1000, &limit) ||
        !api_query_int(call, "tail", 10000, 0, &tail))
        return;
    buf_putc(&lines, '[');
    enum firn_status status =
        audit_read(host->audit, after, (size_t)(tail > 0 ? tail : limit),
                   tail > 0, &lines, &next, &err);
    buf_putc(&lines, ']');
    if (status != FIRN_OK) {
        api_fail(call, &err);
    } else {
        jsonbuf_open(&out, NULL, '{');
        jsonbuf_raw(&out, "lines", lines.at);
        jsonbuf_int(&out, "next", next);
        jsonbuf_close(&out, '}');
        api_reply(call, 200, &out);
    }
    buf_release(&lines);
}
