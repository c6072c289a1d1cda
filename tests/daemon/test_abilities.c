/* test_abilities.c - implied by the job file, declared there, or reported. */
#include "daemon/abilities.h"
#include "daemon/jobfile.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct live_ask read_ask(const char *lines)
{
    struct live_ask ask = {0};
    struct firn_error err = {0};
    char text[512] = "run: [true]\n";
    strcat(text, lines);
    struct firn_bytes bytes = {text, strlen(text)};
    if (jobfile_read(&ask, bytes, "job", &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return ask;
}

static void expect(const char *lines, const char *words)
{
    struct live_ask ask = read_ask(lines);
    struct firn_job_spec spec;
    char text[FIRN_CAN_TEXT];
    firn_can_write(text, abilities_asked(&ask));
    if (strcmp(text, words) != 0)
        fail_msg("'%s' implies %s, not %s", lines, text, words);
    jobfile_spec(&ask, 0, &spec);
    assert_int_equal(spec.cannot, FIRN_CAN_ALL & ~abilities_asked(&ask));
    live_ask_release(&ask);
}

static void keys_imply_abilities(void **state)
{
    (void)state;
    expect("", "none");
    expect("gpus: 4\ncheckpoint: {grace: 5}\n", "none");
    expect("gpus: 1..4\n", "resize");
    expect("gpus: 1..4\nelastic: {threads: 4}\n", "resize,passes");
    expect("freeze: {rule: penalty}\n", "freeze");
    expect("freeze: {rule: off}\n", "none");
    expect("batch: 32\n", "none");
    expect("batch: 32\nbatch-rule: linear\n", "batch");
    expect("finetune: {base: b, dataset: d, sharing: allowed}\n",
           "partner,after");
    expect("finetune: {base: b, dataset: d}\n", "none");
    expect("model: {name: gpt2, seq: 512}\nbatch: 8\n",
           "passes,tensor,sharded");
}

static void can_replaces_what_is_implied(void **state)
{
    (void)state;
    expect("can: none\ngpus: 1..4\nelastic: {threads: 4}\n", "none");
    expect("can: [passes, batch]\n", "passes,batch");
    expect("can: pipeline\ngpus: 1..4\n", "pipeline");
}

/* "ahead" was in the docs and in reports, and refused in job files. */
static void a_job_file_may_declare_every_ability(void **state)
{
    (void)state;
    for (unsigned can = 1; can <= FIRN_CAN_ALL; can <<= 1) {
        char line[64];
        snprintf(line, sizeof line, "can: [%s]\n", firn_can_name(can));
        expect(line, firn_can_name(can));
    }
}

/* A report goes before what is implied, and stays within what is declared. */
static void a_report_holds_within_what_is_declared(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        int reported;
        const char *can, *from;
    } cases[] = {
        {"gpus: 1..4\n", -1, "resize", "implied"},
        {"gpus: 1..4\n", FIRN_CAN_PASSES, "passes", "reported"},
        {"gpus: 1..4\n", 0, "none", "reported"},
        {"can: [resize, passes]\n", -1, "resize,passes", "declared"},
        {"can: [resize, passes]\n", FIRN_CAN_PASSES | FIRN_CAN_FREEZE, "passes",
         "reported"},
        {"can: none\n", FIRN_CAN_ALL, "none", "reported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_job job = {.ask = read_ask(cases[i].lines),
                               .last = firn_trainer_report_unknown(),
                               .reported_s = 1};
        enum abilities_from from;
        char text[FIRN_CAN_TEXT];
        job.last.can = cases[i].reported;
        firn_can_write(text, abilities_of(&job, &from));
        assert_string_equal(text, cases[i].can);
        assert_string_equal(abilities_from_name(from), cases[i].from);
        live_ask_release(&job.ask);
    }
}

static void wrong_lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        {"can: [fly]\n", "one of resize|passes|"},
        {"can: [none, passes]\n", "not both"},
        {"can: [passes, passes]\n", "each word once"},
        {"can: {resize: yes}\n", "one of resize|passes|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_ask ask = {0};
        struct firn_error err = {0};
        char text[256] = "run: [true]\n";
        strcat(text, cases[i].line);
        struct firn_bytes bytes = {text, strlen(text)};
        assert_int_equal(jobfile_read(&ask, bytes, "job", &err), FIRN_EINVAL);
        if (strstr(err.text, cases[i].sentence) == NULL)
            fail_msg("%s: %s", cases[i].line, err.text);
        live_ask_release(&ask);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_imply_abilities),
        cmocka_unit_test(can_replaces_what_is_implied),
        cmocka_unit_test(a_job_file_may_declare_every_ability),
        cmocka_unit_test(a_report_holds_within_what_is_declared),
        cmocka_unit_test(wrong_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
