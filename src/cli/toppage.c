/* toppage.c - the pages of `firn top`.
 *
 * The list has, from the top: a line of counts, bars of GPUs that are held and
 * of the time in which they compute, nodes (at most a third of the screen),
 * jobs, and a line of keys. A job has its place in the queue, the time until
 * its expected start or end, and how busy its GPUs are, as far as firnd knows
 * them.
 */
#include "cli/toppage.h"
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/livejobs.h"
#include "cli/livenodes.h"
#include "cli/safetext.h"
#include "cli/screen.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 30, LOW_PERCENT = 5, NODES_MIN = 3 };

static void style(const struct top_shown *shown, struct firn_buf *out,
                  enum screen_style style)
{
    if (shown->has_styles && style != SCREEN_PLAIN)
        buf_putc(out, (char)style);
}

static void put_bar(struct firn_buf *out, double share)
{
    buf_putc(out, '[');
    for (int i = 0; i < BAR_WIDTH; i++)
        buf_putc(out, i < (int)(share * BAR_WIDTH + 0.5) ? '#' : ' ');
    buf_puts(out, "] ");
}

/* GPUs of "n0[0-3] n7[1,3]~": the numbers and ranges within brackets. */
static double gpus_held(const json_t *job)
{
    double n = 0;
    bool is_inside = false;
    long first = -1;
    const char *at = answer_text(job, "gpus");
    while (*at != '\0') {
        char *end = NULL;
        long number = is_inside ? strtol(at, &end, 10) : 0;
        if (is_inside && end != at) {
            n += first >= 0 && number > first ? (double)(number - first) : 1;
            first = *end == '-' ? number : -1;
            at = end + (*end == '-');
            continue;
        }
        is_inside = *at == '[' || (is_inside && *at != ']');
        at++;
    }
    return n;
}

/* The bar of measured utilisation; no line if no job was measured. */
static void put_busy(const struct top_list *list, const struct top_shown *shown,
                     struct firn_buf *out)
{
    double busy = 0, ngpus = 0;
    for (size_t i = 0; i < list->n; i++) {
        double share = answer_number(list->rows[i].job, "utilisation", NAN);
        if (isnan(share))
            continue;
        busy += share * gpus_held(list->rows[i].job);
        ngpus += gpus_held(list->rows[i].job);
    }
    if (!(ngpus > 0))
        return;
    style(shown, out, SCREEN_CYAN);
    buf_puts(out, "busy  ");
    put_bar(out, busy / ngpus);
    buf_printf(out, "%.0f %% of the time of %.0f measured GPUs\n",
               100 * busy / ngpus, ngpus);
}

static void put_head(const struct top_list *list, const struct top_shown *shown,
                     struct firn_buf *out)
{
    double ngpus, nfree;
    live_nodes_sum(shown->nodes, &ngpus, &nfree);
    style(shown, out, SCREEN_BOLD);
    buf_puts(out, "firn  ");
    buf_moment(out, shown->now_s);
    buf_printf(out, "   %zu running, %zu%s pending",
               live_jobs_count(shown->jobs, "running"),
               live_jobs_count(shown->jobs, "pending"),
               answer_yes(shown->jobs, "more") ? " and more" : "");
    if (shown->has_styles)
        buf_printf(out, "   by %s%s", top_sort_name(list->sort),
                   list->is_reversed ? ", reversed" : "");
    buf_putc(out, '\n');
    style(shown, out, SCREEN_GREEN);
    buf_puts(out, "GPUs  ");
    put_bar(out, ngpus > 0 ? (ngpus - nfree) / ngpus : 0);
    buf_printf(out, "%.0f of %.0f in use\n", ngpus - nfree, ngpus);
    put_busy(list, shown, out);
    buf_putc(out, '\n');
}

static size_t count_lines(const struct firn_buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->at[i] == '\n';
    return n;
}

/* Appends the first lines of a text; then how many were left out. */
static void put_lines(struct firn_buf *out, const struct firn_buf *text,
                      size_t most)
{
    size_t n = count_lines(text), shown = 0;
    const char *at = text->n > 0 ? text->at : "";
    for (; *at != '\0' && shown < (n > most ? most - 1 : n); shown++) {
        size_t length = strcspn(at, "\n") + 1;
        buf_add(out, at, length);
        at += length;
    }
    if (n > most)
        buf_printf(out, "and %zu more nodes: firn nodes\n", n - shown);
}

static void span_cell(struct table *table, double span_s)
{
    struct firn_buf cell = {0};
    if (isnan(span_s))
        buf_putc(&cell, '-');
    else
        buf_span(&cell, span_s > 0 ? span_s : 0);
    table_cell(table, cell.at);
    buf_release(&cell);
}

static void number_cell(struct table *table, const char *format, double number)
{
    if (isnan(number))
        table_cell(table, "-");
    else
        table_cellf(table, format, number); /* NOLINT: formats below */
}

static const char *const heads[] = {"ID",    "NAME",  "USER",  "STATE", "POS",
                                    "GPUS",  "HOLDS", "BUSY",  "DONE",  "RAN",
                                    "START", "END",   "REASON"};

