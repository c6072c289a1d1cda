/* loop.c - the loop of an elastic trainer, and the options of the examples.
 *
 * Read train() first. What a thread computes depends on the shared weights, on
 * its parts (its random numbers, its buffers, its place in the data) and on
 * its number, and on nothing else: so the bits that come out do not depend on
 * how many processes there are.
 *
 * --without breaks that on purpose, one rule at a time, to show that each of
 * them is needed: rng and buffers are not carried from thread to thread,
 * sampler goes by process, sum adds the threads of a process first.
 */
#include "loop.h"
#include <firn/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: %s [OPTION VALUE]...\n"
    "Trains a small network with libfirn_train. Started by torchrun's\n"
    "environment (RANK, WORLD_SIZE, ...), alone without it.\n"
    "  --threads V      virtual ranks (FIRN_THREADS, else the processes)\n"
    "  --epochs N       4\n"
    "  --batch N        of all threads together; 32\n"
    "  --samples N      of the data set; 4096\n"
    "  --seed N         1\n"
    "  --optimizer O    sgd or adam; sgd\n"
    "  --rate R         learning rate; 0.05, with adam 0.002\n"
    "  --dir DIR        checkpoints (FIRN_DIR; none without)\n"
    "  --every N        steps between checkpoints; at stops and the end only\n"
    "  --freeze RULE    off, penalty, freezeout (FIRN_FREEZE; off)\n"
    "  --replay FILE    takes the decisions of that checkpoint's log\n"
    "  --order O        of sums: sequential, four, eight; sequential\n"
    "  --chain 1        constant memory, for contiguous threads\n"
    "  --text FILE      what the language model reads\n"
    "  --without X      break it: rng, buffers, sampler, sum\n"
    "  --judge N        pictures or windows to judge it by; 1000\n"
    "  --pace MS        sleeps so long in every step (to be watched)\n"
    "  --quiet 1        one line at the end only\n";

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
        uint64_t epoch, batch;
    } place;
    int nlocal;
    struct firn_decision *log; /* of --replay */
    size_t nlog;
};

/* --- options ----------------------------------------------------------------
 */

struct flag {
    const char *name;
    int *number;
    const char **text;
};

static bool set_flag(const struct flag *flag, const char *value)
{
    if (flag->text != NULL) {
        *flag->text = value;
        return true;
    }
    char *end = NULL;
    long n = strtol(value, &end, 10);
    if (end == value || *end != '\0' || n < 0 || n > 1000000000)
        return false;
    *flag->number = (int)n;
    return true;
}

static int pace_ms;

