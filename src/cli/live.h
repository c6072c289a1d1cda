/* live.h - what the commands that ask the daemon have in common.
 *
 * The same options (-o, --socket, --url, --token-file, --timeout), the same
 * sentences and exit statuses, JSON printed in one way: what the daemon sent,
 * indented, with everything that is not ASCII escaped.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H
#include "cli/client.h"
#include "cli/flags.h"
#include <stddef.h>

/* First in the arguments of each of these commands. */
struct live_args {
    struct client_where where;
    const char *format; /* NULL: table */
    bool asks_nobody;   /* there is no client then, and no daemon need be */
};

/* clang-format off */
#define LIVE_PLACE_FLAGS                                                     \
    {"socket", 0, "PATH", "the daemon's socket ($FIRN_SOCKET)", flag_text,   \
     offsetof(struct live_args, where.socket)},                              \
    {"url", 0, "URL", "the daemon over TCP ($FIRN_API_URL)", flag_text,      \
     offsetof(struct live_args, where.url)},                                 \
    {"token-file", 0, "FILE", "the token for it ($FIRN_API_TOKEN_FILE)",     \
     flag_text, offsetof(struct live_args, where.token_file)},               \
    {"timeout", 0, "TIME", "how long an answer may take (30s)",              \
     flag_duration, offsetof(struct live_args, where.timeout_s)}
#define LIVE_FLAGS                                                           \
    {"output", 'o', "FORMAT", "table or json (table)", flag_text,            \
     offsetof(struct live_args, format)},                                    \
    LIVE_PLACE_FLAGS
/* clang-format on */

struct live {
    const struct flags_page *page;
    struct client *client;
    bool is_json;
};

/* Returns -1 when the command shall go on, else its exit status, after a
 * sentence. live_close() in both cases. */
int live_open(struct live *live, const struct flags_page *page,
              const struct live_args *args);
void live_close(struct live *live);

/* Says what went wrong; the exit status, 1 or 130. */
int live_failed(const struct live *live, const struct firn_error *err);
/* Writes the text out; the exit status. */
int live_write(const struct live *live, const struct firn_buf *text);
/* Writes the answer as JSON; the exit status. */
int live_write_json(const struct live *live, const json_t *answer);

/* Appends an answer as a page for people. */
typedef void live_printer(const json_t *answer, struct firn_buf *out);
/* GETs a path and prints the answer; the exit status. */
int live_show(struct live *live, const char *path, live_printer *print);
/* All of a command that shows one job (or node): `firn WORD NAME`. */
struct live_shown {
    const struct flags_page *page;
    const char *before, *behind; /* the path around the name */
    live_printer *print;
};
int live_shown_run(const struct live_shown *shown, int argc, char **argv);

/* Does the same to each job or node that is named: POST before NAME behind.
 * All are tried; the exit status tells whether one failed. */
struct live_verb {
    const struct flags_page *page;
    const char *what;            /* "job", "node" */
    const char *before, *behind; /* "/v1/jobs/", "/cancel" */
    const char *done;            /* "is cancelled" */
    const char *begun; /* for a job that is on its way there; or NULL */
};
int live_verb_run(const struct live_verb *verb, int argc, char **argv);

#endif
