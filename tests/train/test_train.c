/* test_train.c - a toy job that must train to the same bits wherever it runs.
 *
 * The model is a vector of weights pulled towards its samples through a random
 * mask: it has what makes real training depend on its place, namely a random
 * generator, a place in the data and running statistics for each thread, and
 * momentum that all share. A run forks its processes and trains to the end or
 * to an interruption; two runs are compared by their last checkpoints, section
 * by section.
 */
#include "base/rng.h"
#include "lib/forks.h"
#include <dirent.h>
#include <firn/train.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    V = 4,
    LAYERS = 5,
    N = 300,
    BATCH = 3,
    SAMPLES = 97,
    EPOCHS = 4,
    STEPS = 6, /* of an epoch */
    WITHOUT_RNG = 1,
    WITHOUT_BUFFERS,
    SAMPLER_BY_PROCESS,
    LOCAL_SUM
};

struct run {
    char dir[256];
    int nprocs, nthreads;
    const int *owner; /* NULL: even */
    bool chain;
    uint64_t every;
    int stop_at; /* SIGUSR1 to one process within this step; negative: no */
    int kill_at; /* SIGKILL to the victim */
    int victim;
    int ablation;
    int passes;
    enum firn_freezer_rule rule;
    bool watch_frozen;
    const struct firn_decision *replay;
    size_t nreplay;
};

struct toy {
    float weight[N], momentum[N], mean[N], grad[N], sum[N], before[N];
    float buffer[8];
    struct rng rng;
    uint64_t place;
    struct firn_train *train;
};

static const size_t layer_start[LAYERS + 1] = {0, 60, 120, 180, 240, N};

/* --- the toy ----------------------------------------------------------------
 */

static float feature(uint64_t sample, size_t i)
{
    struct rng rng;
    rng_seed(&rng, sample * 1000 + i % 7);
    return (float)rng_unit(&rng) * (float)(1 + i % 13);
}

/* One thread's gradient; its loss. */
static double learn(struct toy *toy, const struct run *run, int thread)
{
    int reader = run->ablation == SAMPLER_BY_PROCESS
                     ? firn_train_rank(toy->train)
                     : thread;
    double loss = 0;
    memset(toy->grad, 0, sizeof toy->grad);
    for (int b = 0; b < BATCH; b++) {
        uint64_t sample =
            (toy->place * (uint64_t)run->nthreads + (uint64_t)reader) % SAMPLES;
        toy->place++;
        for (size_t i = firn_train_start(toy->train); i < N; i++) {
            float off = toy->weight[i] - feature(sample, i);
            if (rng_below(&toy->rng, 4) != 0)
                toy->grad[i] += off / BATCH;
            loss += (double)(off * off);
        }
        for (size_t i = 0; i < 8; i++)
            toy->buffer[i] =
                0.9F * toy->buffer[i] + 0.1F * feature(sample, i * 3);
    }
    return loss / BATCH / N;
}

static void update(struct toy *toy)
{
    for (size_t i = firn_train_start(toy->train); i < N; i++) {
        toy->momentum[i] = 0.9F * toy->momentum[i] + toy->mean[i];
        toy->weight[i] -= 0.05F * toy->momentum[i];
    }
}

/* What "add up at home first" amounts to: the last thread brings all. */
static const float *handed_in(struct toy *toy, const struct run *run, int turn,
                              size_t nmine)
{
    static const float nothing[N];
    if (run->ablation != LOCAL_SUM)
        return toy->grad;
    if (turn == 0)
        memset(toy->sum, 0, sizeof toy->sum);
    firn_fold_add_f32(toy->sum, toy->grad, N);
    return (size_t)turn + 1 == nmine ? toy->sum : nothing;
}

static size_t freeze_by_epoch(void *arg, const struct firn_freezer_ask *ask,
                              const struct firn_freeze *freeze)
{
    (void)arg;
    (void)freeze;
    FORKS_CHECK(ask->variance != NULL);
    return ask->epoch < 3 ? (size_t)ask->epoch : 1;
}

