/* test_http_model.c - requests at random, good and bad, with kills between:
 * every answer is compared with a model of the jobs.
 *
 * One client sends to a real firnd on four declared GPUs: submits, holds,
 * releases, changes, cancels, drains, other policies, questions; between them
 * requests that must change nothing (lib/httpgarbage.h), pipelines, and answers
 * that are never read. Now and then firnd is killed (SIGKILL) with a request
 * under way or just after an answer, ended (SIGTERM) and started again, or told
 * to read its configuration again (SIGHUP).
 *
 * Checked:
 * (1) each answer has a status that the model allows, and none is 5xx;
 * (2) each job in an answer is as the model allows (lib/jobmodel.h): what was
 *     acknowledged holds over every kill, what was not answered happened whole
 *     or not at all, a job that is held does not start, one that is over stays;
 * (3) a submit that is sent again gets its job; ids rise;
 * (4) the list of all jobs has each acknowledged job once and no other;
 * (5) nodes are drained and the policy is the one that was set;
 * (6) ids of events rise, and an event that was shown is there after a kill;
 * (7) firnd ends by our signals only, with status 0 after SIGTERM; at the end
 *     every job is over after its cancel, and no process of one is left.
 *
 * FIRN_SEED=N repeats a run as far as firnd itself does the same. Cost: some
 * 3000 requests, 300 under a checker, 100 000 in a soak; FIRN_REQUESTS=N
 * others.
 */
#include "base/clock.h"
#include "lib/modelclient.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONGEST_S = 120, LIFE = 160 };

/* --- requests that change nothing ---------------------------------------- */

/* A hostile job file that was taken is a job like others. */
static void take_strange(const char *answer)
{
    struct jobmodel_seen seen;
    if (jobmodel_read(answer, &seen) == NULL || model.n == MODEL_JOBS)
        fail_msg("201 without a job: %s", answer);
    struct jobmodel *job = &model.jobs[model.n++];
    jobmodel_init(job, MODEL_STRANGE, true);
    snprintf(job->name, sizeof job->name, "%s", seen.name);
    job->priority[0] = seen.priority;
    model.of_id[seen.id] = model.n;
    model.highest_id = seen.id > model.highest_id ? seen.id : model.highest_id;
    model.nstrange++;
    model_see(job, &seen);
}

static void send_garbage(void)
{
    struct garbage *g = &model.garbage;
    garbage_make(g, &model.rng);
    model.nrequests++;
    model.ngarbage++;
    struct caller c = model_dial();
    caller_send(&c, g->bytes, g->n);
    if (!g->is_half) {
        caller_wait(&c, 12);
        int status = c.n >= 12 ? atoi(c.in + 9) : 0;
        if (!garbage_may(g, status))
            fail_msg("%s is answered with %d: %.600s", g->what, status,
                     g->bytes);
        if (status == 201) {
            struct reply r = caller_reply(&c);
            take_strange(r.body);
            reply_release(&r);
        }
    }
    caller_close(&c);
    firndlife_check(&model.life);
}

static void send_pipeline(void)
{
    static const char one[] = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
    struct caller c = model_dial();
    int n = 2 + (int)model_below(8), nread = (int)model_below((uint64_t)n + 1);
    for (int i = 0; i < n; i++)
        caller_send(&c, one, sizeof one - 1);
    for (int i = 0; i < nread; i++) {
        struct reply r = caller_reply(&c);
        assert_int_equal(r.status, 200);
        reply_release(&r);
    }
    model.nrequests += n;
    caller_close(&c); /* the rest is never read */
}

/* --- a run --------------------------------------------------------------- */

static const struct {
    void (*send)(void);
    int weight;
    bool may_die; /* firnd may be killed with it */
} acts[] = {{model_submit_new, 10, true},     {model_submit_again, 4, true},
            {model_hold, 14, true},           {model_cancel, 9, true},
            {model_patch, 9, true},           {model_drain, 3, true},
            {model_set_policy, 1, true},      {model_look_at_job, 14, false},
            {model_look_at_nodes, 3, false},  {model_look_at_policy, 2, false},
            {model_look_at_events, 3, false}, {model_look_at_others, 6, false},
            {send_garbage, 22, false},        {send_pipeline, 2, false}};
enum { NACTS = sizeof acts / sizeof *acts };

