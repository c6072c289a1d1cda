/* test_type.c - a job whose bits depend on the GPU type comes back to it.
 *
 * The cluster has v100s on node 0 and t4s on node 1 unless a case says
 * otherwise. Each case has its twin of D2, which goes where there is room.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define ONES "1x1:v100@16,1x1:t4@16"
#define ELASTIC(level) \
    "gpus: 1..2\nelastic: {threads: 6, consistency: " level "}"

static const char *const levels[] = {ELASTIC("D1"), ELASTIC("D0"),
                                     ELASTIC("D2, scan: passed")};
enum { D1, D0, D2, LEVELS };

static const char *text_of(struct loopscene *s, const char *name,
                           const char *key, char out[LIVE_TEXT])
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(why_job(s->loop, loopscene_job(s, name), &json, &err),
                     FIRN_OK);
    json_t *root = json_loads(json.at, 0, NULL);
    assert_non_null(root);
    snprintf(out, LIVE_TEXT, "%s",
             json_string_value(json_object_get(root, key)));
    json_decref(root);
    buf_release(&json);
    return out;
}

static void it_holds_gpus_of_one_type(void **unused)
{
    (void)unused;
    for (int level = 0; level < LEVELS; level++) {
        struct loopscene s;
        loopscene_open(&s, ONES, "easyscale", false);
        loopscene_submit(&s, "a", levels[level]);
        loopscene_turn(&s);
        assert_string_equal(loopscene_text(&s), "a running n0[0]");
        loopscene_pass(&s, 60); /* it asks for one GPU more */
        if (level == D2)
            loopscene_leave(&s, "a");
        assert_string_equal(loopscene_text(&s), level == D2
                                                    ? "a running n0[0] n1[0]"
                                                    : "a running n0[0]");
        assert_string_equal(loopscene_job(&s, "a")->gpu_type,
                            level == D2 ? "" : "v100");
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* Off its v100, which B takes meanwhile. */
static void leave_and_let_another_in(struct loopscene *s, const char *lines)
{
    loopscene_submit(s, "a", lines);
    loopscene_turn(s);
    assert_string_equal(loopscene_text(s), "a running n0[0]");
    loopscene_hold(s, loopscene_job(s, "a"), true);
    loopscene_leave(s, "a");
    loopscene_submit(s, "b", "gpus: 1\ngpu: v100");
    loopscene_turn(s);
}

/* Then A is released: it waits for B, or does not. */
static void expect_back(struct loopscene *s, bool keeps)
{
    char words[LIVE_TEXT];
    loopscene_hold(s, loopscene_job(s, "a"), false);
    loopscene_turn(s);
    assert_string_equal(loopscene_text(s),
                        keeps ? "a pending -; b running n0[0]"
                              : "a running n1[0]; b running n0[0]");
    if (keeps) {
        assert_string_equal(text_of(s, "a", "text", words),
                            "waits for 1 GPU of v100; 0 free, when job 2 "
                            "(1 GPU) ends");
        assert_string_equal(text_of(s, "a", "reason", words), "type");
        assert_non_null(
            strstr(text_of(s, "a", "next", words),
                   "1 GPUs of other types are free: on them its results"));
    }
    loopscene_done(s, "b");
    assert_non_null(strstr(loopscene_text(s),
                           keeps ? "a running n0[0]" : "a running n1[0]"));
}

