/* livejobs.c - jobs as the daemon tells of them, as pages.
 *
 * A table has one line a job. Its rows are sorted by state, then by id, so
 * that what runs stands first and nothing jumps about from one look to the
 * next. Of a sentence, as much is shown as tells the reason; `firn show` and
 * `firn why` have all of it.
 */
#include "cli/livejobs.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/safetext.h"
#include "cli/said.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the table; the last of those that are not over. */
static const char *const states[] = {
    "running", "starting",  "resizing", "preempting", "completing",
    "pending", "succeeded", "failed",   "cancelled",  "lost"};
enum { NSTATES = sizeof states / sizeof *states, FIRST_OVER = 6 };

static int state_rank(const json_t *job)
{
    const char *state = said_text(job, "state");
    for (int i = 0; i < NSTATES; i++)
        if (strcmp(state, states[i]) == 0)
            return i;
    return NSTATES;
}

bool live_job_is_over(const json_t *job)
{
    int rank = state_rank(job);
    return rank >= FIRST_OVER && rank < NSTATES;
}

int live_job_status(const json_t *job)
{
    double status = said_number(job, "exit_status", 1);
    if (strcmp(said_text(job, "state"), "succeeded") == 0)
        return 0;
    if (strcmp(said_text(job, "reason"), "exit") == 0 && status > 0 &&
        status < 256)
        return (int)status;
    if (strcmp(said_text(job, "reason"), "signal") == 0 && status < 0 &&
        status > -128)
        return 128 - (int)status;
    return 1;
}

struct row {
    const json_t *job;
    int rank;
    double id;
};

static int by_state(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return 0;
}

/* The jobs of an answer, sorted; mem_free() gives them back. */
static struct row *sorted_rows(const json_t *answer, size_t *n)
{
    const json_t *jobs =
        json_is_array(answer) ? answer : said_list(answer, "jobs");
    *n = json_array_size(jobs);
    struct row *rows = mem_new(*n, sizeof *rows);
    for (size_t i = 0; i < *n; i++) {
        const json_t *job = json_array_get(jobs, i);
        rows[i] =
            (struct row){job, state_rank(job), said_number(job, "id", -1)};
    }
    if (*n > 1)
        qsort(rows, *n, sizeof *rows, by_state);
    return rows;
}

size_t live_jobs_count(const json_t *answer, const char *state)
{
    const json_t *jobs = said_list(answer, "jobs");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(jobs); i++)
        n += strcmp(said_text(json_array_get(jobs, i), "state"), state) == 0;
    return n;
}

/* "4", "1..8", "-" when the daemon shall choose. */
static void put_gpus(struct firn_buf *out, const json_t *job)
{
    double least = said_number(job, "gpus_min", 0);
    double most = said_number(job, "gpus_max", 0);
    if (most <= 0)
        buf_putc(out, '-');
    else if (least == most)
        buf_printf(out, "%.0f", most);
    else
        buf_printf(out, "%.0f..%.0f", least, most);
}

/* How long it has run or ran; "-" for one that never did. */
static void put_ran(struct firn_buf *out, const json_t *job, double now_s)
{
    double started_s = said_number(job, "started_s", 0);
    double ended_s = said_number(job, "ended_s", 0);
    if (!(started_s > 0))
        buf_putc(out, '-');
    else
        buf_span(out, (ended_s > 0 ? ended_s : now_s) - started_s);
}

static double progress_of(const json_t *job)
{
    double progress = said_number(job, "progress", -1);
    return progress >= 0
               ? progress
               : said_number(json_object_get(job, "report"), "progress", -1);
}

static void add_row(struct table *table, const json_t *job, double now_s)
{
    struct firn_buf cell = {0};
    double progress = progress_of(job);
    table_cellf(table, "%.0f", said_number(job, "id", -1));
    said_cell(table, said_text(job, "name"));
    said_cell(table, said_text(job, "user"));
    said_cell(table, said_text(job, "state"));
    put_gpus(&cell, job);
    table_cell(table, cell.at);
    said_cell(table, said_text(job, "held"));
    table_cellf(table, progress >= 0 ? "%.0f%%" : "-", 100 * progress);
    buf_clear(&cell);
    put_ran(&cell, job, now_s);
    table_cell(table, cell.at);
    said_cell(table, said_text(job, "reason"));
    buf_release(&cell);
}

void live_jobs_lines(const json_t *answer, size_t most, struct firn_buf *out)
{
    static const char *const heads[] = {"ID",    "NAME", "USER",
                                        "STATE", "GPUS", "HOLDS",
                                        "DONE",  "RAN",  "REASON"};
    struct table table;
    size_t n;
    struct row *rows = sorted_rows(answer, &n);
    double now_s = moment_now_s();
    table_init(&table, "rlllrlrrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n && i < most; i++)
        add_row(&table, rows[i].job, now_s);
    table_print(&table, out);
    if (n > most)
        buf_printf(out, "and %zu more\n", n - most);
    table_release(&table);
    mem_free(rows);
}

void live_jobs_table(const json_t *answer, struct firn_buf *out)
{
    if (json_array_size(said_list(answer, "jobs")) == 0)
        buf_puts(out, "no jobs\n");
    else
        live_jobs_lines(answer, SIZE_MAX, out);
}

/* --- one job -------------------------------------------------------------- */

static void put_head(const json_t *job, struct firn_buf *out)
{
    buf_printf(out, "job %.0f (", said_number(job, "id", -1));
    safe_puts(out, said_text(job, "name"));
    buf_puts(out, ") of ");
    safe_puts(out, said_text(job, "user"));
    buf_puts(out, ": ");
    safe_puts(out, said_text(job, "state"));
    if (*said_text(job, "why") != '\0') {
        buf_puts(out, ": ");
        safe_puts(out, said_text(job, "why"));
    }
    buf_puts(out, "\n\n");
}

static void put_times(const json_t *job, struct firn_buf *out)
{
    static const struct {
        const char *key, *label;
    } rows[] = {{"submitted_s", "submitted"},
                {"started_s", "started"},
                {"ended_s", "ended"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double at_s = said_number(job, rows[i].key, 0);
        if (!(at_s > 0))
            continue;
        buf_printf(out, "%s: ", rows[i].label);
        buf_moment(out, at_s);
        buf_putc(out, '\n');
    }
}

void live_job_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const told[] = {
        "id",       "name",        "user",      "state",   "why",  "gpus_min",
        "gpus_max", "submitted_s", "started_s", "ended_s", "text", NULL};
    put_head(answer, out);
    buf_puts(out, "gpus: ");
    put_gpus(out, answer);
    buf_putc(out, '\n');
    put_times(answer, out);
    said_fields(answer, told, out);
    const char *text = said_text(answer, "text");
    if (*text == '\0')
        return;
    struct safe_feed feed = {0};
    buf_puts(out, "\nAs it was sent:\n\n");
    safe_feed(&feed, out, (struct firn_bytes){text, strlen(text)});
    safe_feed_end(&feed, out);
    if (out->at[out->n - 1] != '\n')
        buf_putc(out, '\n');
}
