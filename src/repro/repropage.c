/* repropage.c - results of scenarios as text and as JSON.
 *
 * Values have four significant digits in text and all digits in JSON.
 */
#include "repro/repropage.h"
#include "base/buf.h"
#include "base/table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- cells --------------------------------------------------------------- */

double paper_number(const struct repro_scenario *it, int policy, int point,
                    int metric)
{
    for (unsigned i = 0; i < it->numbers_count; i++) {
        const struct repro_number *number = &it->numbers[i];
        if (number->policy == policy && number->point == point &&
            number->metric_at == metric)
            return number->number;
    }
    return NAN;
}

static double in_unit(const struct repro_scenario *it, int metric, double value)
{
    return it->metric[metric].is_time ? value / it->unit_s : value;
}

/* About four significant digits, without an exponent for large values. */
static void put_short(double value, struct firn_buf *out)
{
    double size = fabs(value);
    if (isnan(value))
        buf_puts(out, "-");
    else if (size > 0 && size < 0.1)
        buf_printf(out, "%.3g", value);
    else
        buf_printf(out, "%.*f",
                   size < 10     ? 3
                   : size < 100  ? 2
                   : size < 1000 ? 1
                                 : 0,
                   value);
}

void value_text(const struct repro_scenario *it, int metric, double value,
                struct firn_buf *out)
{
    put_short(in_unit(it, metric, value), out);
}

void metric_text(const struct repro_scenario *it, int metric,
                 struct firn_buf *out)
{
    buf_puts(out, it->metrics[metric]);
    if (it->metric[metric].is_time && it->unit_s != 1)
        buf_printf(out, " [%s]", it->unit);
}

void figure_text(const struct repro_claim *claim, double figure,
                 struct firn_buf *out)
{
    if (isnan(figure))
        buf_puts(out, "-");
    else if (claim->kind == REPRO_BELOW)
        buf_printf(out, "%.3g", figure);
    else if (claim->kind == REPRO_LESS)
        buf_printf(out, "%.1f %%", 100 * figure);
    else
        buf_printf(out, "%.2fx", figure);
}

void claim_text(const struct repro_scenario *it,
                const struct repro_claim *claim, struct firn_buf *out)
{
    static const char *const kinds[] = {"better than", "below",
                                        "at most this over", "at most this"};
    bool is_same = claim->of_policy == claim->over_policy;
    buf_printf(out, "%s", claim->of);
    if (claim->at != NULL)
        buf_printf(out, " at %s", claim->at);
    buf_printf(out, " %s", kinds[claim->kind]);
    if (claim->kind != REPRO_BELOW)
        buf_printf(out, " %s", is_same ? "itself" : claim->over);
    if (claim->over_at != NULL)
        buf_printf(out, " at %s", claim->over_at);
    if (it->sweep != NULL && claim->at == NULL)
        buf_puts(out, " (worst point)");
    if (claim->metric_at > 0)
        buf_printf(out, ", %s", it->metrics[claim->metric_at]);
    if (claim->beyond != NULL)
        buf_printf(out, " beyond %s", claim->beyond);
    if (claim->is_compat)
        buf_printf(out, " (by %s)", it->compat->world);
}

bool has_compat(const struct repro_part *part)
{
    for (unsigned i = 0; i < part->scenario->policies_count; i++)
        if (part->scenario->policies[i].compat != NULL)
            return true;
    return false;
}

void tally_text(struct repro_tally tally, struct firn_buf *out)
{
    buf_printf(out, "%d of %d claims hold", tally.held, tally.claims);
    if (tally.skipped > 0)
        buf_printf(out, "; %d skipped", tally.skipped);
    if (tally.absent > 0)
        buf_printf(out, "; %d not reproducible", tally.absent);
}

/* --- text ----------------------------------------------------------------- */

static void cell(struct table *table, struct firn_buf *text)
{
    table_cell(table, text->n > 0 ? text->at : "");
    buf_clear(text);
}

