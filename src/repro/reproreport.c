/* reproreport.c - writes the results as Markdown with plots.
 *
 * The report has the rules of the verdicts and, for each paper, a table of its
 * scenarios with the number of claims that hold. The page of a paper has, for
 * each scenario, what the paper claims, the claims, why some do not hold, the
 * numbers and a note. A file is written under a temporary name and renamed, so
 * that an interrupted run leaves the old one.
 */
#include "repro/reproreport.h"
#include "base/buf.h"
#include "cli/report.h"
#include "cli/simfiles.h"
#include "repro/repropage.h"
#include "repro/reprosvg.h"
#include <ctype.h>
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

/* File name of a paper's page: "Pollux (OSDI 2021)" is "pollux". */
static void put_slug(struct firn_buf *out, const char *paper)
{
    for (; isalnum((unsigned char)*paper) || *paper == '-'; paper++)
        buf_putc(out, (char)tolower((unsigned char)*paper));
}

/* Is it the first part of its paper? */
static bool is_first(const struct repro_book *book, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(book->parts.at[i].scenario->paper,
                   book->parts.at[at].scenario->paper) == 0)
            return false;
    return true;
}

static void put_share(struct firn_buf *out, int held, int n)
{
    if (n > 0)
        buf_printf(out, "| %d of %d ", held, n);
    else
        buf_puts(out, "| - ");
}

/* Appends the row of a scenario; its link leads to `page`. */
static void put_summary_row(const struct repro_book *book,
                            const struct repro_part *part, const char *page,
                            struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    struct repro_tally tally = tally_part(book, part);
    buf_printf(out, "| [%s](%s#%s) ", it->name, page, it->name);
    put_cell(out, it->shows);
    if (tally.skipped > 0)
        buf_puts(out, "| skipped ");
    else if (tally.claims == 0 && tally.absent > 0)
        buf_puts(out, "| not reproducible ");
    else
        put_share(out, tally.held, tally.claims);
    buf_printf(out, "| %d ", tally.undecided);
    put_share(out, tally.variants_held, tally.variants);
    buf_puts(out, "|\n");
}

static void put_summary(const struct repro_book *book, const char *paper,
                        const char *page, struct firn_buf *out)
{
    static const char *const names[] = {"scenario",
                                        "shows",
                                        "claims that hold",
                                        "undecided",
                                        "with firn's variant",
                                        NULL};
    put_header(out, names, "llrrr");
    for (size_t i = 0; i < book->parts.n; i++)
        if (strcmp(book->parts.at[i].scenario->paper, paper) == 0)
            put_summary_row(book, &book->parts.at[i], page, out);
    buf_puts(out, "\n**");
    tally_text(tally_book(book, paper), out);
    buf_puts(out, ".**\n\n");
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
        struct repro_figure value =
            book_value(book, part, (enum repro_rules)i, policy, point, metric);
        value_text(it, metric, value.at, &text);
        put_text_cell(out, &text);
        if (i == REPRO_HONEST && has_draws(part)) {
            spread_text(it, metric, value, &text);
            put_text_cell(out, &text);
        }
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
                                 has_draws(part) ? "95 % interval" : "",
                                 has_compat(part) ? it->compat->world : "",
                                 NULL};
    put_header(out, names, "lllrrrr");
    for (int k = 0; k < it->npoints; k++)
        for (int i = 0; i < (int)it->policies_count; i++)
            for (int m = 0; m < (int)it->metrics_count; m++)
                if (!is_blank(part, i, k, m))
                    put_value_row(book, part, k, i, m, out);
    buf_putc(out, '\n');
}

static void put_claim(const struct repro_book *book,
                      const struct repro_part *part,
                      const struct repro_claim *claim, struct firn_buf *out)
{
    struct repro_verdict verdict = judge(book, part, claim);
    struct firn_buf text = {0};
    claim_text(part->scenario, claim, &text);
    put_text_cell(out, &text);
    figure_text(claim, claim->paper, &text);
    put_text_cell(out, &text);
    figure_text(claim, verdict.needed, &text);
    put_text_cell(out, &text);
    figure_text(claim, verdict.ours[REPRO_HONEST].at, &text);
    put_text_cell(out, &text);
    interval_text(claim, verdict.ours[REPRO_HONEST], &text);
    put_text_cell(out, &text);
    if (has_compat(part)) {
        figure_text(claim, verdict.ours[REPRO_COMPAT].at, &text);
        put_text_cell(out, &text);
    }
    verdict_text(&verdict, &text);
    put_text_cell(out, &text);
    if (has_variant(part)) {
        variant_text(book, part, claim, &text);
        put_text_cell(out, &text);
    }
    buf_puts(out, "|\n");
    buf_release(&text);
}

