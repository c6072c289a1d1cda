/* toyjob.c - see toyjob.h.
 */
#include "lib/toyjob.h"
#include "base/rng.h"
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "lib/httpd.h"
#include "train/trainwork.h"
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 300, BATCH = 3, SAMPLES = 97 };

struct toy {
    float weight[N], momentum[N], mean[N], grad[N], sum[N], before[N];
    float buffer[8];
    struct rng rng;
    uint64_t place;
    struct firn_train *train;
};

static const size_t layer_start[TOY_LAYERS + 1] = {0, 60, 120, 180, 240, N};

/* Scattered: the first halves of all layers, then their second halves; given in
 * no order. */
enum { HALF = N / TOY_LAYERS / 2 };
static const struct firn_train_range range[2 * TOY_LAYERS] = {
    {4, 9 * HALF, HALF}, {4, 4 * HALF, HALF}, {0, 0, HALF},
    {0, 5 * HALF, HALF}, {3, 3 * HALF, HALF}, {3, 8 * HALF, HALF},
    {2, 7 * HALF, HALF}, {2, 2 * HALF, HALF}, {1, 1 * HALF, HALF},
    {1, 6 * HALF, HALF},
};

static size_t scattered(size_t i)
{
    size_t layer = i / 2 / HALF, second = i / HALF % 2;
    return (layer + second * TOY_LAYERS) * HALF + i % HALF;
}

/* --- the toy ------------------------------------------------------------- */

/* Drawn once, by the first process. */
static float drawn[SAMPLES][7];

static void draw_samples(void)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t k = 0; k < SAMPLES; k++)
        for (size_t i = 0; i < 7; i++)
            drawn[k][i] = (float)rng_unit(&rng);
}

static float feature(uint64_t sample, size_t i)
{
    return drawn[sample][i % 7] * (float)(1 + i % 13);
}