static void put_row(const struct repro_book *book,
                    const struct repro_part *part, int point, int policy,
                    int metric, struct table *table)
{
    const struct repro_scenario *it = part->scenario;
    struct firn_buf text = {0};
    if (it->sweep != NULL)
        table_cell(table, it->sweep->points[point].at);
    table_cell(table, it->policies[policy].label);
    metric_text(it, metric, &text);
    cell(table, &text);
    put_short(paper_number(it, policy, point, metric), &text);
    cell(table, &text);
    for (int i = 0; i < (has_compat(part) ? 2 : 1); i++) {
        value_text(
            it, metric,
            book_value(book, part, (enum repro_rules)i, policy, point, metric),
            &text);
        cell(table, &text);
    }
    buf_release(&text);
}

static void put_values(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct table table;
    bool varies = it->sweep != NULL;
    table_init(&table, varies ? (has_compat(part) ? "lllrrr" : "lllrr")
                              : (has_compat(part) ? "llrrr" : "llrr"));
    if (varies)
        table_cell(&table, it->sweep->axis);
    table_cell(&table, "policy");
    table_cell(&table, "metric");
    table_cell(&table, "paper");
    table_cell(&table, "ours");
    if (has_compat(part))
        table_cell(&table, it->compat->world);
    for (int k = 0; k < it->npoints; k++)
        for (int i = 0; i < (int)it->policies_count; i++)
            for (int m = 0; m < (int)it->metrics_count; m++)
                if (!is_blank(part, i, k, m))
                    put_row(book, part, k, i, m, &table);
    table_print(&table, out);
    table_release(&table);
}

static void put_claims(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct firn_buf text = {0};
    struct table table;
    table_init(&table, has_compat(part) ? "lrrrrl" : "lrrrl");
    table_cell(&table, "claim");
    table_cell(&table, "paper");
    table_cell(&table, "needed");
    table_cell(&table, "ours");
    if (has_compat(part))
        table_cell(&table, it->compat->world);
    table_cell(&table, "holds");
    for (unsigned i = 0; i < it->claims_count; i++) {
        const struct repro_claim *claim = &it->claims[i];
        struct repro_verdict verdict = judge(book, part, claim);
        claim_text(it, claim, &text);
        cell(&table, &text);
        figure_text(claim, claim->paper, &text);
        cell(&table, &text);
        figure_text(claim, verdict.needed, &text);
        cell(&table, &text);
        for (int k = 0; k < (has_compat(part) ? 2 : 1); k++) {
            figure_text(claim, verdict.ours[k], &text);
            cell(&table, &text);
        }
        bool is_no = !verdict.holds && !verdict.is_absent;
        table_cellf(&table, "%s%s", is_no ? "no: " : "", verdict.word);
    }
    table_print(&table, out);
    table_release(&table);
    buf_release(&text);
}

bool is_blank(const struct repro_part *part, int policy, int point, int metric)
{
    return book_cell(part, REPRO_HONEST, policy, point)->is_absent &&
           isnan(paper_number(part->scenario, policy, point, metric));
}

void reasons_text(const struct repro_book *book, const struct repro_part *part,
                  const char *before, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct words reasons = {0};
    size_t n = (size_t)REPRO_NRULES * it->policies_count * (size_t)it->npoints;
    for (size_t i = 0; i < n; i++) {
        const struct repro_cell *at = &part->cells[i];
        const char *why = at->why;
        for (size_t k = 0; k < at->n && *why == '\0'; k++)
            why = book->runs.at[at->at[k]].why;
        size_t k = 0;
        while (k < reasons.n && strcmp(reasons.at[k], why) != 0)
            k++;
        if (*why == '\0' || k < reasons.n)
            continue;
        words_add(&reasons, why, strlen(why));
        buf_printf(out, "%s%s%s\n", before,
                   at->is_absent ? "not reproducible: " : "", why);
    }
    words_release(&reasons);
}

static void put_part(const struct repro_book *book,
                     const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    buf_printf(out, "%s: %s, %s\n", it->name, it->paper, it->shows);
    if (part->skip[0] != '\0') {
        buf_printf(out, "  skipped: %s\n\n", part->skip);
        return;
    }
    put_values(book, part, out);
    reasons_text(book, part, "  ", out);
    buf_putc(out, '\n');
    if (it->claims_count > 0) {
        put_claims(book, part, out);
        buf_putc(out, '\n');
    }
}

