/* test_peak_measured.c - predictions beside profiles/h200/modern_memory.csv.
 *
 * 447 peaks of 20 families, measured on one H200. The constants of peak.c are
 * fitted to the part `fit`. Here each family is left out in turn, the constants
 * are fitted again, and its rows are predicted. The rows of the part `held`
 * were not looked at before the model was final.
 *
 * docs/measurements/h200/quant_memory.csv has other ways of training (QLoRA,
 * 8-bit AdamW, offload), divided alike; no constant is fitted to it.
 */
#include "lib/peakrows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct peakrow rows[PEAKROWS_MAX];
static size_t nrows;

static int read_rows(void **state)
{
    (void)state;
    nrows = peakrows_read(rows, "profiles/h200/modern_memory.csv");
    return nrows == 0;
}

static void parameters_are_counted_as_the_library_counts_them(void **state)
{
    (void)state;
    assert_int_equal(nrows, 447);
    for (size_t i = 0; i < nrows; i++) {
        struct firn_peak m = firn_peak_of(&rows[i].job);
        if (m.params != rows[i].params || m.trained != rows[i].trained)
            fail_msg("%s %s: %.0f parameters, %.0f trained; measured %.0f, "
                     "%.0f",
                     rows[i].model, rows[i].mode, m.params, m.trained,
                     rows[i].params, rows[i].trained);
    }
}

static void the_constants_are_those_that_fit(void **state)
{
    (void)state;
    struct peak_constants fitted = peakrows_fit(rows, nrows, NULL);
    assert_true(fitted.workspace_mib == peak_constants.workspace_mib);
    assert_true(fitted.spread == peak_constants.spread);
    for (int i = 0; i < PEAK_IDLES; i++) {
        double wrong = fabs(fitted.idle[i] - peak_constants.idle[i]);
        assert_true(wrong <= 0.06 * fitted.idle[i]);
    }
}

static void check(const char *what, struct peakrows_score s)
{
    print_message("%s: %d rows, median %.1f %%, worst %.1f %%, %d above high, "
                  "low to high %.1f %%\n",
                  what, s.n, 100 * s.median, 100 * s.worst, s.above,
                  100 * s.width);
    assert_true(s.median >= 0.97);
    assert_true(s.worst >= 0.90);
    assert_int_equal(s.above, 0);
    assert_true(s.width <= 0.25 + 1e-9);
}

static void a_family_left_out_of_the_fit_is_predicted(void **state)
{
    (void)state;
    check("families left out", peakrows_judge(rows, nrows, false, NULL, true));
}

static void rows_held_back_are_predicted(void **state)
{
    (void)state;
    check("held back", peakrows_judge(rows, nrows, true, NULL, false));
}

/* Both tables and both halves: every number that is fitted (the workspace, the
 * width of the interval, six shares of idle memory) is fitted again to the
 * other families' rows, and all rows of the family are predicted. */
static void a_family_left_out_of_both_tables_is_predicted(void **state)
{
    (void)state;
    static struct peakrow all[PEAKROWS_MAX];
    size_t n = peakrows_read_all(all);
    assert_int_equal(n, 447 + 69);
    check("families left out of both tables",
          peakrows_judge(all, n, false, NULL, true));
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(all[i].family, all[i - 1].family) == 0)
            continue;
        struct peakrows_score s =
            peakrows_judge(all, n, false, all[i].family, true);
        if (s.median < 0.97 || s.worst < 0.90 || s.above > 0)
            fail_msg("%s: median %.3f, worst %.3f, %d above high",
                     all[i].family, s.median, s.worst, s.above);
    }
}

static void quantised_and_offloaded_training_is_predicted(void **state)
{
    (void)state;
    static struct peakrow others[PEAKROWS_MAX];
    size_t n = peakrows_read(others, "docs/measurements/h200/quant_memory.csv");
    assert_true(n > 0);
    check("looked at", peakrows_judge(others, n, false, NULL, false));
    check("held back", peakrows_judge(others, n, true, NULL, false));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(parameters_are_counted_as_the_library_counts_them),
        cmocka_unit_test(the_constants_are_those_that_fit),
        cmocka_unit_test(a_family_left_out_of_the_fit_is_predicted),
        cmocka_unit_test(a_family_left_out_of_both_tables_is_predicted),
        cmocka_unit_test(rows_held_back_are_predicted),
        cmocka_unit_test(quantised_and_offloaded_training_is_predicted),
    };
    return cmocka_run_group_tests(cases, read_rows, NULL);
}
