/* test_train.c - training sessions that must end in the same bits.
 *
 * By a toy job (lib/toyjob.h) whose runs are compared by their last
 * checkpoints, section by section.
 */
#include "base/rng.h"
#include "lib/forks.h"
#include "lib/toyjob.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Under a checker fewer scenes are enough. */
static bool is_quick(void)
{
    return getenv("FIRN_QUICK") != NULL;
}

static void assert_same(const struct toyjob *a, const struct toyjob *b)
{
    assert_string_equal(toyjob_differences(a, b, false).text, "");
}

/* All but what is measured: a run that need not decide does not measure. */
static void assert_same_training(const struct toyjob *a, const struct toyjob *b)
{
    struct toyjob_names names = toyjob_differences(a, b, true);
    for (char *at = names.text, *end; (end = strchr(at, ' ')) != NULL;
         at = end + 1) {
        *end = '\0';
        if (strstr(at, "firn-squares") == NULL &&
            strcmp(at, "train/meansq") != 0 &&
            strcmp(at, "train/progress") != 0)
            fail_msg("%s differs", at);
    }
}

/* One run that was never interrupted, made once. */
static const struct toyjob *reference(void)
{
    static struct toyjob run;
    if (run.nprocs == 0) {
        run = toyjob_of("reference", TOY_THREADS);
        toyjob_go(&run, 0);
    }
    return &run;
}

/* --- equal --------------------------------------------------------------- */

static void every_number_of_processes_trains_the_same_bits(void **state)
{
    (void)state;
    for (int p = 1; p <= TOY_THREADS; p += is_quick() ? 2 : 1) {
        struct toyjob run = toyjob_of("plain", p);
        toyjob_go(&run, 0);
        assert_same(reference(), &run);
        struct toyjob chain = toyjob_of("chain", p);
        chain.chain = true;
        toyjob_go(&chain, 0);
        assert_same(reference(), &chain);
    }
}

static void a_scrambled_placement_trains_the_same_bits(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("scrambled", 3);
    run.owner = (int[]){2, 0, 1, 0};
    toyjob_go(&run, 0);
    assert_same(reference(), &run);
}

static void eight_threads_agree_on_three_and_five_processes(void **state)
{
    (void)state;
    struct toyjob three = toyjob_of("three", 3), five = toyjob_of("five", 5);
    three.nthreads = five.nthreads = 8;
    three.owner = (int[]){1, 2, 0, 0, 2, 1, 0, 2};
    toyjob_go(&three, 0);
    toyjob_go(&five, 0);
    assert_same(&three, &five);
}

static void several_hosts_train_the_same_bits(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("hosts", 4);
    run.host_procs = 2;
    run.every = 7;
    toyjob_go(&run, 0);
    assert_same(reference(), &run);
    struct toyjob chain = toyjob_of("hosts-chain", 3);
    chain.host_procs = 2;
    chain.chain = true;
    chain.stop_at = 8;
    chain.victim = 2;
    toyjob_go(&chain, FIRN_EXIT_CHECKPOINT);
    chain.stop_at = -1;
    toyjob_go(&chain, 0);
    assert_same(reference(), &chain);
}

static void a_job_is_stopped_and_goes_on_with_other_processes(void **state)
{
    (void)state;
    static const int procs[] = {4, 2, 1, 3}, stop[] = {5, 11, 12, -1};
    struct toyjob run = toyjob_of("resized", 0);
    for (int i = 0; i < 4; i++) {
        run.nprocs = procs[i];
        run.stop_at = stop[i];
        run.victim = procs[i] - 1; /* any process may get the signal */
        toyjob_go(&run, stop[i] >= 0 ? FIRN_EXIT_CHECKPOINT : 0);
    }
    assert_same(reference(), &run);
}

