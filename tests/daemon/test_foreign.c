/* test_foreign.c - a cluster that is not ours alone: GPUs that others use,
 * nodes that go and come, an engine that cannot be asked, names of nodes.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOFT "\ncheckpoint: {grace: 10}"

static int gpus_up(struct loopscene *s)
{
    return round_view(s->loop->desk.round, 0).gpus_up;
}

static int gpus_free(struct loopscene *s)
{
    return round_view(s->loop->desk.round, 0).gpus_free;
}

static void set_policy(struct loopscene *s, const char *name)
{
    struct firn_error err = {0};
    const struct firn_policy_def *def = firn_policy_find(name, &err);
    assert_non_null(def);
    if (loop_new_round(s->loop, def, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

static json_t *why_of(struct loopscene *s, const char *name)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(why_job(s->loop, loopscene_job(s, name), &json, &err),
                     FIRN_OK);
    json_t *root = json_loads(json.at, 0, NULL);
    buf_release(&json);
    assert_non_null(root);
    return root;
}

static void expect_why(struct loopscene *s, const char *name, const char *key,
                       const char *words)
{
    json_t *root = why_of(s, name);
    const char *text = json_string_value(json_object_get(root, key));
    if (strstr(text, words) == NULL)
        fail_msg("%s: \"%s\"", key, text);
    json_decref(root);
}

static void gpus_of_foreign_processes_are_given_to_no_job(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_taken(&s, 0, 3);
    assert_int_equal(gpus_up(&s), 2);
    loopscene_submit(&s, "a", "gpus: 3");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a pending -");
    loopscene_taken(&s, 0, 8); /* that one, and no more */
    assert_string_equal(loopscene_text(&s), "a running n0[0-2]");
    loopscene_done(&s, "a");
    loopscene_taken(&s, 0, 0);
    assert_int_equal(gpus_free(&s), 4);
    loopscene_taken(&s, 7, 1); /* there is no such node, nor such GPUs */
    loopscene_taken(&s, 0, ~(uint64_t)15);
    assert_int_equal(gpus_free(&s), 4);
    loopscene_close(&s);
}

static void a_job_that_is_not_started_is_taken_off_them(void **unused)
{
    (void)unused;
    for (int soft = 0; soft < 2; soft++) {
        struct loopscene s;
        loopscene_open(&s, "2x2:v100@16", "fifo", soft);
        loopscene_play.is_stuck = true;
        struct live_job *job =
            loopscene_submit(&s, "a", soft ? "gpus: 2" SOFT : "gpus: 2");
        loopscene_turn(&s);
        assert_int_equal(job->state, LIVE_STARTING);
        loopscene_taken(&s, 0, 1);
        loopscene_play.is_stuck = false;
        loopscene_turn(&s);
        assert_int_equal(job->state, LIVE_RUNNING);
        assert_string_equal(job->held, "n1[0-1]");
        assert_int_equal(gpus_free(&s), 1);
        loopscene_play.is_stuck = true;
        loopscene_submit(&s, "b", "gpus: 1");
        loopscene_turn(&s);
        loopscene_taken(&s, 0, 3); /* nothing is left for it */
        assert_int_equal(loopscene_job(&s, "b")->state, LIVE_PENDING);
        loopscene_play.is_stuck = false;
        loopscene_taken(&s, 0, 0);
        assert_int_equal(loopscene_job(&s, "b")->state, LIVE_RUNNING);
        loopscene_done(&s, "b");
        loopscene_done(&s, "a");
        assert_int_equal(gpus_free(&s), 4);
        loopscene_close(&s);
    }
}

static void a_job_that_runs_is_left_and_its_gpu_then_blocked(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1" SOFT);
    loopscene_turn(&s);
    loopscene_taken(&s, 0, 1);
    assert_string_equal(loopscene_text(&s), "a running n0[0]");
    loopscene_submit(&s, "b", "gpus: 1" SOFT);
    loopscene_turn(&s);
    loopscene_done(&s, "a");
    assert_int_equal(gpus_free(&s), 0);
    assert_int_equal(gpus_up(&s), 1);
    loopscene_done(&s, "b");
    assert_int_equal(gpus_free(&s), 1);
    loopscene_close(&s);
}

