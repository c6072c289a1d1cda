/* test_state.c - what core keeps of jobs: counters, slots, order, ranks.
 *
 * The jobs here are driven by hand through state.h; times are small numbers,
 * so that every counter can be added up in the head.
 */
#include "core/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "toys.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

struct yard {
    struct firn_cluster cluster;
    struct state state;
    struct arena arena;
};

static void open_yard(struct yard *yard, const struct firn_policy_def *policy,
                      void *policy_state)
{
    memset(yard, 0, sizeof *yard);
    assert_int_equal(
        firn_cluster_parse_spec(&yard->cluster, "2x4:v100,1x2:t4", NULL),
        FIRN_OK);
    state_init(&yard->state, &yard->cluster, policy, policy_state);
}

static void close_yard(struct yard *yard)
{
    state_release(&yard->state);
    firn_cluster_release(&yard->cluster);
    arena_release(&yard->arena);
}

static struct firn_job_spec spec_of(const char *name, int gpus)
{
    return (struct firn_job_spec){.name = name,
                                  .app = "bert",
                                  .group = "vc1",
                                  .gpus = gpus,
                                  .gpus_min = gpus,
                                  .gpus_max = gpus,
                                  .duration_s = 100,
                                  .types = ""};
}

static struct firn_job *submit(struct yard *yard, firn_job_id id,
                               const char *name, int gpus, double now_s)
{
    struct firn_job_spec spec = spec_of(name, gpus);
    struct firn_error err = {0};
    if (state_submit(&yard->state, id, &spec, now_s, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return state_job(&yard->state, id);
}

static void hold(struct yard *yard, struct firn_job *job, const char *text,
                 double now_s)
{
    struct firn_alloc alloc = alloc_read(text, &yard->arena);
    state_hold(&yard->state, job, &alloc, now_s);
}

static void equal(double a, double b)
{
    if (a != b)
        fail_msg("%.17g is not %.17g", a, b);
}

static void a_new_job_waits_and_has_held_nothing(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 3, "A", 2, 10);
    assert_int_equal(a->id, 3);
    assert_int_equal(a->state, FIRN_JOB_WAITING);
    assert_int_equal(a->held.nparts, 0);
    assert_true(isnan(a->first_start_s));
    equal(a->since_s, 10);
    equal(a->held_s, 0);
    equal(a->served_gpu_s, 0);
    equal(a->done_s, 0);
    assert_int_equal(a->starts, 0);
    assert_int_equal(a->type_mask, 3);
    assert_int_equal(yard.state.nwaiting, 1);
    assert_int_equal(yard.state.nrunning, 0);
    assert_null(state_job(&yard.state, 0));
    assert_null(state_job(&yard.state, 4));
    assert_null(state_job(&yard.state, -1));
    close_yard(&yard);
}

static void names_are_copied(void **unused)
{
    (void)unused;
    struct yard yard;
    char name[] = "A", app[] = "bert";
    struct firn_job_spec spec = spec_of(name, 1);
    open_yard(&yard, &toy_greedy, NULL);
    spec.app = app;
    assert_int_equal(state_submit(&yard.state, 0, &spec, 0, NULL), FIRN_OK);
    name[0] = 'x';
    app[0] = 'x';
    assert_string_equal(state_job(&yard.state, 0)->spec.name, "A");
    assert_string_equal(state_job(&yard.state, 0)->spec.app, "bert");
    close_yard(&yard);
}

static void refused(struct yard *yard, firn_job_id id,
                    const struct firn_job_spec *spec, const char *said)
{
    struct firn_error err = {0};
    size_t before = yard->state.nwaiting;
    assert_int_equal(state_submit(&yard->state, id, spec, 0, &err),
                     FIRN_EINVAL);
    if (strstr(err.text, said) == NULL)
        fail_msg("the sentence is \"%s\"", err.text);
    assert_int_equal(yard->state.nwaiting, before);
}

static void jobs_the_cluster_can_never_run_are_refused(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job_spec spec = spec_of("A", 11);
    refused(&yard, 0, &spec, "'A' wants 11 GPUs, the cluster has 10");
    spec = spec_of("A", 3);
    spec.types = "t4";
    refused(&yard, 0, &spec, "3 GPUs, the cluster has 2 that it can use");
    spec.types = "h100|b200";
    refused(&yard, 0, &spec,
            "accepts GPUs of type 'h100|b200' only; the cluster has v100, t4");
    spec = spec_of("A", 1);
    spec.mem_gib = 1000;
    refused(&yard, 0, &spec, "1000 GiB");
    spec = spec_of("A", 2);
    spec.types = "T4|h100"; /* case does not matter */
    assert_int_equal(state_submit(&yard.state, 5, &spec, 0, NULL), FIRN_OK);
    assert_int_equal(state_job(&yard.state, 5)->type_mask, 2);
    assert_int_equal(yard.state.nchoosy, 1);
    spec = spec_of("B", 1);
    refused(&yard, 5, &spec, "id 5 is not new");
    refused(&yard, 2, &spec, "id 2 is not new");
    refused(&yard, -1, &spec, "id -1 is not new");
    close_yard(&yard);
}

static void counters_add_up_over_starts_and_stops(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 3, 10);
    hold(&yard, a, "n0[0-2]", 15);
    equal(a->first_start_s, 15);
    equal(a->since_s, 15);
    assert_int_equal(a->starts, 1);
    assert_int_equal(yard.state.map.free_gpus, 7);
    equal(firn_job_served_gpu_s(a, 25), 30); /* 3 x 10 so far */
    equal(a->served_gpu_s, 0);               /* but not yet booked */
    state_drop(&yard.state, a, 35);          /* 3 x 20 */
    equal(a->served_gpu_s, 60);
    equal(a->held_s, 20);
    equal(a->since_s, 35);
    equal(firn_job_served_gpu_s(a, 100), 60);
    assert_int_equal(yard.state.map.free_gpus, 10);
    hold(&yard, a, "n0[0] n1[1,3]", 40);
    state_drop(&yard.state, a, 50); /* 3 x 10 more */
    equal(a->served_gpu_s, 90);
    equal(a->held_s, 30);
    equal(a->first_start_s, 15);
    assert_int_equal(a->starts, 2);
    close_yard(&yard);
}

