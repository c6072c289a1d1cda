/* test_all.c - what every registered policy keeps, whatever it decides.
 *
 * Each policy is driven through scenes by a stand-in that calls it twice on
 * every view and compares the two plans, and that asks its ranks under a
 * watch. Core refuses wrong plans and the scene fails on a refusal, so a round
 * that comes through is a valid one.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include <cmocka.h>
#include <firn/parallel.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the stand-in ---- */

static const struct firn_policy_def *inner;
static unsigned used; /* FIRN_CAN_* that plans needed so far */

static struct firn_buf plan_text(const struct firn_view *view,
                                 const struct firn_plan *plan)
{
    struct firn_buf out = {0};
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        buf_printf(&out, " %s: ", jobs[i]->spec.name);
        firn_alloc_print(firn_plan_of(plan, jobs[i]), &out);
    }
    buf_puts(&out, "");
    return out;
}

/* What a plan needs of a trainer, by the words of firn/can.h. */
static unsigned needs_of(const struct firn_job *job,
                         const struct firn_alloc *to)
{
    unsigned need = 0;
    if (to->nparts == 0)
        return 0;
    if (to->ngpus != job->spec.gpus ||
        (job->held.nparts > 0 && job->held.ngpus != to->ngpus))
        need |= FIRN_CAN_RESIZE;
    need |= to->how.passes > 1 ? FIRN_CAN_PASSES : 0u;
    need |= to->tunes & FIRN_TUNE_FREEZE ? FIRN_CAN_FREEZE : 0u;
    need |= to->tunes & FIRN_TUNE_BATCH ? FIRN_CAN_BATCH : 0u;
    need |= to->tunes & FIRN_TUNE_EXECUTORS ? FIRN_CAN_EXECUTORS : 0u;
    need |= to->how.merged_with >= 0 ? FIRN_CAN_PARTNER : 0u;
    need |= to->how.after >= 0 ? FIRN_CAN_AFTER : 0u;
    need |= to->how.tensor > 1 ? FIRN_CAN_TENSOR : 0u;
    need |= firn_parallel_kind(to->how.parallel) == FIRN_PARALLEL_SHARDED
                ? FIRN_CAN_SHARDED
                : 0u;
    need |= to->how.parallel & (FIRN_SAVES_STATE | FIRN_SAVES_GRADIENTS)
                ? FIRN_CAN_ZERO
                : 0u;
    need |= to->how.parallel & FIRN_SAVES_ACTIVATIONS ? FIRN_CAN_RECOMPUTE : 0u;
    need |= to->how.parallel & FIRN_SAVES_HOST ? FIRN_CAN_OFFLOAD : 0u;
    need |= to->how.parallel == FIRN_PARALLEL_PIPELINE && to->how.stages > 1
                ? FIRN_CAN_PIPELINE
                : 0u;
    return need;
}

static void expect_able(const struct firn_view *view,
                        const struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        unsigned need = needs_of(jobs[i], firn_plan_of(plan, jobs[i]));
        char words[FIRN_CAN_TEXT];
        used |= need;
        firn_can_write(words, need & jobs[i]->spec.cannot);
        if (need & jobs[i]->spec.cannot)
            fail_msg("%s: the trainer of job %s would have to do what it "
                     "cannot: %s",
                     inner->name, jobs[i]->spec.name, words);
    }
}

static enum firn_status decide_twice(void *state, const struct firn_view *view,
                                     struct firn_plan *plan)
{
    FIRN_TRY(inner->decide(state, view, plan));
    struct firn_buf first = plan_text(view, plan);
    firn_plan_undo(plan, 0);
    FIRN_TRY(inner->decide(state, view, plan));
    struct firn_buf second = plan_text(view, plan);
    if (strcmp(first.at, second.at) != 0)
        fail_msg("%s plans%s, and asked again%s", inner->name, first.at,
                 second.at);
    buf_release(&first);
    buf_release(&second);
    expect_able(view, plan);
    return FIRN_OK;
}

static struct firn_rank watched_rank(const void *state,
                                     const struct firn_job *job, double now_s)
{
    struct firn_rank rank = inner->rank(state, job, now_s);
    if (isnan(rank.key) || isnan(rank.until_s) || rank.until_s <= now_s)
        fail_msg("%s ranks job %s at %g s with %g until %g s", inner->name,
                 job->spec.name, now_s, rank.key, rank.until_s);
    return rank;
}

