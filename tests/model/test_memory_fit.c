/* test_memory_fit.c - the constants are found, and unseen models predicted.
 *
 * The accuracy on the H200 table is measured leaving one model out: the
 * constants are fitted to the rows of the other two.
 */
#include "base/lines.h"
#include "base/str.h"
#include "lib/data.h"
#include <firn/memory.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

static struct firn_llm_shape shape(const char *name)
{
    struct firn_llm_shape s;
    struct firn_error err;
    assert_int_equal(firn_llm_find(&s, name, &err), FIRN_OK);
    assert_int_equal(firn_llm_complete(&s, &err), FIRN_OK);
    return s;
}

static struct firn_memory_job job(const char *name, int seq, int micro_batch)
{
    return (struct firn_memory_job){.shape = shape(name),
                                    .seq = seq,
                                    .micro_batch = micro_batch,
                                    .precision = FIRN_PRECISION_AMP,
                                    .attention = FIRN_ATTENTION_SDPA,
                                    .tp = 1,
                                    .dp = 1};
}

enum { ROWS_MAX = 512, COLUMNS = 18 };

struct table {
    size_t n;
    char model[ROWS_MAX][24];
    double params[ROWS_MAX];
    struct firn_memory_row rows[ROWS_MAX];
};

static int which(const char *text, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fail_msg("unknown word '%s'", text);
    return 0;
}

static void read_row(struct table *table, char *line)
{
    static const char *const precisions[] = {"fp32", "bf16", "amp", NULL};
    static const char *const attentions[] = {"eager", "sdpa", NULL};
    static const char *const optimizers[] = {"adamw", "sgd", NULL};
    char *cell[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        assert_non_null(line);
        cell[i] = line;
        line = strchr(line, ',');
        if (line)
            *line++ = '\0';
    }
    struct firn_memory_row *row = &table->rows[table->n];
    row->job = job(cell[0], (int)strtol(cell[5], NULL, 10),
                   (int)strtol(cell[6], NULL, 10));
    row->job.precision = (enum firn_precision)which(cell[7], precisions);
    row->job.attention = (enum firn_attention)which(cell[8], attentions);
    row->job.is_checkpointing = cell[9][0] == '1';
    row->job.optimizer = (enum firn_optimizer)which(cell[10], optimizers);
    table->params[table->n] = strtod(cell[11], NULL);
    row->alloc_mib = strtod(cell[12], NULL);
    row->reserved_mib = strtod(cell[13], NULL);
    assert_true(str_copy(table->model[table->n], 24, cell[0]));
    table->n++;
}

/* The H200 table; skips the test when it is not here. */
static struct table *h200(void)
{
    static struct table table;
    const char *path = data_path("h200/llm_memory.csv");
    struct lines *lines;
    if (!path) {
        print_message("no h200/llm_memory.csv here\n");
        skip();
    }
    table.n = 0;
    assert_int_equal(lines_open(&lines, path, NULL), FIRN_OK);
    lines_next(lines);
    for (char *line; (line = lines_next(lines)) && table.n < ROWS_MAX;)
        read_row(&table, line);
    lines_close(lines);
    assert_true(table.n >= 100);
    return &table;
}

