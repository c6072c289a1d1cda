/* test_slurmticket.c - jobs of others as squeue prints them, friendly or not.
 */
#include "base/buf.h"
#include "engine/slurmticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { MARK = 0xbeef };

/* Fields with '@' between them become a record with marks. */
static void record(struct firn_buf *out, const char *plain)
{
    for (const char *at = plain; *at != '\0'; at++)
        if (*at == '@')
            buf_puts(out, "|beef|");
        else
            buf_putc(out, *at);
    buf_puts(out, "|beef;\n");
}

static struct slurm_tickets read_one(const char *plain)
{
    struct firn_buf text = {0};
    struct slurm_tickets tickets;
    struct firn_error err = {0};
    record(&text, plain);
    if (slurm_tickets_read(&tickets, (struct firn_bytes){text.at, text.n}, MARK,
                           "inbox", &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(tickets.at.n, 1);
    buf_release(&text);
    return tickets;
}

static void the_format_has_the_mark_between_all_fields(void **state)
{
    (void)state;
    struct firn_buf out = {0};
    slurm_ticket_format(MARK, &out);
    assert_int_equal(strncmp(out.at, "JobArrayID:|beef|,RestartCnt:|beef|", 35),
                     0);
    assert_string_equal(out.at + out.n - 11, "Name:|beef;");
    buf_release(&out);
}

static void a_plain_request_is_understood(void **state)
{
    (void)state;
    struct slurm_tickets t = read_one(
        "17@2@N/A@PENDING@inbox@1700000000@1-02:03:04@2@2@N/A@gres:gpu:"
        "a100:4@N/A@N/A@PartitionDown@ib@ml@ann@train");
    const struct slurm_ticket *job = &t.at.at[0];
    assert_string_equal(job->key, "17-1700000000");
    assert_string_equal(job->why, "");
    assert_int_equal(job->nrestarts, 2);
    assert_int_equal(job->state, SLURM_PENDING);
    assert_true(job->is_inside && job->is_ready);
    assert_int_equal(job->nnodes, 2);
    assert_int_equal(job->gpus, 8);
    assert_string_equal(job->type, "a100");
    assert_true(job->limit_s == 86400 + 2 * 3600 + 3 * 60 + 4);
    assert_true(job->submit_s == 1700000000);
    assert_string_equal(job->user, "ann");
    assert_string_equal(job->name, "train");
    slurm_tickets_release(&t);
}

static void every_form_of_a_gpu_request_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *asks;
        int gpus;
        const char *why;
    } cases[] = {
        {"1@1@gres:gpu:3@N/A@N/A@N/A", 3, ""},
        {"1@4@N/A@N/A@gres:gpu:1@N/A", 4, ""},
        {"3@1@N/A@gres:gpu@N/A@N/A", 3, ""},
        {"1@1@N/A@gres/gpu:v100:2@N/A@", 2, ""},
        {"1@1@N/A@N/A@N/A@N/A", 0, "no GPUs"},
        {"1@1@N/A@gres:shard:1@N/A@N/A", 0, "more than GPUs"},
        {"1@1@N/A@gres:gpu:1,gres:x:1@N/A@N/A", 0, "more than GPUs"},
        {"1@1@gres:gpu:1@gres:gpu:1@N/A@N/A", 0, "two ways"},
        {"1@1@N/A@gres:gpu:1@N/A@gres:gpu:1", 0, "per socket"},
        {"1@4294967294@N/A@N/A@gres:gpu:1@N/A", 0, "out of range"},
        {"x@1@N/A@gres:gpu:1@N/A@N/A", 0, "a number of nodes"},
        {"60000@1@N/A@gres:gpu:60000@N/A@N/A", 0, "out of range"},
        {"1@1@N/A@gres:gpu:a:b:1@N/A@N/A", 0, "more than GPUs"},
        {"1@1@N/A@gres/gpu:2@cpu=8@N/A", 2, ""}, /* 23.11 and newer */
        {"1@1@N/A@gres/gpu:2@cpu:8@N/A", 2, ""},
        {"1@3@N/A@N/A@cpu=7,gres/gpu=1@N/A", 3, ""},
        {"1@3@N/A@N/A@gres/gpu:a100=2@N/A", 6, ""},
        {"1@1@N/A@N/A@cpu=8@N/A", 0, "no GPUs"},
        {"1@1@N/A@N/A@cpu=,gres/gpu=1@N/A", 0, "more than GPUs"},
        {"1@1@N/A@N/A@cpu=1,license/x=1@N/A", 0, "more than GPUs"},
        {"1@1@N/A@N/A@gres/gpu=1,gres/x=1@N/A", 0, "more than GPUs"},
        {"1@1@N/A@gres/gpu:2@gres/gpu=1@N/A", 0, "two ways"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[300];
        snprintf(
            line, sizeof line,
            "1@0@N/A@PENDING@inbox@1700000000@UNLIMITED@%s@None@N/A@N/A@u@n",
            cases[i].asks);
        struct slurm_tickets t = read_one(line);
        if (cases[i].why[0] == '\0') {
            assert_string_equal(t.at.at[0].why, "");
            assert_int_equal(t.at.at[0].gpus, cases[i].gpus);
        } else if (strstr(t.at.at[0].why, cases[i].why) == NULL) {
            fail_msg("%s: '%s'", cases[i].asks, t.at.at[0].why);
        }
        slurm_tickets_release(&t);
    }
}

static void times_ids_and_reasons_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *id, *het, *limit, *reason, *key, *why;
        double limit_s;
        bool is_ready;
    } cases[] = {
        {"7_3", "N/A", "10:00", "Priority", "7.3-5", "", 600, true},
        {"7", "0", "1:00:00", "JobHeldUser", "7-5", "", 3600, false},
        {"7", "N/A", "UNLIMITED", "Dependency", "7-5", "", 0, false},
        {"7", "N/A", "UNLIMITED", "BeginTime", "7-5", "", 0, false},
        {"7+1", "7", "10:00", "None", "7+1-5", "part of a job", 600, true},
        {"7_[1-3]", "N/A", "10:00", "None", "7.[1-3]-5", "part", 600, true},
        {"7", "N/A", "INVALID", "None", "7-5", "unreadable", 0, true},
        {"7_4", "N/A", "10:00", "JobArrayTaskLimit", "7.4-5", "", 600, false},
        {"7", "N/A", "1:2:3:4", "None", "7-5", "unreadable", 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[300];
        snprintf(line, sizeof line,
                 "%s@0@%s@RUNNING@main@5@%s@1@1@gres:gpu:1@N/A@N/A@N/A@%s@N/"
                 "A@N/A@u@n",
                 cases[i].id, cases[i].het, cases[i].limit, cases[i].reason);
        struct slurm_tickets t = read_one(line);
        assert_string_equal(t.at.at[0].key, cases[i].key);
        assert_true(t.at.at[0].limit_s == cases[i].limit_s);
        assert_int_equal(t.at.at[0].is_ready, cases[i].is_ready);
        assert_false(t.at.at[0].is_inside);
        assert_int_equal(t.at.at[0].why[0] == '\0', cases[i].why[0] == '\0');
        assert_non_null(strstr(t.at.at[0].why, cases[i].why));
        slurm_tickets_release(&t);
    }
}

