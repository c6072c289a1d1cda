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

void spread_text(const struct repro_scenario *it, int metric,
                 struct repro_figure figure, struct firn_buf *out)
{
    if (isnan(figure.at) || figure.draws < 2)
        return;
    put_short(in_unit(it, metric, figure.low), out);
    buf_puts(out, " to ");
    put_short(in_unit(it, metric, figure.high), out);
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

void interval_text(const struct repro_claim *claim, struct repro_figure figure,
                   struct firn_buf *out)
{
    if (isnan(figure.at))
        return;
    if (figure.draws < 2)
        buf_puts(out, "one draw");
    else if (claim->kind == REPRO_BELOW)
        buf_printf(out, "%.3g to %.3g", figure.low, figure.high);
    else if (claim->kind == REPRO_LESS)
        buf_printf(out, "%.1f to %.1f %%", 100 * figure.low, 100 * figure.high);
    else
        buf_printf(out, "%.2f to %.2f", figure.low, figure.high);
}

void verdict_text(const struct repro_verdict *verdict, struct firn_buf *out)
{
    bool is_no =
        !verdict->holds && !verdict->is_absent && !verdict->is_undecided;
    buf_printf(out, "%s%s", is_no ? "no: " : "", verdict->word);
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

/* --- variants -------------------------------------------------------------
 */

bool has_variant(const struct repro_part *part)
{
    const struct repro_scenario *it = part->scenario;
    for (unsigned i = 0; i < it->claims_count; i++)
        if (it->policies[it->claims[i].of_policy].variant_at >= 0)
            return true;
    return false;
}

void variant_text(const struct repro_book *book, const struct repro_part *part,
                  const struct repro_claim *claim, struct firn_buf *out)
{
    struct repro_verdict verdict;
    if (!judge_variant(book, part, claim, &verdict)) {
        buf_puts(out, "-");
        return;
    }
    struct repro_figure ours = verdict.ours[verdict.by];
    figure_text(claim, ours.at, out);
    if (ours.draws > 1 && !isnan(ours.at)) {
        buf_puts(out, " (");
        interval_text(claim, ours, out);
        buf_putc(out, ')');
    }
    buf_puts(out, ", ");
    verdict_text(&verdict, out);
}

void variants_text(const struct repro_part *part, const char *before,
                   struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    for (unsigned i = 0; i < it->policies_count; i++) {
        const struct repro_policy *policy = &it->policies[i];
        const char *join = " with ";
        if (policy->variant == NULL || policy->policy == NULL)
            continue;
        buf_printf(out, "%sfirn's variant of %s, %s, is %s", before,
                   policy->variant, policy->label, policy->policy);
        for (unsigned k = 0; k < policy->set_count; k++) {
            buf_printf(out, "%s%s", join, policy->set[k]);
            join = ", ";
        }
        for (int k = 0; policy->options && option_name(k) != NULL; k++) {
            const char *value = option_value(policy->options, k);
            if (value == NULL)
                continue;
            buf_printf(out, "%s--%s %s", join, option_name(k), value);
            join = ", ";
        }
        buf_printf(out, ". These options were chosen on %s.\n", it->chosen);
    }
}

/* --- draws ---------------------------------------------------------------- */

static size_t ncells(const struct repro_part *part)
{
    return (size_t)REPRO_NROWS * part->scenario->policies_count *
           (size_t)part->scenario->npoints;
}

bool has_draws(const struct repro_part *part)
{
    for (size_t i = 0; i < ncells(part); i++)
        if (part->cells[i].ndraws > 1)
            return true;
    return false;
}

/* Has the scenario a metric that a clock measures? */
static bool is_measured(const struct repro_part *part)
{
    for (unsigned i = 0; i < part->scenario->metrics_count; i++)
        if (part->scenario->metric[i].is_measured)
            return true;
    return false;
}

void draws_text(const struct repro_book *book, const struct repro_part *part,
                struct firn_buf *out)
{
    int least = 0, most = 0;
    for (unsigned i = 0; i < part->scenario->claims_count; i++) {
        struct repro_verdict verdict =
            judge(book, part, &part->scenario->claims[i]);
        int n = verdict.ours[verdict.by].draws;
        if (n == 0)
            continue;
        least = least == 0 || n < least ? n : least;
        most = n > most ? n : most;
    }
    if (most == 0)
        return;
    if (most == 1 && !part->is_drawn)
        buf_puts(out, "One workload, as published; no interval.");
    else if (most == 1)
        buf_puts(out, "One draw of the workload; no interval.");
    else if (least == most)
        buf_printf(out, "Judged over %d draws.", most);
    else
        buf_printf(out, "Judged over %d to %d draws.", least, most);
    if (is_measured(part))
        buf_printf(out,
                   " Times are processor times, the least of %d run%s that "
                   "alternate between the policies.",
                   part->scenario->nrepeats,
                   part->scenario->nrepeats > 1 ? "s" : "");
    buf_putc(out, '\n');
}

void tally_text(struct repro_tally tally, struct firn_buf *out)
{
    buf_printf(out, "%d of %d claims hold", tally.held, tally.claims);
    if (tally.undecided > 0)
        buf_printf(out, "; %d undecided", tally.undecided);
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
        struct repro_figure value =
            book_value(book, part, (enum repro_rules)i, policy, point, metric);
        value_text(it, metric, value.at, &text);
        cell(table, &text);
        if (i == REPRO_HONEST && has_draws(part)) {
            spread_text(it, metric, value, &text);
            cell(table, &text);
        }
    }
    buf_release(&text);
}

static void put_values(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct table table;
    char aligned[8];
    snprintf(aligned, sizeof aligned, "%sllrr%s%s", it->sweep ? "l" : "",
             has_draws(part) ? "l" : "", has_compat(part) ? "r" : "");
    table_init(&table, aligned);
    if (it->sweep != NULL)
        table_cell(&table, it->sweep->axis);
    table_cell(&table, "policy");
    table_cell(&table, "metric");
    table_cell(&table, "paper");
    table_cell(&table, "ours");
    if (has_draws(part))
        table_cell(&table, "95 % interval");
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

static void put_claim(const struct repro_book *book,
                      const struct repro_part *part,
                      const struct repro_claim *claim, struct table *table)
{
    struct repro_verdict verdict = judge(book, part, claim);
    struct firn_buf text = {0};
    claim_text(part->scenario, claim, &text);
    cell(table, &text);
    figure_text(claim, claim->paper, &text);
    cell(table, &text);
    figure_text(claim, verdict.needed, &text);
    cell(table, &text);
    figure_text(claim, verdict.ours[REPRO_HONEST].at, &text);
    cell(table, &text);
    interval_text(claim, verdict.ours[REPRO_HONEST], &text);
    cell(table, &text);
    if (has_compat(part)) {
        figure_text(claim, verdict.ours[REPRO_COMPAT].at, &text);
        cell(table, &text);
    }
    if (has_variant(part)) {
        variant_text(book, part, claim, &text);
        cell(table, &text);
    }
    verdict_text(&verdict, &text);
    cell(table, &text);
    buf_release(&text);
}

static void put_claims(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct table table;
    char aligned[16];
    snprintf(aligned, sizeof aligned, "lrrrl%s%sl", has_compat(part) ? "r" : "",
             has_variant(part) ? "l" : "");
    table_init(&table, aligned);
    table_cell(&table, "claim");
    table_cell(&table, "paper");
    table_cell(&table, "needed");
    table_cell(&table, "ours");
    table_cell(&table, "95 % interval");
    if (has_compat(part))
        table_cell(&table, it->compat->world);
    if (has_variant(part))
        table_cell(&table, "firn's variant");
    table_cell(&table, "holds");
    for (unsigned i = 0; i < it->claims_count; i++)
        put_claim(book, part, &it->claims[i], &table);
    table_print(&table, out);
    table_release(&table);
}

bool is_blank(const struct repro_part *part, int policy, int point, int metric)
{
    return book_cell(part, REPRO_HONEST, policy, point)->is_absent &&
           isnan(paper_number(part->scenario, policy, point, metric));
}

void reasons_text(const struct repro_book *book, const struct repro_part *part,
                  const char *before, struct firn_buf *out)
{
    struct words reasons = {0};
    for (size_t i = 0; i < ncells(part); i++) {
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
    if (book->plant == NULL) {
        put_values(book, part, out);
        variants_text(part, "  ", out);
    }
    reasons_text(book, part, "  ", out);
    buf_putc(out, '\n');
    if (it->claims_count > 0) {
        put_claims(book, part, out);
        draws_text(book, part, out);
        buf_putc(out, '\n');
    }
}

void page_text(const struct repro_book *book, struct firn_buf *out)
{
    for (size_t i = 0; i < book->parts.n; i++)
        put_part(book, &book->parts.at[i], out);
    tally_text(tally_book(book, NULL), out);
    if (book->plant != NULL)
        buf_printf(out, " with %s in place of the policies that they are about",
                   book->plant);
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
    struct repro_figure ours =
        book_value(book, part, REPRO_HONEST, policy, point, metric);
    struct repro_figure compat =
        book_value(book, part, REPRO_COMPAT, policy, point, metric);
    json_number(out, "ours", in_unit(it, metric, ours.at));
    json_number(out, "low", in_unit(it, metric, ours.low));
    json_number(out, "high", in_unit(it, metric, ours.high));
    buf_printf(out, ",\"draws\":%d", ours.draws);
    json_number(out, "compat", in_unit(it, metric, compat.at));
    buf_putc(out, '}');
}

static void json_verdict(const struct repro_verdict *verdict,
                         enum repro_rules by, struct firn_buf *out)
{
    json_number(out, "low", verdict->ours[by].low);
    json_number(out, "high", verdict->ours[by].high);
    buf_printf(out, ",\"draws\":%d,\"holds\":%s", verdict->ours[by].draws,
               verdict->is_skipped || verdict->is_absent ||
                       verdict->is_undecided
                   ? "null"
               : verdict->holds ? "true"
                                : "false");
    json_text(out, "why", verdict->word);
}

static void json_variant(const struct repro_book *book,
                         const struct repro_part *part,
                         const struct repro_claim *claim, struct firn_buf *out)
{
    struct repro_verdict verdict;
    buf_puts(out, ",\"variant\":");
    if (!judge_variant(book, part, claim, &verdict)) {
        buf_puts(out, "null");
        return;
    }
    int at = part->scenario->policies[claim->of_policy].variant_at;
    buf_puts(out, "{\"of\":");
    buf_json_string(out, part->scenario->policies[at].label);
    json_number(out, "ours", verdict.ours[verdict.by].at);
    json_verdict(&verdict, verdict.by, out);
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
    json_number(out, "ours", verdict.ours[REPRO_HONEST].at);
    json_number(out, "compat", verdict.ours[REPRO_COMPAT].at);
    json_verdict(&verdict, verdict.by, out);
    json_variant(book, part, claim, out);
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
    json_text(out, "chosen", it->chosen);
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
    struct repro_tally tally = tally_book(book, NULL);
    buf_puts(out, "{\"scenarios\":[");
    for (size_t i = 0; i < book->parts.n; i++) {
        buf_puts(out, i > 0 ? ",\n" : "\n");
        json_part(book, &book->parts.at[i], out);
    }
    buf_printf(out,
               "\n],\"claims\":%d,\"held\":%d,\"undecided\":%d,\"skipped\":%d,"
               "\"not_reproducible\":%d}\n",
               tally.claims, tally.held, tally.undecided, tally.skipped,
               tally.absent);
}