/* One thread's gradient; its loss. */
static double learn(struct toy *toy, const struct toyjob *job, int thread)
{
    int reader = job->ablation == TOY_SAMPLER_BY_PROCESS
                     ? firn_train_rank(toy->train)
                     : thread;
    double loss = 0;
    memset(toy->grad, 0, sizeof toy->grad);
    for (int b = 0; b < BATCH; b++) {
        uint64_t sample =
            (toy->place * (uint64_t)job->nthreads + (uint64_t)reader) % SAMPLES;
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
static const float *handed_in(struct toy *toy, const struct toyjob *job,
                              int turn, size_t nmine)
{
    static const float nothing[N];
    if (job->ablation != TOY_LOCAL_SUM)
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

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct toyjob *job, int rank)
{
    char text[64];
    size_t n = 0;
    int nlocal = job->host_procs > 0 ? job->host_procs : job->nprocs;
    int first = rank / nlocal * nlocal;
    set_number("RANK", rank);
    set_number("WORLD_SIZE", job->nprocs);
    set_number("LOCAL_RANK", rank - first);
    set_number("LOCAL_WORLD_SIZE",
               nlocal < job->nprocs - first ? nlocal : job->nprocs - first);
    if (job->port > 0)
        set_number("MASTER_PORT", job->port - 1);
    if (job->port > 0)
        setenv("FIRN_GROUP_KEY", groupscene_key, 1);
    if (job->passes > 0)
        set_number("FIRN_PASSES", job->passes);
    if (job->sum != NULL)
        setenv("FIRN_SUM", job->sum, 1);
    if (job->freeze_max != NULL)
        setenv("FIRN_FREEZE_MAX", job->freeze_max, 1);
    if (job->every_s != NULL)
        setenv("FIRN_CKPT_EVERY_S", job->every_s, 1);
    snprintf(text, sizeof text, "http://127.0.0.1:%d", job->url_port);
    if (job->url_port > 0)
        setenv("FIRN_URL", text, 1);
    snprintf(text, sizeof text, "test-%d", (int)getppid());
    setenv("FIRN_JOB", text, 1);
    for (int v = 0; job->owner != NULL && v < job->nthreads; v++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d",
                              v > 0 ? "," : "", job->owner[v]);
    if (job->owner != NULL)
        setenv("FIRN_LAYOUT", text, 1);
}

static enum firn_status set_up(struct toy *toy, const struct toyjob *job,
                               struct firn_error *err)
{
    struct firn_train_config c = {
        .name = "toy",
        .nthreads = job->nthreads,
        .nlayers = TOY_LAYERS,
        .layer_start = job->scattered ? NULL : layer_start,
        .range = job->scattered ? range : NULL,
        .nranges = job->scattered ? 2 * TOY_LAYERS : 0,
        .nepochs = TOY_EPOCHS,
        .steps_per_epoch = TOY_STEPS,
        .dir = job->dir,
        .every_steps = job->every,
        .report_every = 1,
        .chain = job->chain,
        .freeze = {.rule = job->rule, .user = freeze_by_epoch},
        .replay = job->replay,
        .nreplay = job->nreplay};
    bool resumed;
    for (size_t i = 0; i < N; i++)
        toy->weight[i] = (float)(i % 5) * 0.3F;
    FIRN_TRY(firn_train_open(&toy->train, &c, err));
    struct firn_threads *threads = firn_train_threads(toy->train);
    if (job->ablation != TOY_WITHOUT_RNG)
        FIRN_TRY(
            firn_threads_part(threads, "rng", &toy->rng, sizeof toy->rng, err));
    if (job->ablation != TOY_WITHOUT_BUFFERS)
        FIRN_TRY(firn_threads_part(threads, "buffers", toy->buffer,
                                   sizeof toy->buffer, err));
    FIRN_TRY(firn_threads_part(threads, "place", &toy->place, sizeof toy->place,
                               err));
    for (int v = 0; v < job->nthreads; v++) {
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
    if (job->ablation == TOY_WITHOUT_BUFFERS) /* to have something to compare */
        FIRN_TRY(firn_train_shared(toy->train, "stray", FIRN_CKPT_F32,
                                   toy->buffer, sizeof toy->buffer, err));
    return firn_train_resume(toy->train, &resumed, err);
}

static void interrupt(const struct toy *toy, const struct toyjob *job, int rank)
{
    int step = (int)firn_train_step(toy->train);
    if (rank == job->victim && step == job->stop_at)
        raise(SIGUSR1);
    if (rank == job->victim && step == job->kill_at)
        raise(SIGKILL);
}

/* A thread's gradient and the mean, in the trainer's own order of elements.
 * Elements of frozen layers hold -7 and keep it. */
static void leave_scattered(struct toy *toy, const float *grad, double loss)
{
    float user[N];
    for (size_t i = 0; i < N; i++)
        user[scattered(i)] = i < firn_train_start(toy->train) ? -7 : grad[i];
    firn_train_leave(toy->train, user, loss);
}

static void mean_scattered(struct toy *toy)
{
    float user[N];
    size_t frozen = firn_train_start(toy->train);
    for (size_t i = 0; i < N; i++)
        user[i] = -7;
    firn_train_mean(toy->train, user);
    for (size_t i = 0; i < N; i++) {
        if (i < frozen)
            FORKS_CHECK(user[scattered(i)] == -7);
        toy->mean[i] = user[scattered(i)];
    }
}

/* Process 0 trains on when it has heard something; on a busy machine an answer
 * may take long. */
static void await_orders(const struct toy *toy, int rank)
{
    static int nlooks; /* of five minutes' worth */
    struct timespec pause = {.tv_nsec = 5000000};
    if (rank != 0 || firn_train_step(toy->train) <= 3)
        return;
    for (; nlooks < 60000; nlooks++) {
        struct firn_orders heard = firn_reporter_orders(toy->train->reporter);
        if (heard.passes >= 0 || heard.stop >= 0)
            return;
        nanosleep(&pause, NULL);
    }
}

static void train(struct toy *toy, const struct toyjob *job, int rank)
{
    const int *mine;
    size_t nmine = firn_group_threads(firn_train_group(toy->train), &mine);
    while (firn_train_go(toy->train)) {
        size_t frozen = firn_train_start(toy->train);
        memcpy(toy->before, toy->weight, sizeof toy->weight);
        int v;
        for (int turn = 0; (v = firn_train_enter(toy->train)) >= 0; turn++) {
            double loss = learn(toy, job, v);
            const float *grad = handed_in(toy, job, turn, nmine);
            if (job->scattered)
                leave_scattered(toy, grad, loss);
            else
                firn_train_leave(toy->train, grad, loss);
        }
        interrupt(toy, job, rank);
        if (job->url_port > 0)
            await_orders(toy, rank);
        if (job->scattered)
            mean_scattered(toy);
        else
            firn_train_mean(toy->train, toy->mean);
        update(toy);
        if (job->watch_frozen)
            FORKS_CHECK(
                memcmp(toy->before, toy->weight, frozen * sizeof(float)) == 0);
    }
}

static int body(int rank, void *arg)
{
    const struct toyjob *job = arg;
    struct toy *toy = calloc(1, sizeof *toy);
    struct firn_error err = {0};
    FORKS_CHECK(toy != NULL);
    set_environment(job, rank);
    enum firn_status status = set_up(toy, job, &err);
    if (job->expects != NULL) {
        FORKS_CHECK(status != FIRN_OK);
        FORKS_CHECK(strstr(err.text, job->expects) != NULL);
        firn_train_close(toy->train, NULL);
        free(toy);
        return 0;
    }
    if (status != FIRN_OK)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    FORKS_CHECK(status == FIRN_OK);
    train(toy, job, rank);
    if (job->passes > 0)
        FORKS_CHECK(firn_train_passes(toy->train) == (unsigned)job->passes);
    int code = firn_train_close(toy->train, &err);
    if (code == 1 && job->kill_at < 0)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    free(toy);
    return code;
}

/* --- runs ---------------------------------------------------------------- */

static char top[200];

int toyjob_make_top(void **state)
{
    (void)state;
    draw_samples();
    const char *dir = getenv("TMPDIR");
    snprintf(top, sizeof top, "%.150s/firn-train-XXXXXX",
             dir != NULL ? dir : "/tmp");
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

int toyjob_remove_top(void **state)
{
    (void)state;
    empty(top);
    return rmdir(top);
}

struct toyjob toyjob_of(const char *name, int nprocs)
{
    struct toyjob job = {.nprocs = nprocs,
                         .nthreads = TOY_THREADS,
                         .stop_at = -1,
                         .kill_at = -1};
    snprintf(job.dir, sizeof job.dir, "%s/%s", top, name);
    empty(job.dir);
    return job;
}

void toyjob_run(struct toyjob *job, int *status)
{
    job->port = job->host_procs > 0 ? forks_free_port() : 0;
    forks_run(job->nprocs, body, job, status);
}

void toyjob_go(struct toyjob *job, int want)
{
    int status[8];
    toyjob_run(job, status);
    for (int r = 0; r < job->nprocs; r++)
        assert_int_equal(status[r], want);
}

/* --- a scheduler --------------------------------------------------------- */

/* A process of its own, since sanitizers mind forks of a process that has
 * threads. */
int toyjob_scheduler(const char *orders, int *port)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct httpd httpd;
        httpd_start(&httpd, NULL);
        httpd_tell(&httpd, HTTPD_ANSWER, 200, orders);
        FORKS_CHECK(write(ends[1], &httpd.at.port, sizeof httpd.at.port) ==
                    sizeof httpd.at.port);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], port, sizeof *port), sizeof *port);
    close(ends[0]);
    return (int)pid;
}

