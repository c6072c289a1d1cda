/* test_mergekey.c - which jobs need processes of their own, and why.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/jobfile.h"
#include "daemon/mergekey.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define TUNE "\nfinetune: {base: b, dataset: d, sharing: allowed}\n"

static struct live_job job_of(firn_job_id id, const char *lines)
{
    struct live_job job = {.id = id};
    struct firn_error err = {0};
    char text[600];
    snprintf(text, sizeof text, "%s\n" TUNE, lines);
    if (jobfile_read(&job.ask, (struct firn_bytes){text, strlen(text)}, "j",
                     &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return job;
}

/* What differs, "" for nothing; the keys say the same, both ways round. */
static const char *differs(const char *a, const char *b)
{
    static char said[200];
    struct live_job one = job_of(1, a), two = job_of(2, b);
    struct firn_buf x = {0}, y = {0}, text = {0}, back = {0};
    mergekey_text(&one.ask, one.id, &x);
    mergekey_text(&two.ask, two.id, &y);
    bool is_apart = mergekey_differs(&one, &two, &text);
    assert_int_equal(mergekey_differs(&two, &one, &back), is_apart);
    assert_int_equal(strcmp(x.at, y.at) != 0, is_apart);
    snprintf(said, sizeof said, "%s", is_apart ? text.at : "");
    assert_string_equal(is_apart ? back.at : "", said);
    buf_release(&x);
    buf_release(&y);
    buf_release(&text);
    buf_release(&back);
    live_ask_release(&one.ask);
    live_ask_release(&two.ask);
    return said;
}

#define RUN(words) "workdir: /w\nrun: " words
#define IN(more)   RUN("tune --text a") more

static void a_command_may_differ_behind_the_program(void **unused)
{
    (void)unused;
    static const char *const same[][2] = {
        {"tune --text a", "tune --text b --rate 3"},
        {"tune", "tune --text b"},
        {"tune a", "tune b"},
        {"tune --text a.py", "tune --text b.py"},
        {"python3 t.py --text a", "python3 t.py --text b c"},
        {"python3 -u t.py a", "python3 -u t.py b"},
        {"/usr/bin/python3.11 -m pack.tune a",
         "/usr/bin/python3.11 -m pack.tune b"},
        {"torchrun --nnodes 2 t.py a", "torchrun --nnodes 2 t.py b"},
        {"env A=1 tune a", "env A=1 tune a"},
    };
    static const char *const others[][2] = {
        {"tune --text a", "tune2 --text a"},
        {"tune --text a", "/bin/tune --text a"},
        {"python3 s.py a", "python3 t.py a"},
        {"python3 -u s.py a", "python3 -u t.py a"},
        {"python3 -u t.py a", "python3 t.py a"},
        {"python3 -m s a", "python3 -m t a"},
        {"sh -c one", "sh -c two"},
        {"wrap s.py a", "wrap t.py a"},
        {"python3 s a", "python3 t a"},
        {"env A=1 tune", "env A=2 tune"},
        {"nice tune a", "nice tune b"},
    };
    char a[200], b[200];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        snprintf(a, sizeof a, RUN("%s"), same[i][0]);
        snprintf(b, sizeof b, RUN("%s"), same[i][1]);
        if (strcmp(differs(a, b), "") != 0)
            fail_msg("%s, %s: %s", same[i][0], same[i][1], differs(a, b));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(a, sizeof a, RUN("%s"), others[i][0]);
        snprintf(b, sizeof b, RUN("%s"), others[i][1]);
        if (strcmp(differs(a, b), "the program differs (run)") != 0)
            fail_msg("%s, %s: '%s'", others[i][0], others[i][1], differs(a, b));
    }
}

static void
jobs_that_differ_in_what_processes_share_are_not_merged(void **unused)
{
    (void)unused;
    static const char *const cases[][3] = {
        {IN(""), IN(""), ""},
        {"run: tune\nworkdir: /w", "run: tune\nworkdir: /v", "workdir differs"},
        {"run: tune\nworkdir: /w", "run: tune", "workdir differs"},
        {"run: tune", "run: tune",
         "each runs in its own folder, for want of a workdir"},
        {IN("\nenv: {A: 1, B: 2}"), IN("\nenv: {B: 2, A: 1}"), ""},
        {IN("\nenv: {A: 1, B: 2}"), IN("\nenv: {B: 3, A: 1}"),
         "env differs: B"},
        {IN("\nenv: {A: 1}"), IN(""), "env differs: A"},
        {IN("\nenv: {A: \"\"}"), IN(""), "env differs: A"},
        {IN("\nenv: {A: \"1\\n3:B=2\"}"), IN("\nenv: {A: 1, B: 2}"),
         "env differs: A"},
        {IN("\nfreeze: {rule: off}"), IN(""), "the rule of freezing differs"},
        {IN("\nfreeze: {max: 0.5}"), IN("\nfreeze: {max: 0.4}"), ""},
        {IN("\ngpus: 1\nmodel: {hidden: 64, layers: 2, heads: 2, vocab: 99, "
            "seq: 8}"),
         IN("\ngpus: 1\nmodel: {hidden: 64, layers: 2, heads: 2, vocab: 99, "
            "seq: 9}"),
         "model differs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(differs(cases[i][0], cases[i][1]), cases[i][2]);
}

/* Settings that the co-trained job gets, or that the scheduler follows. */
static void jobs_that_differ_in_their_own_settings_are_merged(void **unused)
{
    (void)unused;
    static const char *const mores[] = {
        "\nname: other",
        "\nqueue: other",
        "\npriority: 9",
        "\ngpus: 1..4",
        "\ngpu: v100",
        "\nmemory: 9",
        "\nelastic: {threads: 8, consistency: D2}",
        "\ncheckpoint: {dir: /c, grace: 9}",
        "\nretry: {max: 3}",
        "\ntarget: {epochs: 9}",
        "\nduration: 9",
    };
    for (size_t i = 0; i < sizeof mores / sizeof *mores; i++) {
        char other[300];
        snprintf(other, sizeof other, "%s%s", IN(""), mores[i]);
        if (strcmp(differs(IN(""), other), "") != 0)
            fail_msg("%s: %s", mores[i], differs(IN(""), other));
    }
}

static void jobs_of_two_users_or_bases_are_not_merged(void **unused)
{
    (void)unused;
    struct live_job one = job_of(1, IN("")), two = job_of(2, IN(""));
    struct firn_buf text = {0};
    assert_false(mergekey_differs(&one, &two, &text));
    mem_free(two.ask.user);
    two.ask.user = mem_strdup("eve");
    assert_true(mergekey_differs(&one, &two, &text));
    assert_string_equal(text.at, "another user's");
    mem_free(one.ask.user);
    one.ask.user = mem_strdup("eve");
    assert_false(mergekey_differs(&one, &two, &text));
    mem_free(two.ask.base);
    two.ask.base = mem_strdup("B");
    buf_clear(&text);
    assert_true(mergekey_differs(&one, &two, &text));
    assert_string_equal(text.at, "base differs");
    assert_true(mergekey_same_program(&one.ask, &two.ask));
    buf_release(&text);
    live_ask_release(&one.ask);
    live_ask_release(&two.ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_may_differ_behind_the_program),
        cmocka_unit_test(
            jobs_that_differ_in_what_processes_share_are_not_merged),
        cmocka_unit_test(jobs_that_differ_in_their_own_settings_are_merged),
        cmocka_unit_test(jobs_of_two_users_or_bases_are_not_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
