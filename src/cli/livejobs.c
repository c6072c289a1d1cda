/* livejobs.c - gets jobs from firnd and formats them.
 *
 * Rows of a table are sorted by state, running jobs first, then by id, so that
 * the order is stable. The table shows the short reason of a state; `firn show`
 * and `firn why` print the whole sentence.
 */
#include "cli/livejobs.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/answer.h"
#include "cli/jsontext.h"
#include "cli/safetext.h"
#include "core/jobfields.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the table; ended states from FIRST_OVER on. */
static const char *const states[] = {
    "running", "starting",  "resizing", "preempting", "completing",
    "pending", "succeeded", "failed",   "cancelled",  "lost"};
enum { NSTATES = sizeof states / sizeof *states, FIRST_OVER = 6 };

int live_job_rank(const json_t *job)
{
    const char *state = answer_text(job, "state");
    for (int i = 0; i < NSTATES; i++)
        if (strcmp(state, states[i]) == 0)
            return i;
    return NSTATES;
}

bool live_job_is_over(const json_t *job)
{
    int rank = live_job_rank(job);
    return rank >= FIRST_OVER && rank < NSTATES;
}

int live_job_status(const json_t *job)
{
    double status = answer_number(job, "exit_status", 1);
    if (strcmp(answer_text(job, "state"), "succeeded") == 0)
        return 0;
    return status > 0 && status < 256 ? (int)status : 1;
}

/* --- requests ------------------------------------------------------------- */

/* One request for running and waiting jobs: with two requests, a job that
 * starts in between would be in neither answer. */
enum { PAGE = 100000 };

struct pages {
    struct client *client;
    struct firn_buf query, path;
    size_t left;              /* jobs to get */
    long after, pending_left; /* of the API; -1: last page; no limit */
    bool was_cut;             /* some waiting jobs were left out */
};

static void pages_open(struct pages *pages, struct client *client,
                       const struct live_list *list)
{
    bool is_alive = list->states == NULL && !list->with_over;
    *pages =
        (struct pages){.client = client, .left = SIZE_MAX, .pending_left = -1};
    if (list->most > 0 && is_alive)
        pages->pending_left = (long)list->most;
    else if (list->most > 0)
        pages->left = list->most;
    buf_printf(&pages->query, "all=%d", !is_alive);
    if (is_alive)
        buf_puts(&pages->query, "&state=");
    for (int i = 0; is_alive && i < FIRST_OVER; i++)
        buf_printf(&pages->query, "%s%s", i > 0 ? "%2C" : "", states[i]);
    if (list->states != NULL) {
        buf_puts(&pages->query, "&state=");
        client_escape(&pages->query, list->states);
    }
    if (list->user != NULL) {
        buf_puts(&pages->query, "&user=");
        client_escape(&pages->query, list->user);
    }
}

static void pages_close(struct pages *pages)
{
    buf_release(&pages->query);
    buf_release(&pages->path);
}

static bool pages_has_more(const struct pages *pages)
{
    return pages->was_cut || pages->after >= 0;
}

/* Path of the next page, or NULL. */
static const char *pages_next(struct pages *pages)
{
    if (pages->after < 0 || pages->left == 0)
        return NULL;
    buf_clear(&pages->path);
    buf_printf(&pages->path, "/v1/jobs?limit=%zu&after=%ld&%s",
               pages->left < PAGE ? pages->left : (size_t)PAGE, pages->after,
               pages->query.at);
    if (pages->pending_left >= 0)
        buf_printf(&pages->path, "&pending=%ld", pages->pending_left);
    return pages->path.at;
}

/* Notes a page of n jobs, and its members; -1: not in the answer. */
static void pages_had(struct pages *pages, size_t n, double next,
                      double pending_left, double pending_more)
{
    pages->left -= n < pages->left ? n : pages->left;
    pages->after = next > (double)pages->after && next < 1e15 ? (long)next : -1;
    if (pages->pending_left >= 0 && pending_left >= 0 && pending_left < 1e15)
        pages->pending_left = (long)pending_left;
    pages->was_cut = pages->was_cut || pending_more > 0;
}

