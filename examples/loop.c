/* loop.c - the loop of an elastic trainer.
 *
 * Read train() first. What a thread computes depends on the shared weights, on
 * its parts (its random numbers, its buffers, its place in the data) and on
 * its number, and on nothing else: so the bits that come out do not depend on
 * how many processes there are.
 *
 * --without breaks that on purpose, one rule at a time, to show that each of
 * them is needed: rng and buffers are not carried from thread to thread,
 * sampler goes by process, sum adds the threads of a process first; passes
 * takes no orders to run a batch in several.
 */
#include "loop.h"
#include "gpu.h"
#include <firn/ahead.h>
#include <firn/task.h>
#include <firn/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loop {
    struct options options;
    struct model model;
    struct firn_sampler sampler;
    struct firn_train *train;
    float *grad, *mean, *first, *second;
    uint32_t *order, *sample;
    uint64_t order_epoch; /* of `order`, from 1 on; 0: none */
    struct nn_rng rng;    /* a thread's parts */
    struct place {
        uint64_t epoch, batch, size; /* size: samples of its batches */
    } place;
    int nlocal;
    struct gpu gpu; /* of --turns */
    int nrests;     /* steps of this process on it */
    bool is_mate;
    uint64_t epoch;            /* the last one reported */
    struct firn_decision *log; /* of --replay */
    size_t nlog;
};

static bool broken(const struct loop *loop, const char *what)
{
    return loop->options.without != NULL &&
           strcmp(loop->options.without, what) == 0;
}

/* --- one thread's turn --------------------------------------------------- */

double loop_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The samples of this thread's next batch. */
static size_t next_batch(struct loop *loop, int thread)
{
    struct firn_sampler sampler = loop->sampler;
    sampler.batch = firn_train_batch(loop->train);
    if (loop->place.size != (uint64_t)sampler.batch) { /* it was changed */
        loop->place.epoch += loop->place.batch > 0;
        loop->place.batch = 0;
        loop->place.size = (uint64_t)sampler.batch;
    }
    if (broken(loop, "sampler")) /* by process, the classic mistake */
        thread = (thread + firn_train_rank(loop->train)) % sampler.nthreads;
    if (loop->place.batch >= firn_sampler_batches(&sampler)) {
        loop->place.batch = 0;
        loop->place.epoch++;
    }
    if (loop->order_epoch != loop->place.epoch + 1) {
        firn_sampler_shuffle(&sampler, loop->place.epoch, loop->order);
        loop->order_epoch = loop->place.epoch + 1;
    }
    return firn_sampler_batch(&sampler, loop->order, thread,
                              loop->place.batch++, loop->sample);
}

/* Forward and backward of one thread, in as many passes as are ordered. */
static double learn(struct loop *loop, int thread)
{
    double started_s = loop_now_s();
    size_t n = next_batch(loop, thread);
    size_t npasses =
        broken(loop, "passes") ? 1 : firn_train_passes(loop->train);
    size_t room = (size_t)loop->sampler.batch; /* the model's, for one pass */
    npasses = npasses > (n + room - 1) / room ? npasses : (n + room - 1) / room;
    npasses = npasses < 1 ? 1 : npasses > n ? n : npasses;
    double loss = 0;
    loop->model.forward_s = 0;
    memset(loop->grad, 0, loop->model.nweights * sizeof *loop->grad);
    for (size_t pass = 0, at = 0; pass < npasses; pass++) {
        size_t size = n / npasses + (pass < n % npasses);
        struct lesson lesson = {.sample = loop->sample + at,
                                .n = size,
                                .weight = (float)size / (float)n,
                                .nfrozen = firn_train_frozen(loop->train),
                                .rng = &loop->rng};
        loss += (double)lesson.weight *
                loop->model.learn(&loop->model, &lesson, loop->grad);
        at += size;
    }
    double forward_s = loop->model.forward_s;
    firn_train_time(loop->train, FIRN_STEP_FORWARD, forward_s);
    firn_train_time(loop->train, FIRN_STEP_BACKWARD,
                    loop_now_s() - started_s - forward_s);
    return loss;
}

/* The mistake of adding what is at hand first: only the last thread of this
 * process brings a gradient, the sum of all of them. */
