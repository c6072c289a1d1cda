/* live.h - shared parts of the commands that talk to firnd.
 *
 * Common options (-o, --socket, --url, --token-file, --timeout), error messages
 * and exit statuses. JSON is printed as firnd sent it, indented, with all
 * non-ASCII characters escaped.
 */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H
#include "cli/client.h"
#include "cli/flags.h"
#include <stddef.h>

/* The first member of the arguments of each of these commands. */
struct live_args {
    struct client_where where;
    bool is_json;
    bool is_offline; /* opens no connection: firnd need not run */
};

/* clang-format off */
#define LIVE_PLACE_FLAGS                                                     \
    {"socket", 0, "PATH", "UNIX socket of firnd (default: $FIRN_SOCKET)",     \
     flag_text,                                                              \
     offsetof(struct live_args, where.socket)},                              \
    {"url", 0, "URL", "HTTP address of firnd (default: $FIRN_API_URL)",       \
     flag_text,                                                              \
     offsetof(struct live_args, where.url)},                                 \
    {"token-file", 0, "FILE",                                                \
     "file with the API token (default: $FIRN_API_TOKEN_FILE)",              \
     flag_text, offsetof(struct live_args, where.token_file)},               \
    {"timeout", 0, "TIME", "time to wait for an answer (default: 30s)",      \
     flag_duration, offsetof(struct live_args, where.timeout_s)}
#define LIVE_FLAGS                                                           \
    FORMAT_FLAG(offsetof(struct live_args, is_json)),                        \
    LIVE_PLACE_FLAGS
/* clang-format on */

struct live {
    const struct flags_page *page;
    struct client *client;
    bool is_json;
};

/* Returns -1 to go on, otherwise the exit status, after an error message. Call
 * live_close() in both cases. */
int live_open(struct live *live, const struct flags_page *page,
              const struct live_args *args);
void live_close(struct live *live);

/* Prints the error; returns the exit status: 1, or 130 if interrupted. */
int live_failed(const struct live *live, const struct firn_error *err);
/* Writes the text to standard output; returns the exit status. */
int live_write(const struct live *live, const struct firn_buf *text);
/* Writes the answer as JSON; returns the exit status. */
int live_write_json(const struct live *live, const json_t *answer);

/* Formats an answer for people. */
typedef void live_printer(const json_t *answer, struct firn_buf *out);
/* GETs a path and prints the answer; returns the exit status. */
int live_show(struct live *live, const char *path, live_printer *print);
/* A command that shows one job: `firn COMMAND NAME`; or, with `behind` NULL,
 * what is at the path `before`: `firn COMMAND`. */
struct live_shown {
    const struct flags_page *page;
    const char *before, *behind; /* parts of the path around the name */
    live_printer *print;
};
int live_shown_run(const struct live_shown *shown, int argc, char **argv);

/* A command that does one thing to each named job or node: POST before NAME
 * behind. All names are tried; the exit status is 1 if one failed. */
struct live_verb {
    const struct flags_page *page;
    const char *what;            /* "job", "node" */
    const char *method;          /* NULL: POST */
    const char *before, *behind; /* "/v1/jobs/", "/cancel" */
    const char *done;            /* "is cancelled" */
    const char *begun; /* for a job whose change takes time; or NULL */
};
int live_verb_run(const struct live_verb *verb, int argc, char **argv);
/* The same behind flags_parse(), for a command with options of its own. */
int live_verb_do(const struct live_verb *verb, const struct live_args *args,
                 int argc, char **argv);

#endif
