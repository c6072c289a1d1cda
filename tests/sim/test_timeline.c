/* test_timeline.c - rows at multiples of the step, with what held then.
 */
#include "base/buf.h"
#include "sim/timeline.h"
#include "trace_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = "time_s,running,waiting,gpus_up,gpus_held,"
                           "gpus_progressing,gpus_free_fragmented\n";
static char path[64];

static struct timeline *opened(double step_s)
{
    struct timeline *timeline;
    snprintf(path, sizeof path, "/tmp/firn-timeline-%ld", (long)getpid());
    assert_int_equal(timeline_open(&timeline, path, step_s, NULL), FIRN_OK);
    return timeline;
}

static void add(struct timeline *timeline, double at_s, long running)
{
    timeline_add(timeline, at_s, &(struct timeline_values){.running = running});
}

static struct firn_buf closed(struct timeline *timeline)
{
    assert_int_equal(timeline_close(timeline, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    assert_int_equal(strncmp(text.at, head, strlen(head)), 0);
    remove(path);
    return text;
}

static void a_row_has_the_last_values_at_or_before_it(void **state)
{
    (void)state;
    struct timeline *timeline = opened(10);
    add(timeline, 3, 1);
    add(timeline, 9.5, 2);
    add(timeline, 20, 3);
    add(timeline, 20, 4);
    add(timeline, 41, 5);
    struct firn_buf text = closed(timeline);
    assert_string_equal(text.at + strlen(head), "10,2,0,0,0,0,0\n"
                                                "20,4,0,0,0,0,0\n"
                                                "30,4,0,0,0,0,0\n"
                                                "40,4,0,0,0,0,0\n");
    buf_release(&text);
}

static void all_values_are_written_in_their_order(void **state)
{
    (void)state;
    struct timeline *timeline = opened(0.5);
    timeline_add(timeline, 0.5, &(struct timeline_values){1, 2, 3, 4, 5, 6});
    struct firn_buf text = closed(timeline);
    assert_string_equal(text.at + strlen(head), "0.5,1,2,3,4,5,6\n");
    buf_release(&text);
}

/* The adaptive rows are those of a run with the final step. */
static void an_adaptive_timeline_is_one_with_a_larger_step(void **state)
{
    (void)state;
    double end_s = 123456;
    struct timeline *timeline = opened(0);
    for (double t = 0; t <= end_s; t += 61.7)
        add(timeline, t, (long)t);
    struct firn_buf adapted = closed(timeline);
    size_t rows = 0;
    double second_s = 0;
    for (char *at = adapted.at; *at != '\0'; at++)
        if (*at == '\n' && ++rows == 2)
            second_s = strtod(at + 1, NULL);
    rows--;
    assert_true(rows > TIMELINE_ROWS / 2 - 2 && rows <= TIMELINE_ROWS);
    assert_true(second_s == 128);
    timeline = opened(second_s);
    for (double t = 0; t <= end_s; t += 61.7)
        add(timeline, t, (long)t);
    struct firn_buf fixed = closed(timeline);
    assert_string_equal(adapted.at, fixed.at);
    buf_release(&adapted);
    buf_release(&fixed);
}

static void an_empty_timeline_has_its_head(void **state)
{
    (void)state;
    struct firn_buf text = closed(opened(1));
    assert_string_equal(text.at, head);
    buf_release(&text);
}

static void a_step_too_small_is_refused_in_words(void **state)
{
    (void)state;
    struct firn_error err = {0};
    struct timeline *timeline = opened(1e-300);
    add(timeline, 1, 1);
    add(timeline, 2, 1);
    assert_int_equal(timeline_close(timeline, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "take a larger step"));
    remove(path);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct timeline *timeline;
    struct firn_error err = {0};
    assert_int_equal(timeline_open(&timeline, "/nonexistent/x.csv", 1, &err),
                     FIRN_EIO);
    assert_non_null(strstr(err.text, "/nonexistent/x.csv"));
}

static void null_is_no_timeline(void **state)
{
    (void)state;
    add(NULL, 1, 1);
    assert_int_equal(timeline_close(NULL, NULL), FIRN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_last_values_at_or_before_it),
        cmocka_unit_test(all_values_are_written_in_their_order),
        cmocka_unit_test(an_adaptive_timeline_is_one_with_a_larger_step),
        cmocka_unit_test(an_empty_timeline_has_its_head),
        cmocka_unit_test(a_step_too_small_is_refused_in_words),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(null_is_no_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
