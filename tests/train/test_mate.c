/* test_mate.c - two jobs in one training: the same bits, whatever happens.
 *
 * The tasks are vectors pulled towards numbers drawn by thread; they have their
 * first half in common. Runs are compared by the last checkpoints of both jobs.
 */
#include "base/rng.h"
#include "lib/folder.h"
#include "lib/forks.h"
#include <firn/mate.h>
#include <firn/train.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 40, COMMON = 20, STEPS = 5 };

struct task {
    float weight[N], mean[N], grad[N];
    struct rng rng;
    struct firn_train *train;
};

struct run {
    char name[32];
    int nprocs, nepochs[2], nthreads[2];
    int stop_at, kill_at; /* steps of both; negative: no */
    uint64_t finish_at;   /* steps of the first, which has then met its
                             target; 0: never */
    int every;
    bool is_alone; /* the second job by itself */
    int want;
};

static struct run run_of(const char *name, int nprocs)
{
    struct run run = {.nprocs = nprocs,
                      .nepochs = {4, 6},
                      .nthreads = {3, 4},
                      .stop_at = -1,
                      .kill_at = -1};
    snprintf(run.name, sizeof run.name, "%s", name);
    return run;
}

static void folder_of(const struct run *run, int job, char *out, size_t n)
{
    snprintf(out, n, "%s/%s/%d", folder_path(), run->name, job);
}

/* --- a process ----------------------------------------------------------- */

static enum firn_status open_task(struct task *task, const struct run *run,
                                  int job, const struct firn_mate *as,
                                  struct firn_error *err)
{
    static const size_t layer_start[] = {0, COMMON, N};
    char dir[512];
    char name[16];
    folder_of(run, job, dir, sizeof dir);
    snprintf(name, sizeof name, "%d", job);
    struct firn_train_config c = {.name = as != NULL ? NULL : name,
                                  .nthreads = run->nthreads[job - 1],
                                  .nlayers = 2,
                                  .layer_start = layer_start,
                                  .nepochs = (uint64_t)run->nepochs[job - 1],
                                  .steps_per_epoch = STEPS,
                                  .dir = dir,
                                  .every_steps = (uint64_t)run->every,
                                  .as = as};
    FIRN_TRY(firn_train_open(&task->train, &c, err));
    struct firn_threads *threads = firn_train_threads(task->train);
    FIRN_TRY(
        firn_threads_part(threads, "rng", &task->rng, sizeof task->rng, err));
    for (int v = 0; v < run->nthreads[job - 1]; v++) {
        size_t n = 0;
        struct rng *rng = firn_threads_stored(threads, v, "rng", &n);
        if (rng != NULL)
            rng_seed(rng, (uint64_t)(100 * job + v));
    }
    return firn_train_shared(task->train, "weights", FIRN_CKPT_F32,
                             task->weight, sizeof task->weight, err);
}

static void step(struct task *task)
{
    while (firn_train_enter(task->train) >= 0) {
        for (size_t i = 0; i < N; i++)
            task->grad[i] = task->weight[i] - (float)rng_unit(&task->rng);
        firn_train_leave(task->train, task->grad, 0);
    }
    firn_train_mean(task->train, task->mean);
    for (size_t i = 0; i < N; i++)
        task->weight[i] -= 0.1F * task->mean[i];
}