enum firn_status live_jobs_get(struct client *client,
                               const struct live_list *list, json_t **out,
                               struct firn_error *err)
{
    struct pages pages;
    json_t *all = json_array();
    const char *path;
    enum firn_status status = FIRN_OK;
    pages_open(&pages, client, list);
    while (status == FIRN_OK && (path = pages_next(&pages)) != NULL) {
        json_t *page = NULL;
        status = client_get(client, path, &page, err);
        json_t *jobs = json_object_get(page, "jobs");
        json_array_extend(all, jobs);
        pages_had(&pages, json_array_size(jobs),
                  answer_number(page, "next", -1),
                  answer_number(page, "pending_left", -1),
                  answer_number(page, "pending_more", -1));
        json_decref(page);
    }
    if (status == FIRN_OK)
        *out = json_pack("{s:O, s:b}", "jobs", all, "more",
                         pages_has_more(&pages));
    json_decref(all);
    pages_close(&pages);
    return status;
}

/* --- JSON ----------------------------------------------------------------- */

/* Appends the jobs of a page as text; `*n` counts the jobs in `out`. */
static enum firn_status print_page(struct pages *pages, const char *path,
                                   size_t *n, struct firn_buf *out,
                                   struct firn_error *err)
{
    struct firn_buf page = {0};
    struct jsonread in;
    struct jsonread_keys keys = {0};
    char key[32];
    int64_t unused;
    size_t before = *n;
    double next = -1, pending_left = -1, pending_more = -1;
    bool has_jobs = false;
    enum firn_status status =
        client_piece(pages->client, path, &page, &unused, err);
    jsonread_init(&in, page.at, page.n, NULL);
    jsonread_enter(&in, '{');
    while (status == FIRN_OK && jsonread_member(&in, &keys, key, sizeof key)) {
        has_jobs = has_jobs || strcmp(key, "jobs") == 0;
        if (strcmp(key, "jobs") == 0)
            jsontext_items(&in, 2, n, out);
        else if (strcmp(key, "next") == 0)
            jsonread_number(&in, &next, -1);
        else if (strcmp(key, "pending_left") == 0)
            jsonread_number(&in, &pending_left, -1);
        else if (strcmp(key, "pending_more") == 0)
            jsonread_number(&in, &pending_more, -1);
        else
            jsonread_skip(&in);
    }
    jsonread_end(&in);
    if (status == FIRN_OK && (in.status != FIRN_OK || !has_jobs))
        status = firn_fail(err, FIRN_EDATA, "%s: the answer has no jobs",
                           client_place(pages->client));
    if (status == FIRN_OK)
        pages_had(pages, *n - before, next, pending_left, pending_more);
    buf_release(&page);
    return status;
}

enum firn_status live_jobs_print(struct client *client,
                                 const struct live_list *list,
                                 struct firn_buf *out, struct firn_error *err)
{
    struct pages pages;
    const char *path;
    size_t n = 0;
    enum firn_status status = FIRN_OK;
    pages_open(&pages, client, list);
    buf_puts(out, "{\n  \"jobs\": [");
    while (status == FIRN_OK && (path = pages_next(&pages)) != NULL)
        status = print_page(&pages, path, &n, out, err);
    buf_puts(out, n > 0 ? "\n  ]" : "]");
    buf_printf(out, ",\n  \"more\": %s\n}\n",
               pages_has_more(&pages) ? "true" : "false");
    pages_close(&pages);
    return status;
}

/* --- table ---------------------------------------------------------------- */

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

/* The jobs of an answer, sorted; the caller frees them (mem_free). */
static struct row *sorted_rows(const json_t *answer, size_t *n)
{
    const json_t *jobs = answer_list(answer, "jobs");
    *n = json_array_size(jobs);
    struct row *rows = mem_new(*n, sizeof *rows);
    for (size_t i = 0; i < *n; i++) {
        const json_t *job = json_array_get(jobs, i);
        rows[i] =
            (struct row){job, live_job_rank(job), answer_number(job, "id", -1)};
    }
    if (*n > 1)
        qsort(rows, *n, sizeof *rows, by_state);
    return rows;
}

size_t live_jobs_count(const json_t *answer, const char *state)
{
    const json_t *jobs = answer_list(answer, "jobs");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(jobs); i++)
        n += strcmp(answer_text(json_array_get(jobs, i), "state"), state) == 0;
    return n;
}

