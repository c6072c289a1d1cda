/* explainpage.c - a life on a page, and as JSON.
 *
 * The page has a row for each stretch: when it began, how long it lasted, how
 * much of the work was done at its end, and what it was; where only the rate
 * changed, one row says between what. Below it stands where the time went.
 * JSON has each stretch, with all digits.
 */
#include "base/buf.h"
#include "base/table.h"
#include "sim/explain.h"
#include "sim/summary.h"
#include "sim/world.h"
#include <math.h>
#include <string.h>

enum { ALLOC_SHOWN = 48, WITH_SHOWN = 4 };

static const char *plural(long n)
{
    return n == 1 ? "" : "s";
}

static void put_heading(const struct explain *life, struct firn_buf *out)
{
    buf_printf(out, "%s (job %d) of %s under %s", life->name, life->id,
               life->trace, life->policy);
    if (strcmp(life->world, world_honest.name) != 0)
        buf_printf(out, ", by the rules of %s", life->world);
    buf_printf(out, "\nasks for %d GPU%s", life->gpus, plural(life->gpus));
    if (life->gpus_min != life->gpus_max)
        buf_printf(out, ", runs on %d to %d", life->gpus_min, life->gpus_max);
    buf_puts(out, "; ");
    summary_time(life->duration_s, out);
    buf_puts(out, " of work\n\n");
}

static void put_wait(const struct explain_stretch *s, struct firn_buf *out)
{
    static const struct {
        const char *cause, *words;
    } begins[] = {{"submit", "submitted; "},
                  {"preempt", "preempted; "},
                  {"node", "its node is lost; "}};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strcmp(s->cause, begins[i].cause) == 0)
            buf_puts(out, begins[i].words);
    buf_puts(out, "waits");
    if (s->note[0] != '\0')
        buf_printf(out, ": %s", s->note);
    buf_printf(out, " (%d of %d GPUs free, %ld job%s before it)", s->gpus_free,
               s->gpus_up, s->jobs_before, plural(s->jobs_before));
}

static void put_alloc(const struct explain_stretch *s, struct firn_buf *out)
{
    size_t n = strlen(s->alloc), cut = n;
    if (n > ALLOC_SHOWN) {
        cut = ALLOC_SHOWN;
        while (cut > 0 && s->alloc[cut] != ' ')
            cut--;
    }
    buf_printf(out, " on %d GPU%s of %d node%s: ", s->gpus, plural(s->gpus),
               s->nodes, plural(s->nodes));
    buf_add(out, s->alloc, cut);
    buf_puts(out, cut < n ? " ..." : "");
    for (size_t i = 0; i < s->nwith && i < WITH_SHOWN; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "; shares with ", s->with[i]);
    if (s->nwith > WITH_SHOWN)
        buf_printf(out, " and %zu more", s->nwith - WITH_SHOWN);
}

/* Stretches of one place that differ in their rate only are one row; returns
 * the first behind them. */
static size_t row_end(const struct explain *life, size_t first)
{
    const struct explain_stretch *s = life->stretches.at;
    size_t end = first + 1;
    while (end < life->stretches.n && s[first].what == EXPLAIN_TRAINS &&
           s[end].what == EXPLAIN_TRAINS && s[end].cause[0] == '\0' &&
           explain_same_place(&s[first], &s[end]))
        end++;
    return end;
}

static void put_rates(const struct explain_stretch *s, size_t n,
                      struct firn_buf *out)
{
    double least = s->rate, most = s->rate;
    for (size_t i = 1; i < n; i++) {
        least = fmin(least, s[i].rate);
        most = fmax(most, s[i].rate);
    }
    buf_printf(out, "trains at %.4g", least);
    if (most > least)
        buf_printf(out, " to %.4g", most);
}

