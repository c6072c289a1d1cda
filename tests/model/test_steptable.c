/* test_steptable.c - measured steps looked up, and what lies between them.
 */
#include "lib/data.h"
#include "lib/play.h"
#include "lib/temp.h"
#include "model/measured.h"
#include "model/steptable.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct steptable made(const char *places, const char *scales)
{
    struct steptable table = {0};
    struct firn_error err = {0};
    char path[TEMP_FOLDER];
    temp_file(path, (struct firn_bytes){places, strlen(places)});
    assert_int_equal(steptable_read(&table, path, &err), FIRN_OK);
    if (scales != NULL) {
        play_write(path, scales);
        assert_int_equal(steptable_read(&table, path, &err), FIRN_OK);
    }
    unlink(path);
    steptable_ready(&table);
    return table;
}

static struct steptable_time at(const struct steptable *table,
                                const char *place, double batch)
{
    int gpus[STEPTABLE_DIGITS], n = 0;
    for (; *place != '\0'; place++)
        gpus[n++] = *place - '0';
    return steptable_at(table, gpus, n, batch);
}

static const char places[] = "placement,local_bsz,step_time,sync_time\n"
                             "1,10,1,0\n1,20,3,0\n"
                             "12,10,4,2\n"
                             "123,10,5,2\n132,10,7,4\n"
                             "22,10,8,3\n22,20,9,3\n";
static const char scales[] =
    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
    "6,6,10,10,5\n6,24,10,20,10\n8,8,10,20,10\n8,32,10,40,20\n";

static void rotated_placements_are_equal_and_mirrored_ones_are_not(void **state)
{
    (void)state;
    struct steptable t = made(places, scales);
    assert_true(at(&t, "12", 10).step_s == 4);
    assert_true(at(&t, "21", 10).step_s == 4);
    assert_true(at(&t, "231", 10).step_s == 5);
    assert_true(at(&t, "213", 10).step_s == 7);
    assert_true(at(&t, "213", 10).sync_s == 4);
    steptable_release(&t);
}

static void batches_between_rows_are_linear_and_held_outside(void **state)
{
    (void)state;
    struct steptable t = made(places, scales);
    assert_true(at(&t, "1", 15).step_s == 2);
    assert_false(at(&t, "1", 15).extrapolated);
    assert_true(at(&t, "1", 5).step_s == 1);
    assert_true(at(&t, "1", 5).extrapolated);
    assert_true(at(&t, "1", 30).step_s == 3);
    assert_true(at(&t, "1", 30).extrapolated);
    assert_true(steptable_batch_max(&t) == 20);
    steptable_release(&t);
}

/* 6 nodes of 2: between 1 (10 s) and 4 GPUs a node (20 s): 13.33. 7 nodes of
 * one: half way from 10 to 20. 7 of 4: from 20 to 40. 5 of 1: from the three
 * nodes' mean at 2 GPUs a node (123 and 132: 6 s, held) to 10: 8.67. */
static void other_placements_come_from_the_grid(void **state)
{
    (void)state;
    struct steptable t = made(places, scales);
    assert_true(
        play_near(steptable_spread(&t, 12, 6, 10).step_s, 10 + 10 / 3.));
    assert_true(play_near(at(&t, "1111111", 10).step_s, 15));
    assert_true(play_near(at(&t, "4444444", 10).step_s, 30));
    assert_true(play_near(at(&t, "4444444", 10).sync_s, 15));
    assert_true(play_near(at(&t, "11111", 10).step_s, 6 + 4 * 2 / 3.));
    assert_true(at(&t, "11111", 10).extrapolated);
    assert_true(steptable_spread(&t, 64, 64, 10).extrapolated);
    assert_true(play_near(steptable_spread(&t, 64, 64, 10).step_s, 20));
    steptable_release(&t);
}

static void bad_rows_are_named(void **state)
{
    (void)state;
    struct steptable t = {0};
    struct firn_error err = {0};
    char path[TEMP_FOLDER];
    temp_file(path, (struct firn_bytes){0});
    play_write(path, "placement,local_bsz,step_time,sync_time\n1,1,1,0\n"
                     "1,2,-1,0\n");
    assert_int_equal(steptable_read(&t, path, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "row 2"));
    play_write(path, "placement,local_bsz\n1,1,1\n");
    assert_int_equal(steptable_read(&t, path, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "line 2: 3 cells, not 2"));
    unlink(path);
    steptable_release(&t);
}

