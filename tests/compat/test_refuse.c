/* test_refuse.c - options that no published simulator had are refused by name.
 */
#include "compat/refuse.h"
#include "sim/world.h"
#include <firn/compat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void says(const struct firn_sim_options *options, unsigned but,
                 const char *text)
{
    struct firn_error err = {0};
    assert_int_equal(refuse_options("A", options, but, &err), FIRN_EINVAL);
    assert_string_equal(err.text, text);
}

static void default_options_pass(void **unused)
{
    struct firn_sim_options usual = firn_sim_defaults();
    (void)unused;
    assert_int_equal(refuse_options("A", &usual, 0, NULL), FIRN_OK);
}

static void each_option_is_refused_by_name(void **unused)
{
    const struct firn_sim_options usual = firn_sim_defaults();
    static const struct firn_restart_cost cost = {"bert", 1};
    struct firn_sim_options o[17];
    (void)unused;
    for (size_t i = 0; i < sizeof o / sizeof *o; i++)
        o[i] = usual;
    o[0].noise.sharing = 0.1;
    says(&o[0], 0, "A never had noise");
    o[1].failures = "file";
    says(&o[1], 0, "A never had failures");
    o[2].mtbf_s = 10;
    says(&o[2], 0, "A never had failures");
    o[3].checkpoint_s = 1;
    says(&o[3], 0, "A never had checkpoint intervals");
    o[4].elastic_max = 2;
    says(&o[4], 0, "A never had elastic bounds");
    o[5].shares = true;
    says(&o[5], 0, "A never had shared GPUs");
    o[6].freeze = FIRN_SIM_FREEZE_TUNED;
    says(&o[6], 0, "A never had frozen layers");
    o[7].scaling = 0.5;
    says(&o[7], 0, "A never had a scaling exponent");
    o[8].share_slowdown = 7;
    says(&o[8], 0, "A never had a slowdown of sharing");
    o[9].interval_s = 60;
    says(&o[9], 0, "A never had another interval");
    o[10].quantum_s = 1;
    says(&o[10], 0, "A never had a quantum");
    o[11].restart_s = usual.restart_s + 1;
    says(&o[11], 0, "A never had restart costs but its own");
    o[12].restarts = &cost;
    o[12].nrestarts = 1;
    says(&o[12], REFUSE_BUT_RESTARTS,
         "A never had restart costs by application");
    o[13].charges_first_start = true;
    says(&o[13], 0, "A never had a choice whether the first start costs");
    o[14].quiet_starts = true;
    says(&o[14], 0, "A never had quiet starts");
    o[15].prepares = 1;
    says(&o[15], 0, "A never had prepared starts");
    o[16].ends = &cost;
    o[16].nends = 1;
    says(&o[16], 0, "A never had quiet ends");
}

static void options_of_the_artifact_pass(void **unused)
{
    struct firn_sim_options o = firn_sim_defaults();
    (void)unused;
    o.interval_s = 90;
    assert_int_equal(refuse_options("A", &o, REFUSE_BUT_INTERVALS, NULL),
                     FIRN_OK);
    o.interval_s = 0.5;
    says(&o, REFUSE_BUT_INTERVALS, "A never had rounds of a part of a second");
    o = firn_sim_defaults();
    o.restart_s = 1;
    assert_int_equal(refuse_options("A", &o, REFUSE_BUT_RESTARTS, NULL),
                     FIRN_OK);
}

static void a_missing_folder_of_tables_is_named(void **unused)
{
    static const char *const none[] = {NULL, "none", "builtin"};
    struct firn_sim_options o = firn_sim_defaults();
    struct firn_error err = {0};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        o.profiles = none[i];
        assert_int_equal(refuse_no_tables("A", &o, "b/ and c/", &err),
                         FIRN_EINVAL);
        assert_non_null(strstr(err.text, "the folder that has b/ and c/"));
        assert_non_null(strstr(err.text, "FIRN_DATA"));
    }
    o.profiles = "some/folder";
    assert_int_equal(refuse_no_tables("A", &o, "b/", NULL), FIRN_OK);
}

/* One GPU: no artifact had so small a cluster. */
static void every_world_refuses_a_cluster_its_artifact_never_had(void **unused)
{
    struct firn_cluster cluster;
    struct firn_sim_options o = firn_sim_defaults();
    size_t n;
    const struct firn_world_def *const *worlds = firn_compats(&n);
    (void)unused;
    assert_true(n > 0);
    assert_int_equal(firn_cluster_open(&cluster, "1x1:k80", NULL), FIRN_OK);
    o.cluster = &cluster;
    o.trace = "jobs.csv";
    o.profiles = "folder";
    for (size_t i = 0; i < n; i++) {
        struct firn_error err = {0};
        assert_int_equal(worlds[i]->suits(&o, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "1x1:k80"));
        assert_non_null(strstr(err.text, worlds[i]->artifact));
    }
    firn_cluster_release(&cluster);
}

/* Every world has a list; this name is on none. */
static void every_world_names_the_policies_it_has(void **unused)
{
    size_t n;
    const struct firn_world_def *const *worlds = firn_compats(&n);
    (void)unused;
    for (size_t i = 0; i < n; i++) {
        struct firn_error err = {0};
        const struct world_policy *as;
        assert_null(world_policy_find(worlds[i], "fifo", &as, &err));
        assert_non_null(strstr(err.text, "never had a policy 'fifo'"));
        for (as = worlds[i]->policies; as->name != NULL; as++)
            assert_non_null(strstr(err.text, as->name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_options_pass),
        cmocka_unit_test(each_option_is_refused_by_name),
        cmocka_unit_test(options_of_the_artifact_pass),
        cmocka_unit_test(a_missing_folder_of_tables_is_named),
        cmocka_unit_test(every_world_refuses_a_cluster_its_artifact_never_had),
        cmocka_unit_test(every_world_names_the_policies_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
