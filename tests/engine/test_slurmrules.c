/* test_slurmrules.c - reservations, associations and lists of nodes, as Slurm
 * 22.05 prints them; what is not understood limits nothing.
 */
#include "engine/slurmrules.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_reservation_has_times_and_nodes(void **state)
{
    (void)state;
    struct slurm_booking got;
    assert_true(slurm_booking_read(
        "ReservationName=fans StartTime=1794941413 EndTime=1794945013 "
        "Duration=01:00:00 Nodes=n[0-3],m1 NodeCnt=5 Flags=MAINT,SPEC_NODES "
        "Users=root State=INACTIVE",
        &got));
    assert_string_equal(got.name, "fans");
    assert_string_equal(got.nodes, "n[0-3],m1");
    assert_true(got.start_s == 1794941413 && got.end_s == 1794945013);
    assert_false(got.is_automatic);
    assert_true(slurm_booking_read("ReservationName=x StartTime=5 EndTime=9 "
                                   "Nodes=n1 Flags=MAGNETIC",
                                   &got));
    assert_true(got.is_automatic);
    assert_false(slurm_booking_read("No reservations in the system", &got));
    assert_false(slurm_booking_read("ReservationName=x StartTime=Unknown "
                                    "EndTime=9 Nodes=n1",
                                    &got));
}

static const char of_account[] =
    "ClusterName=bed Account=ml UserName= Partition= Priority=0 ID=3 "
    "UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount=root(1) Lft=2 "
    "DefAssoc=No "
    "GrpJobs=N(0) GrpTRES=cpu=N(0),mem=N(0),gres/gpu:a100=1(0),gres/gpu=4(3) "
    "GrpTRESMins=cpu=N(0),gres/gpu=9(0) MaxJobs= MaxWallPJ= MaxTRESPJ= "
    "MaxTRESPN=";
static const char of_user[] =
    "ClusterName=bed Account=ml UserName=games(5) Partition= ID=5 "
    "ParentAccount= DefAssoc=Yes GrpTRES=cpu=N(0),gres/gpu=N(0) MaxJobs=2(1) "
    "MaxTRESPJ=cpu=8,gres/gpu=3 MaxTRESPN=";

static void an_association_has_limits_and_what_is_used(void **state)
{
    (void)state;
    struct slurm_assoc got;
    assert_true(slurm_assoc_read(of_account, &got));
    assert_string_equal(got.account, "ml");
    assert_string_equal(got.parent, "root");
    assert_string_equal(got.user, "");
    assert_int_equal(got.gpus_all, 4);
    assert_int_equal(got.gpus_used, 3);
    assert_int_equal(got.gpus_each, -1);
    assert_int_equal(got.jobs_all, -1);
    struct slurm_assoc other = got;
    assert_true(slurm_assoc_equal(&got, &other));
    other.jobs_used++;
    assert_false(slurm_assoc_equal(&got, &other));
    assert_true(slurm_assoc_read(of_user, &got));
    assert_string_equal(got.user, "games");
    assert_true(got.is_default);
    assert_int_equal(got.gpus_all, -1);
    assert_int_equal(got.gpus_each, 3);
    assert_int_equal(got.jobs_all, 2);
    assert_int_equal(got.jobs_used, 1);
    assert_false(slurm_assoc_read("Current Association Manager state", &got));
    assert_false(slurm_assoc_read("", &got));
}

static void a_list_has_its_nodes_and_no_others(void **state)
{
    (void)state;
    static const char list[] = "a,n[0-3,7,10-12],m[08-11]x,gpu-[1-2]";
    static const char *const in[] = {"a",   "n0",   "n3",   "n7",
                                     "n12", "m08x", "m11x", "gpu-1"};
    static const char *const out[] = {"",    "b",    "n4",  "n13",   "n00", "n",
                                      "m8x", "m12x", "m08", "gpu-3", "n0x"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (!slurm_hosts_have(list, in[i]))
            fail_msg("%s is not in %s", in[i], list);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        if (slurm_hosts_have(list, out[i]))
            fail_msg("%s is in %s", out[i], list);
    static const char *const odd[] = {"n[", "n[]", "n[1-",  "n[x]",
                                      "[",  ",,",  "n[1-]", "n[-1]"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(slurm_hosts_have(odd[i], "n1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_has_times_and_nodes),
        cmocka_unit_test(an_association_has_limits_and_what_is_used),
        cmocka_unit_test(a_list_has_its_nodes_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