static const float *sum_here(struct loop *loop, int turn)
{
    static float *sum;
    size_t nbytes = loop->model.nweights * sizeof *sum;
    if (sum == NULL)
        sum = malloc(2 * nbytes);
    if (sum == NULL)
        return loop->grad;
    float *nothing = sum + loop->model.nweights;
    memset(nothing, 0, nbytes);
    if (turn == 0)
        memset(sum, 0, nbytes);
    firn_fold_add_f32(sum, loop->grad, loop->model.nweights);
    return turn == loop->nlocal - 1 ? sum : nothing;
}

/* --- training ------------------------------------------------------------ */

static void update(struct loop *loop)
{
    double started_s = loop_now_s();
    struct nn_update u = {
        .w = loop->model.weights,
        .g = loop->mean,
        .start = firn_train_start(loop->train),
        .n = loop->model.nweights,
        .rate = (float)(loop->options.rate * firn_train_rate(loop->train)),
        .decay = 1e-4F};
    if (loop->options.adam)
        nn_adam(&u, loop->first, loop->second, firn_train_step(loop->train));
    else
        nn_sgd(&u, loop->first);
    firn_train_time(loop->train, FIRN_STEP_UPDATE, loop_now_s() - started_s);
}

/* --- a stand-in for a GPU: see gpu.c ------------------------------------- */

/* The first steps of a process are slow, for libraries load what they need of
 * the GPU when it is first needed: half of --slow in the first one, the rest in
 * equal parts in the next nine. The GPU is idle meanwhile. Seconds. */
static double be_slow(struct loop *loop)
{
    double from_s = loop_now_s();
    int n = loop->nrests++, half_ms = loop->options.slow_ms / 2;
    gpu_wait(from_s, n == 0 ? half_ms : n < 10 ? half_ms / 9 : 0);
    return loop_now_s() - from_s;
}

/* Sleeps, if asked to. On a virtual GPU until the moment at which the GPU has
 * done this step's `nturns` threads, and the step has taken what it took
 * there. */
static void rest(struct loop *loop, double began_s, int nturns)
{
    int ms = loop->options.pace_ms;
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    if (ms <= 0)
        return;
    if (loop->options.turns == NULL) {
        nanosleep(&t, NULL);
        return;
    }
    double slow_s = be_slow(loop);
    if (loop->gpu.pace_ms == 0)
        gpu_open(&loop->gpu, loop->options.turns, ms, loop->options.beside);
    double worked_s = loop_now_s() - began_s;
    double step_s = slow_s;
    step_s += gpu_step(&loop->gpu, began_s + slow_s, slow_s, nturns);
    if (step_s > worked_s)
        firn_train_time(loop->train, FIRN_STEP_BACKWARD, step_s - worked_s);
}

/* The model is good enough. All processes have the same weights, so they agree.
 */
static void measure(struct loop *loop)
{
    if (loop->model.measure == NULL || !(loop->options.until > 0))
        return;
    double right = loop->model.measure(&loop->model);
    firn_train_metric(loop->train, right);
    if (right >= loop->options.until)
        firn_train_finish(loop->train);
}

static void step(struct loop *loop)
{
    int thread, turn;
    double began_s = loop_now_s();
    for (turn = 0; (thread = firn_train_enter(loop->train)) >= 0; turn++) {
        double loss = learn(loop, thread);
        firn_train_leave(
            loop->train,
            broken(loop, "sum") ? sum_here(loop, turn) : loop->grad, loss);
    }
    firn_train_mean(loop->train, loop->mean);
    update(loop);
    rest(loop, began_s, turn);
    uint64_t epoch = firn_train_epoch(loop->train);
    if (epoch != loop->epoch)
        measure(loop);
    if (epoch != loop->epoch && !loop->options.quiet &&
        firn_train_rank(loop->train) == 0)
        printf("%sepoch %llu: loss %.4f, %zu layers frozen\n",
               loop->is_mate ? "mate: " : "", (unsigned long long)epoch,
               firn_train_loss(loop->train), firn_train_frozen(loop->train));
    loop->epoch = epoch;
}

/* Copies the weights that two tasks share from one to the other. */
static void hand_over(const struct loop *from, struct loop *to)
{
    size_t nbytes = from->model.ncommon * sizeof(float);
    memcpy(to->model.weights, from->model.weights, nbytes);
    memcpy(to->first, from->first, nbytes);
    memcpy(to->second, from->second, nbytes);
}