static void put_claims(const struct repro_book *book,
                       const struct repro_part *part, struct firn_buf *out)
{
    const struct repro_scenario *it = part->scenario;
    const char *const names[] = {"claim",
                                 "paper",
                                 "needed",
                                 "ours",
                                 "95 % interval",
                                 has_compat(part) ? it->compat->world : "",
                                 "holds",
                                 has_variant(part) ? "firn's variant" : "",
                                 NULL};
    put_header(out, names, "lrrrrrll");
    for (unsigned i = 0; i < it->claims_count; i++)
        put_claim(book, part, &it->claims[i], out);
    buf_putc(out, '\n');
    size_t n = out->n;
    variants_text(part, "- ", out);
    if (out->n > n)
        buf_putc(out, '\n'); /* ends the list */
    draws_text(book, part, out);
    buf_putc(out, '\n');
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

/* Plots a scenario beside the page of its paper; sets `picture` to the name of
 * the file, or to nothing if the scenario has no sweep. */
static enum firn_status draw(const struct repro_book *book,
                             const struct repro_part *part, const char *folder,
                             struct firn_buf *picture, struct firn_error *err)
{
    struct firn_buf svg = {0}, path = {0};
    enum firn_status status = FIRN_OK;
    buf_clear(picture);
    if (svg_plot(book, part, &svg)) {
        buf_printf(&path, "%s/%s.svg", folder, part->scenario->name);
        status = write_file(path.at, &svg, err);
        buf_printf(picture, "%s.svg", part->scenario->name);
    }
    buf_release(&svg);
    buf_release(&path);
    return status;
}

static void put_head(const struct repro_book *book, struct firn_buf *out)
{
    buf_puts(
        out,
        "# Results: tables and figures of the papers\n\n"
        "Written by `firn repro --report` (`make results`); do not edit. Each "
        "paper has a page.\n`paper` is the number in the paper, `ours` the "
        "number of firn's own simulator, which\ncharges every cost. A column "
        "with the name of a published simulator has the numbers\nunder that "
        "simulator's rules (`firn sim --compat`, [fidelity](fidelity.md)).\n\n"
        "A policy under the name of a paper does what the paper says. "
        "`firn's variant` is the\nsame policy with options of firn. The page "
        "names them and the workloads that they were\nchosen on, which no "
        "page of that paper reports; no verdict depends on them.\n\n"
        "## When a claim holds\n\n"
        "`needed` is the share of the paper's effect that must be reached: "
        "0.8 unless the\nscenario states another. A workload that is drawn at "
        "random has at least 20 draws. Both\npolicies run each draw, so each "
        "draw gives a ratio; `ours` is the geometric mean of\nthese ratios, "
        "and the interval contains the true mean in 95 of 100 cases "
        "(Student's\ninterval of the logarithms). A workload of the authors "
        "is one draw: it has no interval\nand is judged by its number. Where "
        "a claim covers all points of a figure, the worst\npoint decides.\n\n"
        "| verdict | meaning |\n| --- | --- |\n"
        "| yes | all of the interval reaches what is needed |\n"
        "| undecided | a part of the interval reaches it |\n"
        "| short | the sign is right, the effect is too small |\n"
        "| even | the interval contains no difference (less than 0.5 %) and "
        "does not reach what is needed |\n"
        "| reversed | all of the interval has the opposite sign |\n"
        "| above | all of the interval is above the limit |\n"
        "| inert | the limit is kept, but the varied parameter changes "
        "nothing: there was nothing to keep it against |\n"
        "| zero | one side is 0, so there is no ratio |\n"
        "| not reproducible | the data are not public; not counted |\n\n"
        "`firn repro --plant POLICY` puts a wrong policy in the place of those "
        "that the claims are\nabout, and `--mute` takes the noise out of the "
        "figures that vary it; then no claim may\nhold. The tests of firn do "
        "both with every scenario.\n\n**");
    tally_text(tally_book(book, NULL), out);
    buf_puts(out, ".**\n\n");
}

static void trim(struct firn_buf *text)
{
    while (text->n > 1 && text->at[text->n - 2] == '\n')
        text->n--;
}

/* Writes the page of a paper and its plots into the folder. */
static enum firn_status write_page(const struct repro_book *book,
                                   const char *paper, const char *folder,
                                   struct firn_error *err)
{
    struct firn_buf text = {0}, path = {0}, picture = {0};
    enum firn_status status = FIRN_OK;
    buf_printf(&text,
               "# %s: claims and results\n\nWritten by `firn repro --report`; "
               "do not edit. The rules of the verdicts are in the\n[report]"
               "(../%s.md).\n\n",
               paper, strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder);
    put_summary(book, paper, "", &text);
    for (size_t i = 0; i < book->parts.n && status == FIRN_OK; i++) {
        const struct repro_part *part = &book->parts.at[i];
        if (strcmp(part->scenario->paper, paper) != 0)
            continue;
        status = draw(book, part, folder, &picture, err);
        put_part(book, part, picture.n > 0 ? picture.at : NULL, &text);
    }
    trim(&text);
    buf_printf(&path, "%s/", folder);
    put_slug(&path, paper);
    buf_puts(&path, ".md");
    if (status == FIRN_OK)
        status = write_file(path.at, &text, err);
    buf_release(&text);
    buf_release(&path);
    buf_release(&picture);
    return status;
}

enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err)
{
    struct firn_buf text = {0}, folder = {0}, page = {0};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    bool has_ending = dot != NULL && (slash == NULL || dot > slash);
    buf_add(&folder, path, has_ending ? (size_t)(dot - path) : strlen(path));
    if (!has_ending)
        buf_puts(&folder, "-pages");
    const char *base = strrchr(folder.at, '/');
    enum firn_status status = simfiles_folder(folder.at, err);
    put_head(book, &text);
    for (size_t i = 0; i < book->parts.n && status == FIRN_OK; i++) {
        const char *paper = book->parts.at[i].scenario->paper;
        if (!is_first(book, i))
            continue;
        status = write_page(book, paper, folder.at, err);
        buf_clear(&page);
        buf_printf(&page, "%s/", base != NULL ? base + 1 : folder.at);
        put_slug(&page, paper);
        buf_puts(&page, ".md");
        buf_printf(&text, "## %s\n\n[All claims and numbers](%s)\n\n", paper,
                   page.at);
        put_summary(book, paper, page.at, &text);
    }
    trim(&text);
    if (status == FIRN_OK)
        status = write_file(path, &text, err);
    buf_release(&text);
    buf_release(&folder);
    buf_release(&page);
    return status;
}