static bool parse(struct options *o, int argc, char **argv)
{
    int seed = 1;
    int chain = 0;
    int quiet = 0;
    const char *optimizer = "sgd";
    const char *rate = NULL;
    const char *order = "sequential";
    const struct flag flags[] = {
        {"--threads", &o->nthreads, NULL}, {"--epochs", &o->nepochs, NULL},
        {"--batch", &o->batch, NULL},      {"--samples", &o->nsamples, NULL},
        {"--seed", &seed, NULL},           {"--every", &o->every, NULL},
        {"--chain", &chain, NULL},         {"--quiet", &quiet, NULL},
        {"--pace", &pace_ms, NULL},        {"--judge", &o->njudge, NULL},
        {"--optimizer", NULL, &optimizer}, {"--rate", NULL, &rate},
        {"--dir", NULL, &o->dir},          {"--freeze", NULL, &o->freeze},
        {"--replay", NULL, &o->replay},    {"--order", NULL, &order},
        {"--text", NULL, &o->text},        {"--without", NULL, &o->without},
    };
    for (int i = 1; i < argc; i += 2) {
        size_t f = 0;
        while (f < sizeof flags / sizeof *flags &&
               strcmp(flags[f].name, argv[i]) != 0)
            f++;
        if (f == sizeof flags / sizeof *flags || i + 1 == argc ||
            !set_flag(&flags[f], argv[i + 1])) {
            fprintf(stderr, "%s: %s%s%s\n", argv[0], argv[i],
                    i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
    }
    o->seed = (uint64_t)seed;
    o->chain = chain != 0;
    o->quiet = quiet != 0;
    o->adam = strcmp(optimizer, "adam") == 0;
    o->rate = rate ? strtod(rate, NULL) : o->adam ? 0.002 : 0.05;
    return nn_order_named(order, &o->order) && o->rate > 0 && o->batch > 0 &&
           o->nsamples > 0 && (o->adam || strcmp(optimizer, "sgd") == 0);
}

static bool broken(const struct loop *loop, const char *what)
{
    return loop->options.without != NULL &&
           strcmp(loop->options.without, what) == 0;
}

/* --- one thread's turn
 * --------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The samples of this thread's next batch. */
static size_t next_batch(struct loop *loop, int thread)
{
    struct firn_sampler sampler = loop->sampler;
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
    double started_s = now_s();
    size_t n = next_batch(loop, thread);
    size_t npasses = firn_train_passes(loop->train);
    npasses = npasses < 1 ? 1 : npasses > n ? n : npasses;
    double loss = 0;
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
    firn_train_time(loop->train, FIRN_STEP_BACKWARD, now_s() - started_s);
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

/* --- training
 * --------------------------------------------------------------------- */

static void update(struct loop *loop)
{
    double started_s = now_s();
    struct nn_update u = {.w = loop->model.weights,
                          .g = loop->mean,
                          .start = firn_train_start(loop->train),
                          .n = loop->model.nweights,
                          .rate = (float)loop->options.rate,
                          .decay = 1e-4F};
    if (loop->options.adam)
        nn_adam(&u, loop->first, loop->second,
                firn_train_step(loop->train) + 1);
    else
        nn_sgd(&u, loop->first);
    firn_train_time(loop->train, FIRN_STEP_UPDATE, now_s() - started_s);
}

static void rest(void)
{
    struct timespec t = {pace_ms / 1000, pace_ms % 1000 * 1000000L};
    if (pace_ms > 0)
        nanosleep(&t, NULL);
}

static void train(struct loop *loop)
{
    uint64_t epoch = firn_train_epoch(loop->train);
    while (firn_train_go(loop->train)) {
        int thread;
        for (int turn = 0; (thread = firn_train_enter(loop->train)) >= 0;
             turn++) {
            double loss = learn(loop, thread);
            firn_train_leave(
                loop->train,
                broken(loop, "sum") ? sum_here(loop, turn) : loop->grad, loss);
        }
        firn_train_mean(loop->train, loop->mean);
        update(loop);
        rest();
        if (firn_train_epoch(loop->train) != epoch && !loop->options.quiet &&
            firn_train_rank(loop->train) == 0)
            printf("epoch %llu: loss %.4f, %zu layers frozen\n",
                   (unsigned long long)firn_train_epoch(loop->train),
                   firn_train_loss(loop->train),
                   firn_train_frozen(loop->train));
        epoch = firn_train_epoch(loop->train);
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

/* The decisions that a checkpoint logged, for a run that takes them as they
 * are. They stay in `loop->log`. */
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

static enum firn_status open_train(struct loop *loop, struct firn_error *err)
{
    const struct options *o = &loop->options;
    const char *asked = getenv("FIRN_THREADS");
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
    };
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
    config.steps_per_epoch = firn_sampler_batches(&loop->sampler);
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
    loop->sample = calloc((size_t)loop->options.batch, sizeof *loop->sample);
    return loop->grad && loop->mean && loop->first && loop->second &&
           loop->order && loop->sample;
}

/* The process that has thread 0 tells how good the model is: the buffers are
 * that thread's. */
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
    printf("%s: %s, loss %.4f, %llu steps, %zu layers frozen, %.1f s\n",
           loop->model.name, line, firn_train_loss(loop->train),
           (unsigned long long)firn_train_step(loop->train),
           firn_train_frozen(loop->train), now_s() - since_s);
}

static int run(struct loop *loop)
{
    struct firn_error err = {0};
    double since_s = now_s();
    bool resumed = false;
    enum firn_status status = open_train(loop, &err);
    if (status == FIRN_OK)
        status = name_parts(loop, &err);
    if (status == FIRN_OK)
        status = firn_train_resume(loop->train, &resumed, &err);
    if (status != FIRN_OK) {
        fprintf(stderr, "%s: %s\n", loop->model.name, err.text);
        firn_train_close(loop->train, NULL);
        return 1;
    }
    if (firn_train_said(loop->train)[0] != '\0')
        fprintf(stderr, "%s\n", firn_train_said(loop->train));
    if (resumed && !loop->options.quiet && firn_train_rank(loop->train) == 0)
        printf("resumed at step %llu\n",
               (unsigned long long)firn_train_step(loop->train));
    train(loop);
    judge(loop, since_s);
    int code = firn_train_close(loop->train, &err);
    if (code == 1)
        fprintf(stderr, "%s: %s\n", loop->model.name, err.text);
    return code;
}

int loop_main(int argc, char **argv, model_open *open)
{
    struct loop loop = {
        .options = {
            .nepochs = 4, .batch = 32, .nsamples = 4096, .njudge = 1000}};
    char why[256] = "no memory";
    if (!parse(&loop.options, argc, argv)) {
        fprintf(stderr, usage, argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!open(&loop.model, &loop.options, why, sizeof why) ||
        !allocate(&loop)) {
        fprintf(stderr, "%s: %s\n", argv[0], why);
        return 1;
    }
    int code = run(&loop);
    free(loop.grad);
    free(loop.mean);
    free(loop.first);
    free(loop.second);
    free(loop.order);
    free(loop.sample);
    free(loop.log);
    loop.model.close(&loop.model);
    return code;
}