static void set_environment(const struct run *run, int rank)
{
    char text[64];
    size_t n = 0;
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", run->nprocs);
    setenv("WORLD_SIZE", text, 1);
    setenv("LOCAL_WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "test-%d", (int)getppid());
    setenv("FIRN_JOB", text, 1);
    for (int v = 0; run->owner != NULL && v < run->nthreads; v++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d",
                              v > 0 ? "," : "", run->owner[v]);
    if (run->owner != NULL)
        setenv("FIRN_LAYOUT", text, 1);
    snprintf(text, sizeof text, "%d", run->passes);
    if (run->passes > 0)
        setenv("FIRN_PASSES", text, 1);
}

static enum firn_status set_up(struct toy *toy, const struct run *run,
                               struct firn_error *err)
{
    struct firn_train_config c = {
        .name = "toy",
        .nthreads = run->nthreads,
        .nlayers = LAYERS,
        .layer_start = layer_start,
        .nepochs = EPOCHS,
        .steps_per_epoch = STEPS,
        .dir = run->dir,
        .every_steps = run->every,
        .chain = run->chain,
        .freeze = {.rule = run->rule, .user = freeze_by_epoch},
        .replay = run->replay,
        .nreplay = run->nreplay};
    bool resumed;
    for (size_t i = 0; i < N; i++)
        toy->weight[i] = (float)(i % 5) * 0.3F;
    FIRN_TRY(firn_train_open(&toy->train, &c, err));
    struct firn_threads *threads = firn_train_threads(toy->train);
    if (run->ablation != WITHOUT_RNG)
        FIRN_TRY(
            firn_threads_part(threads, "rng", &toy->rng, sizeof toy->rng, err));
    if (run->ablation != WITHOUT_BUFFERS)
        FIRN_TRY(firn_threads_part(threads, "buffers", toy->buffer,
                                   sizeof toy->buffer, err));
    FIRN_TRY(firn_threads_part(threads, "place", &toy->place, sizeof toy->place,
                               err));
    for (int v = 0; v < run->nthreads; v++) {
        size_t n;
        struct rng *rng = firn_threads_stored(threads, v, "rng", &n);
        if (rng != NULL)
            rng_seed(rng, 100 + (uint64_t)v);
    }
    rng_seed(&toy->rng, 100);
    FIRN_TRY(firn_train_shared(toy->train, "weights", FIRN_CKPT_F32,
                               toy->weight, sizeof toy->weight, err));
    FIRN_TRY(firn_train_shared(toy->train, "optimizer/momentum", FIRN_CKPT_F32,
                               toy->momentum, sizeof toy->momentum, err));
    if (run->ablation == WITHOUT_BUFFERS) /* to have something to compare */
        FIRN_TRY(firn_train_shared(toy->train, "stray", FIRN_CKPT_F32,
                                   toy->buffer, sizeof toy->buffer, err));
    return firn_train_resume(toy->train, &resumed, err);
}

static void interrupt(const struct toy *toy, const struct run *run, int rank)
{
    int step = (int)firn_train_step(toy->train);
    if (rank == run->victim && step == run->stop_at)
        raise(SIGUSR1);
    if (rank == run->victim && step == run->kill_at)
        raise(SIGKILL);
}

static void train(struct toy *toy, const struct run *run, int rank)
{
    const int *mine;
    size_t nmine = firn_group_threads(firn_train_group(toy->train), &mine);
    while (firn_train_go(toy->train)) {
        size_t frozen = firn_train_start(toy->train);
        memcpy(toy->before, toy->weight, sizeof toy->weight);
        int v;
        for (int turn = 0; (v = firn_train_enter(toy->train)) >= 0; turn++) {
            double loss = learn(toy, run, v);
            firn_train_leave(toy->train, handed_in(toy, run, turn, nmine),
                             loss);
        }
        interrupt(toy, run, rank);
        firn_train_mean(toy->train, toy->mean);
        update(toy);
        if (run->watch_frozen)
            FORKS_CHECK(
                memcmp(toy->before, toy->weight, frozen * sizeof(float)) == 0);
    }
}

static int body(int rank, void *arg)
{
    const struct run *run = arg;
    struct toy *toy = calloc(1, sizeof *toy);
    struct firn_error err = {0};
    FORKS_CHECK(toy != NULL);
    set_environment(run, rank);
    enum firn_status status = set_up(toy, run, &err);
    if (status != FIRN_OK)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    FORKS_CHECK(status == FIRN_OK);
    train(toy, run, rank);
    if (run->passes > 0)
        FORKS_CHECK(firn_train_passes(toy->train) == (unsigned)run->passes);
    int code = firn_train_close(toy->train, &err);
    if (code == 1 && run->kill_at < 0)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    free(toy);
    return code;
}

/* --- runs -------------------------------------------------------------------
 */

static char top[] = "/tmp/firn-train-XXXXXX";

static int make_top(void **state)
{
    (void)state;
    return mkdtemp(top) == NULL ? -1 : 0;
}

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    char name[512];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%.200s", path, e->d_name);
        empty(name);
        remove(name);
    }
    if (dir != NULL)
        closedir(dir);
}