/* --- HTML ---------------------------------------------------------------- */

static enum firn_status add_runs(const struct repro_book *book,
                                 struct report *report, struct firn_error *err)
{
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; i < book->parts.n; i++) {
        const struct repro_part *part = &book->parts.at[i];
        for (size_t p = 0;
             p < part->scenario->policies_count && status == FIRN_OK; p++)
            if (book_files(book, part, (int)p, &path) != NULL)
                status = report_add_as(report, path.at, part->scenario->name,
                                       part->scenario->policies[p].label, err);
    }
    buf_release(&path);
    if (status == FIRN_OK && report->runs.n == 0)
        status = firn_fail(err, FIRN_ENOENT,
                           "no simulation of these scenarios was run: there "
                           "is nothing to draw");
    return status;
}

/* Lines of text as HTML: report_text() leaves out control characters. */
static void put_lines(struct firn_buf *out, char *text)
{
    for (char *line = text, *end; line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        report_text(out, line);
        buf_putc(out, '\n');
    }
}

enum firn_status report_write_html(const struct repro_book *book,
                                   const char *path, struct firn_error *err)
{
    struct report report = {0};
    struct firn_buf verdicts = {0}, intro = {0}, page = {0};
    page_text(book, &verdicts);
    buf_puts(&intro, "<h2>Verdicts</h2>\n<pre>");
    put_lines(&intro, verdicts.at);
    buf_puts(&intro, "</pre>\n<p class='dim'>Below: of each scenario the first "
                     "draw of its workload at the first point of its sweep, by "
                     "firn's own rules.</p>\n");
    report.intro = intro.at;
    enum firn_status status = add_runs(book, &report, err);
    if (status == FIRN_OK) {
        report_page(&report, &page);
        status = write_file(path, &page, err);
    }
    report_release(&report);
    buf_release(&verdicts);
    buf_release(&intro);
    buf_release(&page);
    return status;
}
