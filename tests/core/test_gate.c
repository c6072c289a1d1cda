/* test_gate.c - deadlines, one node, consolidation, and accounts by themselves.
 *
 * Shares and quotas over weeks are in tests/sim/test_shares.c.
 */
#include "core/accounts.h"
#include "core/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- accounts ------------------------------------------------------------- */

static void usage_of_one_half_life_ago_counts_half(void **unused)
{
    (void)unused;
    struct accounts *accounts = accounts_new();
    int ann = accounts_member(accounts, "ann", "default");
    accounts->half_life_s = 1000;
    accounts_hold(accounts, ann, 2, 0);
    accounts_settle(accounts, 1e6);
    const struct account *account = &accounts->list.at[ann];
    assert_true(fabs(accounts_past_gpus(accounts, account) - 2) < 1e-9);
    accounts_hold(accounts, ann, -2, 1e6);
    accounts_settle(accounts, 1e6 + 1000);
    account = &accounts->list.at[ann];
    assert_true(fabs(accounts_past_gpus(accounts, account) - 1) < 1e-9);
    assert_true(fabs(account->total_gpu_s - 2e6) < 1e-3);
    accounts_free(accounts);
}

static void a_past_that_is_charged_at_once_counts_as_if_it_were_lived(void **u)
{
    (void)u;
    struct accounts *lived = accounts_new(), *told = accounts_new();
    int a = accounts_member(lived, "ann", "p");
    int b = accounts_member(told, "ann", "p");
    lived->window_s = told->window_s = 5000;
    lived->half_life_s = told->half_life_s = 3000;
    accounts_hold(lived, a, 3, 1000);
    accounts_hold(lived, a, -2, 4000);
    accounts_hold(lived, a, -1, 7000);
    accounts_settle(lived, 9000);
    accounts_settle(told, 9000);
    accounts_charge(told, b, 3, 1000, 4000, 9000);
    accounts_charge(told, b, 1, 4000, 7000, 9000);
    const struct account *x = &lived->list.at[a], *y = &told->list.at[b];
    assert_true(fabs(x->used_gpu_s - y->used_gpu_s) < 1e-6);
    assert_true(fabs(x->window_gpu_s - 2000) < 1e-6);
    assert_true(fabs(y->window_gpu_s - 2000) < 1e-6);
    assert_true(fabs(x->total_gpu_s - y->total_gpu_s) < 1e-6);
    accounts_free(lived);
    accounts_free(told);
}

static void a_job_belongs_to_the_first_project_that_lists_its_user(void **u)
{
    (void)u;
    static const char text[] = "projects:\n"
                               "  - name: vision\n    members: ann, bob\n"
                               "  - name: speech\n    members: ann\n"
                               "  - name: open\n";
    struct accounts *accounts = NULL;
    struct firn_error err = {0};
    assert_int_equal(accounts_parse(&accounts,
                                    (struct firn_bytes){text, sizeof text - 1},
                                    "shares.yaml", &err),
                     FIRN_OK);
    assert_string_equal(accounts_project(accounts, "ann", ""), "vision");
    assert_string_equal(accounts_project(accounts, "eve", ""), "default");
    assert_string_equal(accounts_project(accounts, "ann", "speech"), "speech");
    assert_int_equal(accounts_admits(accounts, "ann", "speech", &err), FIRN_OK);
    assert_int_equal(accounts_admits(accounts, "eve", "open", &err), FIRN_OK);
    assert_int_equal(accounts_admits(accounts, "bob", "speech", &err),
                     FIRN_EINVAL);
    assert_non_null(strstr(err.text, "(member of: vision)"));
    accounts_free(accounts);
}

/* --- a round -------------------------------------------------------------- */

struct yard {
    struct firn_cluster cluster;
    struct round *round;
    int moves, starts, stops;
    firn_job_id last;
};

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct yard *yard = state;
    (void)err;
    yard->moves += step->kind == FIRN_STEP_MOVE;
    yard->starts += step->kind == FIRN_STEP_START;
    yard->stops += step->kind == FIRN_STEP_STOP;
    yard->last = step->job->id;
    return FIRN_OK;
}

static const struct firn_engine_def engine = {
    .name = "yard",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .apply = apply};

static void yard_open(struct yard *yard, const char *spec, const char *policy)
{
    struct firn_error err = {0};
    *yard = (struct yard){0};
    assert_int_equal(firn_cluster_parse_spec(&yard->cluster, spec, &err),
                     FIRN_OK);
    struct round_config as = {.cluster = &yard->cluster,
                              .policy = firn_policy_find(policy, &err),
                              .engine = &engine,
                              .engine_state = yard};
    assert_non_null(as.policy);
    assert_int_equal(round_new(&yard->round, &as, &err), FIRN_OK);
}

static void yard_close(struct yard *yard)
{
    round_free(yard->round);
    firn_cluster_release(&yard->cluster);
}