void toyjob_scheduler_end(int pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* --- comparing ----------------------------------------------------------- */

static void note(void *arg, const struct firn_ckpt_difference *d)
{
    struct toyjob_names *names = arg;
    size_t n = strlen(names->text);
    if (names->measured && strcmp(d->name, "train/decisions") == 0)
        return;
    snprintf(names->text + n, sizeof names->text - n, "%s ", d->name);
}

struct firn_ckpt *toyjob_last(const struct toyjob *job)
{
    struct firn_ckpt *ckpt = NULL;
    struct firn_error refused, err;
    assert_int_equal(
        firn_ckpt_open_newest(&ckpt, job->dir, "toy", &refused, &err), FIRN_OK);
    return ckpt;
}

struct toyjob_names toyjob_differences(const struct toyjob *a,
                                       const struct toyjob *b, bool measured)
{
    struct toyjob_names names = {.measured = measured};
    struct firn_ckpt *left = toyjob_last(a), *right = toyjob_last(b);
    assert_int_equal(firn_ckpt_step(left), firn_ckpt_step(right));
    firn_ckpt_compare(left, right, note, &names);
    firn_ckpt_close(left);
    firn_ckpt_close(right);
    return names;
}

uint64_t toyjob_last_step(const struct toyjob *job)
{
    struct firn_ckpt *ckpt = toyjob_last(job);
    uint64_t step = firn_ckpt_step(ckpt);
    firn_ckpt_close(ckpt);
    return step;
}

/* The decisions of a job, from its last checkpoint. */
size_t toyjob_log(const struct toyjob *job, struct firn_decision *log,
                  size_t max)
{
    struct firn_freezer_config c = {.nlayers = TOY_LAYERS};
    struct firn_freezer *freezer = NULL;
    const struct firn_decision *found;
    struct firn_ckpt *ckpt = toyjob_last(job);
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