static void a_killed_job_goes_on_from_its_last_checkpoint(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("killed", 3);
    int status[8];
    run.every = 4;
    run.kill_at = 10;
    run.victim = 1;
    toyjob_run(&run, status);
    assert_int_equal(status[1], 128 + SIGKILL);
    assert_int_equal(status[0], 1);
    assert_int_equal(status[2], 1);
    struct firn_ckpt *ckpt = toyjob_last(&run);
    assert_int_equal(firn_ckpt_step(ckpt), 8);
    firn_ckpt_close(ckpt);
    run.nprocs = 2;
    run.kill_at = -1;
    toyjob_go(&run, 0);
    assert_same(reference(), &run);
}

/* Killed within step 9, with this interval; the step it can go on from. */
static uint64_t kept_step(const char *every_s)
{
    struct toyjob run = toyjob_of("interval", 2);
    struct firn_ckpt *ckpt = NULL;
    struct firn_error refused, err;
    int status[8];
    uint64_t step = 0;
    run.every_s = every_s;
    run.kill_at = 9;
    toyjob_run(&run, status);
    assert_int_equal(status[0], 128 + SIGKILL);
    if (firn_ckpt_open_newest(&ckpt, run.dir, "toy", &refused, &err) == FIRN_OK)
        step = firn_ckpt_step(ckpt);
    firn_ckpt_close(ckpt);
    return step;
}

static void checkpoints_are_written_as_time_goes_by(void **state)
{
    (void)state;
    assert_int_equal(kept_step("1e-9"), 9); /* always over */
    assert_int_equal(kept_step("1e9"), 0);
}

static void a_damaged_checkpoint_is_passed_over(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("damaged", 2);
    char path[512];
    run.every = 4;
    run.stop_at = 9;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    snprintf(path, sizeof path, "%s/toy-%012d.ckpt", run.dir, 10);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 700, SEEK_SET), 0);
    assert_int_equal(fputc(0x55, file), 0x55);
    fclose(file);
    run.stop_at = -1;
    toyjob_go(&run, 0);
    assert_same(reference(), &run);
}

static void many_random_resizes_change_nothing(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = 60;
    rng_seed(&rng, seed);
    print_message("seed %d\n", (int)seed);
    int want = is_quick() ? 3 : 50, nresizes = 0;
    while (nresizes < want) {
        struct toyjob run = toyjob_of("random", 1);
        for (int step = 0;; nresizes++) {
            int owner[TOY_THREADS];
            run.nprocs = 1 + (int)rng_below(&rng, TOY_THREADS);
            for (int v = 0; v < TOY_THREADS; v++)
                owner[v] = v < run.nprocs
                               ? v
                               : (int)rng_below(&rng, (uint64_t)run.nprocs);
            run.owner = owner;
            run.victim = (int)rng_below(&rng, (uint64_t)run.nprocs);
            step += (int)rng_below(&rng, is_quick() ? 20 : 2);
            run.stop_at = step < TOY_EPOCHS * TOY_STEPS - 1 ? step : -1;
            toyjob_go(&run, run.stop_at >= 0 ? FIRN_EXIT_CHECKPOINT : 0);
            if (run.stop_at < 0)
                break;
            step++;
        }
        assert_same(reference(), &run);
    }
    print_message("%d resizes\n", nresizes);
}

/* --- the failing twins --------------------------------------------------- */

/* Must differ between one process and two, and in these sections. */
static void assert_breaks(int ablation, const char *where)
{
    struct toyjob one = toyjob_of("one", 1), two = toyjob_of("two", 2);
    one.ablation = two.ablation = ablation;
    toyjob_go(&one, 0);
    toyjob_go(&two, 0);
    struct toyjob_names names = toyjob_differences(&one, &two, false);
    if (strstr(names.text, where) == NULL)
        print_message("only %sdiffer\n", names.text);
    assert_non_null(strstr(names.text, where));
}