static int pick_act(bool must_die)
{
    for (;;) {
        int at = (int)model_below(102), i = 0;
        while (i < NACTS && at >= acts[i].weight)
            at -= acts[i++].weight;
        if (i < NACTS && (acts[i].may_die || !must_die))
            return i;
    }
}

static void revive(void)
{
    firndlife_begin(&model.life);
    for (int i = model.n > 40 ? model.n - 40 : 0; i < model.n; i++)
        if (model.jobs[i].exists == MODEL_MAYBE)
            model_send_submit(&model.jobs[i]);
    model_look_at_all();
    model_look_at_nodes();
    model_look_at_policy();
    model_look_at_events();
}

/* With a change under way or just acknowledged, or politely. */
static void end_and_revive(void)
{
    if (model_below(5) == 0) {
        model.nterms++;
        model_end_life(SIGTERM);
    } else {
        model.nkills++;
        model.fate = model_below(2) == 0 ? KILLED_UNDER_WAY : KILLED_AFTER;
        int before = model.nrequests;
        while (model.nrequests == before)
            acts[pick_act(true)].send();
        model.fate = LIVES;
        model_end_life(SIGKILL);
    }
    revive();
}

static void run(int nrequests)
{
    int next = LIFE;
    firndlife_begin(&model.life);
    while (model.nrequests < nrequests) {
        acts[pick_act(false)].send();
        if (model_below(200) == 0) {
            model.nhups++;
            kill(model.life.pid, SIGHUP);
        }
        if (model.nrequests >= next) {
            end_and_revive();
            next = model.nrequests + 1 + (int)model_below(2 * LIFE);
        }
    }
    model_look_at_all();
}

/* --- the end ------------------------------------------------------------- */

static bool are_all_over(void)
{
    model_look_at_all();
    for (int i = 0; i < model.n; i++)
        if (model.jobs[i].exists == MODEL_YES && !model.jobs[i].is_over)
            return false;
    return true;
}

static void cancel_all(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    for (int i = 0; i < model.n; i++) {
        struct reply r;
        if (model.jobs[i].exists != MODEL_YES || model.jobs[i].is_over)
            continue;
        if (model_change(&model.jobs[i], "POST", "/cancel", "", &r))
            jobmodel_cancel(&model.jobs[i], true);
        model_finish_change(&model.jobs[i], &r);
    }
    while (!are_all_over() && clock_elapsed_s() < until_s)
        model_pause_s(0.02);
    assert_true(are_all_over()); /* (7) */
    while (firndlife_sleepers(model.sleep_s, false) > 0 &&
           clock_elapsed_s() < until_s)
        model_pause_s(0.02);
    assert_int_equal(firndlife_sleepers(model.sleep_s, false), 0);
}

static int make_folder(void **state)
{
    (void)state;
    model.policy[0] = model.policy[1] = "fifo";
    model.garbage.bytes = malloc(GARBAGE_BYTES);
    return model.garbage.bytes == NULL || firndlife_open(&model.life);
}

static int remove_folder(void **state)
{
    (void)state;
    model_hang_up();
    free(model.garbage.bytes);
    firndlife_close(&model.life, model.sleep_s, !model.is_good);
    return 0;
}

static void the_model_allows_every_answer(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED"), *asked = getenv("FIRN_REQUESTS");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    int n = asked != NULL                  ? atoi(asked)
            : getenv("FIRN_SOAK") != NULL  ? 100000
            : getenv("FIRN_QUICK") != NULL ? 300
                                           : 3000;
    if (!firndlife_has_program(&model.life))
        skip();
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&model.rng, seed);
    snprintf(model.sleep_s, sizeof model.sleep_s, "9%07d",
             (int)(getpid() % 10000000));
    double began_s = clock_elapsed_s();
    run(n);
    cancel_all();
    model_end_life(SIGTERM);
    model.is_good = true;
    print_message(
        "# %d requests (%d that must change nothing) to %d jobs (%d "
        "of hostile files); %d kills, %d SIGTERM, %d SIGHUP; %.1f s\n",
        model.nrequests, model.ngarbage, model.n, model.nstrange, model.nkills,
        model.nterms, model.nhups, clock_elapsed_s() - began_s);
}

int main(void)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test_setup_teardown(
        the_model_allows_every_answer, make_folder, remove_folder)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
