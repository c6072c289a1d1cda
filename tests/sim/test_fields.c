/* test_fields.c - the tables of fields.h against the compiler's own layout. */
#include <firn/fields.h>
#include <firn/policy.h>
#include <firn/sim.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct firn_field *find(const char *of, const char *member)
{
    size_t n = 0, size = 0;
    const struct firn_field *fields = firn_struct_fields(of, &n, &size);
    assert_non_null(fields);
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, member) == 0)
            return &fields[i];
    fail_msg("%s has no member %s", of, member);
    return NULL;
}

static void expect(const char *of, const char *member, char kind, size_t offset,
                   size_t size)
{
    const struct firn_field *field = find(of, member);
    assert_int_equal(field->kind, kind);
    assert_int_equal(field->offset, offset);
    assert_int_equal(field->size, size);
}

static void members_of_each_kind_are_described(void **unused)
{
    (void)unused;
    expect("firn_job_spec", "gpus", 'i', offsetof(struct firn_job_spec, gpus),
           sizeof(int));
    expect("firn_job_spec", "name", 's', 0, sizeof(char *));
    expect("firn_job_spec", "may_share", 'b',
           offsetof(struct firn_job_spec, may_share), 1);
    expect("firn_job", "type_mask", 'u', offsetof(struct firn_job, type_mask),
           4);
    expect("firn_job", "note", 't', offsetof(struct firn_job, note), 64);
    expect("firn_job", "held", 'x', offsetof(struct firn_job, held),
           sizeof(struct firn_alloc));
    expect("firn_sim_result", "jobs", 'l',
           offsetof(struct firn_sim_result, jobs), sizeof(long));
    expect("firn_sim_options", "seed", 'L',
           offsetof(struct firn_sim_options, seed), 8);
    expect("firn_sim_options", "restart_s", 'd',
           offsetof(struct firn_sim_options, restart_s), 8);
    expect("firn_policy_def", "decide", 'x',
           offsetof(struct firn_policy_def, decide), sizeof(void *));
    expect("firn_bytes", "n", 'L', offsetof(struct firn_bytes, n), 8);
}

static void members_of_a_struct_are_in_order_and_within_it(void **unused)
{
    (void)unused;
    static const char *const all[] = {"firn_sim_noise", "firn_sim_options",
                                      "firn_job",       "firn_policy_def",
                                      "firn_bytes",     "firn_trace_options"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = 0, size = 0, end = 0;
        const struct firn_field *fields = firn_struct_fields(all[i], &n, &size);
        assert_non_null(fields);
        assert_true(n > 0);
        for (size_t k = 0; k < n; k++) {
            assert_true(fields[k].offset >= end);
            end = fields[k].offset + fields[k].size;
        }
        assert_true(end <= size);
    }
}

static void an_unknown_struct_has_no_table(void **unused)
{
    (void)unused;
    size_t n = 0, size = 0;
    assert_null(firn_struct_fields("firn_nothing", &n, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_each_kind_are_described),
        cmocka_unit_test(members_of_a_struct_are_in_order_and_within_it),
        cmocka_unit_test(an_unknown_struct_has_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