static void train(struct task tasks[2], struct firn_pair *pair,
                  const struct run *run, int rank)
{
    int which;
    while ((which = firn_pair_go(pair)) >= 0) {
        int at = 0;
        for (int i = 0; i < 2; i++)
            if (tasks[i].train != NULL)
                at += (int)firn_train_step(tasks[i].train);
        if (rank == run->nprocs - 1 && at == run->stop_at)
            raise(SIGUSR1);
        if (rank == 0 && at == run->kill_at)
            raise(SIGKILL);
        step(&tasks[which]);
        if (which == 0 && run->finish_at > 0 &&
            firn_train_step(tasks[0].train) == run->finish_at) {
            if (getenv("FIRN_TARGET_METRIC") != NULL) {
                firn_train_metric(tasks[0].train, 0.95);
                firn_train_metric(tasks[1].train, 0.95); /* no target of its */
            } else
                firn_train_finish(tasks[0].train);
        }
        if (firn_pair_runs(pair, 1 - which))
            memcpy(tasks[1 - which].weight, tasks[which].weight,
                   COMMON * sizeof(float));
    }
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int body(int rank, void *arg)
{
    const struct run *run = arg;
    struct task tasks[2] = {{.weight = {0}}};
    struct firn_error err = {0};
    struct firn_pair *pair = NULL;
    struct firn_mate mate = {0};
    char dir[512];
    bool resumed = false;
    set_number("RANK", rank);
    set_number("WORLD_SIZE", run->nprocs);
    set_number("FIRN_JOB", (int)getppid());
    folder_of(run, 2, dir, sizeof dir);
    setenv("FIRN_MATE_JOB", "2", 1);
    setenv("FIRN_MATE_DIR", dir, 1);
    FORKS_CHECK(firn_mate_find(&mate));
    enum firn_status status =
        open_task(&tasks[0], run, run->is_alone ? 2 : 1, NULL, &err);
    if (status == FIRN_OK && !run->is_alone)
        status = open_task(&tasks[1], run, 2, &mate, &err);
    struct firn_train *const both[] = {tasks[0].train, tasks[1].train};
    if (status == FIRN_OK)
        status = firn_pair_open(&pair, both, 7, &err);
    if (status == FIRN_OK)
        status = firn_pair_resume(pair, &resumed, &err);
    if (status != FIRN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    train(tasks, pair, run, rank);
    firn_mate_free(&mate);
    return firn_pair_close(pair, &err);
}

static void go(struct run *run)
{
    int status[8];
    char dir[512];
    snprintf(dir, sizeof dir, "%s/%s", folder_path(), run->name);
    forks_run(run->nprocs, body, run, status);
    for (int i = 0; i < run->nprocs; i++)
        assert_int_equal(status[i], run->want);
}

/* --- comparing ----------------------------------------------------------- */

static struct firn_ckpt *last_of(const struct run *run, int job)
{
    char dir[512];
    char name[16];
    struct firn_ckpt *ckpt = NULL;
    struct firn_error refused = {0};
    struct firn_error err = {0};
    folder_of(run, job, dir, sizeof dir);
    snprintf(name, sizeof name, "%d", job);
    if (firn_ckpt_open_newest(&ckpt, dir, name, &refused, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return ckpt;
}

/* All but who was where when the other ended. */
static void tell(void *arg, const struct firn_ckpt_difference *d)
{
    if (strcmp(d->name, "train/both") != 0)
        ++*(int *)arg;
}

static int differences(const struct run *a, const struct run *b, int job)
{
    int n = 0;
    struct firn_ckpt *left = last_of(a, job);
    struct firn_ckpt *right = last_of(b, job);
    firn_ckpt_compare(left, right, tell, &n);
    firn_ckpt_close(left);
    firn_ckpt_close(right);
    return n;
}

static void assert_same(const struct run *a, const struct run *b)
{
    for (int job = 1; job <= 2; job++)
        assert_int_equal(differences(a, b, job), 0);
}

static struct run reference(void)
{
    struct run run = run_of("reference", 1);
    go(&run);
    return run;
}

/* --- cases --------------------------------------------------------------- */

static void both_are_trained_to_their_own_end(void **state)
{
    (void)state;
    struct run run = reference();
    struct firn_ckpt *a = last_of(&run, 1);
    struct firn_ckpt *b = last_of(&run, 2);
    assert_int_equal(firn_ckpt_step(a), 4 * STEPS);
    assert_int_equal(firn_ckpt_step(b), 6 * STEPS);
    float alone[N];
    float together[N];
    struct firn_error err;
    assert_int_equal(firn_ckpt_take(b, "weights", FIRN_CKPT_F32, together,
                                    sizeof together, &err),
                     FIRN_OK);
    firn_ckpt_close(a);
    firn_ckpt_close(b);
    struct run other = run_of("alone", 1);
    other.is_alone = true;
    go(&other);
    b = last_of(&other, 2);
    assert_int_equal(
        firn_ckpt_take(b, "weights", FIRN_CKPT_F32, alone, sizeof alone, &err),
        FIRN_OK);
    firn_ckpt_close(b);
    /* The common half has learnt from both; the rest is its own. */
    assert_memory_not_equal(alone, together, COMMON * sizeof(float));
    assert_memory_equal(alone + COMMON, together + COMMON,
                        (N - COMMON) * sizeof(float));
}

static void every_number_of_processes_trains_the_same_bits(void **state)
{
    (void)state;
    struct run one = reference();
    for (int p = 2; p <= 3; p++) {
        struct run run = run_of(p == 2 ? "two" : "three", p);
        go(&run);
        assert_same(&one, &run);
    }
}

static void a_stopped_pair_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    struct run one = reference();
    struct run run = run_of("stopped", 0);
    static const int stops[] = {3, 17, 44, -1};
    for (int i = 0; i < 4; i++) {
        run.nprocs = 1 + i % 3;
        run.stop_at = stops[i];
        run.want = stops[i] >= 0 ? FIRN_EXIT_CHECKPOINT : 0;
        go(&run);
    }
    assert_same(&one, &run);
}

static void a_killed_pair_goes_on_from_checkpoints_of_one_moment(void **state)
{
    (void)state;
    struct run one = reference();
    struct run run = run_of("killed", 1);
    run.every = 4;
    static const int kills[] = {9, 21, 37};
    for (int i = 0; i < 3; i++) {
        run.kill_at = kills[i];
        run.want = 128 + SIGKILL;
        go(&run);
    }
    run.kill_at = -1;
    run.want = 0;
    go(&run);
    assert_same(&one, &run);
}

/* As if killed between the checkpoints of the two. */
static void a_checkpoint_whose_mate_is_missing_is_passed_over(void **state)
{
    (void)state;
    struct run one = reference();
    for (int job = 1; job <= 2; job++) {
        struct run run = run_of(job == 1 ? "without-1" : "without-2", 1);
        char path[600];
        run.every = 3;
        run.kill_at = 30;
        run.want = 128 + SIGKILL;
        go(&run);
        struct firn_ckpt *last = last_of(&run, job);
        unsigned long long at = firn_ckpt_step(last);
        firn_ckpt_close(last);
        folder_of(&run, job, path, sizeof path);
        size_t n = strlen(path);
        snprintf(path + n, sizeof path - n, "/%d-%012llu.ckpt", job, at);
        assert_int_equal(unlink(path), 0);
        run.kill_at = -1;
        run.want = 0;
        go(&run);
        assert_same(&one, &run);
    }
}

static void a_job_goes_on_alone_from_its_own_checkpoint(void **state)
{
    (void)state;
    struct run run = run_of("parted", 2);
    run.stop_at = 20;
    run.want = FIRN_EXIT_CHECKPOINT;
    go(&run);
    struct firn_ckpt *b = last_of(&run, 2);
    uint64_t before = firn_ckpt_step(b);
    firn_ckpt_close(b);
    assert_true(before > 0 && before < 6 * STEPS);
    run.is_alone = true;
    run.stop_at = -1;
    run.want = 0;
    go(&run);
    b = last_of(&run, 2);
    assert_int_equal(firn_ckpt_step(b), 6 * STEPS);
    firn_ckpt_close(b);
}

static void meet_the_target(const char *first, const char *second)
{
    struct run run = run_of(first, 2);
    run.finish_at = 7;
    run.stop_at = 30;
    run.want = FIRN_EXIT_CHECKPOINT;
    go(&run);
    struct run kept = run_of(second, 2);
    kept.finish_at = 7;
    go(&kept);
    run.stop_at = -1;
    run.finish_at = 0; /* that it is done is in its checkpoint */
    run.want = 0;
    go(&run);
    assert_same(&kept, &run);
    struct firn_ckpt *a = last_of(&run, 1);
    struct firn_ckpt *b = last_of(&run, 2);
    assert_int_equal(firn_ckpt_step(a), 7);
    assert_int_equal(firn_ckpt_step(b), 6 * STEPS);
    firn_ckpt_close(a);
    firn_ckpt_close(b);
}

static void one_that_met_its_target_is_done_and_the_other_goes_on(void **state)
{
    (void)state;
    meet_the_target("finished", "kept");
}

/* As if the trainer had said so itself, at the same step. */
static void a_metric_that_meets_the_target_ends_the_task(void **state)
{
    (void)state;
    setenv("FIRN_TARGET_METRIC", "0.9", 1);
    meet_the_target("reached", "reached-kept");
    unsetenv("FIRN_TARGET_METRIC");
}

static void the_environment_names_the_mate(void **state)
{
    (void)state;
    struct firn_mate mate = {0};
    unsetenv("FIRN_MATE_JOB");
    assert_false(firn_mate_find(&mate));
    setenv("FIRN_MATE_JOB", "12", 1);
    setenv("FIRN_MATE_EPOCH", "3", 1);
    setenv("FIRN_MATE_THREADS", "x", 1);
    setenv("FIRN_MATE_FREEZE_MAX", "0.4", 1);
    setenv("FIRN_MATE_ARGV",
           "prog\x1f--text\x1f\x1f"
           "a b",
           1);
    assert_true(firn_mate_find(&mate));
    assert_string_equal(mate.job, "12");
    assert_string_equal(mate.token, "");
    assert_int_equal(mate.attempt, 3);
    assert_int_equal(mate.nthreads, 0);
    assert_true(mate.frozen_max == 0.4);
    assert_int_equal(mate.argc, 4);
    assert_string_equal(mate.argv[1], "--text");
    assert_string_equal(mate.argv[2], "");
    assert_string_equal(mate.argv[3], "a b");
    assert_null(mate.argv[4]);
    firn_mate_free(&mate);
    unsetenv("FIRN_MATE_JOB");
    unsetenv("FIRN_MATE_EPOCH");
    unsetenv("FIRN_MATE_THREADS");
    unsetenv("FIRN_MATE_FREEZE_MAX");
    unsetenv("FIRN_MATE_ARGV");
}

static void weights_of_an_ended_job_are_begun_with(void **state)
{
    (void)state;
    struct run run = reference();
    struct run next = run_of("next", 1);
    struct task task = {.weight = {0}};
    struct firn_error err = {0};
    char dir[512];
    bool began = true;
    assert_int_equal(open_task(&task, &next, 1, NULL, &err), FIRN_OK);
    assert_int_equal(
        firn_train_begin_after(task.train, "weights", &began, &err), FIRN_OK);
    assert_false(began);
    folder_of(&run, 2, dir, sizeof dir);
    setenv("FIRN_AFTER", dir, 1);
    setenv("FIRN_AFTER_JOB", "9", 1); /* never was */
    assert_int_equal(
        firn_train_begin_after(task.train, "weights", &began, &err), FIRN_OK);
    assert_false(began);
    setenv("FIRN_AFTER_JOB", "2", 1);
    assert_int_equal(
        firn_train_begin_after(task.train, "weights", &began, &err), FIRN_OK);
    assert_true(began);
    float want[N];
    struct firn_ckpt *ckpt = last_of(&run, 2);
    assert_int_equal(
        firn_ckpt_take(ckpt, "weights", FIRN_CKPT_F32, want, sizeof want, &err),
        FIRN_OK);
    firn_ckpt_close(ckpt);
    assert_memory_equal(task.weight, want, sizeof want);
    assert_int_equal(firn_train_begin_after(task.train, "none", &began, &err),
                     FIRN_EINVAL);
    unsetenv("FIRN_AFTER");
    unsetenv("FIRN_AFTER_JOB");
    firn_train_close(task.train, NULL);
}

/* --- folders ------------------------------------------------------------- */

static int remove_all(void **state)
{
    folder_empty(folder_path());
    return folder_remove(state);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, remove_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(both_are_trained_to_their_own_end),
        CASE(every_number_of_processes_trains_the_same_bits),
        CASE(a_stopped_pair_goes_on_with_the_same_bits),
        CASE(a_killed_pair_goes_on_from_checkpoints_of_one_moment),
        CASE(a_checkpoint_whose_mate_is_missing_is_passed_over),
        CASE(a_job_goes_on_alone_from_its_own_checkpoint),
        CASE(one_that_met_its_target_is_done_and_the_other_goes_on),
        CASE(a_metric_that_meets_the_target_ends_the_task),
        CASE(the_environment_names_the_mate),
        CASE(weights_of_an_ended_job_are_begun_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
