/* test_dryrun_all.c - the forecast of all jobs: the same as that of each job
 * alone, kept, and bounded.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HARD(duration) "gpus: 1\nduration: " duration "\n"

static json_t *ask(struct loopscene *s, bool is_fresh)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(dryrun_all(s->loop, is_fresh, &json, &err), FIRN_OK);
    json_error_t what;
    json_t *root = json_loadb(json.at, json.n, 0, &what);
    assert_non_null(root);
    buf_release(&json);
    return root;
}

static json_t *ask_all(struct loopscene *s)
{
    return ask(s, false);
}

/* The job's entry. */
static const json_t *of(struct loopscene *s, const json_t *all,
                        const char *name)
{
    const json_t *jobs = json_object_get(all, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        if (json_integer_value(json_object_get(job, "id")) ==
            loopscene_job(s, name)->id)
            return job;
    }
    fail_msg("the forecast has no job %s", name);
    return NULL;
}

/* Seconds from the forecast's moment on; NaN: null. */
static double after(const json_t *all, const json_t *job, const char *key)
{
    const json_t *value = json_object_get(job, key);
    assert_non_null(value);
    return json_is_null(value)
               ? (double)NAN
               : json_number_value(value) -
                     json_number_value(json_object_get(all, "at_s"));
}

static double eta(struct loopscene *s, const char *name, const char *key)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(dryrun_eta(s->loop, loopscene_job(s, name), &json, &err),
                     FIRN_OK);
    json_error_t what;
    json_t *root = json_loadb(json.at, json.n, 0, &what);
    const json_t *value = json_object_get(root, key);
    double at_s = json_is_null(value) ? (double)NAN : json_number_value(value);
    json_decref(root);
    buf_release(&json);
    return at_s;
}

static void three_jobs_on_one_gpu_follow_each_other(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", HARD("100s"));
    loopscene_turn(&s);
    loopscene_submit(&s, "b", HARD("200s"));
    loopscene_submit(&s, "c", HARD("50s"));
    loopscene_turn(&s);
    json_t *all = ask_all(&s);
    const json_t *b = of(&s, all, "b"), *c = of(&s, all, "c");
    assert_int_equal(json_integer_value(json_object_get(b, "position")), 1);
    assert_int_equal(json_integer_value(json_object_get(c, "position")), 2);
    /* a ends at about 100 s, b at 300 s, c at 350 s. */
    assert_true(fabs(after(all, b, "start_at_s") - 100) < 5);
    assert_true(fabs(after(all, b, "finish_at_s") - 300) < 5);
    assert_true(fabs(after(all, c, "start_at_s") - 300) < 5);
    assert_true(fabs(after(all, c, "finish_at_s") - 350) < 5);
    assert_string_equal(json_string_value(json_object_get(c, "gpus")), "n0[0]");
    assert_true(json_is_null(json_object_get(all, "stopped")));
    /* The same as the forecast of each alone. */
    assert_true(fabs(after(all, c, "start_at_s") - eta(&s, "c", "start_s")) <
                1);
    assert_true(fabs(after(all, c, "finish_at_s") - eta(&s, "c", "finish_s")) <
                1);
    /* Half and twice of what a and b take: from 150 s to 600 s. */
    const json_t *range = json_object_get(c, "start_range_s");
    double at_s = json_number_value(json_object_get(all, "at_s"));
    assert_true(fabs(json_number_value(json_array_get(range, 0)) - at_s - 150) <
                5);
    assert_true(fabs(json_number_value(json_array_get(range, 1)) - at_s - 600) <
                10);
    json_decref(all);
    loopscene_close(&s);
}

static void a_start_behind_a_job_of_unknown_length_is_not_told(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", "gpus: 1\n");
    loopscene_turn(&s);
    loopscene_submit(&s, "b", HARD("200s"));
    loopscene_turn(&s);
    json_t *all = ask_all(&s);
    const json_t *b = of(&s, all, "b");
    assert_true(isnan(after(all, b, "start_at_s")));
    assert_int_equal(json_integer_value(json_object_get(b, "hangs_on")), a->id);
    assert_true(isnan(eta(&s, "b", "start_s")));
    json_decref(all);
    loopscene_close(&s);
}

static void the_answer_is_kept_until_something_is_decided(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", HARD("100s"));
    loopscene_turn(&s);
    json_t *one = ask_all(&s);
    loopscene_pass(&s, 1); /* by the scene's clock: the answer does not know */
    json_t *two = ask_all(&s);
    assert_true(json_equal(one, two));
    json_decref(two);
    two = ask(&s, true);
    assert_true(after(two, of(&s, two, "a"), "finish_at_s") <
                after(one, of(&s, one, "a"), "finish_at_s"));
    json_decref(one);
    json_decref(two);
    loopscene_close(&s);
}

static void many_jobs_are_foretold_in_bounded_time(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "8x8:v100@16", "fifo", false);
    int n = getenv("FIRN_SOAK") != NULL ? 5000 : 500;
    for (int i = 0; i < n; i++) {
        char name[32], lines[64];
        snprintf(name, sizeof name, "j%d", i);
        snprintf(lines, sizeof lines, "gpus: %d\nduration: %ds", 1 + i % 4,
                 100 + i);
        loopscene_submit(&s, name, lines);
    }
    loopscene_turn(&s);
    double began_s = clock_cpu_s();
    json_t *all = ask_all(&s);
    double took_s = clock_cpu_s() - began_s;
    assert_int_equal(json_array_size(json_object_get(all, "jobs")), n);
    /* Three futures of 0.15 s, and their copies; a slow machine may take ten
     * times as long for these. */
    print_message("%d jobs: %.2f s of processor time\n", n, took_s);
    assert_true(took_s < 20);
    json_decref(all);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(three_jobs_on_one_gpu_follow_each_other),
        CASE(a_start_behind_a_job_of_unknown_length_is_not_told),
        CASE(the_answer_is_kept_until_something_is_decided),
        CASE(many_jobs_are_foretold_in_bounded_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
