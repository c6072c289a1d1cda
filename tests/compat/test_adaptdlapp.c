/* test_adaptdlapp.c - small tables worked by hand.
 *
 * The published ones are looked up in test_adaptdljob.c.
 */
#include "base/buf.h"
#include "compat/adaptdlapp.h"
#include "lib/play.h"
#include "lib/temp.h"
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

/* "4,2", or "6*4" for six nodes of four. */
static struct adlplace place(const char *text)
{
    struct adlplace out = {0};
    int times, gpus;
    if (sscanf(text, "%d*%d", &times, &gpus) == 2)
        return adlplace_packed(times * gpus, gpus);
    for (; *text != '\0'; text += *text == ',')
        assert_true(adlplace_add(&out, *text++ - '0'));
    return out;
}

static const char placements[] = "placement,local_bsz,step_time,sync_time\n"
                                 "1,10,1,0\n1,20,3,0\n1,40,4,0\n"
                                 "12,10,4,2\n12,30,5,2\n"
                                 "21,50,4,2\n";
static const char scalability[] =
    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
    "6,6,10,10,5\n6,24,10,20,10\n6,24,25,30,10\n";
static const char beyond[] =
    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
    "5,5,10,1.5,0.5\n5,5,11,1.6,0.5\n5,12,10,2.5,1\n16,64,10,7,3";

struct folder {
    char path[TEMP_FOLDER];
    char places[TEMP_PATH], scales[TEMP_PATH], far[TEMP_PATH];
};

static struct folder make_folder(void)
{
    struct folder f;
    temp_open(f.path);
    temp_name(f.places, f.path, "placements.csv");
    temp_name(f.scales, f.path, "scalability.csv");
    temp_name(f.far, f.path, "far.csv");
    play_write(f.places, placements);
    play_write(f.scales, scalability);
    play_write(f.far, beyond);
    return f;
}

/* 2,1 and 1,2 are one placement: its largest batch is 50, but on three GPUs. */
static void the_largest_batch_is_that_measured_on_the_place(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct adlsteps steps;
    struct firn_error err = {0};
    struct adlplace one = place("1"), three_gpus = place("2,1"),
                    many = place("5*2"), most = place("6*4"),
                    all = place("8*4");
    assert_int_equal(adlsteps_open(&steps, f.places, f.scales, NULL, &err),
                     FIRN_OK);
    assert_true(steps.b_min == 10 && steps.b_max == 50);
    assert_true(steps.one_b == 40 && steps.one_s == 4);
    assert_true(adlsteps_b_max_at(&steps, &one) == 40);
    assert_true(adlsteps_b_max_at(&steps, &three_gpus) == 50);
    /* not measured: 24 GPUs on 6 nodes are at least as many */
    assert_true(adlsteps_b_max_at(&steps, &many) == 25);
    assert_true(adlsteps_b_max_at(&steps, &most) == 25);
    /* nothing is as large: what was measured at all */
    assert_true(adlsteps_b_max_at(&steps, &all) == 50);
    adlsteps_release(&steps);
    temp_close(f.path);
}

/* The first row, one in the middle, and the last, which no newline ends; more
 * than 16 nodes count as 16. A row that is not there comes from the grid, as
 * without the file: 24 GPUs of 6 nodes were measured. */
static void five_nodes_and_more_are_read_from_the_file(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct adlsteps steps;
    struct firn_error err = {0};
    struct adlplace five = place("5*1"), dozen = place("4,3,2,2,1"),
                    all = place("16*4"), more = {0}, six = place("6*4");
    assert_int_equal(adlsteps_open(&steps, f.places, f.scales, f.far, &err),
                     FIRN_OK);
    assert_true(adlsteps_at(&steps, &five, 10).step_s == 1.5);
    assert_true(adlsteps_at(&steps, &five, 11).step_s == 1.6);
    assert_true(adlsteps_at(&steps, &dozen, 10).sync_s == 1);
    assert_true(adlsteps_at(&steps, &all, 10).step_s == 7);
    for (int i = 0; i < 32; i++)
        assert_true(adlplace_add(&more, 2));
    assert_true(adlsteps_at(&steps, &more, 10).step_s == 7);
    assert_true(adlsteps_at(&steps, &six, 10).step_s == 20);
    adlsteps_release(&steps);
    temp_close(f.path);
}

static void tables_that_are_not_there_are_named(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct adlsteps steps;
    struct adlapp app;
    struct firn_error err = {0};
    unlink(f.far);
    assert_int_equal(adlsteps_open(&steps, f.places, f.scales, f.far, &err),
                     FIRN_ENOENT);
    assert_non_null(strstr(err.text, "far.csv"));
    unlink(f.places);
    assert_int_equal(adlsteps_open(&steps, f.places, f.scales, NULL, &err),
                     FIRN_ENOENT);
    assert_int_equal(adlapp_open(&app, f.path, &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, f.path));
    temp_close(f.path);
}

/* Two epochs in one file and one in the other. */
static void curves_of_unequal_length_are_refused(void **state)
{
    static const char head[] = "progress,iteration,metric,grad_sqr,grad_var\n";
    (void)state;
    struct folder f = make_folder();
    struct adlapp app;
    struct firn_error err = {0};
    struct firn_buf text = {0};
    char path[96], other[96];
    snprintf(path, sizeof path, "%s/validation-8.csv", f.path);
    snprintf(other, sizeof other, "%s/validation-16.csv", f.path);
    buf_printf(&text, "%s10,10,0,1,2\n20,20,0,1,2\n", head);
    play_write(path, text.at);
    buf_clear(&text);
    buf_printf(&text, "%s9,5,0,3,4\n", head);
    play_write(other, text.at);
    assert_int_equal(adlapp_open(&app, f.path, &err), FIRN_EINVAL);
    buf_printf(&text, "19,9,0,3,4\n");
    play_write(other, text.at);
    assert_int_equal(adlapp_open(&app, f.path, &err), FIRN_OK);
    assert_int_equal(app.epochs, 2);
    /* the smaller progress of the two files; half way between 8 and 16 */
    assert_true(app.progress[0] == 0 && app.progress[1] == 9);
    assert_true(app.progress[2] == 19);
    assert_true(adlapp_noise(&app, 12, 0).grad_sqr == 2);
    assert_true(adlapp_noise(&app, 12, 0).grad_var == 3);
    assert_true(adlapp_iterations(&app, 12, 1) == 14.5);
    /* beyond the files: the nearest */
    assert_true(adlapp_noise(&app, 99, 0).grad_sqr == 3);
    adlapp_release(&app);
    buf_release(&text);
    unlink(path);
    unlink(other);
    temp_close(f.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_batch_is_that_measured_on_the_place),
        cmocka_unit_test(five_nodes_and_more_are_read_from_the_file),
        cmocka_unit_test(tables_that_are_not_there_are_named),
        cmocka_unit_test(curves_of_unequal_length_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
