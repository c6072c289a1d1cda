/* test_transfers.c - fine-tuning tasks together and after each other.
 *
 * A toy profile takes 0.01 s a sample on one V100 whatever the batch, so that
 * an epoch of D samples takes D / 100 s; the epochs are those of the shipped
 * table. Runs are driven by small policies of this file. With the published
 * curves at hand every number of the table is found again in them.
 */
#include "base/buf.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "lib/drive.h"
#include "lib/play.h"
#include "lib/temp.h"
#include "sim/transfers.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[TEMP_FOLDER];

static int make_profiles(void **state)
{
    (void)state;
    temp_open(folder);
    play_profile(folder, "vit", 7);
    play_profile(folder, "roberta-base", 7);
    return 0;
}

static int remove_profiles(void **state)
{
    (void)state;
    temp_close(folder);
    return 0;
}

#define COLUMNS    \
    "#firn-trace " \
    "1\nname,submit_s,gpus,duration_s,app,batch,nominal,may_merge\n"

static void open_play(struct play *play, const char *rows)
{
    char text[1000];
    snprintf(text, sizeof text, COLUMNS "%s", rows);
    play_open(play, "1x1:v100", text);
    play->options.profiles = folder;
    play->options.transfer_key = true; /* forecasts are tested with the key */
}

/* ---- policies ---- */

static struct firn_merge told; /* by the forecast, at the last decision */
static bool was_told;
static enum firn_merge_kind asked;

static void ask(const struct firn_view *view)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    struct firn_way way = {.gpus = 1, .type = FIRN_ANY_TYPE};
    if (view->njobs == 2 && view->now_s == 0)
        was_told = firn_view_merge(view, jobs[0], jobs[1], asked, &way, &told);
}

/* Both together, from the start. */
static enum firn_status decide_both(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    struct firn_want want = {.gpus = 1, .shared = true};
    (void)state;
    asked = FIRN_MERGE_TOGETHER;
    ask(view);
    firn_plan_keep_all(plan);
    if (view->nwaiting == 2 && (!firn_plan_give_want(plan, jobs[0], &want) ||
                                !firn_plan_merge(plan, jobs[1], jobs[0])))
        fail_msg("not merged");
    return FIRN_OK;
}

static const struct firn_policy_def both = {
    .name = "both",
    .summary = "the first two jobs together",
    .does = FIRN_DOES_MERGE,
    .decide = decide_both,
};

/* One by one, each with the weights of the one before; `halt_s`: the second
 * one is stopped then, and goes on at once. */
static double halt_s;

static enum firn_status decide_after(void *state, const struct firn_view *view,
                                     struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    (void)state;
    asked = FIRN_MERGE_AFTER;
    ask(view);
    if (view->njobs == 0)
        return FIRN_OK;
    if (jobs[0]->id == 1 && view->now_s == halt_s)
        return FIRN_OK;
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    struct firn_want want = {.gpus = 1, .how = &how};
    /* Only the first start counts: each job but the first is after the one
     * before it. */
    if (jobs[0]->starts == 0)
        how.after = jobs[0]->id > 0 ? jobs[0]->id - 1 : FIRN_NO_JOB;
    if (jobs[0]->held.nparts == 0 || !firn_plan_keep(plan, jobs[0]))
        firn_plan_give_want(plan, jobs[0], &want);
    return FIRN_OK;
}

static double wake_after(const void *state, const struct firn_view *view)
{
    (void)state;
    return view->now_s < halt_s    ? halt_s
           : view->now_s == halt_s ? halt_s + 10
                                   : INFINITY;
}

static const struct firn_policy_def after = {
    .name = "after",
    .summary = "each job from the weights of the one before",
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_after,
    .wake_s = wake_after,
};

/* The ends of two jobs, in either order. */
static void run(struct play *play, const struct firn_policy_def *policy,
                double ends_s[2])
{
    struct drive out;
    if (drive_try(play, policy, &out) != FIRN_OK)
        fail_msg("%s", play->err.text);
    const char *a = strstr(out.text.at, "a "), *b = strstr(out.text.at, "b ");
    assert_non_null(a);
    ends_s[0] = strtod(a + 2, NULL);
    ends_s[1] = b ? strtod(b + 2, NULL) : (double)NAN;
    buf_release(&out.text);
}

static void expect(double is, double want)
{
    if (!(fabs(is - want) <= 1e-6 * want))
        fail_msg("%.10g, not %.10g", is, want);
}

