/* test_slurmtext.c - jobs, marks, ids and versions of Slurm are read; anything
 * else is refused.
 *
 * The texts are those of Slurm 22.05.8, with jobs of all kinds and names that
 * were meant to confuse.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "engine/slurmtext.h"
#include "lib/trials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct firn_bytes bytes(const char *text)
{
    return (struct firn_bytes){text, strlen(text)};
}

/* --- jobs ----------------------------------------------------------------- */

static const char queue[] =
    "8|PENDING|PartitionDown||ann|(null)|parked\n"
    "1|CANCELLED|None|n1|ann|firn:7:3:1|firn:7:3:1\n"
    "6|COMPLETED|None|n1|ann||done\n"
    "7|FAILED|NonZeroExitCode|n1|ann|(null)|bad\n"
    "2|PENDING|BeginTime||ann|x|y\tz\033[1m|evil|na me\n"
    "11+1|PENDING|Resources|n2|ann|firn:7:4:2|firn:7:4:2\n"
    "11+0|RUNNING|None|n1|ann|firn:7:4:2|firn:7:4:2\n"
    "11+2|PENDING|ReqNodeNotAvail, UnavailableNodes:n[2-3]|n[2-3],m-1.x|"
    "ann|firn:7:4:2|firn:7:4:2\n"
    "5|PENDING|JobHeldUser||ann|(null)|held\n"
    "4_0|RUNNING|None|n1|ann|firn:7:9:1|firn:7:9:1\n"
    "4_12|COMPLETING|None|n1|ben|(null)|arr\n";

static void jobs_of_all_kinds_are_read(void **state)
{
    (void)state;
    struct slurm_jobs jobs;
    struct firn_error err;
    assert_int_equal(slurm_jobs_read(&jobs, bytes(queue), &err), FIRN_OK);
    assert_int_equal(jobs.at.n, 11);
    static const int64_t ids[] = {1, 2, 4, 4, 5, 6, 7, 8, 11, 11, 11};
    for (size_t i = 0; i < jobs.at.n; i++)
        assert_int_equal(jobs.at.at[i].id, ids[i]);
    const struct slurm_job *first = &jobs.at.at[0], *het = &jobs.at.at[8];
    assert_true(first->is_ours && first->tag.cell == 7 && first->tag.job == 3 &&
                first->tag.attempt == 1);
    assert_int_equal(first->component, -1);
    assert_int_equal(first->state, SLURM_CANCELLED);
    assert_string_equal(first->nodes, "n1");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(het[i].component, i);
        assert_true(het[i].is_ours && het[i].tag.job == 4);
    }
    assert_string_equal(het[2].reason,
                        "ReqNodeNotAvail, UnavailableNodes:n[2-3]");
    assert_string_equal(het[2].nodes, "n[2-3],m-1.x");
    for (size_t i = 1; i < 8; i++)
        assert_false(jobs.at.at[i].is_ours);
    slurm_jobs_release(&jobs);
}

