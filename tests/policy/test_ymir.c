/* test_ymir.c - fine-tuning jobs, alone and merged.
 *
 * Two toy models take 0.01 s a sample on one V100 and half of that on two, so
 * that an epoch of D samples takes D / 100 s on one; epochs are those of the
 * shipped table (sim/transfers.def). Restarts cost nothing unless a case says
 * so. Random traces are driven with an eye on every plan.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/drive.h"
#include "lib/play.h"
#include "lib/scene.h"
#include "lib/taskapps.h"
#include <firn/policy.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COLUMNS                                                           \
    "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max,app," \
    "batch,nominal,may_merge\n"

static void open_play(struct play *play, const char *cluster, const char *rows)
{
    struct firn_buf text = {0};
    buf_puts(&text, COLUMNS);
    buf_puts(&text, rows);
    play_open(play, cluster, text.at);
    play->options.profiles = taskapps_folder;
    play->options.transfer_key = true; /* the policy is tested, no estimate */
    buf_release(&text);
}

/* With one setting, or NULL; jobs start between rounds and restarts count,
 * unless a case is about that. */
static void run_with(struct play *play, const char *setting)
{
    const char *settings[] = {"ymir.between=yes", "ymir.charge=yes", setting};
    play->options.settings = settings;
    play->options.nsettings = setting != NULL ? 3 : 2;
    play_run(play, "ymir");
    play->options.nsettings = 0;
}

static void expect(const struct play *play, const char *name, double want_s)
{
    double is_s = play_end(play, name);
    if (!(fabs(is_s - want_s) <= 1e-6 * want_s))
        fail_msg("%s ends at %.10g, not at %.10g", name, is_s, want_s);
}

/* The log has this. */
static bool has(const struct play *play, const char *text)
{
    struct firn_buf log = play_read(play->log);
    bool is_there = strstr(log.at, text) != NULL;
    buf_release(&log);
    return is_there;
}

/* ---- together ---- */

#define PAYS                                    \
    "a,0,1,5,1,4,vit@frgfm#imagenette,48,1,1\n" \
    "b,0,1,5,1,4,vit@cifar100,576,1,1\n"

/* Together: 594.69 s an epoch of both, cifar100 needs 2 of them; imagenette
 * is half done then and has half of 852.21 s left. Alone the shorter one goes
 * first, 852.21 s, then 5000 s. */
static void two_jobs_that_gain_are_trained_together(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100", PAYS);
    run_with(&play, NULL);
    expect(&play, "b", 1189.38);
    expect(&play, "a", 1189.38 + 426.105);
    assert_true(has(&play, "n0[0]~"));
    run_with(&play, "ymir.objective=speedup");
    expect(&play, "b", 1189.38);
    static const char *const offs[] = {"ymir.merge=no", "ymir.spatial=no",
                                       "ymir.weight=3"};
    for (int i = 0; i < 3; i++) {
        run_with(&play, offs[i]);
        expect(&play, "a", 852.21);
        expect(&play, "b", 5852.21);
        assert_false(has(&play, "~"));
    }
    play_close(&play);
}

/* fashion_mnist and mnist have 60000 samples each and need 10 epochs alone, 8
 * of both together: 9600 s for both, 19200 in sum, where one after the other
 * they take 6000 and 12000. */
static void two_jobs_that_gain_too_little_are_not_merged(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,1,vit@fashion_mnist,48,1,1\n"
              "b,0,1,5,1,1,vit@mnist,48,1,1\n");
    run_with(&play, NULL);
    assert_false(has(&play, "~"));
    expect(&play, "a", 6000);
    expect(&play, "b", 12000);
    play_close(&play);
}

static void a_job_that_does_not_accept_sharing_is_left_alone(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,4,vit@frgfm#imagenette,48,1,1\n"
              "b,0,1,5,1,4,vit@cifar100,576,1,0\n");
    run_with(&play, NULL);
    assert_false(has(&play, "~"));
    expect(&play, "a", 852.21);
    play_close(&play);
}