static void another_policy_and_a_dry_run_see_the_same_gpus(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "rigid", "gpus: 1");
    loopscene_turn(&s);
    loopscene_taken(&s, 0, 6);
    set_policy(&s, "tiresias");
    loopscene_turn(&s);
    assert_int_equal(gpus_up(&s), 1);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 1" SOFT);
    assert_int_equal(dryrun_eta(s.loop, job, &json, &err), FIRN_OK);
    assert_non_null(strstr(json.at, "n0[3]"));
    buf_release(&json);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "rigid running n0[0]; a running n0[3]");
    loopscene_taken(&s, 0, 0);
    assert_int_equal(gpus_up(&s), 3);
    loopscene_close(&s);
}

/* Either may come first, and either may go first. */
static void
a_node_is_used_when_neither_operator_nor_engine_objects(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "2x2:v100@16", "fifo", false);
    loopscene_taken(&s, 0, 1);
    for (int order = 0; order < 4; order++) {
        if (order & 1)
            loopscene_node(&s, 0, false);
        assert_int_equal(loop_drain(s.loop, 0, true, &err), FIRN_OK);
        loopscene_node(&s, 0, false);
        assert_int_equal(gpus_up(&s), 2);
        loopscene_taken(&s, 0, order & 1 ? 3 : 1); /* while it is out */
        if (order & 2)
            assert_int_equal(loop_drain(s.loop, 0, false, &err), FIRN_OK);
        loopscene_node(&s, 0, true);
        if (!(order & 2))
            assert_int_equal(gpus_up(&s), 2);
        assert_int_equal(loop_drain(s.loop, 0, false, &err), FIRN_OK);
        loopscene_turn(&s);
        assert_int_equal(gpus_up(&s), order & 1 ? 2 : 3);
    }
    loopscene_close(&s);
}

static void jobs_of_a_node_that_is_down_start_elsewhere(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_play.is_remote = true;
    loopscene_open(&s, "2x1:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", "gpus: 1" SOFT);
    loopscene_turn(&s);
    loopscene_node(&s, 0, false);
    assert_int_equal(a->state, LIVE_RESIZING); /* to the other */
    loopscene_fail(&s, "a", FIRN_END_LOST, 0);
    loopscene_pass(&s, 2);
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    loopscene_fail(&s, "a", FIRN_END_LOST, 0); /* before its node is known */
    assert_int_equal(a->state, LIVE_PENDING);
    loopscene_node(&s, 1, false);
    loopscene_node(&s, 0, true);
    loopscene_pass(&s, 5);
    assert_string_equal(loopscene_text(&s), "a running n0[0]");
    loopscene_submit(&s, "rigid", "gpus: 1");
    loopscene_submit(&s, "wide", "gpus: 2");
    loopscene_turn(&s);
    expect_why(&s, "wide", "text", "1 are left on nodes that are up");
    expect_why(&s, "wide", "next", "firn nodes");
    loopscene_job(&s, "wide")->is_ending = true;
    loop_cancelled(s.loop, loopscene_job(&s, "wide"));
    loopscene_node(&s, 1, true);
    assert_int_equal(loopscene_job(&s, "rigid")->state, LIVE_RUNNING);
    loopscene_node(&s, 1, false);
    loopscene_fail(&s, "rigid", FIRN_END_LOST, 0); /* it cannot */
    assert_int_equal(loopscene_job(&s, "rigid")->state, LIVE_LOST);
    loopscene_close(&s);
}