static struct firn_policy_def stand_in(const struct firn_policy_def *policy)
{
    struct firn_policy_def def = *policy;
    inner = policy;
    def.decide = decide_twice;
    def.rank = policy->rank ? watched_rank : NULL;
    return def;
}

/* Between two questions a rank does not change, except by counting down. */
static void expect_steady_ranks(struct scene *scene)
{
    struct state *state = scene_state(scene);
    if (inner->rank == NULL)
        return;
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        bool runs = sj->job.state == FIRN_JOB_RUNNING;
        if (runs && !state->ladder.has_contest)
            continue;
        double kept = ladder_key(&state->ladder, sj->job.slot, scene->now_s);
        double now =
            inner->rank(state->policy_state, &sj->job, scene->now_s).key;
        if (fabs(kept - now) > 1e-6)
            fail_msg("%s: the rank of %s was %g and is %g", inner->name,
                     sj->job.spec.name, kept, now);
    }
}

static void expect_declared(const struct scene *scene, uint64_t seed)
{
    if (scene->did & ~inner->does)
        fail_msg("%s, seed %llu: does %#x, declares %#x", inner->name,
                 (unsigned long long)seed, scene->did, inner->does);
}

/* ---- drives ---- */

/* Random events and a decision after each; the steps of all of them. */
static struct firn_buf drive(const struct firn_policy_def *policy,
                             uint64_t seed, unsigned kinds)
{
    struct firn_policy_def def = stand_in(policy);
    struct firn_buf log = {0};
    struct rng rng;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = scene_new(text.at, &def, NULL);
    scene->has_ways = kinds & (SCENE_MODELS | SCENE_UNABLE);
    for (int round = 0; round < 40; round++) {
        struct firn_error err = {0};
        if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
            fail_msg("%s, seed %llu, round %d: %s", policy->name,
                     (unsigned long long)seed, round, err.text);
        buf_printf(&log, "%g: %s\n", scene->now_s, scene_steps(scene));
        expect_steady_ranks(scene);
        scene_shake(scene, &rng, kinds);
        round_tick(scene->round, scene->now_s);
        expect_steady_ranks(scene);
    }
    expect_declared(scene, seed);
    buf_release(&text);
    scene_free(scene);
    return log;
}

typedef void policy_case(const struct firn_policy_def *policy);

static const struct firn_policy_def *only; /* NULL: every policy of the list */