/* One task, or two that take turns. */
static void train(struct loop loops[2], struct firn_pair *pair)
{
    int which;
    while ((which = firn_pair_go(pair)) >= 0) {
        step(&loops[which]);
        if (firn_pair_runs(pair, 1 - which))
            hand_over(&loops[which], &loops[1 - which]);
    }
}

/* Names what a thread carries and what all share. */
static enum firn_status name_parts(struct loop *loop, struct firn_error *err)
{
    struct firn_threads *threads = firn_train_threads(loop->train);
    const struct model *model = &loop->model;
    size_t nbytes = model->nweights * sizeof(float);
    if (!broken(loop, "rng"))
        FIRN_TRY(firn_threads_part(threads, "rng", &loop->rng, sizeof loop->rng,
                                   err));
    if (model->nbuffers > 0 && !broken(loop, "buffers"))
        FIRN_TRY(firn_threads_part(threads, "buffers", model->buffers,
                                   model->nbuffers * sizeof(float), err));
    FIRN_TRY(firn_threads_part(threads, "place", &loop->place,
                               sizeof loop->place, err));
    const int *mine = NULL;
    loop->nlocal =
        (int)firn_group_threads(firn_train_group(loop->train), &mine);
    for (int i = 0; i < loop->nlocal && !broken(loop, "rng"); i++) {
        size_t n = 0;
        struct nn_rng *rng = firn_threads_stored(threads, mine[i], "rng", &n);
        rng->state = loop->options.seed * 1000003 + (uint64_t)mine[i];
    }
    FIRN_TRY(firn_train_shared(loop->train, "weights", FIRN_CKPT_F32,
                               model->weights, nbytes, err));
    FIRN_TRY(firn_train_shared(loop->train, "optimizer/first", FIRN_CKPT_F32,
                               loop->first, nbytes, err));
    if (loop->options.adam)
        FIRN_TRY(firn_train_shared(loop->train, "optimizer/second",
                                   FIRN_CKPT_F32, loop->second, nbytes, err));
    return FIRN_OK;
}

static enum firn_freezer_rule rule_of(const struct options *o)
{
    const char *name = o->freeze ? o->freeze : getenv("FIRN_FREEZE");
    if (name != NULL && strcmp(name, "penalty") == 0)
        return FIRN_FREEZER_PENALTY;
    if (name != NULL && strcmp(name, "freezeout") == 0)
        return FIRN_FREEZER_FREEZEOUT;
    return FIRN_FREEZER_OFF;
}

/* Reads the decisions of a checkpoint's log, for --replay. They stay in
 * `loop->log`. */
static enum firn_status read_log(struct loop *loop, struct firn_error *err)
{
    struct firn_ckpt *ckpt = NULL;
    FIRN_TRY(firn_ckpt_open(&ckpt, loop->options.replay, err));
    const struct firn_ckpt_section *s = firn_ckpt_find(ckpt, "train/decisions");
    struct firn_freezer_config config = {.nlayers = loop->model.nlayers};
    struct firn_freezer *freezer = NULL;
    const struct firn_decision *log = NULL;
    enum firn_status status =
        s == NULL ? firn_fail(err, FIRN_EINVAL, "%s: has no decisions",
                              loop->options.replay)
                  : firn_freezer_new(&freezer, &config, err);
    if (status == FIRN_OK)
        status = firn_freezer_load(freezer, s->data, s->nbytes, err);
    if (status == FIRN_OK) {
        loop->nlog = firn_freezer_log(freezer, &log);
        loop->log = calloc(loop->nlog + 1, sizeof *loop->log);
        if (loop->log == NULL)
            status = firn_fail(err, FIRN_ENOMEM, "no memory");
        else if (loop->nlog > 0)
            memcpy(loop->log, log, loop->nlog * sizeof *log);
    }
    firn_freezer_free(freezer);
    firn_ckpt_close(ckpt);
    return status;
}