static void a_node_that_is_down_at_the_start_is_not_used(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_play.is_remote = true;
    loopscene_open(&s, "2x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1" SOFT);
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_play.nodes_down = 1;
    loopscene_open(&s, "2x1:v100@16", "fifo", true);
    assert_int_equal(gpus_up(&s), 1);
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    assert_string_equal(loopscene_text(&s), "a running n1[0]");
    loopscene_node(&s, 0, true);
    assert_int_equal(gpus_up(&s), 2);
    loopscene_close(&s);
}

/* --- anything in any order ------------------------------------------------ */

enum { NODES = 3, GPUS = 4 };

struct world {
    struct loopscene s;
    uint64_t taken[NODES];
    bool is_down[NODES], is_drained[NODES];
    int njobs;
};

/* No GPU that others have is free in the round, all others are somewhere. */
static void check(const struct world *w)
{
    const struct state *state = round_state(w->s.loop->desk.round);
    for (int i = 0; i < NODES; i++) {
        bool is_up = !w->is_down[i] && !w->is_drained[i];
        assert_int_equal(state->cluster.nodes[i].is_up, is_up);
        assert_int_equal(state->map.free[i] & w->taken[i], 0);
        if (!is_up)
            assert_int_equal(state->map.free[i], 0);
    }
}

static void end_some(struct world *w, struct rng *rng)
{
    for (size_t i = 0; i < book_count(w->s.loop->book); i++) {
        const struct live_job *job = book_at(w->s.loop->book, i);
        char name[32];
        snprintf(name, sizeof name, "%s", job->ask.name);
        if (job->state == LIVE_RUNNING && rng_below(rng, 2) == 0)
            loopscene_done(&w->s, name);
        else if (job->state == LIVE_PREEMPTING || job->state == LIVE_RESIZING)
            loopscene_leave(&w->s, name);
    }
}

static void submit_one(struct world *w, struct rng *rng)
{
    char name[32], lines[64];
    if (w->njobs == 40)
        return;
    snprintf(name, sizeof name, "j%d", w->njobs++);
    snprintf(lines, sizeof lines, "gpus: %d%s", 1 + (int)rng_below(rng, 3),
             rng_below(rng, 3) ? SOFT : "");
    loopscene_submit(&w->s, name, lines);
}

static void one_change(struct world *w, struct rng *rng)
{
    struct firn_error err = {0};
    int node = (int)rng_below(rng, NODES);
    switch (rng_below(rng, 7)) {
    case 0:
        w->taken[node] = rng_below(rng, 1 << GPUS) & rng_below(rng, 1 << GPUS);
        loopscene_taken(&w->s, node, w->taken[node]);
        break;
    case 1:
        w->is_down[node] = !w->is_down[node];
        loopscene_node(&w->s, node, !w->is_down[node]);
        break;
    case 2:
        w->is_drained[node] = !w->is_drained[node];
        loop_drain(w->s.loop, node, w->is_drained[node], &err);
        break;
    case 3:
        set_policy(&w->s, rng_below(rng, 2) ? "fifo" : "srtf");
        break;
    case 4:
        loopscene_play.is_stuck = !loopscene_play.is_stuck;
        break;
    case 5:
        submit_one(w, rng);
        break;
    default:
        end_some(w, rng);
    }
    loopscene_turn(&w->s);
}

static void put_all_right(struct world *w, struct rng *rng)
{
    struct firn_error err = {0};
    loopscene_play.is_stuck = false;
    for (int i = 0; i < NODES; i++) {
        loopscene_node(&w->s, i, true);
        loop_drain(w->s.loop, i, false, &err);
        loopscene_taken(&w->s, i, 0);
    }
    for (int i = 0; i < 200 && gpus_free(&w->s) < NODES * GPUS; i++) {
        end_some(w, rng);
        loopscene_turn(&w->s);
    }
    for (size_t i = 0; i < book_count(w->s.loop->book); i++)
        assert_int_equal(book_at(w->s.loop->book, i)->state, LIVE_SUCCEEDED);
    assert_int_equal(gpus_free(&w->s), NODES * GPUS);
    assert_int_equal(gpus_up(&w->s), NODES * GPUS);
}