static void for_each(policy_case *test)
{
    size_t n;
    if (only != NULL) {
        test(only);
        return;
    }
    const struct firn_policy_def *const *all = firn_policies(&n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        test(all[i]);
}

/* ---- a long runner gives way ---- */

/* Does a job that comes when another one has held all GPUs for 100 hours get
 * GPUs within a day? */
static bool lets_the_new_one_run(const struct firn_policy_def *policy)
{
    struct scene *scene = scene_new("1 node x 4 gpus; A wants 4 for 1000000; "
                                    "B wants 4 for 1000000 at 360000",
                                    policy, NULL);
    scene_play(scene, 360000 + 86400);
    bool has_run = scene_job(scene, "B")->starts > 0;
    scene_free(scene);
    return has_run;
}

static void ageing(const struct firn_policy_def *policy)
{
    if (!policy->ages)
        return;
    assert_true(policy->does & FIRN_DOES_PREEMPT);
    if (!lets_the_new_one_run(policy))
        fail_msg("%s declares `ages`, but a job that has run for 100 hours "
                 "keeps its GPUs from a new one: is the service of running "
                 "jobs counted until now, by firn_job_served_gpu_s()?",
                 policy->name);
}

static void a_long_runner_yields_under_each_policy_that_ages(void **unused)
{
    (void)unused;
    for_each(ageing);
}

/* Least attained service; `is_wrong`: counted until a job last got or lost
 * GPUs, which is never for one that just runs on. */
static bool is_wrong;

static int less_served_first(const struct firn_job *a, const struct firn_job *b,
                             const struct firn_view *view, const void *arg)
{
    (void)arg;
    return is_wrong ? firn_cmp(a->served_gpu_s, b->served_gpu_s)
                    : firn_cmp(firn_job_served_gpu_s(a, view->now_s),
                               firn_job_served_gpu_s(b, view->now_s));
}

static enum firn_status decide_las(void *state, const struct firn_view *view,
                                   struct firn_plan *plan)
{
    const struct firn_job **queue =
        firn_view_sorted(view, less_served_first, NULL);
    (void)state;
    for (size_t i = 0; i < view->njobs; i++)
        firn_plan_give(plan, queue[i], queue[i]->spec.gpus);
    return FIRN_OK;
}

static void a_policy_that_does_not_age_running_jobs_is_found_out(void **unused)
{
    (void)unused;
    const struct firn_policy_def las = {.size = sizeof las,
                                        .name = "las",
                                        .summary = "least attained service",
                                        .does =
                                            FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
                                        .decide = decide_las,
                                        .ages = true};
    is_wrong = true;
    assert_false(lets_the_new_one_run(&las));
    is_wrong = false;
    assert_true(lets_the_new_one_run(&las));
}

/* ---- equal jobs start in the order of submission ---- */

enum { NEQUAL = 14 };

/* Jobs that differ in nothing but their number and the second in which they
 * were submitted: "1 node x 4 gpus; J00 wants 1 for 6 at 0; J01 ...". */
static struct firn_buf equal_jobs(const char *want, double gap_s)
{
    struct firn_buf text = {0};
    buf_puts(&text, "1 node x 4 gpus");
    for (int i = 0; i < NEQUAL; i++)
        buf_printf(&text, "; J%02d %s at %g", i, want, gap_s * i);
    buf_puts(&text, "");
    return text;
}

/* When the job first got GPUs, by the log of a scene; -1 for never. */
static double first_start_s(const char *log, int job)
{
    struct firn_buf step = {0};
    buf_printf(&step, "START J%02d ", job);
    const char *at = strstr(log, step.at);
    buf_release(&step);
    if (at == NULL)
        return -1;
    while (at > log && at[-1] != '\n')
        at--;
    return strtod(at, NULL);
}

/* The first job that starts later than the one submitted after it, or -1. */
static int first_overtaken(const struct firn_policy_def *policy,
                           const char *want, double gap_s)
{
    struct firn_buf text = equal_jobs(want, gap_s);
    struct scene *scene = scene_new(text.at, policy, NULL);
    const char *log = scene_play(scene, 1e6);
    int found = -1;
    for (int i = 0; i + 1 < NEQUAL && found < 0; i++) {
        double here_s = first_start_s(log, i);
        if (here_s < 0 || here_s > first_start_s(log, i + 1))
            found = i;
    }
    scene_free(scene);
    buf_release(&text);
    return found;
}

static const char *const equal_wants[] = {
    "wants 1 for 6",
    "wants 1 for 5000",
    "wants 2 for 900",
    "wants 4 for 900",
    "wants 1 from 1 to 4 for 900",
    "wants 2 from 1 to 4 for 5000",
    "wants 1 for 6 shares",
    "wants 1 for 5000 shares",
};

static const double equal_gaps[] = {0, 0.25, 60};

static void submission_order(const struct firn_policy_def *policy)
{
    for (size_t i = 0; i < sizeof equal_wants / sizeof *equal_wants; i++)
        for (size_t g = 0; g < sizeof equal_gaps / sizeof *equal_gaps; g++) {
            int job = first_overtaken(policy, equal_wants[i], equal_gaps[g]);
            if (job >= 0)
                fail_msg("%s: of jobs that all say '%s', submitted every %g s, "
                         "job %d starts after job %d",
                         policy->name, equal_wants[i], equal_gaps[g], job,
                         job + 1);
        }
}

static void equal_jobs_start_in_order_of_submission(void **unused)
{
    (void)unused;
    for_each(submission_order);
}

/* Serves waiting jobs; `is_wrong`: the youngest first. */
static int oldest_first(const struct firn_job *a, const struct firn_job *b,
                        const struct firn_view *view, const void *arg)
{
    (void)view;
    (void)arg;
    return is_wrong ? firn_cmp(b->spec.submit_s, a->spec.submit_s)
                    : firn_cmp(a->spec.submit_s, b->spec.submit_s);
}

static enum firn_status decide_by_age(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    const struct firn_job **queue = firn_view_sorted(view, oldest_first, NULL);
    (void)state;
    firn_plan_keep_all(plan);
    for (size_t i = 0; i < view->njobs; i++)
        if (queue[i]->state == FIRN_JOB_WAITING)
            firn_plan_give(plan, queue[i], queue[i]->spec.gpus);
    return FIRN_OK;
}

static void a_policy_that_starts_the_youngest_first_is_found_out(void **unused)
{
    (void)unused;
    const struct firn_policy_def lifo = {.size = sizeof lifo,
                                         .name = "lifo",
                                         .summary = "the youngest first",
                                         .decide = decide_by_age};
    is_wrong = true;
    assert_int_equal(first_overtaken(&lifo, "wants 1 for 6", 0.25), 4);
    is_wrong = false;
    assert_int_equal(first_overtaken(&lifo, "wants 1 for 6", 0.25), -1);
}

/* ---- how it is declared ---- */

static void expect_name(const char *name)
{
    assert_non_null(name);
    assert_true(strlen(name) > 0 && strlen(name) < FIRN_NAME_MAX);
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name))
        fail_msg("'%s' has other characters than a-z, 0-9 and -", name);
}