/* ---- cases ---- */

static void a_task_is_a_model_and_a_dataset(void **state)
{
    (void)state;
    int cifar = transfers_task("vit@cifar100");
    int food = transfers_task("vit@food101");
    int large = transfers_task("vit-large@food101");
    assert_true(cifar > 0 && food > 0 && large > 0);
    assert_int_equal(transfers_task("vit"), 0);
    assert_int_equal(transfers_task("vi@cifar100"), 0);
    assert_int_equal(transfers_task("vit@cifar"), 0);
    assert_true(transfers_samples(cifar) == 50000);
    assert_true(transfers_epochs(cifar) == 10);
    assert_true(transfers_is_pair(cifar, food));
    assert_false(transfers_is_pair(cifar, cifar));
    assert_false(transfers_is_pair(cifar, large)); /* another model */
    assert_false(transfers_is_pair(0, food));
    assert_true(transfers_together(cifar, food) == 1);
    assert_true(transfers_together(food, cifar) == 4);
    assert_true(transfers_after(cifar, food) == 8);
    assert_true(transfers_gain(cifar, food) == 1.25);
    assert_true(transfers_gain(food, cifar) == 0.5); /* never: 20, not 10 */
    assert_true(transfers_gain(food, 0) == 1);
}

/* 10 epochs of 50000 samples, 100 a second. */
static void the_work_of_a_task_is_its_epochs(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "a,0,1,5,vit@cifar100,64,1,1\n");
    play_run(&play, "fifo");
    expect(play_end(&play, "a"), 5000);
    play_close(&play);
}

/* An epoch of both is 9469 + 50000 samples: 594.69 s. cifar100 is done after 2
 * of them, 1189.38 s. imagenette needs 4: half of it is done then, and half of
 * its 9 epochs of 94.69 s are left, 426.105 s. One after the other they would
 * take 852.21 and 852.21 + 5000. */
static void each_of_two_is_done_at_its_own_target(void **state)
{
    (void)state;
    struct play play;
    double ends_s[2];
    open_play(&play, "a,0,1,5,vit@frgfm#imagenette,48,1,1\n"
                     "b,0,1,5,vit@cifar100,576,1,1\n");
    run(&play, &both, ends_s);
    expect(ends_s[0], 1189.38 + 426.105);
    expect(ends_s[1], 1189.38);
    /* And that is what was forecast. */
    assert_true(was_told);
    expect(told.left_s[0], 1189.38 + 426.105);
    expect(told.left_s[1], 1189.38);
    expect(told.epoch_s, 594.69);
    expect(told.weight, (2 * 852.21 + 5000) / (1615.485 + 1189.38));
    play_close(&play);
}

/* roberta-base: sst2 never gets to its target beside wnli (20 epochs are
 * charged for 10), nor does wnli (20 for 1); no forecast advises it. An epoch
 * of both is 169.97 s. */
static void a_target_that_is_never_met_costs_dearly(void **state)
{
    (void)state;
    struct play play;
    double ends_s[2];
    open_play(&play, "a,0,1,5,roberta-base@wnli,16,1,1\n"
                     "b,0,1,5,roberta-base@sst2,128,1,1\n");
    run(&play, &both, ends_s);
    expect(ends_s[0], 20 * 169.97);
    expect(ends_s[1], 20 * 169.97);
    assert_false(was_told);
    play_close(&play);
}

/* wnli takes 1.59 s; from its weights qnli needs 1 epoch of 261.86 s instead
 * of 9. */
static void weights_are_handed_on(void **state)
{
    (void)state;
    struct play play;
    double ends_s[2];
    halt_s = -1;
    open_play(&play, "a,0,1,5,roberta-base@wnli,16,1,1\n"
                     "b,0,1,5,roberta-base@qnli,128,1,1\n");
    run(&play, &after, ends_s);
    expect(ends_s[0], 1.59);
    expect(ends_s[1], 1.59 + 261.86);
    assert_true(was_told);
    expect(told.left_s[0], 1.59);
    expect(told.left_s[1], 1.59 + 261.86);
    expect(told.weight, (2 * 1.59 + 9 * 261.86) / (1.59 + 263.45));
    expect(told.epoch_s, 261.86);
    play_close(&play);
}

/* Stopped at 101.59 and resumed 10 s later, 7 s of restart, with nothing said
 * of weights: it goes on as before. */