static int remove_top(void **state)
{
    (void)state;
    empty(top);
    return rmdir(top);
}

static struct run run_of(const char *name, int nprocs)
{
    struct run run = {
        .nprocs = nprocs, .nthreads = V, .stop_at = -1, .kill_at = -1};
    snprintf(run.dir, sizeof run.dir, "%s/%s", top, name);
    empty(run.dir);
    return run;
}

/* Trains; every process ends with `want`. */
static void go(struct run *run, int want)
{
    int status[8];
    forks_run(run->nprocs, body, run, status);
    for (int r = 0; r < run->nprocs; r++)
        assert_int_equal(status[r], want);
}

/* --- comparing --------------------------------------------------------------
 */

struct names {
    bool measured; /* pass over what depends on the clock */
    char text[2048];
};

static void note(void *arg, const struct firn_ckpt_difference *d)
{
    struct names *names = arg;
    size_t n = strlen(names->text);
    if (names->measured && strcmp(d->name, "train/decisions") == 0)
        return;
    snprintf(names->text + n, sizeof names->text - n, "%s ", d->name);
}

static struct firn_ckpt *last_of(const char *dir)
{
    struct firn_ckpt *ckpt = NULL;
    struct firn_error refused, err;
    assert_int_equal(firn_ckpt_open_newest(&ckpt, dir, "toy", &refused, &err),
                     FIRN_OK);
    return ckpt;
}

/* The sections in which the last checkpoints of two runs differ. */
static struct names differences(const struct run *a, const struct run *b,
                                bool measured)
{
    struct names names = {.measured = measured};
    struct firn_ckpt *left = last_of(a->dir), *right = last_of(b->dir);
    assert_int_equal(firn_ckpt_step(left), firn_ckpt_step(right));
    firn_ckpt_compare(left, right, note, &names);
    firn_ckpt_close(left);
    firn_ckpt_close(right);
    return names;
}

static void assert_same(const struct run *a, const struct run *b)
{
    assert_string_equal(differences(a, b, false).text, "");
}

/* One run that was never interrupted, made once. */
static const struct run *reference(void)
{
    static struct run run;
    if (run.nprocs == 0) {
        run = run_of("reference", V);
        go(&run, 0);
    }
    return &run;
}

/* --- equal ------------------------------------------------------------------
 */

static void every_number_of_processes_trains_the_same_bits(void **state)
{
    (void)state;
    for (int p = 1; p <= V; p++) {
        struct run run = run_of("plain", p);
        go(&run, 0);
        assert_same(reference(), &run);
        struct run chain = run_of("chain", p);
        chain.chain = true;
        go(&chain, 0);
        assert_same(reference(), &chain);
    }
}

static void a_scrambled_placement_trains_the_same_bits(void **state)
{
    (void)state;
    struct run run = run_of("scrambled", 3);
    run.owner = (int[]){2, 0, 1, 0};
    go(&run, 0);
    assert_same(reference(), &run);
}

static void eight_threads_agree_on_three_and_five_processes(void **state)
{
    (void)state;
    struct run three = run_of("three", 3), five = run_of("five", 5);
    three.nthreads = five.nthreads = 8;
    three.owner = (int[]){1, 2, 0, 0, 2, 1, 0, 2};
    go(&three, 0);
    go(&five, 0);
    assert_same(&three, &five);
}

static void a_job_is_stopped_and_goes_on_with_other_processes(void **state)
{
    (void)state;
    static const int procs[] = {4, 2, 1, 3}, stop[] = {5, 11, 12, -1};
    struct run run = run_of("resized", 0);
    for (int i = 0; i < 4; i++) {
        run.nprocs = procs[i];
        run.stop_at = stop[i];
        run.victim = procs[i] - 1; /* any process may get the signal */
        go(&run, stop[i] >= 0 ? FIRN_EXIT_CHECKPOINT : 0);
    }
    assert_same(reference(), &run);
}