static void declaration(const struct firn_policy_def *policy)
{
    struct firn_error err = {0};
    assert_int_equal(policy->size, sizeof *policy);
    expect_name(policy->name);
    assert_non_null(policy->summary);
    assert_true(strlen(policy->summary) > 0);
    assert_null(strchr(policy->summary, '\n'));
    assert_non_null(policy->decide);
    if (only == NULL)
        assert_ptr_equal(firn_policy_find(policy->name, &err), policy);
    unsigned does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
                    FIRN_DOES_SHARE | FIRN_DOES_REJECT | FIRN_DOES_MERGE |
                    FIRN_DOES_REPLAN;
    assert_int_equal(policy->does & ~does, 0);
    unsigned needs = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST;
    assert_int_equal(policy->needs & ~needs, 0);
    assert_int_equal(policy->save == NULL, policy->load == NULL);
    if (policy->rank_counts_down)
        assert_non_null(policy->rank);
}

static void the_declaration_is_complete(void **unused)
{
    (void)unused;
    for_each(declaration);
}

static void every_policy_has_a_name_of_its_own_and_a_summary(void **unused)
{
    (void)unused;
    for_each(declaration);
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all[i]->name, all[j]->name);
}

static void option_table(const struct firn_policy_def *policy)
{
    if (policy->options == NULL)
        return;
    assert_true(policy->state_size > 0);
    void *state = mem_new(1, policy->state_size);
    firn_options_default(policy->options, state);
    for (const struct firn_option *o = policy->options; o->name; o++) {
        struct firn_error err = {0};
        struct firn_buf text = {0};
        expect_name(o->name);
        assert_non_null(o->help);
        assert_true(strlen(o->help) > 0);
        assert_null(strchr(o->help, '\n'));
        assert_true(o->offset < policy->state_size);
        if (firn_option_set(policy->options, state, policy->name, o->name,
                            o->fallback, &err) != FIRN_OK)
            fail_msg("%s", err.text);
        firn_option_describe(o, &text);
        assert_true(text.n > 0);
        buf_release(&text);
    }
    mem_free(state);
}

static void options_have_help_and_a_default_that_parses(void **unused)
{
    (void)unused;
    for_each(option_table);
}

static void an_unknown_policy_is_refused_with_the_nearest_name(void **unused)
{
    (void)unused;
    struct firn_error err = {0};
    assert_null(firn_policy_find("tiresia", &err));
    assert_int_equal(err.status, FIRN_ENOENT);
    assert_non_null(strstr(err.text, "did you mean 'tiresias'?"));
    assert_null(firn_policy_find("fifoo", &err));
    assert_non_null(strstr(err.text, "did you mean 'fifo'?"));
    assert_null(firn_policy_find("no such thing at all", &err));
    assert_non_null(strstr(err.text, "firn policies"));
    assert_null(firn_policy_find("", NULL));
    assert_null(firn_policy_find("FIFO", NULL));
}

/* ---- random scenes ---- */

static void random_drives(const struct firn_policy_def *policy)
{
    static const unsigned kinds[] = {0,
                                     SCENE_TYPES,
                                     SCENE_TYPES | SCENE_CHOOSY,
                                     SCENE_ELASTIC,
                                     SCENE_SHARING,
                                     SCENE_TYPES | SCENE_CHOOSY |
                                         SCENE_ELASTIC | SCENE_SHARING};
    for (int i = 0; i < trials(90); i++) {
        struct firn_buf log = drive(policy, (uint64_t)i, kinds[i % 6]);
        buf_release(&log);
    }
}