/* The same four jobs; only those of one key are trained together. */
static void jobs_of_different_keys_are_not_merged(void **state)
{
    (void)state;
    static const char *const keys[][5] = {
        {"-", "-", "-", "-", "A: n0[0]~  B: n0[0]~  C: n0[1]~  D: n0[1]~"},
        {"x", "y", "x", "y", "A: n0[0]~  B: n0[1]~  C: n0[0]~  D: n0[1]~"},
        {"x", "y", "y", "z", NULL},
        {"v", "x", "y", "z", "A: n0[0]  B: n0[1]  C: -  D: -"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct firn_buf text = {0};
        buf_puts(&text, "1 node x 2 gpus");
        for (int k = 0; k < 4; k++)
            buf_printf(&text, "; %c wants 1 merges %s", 'A' + k, keys[i][k]);
        struct firn_error err = {0};
        struct scene *scene =
            scene_new(text.at, firn_policy_find("ymir", &err), NULL);
        scene_decide(scene, 0);
        if (keys[i][4] != NULL) {
            assert_string_equal(scene_text(scene), keys[i][4]);
        } else {
            const struct firn_job *b = scene_job(scene, "B");
            assert_int_equal(b->held.how.merged_with,
                             scene_job(scene, "C")->id);
            assert_false(scene_job(scene, "A")->held.is_shared);
            assert_false(scene_job(scene, "D")->held.is_shared);
        }
        scene_free(scene);
        buf_release(&text);
    }
}

/* b comes when a has run for a round: a has made progress. */
static void a_job_that_has_made_progress_is_not_merged(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,4,vit@frgfm#imagenette,48,1,1\n"
              "b,130,1,5,1,4,vit@cifar100,576,1,1\n");
    run_with(&play, NULL);
    assert_false(has(&play, "~"));
    play_close(&play);
}

/* ---- the guard ---- */

/* The first two teach the estimator their curves, alone. The other two are
 * then tried together; in the published curves neither gets to its target
 * beside the other, which the first epochs of both tell. Without the guard
 * they stay together for long. */
static void a_merge_that_hurts_is_undone_and_says_so(void **state)
{
    (void)state;
    struct play play;
    int undone = 0;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,1,roberta-base@mnli,16,1,1\n"
              "b,0,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "c,20000,1,5,1,1,roberta-base@mnli,16,1,1\n"
              "d,20000,1,5,1,1,roberta-base@qqp,16,1,1\n");
    play.options.transfer_key = false;
    for (play.options.seed = 1; play.options.seed <= 8; play.options.seed++) {
        run_with(&play, NULL);
        if (!has(&play, "parted from"))
            continue;
        undone++;
        double with_s = play_end(&play, "c") + play_end(&play, "d");
        run_with(&play, "ymir.guard=no");
        assert_false(has(&play, "parted from"));
        assert_true(play_end(&play, "c") + play_end(&play, "d") > with_s);
    }
    assert_true(undone >= 2);
    play_close(&play);
}

/* The first two teach the estimator their curves, alone. c then begins with the
 * weights of d where the estimator has it so, and in the published curves its
 * loss is higher with them and it never gets to its target: it begins anew.
 * Without the guard it goes on for 20 epochs. */
static void a_transfer_that_hurts_is_undone_and_says_so(void **state)
{
    (void)state;
    struct play play;
    int undone = 0;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,1,vit@food101,48,1,1\n"
              "b,0,1,5,1,1,vit@cifar100,48,1,1\n"
              "c,200000,1,5,1,1,vit@food101,48,1,1\n"
              "d,200000,1,5,1,1,vit@cifar100,48,1,1\n");
    play.options.transfer_key = false;
    for (play.options.seed = 1; play.options.seed <= 8; play.options.seed++) {
        const char *settings[] = {"ymir.spatial=no", "ymir.between=yes",
                                  "ymir.guard=no"};
        play.options.settings = settings;
        play.options.nsettings = 2;
        play_run(&play, "ymir");
        if (!has(&play, "anew"))
            continue;
        undone++;
        assert_true(has(&play, "with the weights of "));
        assert_true(play.result.gpu_s_lost > 0);
        double with_s = play.result.jct_mean_s;
        play.options.nsettings = 3;
        play_run(&play, "ymir");
        assert_false(has(&play, "anew"));
        assert_true(play.result.gpu_s_lost == 0);
        assert_true(play.result.jct_mean_s > with_s);
    }
    assert_true(undone >= 2);
    play_close(&play);
}

/* The same datasets, models and truths: before a job has reported three epochs
 * alone, what is known of a pair is the same whatever the truth, nothing. */
static void no_job_is_merged_before_its_task_was_seen_alone(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100", PAYS);
    play.options.transfer_key = false;
    run_with(&play, NULL);
    assert_false(has(&play, "~"));
    expect(&play, "a", 852.21);
    expect(&play, "b", 5852.21);
    play_close(&play);
}

/* ---- after ---- */

/* wnli takes 1.59 s alone. From its weights qnli needs 261.86 s instead of
 * 2356.74, so it waits although a GPU is free for it. */