static void a_killed_job_goes_on_from_its_last_checkpoint(void **state)
{
    (void)state;
    struct run run = run_of("killed", 3);
    int status[8];
    run.every = 4;
    run.kill_at = 10;
    run.victim = 1;
    forks_run(run.nprocs, body, &run, status);
    assert_int_equal(status[1], 128 + SIGKILL);
    assert_int_equal(status[0], 1);
    assert_int_equal(status[2], 1);
    struct firn_ckpt *ckpt = last_of(run.dir);
    assert_int_equal(firn_ckpt_step(ckpt), 8);
    firn_ckpt_close(ckpt);
    run.nprocs = 2;
    run.kill_at = -1;
    go(&run, 0);
    assert_same(reference(), &run);
}

static void a_damaged_checkpoint_is_passed_over(void **state)
{
    (void)state;
    struct run run = run_of("damaged", 2);
    char path[512];
    run.every = 4;
    run.stop_at = 9;
    go(&run, FIRN_EXIT_CHECKPOINT);
    snprintf(path, sizeof path, "%s/toy-%012d.ckpt", run.dir, 10);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 700, SEEK_SET), 0);
    assert_int_equal(fputc(0x55, file), 0x55);
    fclose(file);
    run.stop_at = -1;
    go(&run, 0);
    assert_same(reference(), &run);
}

static void many_random_resizes_change_nothing(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = 60;
    rng_seed(&rng, seed);
    print_message("seed %d\n", (int)seed);
    int ntimes = getenv("FIRN_QUICK") != NULL ? 1 : 4, nresizes = 0;
    for (int k = 0; k < ntimes; k++) {
        struct run run = run_of("random", 1);
        for (int step = 0;; nresizes++) {
            int owner[V];
            run.nprocs = 1 + (int)rng_below(&rng, V);
            for (int v = 0; v < V; v++)
                owner[v] = v < run.nprocs
                               ? v
                               : (int)rng_below(&rng, (uint64_t)run.nprocs);
            run.owner = owner;
            run.victim = (int)rng_below(&rng, (uint64_t)run.nprocs);
            step += (int)rng_below(&rng, 3);
            run.stop_at = step < EPOCHS * STEPS - 1 ? step : -1;
            go(&run, run.stop_at >= 0 ? FIRN_EXIT_CHECKPOINT : 0);
            if (run.stop_at < 0)
                break;
            step++;
        }
        assert_same(reference(), &run);
    }
    print_message("%d resizes\n", nresizes);
    assert_true(ntimes == 1 || nresizes >= 45);
}

/* --- the failing twins ------------------------------------------------------
 */

/* Must differ between one process and two, and in these sections. */
static void assert_breaks(int ablation, const char *where)
{
    struct run one = run_of("one", 1), two = run_of("two", 2);
    one.ablation = two.ablation = ablation;
    go(&one, 0);
    go(&two, 0);
    struct names names = differences(&one, &two, false);
    if (strstr(names.text, where) == NULL)
        print_message("only %sdiffer\n", names.text);
    assert_non_null(strstr(names.text, where));
}

static void leaving_something_out_shows_and_is_named(void **state)
{
    (void)state;
    assert_breaks(WITHOUT_RNG, "weights");
    assert_breaks(SAMPLER_BY_PROCESS, "thread/2/buffers");
    assert_breaks(LOCAL_SUM, "weights");
    assert_breaks(WITHOUT_BUFFERS, "stray");
    struct run one = run_of("one", 1), two = run_of("two", 2);
    one.ablation = two.ablation = WITHOUT_BUFFERS; /* weights do not notice */
    go(&one, 0);
    go(&two, 0);
    assert_string_equal(differences(&one, &two, false).text, "stray ");
}

/* --- freezing and passes ----------------------------------------------------
 */

static uint64_t last_step(const struct run *run)
{
    struct firn_ckpt *ckpt = last_of(run->dir);
    uint64_t step = firn_ckpt_step(ckpt);
    firn_ckpt_close(ckpt);
    return step;
}

