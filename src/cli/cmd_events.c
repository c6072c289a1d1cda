/* cmd_events.c - `firn events`: the event history of jobs and nodes.
 *
 * Past events come in pages of JSON, new ones as server-sent events. Events
 * have ids, so that after a broken stream, e.g. a restart of firnd, the next
 * stream continues after the last event received.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"
#include "cli/livepatience.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <string.h>

struct args {
    struct live_args live;
    bool follows, is_audit;
    int last;
    long after;
    const char *job;
};

static const struct flag table[] = {
    {"follow", 'f', NULL, "print new events as they happen", flag_yes,
     offsetof(struct args, follows)},
    {"last", 'n', "N", "print only the last N events", flag_count,
     offsetof(struct args, last)},
    {"after", 0, "ID", "print only events after event ID", flag_whole,
     offsetof(struct args, after)},
    {"job", 'j', "JOB", "print only events of this job", flag_text,
     offsetof(struct args, job)},
    {"audit", 0, NULL,
     "print who asked for what and whether it was refused, instead; for "
     "operators",
     flag_yes, offsetof(struct args, is_audit)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "events",
    .usage = "[options]",
    .about = "Prints the events of jobs and nodes, oldest first, with the "
             "caller of a request in brackets. In parentheses: what made a "
             "job leave its GPUs, and which job gets them. With --follow, -o "
             "json prints "
             "one object per line.",
    .table = table,
};

struct stream {
    struct live *live;
    const struct args *args;
    double job;           /* number; -1: all jobs */
    double seen;          /* id of the last event received */
    struct firn_buf line; /* received part of an incomplete line */
    int rc;
};

/* --- one event ------------------------------------------------------------ */

static void put_event(const json_t *event, struct firn_buf *out)
{
    double job = answer_number(event, "job", -1);
    buf_moment(out, answer_number(event, "at_s", 0));
    buf_printf(out, job >= 0 ? "  %6.0f  " : "       -  ", job);
    size_t before = out->n;
    safe_puts(out, answer_text(event, "kind"));
    size_t width = out->n > before ? safe_width(out->at + before) : 0;
    buf_printf(out, "%*s  ", width < 10 ? (int)(10 - width) : 0, "");
    safe_puts(out, answer_text(event, "text"));
    if (answer_text(event, "cause")[0] != '\0') {
        buf_puts(out, "  (");
        live_put_cause(out, event);
        buf_putc(out, ')');
    }
    const char *caller = answer_text(event, "caller");
    if (caller[0] != '\0') {
        buf_puts(out, "  [");
        safe_puts(out, caller);
        buf_putc(out, ']');
    }
    buf_putc(out, '\n');
}

/* --- history -------------------------------------------------------------- */

/* Sets the path of the events after the last one seen; `query` ends in '?' or
 * '&'. */
static void make_path(const struct stream *t, const char *query, char path[96])
{
    int n = snprintf(path, 96, "/v1/events%safter=%.0f", query, t->seen);
    if (t->job >= 0)
        snprintf(path + n, 96 - (size_t)n, "&job=%.0f", t->job);
}

/* Gets all pages; with --last keeps only the newest events. */
static enum firn_status get_history(struct stream *t, json_t *events,
                                    struct firn_error *err)
{
    for (;;) {
        json_t *one = NULL;
        char path[96];
        make_path(t, "?", path);
        FIRN_TRY(client_get(t->live->client, path, &one, err));
        const json_t *list = answer_list(one, "events");
        size_t n = json_array_size(list);
        json_array_extend(events, (json_t *)list);
        while (t->args->last > 0 &&
               json_array_size(events) > (size_t)t->args->last)
            json_array_remove(events, 0);
        double last = answer_number(one, "last", t->seen);
        bool goes_on = n > 0 && last > t->seen;
        t->seen = last > t->seen ? last : t->seen;
        json_decref(one);
        if (!goes_on)
            return FIRN_OK;
    }
}

static int print_history(struct stream *t)
{
    struct firn_error err = {0};
    struct firn_buf out = {0};
    json_t *events = json_array();
    enum firn_status status = get_history(t, events, &err);
    int rc = 0;
    if (status != FIRN_OK) {
        rc = live_failed(t->live, &err);
    } else if (t->live->is_json && !t->args->follows) {
        rc = live_write_json(t->live, events);
    } else {
        for (size_t i = 0; i < json_array_size(events); i++)
            (t->live->is_json ? answer_print_line
                              : put_event)(json_array_get(events, i), &out);
        rc = live_write(t->live, &out);
    }
    json_decref(events);
    buf_release(&out);
    return rc;
}

/* --- new events ----------------------------------------------------------- */

/* Prints the event of a line "data: {...}"; other lines are ignored. */
static void take_line(struct stream *t, const char *line, size_t n)
{
    static const char start[] = "data: ";
    struct firn_buf out = {0};
    if (n < sizeof start || strncmp(line, start, sizeof start - 1) != 0)
        return;
    json_t *event =
        json_loadb(line + sizeof start - 1, n - sizeof start + 1, 0, NULL);
    if (event == NULL)
        return;
    double id = answer_number(event, "id", t->seen);
    t->seen = id > t->seen ? id : t->seen;
    (t->live->is_json ? answer_print_line : put_event)(event, &out);
    t->rc = live_write(t->live, &out);
    buf_release(&out);
    json_decref(event);
}

