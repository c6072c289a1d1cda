/* livewords.c - formats the answers of why, eta and plan.
 *
 * First firnd's sentence, then its numbers by name.
 */
#include "cli/livewords.h"
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/liveplans.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <string.h>

/* Appends a text of the answer as a line, if it is there. */
static void put_line(const json_t *answer, const char *key, const char *label,
                     struct firn_buf *out)
{
    const char *text = answer_text(answer, key);
    if (*text == '\0')
        return;
    buf_puts(out, label);
    safe_puts(out, text);
    buf_putc(out, '\n');
}

/* Appends "starts: in about 12m (6m to 24m)". */
static void put_moment(const json_t *answer, const char *what,
                       const char *label, struct firn_buf *out)
{
    char key[32];
    snprintf(key, sizeof key, "%s_s", what);
    double at_s = answer_number(answer, key, -1);
    if (at_s < 0)
        return;
    if (at_s == 0) {
        buf_printf(out, "%s: now\n", label);
        return;
    }
    buf_printf(out, "%s: in about ", label);
    buf_span(out, at_s);
    snprintf(key, sizeof key, "%s_range_s", what);
    const json_t *range = answer_list(answer, key);
    if (json_array_size(range) == 2) {
        buf_puts(out, " (");
        buf_span(out, json_number_value(json_array_get(range, 0)));
        buf_puts(out, " to ");
        buf_span(out, json_number_value(json_array_get(range, 1)));
        buf_putc(out, ')');
    }
    buf_putc(out, '\n');
}

/* Appends "needs: 8 GPUs, 40 GiB each" for {"gpus": 8, "mem_gib": 40}. */
static void put_gpus(const json_t *answer, const char *key, const char *label,
                     const char *kind, struct firn_buf *out)
{
    const json_t *amount = json_object_get(answer, key);
    double gpus = answer_number(amount, "gpus", -1);
    double mem_gib = answer_number(amount, "mem_gib", 0);
    if (gpus < 0)
        return;
    buf_printf(out, "%s: %.0f %sGPU%s", label, gpus, kind,
               gpus == 1 ? "" : "s");
    if (mem_gib > 0)
        buf_printf(out, ", %g GiB each", mem_gib);
    buf_putc(out, '\n');
}

/* Appends "label: NUMBER unit" if the number is known. */
static void put_number(const json_t *answer, const char *key, const char *label,
                       const char *unit, struct firn_buf *out)
{
    double number = answer_number(answer, key, -1);
    if (number >= 0)
        buf_printf(out, "%s: %.4g %s\n", label, number, unit);
}

/* Appends "held by: job 7 of ann, 4 GPUs, ends in about 20m" lines. */
static void put_blockers(const json_t *answer, struct firn_buf *out)
{
    const json_t *list = answer_list(answer, "blockers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        double left_s = answer_number(one, "left_s", -1);
        double gpus = answer_number(one, "gpus", 0);
        buf_printf(out, "held by: job %.0f of ", answer_number(one, "job", 0));
        safe_puts(out, answer_text(one, "user"));
        buf_printf(out, ", %.0f GPU%s", gpus, gpus == 1 ? "" : "s");
        if (left_s >= 0) {
            buf_puts(out, ", ends in about ");
            buf_span(out, left_s);
        }
        buf_putc(out, '\n');
    }
}

void live_why_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const printed[] = {
        "id",     "name", "text",       "need",    "have",     "next",
        "next_s", "note", "not_merged", "start_s", "blockers", NULL};
    double next_s = answer_number(answer, "next_s", -1);
    put_line(answer, "text", "", out);
    answer_fields(answer, printed, out);
    put_gpus(answer, "need", "needs", "", out);
    put_gpus(answer, "have", "free", "suitable ", out);
    if (next_s > 0) {
        bool waits = strcmp(answer_text(answer, "state"), "pending") == 0;
        bool is_retry = strcmp(answer_text(answer, "reason"), "retry") == 0;
        buf_puts(out, !waits     ? "ends in: about "
                      : is_retry ? "retried in: about "
                                 : "GPUs free in: about ");
        buf_span(out, next_s);
        buf_putc(out, '\n');
    }
    put_blockers(answer, out);
    put_line(answer, "note", "", out);
    put_line(answer, "next", "next: ", out);
    answer_lines(answer, "not_merged", out);
}

void live_eta_page(const json_t *answer, struct firn_buf *out)
{
    static const char *const printed[] = {
        "id",        "name",     "text",           "start_s",  "start_range_s",
        "rate",      "finish_s", "finish_range_s", "change",   "starts",
        "gpus",      "unknown",  "slows",          "is_guess", "memory_gib",
        "simulated", "plans",    "nplans",         "nearest",  "memory_ratio",
        NULL};
    put_line(answer, "text", "", out);
    put_moment(answer, "start", "starts", out);
    put_moment(answer, "finish", "ends", out);
    put_line(answer, "gpus", "GPUs: ", out);
    if (answer_number(answer, "rate", 0) > 0) /* 0: it has not begun yet */
        put_number(answer, "rate", "speed", "times that of the requested GPUs",
                   out);
    put_number(answer, "memory_gib", "memory", "GiB per GPU", out);
    put_number(answer, "slows", "slows down", "jobs", out);
    answer_fields(answer, printed, out);
    put_number(answer, "simulated", "simulated", "events", out);
    if (answer_yes(answer, "is_guess"))
        buf_puts(out, "The run time is estimated; --duration gives a better "
                      "prediction.\n");
    put_line(answer, "change", "sooner: ", out);
}

void live_plan_page(const json_t *answer, struct firn_buf *out)
{
    live_eta_page(answer, out);
    live_plans_put(answer, out);
}