static enum firn_status open_train(struct loop *loop,
                                   const struct firn_mate *as,
                                   struct firn_error *err)
{
    const struct options *o = &loop->options;
    const char *asked = as == NULL ? getenv("FIRN_THREADS") : NULL;
    const char *world = getenv("WORLD_SIZE");
    struct firn_train_config config = {
        .nthreads = o->nthreads,
        .nlayers = loop->model.nlayers,
        .layer_start = loop->model.layer_start,
        .nepochs = (uint64_t)o->nepochs,
        .dir = o->dir,
        .every_steps = (uint64_t)o->every,
        .chain = o->chain,
        .freeze = {.rule = rule_of(o), .warmup_epochs = 1},
        .as = as,
    };
    if (config.nthreads == 0 && as != NULL)
        config.nthreads = as->nthreads;
    if (config.nthreads == 0 && (asked || world))
        config.nthreads = (int)strtol(asked ? asked : world, NULL, 10);
    if (config.nthreads < 1)
        config.nthreads = 1;
    loop->sampler = (struct firn_sampler){
        .nsamples = loop->model.nsamples,
        .seed = o->seed,
        .nthreads = config.nthreads,
        .batch =
            o->batch / config.nthreads > 0 ? o->batch / config.nthreads : 1,
        .shuffle = true,
        .drop_last = true};
    FIRN_TRY(firn_sampler_check(&loop->sampler, err));
    config.sampler = &loop->sampler;
    if (o->replay != NULL)
        FIRN_TRY(read_log(loop, err));
    config.replay = loop->log;
    config.nreplay = loop->nlog;
    return firn_train_open(&loop->train, &config, err);
}

static bool allocate(struct loop *loop)
{
    size_t n = loop->model.nweights;
    loop->grad = calloc(n, sizeof(float));
    loop->mean = calloc(n, sizeof(float));
    loop->first = calloc(n, sizeof(float));
    loop->second = calloc(n, sizeof(float));
    loop->order = calloc(loop->model.nsamples, sizeof *loop->order);
    loop->sample = calloc(loop->model.nsamples, sizeof *loop->sample);
    return loop->grad && loop->mean && loop->first && loop->second &&
           loop->order && loop->sample;
}

/* The process of thread 0 prints the model's quality, with that thread's
 * buffers. */
static void judge(struct loop *loop, double since_s)
{
    struct firn_threads *threads = firn_train_threads(loop->train);
    struct firn_error err;
    char line[128];
    const int *mine = NULL;
    if (firn_group_threads(firn_train_group(loop->train), &mine) == 0 ||
        mine[0] != 0)
        return;
    if (firn_threads_enter(threads, 0, &err) != FIRN_OK)
        return;
    loop->model.judge(&loop->model, line, sizeof line);
    firn_threads_leave(threads, &err);
    printf("%s%s: %s, loss %.4f, %llu steps, %zu layers frozen, %.1f s\n",
           loop->is_mate ? "mate: " : "", loop->model.name, line,
           firn_train_loss(loop->train),
           (unsigned long long)firn_train_step(loop->train),
           firn_train_frozen(loop->train), loop_now_s() - since_s);
}

/* Both sessions with all that they carry, and where they were. */
static enum firn_status begin(struct loop loops[2], const struct firn_mate *as,
                              struct firn_pair **pair, struct firn_error *err)
{
    bool resumed = false;
    bool began = false;
    for (int i = 0; i < (as != NULL ? 2 : 1); i++) {
        FIRN_TRY(open_train(&loops[i], i == 0 ? NULL : as, err));
        FIRN_TRY(name_parts(&loops[i], err));
    }
    struct firn_train *const both[] = {loops[0].train, loops[1].train};
    FIRN_TRY(firn_pair_open(pair, both, loops[0].options.seed, err));
    FIRN_TRY(firn_pair_resume(*pair, &resumed, err));
    if (!resumed)
        FIRN_TRY(firn_train_begin_after(both[0], "weights", &began, err));
    if (firn_pair_runs(*pair, 0) && firn_pair_runs(*pair, 1))
        hand_over(&loops[0], &loops[1]);
    for (int i = 0; i < 2; i++)
        loops[i].epoch = both[i] != NULL ? firn_train_epoch(both[i]) : 0;
    if (firn_train_said(both[0])[0] != '\0')
        fprintf(stderr, "%s\n", firn_train_said(both[0]));
    if (loops[0].options.quiet || firn_train_rank(both[0]) != 0)
        return FIRN_OK;
    if (resumed)
        printf("resumed at step %llu\n",
               (unsigned long long)firn_train_step(both[0]));
    if (began)
        printf("begins with the weights of job %s\n", getenv("FIRN_AFTER_JOB"));
    if (as != NULL)
        printf("trains job %s as well\n", as->job);
    return FIRN_OK;
}