static void after_a_hold_it_comes_back_on_its_type(void **unused)
{
    (void)unused;
    static const char *const said[] = {
        "gpus: 1\nelastic: {consistency: D1}",
        "gpus: 1\nelastic: {consistency: D2, scan: passed}"};
    for (int i = 0; i < 2; i++) {
        struct loopscene s;
        loopscene_open(&s, ONES, "fifo", false);
        leave_and_let_another_in(&s, said[i]);
        expect_back(&s, i == 0);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

static void after_a_kill_it_comes_back_on_its_type(void **unused)
{
    (void)unused;
    for (int keeps = 0; keeps < 2; keeps++) {
        struct loopscene s;
        loopscene_open(&s, ONES, "fifo", false);
        leave_and_let_another_in(
            &s, keeps ? "gpus: 1\nelastic: {consistency: D1}"
                      : "gpus: 1\nelastic: {consistency: D2, scan: passed}");
        loopscene_kill(&s);
        loopscene_open(&s, ONES, "fifo", true);
        expect_back(&s, keeps);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* What a firnd wrote that knew nothing of it: the starts are there. */
static void forget_types(void)
{
    char path[300];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/firn.db", folder_path());
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE jobs SET gpu_type = ''", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 2);
    sqlite3_close(db);
}

static void the_starts_of_an_older_firnd_say_it_too(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, ONES, "fifo", false);
    leave_and_let_another_in(&s, "gpus: 1\nelastic: {consistency: D1}");
    loopscene_kill(&s);
    forget_types();
    loopscene_open(&s, ONES, "fifo", true);
    assert_string_equal(loopscene_job(&s, "a")->gpu_type, "v100");
    expect_back(&s, true);
    loopscene_close(&s);
}

/* A runs while firnd is killed; its node is node 1 afterwards. */
static void one_that_was_taken_over_keeps_its_type(void **unused)
{
    (void)unused;
    static const char *const before[] = {"here", "there"};
    static const char *const after[] = {"there", "here"};
    struct loopscene s;
    loopscene_play.names = before;
    loopscene_open(&s, ONES, "easyscale", false);
    loopscene_submit(&s, "a", ELASTIC("D1"));
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_play.names = after;
    loopscene_open(&s, "1x1:t4@16,1x1:v100@16", "easyscale", true);
    loopscene_pass(&s, 100);
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    loopscene_hold(&s, loopscene_job(&s, "a"), true);
    loopscene_leave(&s, "a");
    loopscene_hold(&s, loopscene_job(&s, "a"), false);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    loopscene_close(&s);
}

/* Of 3 v100s and 2 t4s; the t4s are what is there at first. */
static void another_policy_asks_for_no_more_than_its_type_has(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x3:v100@16,1x2:t4@16", "easyscale", false);
    loopscene_submit(&s, "x", "gpus: 3\ngpu: v100");
    loopscene_turn(&s);
    loopscene_submit(&s, "a", "gpus: 1..3\nelastic: {consistency: D1}");
    loopscene_turn(&s);
    loopscene_submit(&s, "y", "gpus: 2\ngpu: t4\npriority: 90");
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s),
                        "x running n0[0-2]; a pending -; y running n1[0-1]");
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("fifo", &err), &err), FIRN_OK);
    loopscene_done(&s, "x");
    loopscene_done(&s, "y");
    assert_string_equal(loopscene_text(&s), "x succeeded -; a running n1[0-1]; "
                                            "y succeeded -");
    loopscene_close(&s);
}

/* It needs two of one type, and one of each is free. */
static void why_says_what_is_free_of_each_type(void **unused)
{
    (void)unused;
    char words[LIVE_TEXT];
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16,1x1:t4@16", "fifo", false);
    loopscene_submit(&s, "x", "gpus: 1\ngpu: v100");
    loopscene_turn(&s);
    loopscene_submit(&s, "a", "gpus: 2\nelastic: {consistency: D1}");
    loopscene_turn(&s);
    assert_string_equal(
        text_of(&s, "a", "text", words),
        "waits for 2 GPUs of one type; 1 of v100 and 1 of t4 are free");
    assert_string_equal(text_of(&s, "a", "reason", words), "fragmented");
    assert_string_equal(text_of(&s, "a", "next", words),
                        "could start now on 1 GPU: firn plan with gpus: 1");
    loopscene_done(&s, "x");
    assert_int_equal(loopscene_job(&s, "a")->state, LIVE_RUNNING);
    loopscene_submit(&s, "large", "gpus: 3\nelastic: {consistency: D1}");
    loopscene_turn(&s);
    assert_non_null(strstr(text_of(&s, "large", "text", words),
                           "wants 3 GPUs of one type, the cluster has 2"));
    loopscene_close(&s);
}