static void whatever_comes_no_gpu_is_lost_or_given_twice(void **unused)
{
    (void)unused;
    int nscenes = getenv("FIRN_QUICK") != NULL ? 2 : 6;
    for (int seed = 1; seed <= nscenes; seed++) {
        struct rng rng;
        struct world w = {0};
        rng_seed(&rng, (uint64_t)seed);
        loopscene_open(&w.s, "3x4:v100@16", "fifo", false);
        print_message("seed %d\n", seed);
        for (int i = 0; i < 60; i++) {
            one_change(&w, &rng);
            check(&w);
        }
        put_all_right(&w, &rng);
        loopscene_close(&w.s);
        loopscene_remove_state();
    }
}

/* --- trouble, names ------------------------------------------------------- */

static void nothing_is_decided_while_the_engine_is_in_trouble(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1" SOFT);
    loopscene_turn(&s);
    loopscene_play.trouble = "slurmctld does not answer";
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_pass(&s, 600);
    assert_string_equal(loopscene_text(&s), "a running n0[0]; b pending -");
    expect_why(&s, "b", "reason", "engine");
    expect_why(&s, "b", "text", "slurmctld does not answer");
    expect_why(&s, "a", "text", "runs on n0[0]");
    loopscene_play.trouble = NULL;
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[0]; b running n0[1]");
    loopscene_close(&s);
}

static void who_would_share_and_cannot_is_told_why(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1");
    loopscene_submit(&s, "b", "gpus: 1\nshare: allowed" SOFT);
    loopscene_submit(&s, "c", "gpus: 1\nshare: never" SOFT);
    loopscene_turn(&s);
    expect_why(&s, "b", "next", "nothing to do but wait");
    loopscene_play.no_sharing = "this Slurm has no gres/shard";
    expect_why(&s, "b", "next", "this Slurm has no gres/shard");
    expect_why(&s, "c", "next", "nothing to do but wait");
    loopscene_close(&s);
}

static void people_see_and_say_the_nodes_own_names(void **unused)
{
    (void)unused;
    static const char *const names[] = {"n1", "gpu-b.lan"};
    struct loopscene s;
    struct firn_buf text = {0};
    struct firn_error err = {0};
    const struct api_node *nodes;
    loopscene_play.names = names;
    loopscene_open(&s, "2x2:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 3" SOFT);
    loopscene_turn(&s);
    assert_string_equal(job->held, "n0[0-1] n1[0]"); /* kept by number */
    dock_gpus_text(&s.loop->dock, job->held, &text);
    assert_string_equal(text.at, "n1[0-1] gpu-b.lan[0]");
    assert_string_equal(job->why, "runs on n1[0-1] gpu-b.lan[0]");
    struct api_host host = loop_host(s.loop);
    loopscene_play.node_why = "Not responding";
    assert_int_equal(host.nodes(host.arg, &nodes), 2);
    assert_string_equal(nodes[1].name, "gpu-b.lan");
    assert_string_equal(nodes[1].why, "");
    assert_int_equal(host.drain(host.arg, "n0", true, &err), FIRN_ENOENT);
    assert_int_equal(host.drain(host.arg, "n1", true, &err), FIRN_OK);
    assert_true(s.loop->dock.is_drained[0]);
    loopscene_node(&s, 1, false);
    loopscene_taken(&s, 1, 1);
    host.nodes(host.arg, &nodes);
    assert_false(nodes[1].is_up);
    assert_string_equal(nodes[1].why, "Not responding");
    assert_int_equal(nodes[1].noutside, 1);
    assert_true(nodes[0].is_up && nodes[0].is_drained);
    buf_release(&text);
    loopscene_close(&s);
}