static bool take(void *arg, struct firn_bytes piece)
{
    enum { LINE_MAX_BYTES = 1 << 20 };
    struct stream *t = arg;
    size_t first = 0;
    if (t->line.n + piece.n > LINE_MAX_BYTES)
        buf_clear(&t->line); /* not an event */
    buf_add(&t->line, piece.at, piece.n);
    for (size_t i = 0; i < t->line.n && t->rc == 0; i++) {
        if (t->line.at[i] != '\n')
            continue;
        take_line(t, t->line.at + first, i - first);
        first = i + 1;
    }
    memmove(t->line.at, t->line.at + first, t->line.n - first);
    t->line.n -= first;
    return t->rc == 0;
}

static int follow(struct stream *t)
{
    double contact_s = clock_elapsed_s();
    for (;;) {
        struct firn_error err = {0};
        char path[96];
        make_path(t, "?follow=1&", path);
        buf_clear(&t->line);
        enum firn_status status =
            client_stream(t->live->client, path, take, t, &err);
        if (t->rc != 0 || client_interrupted())
            return t->rc != 0 ? t->rc : 130;
        if (!live_should_retry(&contact_s, status,
                               client_was_answered(t->live->client),
                               clock_elapsed_s()))
            return live_failed(t->live, &err);
        if (!client_wait(0.5, -1))
            return 130;
    }
}

/* --- the audit ------------------------------------------------------------ */

static void put_audit(const json_t *line, struct firn_buf *out)
{
    static const char *const keys[] = {"user", "role", "from"};
    const char *did = answer_text(line, "did");
    double status = answer_number(line, "status", 0);
    buf_moment(out, answer_number(line, "at_s", 0));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = answer_text(line, keys[i]);
        buf_puts(out, "  ");
        safe_puts(out, text[0] != '\0' ? text : "-");
    }
    buf_puts(out, "  ");
    safe_puts(out, did[0] != '\0' ? did : answer_text(line, "refused"));
    if (did[0] != '\0')
        buf_printf(out, "  %s (%.0f)",
                   status == 403                   ? "refused"
                   : status >= 200 && status < 300 ? "done"
                                                   : "failed",
                   status);
    else
        buf_puts(out, "  refused");
    buf_putc(out, '\n');
}

static enum firn_status get_audit(const struct stream *t, json_t *lines,
                                  struct firn_error *err)
{
    double next = 0;
    for (;;) {
        json_t *one = NULL;
        char path[96];
        if (t->args->last > 0)
            snprintf(path, sizeof path, "/v1/audit?tail=%d", t->args->last);
        else
            snprintf(path, sizeof path, "/v1/audit?after=%.0f", next);
        FIRN_TRY(client_get(t->live->client, path, &one, err));
        const json_t *list = answer_list(one, "lines");
        size_t n = json_array_size(list);
        json_array_extend(lines, (json_t *)list);
        next = answer_number(one, "next", next);
        json_decref(one);
        if (n == 0 || t->args->last > 0)
            return FIRN_OK;
    }
}

static int print_audit(const struct stream *t)
{
    struct firn_error err = {0};
    struct firn_buf out = {0};
    json_t *lines = json_array();
    int rc = 0;
    if (get_audit(t, lines, &err) != FIRN_OK) {
        rc = live_failed(t->live, &err);
    } else if (t->live->is_json) {
        rc = live_write_json(t->live, lines);
    } else {
        for (size_t i = 0; i < json_array_size(lines); i++)
            put_audit(json_array_get(lines, i), &out);
        rc = live_write(t->live, &out);
    }
    json_decref(lines);
    buf_release(&out);
    return rc;
}

/* --- the command ---------------------------------------------------------- */

/* Sets the number of the job given by --job. */
static int find_job(struct stream *t)
{
    struct firn_error err = {0};
    struct firn_buf path = {0};
    json_t *job = NULL;
    t->job = -1;
    if (t->args->job == NULL)
        return 0;
    buf_puts(&path, "/v1/jobs/");
    client_escape(&path, t->args->job);
    enum firn_status status = client_get(t->live->client, path.at, &job, &err);
    t->job = answer_number(job, "id", -1);
    json_decref(job);
    buf_release(&path);
    return status == FIRN_OK ? 0 : live_failed(t->live, &err);
}

static int print_events(struct live *live, const struct args *args)
{
    struct stream t = {.live = live, .args = args, .seen = (double)args->after};
    if (args->is_audit)
        return print_audit(&t);
    if (args->follows)
        client_catch_interrupts();
    int rc = find_job(&t);
    if (rc == 0)
        rc = print_history(&t);
    if (rc == 0 && args->follows)
        rc = follow(&t);
    buf_release(&t.line);
    return rc;
}

int cmd_events(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page,
                           "unexpected argument '%s'; did you mean --job %s?",
                           argv[1], argv[1]);
    if (args.is_audit && (args.follows || args.after > 0 || args.job != NULL))
        return flags_wrong(&page, "--audit goes with --last only");
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = print_events(&live, &args);
    live_close(&live);
    return rc;
}
