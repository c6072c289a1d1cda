/* peakfit.c - predicted peaks of training beside those measured on a GPU.
 *
 *     peakfit [FILE]           the rows of the part `fit`, by family and mode
 *     peakfit --held [FILE]    the rows of the part `held`
 *     peakfit --rows [FILE]    each row of `fit` as a line of CSV
 *
 * FILE is by default profiles/h200/modern_memory.csv; run from the root of the
 * tree. Accuracy is 1 - |predicted / measured - 1| of the peak of all tensors
 * (`expected`, PyTorch's max_memory_allocated).
 */
#include "lib/peakrows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 12 };

struct judged {
    const struct peakrow *row;
    struct firn_peak peak;
    double error; /* predicted / measured - 1 */
};

static struct peakrow rows[PEAKROWS_MAX];
static struct judged judged[PEAKROWS_MAX];

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* One line: how good the rows are whose text at `key` is `word`; NULL: all. */
static void print_group(size_t n, const char *word,
                        const char *(*key)(const struct peakrow *))
{
    double right[PEAKROWS_MAX], worst = 0, sum = 0;
    int count = 0, above = 0, reserved_above = 0;
    for (size_t i = 0; i < n; i++) {
        const struct judged *j = &judged[i];
        if (word && strcmp(key(j->row), word) != 0)
            continue;
        right[count++] = 1 - fabs(j->error);
        sum += j->error;
        above += j->row->alloc_mib > j->peak.high_mib;
        reserved_above += j->row->reserved_mib > j->peak.high_mib;
        worst = fabs(j->error) > fabs(worst) ? j->error : worst;
    }
    if (count == 0)
        return;
    qsort(right, (size_t)count, sizeof *right, by_size);
    printf("%-16s %4d rows  median %5.1f %%  worst %5.1f %%  "
           "mean error %+5.1f %%  %d above high  %d reserved above high\n",
           word ? word : "all", count, 100 * right[count / 2], 100 * right[0],
           100 * sum / count, above, reserved_above);
}

static const char *family_of(const struct peakrow *row)
{
    return row->family;
}

static const char *mode_of(const struct peakrow *row)
{
    static char text[8][48];
    static int turn;
    char *out = text[turn++ % 8];
    snprintf(out, sizeof text[0], "%s %s%s", row->mode, row->optimizer,
             row->job.recompute ? " again" : "");
    return out;
}

static void print_groups(size_t n, const char *(*key)(const struct peakrow *))
{
    char words[PEAKROWS_MAX][48];
    size_t nwords = 0;
    for (size_t i = 0; i < n; i++) {
        const char *word = key(judged[i].row);
        size_t k = 0;
        while (k < nwords && strcmp(words[k], word) != 0)
            k++;
        if (k == nwords)
            snprintf(words[nwords++], sizeof words[0], "%s", word);
    }
    for (size_t i = 0; i < nwords; i++)
        print_group(n, words[i], key);
}

static void print_row(const struct judged *j)
{
    const struct peakrow *row = j->row;
    printf("%s,%d,%s,%s,%d,%d,%d,%.0f,%.0f,%.0f,%.0f,%.0f,%+.1f,%d", row->model,
           row->job.arch.layers, row->mode, row->optimizer,
           row->job.recompute == FIRN_RECOMPUTE_LAYERS, row->job.seq,
           row->job.micro_batch, row->alloc_mib, row->reserved_mib,
           row->static_mib, j->peak.expected_mib, j->peak.high_mib,
           100 * j->error, (int)j->peak.moment);
    for (int t = 0; t < FIRN_TERMS; t++)
        if (j->peak.terms_mib[t] >= 0.5)
            printf(",%s %.0f", firn_peak_term_word((enum firn_peak_term)t),
                   j->peak.terms_mib[t]);
    puts("");
}

static int by_error(const void *a, const void *b)
{
    const struct judged *x = a, *y = b;
    return (fabs(x->error) < fabs(y->error)) -
           (fabs(x->error) > fabs(y->error));
}

int main(int argc, char **argv)
{
    const char *path = "profiles/h200/modern_memory.csv";
    bool is_held = false, is_each = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--held") == 0)
            is_held = true;
        else if (strcmp(argv[i], "--rows") == 0)
            is_each = true;
        else
            path = argv[i];
    size_t all = peakrows_read(rows, path), n = 0;
    if (all == 0)
        return 1;
    for (size_t i = 0; i < all; i++) {
        if (rows[i].is_held != is_held || !(rows[i].alloc_mib > 0))
            continue;
        struct judged *j = &judged[n++];
        *j = (struct judged){.row = &rows[i],
                             .peak = firn_peak_of(&rows[i].job)};
        j->error = j->peak.expected_mib / rows[i].alloc_mib - 1;
    }
    if (is_each) {
        for (size_t i = 0; i < n; i++)
            print_row(&judged[i]);
        return 0;
    }
    print_groups(n, family_of);
    print_groups(n, mode_of);
    print_group(n, NULL, NULL);
    qsort(judged, n, sizeof *judged, by_error);
    for (size_t i = 0; i < n && i < WORST; i++)
        print_row(&judged[i]);
    return 0;
}