static void add_job(struct table *table, const struct top_row *row,
                    double now_s)
{
    const json_t *job = row->job, *forecast = row->forecast;
    struct firn_buf cell = {0};
    const char *reason = answer_text(job, "reason");
    table_cellf(table, "%.0f", row->id);
    answer_cell(table, answer_text(job, "name"));
    answer_cell(table, answer_text(job, "user"));
    answer_cell(table, answer_text(job, "state"));
    number_cell(table, "%.0f", answer_number(forecast, "position", NAN));
    live_job_gpus(&cell, job);
    table_cell(table, cell.at);
    answer_cell(table, answer_text(job, "gpus"));
    number_cell(table, "%.0f%%", 100 * answer_number(job, "utilisation", NAN));
    number_cell(table, "%.0f%%", 100 * answer_number(job, "progress", NAN));
    span_cell(table, answer_number(job, "ran_s", NAN));
    span_cell(table, answer_number(forecast, "start_at_s", NAN) - now_s);
    span_cell(table, answer_number(forecast, "finish_at_s", NAN) - now_s);
    answer_cell(table, strcmp(reason, "none") == 0 ? "" : reason);
    buf_release(&cell);
}

static enum screen_style style_of(const struct top_list *list, size_t i)
{
    const json_t *job = list->rows[i].job;
    const char *state = answer_text(job, "state");
    double busy = answer_number(job, "utilisation", 1);
    if (i == list->at)
        return SCREEN_REVERSE;
    if (live_job_is_over(job))
        return SCREEN_DIM;
    if (strcmp(state, "pending") == 0)
        return SCREEN_YELLOW;
    return 100 * busy < LOW_PERCENT ? SCREEN_RED : SCREEN_GREEN;
}

static void put_jobs(struct top_list *list, const struct top_shown *shown,
                     size_t room, struct firn_buf *out)
{
    struct table table;
    struct firn_buf text = {0};
    top_list_scroll(list, room);
    size_t end = list->n - list->first > room ? list->first + room : list->n;
    table_init(&table, "rlllrrlrrrrrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = list->first; i < end; i++)
        add_job(&table, &list->rows[i], shown->now_s);
    table_print(&table, &text);
    const char *at = text.at;
    for (size_t i = list->first; at != NULL && *at != '\0'; i++) {
        size_t length = strcspn(at, "\n") + 1;
        bool is_head = at == text.at;
        style(shown, out, is_head ? SCREEN_BOLD : style_of(list, i));
        buf_add(out, at, length);
        at += length;
        i -= is_head;
    }
    table_release(&table);
    buf_release(&text);
}

void top_page(struct top_list *list, const struct top_shown *shown, int lines,
              struct firn_buf *out)
{
    struct firn_buf nodes = {0};
    size_t most = lines / 3 > NODES_MIN ? (size_t)lines / 3 : NODES_MIN;
    put_head(list, shown, out);
    live_nodes_table(shown->nodes, &nodes);
    put_lines(out, &nodes, shown->has_styles ? most : (size_t)-1);
    buf_release(&nodes);
    buf_putc(out, '\n');
    if (!shown->has_styles) {
        put_jobs(list, shown, list->n, out);
        return;
    }
    size_t used = count_lines(out) + 3; /* head of the table, message, keys */
    size_t room = (size_t)lines > used ? (size_t)lines - used : 1;
    put_jobs(list, shown, room, out);
    while (count_lines(out) + 2 < (size_t)lines)
        buf_putc(out, '\n');
    style(shown, out, *shown->message != '\0' ? SCREEN_BOLD : SCREEN_PLAIN);
    safe_puts(out, shown->message);
    buf_putc(out, '\n');
    style(shown, out, SCREEN_DIM);
    buf_puts(out, "up/down  enter show  w why  l logs  c cancel  s sort  "
                  "r reverse  ? help  q quit");
}

void top_help(struct firn_buf *out)
{
    static const char text[] =
        "up, down, k, j    select a job (page up and down, home, end: faster)\n"
        "enter             all that firnd knows of the job\n"
        "w                 why it waits or runs where it does\n"
        "l                 the end of its output, as it grows\n"
        "c                 cancel the job, after a question\n"
        "s                 sort by state, number, user, GPUs, busy, ran, end\n"
        "r                 reverse the order\n"
        "q, escape         back; from the list: quit\n\n"
        "POS    place in the queue\n"
        "BUSY   share of the time in which its GPUs compute, as measured\n"
        "DONE   progress that the job reports\n"
        "START  time until the expected start; END: until the expected end\n\n"
        "green: runs; yellow: waits; red: uses less than 5 % of its GPUs\n"
        "NO_COLOR=1 in the environment turns colours off.\n";
    struct firn_buf help = {0};
    buf_puts(&help, text);
    top_text("firn top: keys and columns", &help, 100, false, out);
    buf_release(&help);
}

void top_text(const char *title, const struct firn_buf *text, int lines,
              bool from_end, struct firn_buf *out)
{
    size_t n = count_lines(text), room = lines > 3 ? (size_t)lines - 3 : 1;
    const char *at = text->n > 0 ? text->at : "(nothing)\n";
    buf_putc(out, SCREEN_BOLD);
    safe_puts(out, title);
    buf_puts(out, "\n\n");
    for (; from_end && n > room && *at != '\0'; n--)
        at += strcspn(at, "\n") + 1;
    for (size_t i = 0; i < room && *at != '\0'; i++) {
        size_t length = strcspn(at, "\n");
        buf_add(out, at, length);
        buf_putc(out, '\n');
        at += length + (at[length] == '\n');
    }
    buf_putc(out, SCREEN_DIM);
    buf_puts(out, "q back");
}