static void put_hold(const struct explain *life,
                     const struct explain_stretch *s, size_t n,
                     struct firn_buf *out)
{
    static const struct {
        const char *cause, *words;
    } begins[] = {{"start", "starts; "},
                  {"resize", "is resized; "},
                  {"move", "is moved; "}};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strcmp(s->cause, begins[i].cause) == 0)
            buf_puts(out, begins[i].words);
    if (strcmp(s->cause, "anew") == 0)
        buf_printf(out, "begins anew: %s; ", s->note);
    if (s->what == EXPLAIN_RESTARTS)
        buf_puts(out, "restarts");
    else if (s->what == EXPLAIN_TRAINS)
        put_rates(s, n, out);
    else
        buf_puts(out, s->done_from_s < life->duration_s
                          ? "stands still"
                          : "has done its work and is not yet seen to have");
    put_alloc(s, out);
}

static void put_stretches(const struct explain *life, struct firn_buf *out)
{
    struct table table;
    struct firn_buf cell = {0};
    table_init(&table, "rrrl");
    table_cell(&table, "at");
    table_cell(&table, "for");
    table_cell(&table, "done");
    table_cell(&table, "");
    for (size_t i = 0, end; i < life->stretches.n; i = end) {
        const struct explain_stretch *s = &life->stretches.at[i];
        end = row_end(life, i);
        const struct explain_stretch *last = &life->stretches.at[end - 1];
        buf_clear(&cell);
        summary_time(s->from_s, &cell);
        table_cell(&table, cell.at);
        buf_clear(&cell);
        summary_time(last->to_s - s->from_s, &cell);
        table_cell(&table, cell.at);
        table_cellf(&table, "%.1f%%", 100 * last->done_to_s / life->duration_s);
        buf_clear(&cell);
        if (s->what == EXPLAIN_WAITS)
            put_wait(s, &cell);
        else
            put_hold(life, s, end - i, &cell);
        table_cell(&table, cell.at);
    }
    table_print(&table, out);
    table_release(&table);
    buf_release(&cell);
}

static void put_part(const char *what, double part_s, double jct_s,
                     struct firn_buf *out)
{
    buf_printf(out, "%s ", what);
    summary_time(part_s, out);
    if (jct_s > 0)
        buf_printf(out, " (%.1f%%)", 100 * part_s / jct_s);
}

static void put_summary(const struct explain *life, struct firn_buf *out)
{
    static const char *const ends[] = {
        [EXPLAIN_OPEN] = "not ended when the log ends, at ",
        [EXPLAIN_DONE] = "done at ",
        [EXPLAIN_FAILED] = "failed at ",
        [EXPLAIN_REJECT] = "rejected at ",
    };
    double jct_s = life->end_s - life->submit_s;
    buf_printf(out, "%s%s", life->stretches.n > 0 ? "\n" : "", ends[life->end]);
    summary_time(life->end_s, out);
    if (life->reason[0] != '\0')
        buf_printf(out, " (%s)", life->reason);
    buf_puts(out, ", ");
    summary_time(jct_s, out);
    buf_puts(out, " after it was submitted\n");
    put_part("waited", life->waited_s, jct_s, out);
    put_part(", restarted", life->restarted_s, jct_s, out);
    put_part(", trained", life->trained_s, jct_s, out);
    if (life->stood_s > 0)
        put_part(", stood still", life->stood_s, jct_s, out);
    buf_printf(out, "; %d restart%s, preempted %d time%s", life->restarts,
               plural(life->restarts), life->preemptions,
               plural(life->preemptions));
    if (life->node_losses > 0) {
        buf_printf(out, ", lost its node %d time%s and with it ",
                   life->node_losses, plural(life->node_losses));
        summary_time(life->lost_s, out);
        buf_puts(out, " of work");
    }
    buf_putc(out, '\n');
}

void explain_page(const struct explain *life, struct firn_buf *out)
{
    put_heading(life, out);
    if (life->stretches.n > 0)
        put_stretches(life, out);
    put_summary(life, out);
}

/* ---- JSON ---- */

