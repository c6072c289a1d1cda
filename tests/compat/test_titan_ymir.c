/* test_titan_ymir.c - TitanSched's own policy against its authors' results.
 *
 * They solved with Gurobi, whose choices among equals are its own, so mean
 * completion times are compared within a bound: 1.5 % without merging, 2 %
 * with it. Needs their tables.
 */
#include <firn/compat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/csv.h"
#include "lib/data.h"
#include "lib/play.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder of the published tables; NULL, after a notice, if it is missing.
 */
static const char *data_folder(void)
{
    static char folder[1024];
    const char *path = data_path("ymir/dataset_sizes.csv");
    if (path == NULL) {
        print_message("no published tables here\n");
        return NULL;
    }
    size_t n = strlen(path) - strlen("/ymir/dataset_sizes.csv");
    snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    return folder;
}

static double authors_s(const char *experiment)
{
    double found = (double)NAN;
    struct csv *all =
        csv_open(data_path("ymir/author_sim_results_summary.csv"));
    assert_non_null(all);
    while (csv_next(all))
        if (strcmp(csv_text(all, "experiment"), experiment) == 0)
            found = csv_number(all, "mean_jct_s");
    csv_close(all);
    return found;
}

static double mean_s(const struct play *play)
{
    double sum = 0;
    for (size_t i = 0; i < play->done.n; i++)
        sum += play->done.at[i].jct_s;
    return sum / (double)play->done.n;
}

/* firn's mean JCT over the authors', less 1, of
 * KIND/titan/FM-LOAD-MODEL-MERGES-True. */
static double compare(const char *folder, const char *spec, const char *kind,
                      int load, const char *model, bool merges)
{
    struct play play;
    char rel[64], experiment[96];
    const char *settings[] = {merges ? "ymir.merge=yes" : "ymir.merge=no"};
    play_open(&play, spec, "");
    play.options.restart_s = 30;
    play.options.profiles = folder;
    play.options.world = firn_compat_find("titan", NULL);
    play.options.timeline_path = NULL;
    play.options.settings = settings;
    play.options.nsettings = 1;
    snprintf(rel, sizeof rel, "ymir/workloads/FM-%d-%s.csv", load, model);
    play.options.trace = data_path(rel);
    play_run(&play, "ymir");
    snprintf(experiment, sizeof experiment, "%s/titan/FM-%d-%s-%s-True", kind,
             load, model, merges ? "True" : "False");
    double ours = mean_s(&play), theirs = authors_s(experiment);
    print_message("%-45s %8.2f s, theirs %8.2f s, %+.2f %%\n", experiment, ours,
                  theirs, 100 * (ours / theirs - 1));
    play_close(&play);
    return ours / theirs - 1;
}

static const char *const models[] = {"roberta-base", "roberta-large", "vit",
                                     "vit-large"};

static void without_merging_the_mean_jct_is_within_1_5_percent(void **state)
{
    (void)state;
    const char *folder = data_folder();
    if (folder == NULL)
        skip();
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(compare(folder, "8x4:v100", "cluster", 1, models[i],
                                 false)) < 0.015);
        assert_true(fabs(compare(folder, "8x4:v100", "main", 2, models[i],
                                 false)) < 0.015);
        assert_true(fabs(compare(folder, "16x4:v100", "cluster", 2, models[i],
                                 false)) < 0.015);
    }
}

/* One of each pair costs nothing, which is most of the gain. */
static void with_merging_the_mean_jct_is_within_2_percent(void **state)
{
    (void)state;
    const char *folder = data_folder();
    if (folder == NULL)
        skip();
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(compare(folder, "8x4:v100", "cluster", 1, models[i],
                                 true)) < 0.02);
        assert_true(fabs(compare(folder, "16x4:v100", "cluster", 2, models[i],
                                 true)) < 0.02);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_merging_the_mean_jct_is_within_1_5_percent),
        cmocka_unit_test(with_merging_the_mean_jct_is_within_2_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
