/* reproreport.c - writes the results as Markdown with plots.
 *
 * First a table of all scenarios with the number of claims that hold; then for
 * each scenario its claims, numbers and note. A file is written under a
 * temporary name and renamed, so that an interrupted run leaves the old one.
 */
#include "repro/reproreport.h"
#include "base/buf.h"
#include "cli/simfiles.h"
#include "repro/repropage.h"
#include "repro/reprosvg.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static enum firn_status write_file(const char *path,
                                   const struct firn_buf *text,
                                   struct firn_error *err)
{
    struct firn_buf beside = {0};
    buf_printf(&beside, "%s.tmp", path);
    FILE *file = fopen(beside.at, "w");
    bool is_good = file != NULL;
    if (is_good) {
        is_good = fwrite(text->at, 1, text->n, file) == text->n;
        is_good &= fclose(file) == 0;
    }
    is_good = is_good && rename(beside.at, path) == 0;
    if (!is_good)
        firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    buf_release(&beside);
    return is_good ? FIRN_OK : FIRN_EIO;
}

/* Appends a table cell; a bar in the text is escaped. */
static void put_cell(struct firn_buf *out, const char *text)
{
    buf_puts(out, "| ");
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
    buf_putc(out, ' ');
}

static void put_text_cell(struct firn_buf *out, struct firn_buf *text)
{
    put_cell(out, text->n > 0 ? text->at : "");
    buf_clear(text);
}

static void put_header(struct firn_buf *out, const char *const *names,
                       const char *aligned)
{
    for (int i = 0; names[i] != NULL; i++)
        if (*names[i] != '\0')
            put_cell(out, names[i]);
    buf_puts(out, "|\n");
    for (int i = 0; names[i] != NULL; i++)
        if (*names[i] != '\0')
            buf_puts(out, aligned[i] == 'r' ? "| ---: " : "| --- ");
    buf_puts(out, "|\n");
}

static void put_summary(const struct repro_book *book, struct firn_buf *out)
{
    static const char *const names[] = {"scenario", "paper", "shows",
                                        "claims that hold", NULL};
    put_header(out, names, "lllr");
    for (size_t i = 0; i < book->parts.n; i++) {
        const struct repro_part *part = &book->parts.at[i];
        const struct repro_scenario *it = part->scenario;
        struct repro_tally tally = tally_part(book, part);
        buf_printf(out, "| [%s](#%s) ", it->name, it->name);
        put_cell(out, it->paper);
        put_cell(out, it->shows);
        if (tally.skipped > 0)
            buf_puts(out, "| skipped |\n");
        else if (tally.claims == 0 && tally.absent > 0)
            buf_puts(out, "| not reproducible |\n");
        else if (tally.claims == 0)
            buf_puts(out, "| - |\n");
        else
            buf_printf(out, "| %d of %d |\n", tally.held, tally.claims);
    }
}

static void put_value_row(const struct repro_book *book,
                          const struct repro_part *part, int point, int policy,
                          int metric, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct firn_buf text = {0};
    double paper = paper_number(it, policy, point, metric);
    if (it->sweep != NULL)
        put_cell(out, it->sweep->points[point].at);
    put_cell(out, it->policies[policy].label);
    metric_text(it, metric, &text);
    put_text_cell(out, &text);
    if (isnan(paper))
        buf_puts(&text, "-");
    else
        buf_double(&text, paper);
    put_text_cell(out, &text);
    for (int i = 0; i < (has_compat(part) ? 2 : 1); i++) {
        value_text(
            it, metric,
            book_value(book, part, (enum repro_rules)i, policy, point, metric),
            &text);
        put_text_cell(out, &text);
    }
    buf_puts(out, "|\n");
    buf_release(&text);
}

static void put_values(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    const char *const names[] = {it->sweep != NULL ? it->sweep->axis : "",
                                 "policy",
                                 "metric",
                                 "paper",
                                 "ours",
                                 has_compat(part) ? it->compat->world : "",
                                 NULL};
    put_header(out, names, "lllrrr");
    for (int k = 0; k < it->npoints; k++)
        for (int i = 0; i < (int)it->policies_count; i++)
            for (int m = 0; m < (int)it->metrics_count; m++)
                if (!is_blank(part, i, k, m))
                    put_value_row(book, part, k, i, m, out);
    buf_putc(out, '\n');
}

static void put_claims(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct firn_buf text = {0};
    const char *const names[] = {"claim",
                                 "paper",
                                 "needed",
                                 "ours",
                                 has_compat(part) ? it->compat->world : "",
                                 "holds",
                                 NULL};
    put_header(out, names, "lrrrrl");
    for (unsigned i = 0; i < it->claims_count; i++) {
        const struct repro_claim *claim = &it->claims[i];
        struct repro_verdict verdict = judge(book, part, claim);
        claim_text(it, claim, &text);
        put_text_cell(out, &text);
        figure_text(claim, claim->paper, &text);
        put_text_cell(out, &text);
        figure_text(claim, verdict.needed, &text);
        put_text_cell(out, &text);
        for (int k = 0; k < (has_compat(part) ? 2 : 1); k++) {
            figure_text(claim, verdict.ours[k], &text);
            put_text_cell(out, &text);
        }
        bool is_no = !verdict.holds && !verdict.is_absent;
        buf_printf(out, "| %s%s |\n", is_no ? "no: " : "", verdict.word);
    }
    buf_putc(out, '\n');
    buf_release(&text);
}