static void times_stand_behind_the_user(void **state)
{
    (void)state;
    static const struct {
        const char *line, *user;
        double began_s, ended_s;
    } cases[] = {
        {"1|COMPLETED|None|n1|ann 1794949170 1794949177|a|b\n", "ann",
         1794949170, 1794949177},
        {"1|CANCELLED|x|n1|ann 1794949199 1794949199|a|b\n", "ann", 1794949199,
         1794949199},
        {"1|RUNNING|None|n1|ann 1794949199 NONE|a|b\n", "ann", 1794949199, 0},
        {"1|PENDING|None||ann N/A N/A|a|b\n", "ann", 0, 0},
        {"1|PENDING|None||ann lee N/A N/A|a|b\n", "ann lee", 0, 0},
        {"1|PENDING|None||ann|a|b\n", "ann", 0, 0},
        {"1|PENDING|None||ann 99999999999999999999 -5|a|b\n", "ann", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_jobs jobs;
        struct firn_error err;
        assert_int_equal(slurm_jobs_read(&jobs, bytes(cases[i].line), &err),
                         FIRN_OK);
        assert_int_equal(jobs.at.n, 1);
        assert_string_equal(jobs.at.at[0].user, cases[i].user);
        assert_true(jobs.at.at[0].began_s == cases[i].began_s);
        assert_true(jobs.at.at[0].ended_s == cases[i].ended_s);
        slurm_jobs_release(&jobs);
    }
}

static void no_jobs_are_no_error(void **state)
{
    (void)state;
    struct slurm_jobs jobs;
    struct firn_error err;
    assert_int_equal(slurm_jobs_read(&jobs, bytes(""), &err), FIRN_OK);
    assert_int_equal(jobs.at.n, 0);
    slurm_jobs_release(&jobs);
}

static bool is_ours(const char *comment_and_name)
{
    struct slurm_jobs jobs;
    struct firn_error err;
    char line[256];
    snprintf(line, sizeof line, "9|RUNNING|None|n1|ann|%s\n", comment_and_name);
    assert_int_equal(slurm_jobs_read(&jobs, bytes(line), &err), FIRN_OK);
    bool is = jobs.at.at[0].is_ours;
    assert_true(!is ||
                (jobs.at.at[0].tag.cell == 7 && jobs.at.at[0].tag.job == 3));
    slurm_jobs_release(&jobs);
    return is;
}

static void a_job_is_ours_by_comment_or_name_if_they_agree(void **state)
{
    (void)state;
    assert_true(is_ours("firn:7:3:1|firn:7:3:1"));
    assert_true(is_ours("firn:7:3:1|x"));
    assert_true(is_ours("(null)|firn:7:3:1"));
    assert_true(is_ours("|firn:7:3:1"));
    assert_false(is_ours("firn:7:3:1|firn:7:3:2"));
    assert_false(is_ours("firn:7:3:1|a|firn:7:3:1"));
    assert_false(is_ours("firn:7:3:1|firn:7:3:1|"));
    assert_false(is_ours("|"));
    assert_false(is_ours("(null)|wrap"));
    assert_false(is_ours("firn:7:3:1 |firn:7:3"));
}

/* The error of a line that is no job, or "". */
static const char *job_error(struct firn_bytes text)
{
    static struct firn_error err;
    struct slurm_jobs jobs;
    enum firn_status status = slurm_jobs_read(&jobs, text, &err);
    assert_true(status == FIRN_OK || status == FIRN_EINVAL);
    assert_true(status == FIRN_OK || jobs.at.n == 0);
    slurm_jobs_release(&jobs);
    return status == FIRN_OK ? "" : err.text;
}

static void an_invalid_line_is_quoted_with_escapes(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "line\n",
        "\n",
        "9|RUNNING|None|n1|ann|name\n",
        "0|RUNNING|None|n1|ann||\n",
        "x|RUNNING|None|n1|ann||\n",
        "9+|RUNNING|None|n1|ann||\n",
        "9_|RUNNING|None|n1|ann||\n",
        "9_[1-4]|PENDING|None||ann||\n",
        "9+1+2|RUNNING|None|n1|ann||\n",
        "-9|RUNNING|None|n1|ann||\n",
        "99999999999|RUNNING|None|n1|ann||\n",
        "9|running|None|n1|ann||\n",
        "9|SLEEPING|None|n1|ann||\n",
        "9||None|n1|ann||\n",
        "9|RUNNING|a\tb|n1|ann||\n",
        "9|RUNNING|None|n 1|ann||\n",
        "9|RUNNING|None|n1|ann||",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(strncmp(job_error(bytes(odd[i])), "squeue: ", 8), 0);
    assert_string_equal(job_error(bytes("9|RUNNING|None|n1|ann||\n")), "");
    assert_non_null(
        strstr(job_error(bytes("2nd\033[1m|\377\n")), ": '2nd\\x1b[1m|\\xff'"));
    const char cut[] = "9|RUNNING|None|n1\0||\n";
    assert_non_null(
        strstr(job_error((struct firn_bytes){cut, sizeof cut - 1}), "\\x00"));
}

static void a_prefix_of_a_queue_is_refused_unless_lines_are_whole(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof queue; n++) {
        bool is_whole = n == 0 || queue[n - 1] == '\n' || n == sizeof queue - 1;
        struct firn_bytes part = {queue, n};
        assert_int_equal(job_error(part)[0] == '\0', is_whole);
    }
}