static void
gpus_of_a_drained_node_count_as_free_when_no_job_holds_them(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    const struct api_node *nodes;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "soft", "gpus: 1" SOFT);
    loopscene_submit(&s, "rigid", "gpus: 1");
    loopscene_turn(&s);
    struct api_host host = loop_host(s.loop);
    assert_int_equal(host.drain(host.arg, "n0", true, &err), FIRN_OK);
    host.nodes(host.arg, &nodes);
    assert_int_equal(nodes[0].nfree, 2);
    loopscene_leave(&s, "soft");
    loopscene_taken(&s, 0, 8);
    host.nodes(host.arg, &nodes);
    assert_int_equal(nodes[0].nfree, 2);
    loopscene_done(&s, "rigid");
    host.nodes(host.arg, &nodes);
    assert_int_equal(nodes[0].nfree, 3);
    loopscene_close(&s);
}

static void workers_on_other_hosts_need_a_listener(void **unused)
{
    (void)unused;
    char state[300], socket[320];
    struct firn_engine_def engine = loopscene_engine;
    struct config config = {0};
    struct firn_error err = {0};
    struct loop *loop = NULL;
    snprintf(state, sizeof state, "%s", folder_path());
    snprintf(socket, sizeof socket, "%s/s", state); /* not the user's own */
    char *argv[] = {"firnd", "--state", state,         "--socket",
                    socket,  "--gpus",  "1x1:v100@16", NULL};
    engine.is_remote = true;
    assert_int_equal(config_flags(&config, 7, argv, &err), FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    struct loop_setup setup = {.config = &config, .engine = &engine};
    assert_int_equal(loop_open(&loop, &setup, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "--listen"));
    config.listen = "127.0.0.1:0";
    setup.token = "sixteen-letters-and-more";
    assert_int_equal(loop_open(&loop, &setup, &err), FIRN_OK);
    assert_int_equal(strncmp(loop->dock.url.at, "http://127.0.0.1:", 17), 0);
    assert_string_not_equal(loop->dock.url.at, "http://127.0.0.1:0");
    loop_close(loop);
    config_release(&config);
}

static void nodes_may_be_numbered_anew_after_a_restart(void **unused)
{
    (void)unused;
    static const char *const before[] = {"a", "b", "c"};
    static const char *const after[] = {"new", "c", "a"};
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_play.names = before;
    loopscene_open(&s, "3x2:v100@16", "fifo", false);
    loopscene_submit(&s, "wide", "gpus: 4" SOFT);
    loopscene_submit(&s, "last", "gpus: 2" SOFT);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "wide running n0[0-1] n1[0-1]; "
                                            "last running n2[0-1]");
    assert_int_equal(loop_drain(s.loop, 2, true, &err), FIRN_OK);
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_play.names = after;
    loopscene_open(&s, "3x2:v100@16", "fifo", true);
    assert_true(s.loop->dock.is_drained[1]);
    assert_false(s.loop->dock.is_drained[2]);
    assert_string_equal(loopscene_job(&s, "last")->held, "n1[0-1]");
    assert_int_equal(loopscene_job(&s, "wide")->state, LIVE_PENDING);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(gpus_of_foreign_processes_are_given_to_no_job),
        CASE(a_job_that_is_not_started_is_taken_off_them),
        CASE(a_job_that_runs_is_left_and_its_gpu_then_blocked),
        CASE(another_policy_and_a_dry_run_see_the_same_gpus),
        CASE(a_node_is_used_when_neither_operator_nor_engine_objects),
        CASE(jobs_of_a_node_that_is_down_start_elsewhere),
        CASE(a_node_that_is_down_at_the_start_is_not_used),
        CASE(whatever_comes_no_gpu_is_lost_or_given_twice),
        CASE(nothing_is_decided_while_the_engine_is_in_trouble),
        CASE(who_would_share_and_cannot_is_told_why),
        CASE(people_see_and_say_the_nodes_own_names),
        CASE(gpus_of_a_drained_node_count_as_free_when_no_job_holds_them),
        CASE(workers_on_other_hosts_need_a_listener),
        CASE(nodes_may_be_numbered_anew_after_a_restart),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
