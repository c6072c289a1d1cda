/* lifedoc.c - docs/jobs.md shows the table of a job's life as it is.
 *
 * The block between the two markers is made from life_rows() and from what the
 * model has seen (lifeworld.h). With FIRN_WRITE_DOCS=1 (`make life-docs`) it is
 * written, else compared.
 */
#include "base/buf.h"
#include "lifeworld.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char page[] = "docs/jobs.md";
static const char first[] =
    "<!-- made from src/daemon/life.c by `make life-docs`: begin -->\n";
static const char last[] = "<!-- made from src/daemon/life.c: end -->\n";

static const char *const meanings[] = {
    "waits for GPUs, is held, or waits before its next try",
    "has GPUs; its processes are about to start",
    "its processes run",
    "leaves its GPUs to start again on others",
    "is asked to leave its GPUs, then waits",
    "is cancelled; its processes are ending",
    "over: all its work is done",
    "over: it failed, and may not try again",
    "over: cancelled",
    "over: its host or supervisor vanished, and it may not try again",
};

/* Which state can become which: a line for each, a column for each. */
static void put_picture(struct firn_buf *out)
{
    buf_puts(out, "| from, to |");
    for (int to = 0; to < LIFEWORLD_STATES; to++)
        buf_printf(out, " %s |", live_state_name((enum live_state)to));
    buf_puts(out, "\n| --- |");
    for (int to = 0; to < LIFEWORLD_STATES; to++)
        buf_puts(out, " --- |");
    for (int from = 0; from < LIVE_SUCCEEDED; from++) {
        buf_printf(out, "\n| %s |", live_state_name((enum live_state)from));
        for (int to = 0; to < LIFEWORLD_STATES; to++)
            buf_puts(out, from != to && world_changes[from][to] != 0 ? " x |"
                                                                     : " |");
    }
    buf_putc(out, '\n');
}

static void put_states(struct firn_buf *out)
{
    buf_puts(out, "| state | meaning |\n| --- | --- |\n");
    for (int state = 0; state < LIFEWORLD_STATES; state++)
        buf_printf(out, "| `%s` | %s |\n",
                   live_state_name((enum live_state)state), meanings[state]);
    buf_putc(out, '\n');
}

static bool is_same(const struct life_row *a, const struct life_row *b)
{
    return a->event == b->event && a->to == b->to && a->reason == b->reason &&
           strcmp(a->sentence, b->sentence) == 0;
}

/* The facts that all lines with this outcome have in common. */
static void put_facts(const struct life_row *rows, size_t n, size_t i,
                      struct firn_buf *out)
{
    const char *semicolon = "";
    unsigned with = ~0u, from = 0;
    for (size_t k = i; k < n; k++)
        if (rows[k].to != LIFE_SAME && is_same(&rows[k], &rows[i])) {
            with &= rows[k].with;
            from |= rows[k].from;
        }
    if ((from & (from - 1)) == 0) {
        buf_printf(out, "it is %s",
                   live_state_name((enum live_state)__builtin_ctz(from)));
        semicolon = "; ";
    }
    for (int fact = 0; fact < LIFE_NFACTS; fact++)
        if (with >> fact & 1) {
            buf_printf(out, "%s%s", semicolon,
                       life_fact_words((enum life_fact_bit)fact));
            semicolon = "; ";
        }
}

/* In a line above with the same outcome? */
static bool is_told(const struct life_row *rows, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (rows[k].to != LIFE_SAME && is_same(&rows[k], &rows[i]))
            return true;
    return false;
}

static void put_events(const struct life_row *rows, size_t n,
                       struct firn_buf *out)
{
    buf_puts(out, "\n| when | and | the job is | reason | sentence |\n"
                  "| --- | --- | --- | --- | --- |\n");
    int before = -1;
    for (size_t i = 0; i < n; i++) {
        const struct life_row *row = &rows[i];
        if (row->to == LIFE_SAME || is_told(rows, i))
            continue;
        buf_printf(out, "| %s | ",
                   (int)row->event != before ? life_event_words(row->event)
                                             : "");
        before = (int)row->event;
        put_facts(rows, n, i, out);
        buf_printf(out, " | `%s` | `%s` | %s |\n",
                   live_state_name((enum live_state)row->to),
                   live_reason_name(row->reason),
                   strcmp(row->sentence, "{why}") == 0 ? "says what happened"
                                                       : row->sentence);
    }
}

static void read_page(struct firn_buf *out)
{
    FILE *file = fopen(page, "r");
    char some[4096];
    if (file == NULL)
        fail_msg("cannot read %s", page);
    for (size_t n; (n = fread(some, 1, sizeof some - 1, file)) > 0;) {
        some[n] = '\0';
        buf_puts(out, some);
    }
    fclose(file);
}

void lifedoc_check(void)
{
    size_t n = 0;
    const struct life_row *rows = life_rows(&n);
    struct firn_buf text = {0}, block = {0};
    read_page(&text);
    put_states(&block);
    put_picture(&block);
    put_events(rows, n, &block);
    char *from = strstr(text.at, first), *to = strstr(text.at, last);
    if (from == NULL || to == NULL || to < from)
        fail_msg("%s has no markers for the table", page);
    from += strlen(first);
    bool is_same_text =
        (size_t)(to - from) == block.n && memcmp(from, block.at, block.n) == 0;
    if (!is_same_text && getenv("FIRN_WRITE_DOCS") != NULL) {
        FILE *file = fopen(page, "w");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(from - text.at), text.at, block.at, to);
        assert_int_equal(fclose(file), 0);
    } else if (!is_same_text) {
        fail_msg("%s is out of date: make life-docs", page);
    }
    buf_release(&text);
    buf_release(&block);
}