static void time_that_a_job_waited_is_no_progress(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 1, "a", 1, 0);
    hold(&yard, a, "n0[0]", 0);
    state_report(&yard.state, a, &(struct firn_report){0, 1, 0}, 0);
    state_drop(&yard.state, a, 10);
    state_report(&yard.state, a, &(struct firn_report){10, 1, 10},
                 10);            /* late */
    hold(&yard, a, "n0[0]", 50); /* no report yet */
    equal(firn_job_done_s(a, 50), 10);
    close_yard(&yard);
}

static void progress_is_kept_when_a_job_is_stopped(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 2, 0);
    equal(firn_job_left_s(a, 5), 100);
    hold(&yard, a, "n0[0-1]", 10);
    struct firn_report report = {0, 0.5, 20}; /* restarts until 20 */
    state_report(&yard.state, a, &report, 10);
    equal(firn_job_done_s(a, 15), 0);
    equal(firn_job_left_s(a, 15), 5 + 100 / 0.5);
    equal(firn_job_done_s(a, 40), 10);
    equal(firn_job_left_s(a, 40), 90 / 0.5);
    state_drop(&yard.state, a, 40);
    equal(firn_job_done_s(a, 400), 10);
    equal(firn_job_left_s(a, 400), 90); /* on the GPUs it asked for */
    hold(&yard, a, "n1[0-1]", 50);
    equal(firn_job_done_s(a, 60), 10); /* not before the engine reports */
    report = (struct firn_report){10, 2, 50};
    state_report(&yard.state, a, &report, 50);
    equal(firn_job_done_s(a, 60), 30);
    close_yard(&yard);
}

static void a_job_stopped_while_it_restarts_has_done_nothing_more(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 2, 0);
    hold(&yard, a, "n0[0-1]", 10);
    struct firn_report report = {7, 1, 60};
    state_report(&yard.state, a, &report, 10);
    state_drop(&yard.state, a, 30);
    equal(a->done_s, 7);
    equal(firn_job_left_s(a, 30), 93);
    equal(a->served_gpu_s, 40); /* it held them all the same */
    close_yard(&yard);
}

static void slots_are_reused_and_ids_are_not(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 1, 0);
    struct firn_job *b = submit(&yard, 1, "B", 1, 0);
    submit(&yard, 2, "C", 1, 0);
    hold(&yard, b, "n1[0]", 1);
    int slot = b->slot;
    state_end(&yard.state, b, 5);
    assert_null(state_job(&yard.state, 1));
    assert_int_equal(yard.state.map.free_gpus, 10);
    assert_int_equal(yard.state.nwaiting, 2);
    assert_int_equal(yard.state.nrunning, 0);
    struct firn_job *d = submit(&yard, 7, "D", 1, 6);
    assert_int_equal(d->slot, slot);
    assert_int_equal(d->starts, 0);
    assert_int_equal(d->held.nparts, 0);
    assert_true(isnan(d->first_start_s));
    assert_string_equal(d->note, "");
    state_end(&yard.state, a, 7); /* the first of the list */
    state_end(&yard.state, d, 7); /* the last */
    assert_ptr_equal(&yard.state.first->job, state_job(&yard.state, 2));
    assert_ptr_equal(yard.state.first, yard.state.last);
    close_yard(&yard);
}