static void key_number(const char *key, double value, struct firn_buf *out)
{
    buf_printf(out, ",\"%s\":", key);
    buf_json_double(out, value);
}

static void key_text(const char *key, const char *text, struct firn_buf *out)
{
    buf_printf(out, ",\"%s\":", key);
    buf_json_string(out, text);
}

static void json_stretch(const struct explain_stretch *s, struct firn_buf *out)
{
    static const char *const whats[] = {
        [EXPLAIN_WAITS] = "wait",
        [EXPLAIN_RESTARTS] = "restart",
        [EXPLAIN_TRAINS] = "train",
        [EXPLAIN_STANDS] = "stand",
    };
    buf_printf(out, "{\"what\":\"%s\"", whats[s->what]);
    key_text("cause", s->cause, out);
    key_number("from_s", s->from_s, out);
    key_number("to_s", s->to_s, out);
    key_number("done_from_s", s->done_from_s, out);
    key_number("done_to_s", s->done_to_s, out);
    if (s->what == EXPLAIN_WAITS) {
        key_text("note", s->note, out);
        buf_printf(out, ",\"gpus_free\":%d,\"gpus_up\":%d,\"jobs_before\":%ld}",
                   s->gpus_free, s->gpus_up, s->jobs_before);
        return;
    }
    if (s->note[0] != '\0')
        key_text("note", s->note, out);
    buf_printf(out, ",\"gpus\":%d,\"nodes\":%d", s->gpus, s->nodes);
    key_text("alloc", s->alloc, out);
    buf_puts(out, ",\"with\":[");
    for (size_t i = 0; i < s->nwith; i++) {
        buf_puts(out, i > 0 ? "," : "");
        buf_json_string(out, s->with[i]);
    }
    buf_putc(out, ']');
    key_number("rate", s->what == EXPLAIN_TRAINS ? s->rate : 0, out);
    buf_putc(out, '}');
}

static void json_sums(const struct explain *life, struct firn_buf *out)
{
    double jct_s = life->end_s - life->submit_s;
    const struct {
        const char *key, *share;
        double value_s;
    } parts[] = {
        {"waited_s", "waited_share", life->waited_s},
        {"restarted_s", "restarted_share", life->restarted_s},
        {"trained_s", "trained_share", life->trained_s},
        {"stood_s", "stood_share", life->stood_s},
    };
    key_number("jct_s", jct_s, out);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        key_number(parts[i].key, parts[i].value_s, out);
        key_number(parts[i].share, parts[i].value_s / jct_s, out);
    }
    key_number("lost_s", life->lost_s, out);
    buf_printf(out, ",\"restarts\":%d,\"preemptions\":%d,\"node_losses\":%d",
               life->restarts, life->preemptions, life->node_losses);
}

void explain_json(const struct explain *life, struct firn_buf *out)
{
    static const char *const ends[] = {
        [EXPLAIN_OPEN] = "open",
        [EXPLAIN_DONE] = "done",
        [EXPLAIN_FAILED] = "fail",
        [EXPLAIN_REJECT] = "reject",
    };
    buf_puts(out, "{\"trace\":");
    buf_json_string(out, life->trace);
    key_text("policy", life->policy, out);
    key_text("world", life->world, out);
    key_text("name", life->name, out);
    buf_printf(out, ",\"id\":%d,\"gpus\":%d,\"gpus_min\":%d,\"gpus_max\":%d",
               life->id, life->gpus, life->gpus_min, life->gpus_max);
    key_number("duration_s", life->duration_s, out);
    key_number("submit_s", life->submit_s, out);
    key_text("end", ends[life->end], out);
    key_number("end_s", life->end_s, out);
    key_text("reason", life->reason, out);
    json_sums(life, out);
    buf_puts(out, ",\"stretches\":[");
    for (size_t i = 0; i < life->stretches.n; i++) {
        buf_puts(out, i > 0 ? ",\n" : "\n");
        json_stretch(&life->stretches.at[i], out);
    }
    buf_puts(out, "]}");
}