static bool data_dir(char out[512])
{
    const char *apps = data_path("pollux/apps.csv");
    if (apps == NULL)
        return false;
    snprintf(out, 512, "%.*s", (int)(strrchr(apps, '/') - apps), apps);
    *strrchr(out, '/') = '\0';
    return true;
}

/* Values the AdaptDL simulator gives for its own tables. */
static void polluxs_tables_read_as_its_simulator_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *app, *place;
        double batch, step_s, sync_s;
    } cases[] = {
        {"cifar10", "1", 128, 0.103115323, 0.000525336},
        {"cifar10", "42", 342, 0.268777414, 0.020076066},
        {"cifar10", "132", 100, 0.148151534, 0.068059275},
        {"cifar10", "123", 100, 0.150870728, 0.070045600},
        {"bert", "4", 7, 0.680147901, 0.093732959},
        {"bert", "44", 9, 2.521101212, 1.826682101},
        {"deepspeech2", "442", 33, 1.247383625, 0.250095372},
        {"yolov3", "1", 5, 0.358801335, 0.002507357},
        {"ncf", "1", 16384, 0.014968738, 0.000339132},
        {"ncf", "2", 5000, 0.012775016, 0.002017478},
    };
    char dir[512];
    if (!data_dir(dir)) {
        print_message("no Pollux tables\n");
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steptable t = {0};
        struct firn_error err = {0};
        assert_int_equal(
            measured_table(&t, "pollux", cases[i].app, "t4", dir, &err),
            FIRN_OK);
        struct steptable_time got = at(&t, cases[i].place, cases[i].batch);
        if (fabs(got.step_s - cases[i].step_s) > 1e-8 ||
            fabs(got.sync_s - cases[i].sync_s) > 1e-8)
            fail_msg("%s %s %g: %.9f %.9f", cases[i].app, cases[i].place,
                     cases[i].batch, got.step_s, got.sync_s);
        steptable_release(&t);
    }
}

/* Five nodes and more: their tessellation is not ours. The mean difference
 * over all they can be asked stays within a few percent. */
static void larger_placements_are_near_the_authors_interpolation(void **state)
{
    (void)state;
    static const char *const apps[] = {"bert", "deepspeech2", "yolov3",
                                       "cifar10"};
    char dir[512];
    if (!data_dir(dir) || data_path("pollux/interpolated/bert-5plus.csv") == 0)
        skip();
    for (size_t k = 0; k < sizeof apps / sizeof *apps; k++) {
        struct steptable t = {0}, theirs = {0};
        struct firn_error err = {0};
        char rel[96];
        double sum = 0, worst = 0;
        snprintf(rel, sizeof rel, "pollux/interpolated/%s-5plus.csv", apps[k]);
        assert_int_equal(steptable_read(&theirs, data_path(rel), &err),
                         FIRN_OK);
        assert_int_equal(measured_table(&t, "pollux", apps[k], "t4", dir, &err),
                         FIRN_OK);
        for (size_t i = 0; i < theirs.nrows; i++) {
            const struct steptable_row *row = &theirs.rows[i];
            double got =
                steptable_spread(&t, row->gpus, row->nodes, row->batch).step_s;
            double off = fabs(got / row->step_s - 1);
            sum += off;
            worst = fmax(worst, off);
        }
        double mean = sum / (double)theirs.nrows;
        printf("%-12s %6zu placements: mean %.2f %%, worst %.0f %%\n", apps[k],
               theirs.nrows, 100 * mean, 100 * worst);
        assert_true(mean < 0.05);
        steptable_release(&t);
        steptable_release(&theirs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            rotated_placements_are_equal_and_mirrored_ones_are_not),
        cmocka_unit_test(batches_between_rows_are_linear_and_held_outside),
        cmocka_unit_test(other_placements_come_from_the_grid),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(polluxs_tables_read_as_its_simulator_reads_them),
        cmocka_unit_test(larger_placements_are_near_the_authors_interpolation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