static void submit(struct yard *yard, firn_job_id id, int gpus, double now_s,
                   struct firn_job_spec more)
{
    struct firn_error err = {0};
    more.name = "job";
    more.app = more.group = more.types = "";
    more.gpus = more.gpus_min = more.gpus_max = gpus;
    more.submit_s = now_s;
    more.duration_s = more.duration_s > 0 ? more.duration_s : 10000;
    struct firn_event event = {
        .kind = FIRN_EVENT_SUBMIT, .at_s = now_s, .job = id, .spec = &more};
    if (round_event(yard->round, &event, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

static void end(struct yard *yard, firn_job_id id, double now_s)
{
    struct firn_error err = {0};
    struct firn_event event = {
        .kind = FIRN_EVENT_DONE, .at_s = now_s, .job = id};
    assert_int_equal(round_event(yard->round, &event, &err), FIRN_OK);
}

static void decide(struct yard *yard, double now_s)
{
    struct firn_error err = {0};
    round_tick(yard->round, now_s);
    if (round_decide(yard->round, now_s, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

static bool runs(const struct yard *yard, firn_job_id id)
{
    return state_job(round_state(yard->round), id)->held.nparts > 0;
}

/* Under tiresias both are in the first queue, where the earlier one goes first.
 */
static void a_job_with_a_near_deadline_goes_before_all_others(void **unused)
{
    (void)unused;
    struct yard yard;
    yard_open(&yard, "1x4:v100", "tiresias");
    submit(&yard, 0, 4, 0, (struct firn_job_spec){0});
    decide(&yard, 0);
    submit(&yard, 1, 4, 10,
           (struct firn_job_spec){.duration_s = 1000, .deadline_s = 3000});
    decide(&yard, 10); /* there is time until 3000 - 1.25 * 1000 */
    assert_true(runs(&yard, 0));
    assert_false(runs(&yard, 1));
    assert_true(round_wake_s(yard.round) <= 1750);
    decide(&yard, 1750);
    assert_true(runs(&yard, 1));
    assert_false(runs(&yard, 0));
    yard_close(&yard);
}

static void a_job_of_one_node_never_spans_two(void **unused)
{
    (void)unused;
    struct yard yard;
    yard_open(&yard, "2x4:v100", "fifo");
    submit(&yard, 0, 2, 0, (struct firn_job_spec){.keeps_gpus = true});
    submit(&yard, 1, 4, 0, (struct firn_job_spec){.keeps_gpus = true});
    decide(&yard, 0); /* job 0 on one node, job 1 on the other */
    end(&yard, 1, 5);
    submit(&yard, 2, 2, 5, (struct firn_job_spec){.keeps_gpus = true});
    submit(&yard, 3, 2, 5, (struct firn_job_spec){.keeps_gpus = true});
    decide(&yard, 5);
    end(&yard, 0, 6); /* two free on each node */
    submit(&yard, 4, 4, 6, (struct firn_job_spec){.one_node = true});
    decide(&yard, 6);
    assert_false(runs(&yard, 4));
    yard_close(&yard);
}

static void a_job_is_moved_when_that_makes_room_on_a_node_and_pays(void **u)
{
    (void)u;
    struct yard yard;
    yard_open(&yard, "2x4:v100", "fifo");
    for (firn_job_id id = 0; id < 4; id++) /* two on each node */
        submit(&yard, id, 2, 0, (struct firn_job_spec){.restart_s = 30});
    decide(&yard, 0);
    const struct state *state = round_state(yard.round);
    firn_node_id first = state_job(state, 0)->held.parts[0].node;
    firn_job_id other = 1; /* ends on another node than job 0 */
    while (state_job(state, other)->held.parts[0].node == first)
        other++;
    firn_job_id mate = 1; /* of job 0's node */
    while (state_job(state, mate)->held.parts[0].node != first)
        mate++;
    end(&yard, mate, 700);
    end(&yard, other, 700);
    submit(&yard, 4, 4, 700, (struct firn_job_spec){.one_node = true});
    decide(&yard, 700);
    assert_int_equal(yard.moves, 1);
    assert_true(runs(&yard, 4));
    assert_int_equal(firn_alloc_nodes(&state_job(state, 4)->held), 1);
    yard_close(&yard);
}

static void a_job_that_ends_sooner_than_it_restarts_is_not_moved(void **u)
{
    (void)u;
    struct yard yard;
    yard_open(&yard, "2x4:v100", "fifo");
    for (firn_job_id id = 0; id < 4; id++)
        submit(&yard, id, 2, 0,
               (struct firn_job_spec){.restart_s = 1e6, .duration_s = 9999});
    decide(&yard, 0);
    const struct state *state = round_state(yard.round);
    firn_node_id first = state_job(state, 0)->held.parts[0].node;
    firn_job_id other = 1, mate = 1;
    while (state_job(state, other)->held.parts[0].node == first)
        other++;
    while (state_job(state, mate)->held.parts[0].node != first)
        mate++;
    end(&yard, mate, 700);
    end(&yard, other, 700);
    submit(&yard, 4, 4, 700, (struct firn_job_spec){.one_node = true});
    decide(&yard, 700);
    assert_int_equal(yard.moves, 0);
    assert_false(runs(&yard, 4));
    yard_close(&yard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_of_one_half_life_ago_counts_half),
        cmocka_unit_test(
            a_past_that_is_charged_at_once_counts_as_if_it_were_lived),
        cmocka_unit_test(
            a_job_belongs_to_the_first_project_that_lists_its_user),
        cmocka_unit_test(a_job_with_a_near_deadline_goes_before_all_others),
        cmocka_unit_test(a_job_of_one_node_never_spans_two),
        cmocka_unit_test(
            a_job_is_moved_when_that_makes_room_on_a_node_and_pays),
        cmocka_unit_test(a_job_that_ends_sooner_than_it_restarts_is_not_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