static void a_job_name_cannot_forge_a_record(void **state)
{
    (void)state;
    struct slurm_tickets t =
        read_one("1@0@N/A@PENDING@inbox@5@10:00@1@1@gres:gpu:1@N/A@N/A@N/"
                 "A@None@N/A@N/A@u@x|dead;\n"
                 "99|dead|N/A|dead|PENDING|dead|inbox\x1b[2J");
    assert_int_equal(t.at.at[0].number, 1);
    assert_non_null(strstr(t.at.at[0].name, "\n99|dead|"));
    slurm_tickets_release(&t);
}

static void an_incomplete_record_is_an_error_with_an_excerpt(void **state)
{
    (void)state;
    static const char good[] = "1@0@N/A@PENDING@inbox@5@10:00@1@1@gres:gpu:1@N/"
                               "A@N/A@N/A@None@N/A@N/A@u@n";
    static const char *const bad[] = {
        "1@0@N/A@PENDING",
        "1@0@N/A@WAITING@inbox@5@10:00@1@1@gres:gpu:1@N/A@N/A@N/A@None@N/A@N/"
        "A@u@n",
        "1@0@N/A@PENDING@inbox@2026-11-15T22:00:00@10:00@1@1@gres:gpu:1@N/A@N/"
        "A@"
        "N/A@None@N/A@N/A@u@n",
        "squeue: error",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct firn_buf text = {0};
        struct slurm_tickets tickets;
        struct firn_error err = {0};
        record(&text, good);
        record(&text, bad[i]);
        assert_int_equal(
            slurm_tickets_read(&tickets, (struct firn_bytes){text.at, text.n},
                               MARK, "inbox", &err),
            FIRN_EDATA);
        assert_non_null(strstr(err.text, "squeue printed '"));
        slurm_tickets_release(&tickets);
        buf_release(&text);
    }
    for (size_t n = 1; n < 60; n++) { /* cut anywhere */
        struct firn_buf text = {0};
        struct slurm_tickets tickets;
        record(&text, good);
        assert_int_equal(slurm_tickets_read(
                             &tickets, (struct firn_bytes){text.at, text.n - n},
                             MARK, "inbox", NULL),
                         FIRN_EDATA);
        slurm_tickets_release(&tickets);
        buf_release(&text);
    }
}

static void a_key_leads_back_to_its_job(void **state)
{
    (void)state;
    char id[SLURM_TICKET_ID];
    assert_true(slurm_key_id("17.3-1700000000", id));
    assert_string_equal(id, "17_3");
    assert_true(slurm_key_id("17-5", id));
    assert_string_equal(id, "17");
    assert_false(slurm_key_id("", id));
    assert_false(slurm_key_id("-5", id));
    assert_false(slurm_key_id("--all-5", id));
    assert_false(slurm_key_id("1;x-5", id));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_format_has_the_mark_between_all_fields),
        cmocka_unit_test(a_plain_request_is_understood),
        cmocka_unit_test(every_form_of_a_gpu_request_is_counted),
        cmocka_unit_test(times_ids_and_reasons_are_read),
        cmocka_unit_test(a_job_name_cannot_forge_a_record),
        cmocka_unit_test(an_incomplete_record_is_an_error_with_an_excerpt),
        cmocka_unit_test(a_key_leads_back_to_its_job),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
