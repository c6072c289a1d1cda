/* cmd_token.c - `firn token`: makes, lists and revokes tokens of users.
 *
 * The secret text of a new token is printed once, alone on standard output, so
 * that `firn token new >file` makes a file for --token-file.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/safetext.h"
#include <limits.h>
#include <stdio.h>

struct args {
    struct live_args live;
    const char *user, *role;
    double for_s;
};

/* --- new ------------------------------------------------------------------ */

static const struct flag new_table[] = {
    {"role", 0, "ROLE",
     "scraper (metrics and nothing else), viewer, user or operator; at "
     "most your own (default: your own)",
     flag_text, offsetof(struct args, role)},
    {"for", 0, "TIME",
     "time after which it expires, e.g. 12h or 30d (default: "
     "it does not expire)",
     flag_duration, offsetof(struct args, for_s)},
    {"user", 'u', "NAME",
     "user that it speaks for; operators only (default: "
     "you)",
     flag_text, offsetof(struct args, user)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page new_page = {
    .command = "token new",
    .usage = "[options] [NAME]",
    .about = "Makes a token, with which firnd is used over TCP and in a "
             "browser, and prints it: 'firn token new laptop >token'. firnd "
             "keeps a hash of it only, so it is printed once. NAME is for "
             "people.",
    .table = new_table,
};

static void write_body(const struct args *args, const char *name,
                       struct firn_buf *out)
{
    json_t *body = json_object();
    if (name != NULL)
        json_object_set_new(body, "name", json_string(name));
    if (args->user != NULL)
        json_object_set_new(body, "user", json_string(args->user));
    if (args->role != NULL)
        json_object_set_new(body, "role", json_string(args->role));
    if (args->for_s > 0)
        json_object_set_new(body, "for_s", json_real(args->for_s));
    answer_print(body, out);
    json_decref(body);
}

static int make(struct live *live, const struct args *args, const char *name)
{
    struct firn_error err = {0};
    struct firn_buf body = {0}, out = {0};
    json_t *answer = NULL;
    write_body(args, name, &body);
    struct client_request request = {.method = "POST",
                                     .path = "/v1/tokens",
                                     .content_type = "application/json",
                                     .body = {body.at, body.n}};
    int rc = 0;
    if (client_call(live->client, &request, &answer, &err) != FIRN_OK) {
        rc = live_failed(live, &err);
    } else if (live->is_json) {
        rc = live_write_json(live, answer);
    } else {
        safe_puts(&out, answer_text(answer, "token"));
        buf_putc(&out, '\n');
        rc = live_write(live, &out);
        buf_clear(&out);
        safe_puts(&out, answer_text(answer, "user"));
        buf_puts(&out, ", role ");
        safe_puts(&out, answer_text(answer, "role"));
        fprintf(stderr, "token %.0f of user %s\n",
                answer_number(answer, "id", 0), out.at);
    }
    json_decref(answer);
    buf_release(&body);
    buf_release(&out);
    return rc;
}

static int token_new(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&new_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&new_page, argc, argv, 0, 1, "name");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &new_page, &args.live);
    if (rc < 0)
        rc = make(&live, &args, argc > 1 ? argv[1] : NULL);
    live_close(&live);
    return rc;
}

/* --- ls ------------------------------------------------------------------- */

static const struct flag ls_table[] = {LIVE_FLAGS, {0}};

static const struct flags_page ls_page = {
    .command = "token ls",
    .usage = "[options]",
    .about = "Lists your tokens; for an operator, the tokens of all users. The "
             "tokens themselves are not kept and not shown.",
    .table = ls_table,
};

static void print_tokens(const json_t *answer, struct firn_buf *out)
{
    static const char *const heads[] = {"TOKEN", "USER",    "ROLE",
                                        "MADE",  "EXPIRES", "NAME"};
    const json_t *list = answer_list(answer, "tokens");
    struct table table;
    table_init(&table, "rlllll");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        struct firn_buf moment = {0};
        double expires_s = answer_number(token, "expires_s", 0);
        table_cellf(&table, "%.0f", answer_number(token, "id", 0));
        answer_cell(&table, answer_text(token, "user"));
        answer_cell(&table, answer_text(token, "role"));
        buf_moment(&moment, answer_number(token, "made_s", 0));
        table_cell(&table, moment.at);
        buf_clear(&moment);
        buf_moment(&moment, expires_s);
        if (expires_s > 0 && expires_s < moment_now_s())
            buf_puts(&moment, " (has expired)");
        table_cell(&table, moment.at);
        answer_cell(&table, answer_text(token, "name"));
        buf_release(&moment);
    }
    table_print(&table, out);
    table_release(&table);
}

static int token_ls(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&ls_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&ls_page, argc, argv, 0, 0, "argument");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &ls_page, &args.live);
    if (rc < 0)
        rc = live_show(&live, "/v1/tokens", print_tokens);
    live_close(&live);
    return rc;
}

/* --- revoke --------------------------------------------------------------- */

static const struct flag revoke_table[] = {LIVE_FLAGS, {0}};

static const struct flags_page revoke_page = {
    .command = "token revoke",
    .usage = "[options] TOKEN [TOKEN...]",
    .about =
        "Revokes tokens, named by their numbers ('firn token ls'). Sessions "
        "of browsers with such a token end too.",
    .table = revoke_table,
};

static int token_revoke(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &revoke_page,
                                          .what = "token",
                                          .method = "DELETE",
                                          .before = "/v1/tokens/",
                                          .behind = "",
                                          .done = "is revoked"};
    return live_verb_run(&verb, argc, argv);
}

/* --- the command ---------------------------------------------------------- */

static const struct flags_page page = {
    .command = "token",
    .usage = "new [NAME]\nls\nrevoke TOKEN [TOKEN...]",
    .about = "Makes, lists and revokes tokens. A token names a user and a role "
             "to firnd over TCP and in a browser.",
};

int cmd_token(int argc, char **argv)
{
    static const struct subcommand table[] = {
        {"new", token_new}, {"ls", token_ls}, {"revoke", token_revoke}, {0}};
    return flags_subcommand(&page, table, argc, argv);
}