static void a_job_waits_for_weights_that_pay(void **state)
{
    (void)state;
    struct play play;
    const char *rows = "a,0,1,5,1,1,roberta-base@wnli,16,1,1\n"
                       "b,0,1,5,1,1,roberta-base@qnli,128,1,1\n";
    open_play(&play, "1x2:v100", rows);
    run_with(&play, NULL);
    expect(&play, "a", 1.59);
    expect(&play, "b", 1.59 + 261.86);
    run_with(&play, "ymir.temporal=no");
    expect(&play, "b", 2356.74);
    play_close(&play);
}

/* stsb takes 129.42 s. After it qqp needs 5 epochs instead of 10 and qnli 3
 * instead of 9, but only one of them waits for it: two at most are merged. */
static void the_first_has_ended_before_the_second_begins(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x4:v100",
              "a,0,1,5,1,1,roberta-base@stsb,16,1,1\n"
              "b,0,1,5,1,1,roberta-base@qqp,64,1,1\n"
              "c,0,1,5,1,1,roberta-base@qnli,128,1,1\n");
    run_with(&play, NULL);
    int waited = 0;
    for (int i = 0; i < 2; i++) {
        const struct play_job *job = play_job(&play, i ? "c" : "b");
        if (job->first_start_s > 0) {
            waited++;
            assert_true(job->first_start_s >= play_end(&play, "a"));
        }
    }
    assert_int_equal(waited, 1);
    play_close(&play);
}

/* ---- rounds ---- */

/* On one GPU for the first 100 s, which a round at 120 s notices. */
static void new_jobs_are_profiled_on_one_gpu(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x4:v100", "a,0,1,5,1,4,vit@cifar100,576,1,1\n");
    run_with(&play, "ymir.profile-s=100");
    assert_true(has(&play, "\n0\tstart\t0\tn0[0]\n"));
    assert_true(has(&play, "\n120\tresize\t0\tn0[0-3]\n"));
    expect(&play, "a", 120 + (5000 - 120) / 4.0);
    run_with(&play, NULL);
    assert_true(has(&play, "\n0\tstart\t0\tn0[0-3]\n"));
    play_close(&play);
}

/* At 10 three GPUs are free, and b has them at once; with between=no it waits
 * for 120, where the two share the four. */
static void free_gpus_are_given_between_rounds(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x4:v100",
              "a,0,1,5,1,1,vit@cifar100,576,1,0\n"
              "b,10,1,5,1,4,vit@food101,576,1,0\n");
    run_with(&play, NULL);
    assert_true(play_job(&play, "b")->first_start_s == 10);
    run_with(&play, "ymir.between=no");
    assert_true(play_job(&play, "b")->first_start_s == 120);
    play_close(&play);
}

/* a grows from 1 to 4 GPUs at 120 and is back after 50 s, of which 30 are
 * hidden if the policy wants it and the engine can: neither alone does. */
static void a_switch_costs_less_when_it_is_prepared(void **state)
{
    (void)state;
    struct play play;
    const char *settings[] = {"ymir.profile-s=100", "ymir.ahead=0"};
    const struct {
        double can_s;
        size_t nsettings;
        double cost_s;
    } cases[] = {{0, 1, 50}, {30, 1, 20}, {10, 1, 40}, {30, 2, 50}};
    open_play(&play, "1x4:v100", "a,0,1,5,1,4,vit@cifar100,576,1,1\n");
    struct firn_restart_cost costs[] = {{"vit@cifar100", 50}};
    play.options.restarts = costs;
    play.options.nrestarts = 1;
    play.options.settings = settings;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play.options.ahead_s = cases[i].can_s;
        play.options.nsettings = cases[i].nsettings;
        play_run(&play, "ymir");
        expect(&play, "a", 120 + cases[i].cost_s + (5000 - 120) / 4.0);
    }
    play_close(&play);
}

/* ---- every plan ---- */

static const struct firn_policy_def *inner;
static int merged, followed;

static const struct firn_job *job_of(const struct firn_view *view, int id)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        if (jobs[i]->id == id)
            return jobs[i];
    return NULL;
}

static size_t model_length(const struct firn_job *job)
{
    return strcspn(job->spec.app, "@");
}

/* A merge that begins now. */
static void watch_merge(const struct firn_view *view, const struct firn_job *a,
                        const struct firn_job *b)
{
    if (!a->spec.may_merge || !b->spec.may_merge)
        fail_msg("job %d or %d does not accept it", a->id, b->id);
    if (firn_job_done_s(a, view->now_s) > 0)
        fail_msg("job %d has made progress", a->id);
    if (model_length(a) != model_length(b) ||
        memcmp(a->spec.app, b->spec.app, model_length(a)) != 0)
        fail_msg("%s with %s", a->spec.app, b->spec.app);
    merged++;
}