static void plans_on_random_scenes_are_valid_and_repeatable(void **unused)
{
    (void)unused;
    for_each(random_drives);
}

/* ---- jobs that keep to one type ---- */

/* Core would refuse a plan that mixes types for them: drive() fails then. */
static void drives_of_one_type(const struct firn_policy_def *policy)
{
    static const unsigned kinds[] = {0, SCENE_ELASTIC, SCENE_SHARING,
                                     SCENE_CHOOSY | SCENE_ELASTIC |
                                         SCENE_SHARING};
    for (int i = 0; i < trials(30); i++) {
        struct firn_buf log = drive(policy, (uint64_t)(5000 + i),
                                    SCENE_TYPES | SCENE_ALIKE | kinds[i % 4]);
        buf_release(&log);
    }
}

static void jobs_of_one_type_are_never_mixed(void **unused)
{
    (void)unused;
    for_each(drives_of_one_type);
}

/* ---- trainers that cannot do everything ---- */

static const unsigned able_kinds[] = {
    SCENE_MODELS, SCENE_MODELS | SCENE_ELASTIC, SCENE_MODELS | SCENE_SHARING,
    SCENE_TYPES | SCENE_MODELS | SCENE_ELASTIC | SCENE_SHARING};

static void able_drives(const struct firn_policy_def *policy)
{
    for (int i = 0; i < 12; i++) { /* all, so that each ability is used */
        struct firn_buf log =
            drive(policy, (uint64_t)(7000 + i), able_kinds[i % 4]);
        buf_release(&log);
    }
}

/* The plans that a policy makes when all of its jobs can do everything: a test
 * of what is left out would show nothing if nothing were ever used. */
static void plans_use_everything_that_trainers_can_do(void **unused)
{
    (void)unused;
    used = 0;
    for_each(able_drives);
    char words[FIRN_CAN_TEXT];
    /* No plan says how a job is resized or started: firnd lets processes join,
     * and starts them early, if it can. */
    firn_can_write(words, FIRN_CAN_ALL & ~(used | (unsigned)FIRN_CAN_JOIN |
                                           (unsigned)FIRN_CAN_AHEAD));
    assert_string_equal(words, "none");
}

static void unable_drives(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(40); i++) {
        struct firn_buf log = drive(policy, (uint64_t)(8000 + i),
                                    SCENE_UNABLE | able_kinds[i % 4]);
        buf_release(&log);
    }
}

static void no_plan_needs_what_a_trainer_cannot_do(void **unused)
{
    (void)unused;
    for_each(unable_drives);
}

static void same_run(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(10); i++) {
        unsigned kinds = i % 2 ? SCENE_TYPES | SCENE_CHOOSY : 0;
        struct firn_buf a = drive(policy, (uint64_t)(700 + i), kinds);
        struct firn_buf b = drive(policy, (uint64_t)(700 + i), kinds);
        assert_string_equal(a.at, b.at);
        buf_release(&a);
        buf_release(&b);
    }
}

static void the_same_scene_gives_the_same_steps(void **unused)
{
    (void)unused;
    for_each(same_run);
}

/* ---- corners ---- */

/* Longer than the interval of any policy that decides at intervals only. */
enum { LONG_S = 1000 };

static struct firn_policy_def corner_policy;

static struct scene *corner(const struct firn_policy_def *policy,
                            const char *text)
{
    corner_policy = stand_in(policy);
    /* Ymir waits for its rounds unless it is told not to. */
    return scene_new(text, &corner_policy, "ymir.between=yes");
}

static void no_jobs(const struct firn_policy_def *policy)
{
    struct scene *scene = corner(policy, "2 nodes x 4 gpus");
    scene_decide(scene, 0);
    assert_string_equal(scene_steps(scene), "");
    scene_free(scene);
}

static void all_down(const struct firn_policy_def *policy)
{
    struct scene *scene = corner(
        policy, "2 nodes x 4 gpus; n0 down; n1 down; A wants 1; B wants 8");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: -  B: -");
    scene_node(scene, 0, true);
    scene_decide(scene, LONG_S);
    assert_string_equal(scene_text(scene), "A: n0[0]  B: -");
    scene_node(scene, 0, false);
    scene_decide(scene, 2 * LONG_S);
    assert_string_equal(scene_text(scene), "A: -  B: -");
    scene_free(scene);
}