static void leaving_a_part_out_changes_the_bits_of_that_part(void **state)
{
    (void)state;
    assert_breaks(TOY_WITHOUT_RNG, "weights");
    assert_breaks(TOY_SAMPLER_BY_PROCESS, "thread/2/buffers");
    assert_breaks(TOY_LOCAL_SUM, "weights");
    assert_breaks(TOY_WITHOUT_BUFFERS, "stray");
    struct toyjob one = toyjob_of("one", 1), two = toyjob_of("two", 2);
    one.ablation = two.ablation =
        TOY_WITHOUT_BUFFERS; /* weights do not notice */
    toyjob_go(&one, 0);
    toyjob_go(&two, 0);
    assert_string_equal(toyjob_differences(&one, &two, false).text, "stray ");
}

/* --- freezing and passes ------------------------------------------------- */

static void frozen_weights_rest_and_owed_steps_are_done(void **state)
{
    (void)state;
    struct toyjob one = toyjob_of("frozen-one", 1),
                  three = toyjob_of("frozen", 3);
    one.rule = three.rule = FIRN_FREEZER_USER;
    one.watch_frozen = three.watch_frozen = true;
    toyjob_go(&one, 0);
    three.stop_at = 14; /* in the middle of an epoch */
    toyjob_go(&three, FIRN_EXIT_CHECKPOINT);
    three.stop_at = -1;
    three.nprocs = 2;
    toyjob_go(&three, 0);
    assert_true(toyjob_last_step(&one) > TOY_EPOCHS * TOY_STEPS);
    assert_string_equal(toyjob_differences(&one, &three, true).text, "");
}

/* One thread: variance by successive steps, also across a stop. */
static void a_single_thread_freezes_the_same_after_a_stop(void **state)
{
    (void)state;
    struct toyjob once = toyjob_of("single", 1),
                  twice = toyjob_of("stopped", 1);
    once.nthreads = twice.nthreads = 1;
    once.rule = twice.rule = FIRN_FREEZER_USER;
    toyjob_go(&once, 0);
    twice.stop_at = 9;
    toyjob_go(&twice, FIRN_EXIT_CHECKPOINT);
    twice.stop_at = -1;
    toyjob_go(&twice, 0);
    assert_true(toyjob_last_step(&once) > TOY_EPOCHS * TOY_STEPS);
    assert_string_equal(toyjob_differences(&once, &twice, true).text, "");
}

static void a_replay_of_the_log_gives_the_same_bits(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct toyjob run = toyjob_of("decided", 2), again = toyjob_of("again", 3);
    run.rule = FIRN_FREEZER_USER;
    toyjob_go(&run, 0);
    again.nreplay = toyjob_log(&run, log, 32);
    again.replay = log;
    assert_true(again.nreplay >= 3);
    toyjob_go(&again, 0);
    assert_same_training(&run, &again);
    struct toyjob other = toyjob_of("other", 3);
    log[1].value = 0;
    log[1].psi = 1;
    other.replay = log;
    other.nreplay = again.nreplay;
    toyjob_go(&other, 0);
    assert_int_not_equal(toyjob_last_step(&run), toyjob_last_step(&other));
}

static void measured_decisions_survive_a_kill(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct toyjob run = toyjob_of("penalty", 2), again = toyjob_of("replay", 1);
    int status[8];
    run.rule = FIRN_FREEZER_PENALTY;
    run.kill_at = 15;
    toyjob_run(&run, status);
    assert_int_equal(status[0], 128 + SIGKILL);
    run.kill_at = -1;
    run.nprocs = 3;
    toyjob_go(&run, 0);
    again.nreplay = toyjob_log(&run, log, 32);
    again.replay = log;
    toyjob_go(&again, 0);
    assert_same_training(&run, &again);
}

static void passes_are_exposed_and_kept(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct toyjob run = toyjob_of("passes", 2);
    run.passes = 3;
    run.stop_at = 2;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    run.stop_at = -1;
    toyjob_go(&run, 0);
    assert_int_equal(toyjob_log(&run, log, 32), 1);
    assert_int_equal(log[0].kind, FIRN_DECIDED_PASSES);
    assert_int_equal(log[0].value, 3);
}