static void parameter_counts_equal_those_of_the_table(void **state)
{
    (void)state;
    struct table *table = h200();
    for (size_t i = 0; i < table->n; i++)
        assert_true(firn_llm_params(&table->rows[i].job.shape,
                                    table->rows[i].job.seq) ==
                    table->params[i]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The constants without the model `out`. */
static struct firn_memory_fit fit_without(const struct table *table,
                                          const char *out)
{
    static struct firn_memory_row rows[ROWS_MAX];
    struct firn_memory_fit fit;
    struct firn_error err;
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->model[i], out) != 0)
            rows[n++] = table->rows[i];
    if (firn_memory_calibrate(rows, n, &fit, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(fit.nrows, n);
    return fit;
}

struct accuracy {
    double median, worst;
};

static struct accuracy accuracy(double *errors, size_t n)
{
    qsort(errors, n, sizeof *errors, ascending);
    return (struct accuracy){1 - errors[n / 2], 1 - errors[n - 1]};
}

static void unseen_models_are_predicted(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2-124m", "gpt2-350m", "gpt2-774m"};
    static double errors[4][ROWS_MAX];
    struct table *table = h200();
    double under = 0;
    size_t n = 0, inside = 0;
    for (int k = 0; k < 3; k++) {
        struct firn_memory_fit fit = fit_without(table, models[k]);
        for (size_t i = 0; i < table->n; i++) {
            const struct firn_memory_row *row = &table->rows[i];
            if (strcmp(table->model[i], models[k]) != 0)
                continue;
            struct firn_memory m = firn_memory_of(&row->job, &fit);
            double marp = firn_marp_bytes(&row->job.shape, row->job.seq,
                                          row->job.micro_batch, 1, 1) /
                          MIB;
            double high = m.high_mib, low = m.low_mib;
            errors[0][n] = fabs(m.reserved_mib / row->reserved_mib - 1);
            errors[1][n] = fabs(m.alloc_mib / row->alloc_mib - 1);
            errors[2][n] = fabs(marp / row->reserved_mib - 1);
            errors[3][n++] = fabs(marp / row->alloc_mib - 1);
            under = fmax(under, 1 - high / row->reserved_mib);
            inside += low <= row->alloc_mib && row->reserved_mib <= high;
        }
    }
    static const char *const what[] = {"reserved", "allocated",
                                       "MARP on reserved", "MARP on allocated"};
    struct accuracy a[4];
    assert_int_equal(n, table->n);
    for (int q = 0; q < 4; q++) {
        a[q] = accuracy(errors[q], n);
        print_message("%s: median accuracy %.1f %%, worst %.1f %%\n", what[q],
                      100 * a[q].median, 100 * a[q].worst);
    }
    print_message("high end under by at most %.1f %%; %zu of %zu inside\n",
                  100 * under, inside, n);
    assert_true(a[0].median >= 0.97 && a[0].worst >= 0.90);
    assert_true(a[1].median >= 0.97 && a[1].worst >= 0.90);
    assert_true(under <= 0.05);
    assert_true(a[0].median > a[2].median && a[1].median > a[3].median);
}

static void the_default_is_the_fit_to_the_table(void **state)
{
    (void)state;
    struct firn_memory_fit fit = fit_without(h200(), "");
    const struct firn_memory_fit *d = firn_memory_default();
    const double pairs[][3] = {
        {fit.base_mib, d->base_mib, 0.5},
        {fit.static_share, d->static_share, 1e-4},
        {fit.act_scale, d->act_scale, 1e-3},
        {fit.attn_scale, d->attn_scale, 1e-3},
        {fit.logit_scale, d->logit_scale, 1e-3},
        {fit.frag_mib, d->frag_mib, 1},
        {fit.frag_live, d->frag_live, 1e-3},
        {fit.frag_ckpt, d->frag_ckpt, 1e-3},
        {fit.frag_param, d->frag_param, 1e-2},
        {fit.low[0], d->low[0], 2e-3},
        {fit.low[1], d->low[1], 2e-3},
        {fit.high[0], d->high[0], 2e-3},
        {fit.high[1], d->high[1], 2e-3},
        {fit.params_min, d->params_min, 0},
        {fit.params_max, d->params_max, 0},
        {fit.tokens_max, d->tokens_max, 0},
        {fit.nrows, d->nrows, 0},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (fabs(pairs[i][0] - pairs[i][1]) > pairs[i][2])
            fail_msg("constant %zu: the fit is %.6g, the default %.6g", i,
                     pairs[i][0], pairs[i][1]);
}

/* Rows made by a fit are fitted: the same comes out. */
static void a_fit_to_its_own_predictions_returns_it(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "gpt2-medium", "gpt2-large"};
    struct firn_memory_fit truth = *firn_memory_default(), fit;
    static struct firn_memory_row rows[300];
    size_t n = 0;
    truth.base_mib = 150;
    truth.act_scale = 1.04;
    truth.attn_scale = 0.97;
    truth.logit_scale = 1.06;
    truth.frag_live = 0.05;
    truth.frag_ckpt = 0.1;
    for (int i = 0; i < 300; i++) {
        struct firn_memory_job j =
            job(names[i % 3], 256 << (i / 3 % 3), 1 << (i / 9 % 5));
        j.attention = (enum firn_attention)(i / 45 % 2);
        j.is_checkpointing = i / 90 == 2;
        struct firn_memory m = firn_memory_of(&j, &truth);
        rows[n++] = (struct firn_memory_row){j, m.alloc_mib, m.reserved_mib};
    }
    assert_int_equal(firn_memory_calibrate(rows, n, &fit, NULL), FIRN_OK);
    assert_true(fabs(fit.base_mib - 150) < 5);
    assert_true(fabs(fit.act_scale - 1.04) < 5e-3);
    assert_true(fabs(fit.attn_scale - 0.97) < 5e-3);
    assert_true(fabs(fit.logit_scale - 1.06) < 5e-3);
    assert_true(fabs(fit.frag_live - 0.05) < 3e-3);
    assert_true(fabs(fit.frag_ckpt - 0.1) < 2e-2);
    assert_true(fit.high[0] < 1.01 && fit.low[0] > 0.99);
}

static void a_bad_row_is_named(void **state)
{
    (void)state;
    struct firn_memory_row rows[12];
    struct firn_memory_fit fit = {.nrows = -1};
    struct firn_error err;
    static const double bad[][2] = {{0, 10},        {-1, 10}, {NAN, 10},
                                    {INFINITY, 10}, {10, 9},  {10, NAN}};
    for (int i = 0; i < 12; i++)
        rows[i] = (struct firn_memory_row){job("gpt2", 512, 8), 7000, 7500};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rows[7].alloc_mib = bad[i][0];
        rows[7].reserved_mib = bad[i][1];
        assert_int_equal(firn_memory_calibrate(rows, 12, &fit, &err),
                         FIRN_EINVAL);
        assert_non_null(strstr(err.text, "row 7:"));
        assert_int_equal(fit.nrows, -1);
    }
    rows[7] = rows[6];
    rows[10].job.seq = -5;
    assert_int_equal(firn_memory_calibrate(rows, 12, &fit, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "row 10:"));
}

static void too_few_rows_give_the_default(void **state)
{
    (void)state;
    struct firn_memory_row row = {job("gpt2", 512, 8), 7000, 7500};
    struct firn_memory_fit fit = {0};
    struct firn_error err;
    assert_int_equal(firn_memory_calibrate(&row, 1, &fit, &err), FIRN_EDATA);
    assert_non_null(strstr(err.text, "8 are needed"));
    assert_memory_equal(&fit, firn_memory_default(), sizeof fit);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(parameter_counts_equal_those_of_the_table),
        cmocka_unit_test(unseen_models_are_predicted),
        cmocka_unit_test(the_default_is_the_fit_to_the_table),
        cmocka_unit_test(a_fit_to_its_own_predictions_returns_it),
        cmocka_unit_test(a_bad_row_is_named),
        cmocka_unit_test(too_few_rows_give_the_default),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