static void one_job(const struct firn_policy_def *policy)
{
    struct scene *scene = corner(policy, "2 nodes x 4 gpus; A wants 3");
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0-2]");
    scene_decide(scene, LONG_S);
    assert_string_equal(scene_steps(scene), ""); /* and stays there */
    scene_done(scene, "A");
    scene_decide(scene, 2 * LONG_S);
    assert_string_equal(scene_text(scene), "");
    scene_free(scene);
}

static void wants_everything(const struct firn_policy_def *policy)
{
    struct scene *scene =
        corner(policy, "2 nodes x 4 gpus; 1 node x 192 gpus; A wants 200");
    scene_decide(scene, 0);
    assert_int_equal(scene_job(scene, "A")->held.ngpus, 200);
    assert_int_equal(scene_state(scene)->map.free_gpus, 0);
    scene_submit(scene, "B wants 200");
    scene_decide(scene, LONG_S);
    scene_done(scene, "A");
    scene_decide(scene, 2 * LONG_S);
    assert_int_equal(scene_job(scene, "B")->held.ngpus, 200);
    scene_free(scene);
}

static void node_lost(const struct firn_policy_def *policy)
{
    struct scene *scene =
        corner(policy, "2 nodes x 4 gpus; A wants 4; B wants 4; C wants 8");
    scene_decide(scene, 0);
    scene_node(scene, 0, false);
    scene_decide(scene, LONG_S);
    const struct state *state = scene_state(scene);
    assert_int_equal(state->map.up_gpus, 4);
    assert_int_equal(state->map.free_gpus, 0); /* a job holds the rest */
    scene_node(scene, 1, false);
    scene_decide(scene, 2 * LONG_S);
    assert_string_equal(scene_text(scene), "A: -  B: -  C: -");
    scene_node(scene, 0, true);
    scene_node(scene, 1, true);
    scene_decide(scene, 3 * LONG_S);
    assert_int_equal(state->map.free_gpus, 0);
    scene_free(scene);
}

static void job_gone(const struct firn_policy_def *policy)
{
    struct scene *scene =
        corner(policy, "1 node x 4 gpus; A wants 2; B wants 4; C wants 2");
    scene_fail(scene, "A"); /* before it ever ran */
    scene_decide(scene, 0);
    scene_fail(scene, "B");
    scene_decide(scene, LONG_S);
    assert_int_equal(scene_job(scene, "C")->held.ngpus, 2);
    scene_fail(scene, "C");
    scene_decide(scene, 2 * LONG_S);
    assert_string_equal(scene_text(scene), "");
    assert_int_equal(scene_state(scene)->map.free_gpus, 4);
    scene_free(scene);
}

/* GPUs that are out of scheduling: no job gets them, and plans stay valid. */
static void some_blocked(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(20); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)(7000 + i));
        struct firn_buf text =
            scene_random(&rng, i % 2 ? SCENE_TYPES | SCENE_ELASTIC : 0);
        struct scene *scene = corner(policy, text.at);
        struct firn_alloc others = scene_alloc(scene, "n0[0]");
        assert_true(round_block(scene->round, &others));
        scene_play(scene, 1000);
        const struct state *state = scene_state(scene);
        int gpus = state->map.free_gpus;
        for (struct state_job *sj = state->first; sj; sj = sj->after)
            gpus += sj->job.held.ngpus;
        assert_int_equal(gpus, scene->cluster.ngpus - 1);
        round_unblock(scene->round, &others);
        buf_release(&text);
        scene_free(scene);
    }
}

/* Nodes that are barred to a job: it starts on another one, and never there. A
 * policy that names GPUs itself may leave it waiting, with a note. */
static void some_barred(const struct firn_policy_def *policy)
{
    struct scene *scene =
        corner(policy, "2 nodes x 4 gpus; A wants 4 barred n0; B wants 4");
    for (int i = 0; i < 10; i++) {
        scene_decide(scene, i * LONG_S);
        const struct firn_job *a = scene_job(scene, "A");
        if (a->held.nparts > 0)
            assert_int_equal(a->held.parts[0].node, 1);
    }
    bool is_named = strstr(scene_job(scene, "A")->note, "barred") != NULL;
    if ((scene_job(scene, "A")->held.ngpus != 4 && !is_named) ||
        scene_job(scene, "B")->held.ngpus != 4)
        fail_msg("%s: %s", policy->name, scene_text(scene));
    scene_free(scene);
}