static void frozen_weights_rest_and_owed_steps_are_done(void **state)
{
    (void)state;
    struct run one = run_of("frozen-one", 1), three = run_of("frozen", 3);
    one.rule = three.rule = FIRN_FREEZER_USER;
    one.watch_frozen = three.watch_frozen = true;
    go(&one, 0);
    three.stop_at = 14; /* in the middle of an epoch */
    go(&three, FIRN_EXIT_CHECKPOINT);
    three.stop_at = -1;
    three.nprocs = 2;
    go(&three, 0);
    assert_true(last_step(&one) > EPOCHS * STEPS);
    assert_string_equal(differences(&one, &three, true).text, "");
}

/* The decisions of a run, from its last checkpoint. */
static size_t log_of(const struct run *run, struct firn_decision *log,
                     size_t max)
{
    struct firn_freezer_config c = {.nlayers = LAYERS};
    struct firn_freezer *freezer = NULL;
    const struct firn_decision *found;
    struct firn_ckpt *ckpt = last_of(run->dir);
    const struct firn_ckpt_section *s = firn_ckpt_find(ckpt, "train/decisions");
    assert_non_null(s);
    assert_int_equal(firn_freezer_new(&freezer, &c, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_load(freezer, s->data, s->nbytes, NULL),
                     FIRN_OK);
    size_t n = firn_freezer_log(freezer, &found);
    assert_true(n <= max);
    memcpy(log, found, n * sizeof *log);
    firn_freezer_free(freezer);
    firn_ckpt_close(ckpt);
    return n;
}

static void a_replay_of_the_log_gives_the_same_bits(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct run run = run_of("decided", 2), again = run_of("again", 3);
    run.rule = FIRN_FREEZER_USER;
    go(&run, 0);
    again.nreplay = log_of(&run, log, 32);
    again.replay = log;
    assert_true(again.nreplay >= 3);
    go(&again, 0);
    /* A replay need not measure, so it has no squares to carry. */
    struct names names = differences(&run, &again, true);
    assert_null(strstr(names.text, "weights"));
    assert_null(strstr(names.text, "momentum"));
    assert_null(strstr(names.text, "rng"));
    struct run other = run_of("other", 3);
    log[1].value = 0;
    log[1].psi = 1;
    other.replay = log;
    other.nreplay = again.nreplay;
    go(&other, 0);
    assert_int_not_equal(last_step(&run), last_step(&other));
}

static void measured_decisions_survive_a_kill(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct run run = run_of("penalty", 2), again = run_of("replay", 1);
    int status[8];
    run.rule = FIRN_FREEZER_PENALTY;
    run.kill_at = 15;
    forks_run(run.nprocs, body, &run, status);
    assert_int_equal(status[0], 128 + SIGKILL);
    run.kill_at = -1;
    run.nprocs = 3;
    go(&run, 0);
    again.nreplay = log_of(&run, log, 32);
    again.replay = log;
    go(&again, 0);
    struct names names = differences(&run, &again, true);
    assert_null(strstr(names.text, "weights"));
}

static void passes_are_exposed_and_kept(void **state)
{
    (void)state;
    struct firn_decision log[32];
    struct run run = run_of("passes", 2);
    run.passes = 3;
    run.stop_at = 2;
    go(&run, FIRN_EXIT_CHECKPOINT);
    run.stop_at = -1;
    go(&run, 0);
    assert_int_equal(log_of(&run, log, 32), 1);
    assert_int_equal(log[0].kind, FIRN_DECIDED_PASSES);
    assert_int_equal(log[0].value, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_processes_trains_the_same_bits),
        cmocka_unit_test(a_scrambled_placement_trains_the_same_bits),
        cmocka_unit_test(eight_threads_agree_on_three_and_five_processes),
        cmocka_unit_test(a_job_is_stopped_and_goes_on_with_other_processes),
        cmocka_unit_test(a_killed_job_goes_on_from_its_last_checkpoint),
        cmocka_unit_test(a_damaged_checkpoint_is_passed_over),
        cmocka_unit_test(many_random_resizes_change_nothing),
        cmocka_unit_test(leaving_something_out_shows_and_is_named),
        cmocka_unit_test(frozen_weights_rest_and_owed_steps_are_done),
        cmocka_unit_test(a_replay_of_the_log_gives_the_same_bits),
        cmocka_unit_test(measured_decisions_survive_a_kill),
        cmocka_unit_test(passes_are_exposed_and_kept),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