static void put_paragraph(struct firn_buf *out, const char *head,
                          const char *text)
{
    if (text != NULL && *text != '\0')
        buf_printf(out, "%s%s\n\n", head, text);
}

/* Appends why claims do not hold and why numbers are missing. */
static void put_reasons(const struct repro_book *book,
                        const struct repro_part *part, struct firn_buf *out)
{
    struct repro_tally tally = tally_part(book, part);
    if (tally.held < tally.claims)
        put_paragraph(out, "Why not: ",
                      part->scenario->found != NULL ? part->scenario->found
                                                    : "no reason is known.");
    size_t before = out->n;
    reasons_text(book, part, "- ", out);
    if (out->n > before)
        buf_putc(out, '\n');
}

static void put_part(const struct repro_book *book,
                     const struct repro_part *part, const char *picture,
                     struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    buf_printf(out, "## %s\n\n%s, %s.\n\n", it->name, it->paper, it->shows);
    put_paragraph(out, "The paper claims: ", it->claimed);
    put_paragraph(out, "", it->note);
    if (part->skip[0] != '\0') {
        buf_printf(out, "Skipped: %s.\n\n", part->skip);
        return;
    }
    if (picture != NULL)
        buf_printf(out, "![%s](%s)\n\n", it->name, picture);
    if (it->claims_count > 0)
        put_claims(book, part, out);
    put_reasons(book, part, out);
    put_values(book, part, out);
}

/* Plots a scenario; sets `picture` to the path relative to the report, or to
 * nothing if the scenario has no sweep. */
static enum firn_status draw(const struct repro_book *book,
                             const struct repro_part *part, const char *folder,
                             struct firn_buf *picture, struct firn_error *err)
{
    struct firn_buf svg = {0}, path = {0};
    enum firn_status status = FIRN_OK;
    const char *base = strrchr(folder, '/');
    buf_clear(picture);
    if (svg_plot(book, part, &svg)) {
        buf_printf(&path, "%s/%s.svg", folder, part->scenario->name);
        status = simfiles_folder(folder, err);
        if (status == FIRN_OK)
            status = write_file(path.at, &svg, err);
        buf_printf(picture, "%s/%s.svg", base != NULL ? base + 1 : folder,
                   part->scenario->name);
    }
    buf_release(&svg);
    buf_release(&path);
    return status;
}

static void put_head(const struct repro_book *book, struct firn_buf *out)
{
    buf_puts(out,
             "# Results: tables and figures of the papers\n\n"
             "Written by `firn repro --report` (`make results`); do not edit. "
             "`paper` is the number\nin the paper, `ours` the number of firn's "
             "own simulator, which charges every cost. A\ncolumn with the name "
             "of a published simulator has the numbers under that simulator's\n"
             "rules (`firn sim --compat`, [fidelity](fidelity.md)).\n\n"
             "A claim holds if it has the paper's sign and reaches the share "
             "of the paper's effect\nunder `needed`. Otherwise:\n\n"
             "| verdict | meaning |\n| --- | --- |\n"
             "| short | the sign is right, the effect is too small |\n"
             "| even | no difference |\n"
             "| reversed | the effect has the opposite sign |\n"
             "| not reproducible | the data are not public; not counted |\n\n"
             "**");
    tally_text(tally_book(book), out);
    buf_puts(out, ".**\n\n");
}

enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err)
{
    struct firn_buf text = {0}, folder = {0}, picture = {0};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    bool has_ending = dot != NULL && (slash == NULL || dot > slash);
    buf_add(&folder, path, has_ending ? (size_t)(dot - path) : strlen(path));
    if (!has_ending)
        buf_puts(&folder, "-plots");
    enum firn_status status = FIRN_OK;
    put_head(book, &text);
    put_summary(book, &text);
    buf_putc(&text, '\n');
    for (size_t i = 0; i < book->parts.n && status == FIRN_OK; i++) {
        const struct repro_part *part = &book->parts.at[i];
        status = draw(book, part, folder.at, &picture, err);
        put_part(book, part, picture.n > 0 ? picture.at : NULL, &text);
    }
    while (text.n > 1 && text.at[text.n - 2] == '\n')
        text.n--;
    if (status == FIRN_OK)
        status = write_file(path, &text, err);
    buf_release(&text);
    buf_release(&folder);
    buf_release(&picture);
    return status;
}
