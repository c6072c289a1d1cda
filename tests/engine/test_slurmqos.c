/* test_slurmqos.c - limits of QOS, as Slurm 22.05 prints them, and users'
 * default QOS; what is not understood limits nothing.
 */
#include "engine/slurmqos.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct shares {
    struct slurm_share at[8];
    size_t n;
};

static void keep(void *arg, const struct slurm_share *share)
{
    struct shares *shares = arg;
    assert_true(shares->n < 8);
    shares->at[shares->n++] = *share;
}

static const char line[] =
    "QOS=high(2) UsageRaw=171.99 GrpJobs=9(6) GrpJobsAccrue=N(1) "
    "GrpTRES=cpu=N(9),gres/gpu=12(11) GrpTRESMins=cpu=N(2),gres/gpu=1(3) "
    "MaxWallPJ=90 MaxTRESPJ=gres/gpu=4 MaxTRESPN= Priority=0 "
    "Account Limits= ml={MaxJobsPA=N(4) MaxSubmitJobsPA=N(4) "
    "MaxTRESPA=cpu=N(6),gres/gpu=8(5)} User Limits= 1009={MaxJobsPU=2(1) "
    "MaxTRESPU=cpu=N(0),gres/gpu=3(2)} 7={MaxJobsPU=2(0) MaxTRESPU=}";

static void a_qos_limits_all_accounts_and_users(void **state)
{
    (void)state;
    struct shares got = {0};
    assert_true(slurm_qos_read(line, keep, &got));
    assert_int_equal(got.n, 4);
    const struct slurm_share *all = &got.at[0], *account = &got.at[1];
    assert_string_equal(all->qos, "high");
    assert_string_equal(all->who, "");
    assert_int_equal(all->limit.gpus_all, 12);
    assert_int_equal(all->limit.gpus_used, 11);
    assert_int_equal(all->limit.gpus_each, 4);
    assert_int_equal(all->limit.jobs_all, 9);
    assert_int_equal(all->limit.jobs_used, 6);
    assert_int_equal(all->limit.wall_min, 90);
    assert_string_equal(account->who, "ml");
    assert_false(account->is_user);
    assert_int_equal(account->limit.gpus_all, 8);
    assert_int_equal(account->limit.gpus_used, 5);
    assert_int_equal(account->limit.jobs_all, -1);
    assert_string_equal(got.at[2].who, "1009");
    assert_true(got.at[2].is_user);
    assert_int_equal(got.at[2].limit.gpus_all, 3);
    assert_int_equal(got.at[2].limit.jobs_used, 1);
    assert_string_equal(got.at[3].who, "7");
    assert_int_equal(got.at[3].limit.gpus_all, -1);
}

/* As Slurm 24.11 writes it. */
static void a_user_with_a_name_is_known_by_its_number(void **state)
{
    (void)state;
    struct shares got = {0};
    assert_true(slurm_qos_read(
        "QOS=small(2) GrpJobs=N(1) GrpTRES=cpu=N(1),gres/gpu=N(1) MaxWallPJ=2 "
        "MaxTRESPJ= Account Limits= bio={MaxJobsPA=N(1) MaxTRESPA=cpu=N(1)} "
        "User Limits= ann(1009)={MaxJobsPU=N(1) "
        "MaxTRESPU=cpu=N(1),gres/gpu=2(1)}",
        keep, &got));
    assert_int_equal(got.n, 3);
    assert_string_equal(got.at[1].who, "bio");
    assert_string_equal(got.at[2].who, "1009");
    assert_true(got.at[2].is_user);
    assert_int_equal(got.at[2].limit.gpus_all, 2);
    assert_int_equal(got.at[2].limit.gpus_used, 1);
}

static void a_qos_without_limits_limits_nothing(void **state)
{
    (void)state;
    struct shares got = {0};
    assert_true(
        slurm_qos_read("QOS=normal(1) GrpJobs=N(0) GrpTRES=gres/gpu=N(3)"
                       " MaxWallPJ= MaxTRESPJ= MaxTRESPN=",
                       keep, &got));
    assert_int_equal(got.n, 1);
    assert_int_equal(got.at[0].limit.gpus_all, -1);
    assert_int_equal(got.at[0].limit.gpus_each, -1);
    assert_int_equal(got.at[0].limit.jobs_all, -1);
    assert_int_equal(got.at[0].limit.wall_min, -1);
    assert_false(slurm_qos_read("QOS Records", keep, &got));
    assert_true(slurm_qos_read("QOS=x(1) a={MaxJobsPA=1(0)", keep, &got));
    assert_true(slurm_qos_read("QOS=={MaxJobsPU=1(0)}", keep, &got));
}

static void a_default_qos_is_that_of_its_cluster(void **state)
{
    (void)state;
    struct slurm_default got;
    assert_true(slurm_default_read("bed|ml|ann|gpu|high", "bed", &got));
    assert_string_equal(got.account, "ml");
    assert_string_equal(got.user, "ann");
    assert_string_equal(got.partition, "gpu");
    assert_string_equal(got.qos, "high");
    assert_true(slurm_default_read("bed|ml|ann||", "bed", &got));
    assert_string_equal(got.qos, "");
    assert_false(slurm_default_read("bed2|ml|ann||high", "bed", &got));
    assert_false(slurm_default_read("bed|ml|ann", "bed", &got));
    assert_false(slurm_default_read("|ml|ann||x", "", &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_qos_limits_all_accounts_and_users),
        cmocka_unit_test(a_user_with_a_name_is_known_by_its_number),
        cmocka_unit_test(a_qos_without_limits_limits_nothing),
        cmocka_unit_test(a_default_qos_is_that_of_its_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