void live_job_gpus(struct firn_buf *out, const json_t *job)
{
    double least = answer_number(job, "gpus_min", 0);
    double most = answer_number(job, "gpus_max", 0);
    if (most <= 0)
        buf_putc(out, '-');
    else if (least == most)
        buf_printf(out, "%.0f", most);
    else
        buf_printf(out, "%.0f..%.0f", least, most);
}

/* Appends the time on GPUs over all attempts; "-" before the first. */
static void put_job_ran(struct firn_buf *out, const json_t *job)
{
    double ran_s = answer_number(job, "ran_s", -1);
    if (ran_s >= 0)
        buf_span(out, ran_s);
    else
        buf_putc(out, '-');
}

/* Appends the duration of an attempt so far; "-" if it has not started. */
static void put_ran(struct firn_buf *out, const json_t *attempt, double now_s)
{
    double started_s = answer_number(attempt, "started_s", 0);
    double ended_s = answer_number(attempt, "ended_s", 0);
    if (!(started_s > 0))
        buf_putc(out, '-');
    else
        buf_span(out, (ended_s > 0 ? ended_s : now_s) - started_s);
}

static void add_row(struct table *table, const json_t *job)
{
    struct firn_buf cell = {0};
    double progress = answer_number(job, "progress", -1);
    table_cellf(table, "%.0f", answer_number(job, "id", -1));
    answer_cell(table, answer_text(job, "name"));
    answer_cell(table, answer_text(job, "user"));
    answer_cell(table, answer_text(job, "state"));
    live_job_gpus(&cell, job);
    table_cell(table, cell.at);
    answer_cell(table, answer_text(job, "gpus"));
    table_cellf(table, progress >= 0 ? "%.0f%%" : "-", 100 * progress);
    buf_clear(&cell);
    put_job_ran(&cell, job);
    table_cell(table, cell.at);
    answer_cell(table, answer_text(job, "reason"));
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
    table_init(&table, "rlllrlrrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n && i < most; i++)
        add_row(&table, rows[i].job);
    table_print(&table, out);
    if (n > most)
        buf_printf(out, "and %zu more\n", n - most);
    else if (answer_yes(answer, "more"))
        buf_puts(out, "and more; --limit 0 lists all\n");
    table_release(&table);
    mem_free(rows);
}

void live_jobs_table(const json_t *answer, struct firn_buf *out)
{
    if (json_array_size(answer_list(answer, "jobs")) == 0)
        buf_puts(out, "no jobs\n");
    else
        live_jobs_lines(answer, SIZE_MAX, out);
}

/* --- one job -------------------------------------------------------------- */

static void put_head(const json_t *job, struct firn_buf *out)
{
    buf_printf(out, "job %.0f (", answer_number(job, "id", -1));
    safe_puts(out, answer_text(job, "name"));
    buf_puts(out, ") of ");
    safe_puts(out, answer_text(job, "user"));
    buf_puts(out, ": ");
    safe_puts(out, answer_text(job, "state"));
    if (*answer_text(job, "why") != '\0') {
        buf_puts(out, ": ");
        safe_puts(out, answer_text(job, "why"));
    }
    buf_puts(out, "\n\n");
}

static void put_times(const json_t *job, struct firn_buf *out)
{
    static const struct {
        const char *key, *label;
    } rows[] = {{"submitted_s", "submitted"},
                {"started_s", "started"},
                {"ended_s", "ended"},
                {"reported_s", "reported"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double at_s = answer_number(job, rows[i].key, 0);
        if (!(at_s > 0))
            continue;
        buf_printf(out, "%s: ", rows[i].label);
        buf_moment(out, at_s);
        buf_putc(out, '\n');
    }
}

void live_put_cause(struct firn_buf *out, const json_t *object)
{
    double for_job = answer_number(object, "for_job", 0);
    safe_puts(out, answer_text(object, "cause"));
    if (for_job > 0)
        buf_printf(out, ", for job %.0f", for_job);
}

static void put_attempts(const json_t *job, struct firn_buf *out)
{
    static const char *const heads[] = {
        "ATTEMPT", "STARTED", "RAN", "GPUS", "END", "STATUS", "STOPPED BY"};
    const json_t *attempts = answer_list(job, "attempts");
    struct firn_buf cell = {0};
    struct table table;
    if (attempts == NULL)
        attempts = answer_list(job, "epochs"); /* older name */
    if (json_array_size(attempts) == 0)
        return;
    table_init(&table, "rlrllrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *attempt = json_array_get(attempts, i);
        const char *end = answer_text(attempt, "end");
        table_cellf(&table, "%.0f",
                    answer_number(attempt, "attempt",
                                  answer_number(attempt, "epoch", 0)));
        buf_clear(&cell);
        buf_moment(&cell, answer_number(attempt, "started_s", 0));
        table_cell(&table, cell.at);
        buf_clear(&cell);
        put_ran(&cell, attempt, moment_now_s());
        table_cell(&table, cell.at);
        answer_cell(&table, answer_text(attempt, "gpus"));
        answer_cell(&table, end);
        table_cellf(&table, *end != '\0' ? "%.0f" : "-",
                    answer_number(attempt, "exit_status", 0));
        buf_clear(&cell);
        live_put_cause(&cell, attempt);
        answer_cell(&table, cell.n > 0 ? cell.at : "");
    }
    buf_putc(out, '\n');
    table_print(&table, out);
    table_release(&table);
    buf_release(&cell);
}

static void put_file(const json_t *job, struct firn_buf *out)
{
    const char *text = answer_text(job, "file");
    struct safe_feed feed = {0};
    if (*text == '\0')
        return;
    buf_puts(out, "\nJob file:\n\n");
    safe_feed(&feed, out, (struct firn_bytes){text, strlen(text)});
    safe_feed_end(&feed, out);
    if (out->at[out->n - 1] != '\n')
        buf_putc(out, '\n');
}

/* The value of a field, in the words of a job file. */
static void put_field(const struct job_field *field, const json_t *value,
                      struct firn_buf *out)
{
    double number = json_number_value(value);
    if (field->kind == JOB_TIME && fmod(number, 60) == 0 && number < 3600)
        buf_span(out, number);
    else if (field->kind == JOB_TIME)
        buf_printf(out, "%.15gs", number);
    else if (field->kind == JOB_DATE)
        buf_moment(out, number);
    else if (field->kind == JOB_GIB)
        buf_printf(out, "%.6gGiB", number);
    else if (field->kind == JOB_SHARE)
        buf_printf(out, "%.6g%%", 100 * number);
    else if (field->kind == JOB_ALLOWED)
        buf_puts(out, "allowed");
    else
        answer_value(out, value);
}

/* The fields that the user gave, by their keys in a job file, then what this
 * program does not know. False, 0 and "" mean: not given. */
static void put_ask(const json_t *job, struct firn_buf *out)
{
    const json_t *ask = json_object_get(job, "ask");
    const char *printed[JOB_NFIELDS + 1] = {NULL};
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *field = &job_fields[i];
        const char *label = field->key == NULL || field->kind == JOB_EVENTS
                                ? field->name
                                : field->key;
        printed[i] = job_field_json(field);
        const json_t *value = json_object_get(ask, printed[i]);
        if (value == NULL || answer_is_unknown(value) ||
            (json_is_number(value) && json_number_value(value) == 0))
            continue;
        buf_printf(out, "%s: ", label);
        put_field(field, value, out);
        buf_putc(out, '\n');
    }
    answer_fields(ask, printed, out);
}

/* Appends how much of the output is kept. */
static void put_log(const json_t *job, struct firn_buf *out)
{
    const json_t *log = json_object_get(job, "log");
    double dropped = answer_number(log, "dropped_bytes", 0);
    if (log == NULL)
        return;
    if (answer_yes(log, "removed")) {
        buf_puts(out, "log: removed (keep-jobs, keep-jobs-days of firnd)\n");
        return;
    }
    buf_printf(out, "log: %.0f bytes kept",
               answer_number(log, "kept_bytes", 0));
    if (dropped > 0)
        buf_printf(out, ", the oldest %.0f dropped", dropped);
    buf_putc(out, '\n');
}

/* "can: resize, passes (reported)": the orders that its trainer obeys. */
static void put_abilities(const json_t *job, struct firn_buf *out)
{
    const json_t *can = json_object_get(job, "can"), *word;
    size_t i;
    if (!json_is_array(can))
        return;
    buf_puts(out, "can: ");
    json_array_foreach(can, i, word)
    {
        buf_puts(out, i > 0 ? ", " : "");
        safe_puts(out, json_string_value(word));
    }
    buf_printf(out, "%s (%s)\n", json_array_size(can) == 0 ? "none" : "",
               answer_text(job, "can_from"));
}

/* Of a start whose processes were there before its GPUs were free. */
static void put_prepared(const json_t *job, struct firn_buf *out)
{
    double prepared_s = answer_number(job, "prepared_s", 0);
    if (prepared_s > 0)
        buf_printf(out,
                   "prepared: %.3g s before it had its GPUs; first step %.3g s "
                   "after\n",
                   prepared_s, answer_number(job, "first_step_s", 0));
}

/* "measured on its GPUs: 93 % busy, 12.5 GiB". */
static void put_measured(const json_t *job, struct firn_buf *out)
{
    const json_t *measured = json_object_get(job, "measured");
    if (json_is_object(measured))
        buf_printf(out, "measured on its GPUs: %.0f %% busy, %.1f GiB\n",
                   100 * answer_number(measured, "utilisation", 0),
                   answer_number(measured, "memory_gib", 0));
}

/* "memory per GPU: predicted 30.1 GiB (at most 33.0) of 80 GiB, seen 31.2 GiB;
 * predictions are times 1.04, by what was seen of this model and mode". */
static void put_memory(const json_t *job, struct firn_buf *out)
{
    const json_t *memory = json_object_get(job, "memory");
    double ratio = answer_number(memory, "ratio", 1);
    double seen = answer_number(memory, "seen_gib", -1);
    double gpu = answer_number(memory, "gpu_gib", -1);
    if (!json_is_object(memory))
        return;
    buf_printf(out, "memory per GPU: predicted %.1f GiB (at most %.1f)",
               answer_number(memory, "expected_gib", 0),
               answer_number(memory, "high_gib", 0));
    if (gpu > 0)
        buf_printf(out, " of %.4g GiB", gpu);
    if (seen > 0)
        buf_printf(out,
                   ", seen %.1f GiB (%.1f predicted with what the "
                   "allocator holds)",
                   seen, answer_number(memory, "reserved_gib", 0));
    if (ratio != 1)
        buf_printf(out,
                   "; predictions are times %.2f, by what was seen of this "
                   "model and mode",
                   ratio);
    buf_putc(out, '\n');
}

void live_job_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const printed[] = {
        "id",        "name",        "user",       "state",        "why",
        "gpus_min",  "gpus_max",    "gpus",       "ask",          "report",
        "started_s", "submitted_s", "ended_s",    "epochs",       "file",
        "request",   "reported_s",  "progress",   "not_merged",   "log",
        "epoch",     "attempts",    "ran_s",      "can",          "can_from",
        "measured",  "memory",      "prepared_s", "first_step_s", NULL};
    static const char *const hidden[] = {"variance", NULL};
    double progress = answer_number(answer, "progress", -1);
    put_head(answer, out);
    put_times(answer, out);
    buf_puts(out, "requested GPUs: ");
    live_job_gpus(out, answer);
    buf_puts(out, "\nheld GPUs: ");
    safe_puts(out, answer_text(answer, "gpus"));
    buf_puts(out, "\ntime on GPUs: ");
    put_job_ran(out, answer);
    buf_putc(out, '\n');
    if (progress >= 0)
        buf_printf(out, "progress: %.1f%%\n", 100 * progress);
    put_abilities(answer, out);
    put_prepared(answer, out);
    put_measured(answer, out);
    put_memory(answer, out);
    put_log(answer, out);
    answer_lines(answer, "not_merged", out);
    answer_fields(answer, printed, out);
    put_ask(answer, out);
    if (json_object_size(json_object_get(answer, "report")) > 0)
        buf_puts(out, "\nLast report:\n\n");
    answer_fields(json_object_get(answer, "report"), hidden, out);
    put_attempts(answer, out);
    put_file(answer, out);
}
