/* test_launchfile.c - what is written is read back; anything else is refused.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "engine/launchfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static struct firn_buf sample(void)
{
    struct launchfile file = {.job = 12,
                              .attempt = 1000000,
                              .workdir = "/a b",
                              .log = "/log\n",
                              .grace_s = 0.1,
                              .can_checkpoint = true,
                              .cgroup = 2};
    struct firn_buf text = {0};
    vec_add(&file.argv, "prog");
    vec_add(&file.argv, "");
    vec_add(&file.argv, "end 0\n\n");
    vec_add(&file.common, "A=1");
    launchfile_add_worker(&file);
    launchfile_add_own(&file, "RANK=0");
    launchfile_add_own(&file, "X=");
    launchfile_add_worker(&file);
    launchfile_add_own(&file, "RANK=1");
    vec_add(&file.env, "B==\n");
    launchfile_write(&file, &text);
    launchfile_release(&file);
    return text;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct firn_buf text = sample();
    struct firn_error err;
    struct launchfile f;
    assert_int_equal(
        launchfile_read(&f, (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    assert_int_equal(f.job, 12);
    assert_int_equal(f.attempt, 1000000);
    assert_string_equal(f.workdir, "/a b");
    assert_string_equal(f.log, "/log\n");
    assert_true(f.grace_s == 0.1 && f.can_checkpoint && f.cgroup == 2);
    assert_int_equal(f.argv.n, 3);
    assert_string_equal(f.argv.at[1], "");
    assert_string_equal(f.argv.at[2], "end 0\n\n");
    assert_int_equal(f.workers.n, 2);
    assert_int_equal(f.workers.at[0].n, 2);
    assert_int_equal(f.workers.at[1].first, 2);
    assert_string_equal(f.own.at[2], "RANK=1");
    assert_string_equal(f.env.at[0], "B==\n");
    struct firn_buf again = {0};
    launchfile_write(&f, &again);
    assert_string_equal(again.at, text.at);
    buf_release(&again);
    buf_release(&text);
    launchfile_release(&f);
}

static bool reads(const char *at, size_t n)
{
    struct launchfile f;
    struct firn_error err;
    bool is_good =
        launchfile_read(&f, (struct firn_bytes){at, n}, &err) == FIRN_OK;
    launchfile_release(&f);
    return is_good;
}

static void a_part_of_a_file_is_refused(void **state)
{
    (void)state;
    struct firn_buf text = sample();
    for (size_t n = 0; n < text.n; n++)
        assert_false(reads(text.at, n));
    assert_true(reads(text.at, text.n));
    buf_putc(&text, '\n');
    assert_false(reads(text.at, text.n));
    buf_release(&text);
}

/* The sample with `from` replaced by `to`. */
static bool reads_with(const char *from, const char *to)
{
    struct firn_buf text = sample(), other = {0};
    const char *at = strstr(text.at, from);
    assert_non_null(at);
    buf_add(&other, text.at, (size_t)(at - text.at));
    buf_puts(&other, to);
    buf_puts(&other, at + strlen(from));
    bool is_good = reads(other.at, other.n);
    buf_release(&text);
    buf_release(&other);
    return is_good;
}

static void wrong_fields_are_refused(void **state)
{
    (void)state;
    assert_true(reads_with("job 2\n12\n", "job 2\n13\n"));
    static const char *const wrong[][2] = {
        {"firn-launch 1\n", "firn-launch 2\n"},
        {"job 2\n12\n", "job 2\n-1\n"},
        {"job 2\n12\n", ""},
        {"job 2\n12\n", "job 2\n12\njob 2\n12\n"},
        {"job 2\n12\n", "jobs 2\n12\n"},
        {"job 2\n12\n", "job 3\n12\n"},
        {"job 2\n12\n", "job 99999999999999999999\n12\n"},
        {"job 2\n12\n", "job -2\n12\n"},
        {"epoch 7\n1000000\n", "epoch 1\n0\n"},
        {"grace 3\n0.1\n", "grace 3\nnan\n"},
        {"grace 3\n0.1\n", "grace 2\n-1\n"},
        {"checkpoints 1\n1\n", "checkpoints 1\n2\n"},
        {"cage 1\n2\n", "cage 1\n3\n"},
        {"common 3\nA=1\n", "common 2\nA1\n"},
        {"common 3\nA=1\n", "common 2\n=1\n"},
        {"common 3\nA=1\n", "own 3\nA=1\n"}, /* of no worker yet */
        {"worker 0\n\n", "worker 1\nx\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (reads_with(wrong[i][0], wrong[i][1]))
            fail_msg("accepted: %s", wrong[i][1]);
}

static void a_nul_byte_is_refused(void **state)
{
    (void)state;
    struct firn_buf text = sample();
    *strstr(text.at, "prog") = '\0';
    assert_false(reads(text.at, text.n));
    buf_release(&text);
}

/* Nothing that a broken disk makes of it can hurt. */
static void random_damage_is_read_or_refused(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 2000; i++) {
        struct firn_buf text = sample();
        size_t at = (size_t)rng_below(&rng, text.n);
        text.at[at] = (char)rng_below(&rng, 256);
        reads(text.at, text.n);
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_part_of_a_file_is_refused),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(random_damage_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
