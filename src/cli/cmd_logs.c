/* cmd_logs.c - `firn logs`: what a job wrote to its standard output and error.
 *
 * A log is another user's text: control characters are made visible unless
 * --raw says that the bytes themselves are wanted, for a file or a tool.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/safetext.h"

struct args {
    struct live_args live;
    bool follows, is_raw;
    int tail;
};

static const struct flag table[] = {
    {"follow", 'f', NULL, "goes on with what is written, until the job is over",
     flag_yes, offsetof(struct args, follows)},
    {"tail", 'n', "N", "only the last N lines", flag_count,
     offsetof(struct args, tail)},
    {"raw", 0, NULL, "the bytes as they are, control characters too", flag_yes,
     offsetof(struct args, is_raw)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "logs",
    .usage = "[options] JOB",
    .about = "Prints what a job wrote. Control characters are shown as \\x1b "
             "and the like.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
    .table = table,
};

struct printing {
    struct live *live;
    bool is_raw;
    struct safe_feed feed;
    struct firn_buf out; /* with -o json: all of it */
    int rc;
};

static bool print(void *arg, struct firn_bytes piece)
{
    struct printing *p = arg;
    if (p->is_raw || p->live->is_json)
        buf_add(&p->out, piece.at, piece.n);
    else
        safe_feed(&p->feed, &p->out, piece);
    if (p->live->is_json)
        return true;
    p->rc = live_write(p->live, &p->out);
    buf_clear(&p->out);
    return p->rc == 0;
}

/* What is left at the end: half a character; with -o json all of it. */
static int finish(struct printing *p)
{
    struct firn_buf text = {0};
    if (p->live->is_json) {
        buf_puts(&text, "{\n  \"log\": ");
        buf_json_string(&text, p->out.n > 0 ? p->out.at : "");
        buf_puts(&text, "\n}\n");
    } else {
        safe_feed_end(&p->feed, &text);
    }
    int rc = p->rc != 0 ? p->rc : live_write(p->live, &text);
    buf_release(&text);
    return rc;
}

static int logs(struct live *live, const struct args *args, const char *job)
{
    struct printing p = {.live = live, .is_raw = args->is_raw};
    struct firn_error err = {0};
    struct firn_buf path = {0};
    client_catch_interrupts();
    buf_puts(&path, "/v1/jobs/");
    client_escape(&path, job);
    buf_printf(&path, "/logs?follow=%d", args->follows);
    if (args->tail > 0)
        buf_printf(&path, "&tail=%d", args->tail);
    enum firn_status status =
        client_stream(live->client, path.at, print, &p, &err);
    int rc = finish(&p);
    if (status != FIRN_OK)
        rc = live_failed(live, &err);
    buf_release(&path);
    buf_release(&p.out);
    return rc;
}

int cmd_logs(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc != 2)
        return flags_wrong(&page,
                           argc < 2 ? "say which job" : "one job at a time");
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = logs(&live, &args, argv[1]);
    live_close(&live);
    return rc;
}