static enum firn_status watched(void *state, const struct firn_view *view,
                                struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    int used = 0;
    FIRN_TRY(inner->decide(state, view, plan));
    for (size_t i = 0; i < view->njobs; i++) {
        const struct firn_alloc *to = firn_plan_of(plan, jobs[i]);
        firn_job_id with = to->how.merged_with;
        const struct firn_job *other =
            with != FIRN_NO_JOB ? job_of(view, with) : NULL;
        bool is_pair =
            other != NULL && firn_plan_of(plan, other)->nparts > 0 &&
            firn_plan_of(plan, other)->how.merged_with == jobs[i]->id;
        used += is_pair && other->id < jobs[i]->id ? 0 : to->ngpus;
        if (is_pair && jobs[i]->held.how.merged_with != with)
            watch_merge(view, jobs[i], other);
        if (to->nparts > 0 && to->how.after != FIRN_NO_JOB) {
            assert_null(job_of(view, to->how.after)); /* it has ended */
            followed += jobs[i]->held.nparts == 0;
        }
    }
    if (used > view->gpus_up)
        fail_msg("%d GPUs of %d", used, view->gpus_up);
    return FIRN_OK;
}

static void draw_rows(struct firn_buf *rows, struct rng *rng, int njobs)
{
    static const char *const apps[] = {
        "vit@cifar100",         "vit@frgfm#imagenette",
        "vit@imagenet-split-1", "roberta-base@wnli",
        "roberta-base@qnli",    "roberta-base@stsb",
        "roberta-base@mrpc",    "vit@mnist"};
    double at_s = 0;
    buf_puts(rows, COLUMNS);
    for (int i = 0; i < njobs; i++) {
        int gpus = 1 + (int)rng_below(rng, 4);
        bool is_gang = rng_below(rng, 4) == 0;
        at_s += rng_below(rng, 3) ? floor(rng_exp(rng, 200)) : 0;
        buf_printf(rows, "j%d,%g,%d,5,%d,%d,%s,%d,1,%d\n", i, at_s, gpus,
                   is_gang ? gpus : 1, is_gang ? gpus : 8,
                   apps[rng_below(rng, 8)], 16 << rng_below(rng, 5),
                   rng_below(rng, 5) > 0);
    }
}

static void plans_keep_the_rules(void **state)
{
    (void)state;
    struct firn_error err = {0};
    inner = firn_policy_find("ymir", &err);
    struct firn_policy_def def = *inner;
    def.decide = watched;
    uint64_t seeds = getenv("FIRN_QUICK") ? 4 : 40;
    merged = followed = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct play play;
        struct drive out;
        struct firn_buf rows = {0};
        struct rng rng;
        rng_seed(&rng, seed);
        draw_rows(&rows, &rng, 30);
        play_open(&play, seed % 2 ? "2x4:v100" : "1x4:v100", rows.at);
        play.options.profiles = taskapps_folder;
        play.options.restart_s = 20;
        play.options.noise.transfer = seed % 3 ? 0 : 0.6;
        if (seed % 4 == 0) {
            play.options.mtbf_s = 20000;
            play.options.mttr_s = 600;
        }
        if (drive_try(&play, &def, &out) != FIRN_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, play.err.text);
        buf_release(&out.text);
        buf_release(&rows);
        play_close(&play);
    }
    assert_true(merged > 0 && followed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_jobs_that_gain_are_trained_together),
        cmocka_unit_test(two_jobs_that_gain_too_little_are_not_merged),
        cmocka_unit_test(a_job_that_does_not_accept_sharing_is_left_alone),
        cmocka_unit_test(jobs_of_different_keys_are_not_merged),
        cmocka_unit_test(a_job_that_has_made_progress_is_not_merged),
        cmocka_unit_test(a_merge_that_hurts_is_undone_and_says_so),
        cmocka_unit_test(a_transfer_that_hurts_is_undone_and_says_so),
        cmocka_unit_test(no_job_is_merged_before_its_task_was_seen_alone),
        cmocka_unit_test(a_job_waits_for_weights_that_pay),
        cmocka_unit_test(the_first_has_ended_before_the_second_begins),
        cmocka_unit_test(new_jobs_are_profiled_on_one_gpu),
        cmocka_unit_test(free_gpus_are_given_between_rounds),
        cmocka_unit_test(a_switch_costs_less_when_it_is_prepared),
        cmocka_unit_test(plans_keep_the_rules),
    };
    return cmocka_run_group_tests(tests, taskapps_make, taskapps_remove);
}