static void states_are_known_by_their_whole_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum slurm_state state;
        bool is_over;
    } cases[] = {
        {"PENDING", SLURM_PENDING, false},
        {"CONFIGURING", SLURM_BOOTING, false},
        {"REQUEUE_HOLD", SLURM_PENDING, false},
        {"RUNNING", SLURM_RUNNING, false},
        {"SUSPENDED", SLURM_SUSPENDED, false},
        {"COMPLETING", SLURM_COMPLETING, false},
        {"COMPLETED", SLURM_COMPLETED, true},
        {"FAILED", SLURM_FAILED, true},
        {"CANCELLED", SLURM_CANCELLED, true},
        {"DEADLINE", SLURM_TIMEOUT, true},
        {"OUT_OF_MEMORY", SLURM_MEMORY, true},
        {"NODE_FAIL", SLURM_LOST, true},
        {"PREEMPTED", SLURM_LOST, true},
    };
    enum slurm_state got;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].name);
        assert_true(slurm_state_named(cases[i].name, n, &got));
        assert_int_equal(got, cases[i].state);
        assert_int_equal(slurm_state_is_over(got), cases[i].is_over);
        assert_false(slurm_state_named(cases[i].name, n - 1, &got));
    }
    assert_false(slurm_state_named("", 0, &got));
}

static void only_a_printed_tag_reads_as_a_tag(void **state)
{
    (void)state;
    static const struct slurm_tag cases[] = {
        {7, 3, 1}, {UINT64_MAX, INT64_MAX, INT64_MAX}, {0, 0, 0}};
    struct slurm_tag got;
    char text[SLURM_TAG_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slurm_tag_print(&cases[i], text);
        assert_true(slurm_tag_read(text, strlen(text), &got));
        assert_true(got.cell == cases[i].cell && got.job == cases[i].job &&
                    got.attempt == cases[i].attempt);
    }
    static const char *const odd[] = {"",
                                      "firn",
                                      "firn:7:3",
                                      "firn:7:3:",
                                      "firn:7:3:1 ",
                                      " firn:7:3:1",
                                      "firn:7:3:01",
                                      "firn:+7:3:1",
                                      "firn:7:-3:1",
                                      "Firn:7:3:1",
                                      "firn:7:3:1:1",
                                      "firn::3:1",
                                      "firn:18446744073709551616:3:1",
                                      "firn:7:9223372036854775808:1"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_false(slurm_tag_read(odd[i], strlen(odd[i]), &got));
}

static void an_id_is_one_number_on_one_line(void **state)
{
    (void)state;
    int64_t id = -1;
    struct firn_error err;
    assert_int_equal(slurm_id_read(bytes("123\n"), &id, &err), FIRN_OK);
    assert_int_equal(id, 123);
    assert_int_equal(slurm_id_read(bytes("4;mini\n"), &id, &err), FIRN_OK);
    assert_int_equal(id, 4);
    static const char *const odd[] = {
        "",       "123",      "\n",     "0\n",
        "1\n2\n", "1 \n",     "x\n",    ";mini\n",
        "-1\n",   "1;a\tb\n", "12.5\n", "Submitted batch job 4\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(slurm_id_read(bytes(odd[i]), &id, &err), FIRN_EINVAL);
        assert_int_equal(id, 4);
    }
}

static void versions_from_22_05_on_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int version; /* 0: refused */
    } cases[] = {
        {"slurm 22.05.8\n", 2205},
        {"slurm-wlm 22.05.8\n", 2205},
        {"slurm 24.11\n", 2411},
        {"slurm 25.05.0-0rc1\n", 2505},
        {"slurm 21.08.8\n", 0},
        {"slurm 22.5.8\n", 0},
        {"slurm 22.05.8", 0},
        {"sbatch: 22.05.8\n", 0},
        {"slurm\n", 0},
        {"slurm x.05\n", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int version = 0;
        struct firn_error err;
        enum firn_status status =
            slurm_version_read(bytes(cases[i].text), &version, &err);
        assert_int_equal(version, cases[i].version);
        assert_int_equal(status,
                         cases[i].version > 0 ? FIRN_OK : FIRN_EREFUSED);
    }
}

