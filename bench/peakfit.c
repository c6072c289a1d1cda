/* peakfit.c - predicted peaks of training beside those measured on a GPU.
 *
 *     peakfit                     each family left out of the fit and predicted
 *     peakfit --all               the same over all rows of both tables, with
 *                                 quant_memory.csv
 *     peakfit --held              the rows that were not looked at before the
 *                                 model was final
 *     peakfit --rows|--rows-held  each row as a line of CSV, with its terms
 *     peakfit ... FILE            of another table
 *
 * Reads profiles/h200/modern_memory.csv; run from the root of the tree.
 * Accuracy is 1 - |expected / measured - 1| of the peak of all tensors
 * (PyTorch's max_memory_allocated). Exits with 1 when a bar is missed: median
 * 97 %, worst 90 %, no peak above `high`, `low` to `high` within 25 % of
 * expected on either side.
 */
#include "lib/peakrows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 8 };

static const char path[] = "profiles/h200/modern_memory.csv";
static struct peakrow rows[PEAKROWS_MAX];

static void print_score(const char *name, struct peakrows_score s)
{
    if (s.n > 0)
        printf("%-24s %4d %8.1f %8.1f %6d %6d\n", name, s.n, 100 * s.median,
               100 * s.worst, s.above, s.reserved_above);
}

/* Families in the order of the table, each once. */
static void print_families(size_t n, bool is_held)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < i && strcmp(rows[k].family, rows[i].family) != 0)
            k++;
        if (k == i)
            print_score(
                rows[i].family,
                peakrows_judge(rows, n, is_held, rows[i].family, !is_held));
    }
}

static void mode_of(const struct peakrow *row, char *out, size_t max)
{
    static const char *const again[] = {"", " selective", " again"};
    static const char *const losses[] = {"", " chunked", " fused"};
    snprintf(out, max, "%s %s%s%s%s%s", row->mode, row->optimizer,
             again[row->job.recompute], losses[row->job.loss],
             row->job.offloads_optimizer ? " moved" : "",
             row->job.offloads_activations ? " kept apart" : "");
}

/* By mode, with the constants of all families. */
static void print_modes(size_t n, bool is_held)
{
    static struct peakrow some[PEAKROWS_MAX];
    char word[64], other[64];
    for (size_t i = 0; i < n; i++) {
        bool is_new = rows[i].is_held == is_held;
        size_t count = 0;
        mode_of(&rows[i], word, sizeof word);
        for (size_t k = 0; k < n; k++) {
            mode_of(&rows[k], other, sizeof other);
            if (strcmp(word, other) != 0 || rows[k].is_held != is_held)
                continue;
            is_new = is_new && k >= i;
            some[count++] = rows[k];
        }
        if (is_new)
            print_score(word,
                        peakrows_judge(some, count, is_held, NULL, false));
    }
}

static void print_row(const struct peakrow *row)
{
    struct firn_peak m = firn_peak_of(&row->job);
    printf("%s,%d,%s,%s,%d,%d,%d,%.0f,%.0f,%.0f,%.0f,%+.1f,%s", row->model,
           row->job.arch.layers, row->mode, row->optimizer,
           row->job.recompute == FIRN_RECOMPUTE_LAYERS, row->job.seq,
           row->job.micro_batch, row->alloc_mib, row->reserved_mib,
           m.expected_mib, m.reserved_mib,
           100 * (m.expected_mib / row->alloc_mib - 1),
           firn_peak_moment_word(m.moment));
    for (int t = 0; t < FIRN_TERMS; t++)
        if (m.terms_mib[t] >= 0.5)
            printf(",%s %.0f", firn_peak_term_word((enum firn_peak_term)t),
                   m.terms_mib[t]);
    puts("");
}

static double error_of(const struct peakrow *row)
{
    return fabs(firn_peak_of(&row->job).expected_mib / row->alloc_mib - 1);
}

static int by_error(const void *a, const void *b)
{
    double x = error_of(a), y = error_of(b);
    return (x < y) - (x > y);
}

/* The worst rows of a part; rows end up sorted by error. */
static void print_worst(size_t n, bool is_held)
{
    int shown = 0;
    qsort(rows, n, sizeof *rows, by_error);
    for (size_t i = 0; i < n && shown < WORST; i++)
        if (rows[i].is_held == is_held) {
            print_row(&rows[i]);
            shown++;
        }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool is_held =
        strcmp(what, "--held") == 0 || strcmp(what, "--rows-held") == 0;
    size_t n = strcmp(what, "--all") == 0
                   ? peakrows_read_all(rows)
                   : peakrows_read(rows, argc > 2 ? argv[2] : path);
    if (n == 0)
        return 1;
    if (strncmp(what, "--rows", 6) == 0) {
        for (size_t i = 0; i < n; i++)
            if (rows[i].is_held == is_held)
                print_row(&rows[i]);
        return 0;
    }
    struct peak_constants all = peakrows_fit(rows, n, NULL);
    printf("fitted to all families: workspace %.0f MiB, spread %.2f, idle",
           all.workspace_mib, all.spread);
    for (int i = 0; i < PEAK_IDLES; i++)
        printf(" %.3f", all.idle[i]);
    puts("");
    printf("%-24s %4s %8s %8s %6s %6s\n",
           is_held ? "held back" : "family left out", "rows", "median", "worst",
           "above", "reserved above");
    print_families(n, is_held);
    print_modes(n, is_held);
    struct peakrows_score s = peakrows_judge(rows, n, is_held, NULL, !is_held);
    print_score("all", s);
    printf("low to high: %.1f %% of expected at most\n", 100 * s.width);
    print_worst(n, is_held);
    return !(s.median >= 0.97 && s.worst >= 0.9 && s.above == 0);
}
