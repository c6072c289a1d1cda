/* test_policy_load.c - policies from outside: what is taken, what is refused.
 *
 * Shared objects are loaded by tests/e2e/900-install.sh; here are the checks
 * that a pointer meets too, and programs that were compiled with older headers.
 */
#include "policy/policy_load.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "toys.h"
#include <cmocka.h>
#include <firn/sim.h>
#include <firn/version.h>
#include <string.h>

static struct firn_error err;

static struct firn_policy_def mine(void)
{
    struct firn_policy_def def = toy_greedy;
    def.size = sizeof def;
    def.name = "mine";
    return def;
}

static void expect_refusal(struct firn_policy_def def, const char *sentence)
{
    struct firn_policy_def out = {.name = "before"};
    memset(&err, 0, sizeof err);
    assert_int_equal(policy_adopt(&out, &def, &err), FIRN_EINVAL);
    if (strstr(err.text, sentence) == NULL)
        fail_msg("\"%s\" does not have \"%s\"", err.text, sentence);
    assert_string_equal(out.name, "before");
}

static void a_wrong_policy_is_refused_with_the_reason(void **unused)
{
    (void)unused;
    struct firn_policy_def def = mine();
    def.size = 0;
    expect_refusal(def, "set .size = sizeof(struct firn_policy_def)");
    def.size = sizeof def + 8;
    expect_refusal(def, "built for a newer firn");
    def = mine();
    def.name = NULL;
    expect_refusal(def, "'' is no name for a policy");
    def.name = "Mine";
    expect_refusal(def, "'Mine' is no name for a policy");
    def = mine();
    def.decide = NULL;
    expect_refusal(def, "policy mine has no `decide`");
    def = mine();
    def.save = firn_policy_find("sia", NULL)->save;
    expect_refusal(def, "only one of `save` and `load`");
}

static void hooks_beyond_the_size_of_an_older_policy_are_not_read(void **unused)
{
    (void)unused;
    struct firn_policy_def old = *firn_policy_find("tiresias", NULL), out;
    assert_int_equal(policy_adopt(&out, &old, &err), FIRN_OK);
    assert_non_null(out.rank);
    old.size = offsetof(struct firn_policy_def, rank);
    assert_int_equal(policy_adopt(&out, &old, &err), FIRN_OK);
    assert_ptr_equal(out.decide, old.decide);
    assert_null(out.rank);
    assert_false(out.ages);
    assert_int_equal(out.size, sizeof out);
}

static void finding_by_name_never_loads_a_file(void **unused)
{
    (void)unused;
    assert_null(firn_policy_find("./mine.so", &err));
    assert_non_null(strstr(err.text, "there is no policy './mine.so'"));
    assert_null(firn_policy_load("fifo", &err));
    assert_non_null(strstr(err.text, "write ./fifo"));
    assert_null(firn_policy_load("./no/such.so", &err));
    assert_int_equal(err.status, FIRN_ENOENT);
}

/* ---- the simulator's options ---- */

static struct firn_sim_options options_for(const struct firn_cluster *cluster)
{
    struct firn_sim_options options = firn_sim_defaults();
    options.trace = "traces/quickstart.csv";
    options.cluster = cluster;
    return options;
}

static void a_policy_given_by_pointer_is_run_under_its_name(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct firn_sim_result own, built_in;
    struct firn_policy_def def = *firn_policy_find("sjf", NULL);
    def.name = "mine";
    assert_int_equal(firn_cluster_open(&cluster, "pollux", &err), FIRN_OK);
    struct firn_sim_options options = options_for(&cluster);
    options.policy_def = &def;
    options.policy = "fifo"; /* not read */
    assert_int_equal(firn_sim_run(&options, &own, &err), FIRN_OK);
    options.policy_def = NULL;
    options.policy = "sjf";
    assert_int_equal(firn_sim_run(&options, &built_in, &err), FIRN_OK);
    assert_string_equal(own.policy, "mine");
    assert_true(own.jct_mean_s == built_in.jct_mean_s);
    def.decide = NULL;
    options.policy_def = &def;
    assert_int_equal(firn_sim_run(&options, &own, &err), FIRN_EINVAL);
    firn_cluster_release(&cluster);
}

static void
options_of_an_older_program_get_the_defaults_for_the_rest(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct firn_sim_result now, old;
    assert_int_equal(firn_cluster_open(&cluster, "pollux", &err), FIRN_OK);
    struct firn_sim_options options = options_for(&cluster);
    options.policy = "sjf";
    assert_int_equal(firn_sim_run(&options, &now, &err), FIRN_OK);
    /* Compiled when the options ended before the failures: what lies behind is
     * not the program's. */
    size_t size = offsetof(struct firn_sim_options, failures);
    memset((char *)&options + size, 0xff, sizeof options - size);
    firn_sim_options_init(&options, size);
    assert_int_equal(options.size, size);
    assert_int_equal(((unsigned char *)&options)[size], 0xff);
    options.trace = "traces/quickstart.csv";
    options.cluster = &cluster;
    options.policy = "sjf";
    assert_int_equal(firn_sim_run(&options, &old, &err), FIRN_OK);
    assert_true(old.jct_mean_s == now.jct_mean_s);
    options.size = 0;
    assert_int_equal(firn_sim_run(&options, &old, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "firn_sim_defaults()"));
    options.size = sizeof options + 1;
    assert_int_equal(firn_sim_run(&options, &old, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "built for a newer firn"));
    firn_cluster_release(&cluster);
}

static void a_simulation_without_a_policy_says_what_it_needs(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct firn_sim_result result;
    assert_int_equal(firn_cluster_open(&cluster, "pollux", &err), FIRN_OK);
    struct firn_sim_options options = options_for(&cluster);
    assert_int_equal(firn_sim_run(&options, &result, &err), FIRN_EINVAL);
    assert_string_equal(err.text,
                        "a simulation needs a trace, a cluster and a policy");
    firn_cluster_release(&cluster);
}

static void the_library_has_the_version_of_its_headers(void **unused)
{
    (void)unused;
    assert_string_equal(firn_version(), FIRN_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_policy_is_refused_with_the_reason),
        cmocka_unit_test(hooks_beyond_the_size_of_an_older_policy_are_not_read),
        cmocka_unit_test(finding_by_name_never_loads_a_file),
        cmocka_unit_test(a_policy_given_by_pointer_is_run_under_its_name),
        cmocka_unit_test(
            options_of_an_older_program_get_the_defaults_for_the_rest),
        cmocka_unit_test(a_simulation_without_a_policy_says_what_it_needs),
        cmocka_unit_test(the_library_has_the_version_of_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
