/* test_planjobs.c - speed of jobs by execution plan, measured and fitted.
 */
#include "core/planjobs.h"
#include "lib/temp.h"
#include <firn/parallel.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct firn_cluster cluster_of(const char *spec)
{
    struct firn_cluster cluster;
    struct firn_error err;
    if (firn_cluster_parse_spec(&cluster, spec, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return cluster;
}

static struct firn_job_spec asks(const char *app, int gpus, const char *word)
{
    struct firn_job_spec spec = {
        .app = app, .gpus = gpus, .gpus_min = 1, .gpus_max = 64};
    struct exec_plan plan;
    assert_true(exec_plan_read(word, gpus, &plan));
    spec.asked = planjobs_layout(&plan);
    return spec;
}

static struct spread place(const char *digits)
{
    struct spread where = {.types = 1};
    for (; *digits != '\0'; digits++) {
        int here = *digits - '0';
        where.each[where.nodes++] = here;
        where.gpus += here;
        where.fullest = here > where.fullest ? here : where.fullest;
    }
    return where;
}

/* A model's table; the others are empty. */
static struct plantable *tables_with(const char *app, const char *text)
{
    size_t n;
    const struct plan_model *models = plan_models(&n);
    struct plantable *tables = calloc(n, sizeof *tables);
    struct firn_error err;
    char path[TEMP_FOLDER];
    temp_file(path, (struct firn_bytes){text, strlen(text)});
    if (plantable_read(&tables[plan_model_find(app) - models], path, &err) !=
        FIRN_OK)
        fail_msg("%s", err.text);
    unlink(path);
    return tables;
}

static void tables_free(struct plantable *tables)
{
    size_t n;
    plan_models(&n);
    for (size_t i = 0; i < n; i++)
        plantable_release(&tables[i]);
    free(tables);
}

static void a_job_without_a_plan_is_none(void **state)
{
    (void)state;
    struct firn_job_spec spec = asks("bert", 4, "ga");
    assert_true(planjobs_is(&spec));
    spec.app = "gpt9";
    assert_false(planjobs_is(&spec));
    spec.app = "bert";
    spec.asked.parallel = 0;
    assert_false(planjobs_is(&spec));
}

/* ga on 4 takes 2 s; zero-dp 1 s on 4 and 0.5 s on 8. */
static void measured_rows_are_used_as_they_are(void **state)
{
    (void)state;
    struct plantable *tables =
        tables_with("bert", "exec_plan,placement,iter_time\n"
                            "ga,4,2\nzero-dp,4,1\nzero-dp,8,0.5\n");
    struct firn_cluster cluster = cluster_of("8x8:a800");
    struct firn_job_spec spec = asks("bert", 4, "ga");
    struct planjob job = planjobs_open(&cluster, &spec, 1, tables);
    struct spread four = place("4"), eight = place("8");
    struct firn_layout own = {0}, zero = {FIRN_PARALLEL_SHARDED, 0, 0};
    assert_true(planjobs_rate(&job, &cluster, &four, &own, tables) == 1);
    assert_true(planjobs_rate(&job, &cluster, &four, &zero, tables) == 2);
    assert_true(planjobs_rate(&job, &cluster, &eight, &zero, tables) == 4);
    tables_free(tables);
    firn_cluster_release(&cluster);
}

static void the_fitted_terms_fill_in_the_rest(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("8x8:a800");
    struct firn_job_spec spec = asks("bert", 4, "ga");
    struct planjob job = planjobs_open(&cluster, &spec, 1, NULL);
    struct spread four = place("4"), eight = place("8");
    struct firn_layout own = {0};
    struct plan_spot spot = plan_spot_of(four.each, 1);
    struct exec_plan plan;
    assert_true(exec_plan_read("ga", 4, &plan));
    assert_true(job.ref_s == plan_step_s(&job.model->law, &plan, &spot));
    assert_true(planjobs_rate(&job, &cluster, &four, &own, NULL) == 1);
    double faster = planjobs_rate(&job, &cluster, &eight, &own, NULL);
    assert_true(faster > 1 && faster < 2);
    firn_cluster_release(&cluster);
}

/* A copy of 2 stages of 4 shares is 8 GPUs: 20 GPUs are two copies. */
static void the_plan_asked_for_scales_by_copies(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("8x8:a800");
    struct firn_job_spec spec = asks("llama7", 32, "244");
    struct planjob job = planjobs_open(&cluster, &spec, 1, NULL);
    struct firn_layout own = {0};
    struct spread sixteen = place("88"), twenty = place("884"),
                  four = place("4");
    double two = planjobs_expect(&job, &cluster, &sixteen, &own, NULL);
    assert_true(two > 0 && two < 1.2);
    assert_true(planjobs_expect(&job, &cluster, &twenty, &own, NULL) == two);
    assert_true(planjobs_expect(&job, &cluster, &four, &own, NULL) == 0);
    assert_true(planjobs_rate(&job, &cluster, &four, &own, NULL) > 0);
    planjobs_restrict(&spec);
    assert_int_equal(spec.gpus_min, 8);
    firn_cluster_release(&cluster);
}

/* Recorded on eight nodes of 4, since 2 x 4 nodes are there: four of 8 are
 * faster; 5 x 4 nodes are not, so 524 was recorded on five nodes of 8. */
static void durations_refer_to_a_node_for_each_stage(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("8x8:a800");
    struct firn_layout own = {0};
    struct firn_job_spec spec = asks("llama7", 32, "244");
    struct planjob job = planjobs_open(&cluster, &spec, 1, NULL);
    struct spread apart = place("44444444"), packed = place("8888"),
                  five = place("88888");
    assert_true(planjobs_rate(&job, &cluster, &apart, &own, NULL) == 1);
    assert_true(planjobs_rate(&job, &cluster, &packed, &own, NULL) > 1.2);
    spec = asks("llama30", 40, "524");
    job = planjobs_open(&cluster, &spec, 1, NULL);
    assert_true(planjobs_rate(&job, &cluster, &five, &own, NULL) == 1);
    firn_cluster_release(&cluster);
}

/* 100 GiB of states: no copy on 80 GiB, but the host holds the optimizer. */
static void memory_forbids_plans_that_were_not_measured(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("8x8:a800");
    struct firn_job_spec spec = asks("llama7", 16, "182");
    struct planjob job = planjobs_open(&cluster, &spec, 1, NULL);
    struct spread one = place("1");
    struct firn_layout whole = {FIRN_PARALLEL_PIPELINE, 1, 1},
                       host = {FIRN_PARALLEL_OFFLOAD, 0, 0};
    assert_true(planjobs_expect(&job, &cluster, &one, &whole, NULL) == 0);
    assert_true(planjobs_expect(&job, &cluster, &one, &host, NULL) > 0);
    firn_cluster_release(&cluster);
}

static void a_faster_gpu_type_computes_faster(void **state)
{
    (void)state;
    struct firn_cluster cluster = cluster_of("2x8:a800,2x8:h100,2x8:v100");
    struct firn_job_spec spec = asks("bert", 1, "ga");
    struct planjob job = planjobs_open(&cluster, &spec, 7, NULL);
    struct firn_layout own = {0};
    struct spread one = place("1");
    assert_int_equal(job.ref, 0);
    one.types = 2;
    assert_true(planjobs_rate(&job, &cluster, &one, &own, NULL) > 1);
    one.types = 4;
    assert_true(planjobs_rate(&job, &cluster, &one, &own, NULL) < 1);
    firn_cluster_release(&cluster);
}

static void a_layout_is_the_plan_it_was_made_of(void **state)
{
    (void)state;
    static const char *const words[] = {"ga", "gc", "zero-dp", "zero-offload",
                                        "214"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct exec_plan plan, back;
        assert_true(exec_plan_read(words[i], 8, &plan));
        struct firn_layout how = planjobs_layout(&plan);
        struct planjob job = {0};
        assert_true(planjobs_plan(&job, &how, 8, &back));
        assert_true(exec_plan_equal(&plan, &back));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_a_plan_is_none),
        cmocka_unit_test(measured_rows_are_used_as_they_are),
        cmocka_unit_test(the_fitted_terms_fill_in_the_rest),
        cmocka_unit_test(the_plan_asked_for_scales_by_copies),
        cmocka_unit_test(durations_refer_to_a_node_for_each_stage),
        cmocka_unit_test(memory_forbids_plans_that_were_not_measured),
        cmocka_unit_test(a_faster_gpu_type_computes_faster),
        cmocka_unit_test(a_layout_is_the_plan_it_was_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