/* On the t4 it runs out of memory: before it has said anything it may go on to
 * the v100, later it may not. */
static void out_of_memory_it_leaves_a_type_it_did_nothing_on(void **unused)
{
    (void)unused;
    for (int reports = 0; reports < 2; reports++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:t4@16,1x1:v100@32", "fifo", false);
        loopscene_submit(&s, "a", "gpus: 1\nelastic: {consistency: D1}");
        loopscene_turn(&s);
        assert_string_equal(loopscene_job(&s, "a")->gpu_type, "t4");
        if (reports)
            loopscene_report(&s, "a", 0.5, 2, 100);
        loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
        loopscene_pass(&s, 5);
        assert_string_equal(loopscene_text(&s),
                            reports ? "a failed -" : "a running n1[0]");
        if (reports)
            assert_non_null(strstr(loopscene_job(&s, "a")->why,
                                   "on the type of GPUs that it keeps to"));
        if (!reports)
            assert_string_equal(loopscene_job(&s, "a")->gpu_type, "v100");
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* Begins on the v100, is held, and finds another name after a restart. */
static void expect_lost(const char *level, const char *now, const char *there)
{
    char words[LIVE_TEXT], lines[64], want[LIVE_TEXT];
    struct loopscene s;
    loopscene_open(&s, ONES, "fifo", false);
    snprintf(lines, sizeof lines, "gpus: 1\nelastic: {consistency: %s}", level);
    loopscene_submit(&s, "a", lines);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[0]");
    loopscene_hold(&s, loopscene_job(&s, "a"), true);
    loopscene_leave(&s, "a");
    loopscene_kill(&s);
    loopscene_open(&s, now, "fifo", true);
    loopscene_hold(&s, loopscene_job(&s, "a"), false);
    loopscene_turn(&s);
    if (there == NULL) {
        assert_string_equal(loopscene_text(&s), "a running n0[0]");
    } else {
        assert_string_equal(loopscene_text(&s), "a pending -");
        assert_string_equal(text_of(&s, "a", "reason", words), "never");
        snprintf(want, sizeof want,
                 "has run on v100 and keeps to that type (consistency %s), of "
                 "which no node has a GPU now; there is %s",
                 level, there);
        assert_string_equal(text_of(&s, "a", "text", words), want);
        assert_string_equal(loopscene_job(&s, "a")->why, want);
        assert_string_equal(
            text_of(&s, "a", "next", words),
            "if v100 has another name now, give it its old one back and "
            "restart firnd; else firn cancel 1 and submit it again, which may "
            "begin on any type");
        loopscene_kill(&s); /* and with its old name it goes on */
        loopscene_open(&s, ONES, "fifo", true);
        loopscene_turn(&s);
        assert_string_equal(loopscene_text(&s), "a running n0[0]");
    }
    loopscene_close(&s);
    loopscene_remove_state();
}

static void why_says_that_no_node_has_its_type_any_more(void **unused)
{
    (void)unused;
    expect_lost("D1", "1x1:v100-32@16,1x1:t4@16", "v100-32, t4");
    expect_lost("D0", "2x1:t4@16", "t4");
    expect_lost("D2, scan: passed", "1x1:v100-32@16,1x1:t4@16", NULL);
    expect_lost("D1", "1x1:V100@16,1x1:t4@16", NULL); /* the same name */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(it_holds_gpus_of_one_type),
        CASE(after_a_hold_it_comes_back_on_its_type),
        CASE(after_a_kill_it_comes_back_on_its_type),
        CASE(the_starts_of_an_older_firnd_say_it_too),
        CASE(one_that_was_taken_over_keeps_its_type),
        CASE(another_policy_asks_for_no_more_than_its_type_has),
        CASE(why_says_what_is_free_of_each_type),
        CASE(out_of_memory_it_leaves_a_type_it_did_nothing_on),
        CASE(why_says_that_no_node_has_its_type_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