void page_text(const struct repro_book *book, struct firn_buf *out)
{
    for (size_t i = 0; i < book->parts.n; i++)
        put_part(book, &book->parts.at[i], out);
    tally_text(tally_book(book), out);
    buf_putc(out, '\n');
}

/* --- JSON ----------------------------------------------------------------- */

static void json_text(struct firn_buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":", key);
    if (text != NULL && *text != '\0')
        buf_json_string(out, text);
    else
        buf_puts(out, "null");
}

static void json_number(struct firn_buf *out, const char *key, double value)
{
    buf_printf(out, ",\"%s\":", key);
    buf_json_double(out, value);
}

static void json_value(const struct repro_book *book,
                       const struct repro_part *part, int point, int policy,
                       int metric, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    buf_puts(out, "{\"policy\":");
    buf_json_string(out, it->policies[policy].label);
    json_text(out, "at", it->sweep ? it->sweep->points[point].at : NULL);
    json_text(out, "metric", it->metrics[metric]);
    json_number(out, "paper", paper_number(it, policy, point, metric));
    for (int i = 0; i < REPRO_NRULES; i++)
        json_number(out, i == REPRO_HONEST ? "ours" : "compat",
                    in_unit(it, metric,
                            book_value(book, part, (enum repro_rules)i, policy,
                                       point, metric)));
    buf_putc(out, '}');
}

static void json_claim(const struct repro_book *book,
                       const struct repro_part *part,
                       const struct repro_claim *claim, struct firn_buf *out)
{
    static const char *const kinds[] = {"times", "less", "at-most", "below"};
    struct repro_verdict verdict = judge(book, part, claim);
    buf_puts(out, "{\"of\":");
    buf_json_string(out, claim->of);
    json_text(out, "over", claim->over ? claim->over : claim->of);
    json_text(out, "at", claim->at);
    json_text(out, "over_at", claim->over_at);
    json_text(out, "metric", part->scenario->metrics[claim->metric_at]);
    json_text(out, "kind", kinds[claim->kind]);
    json_number(out, "paper", claim->paper);
    json_number(out, "needed", verdict.needed);
    json_number(out, "ours", verdict.ours[REPRO_HONEST]);
    json_number(out, "compat", verdict.ours[REPRO_COMPAT]);
    buf_printf(out, ",\"holds\":%s",
               verdict.is_skipped || verdict.is_absent ? "null"
               : verdict.holds                         ? "true"
                                                       : "false");
    json_text(out, "why", verdict.word);
    buf_putc(out, '}');
}

static void json_part(const struct repro_book *book,
                      const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    const char *before = "\n  ";
    buf_puts(out, "{\"name\":");
    buf_json_string(out, it->name);
    json_text(out, "paper", it->paper);
    json_text(out, "shows", it->shows);
    json_text(out, "claimed", it->claimed);
    json_text(out, "note", it->note);
    json_text(out, "found", it->found);
    json_text(out, "unit", it->unit ? it->unit : "s");
    json_text(out, "compat", it->compat ? it->compat->world : NULL);
    json_text(out, "skipped", part->skip);
    buf_puts(out, ",\"values\":[");
    for (int k = 0; k < it->npoints; k++)
        for (int i = 0; i < (int)it->policies_count; i++)
            for (int m = 0; m < (int)it->metrics_count; m++) {
                buf_puts(out, before);
                json_value(book, part, k, i, m, out);
                before = ",\n  ";
            }
    buf_puts(out, "],\"claims\":[");
    for (unsigned i = 0; i < it->claims_count; i++) {
        buf_puts(out, i > 0 ? ",\n  " : "\n  ");
        json_claim(book, part, &it->claims[i], out);
    }
    buf_puts(out, "]}");
}

void page_json(const struct repro_book *book, struct firn_buf *out)
{
    struct repro_tally tally = tally_book(book);
    buf_puts(out, "{\"scenarios\":[");
    for (size_t i = 0; i < book->parts.n; i++) {
        buf_puts(out, i > 0 ? ",\n" : "\n");
        json_part(book, &book->parts.at[i], out);
    }
    buf_printf(out,
               "\n],\"claims\":%d,\"held\":%d,\"skipped\":%d,"
               "\"not_reproducible\":%d}\n",
               tally.claims, tally.held, tally.skipped, tally.absent);
}
