/* api_board.c - the board: its files, its one-time links, its sessions.
 *
 * The files are served without a token: they are the same for all users and
 * say nothing about jobs. Everything that the page shows comes from the other
 * routes, with the rights of the token that the page sends.
 *
 * (1) The page runs scripts and styles of this server only, none inline, and
 *     talks to this server only (POLICY); no other page may frame it.
 * (2) A file that the browser has already is answered with 304, by its ETag.
 * (3) No part of a path is used but to compare it with the names in the table.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "daemon/apiwork.h"
#include "daemon/boardfiles.h"
#include "daemon/boardsession.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char POLICY[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

/* Does the browser have these bytes? "W/" is put before tags by proxies. */
static bool has_tag(const char *list, const char *tag)
{
    return list != NULL && strstr(list, tag) != NULL;
}

static void serve(struct api_call *call, const struct board_file *file)
{
    struct http_exchange *exchange = call->exchange;
    if (file == NULL) {
        http_refuse(exchange, 404, "not-found", "the board has no such file");
        return;
    }
    bool is_packed = http_accepts(exchange, "gzip");
    http_set_header(exchange, "Content-Security-Policy", POLICY);
    http_set_header(exchange, "Referrer-Policy", "no-referrer");
    http_set_header(exchange, "Cache-Control", "no-cache");
    http_set_header(exchange, "Vary", "Accept-Encoding");
    http_set_header(exchange, "ETag", file->tag);
    if (has_tag(http_header(exchange, "If-None-Match"), file->tag)) {
        http_answer(exchange, 304, file->type, (struct firn_bytes){"", 0});
        return;
    }
    if (is_packed)
        http_set_header(exchange, "Content-Encoding", "gzip");
    http_answer(exchange, 200, file->type,
                (struct firn_bytes){
                    (const char *)(is_packed ? file->packed : file->plain),
                    is_packed ? file->npacked : file->nplain});
}

void api_board_page(struct api_call *call)
{
    serve(call, board_file("index.html"));
}

void api_board_file(struct api_call *call)
{
    serve(call, board_file(call->word));
}

/* --- sign-in ------------------------------------------------------------- */

void api_board_link(struct api_call *call)
{
    struct api *api = call->api;
    char code[BOARD_SECRET];
    struct firn_buf out = {0}, url = {0};
    boardsessions_code(api->sessions, &call->request->caller, clock_elapsed_s(),
                       code);
    if (api->host.board_url != NULL)
        api->host.board_url(api->host.arg, &url);
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "code", code);
    jsonbuf_int(&out, "valid_s", BOARD_CODE_S);
    if (url.n > 0)
        jsonbuf_text(&out, "url", url.at);
    jsonbuf_close(&out, '}');
    buf_release(&url);
    api_reply(call, 201, &out);
}

void api_board_sign_in(struct api_call *call)
{
    static const char *const keys[] = {"code", NULL};
    struct api *api = call->api;
    double now_s = clock_elapsed_s();
    struct http_caller caller = {.job = -1};
    char token[BOARD_SECRET];
    json_t *root;
    if (!api_read_object(call, keys, &root))
        return;
    const char *code = json_string_value(json_object_get(root, "code"));
    bool is_open = code != NULL &&
                   boardsessions_open(api->sessions, code, now_s, token) &&
                   boardsessions_find(api->sessions, token, now_s, &caller);
    json_decref(root);
    if (!is_open) {
        api_turned_away(api, HTTP_REFUSED_TOKEN, &call->request->caller);
        http_refuse(call->exchange, 401, "unauthorised",
                    "this link was used already or is older than a minute: "
                    "run 'firn board' again");
        return;
    }
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "token", token);
    jsonbuf_text(&out, "user", caller.user);
    jsonbuf_int(&out, "valid_s", BOARD_SESSION_S);
    jsonbuf_close(&out, '}');
    api_reply(call, 201, &out);
}

/* The session of the token that the request has. */
void api_board_sign_out(struct api_call *call)
{
    const char *header = http_header(call->exchange, "Authorization");
    struct firn_buf out = {0};
    bool is_ended = header != NULL && strncasecmp(header, "Bearer ", 7) == 0 &&
                    boardsessions_end(call->api->sessions,
                                      header + 7 + strspn(header + 7, " "));
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_bool(&out, "ended", is_ended);
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

bool api_session_of_token(void *arg, const char *token,
                          struct http_caller *caller)
{
    const struct api *api = arg;
    if (!boardsessions_find(api->sessions, token, clock_elapsed_s(), caller))
        return false;
    if (caller->token > 0) /* of a token's session: ends with the token */
        return api_token_is_good(api, caller->token);
    caller->token = -1;
    return true;
}
