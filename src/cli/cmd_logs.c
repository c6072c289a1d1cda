/* cmd_logs.c - `firn logs`: standard output and error of a job.
 *
 * Control characters in the log are escaped, unless --raw asks for the bytes.
 *
 * firnd keeps the newest part of a log. The number of bytes that were dropped
 * before they could be read is printed on standard error. A stream ends with
 * the job, and also where the next byte was dropped; the offset of the next
 * piece tells which of the two it was.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livepatience.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20 }; /* largest answer of firnd, in bytes */

struct args {
    struct live_args live;
    bool follows, is_raw;
    int tail;
};

static const struct flag table[] = {
    {"follow", 'f', NULL, "print new output until the job ends", flag_yes,
     offsetof(struct args, follows)},
    {"tail", 'n', "N", "print only the last N lines", flag_count,
     offsetof(struct args, tail)},
    {"raw", 0, NULL, "print the bytes unchanged, with control characters",
     flag_yes, offsetof(struct args, is_raw)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "logs",
    .usage = "[options] JOB",
    .about = "Prints the output of a job. Control characters are shown as "
             "escapes such as \\x1b.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

struct printing {
    struct live *live;
    bool is_raw;
    struct safe_feed feed;
    struct firn_buf out; /* with -o json: the whole log */
    int64_t offset;      /* of the next byte */
    int64_t ndropped;    /* bytes dropped before they could be read */
    int rc;
};

static bool print(void *arg, struct firn_bytes piece)
{
    struct printing *p = arg;
    p->offset += (int64_t)piece.n;
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

static void make_path(struct firn_buf *path, const char *job, const char *query,
                      int64_t value)
{
    buf_clear(path);
    buf_puts(path, "/v1/jobs/");
    client_escape(path, job);
    buf_printf(path, "/logs?%s=%lld", query, (long long)value);
}

/* Reports bytes that are missing before a piece that starts at `begin`. */
static void report_dropped(struct printing *p, int64_t begin)
{
    if (begin <= p->offset)
        return;
    fprintf(stderr,
            "firn logs: %lld bytes were dropped before they were read; firnd "
            "keeps the newest part of a log (firnd --log-mib)\n",
            (long long)(begin - p->offset));
    p->ndropped += begin - p->offset;
    p->offset = begin;
}

/* Prints the log up to now, piece by piece, or its last lines. */
static enum firn_status print_past(struct printing *p, int tail,
                                   const char *job, struct firn_error *err)
{
    struct firn_buf path = {0}, piece = {0};
    bool is_first = true;
    enum firn_status status = FIRN_OK;
    do {
        int64_t next = -1;
        bool is_tail = is_first && tail > 0;
        buf_clear(&piece);
        make_path(&path, job, is_tail ? "tail" : "offset",
                  is_tail ? tail : p->offset);
        buf_printf(&path, "&limit=%d", PIECE);
        status = client_piece(p->live->client, path.at, &piece, &next, err);
        if (status == FIRN_OK && next >= 0 && !is_tail)
            report_dropped(p, next - (int64_t)piece.n);
        if (status == FIRN_OK && piece.n > 0)
            print(p, (struct firn_bytes){piece.at, piece.n});
        if (next >= 0)
            p->offset = next;
        is_first = false;
    } while (status == FIRN_OK && piece.n == PIECE && p->rc == 0);
    buf_release(&path);
    buf_release(&piece);
    return status;
}

/* Prints new output until the stream ends; after a restart of firnd it
 * continues at the same offset. */
static enum firn_status print_stream(struct printing *p, const char *job,
                                     struct firn_error *err)
{
    struct firn_buf path = {0};
    double contact_s = clock_elapsed_s();
    enum firn_status status;
    for (;;) {
        make_path(&path, job, "follow=1&offset", p->offset);
        status = client_stream(p->live->client, path.at, print, p, err);
        if (status != FIRN_EIO ||
            !live_should_retry(&contact_s, status,
                               client_was_answered(p->live->client),
                               clock_elapsed_s()))
            break;
        if (!client_wait(0.5, -1)) {
            status = firn_fail(err, FIRN_EINTR, "interrupted");
            break;
        }
    }
    buf_release(&path);
    return status;
}

/* Follows the log until nothing is left after the end of a stream: then the
 * job has ended. */
static enum firn_status follow(struct printing *p, const char *job,
                               struct firn_error *err)
{
    for (;;) {
        FIRN_TRY(print_stream(p, job, err));
        int64_t before = p->offset;
        FIRN_TRY(print_past(p, 0, job, err));
        if (p->offset == before || p->rc != 0)
            return FIRN_OK;
    }
}

/* Appends the log as a JSON string; it may contain NULs. */
static void put_json(struct firn_buf *out, const struct firn_buf *log)
{
    struct firn_buf part = {0};
    buf_putc(out, '"');
    for (size_t at = 0; at < log->n; at++) {
        buf_clear(&part);
        buf_json_string(&part, log->at + at);
        buf_add(out, part.at + 1, part.n - 2); /* without its quotes */
        at += strlen(log->at + at);
        buf_puts(out, at < log->n ? "\\u0000" : "");
    }
    buf_putc(out, '"');
    buf_release(&part);
}

/* Writes the rest: an incomplete character, or with -o json the whole log. */
static int finish(struct printing *p)
{
    struct firn_buf text = {0};
    if (p->live->is_json) {
        buf_puts(&text, "{\n  \"log\": ");
        put_json(&text, &p->out);
        buf_printf(&text, ",\n  \"dropped_bytes\": %lld\n}\n",
                   (long long)p->ndropped);
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
    client_catch_interrupts();
    enum firn_status status = print_past(&p, args->tail, job, &err);
    if (status == FIRN_OK && args->follows && p.rc == 0)
        status = follow(&p, job, &err);
    int rc = finish(&p);
    if (status != FIRN_OK)
        rc = live_failed(live, &err);
    buf_release(&p.out);
    return rc;
}

int cmd_logs(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 1, 1, "job");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = logs(&live, &args, argv[1]);
    live_close(&live);
    return rc;
}