static void a_job_begun_with_weights_keeps_their_gain(void **state)
{
    (void)state;
    struct play play;
    double ends_s[2];
    halt_s = 101.59;
    open_play(&play, "a,0,1,5,roberta-base@wnli,16,1,1\n"
                     "b,0,1,5,roberta-base@qnli,128,1,1\n");
    run(&play, &after, ends_s);
    expect(ends_s[1], 1.59 + 261.86 + 10 + 7);
    play_close(&play);
}

static void a_job_that_does_not_accept_merging_is_not_merged(void **state)
{
    (void)state;
    struct play play;
    struct drive out;
    open_play(&play, "a,0,1,5,vit@cifar100,64,1,1\n"
                     "b,0,1,5,vit@food101,64,1,0\n");
    drive_try(&play, &after, &out);
    assert_false(was_told);
    buf_release(&out.text);
    play_close(&play);
}

/* Up to half too long or too short; the truth is as it was. */
static void noise_is_on_the_forecast_only(void **state)
{
    (void)state;
    struct play play;
    double ends_s[2];
    open_play(&play, "a,0,1,5,roberta-base@wnli,16,1,1\n"
                     "b,0,1,5,roberta-base@qnli,128,1,1\n");
    halt_s = -1;
    int off = 0;
    for (play.options.seed = 1; play.options.seed <= 20; play.options.seed++) {
        play.options.noise.transfer = 0.5;
        run(&play, &after, ends_s);
        expect(ends_s[1], 1.59 + 261.86);
        double times = (told.left_s[1] - told.left_s[0]) / 261.86;
        assert_true(times >= 0.5 && times <= 1.5);
        off += fabs(times - 1) > 0.05;
    }
    assert_true(off > 10);
    play_close(&play);
}

/* ---- against the published curves ---- */

struct goal {
    char app[64], lr[16], steps[8];
    double metric;
};

static struct goal goals[64];
static int ngoals;

static void read_goals(const char *path)
{
    struct csv *csv = csv_open(path);
    assert_non_null(csv);
    while (csv_next(csv)) {
        int i = 0;
        const char *app = csv_text(csv, "application");
        while (i < ngoals && strcmp(goals[i].app, app) != 0)
            i++;
        if (i < ngoals)
            continue;
        assert_true(ngoals < 64);
        struct goal *g = &goals[ngoals++];
        snprintf(g->app, sizeof g->app, "%s", app);
        snprintf(g->lr, sizeof g->lr, "%s", csv_text(csv, "target_lr"));
        snprintf(g->steps, sizeof g->steps, "%s",
                 csv_text(csv, "target_gradient_steps"));
        g->metric = csv_number(csv, "target_metric");
    }
    csv_close(csv);
}

static const struct goal *goal_of(const char *model, const char *set)
{
    char app[200];
    snprintf(app, sizeof app, "%s@%s", model, set);
    for (int i = 0; i < ngoals; i++)
        if (strcmp(goals[i].app, app) == 0)
            return &goals[i];
    return NULL;
}

static bool is_metric(const char *set, const char *metric)
{
    if (strcmp(set, "mrpc") == 0 || strcmp(set, "qqp") == 0)
        return strcmp(metric, "eval_f1") == 0;
    if (strcmp(set, "stsb") == 0)
        return strcmp(metric, "eval_pearson") == 0;
    return strcmp(metric, "eval_accuracy") == 0;
}

/* First epochs at the target, by task and other task; 0: none. */
enum { TASKS = 40 };
static double found[TASKS][TASKS];

static void see(const struct csv *csv, const char *set, const char *other)
{
    const char *model = csv_text(csv, "model");
    const struct goal *goal = goal_of(model, set);
    char name[200];
    snprintf(name, sizeof name, "%s@%s", model, other);
    if (goal == NULL || !is_metric(set, csv_text(csv, "metric")) ||
        csv_number(csv, "value") < goal->metric - 5e-7)
        return;
    double *first = &found[transfers_task(goal->app)][transfers_task(name)];
    double epoch = csv_number(csv, "epoch");
    if (*first == 0 || epoch < *first)
        *first = epoch;
}