static int run(struct loop loops[2], const struct firn_mate *as, double began_s)
{
    struct firn_error err = {0};
    struct firn_pair *pair = NULL;
    if (loops[0].options.ahead)
        firn_ahead_wait(); /* what follows may use the GPU */
    double since_s = loop_now_s();
    gpu_wait(began_s, loops[0].options.start_ms);
    if (begin(loops, as, &pair, &err) != FIRN_OK) {
        fprintf(stderr, "%s: %s\n", loops[0].model.name, err.text);
        if (pair != NULL) {
            firn_pair_close(pair, NULL);
            return 1;
        }
        firn_train_close(loops[0].train, NULL);
        firn_train_close(loops[1].train, NULL);
        return 1;
    }
    train(loops, pair);
    gpu_close(&loops[0].gpu);
    double done_s = loop_now_s();
    for (int i = 0; i < (as != NULL ? 2 : 1); i++)
        judge(&loops[i], since_s);
    int code = firn_pair_close(pair, &err);
    if (code == 1)
        fprintf(stderr, "%s: %s\n", loops[0].model.name, err.text);
    if (code == 0)
        gpu_wait(done_s, loops[0].options.end_ms);
    return code;
}

/* 0, or the program's exit status. */
static int open_loop(struct loop *loop, int argc, char **argv, model_open *open)
{
    char why[256] = "no memory";
    loop->options = (struct options){
        .nepochs = 4, .batch = 32, .nsamples = 4096, .njudge = 1000};
    if (!options_parse(&loop->options, argc, argv)) {
        options_say(argv[0]);
        return 2;
    }
    bool is_open = open(&loop->model, &loop->options, why, sizeof why);
    if (is_open && allocate(loop))
        return 0;
    if (!is_open)
        loop->model = (struct model){0};
    fprintf(stderr, "%s: %s\n", argv[0], why);
    return 1;
}

static void close_loop(struct loop *loop)
{
    free(loop->grad);
    free(loop->mean);
    free(loop->first);
    free(loop->second);
    free(loop->order);
    free(loop->sample);
    free(loop->log);
    if (loop->model.close != NULL)
        loop->model.close(&loop->model);
}

/* Opens the co-trained job: a stage of the pipeline switch, in its thread. */
struct opening {
    struct loop *loop;
    const struct firn_mate *mate;
    model_open *open;
    bool is_open;
};

static enum firn_status open_mate(void *arg, struct firn_error *err)
{
    struct opening *of = arg;
    (void)err; /* open_loop() prints what is wrong */
    of->is_open =
        open_loop(of->loop, of->mate->argc, of->mate->argv, of->open) == 0;
    return FIRN_OK;
}

/* Opens the job of this process and, in a thread beside it, the co-trained one:
 * its data and its weights are ready when both begin. Returns 0, or the
 * program's exit status; `has_mate`: there is one that this model can train. */
static int open_both(struct loop loops[2], int argc, char **argv,
                     model_open *open, struct firn_mate *mate, bool *has_mate)
{
    struct opening of = {&loops[1], mate, open, false};
    const struct firn_switch_stage stage = {"data and weights", open_mate, &of};
    struct firn_switch *beside = NULL;
    struct firn_switch_times times = {0};
    loops[1].is_mate = true;
    if (firn_mate_find(mate) && mate->argc > 0 &&
        firn_switch_start(&beside, &stage, 1, NULL) != FIRN_OK)
        beside = NULL;
    int code = open_loop(&loops[0], argc, argv, open);
    if (beside != NULL)
        firn_switch_take(beside, &times, NULL);
    *has_mate = code == 0 && of.is_open && loops[0].model.ncommon > 0 &&
                loops[1].model.ncommon == loops[0].model.ncommon;
    if (!*has_mate)
        return code;
    loops[1].options.quiet |= loops[0].options.quiet;
    if (!loops[0].options.quiet)
        printf("opened job %s beside this one in %.3f s, waited %.3f s\n",
               mate->job, times.prepare_s, times.waited_s);
    return code;
}

int loop_main(int argc, char **argv, model_open *open)
{
    struct loop loops[2] = {0};
    struct firn_mate mate = {0};
    bool has_mate = false;
    double began_s = loop_now_s();
    setvbuf(stdout, NULL, _IOLBF, 0);
    int code = open_both(loops, argc, argv, open, &mate, &has_mate);
    if (code == 0)
        code = run(loops, has_mate ? &mate : NULL, began_s);
    close_loop(&loops[0]);
    close_loop(&loops[1]);
    firn_mate_free(&mate);
    return code;
}