/* With each node barred to a job, it never starts, and no policy breaks. */
static void all_barred(const struct firn_policy_def *policy)
{
    struct scene *scene =
        corner(policy, "2 nodes x 4 gpus; A wants 2 from 1 to 4 barred n0,n1; "
                       "B wants 4; C wants 4 from 2 to 8 barred n1");
    for (int i = 0; i < 10; i++) {
        scene_decide(scene, i * LONG_S);
        assert_int_equal(scene_job(scene, "A")->held.nparts, 0);
    }
    scene_free(scene);
}

static void every_policy_survives_corner_cases(void **unused)
{
    (void)unused;
    for_each(no_jobs);
    for_each(all_down);
    for_each(one_job);
    for_each(wants_everything);
    for_each(node_lost);
    for_each(job_gone);
    for_each(some_blocked);
    for_each(some_barred);
    for_each(all_barred);
}

/* ---- every job ends ---- */

/* To the end, but for jobs larger than each type: not every policy mixes. */
static void finish(const struct firn_policy_def *policy, int seed,
                   unsigned kinds)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = corner(policy, text.at);
    scene->restart_s = seed % 3;
    scene_play(scene, 1e6); /* days: a policy of rounds wakes for those left */
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        if (sj->job.spec.one_type || !(kinds & SCENE_TYPES))
            fail_msg("%s, seed %d: left over: %s of %s", policy->name, seed,
                     scene_text(scene), text.at);
    expect_declared(scene, (uint64_t)seed);
    buf_release(&text);
    scene_free(scene);
}

static void all_finish(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(60); i++)
        finish(policy, 3000 + i, 0);
}

static void all_of_one_type_finish(const struct firn_policy_def *policy)
{
    for (int i = 0; i < trials(30); i++)
        finish(policy, 6000 + i,
               SCENE_TYPES | SCENE_ALIKE | (i % 2 ? SCENE_ELASTIC : 0));
}

static void every_job_that_fits_is_run_to_its_end(void **unused)
{
    (void)unused;
    for_each(all_finish);
    for_each(all_of_one_type_finish);
}

/* For a policy that another program brings (build/tests/conformance.so): the
 * number of cases that failed. */
FIRN_API int conformance_of(const struct firn_policy_def *policy);
int conformance_of(const struct firn_policy_def *policy)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_declaration_is_complete),
        cmocka_unit_test(plans_on_random_scenes_are_valid_and_repeatable),
        cmocka_unit_test(jobs_of_one_type_are_never_mixed),
        cmocka_unit_test(no_plan_needs_what_a_trainer_cannot_do),
        cmocka_unit_test(the_same_scene_gives_the_same_steps),
        cmocka_unit_test(every_policy_survives_corner_cases),
        cmocka_unit_test(every_job_that_fits_is_run_to_its_end),
        cmocka_unit_test(a_long_runner_yields_under_each_policy_that_ages),
        cmocka_unit_test(equal_jobs_start_in_order_of_submission),
    };
    only = policy;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    only = NULL;
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_has_a_name_of_its_own_and_a_summary),
        cmocka_unit_test(options_have_help_and_a_default_that_parses),
        cmocka_unit_test(an_unknown_policy_is_refused_with_the_nearest_name),
        cmocka_unit_test(plans_on_random_scenes_are_valid_and_repeatable),
        cmocka_unit_test(jobs_of_one_type_are_never_mixed),
        cmocka_unit_test(plans_use_everything_that_trainers_can_do),
        cmocka_unit_test(no_plan_needs_what_a_trainer_cannot_do),
        cmocka_unit_test(the_same_scene_gives_the_same_steps),
        cmocka_unit_test(every_policy_survives_corner_cases),
        cmocka_unit_test(every_job_that_fits_is_run_to_its_end),
        cmocka_unit_test(a_long_runner_yields_under_each_policy_that_ages),
        cmocka_unit_test(a_policy_that_does_not_age_running_jobs_is_found_out),
        cmocka_unit_test(equal_jobs_start_in_order_of_submission),
        cmocka_unit_test(a_policy_that_starts_the_youngest_first_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