/* Reads a table of curves; columns of the task and of the other one. */
static void read_curves(const char *path, const char *set, const char *other)
{
    struct csv *csv = csv_open(path);
    assert_non_null(csv);
    memset(found, 0, sizeof found);
    while (csv_next(csv)) {
        char mine[64], theirs[64];
        snprintf(mine, sizeof mine, "%s", csv_text(csv, set));
        snprintf(theirs, sizeof theirs, "%s", csv_text(csv, other));
        if (strcmp(mine, theirs) == 0) /* evaluated on the first of two */
            snprintf(theirs, sizeof theirs, "%s", csv_text(csv, "task_b"));
        see(csv, mine, theirs);
    }
    csv_close(csv);
}

static void check_alone(const char *path)
{
    struct csv *csv = csv_open(path);
    double first[TASKS] = {0};
    while (csv_next(csv)) {
        const char *set = csv_text(csv, "dataset");
        const struct goal *goal = goal_of(csv_text(csv, "model"), set);
        if (goal == NULL || strcmp(goal->lr, csv_text(csv, "lr")) != 0 ||
            strcmp(goal->steps, csv_text(csv, "grad_accum_steps")) != 0 ||
            !is_metric(set, csv_text(csv, "metric")) ||
            csv_number(csv, "value") < goal->metric - 5e-7)
            continue;
        double *at = &first[transfers_task(goal->app)];
        double epoch = csv_number(csv, "epoch");
        *at = *at == 0 || epoch < *at ? epoch : *at;
    }
    csv_close(csv);
    for (int i = 0; i < ngoals; i++) {
        int task = transfers_task(goals[i].app);
        assert_true(task > 0 && task < TASKS);
        expect(transfers_epochs(task), first[task]);
    }
}

static void check_sizes(const char *path)
{
    struct csv *csv = csv_open(path);
    int n = 0;
    while (csv_next(csv))
        for (int i = 0; i < ngoals; i++) {
            const char *set = strchr(goals[i].app, '@') + 1;
            if (strcmp(set, csv_text(csv, "dataset")) != 0)
                continue;
            expect(transfers_samples(transfers_task(goals[i].app)),
                   csv_number(csv, "num_samples_as_used"));
            n++;
        }
    csv_close(csv);
    assert_int_equal(n, ngoals);
}

static void check_pairs(double (*table)(int, int), int *npairs)
{
    for (int i = 0; i < ngoals; i++)
        for (int k = 0; k < ngoals; k++) {
            int a = transfers_task(goals[i].app);
            int b = transfers_task(goals[k].app);
            if (!transfers_is_pair(a, b))
                continue;
            if (table(a, b) != found[a][b])
                fail_msg("%s with %s: %g, not %g", goals[i].app, goals[k].app,
                         table(a, b), found[a][b]);
            *npairs += 1;
        }
}

static void epochs_agree_with_the_published_curves(void **state)
{
    (void)state;
    static const char *const models[] = {"vit", "vit-large", "roberta-base",
                                         "roberta-large"};
    char name[200];
    int npairs = 0;
    if (data_path("ymir/hpo_curves.csv") == NULL) {
        print_message("no published curves here\n");
        skip();
    }
    ngoals = 0;
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "ymir/workloads/FM-%d-%s.csv", 1 + i / 4,
                 models[i % 4]);
        read_goals(data_path(name));
    }
    assert_int_equal(ngoals, 36);
    check_alone(data_path("ymir/hpo_curves.csv"));
    check_sizes(data_path("ymir/dataset_sizes.csv"));
    read_curves(data_path("ymir/temporal_transfer_curves.csv"), "target_task",
                "source_task");
    check_pairs(transfers_after, &npairs);
    read_curves(data_path("ymir/spatial_transfer_curves.csv"), "evaluated_task",
                "task_a");
    check_pairs(transfers_together, &npairs);
    assert_int_equal(npairs, 2 * 4 * 9 * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_a_model_and_a_dataset),
        cmocka_unit_test(the_work_of_a_task_is_its_epochs),
        cmocka_unit_test(each_of_two_is_done_at_its_own_target),
        cmocka_unit_test(a_target_that_is_never_met_costs_dearly),
        cmocka_unit_test(weights_are_handed_on),
        cmocka_unit_test(a_job_begun_with_weights_keeps_their_gain),
        cmocka_unit_test(a_job_that_does_not_accept_merging_is_not_merged),
        cmocka_unit_test(noise_is_on_the_forecast_only),
        cmocka_unit_test(epochs_agree_with_the_published_curves),
    };
    return cmocka_run_group_tests(tests, make_profiles, remove_profiles);
}