static void a_held_allocation_is_a_copy(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 2, 0);
    struct firn_part parts[] = {{0, 0, 1}, {1, 0, 1}};
    struct firn_alloc alloc = {parts, 2, 2, false, 0, FIRN_HOW_AS_SUBMITTED};
    state_hold(&yard.state, a, &alloc, 0);
    parts[0].node = 1;
    assert_int_equal(a->held.parts[0].node, 0);
    close_yard(&yard);
}

static void the_state_copies_the_cluster(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, &toy_greedy, NULL);
    state_node(&yard.state, 1, false);
    assert_true(yard.cluster.nodes[1].is_up);
    assert_int_equal(yard.state.map.free_gpus, 6);
    state_node(&yard.state, 1, false); /* again: nothing */
    assert_int_equal(yard.state.map.up_gpus, 6);
    state_node(&yard.state, 1, true);
    assert_int_equal(yard.state.map.free_gpus, 10);
    close_yard(&yard);
}

/* ---- ranks that end ---- */

/* Ten seconds after each question the key grows by one; every question is
 * counted. */
static int asked;

static struct firn_rank aging(const void *state, const struct firn_job *job,
                              double now_s)
{
    (void)state;
    asked++;
    bool runs = job->state == FIRN_JOB_RUNNING;
    return (struct firn_rank){floor(now_s / 10),
                              runs ? floor(now_s / 10) * 10 + 10
                                   : (double)INFINITY};
}

static void a_rank_that_ended_is_asked_again(void **unused)
{
    (void)unused;
    struct firn_policy_def policy = toy_greedy;
    policy.rank = aging;
    policy.does = FIRN_DOES_PREEMPT;
    struct yard yard;
    open_yard(&yard, &policy, NULL);
    asked = 0;
    struct firn_job *a = submit(&yard, 0, "A", 2, 3);
    struct firn_job *b = submit(&yard, 1, "B", 2, 3);
    assert_int_equal(asked, 2);
    equal(state_rank_end_s(&yard.state), INFINITY);
    hold(&yard, a, "n0[0-1]", 4);
    equal(state_rank_end_s(&yard.state), 10);
    assert_false(state_rank_expired(&yard.state, 9));
    assert_int_equal(asked, 3);
    assert_true(state_rank_expired(&yard.state, 10));
    equal(state_rank_end_s(&yard.state), 20);
    equal(ladder_key(&yard.state.ladder, a->slot, 10), 1);
    equal(ladder_key(&yard.state.ladder, b->slot, 10), 0);
    hold(&yard, b, "n0[2-3]", 12);
    assert_true(state_rank_expired(&yard.state, 20)); /* both at once */
    assert_int_equal(asked, 7);
    state_drop(&yard.state, a, 21); /* a waiting rank has no end */
    state_end(&yard.state, b, 22);
    equal(state_rank_end_s(&yard.state), INFINITY);
    assert_false(state_rank_expired(&yard.state, 1000));
    close_yard(&yard);
}

static void a_report_asks_for_the_rank_again(void **unused)
{
    (void)unused;
    struct firn_policy_def policy = toy_greedy;
    policy.rank = aging;
    policy.does = FIRN_DOES_PREEMPT;
    struct yard yard;
    open_yard(&yard, &policy, NULL);
    struct firn_job *a = submit(&yard, 0, "A", 2, 3);
    asked = 0;
    state_report(&yard.state, a, &(struct firn_report){5, 0, 0}, 3);
    assert_int_equal(asked, 1);
    hold(&yard, a, "n0[0-1]", 4);
    state_report(&yard.state, a, &(struct firn_report){5, 1, 4}, 15);
    assert_int_equal(asked, 3);
    equal(ladder_key(&yard.state.ladder, a->slot, 15), 1);
    close_yard(&yard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_job_waits_and_has_held_nothing),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(jobs_the_cluster_can_never_run_are_refused),
        cmocka_unit_test(counters_add_up_over_starts_and_stops),
        cmocka_unit_test(progress_is_kept_when_a_job_is_stopped),
        cmocka_unit_test(a_job_stopped_while_it_restarts_has_done_nothing_more),
        cmocka_unit_test(slots_are_reused_and_ids_are_not),
        cmocka_unit_test(time_that_a_job_waited_is_no_progress),
        cmocka_unit_test(a_held_allocation_is_a_copy),
        cmocka_unit_test(the_state_copies_the_cluster),
        cmocka_unit_test(a_rank_that_ended_is_asked_again),
        cmocka_unit_test(a_report_asks_for_the_rank_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