static void an_excerpt_is_printable_and_cut(void **state)
{
    (void)state;
    char out[SLURM_EXCERPT], many[1000];
    assert_string_equal(slurm_excerpt(bytes("a\tb"), out), "a\\x09b");
    assert_string_equal(slurm_excerpt((struct firn_bytes){NULL, 0}, out), "");
    memset(many, '\n', sizeof many);
    slurm_excerpt((struct firn_bytes){many, sizeof many}, out);
    assert_true(strlen(out) < SLURM_EXCERPT && strlen(out) > 100);
    assert_string_equal(out + strlen(out) - 3, "...");
}

/* A text with some bytes changed is read, or refused with a sentence. */
static void a_damaged_queue_causes_no_crash(void **state)
{
    (void)state;
    static const char marks[] = "|:,()+_- \n\t=\001aZ0";
    struct rng rng;
    rng_seed(&rng, 20261115);
    for (int trial = 0; trial < trials(1000); trial++) {
        struct firn_buf text = {0};
        buf_puts(&text, queue);
        for (int i = 0; i < 3; i++)
            text.at[rng_below(&rng, text.n)] =
                marks[rng_below(&rng, sizeof marks - 1)];
        for (const char *at = job_error(bytes(text.at)); *at != 0; at++)
            assert_true(*at >= ' ' && *at <= '~');
        buf_release(&text);
    }
}

static void a_further_allocation_has_a_tag_of_its_own(void **state)
{
    (void)state;
    struct slurm_tag tag = {7, 4, 2}, again;
    int64_t pilot = 0;
    char mark[SLURM_TAG_MAX];
    slurm_pilot_print(&tag, 3, mark);
    assert_string_equal(mark, "firn:7:4:2:3");
    assert_false(slurm_tag_read(mark, strlen(mark), &again));
    assert_true(slurm_pilot_read(mark, strlen(mark), &again, &pilot));
    assert_true(again.cell == 7 && again.job == 4 && again.attempt == 2 &&
                pilot == 3);
    static const char *const bad[] = {
        "firn:7:4:2",  "firn:7:4:2:0",  "firn:7:4:2:03",
        "firn:7:4:2:", "firn:7:4:2:3x", "firn:7:4:2:3:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(slurm_pilot_read(bad[i], strlen(bad[i]), &again, &pilot));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_of_all_kinds_are_read),
        cmocka_unit_test(times_stand_behind_the_user),
        cmocka_unit_test(no_jobs_are_no_error),
        cmocka_unit_test(a_job_is_ours_by_comment_or_name_if_they_agree),
        cmocka_unit_test(an_invalid_line_is_quoted_with_escapes),
        cmocka_unit_test(a_prefix_of_a_queue_is_refused_unless_lines_are_whole),
        cmocka_unit_test(states_are_known_by_their_whole_name),
        cmocka_unit_test(only_a_printed_tag_reads_as_a_tag),
        cmocka_unit_test(an_id_is_one_number_on_one_line),
        cmocka_unit_test(versions_from_22_05_on_are_taken),
        cmocka_unit_test(an_excerpt_is_printable_and_cut),
        cmocka_unit_test(a_damaged_queue_causes_no_crash),
        cmocka_unit_test(a_further_allocation_has_a_tag_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