static void orders_are_obeyed_logged_and_can_be_replayed(void **state)
{
    (void)state;
    if (!firn_reporter_can_send())
        skip();
    struct firn_decision log[32];
    struct toyjob run = toyjob_of("ordered", 2);
    struct toyjob again = toyjob_of("obeyed", 3);
    int pid = toyjob_scheduler("{\"nfrozen\":2,\"passes\":2}", &run.url_port);
    toyjob_go(&run, 0);
    toyjob_scheduler_end(pid);
    again.nreplay = toyjob_log(&run, log, 32);
    again.replay = log;
    assert_true(again.nreplay >= 2);
    assert_int_equal(log[0].kind, FIRN_DECIDED_FROZEN);
    assert_int_equal(log[0].value, 2);
    assert_int_equal(log[1].kind, FIRN_DECIDED_PASSES);
    toyjob_go(&again, 0);
    assert_same_training(&run, &again);
    assert_non_null(
        strstr(toyjob_differences(reference(), &again, true).text, "weights"));
}

/* The most that was ever frozen, by the log. */
static uint32_t most_frozen(const struct toyjob *job)
{
    struct firn_decision log[32];
    uint32_t most = 0;
    size_t n = toyjob_log(job, log, 32);
    for (size_t i = 0; i < n; i++)
        if (log[i].kind == FIRN_DECIDED_FROZEN && log[i].value > most)
            most = log[i].value;
    return most;
}

static void an_order_beyond_the_limit_is_cut_off_there(void **state)
{
    (void)state;
    if (!firn_reporter_can_send())
        skip();
    struct toyjob run = toyjob_of("ordered", 2);
    run.freeze_max = "0.3"; /* one layer of five */
    run.watch_frozen = true;
    int pid = toyjob_scheduler("{\"nfrozen\":2,\"passes\":2}", &run.url_port);
    toyjob_go(&run, 0);
    toyjob_scheduler_end(pid);
    assert_int_equal(most_frozen(&run), 1);
}

static void the_environments_limit_holds_for_the_programs_rule(void **state)
{
    (void)state;
    struct toyjob free = toyjob_of("free", 2), bound = toyjob_of("bound", 2);
    free.rule = bound.rule = FIRN_FREEZER_USER;
    bound.freeze_max = "0.2";
    bound.watch_frozen = true;
    toyjob_go(&free, 0);
    toyjob_go(&bound, 0);
    assert_int_equal(most_frozen(&free), 2);
    assert_int_equal(most_frozen(&bound), 1);
}

/* Resumed under a lower limit it thaws at once, by a decision of the log: a
 * replay has the same bits. */
static void a_resumed_job_with_too_many_frozen_layers_thaws(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct toyjob run = toyjob_of("thaws", 2), again = toyjob_of("replays", 3);
    run.rule = FIRN_FREEZER_USER; /* two from the second epoch on */
    run.stop_at = 15;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    assert_int_equal(most_frozen(&run), 2);
    size_t before = toyjob_log(&run, log, 32);
    uint64_t step = toyjob_last_step(&run);
    run.stop_at = -1;
    run.nprocs = 3;
    run.freeze_max = "0.2";
    toyjob_go(&run, 0);
    again.nreplay = toyjob_log(&run, log, 32);
    assert_true(again.nreplay > before);
    assert_int_equal(log[before].kind, FIRN_DECIDED_FROZEN);
    assert_int_equal(log[before].value, 1);
    assert_int_equal(log[before].step, step);
    for (size_t i = before; i < again.nreplay; i++)
        assert_true(log[i].value <= 1);
    again.replay = log;
    again.freeze_max = "0.2"; /* a replay is beyond it where the log is */
    toyjob_go(&again, 0);
    assert_same_training(&run, &again);
}

static void an_order_to_stop_is_obeyed(void **state)
{
    (void)state;
    if (!firn_reporter_can_send())
        skip();
    struct toyjob run = toyjob_of("ordered", 2);
    int pid = toyjob_scheduler("{\"stop\":1}", &run.url_port);
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    toyjob_scheduler_end(pid);
    run.url_port = 0;
    toyjob_go(&run, 0);
    assert_same_training(reference(), &run);
}

/* --- what is refused ----------------------------------------------------- */

struct wrong {
    const char *name, *value;
};

static int wrong_body(int rank, void *arg)
{
    const struct wrong *wrong = arg;
    static const size_t layer_start[] = {0, 10};
    struct firn_train_config c = {.nlayers = 1,
                                  .layer_start = layer_start,
                                  .nepochs = 1,
                                  .steps_per_epoch = 1};
    struct firn_train *train = NULL;
    struct firn_error err = {0};
    setenv(wrong->name, wrong->value, 1);
    FORKS_CHECK(firn_train_open(&train, &c, &err) == FIRN_EINVAL);
    FORKS_CHECK(strstr(err.text, wrong->name) != NULL);
    FORKS_CHECK(train == NULL && rank == 0);
    return 0;
}

static void a_wrong_environment_is_named(void **state)
{
    (void)state;
    struct wrong wrong[] = {
        {"WORLD_SIZE", "0"},        {"RANK", "1"},
        {"LOCAL_RANK", "x"},        {"MASTER_PORT", "70000"},
        {"FIRN_THREADS", "4x"},     {"FIRN_LAYOUT", "0,0"},
        {"FIRN_FREEZE", "maybe"},   {"FIRN_PASSES", "-1"},
        {"FIRN_EPOCH", "soon"},     {"FIRN_FREEZE_MAX", "0"},
        {"FIRN_ATTEMPT", "soon"},   {"FIRN_FREEZE_MAX", "1.1"},
        {"FIRN_FREEZE_MAX", "90%"}, {"FIRN_CKPT_EVERY_S", "-1"},
        {"FIRN_SUM", "ring"},       {"FIRN_PEER_TIMEOUT_S", "0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        forks_run_well(1, wrong_body, &wrong[i]);
}

static void a_checkpoint_of_other_threads_is_refused(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("other", 2);
    run.stop_at = 3;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    run.nthreads = 5;
    run.expects = "a checkpoint of 4 threads cannot go on with 5";
    toyjob_go(&run, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_processes_trains_the_same_bits),
        cmocka_unit_test(a_scrambled_placement_trains_the_same_bits),
        cmocka_unit_test(eight_threads_agree_on_three_and_five_processes),
        cmocka_unit_test(several_hosts_train_the_same_bits),
        cmocka_unit_test(a_job_is_stopped_and_goes_on_with_other_processes),
        cmocka_unit_test(a_killed_job_goes_on_from_its_last_checkpoint),
        cmocka_unit_test(checkpoints_are_written_as_time_goes_by),
        cmocka_unit_test(a_damaged_checkpoint_is_passed_over),
        cmocka_unit_test(many_random_resizes_change_nothing),
        cmocka_unit_test(leaving_a_part_out_changes_the_bits_of_that_part),
        cmocka_unit_test(frozen_weights_rest_and_owed_steps_are_done),
        cmocka_unit_test(a_single_thread_freezes_the_same_after_a_stop),
        cmocka_unit_test(a_replay_of_the_log_gives_the_same_bits),
        cmocka_unit_test(measured_decisions_survive_a_kill),
        cmocka_unit_test(passes_are_exposed_and_kept),
        cmocka_unit_test(orders_are_obeyed_logged_and_can_be_replayed),
        cmocka_unit_test(an_order_beyond_the_limit_is_cut_off_there),
        cmocka_unit_test(the_environments_limit_holds_for_the_programs_rule),
        cmocka_unit_test(a_resumed_job_with_too_many_frozen_layers_thaws),
        cmocka_unit_test(an_order_to_stop_is_obeyed),
        cmocka_unit_test(a_wrong_environment_is_named),
        cmocka_unit_test(a_checkpoint_of_other_threads_is_refused),
    };
    return cmocka_run_group_tests(tests, toyjob_make_top, toyjob_remove_top);
}
