/* joinjob.c - see joinjob.h.
 */
#define _GNU_SOURCE
#include "lib/joinjob.h"
#include "base/rng.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct joinjob_share {
    _Atomic uint64_t gate, step;
    double ended_s[JOINJOB_STEPS];
};

static double now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void)
{
    struct timespec pause = {.tv_nsec = 200000};
    nanosleep(&pause, NULL);
}

/* --- the trainer ---------------------------------------------------------- */

struct toy {
    float *weight, *momentum, *grad;
    struct rng rng;
    uint64_t place;
};

static double learn(struct toy *toy, size_t n, int thread, int nthreads)
{
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t sample =
            (toy->place * (uint64_t)nthreads + (uint64_t)thread) % 97;
        float off = toy->weight[i] - (float)((sample * 7 + i) % 13) * 0.1F;
        toy->grad[i] = rng_below(&toy->rng, 4) != 0 ? off : 0;
        loss += (double)(off * off);
    }
    toy->place++;
    return loss / (double)n;
}

/* Waits until the step may be made. */
static void wait_at_gate(const struct joinjob *job, uint64_t step)
{
    while (step >= atomic_load(&job->share->gate))
        nap();
}

static void note_step(const struct joinjob *job, uint64_t step, int rank)
{
    if (rank != 0 || step >= JOINJOB_STEPS)
        return;
    job->share->ended_s[step] = now_s();
    atomic_store(&job->share->step, step + 1);
}

static void train(struct joinjob *job, struct toy *toy, struct firn_train *t)
{
    while (firn_train_go(t)) {
        uint64_t step = firn_train_step(t);
        wait_at_gate(job, step);
        for (int v; (v = firn_train_enter(t)) >= 0;) {
            double loss = learn(toy, job->nelements, v, job->nthreads);
            firn_train_leave(t, toy->grad, loss);
        }
        firn_train_mean(t, toy->grad);
        for (size_t i = 0; i < job->nelements; i++) {
            toy->momentum[i] = 0.9F * toy->momentum[i] + toy->grad[i];
            toy->weight[i] -= 0.05F * toy->momentum[i];
        }
        note_step(job, step, firn_train_rank(t));
    }
}

static enum firn_status set_up(struct joinjob *job, struct toy *toy,
                               bool is_other, struct firn_train **t,
                               struct firn_error *err)
{
    size_t layer_start[] = {0, job->nelements / 2, job->nelements};
    size_t n = job->nelements * sizeof(float);
    struct firn_train_config c = {.name = "toy",
                                  .nthreads = job->nthreads,
                                  .nlayers = 2,
                                  .layer_start = layer_start,
                                  .nepochs = 1,
                                  .steps_per_epoch = job->nsteps,
                                  .dir = job->dir,
                                  .every_steps = job->every,
                                  .chain = job->chain};
    FIRN_TRY(firn_train_open(t, &c, err));
    struct firn_threads *threads = firn_train_threads(*t);
    FIRN_TRY(
        firn_threads_part(threads, "rng", &toy->rng, sizeof toy->rng, err));
    FIRN_TRY(firn_threads_part(threads, "place", &toy->place, sizeof toy->place,
                               err));
    for (int v = 0; v < job->nthreads; v++) {
        size_t nbytes;
        struct rng *rng = firn_threads_stored(threads, v, "rng", &nbytes);
        if (rng != NULL)
            rng_seed(rng, 100 + (uint64_t)v);
    }
    FIRN_TRY(
        firn_train_shared(*t, "weights", FIRN_CKPT_F32, toy->weight, n, err));
    FIRN_TRY(firn_train_shared(*t, is_other ? "other" : "momentum",
                               FIRN_CKPT_F32, toy->momentum, n, err));
    return firn_train_resume(*t, NULL, err);
}

static int body(struct joinjob *job, bool is_other)
{
    struct toy toy = {0};
    struct firn_train *t = NULL;
    struct firn_error err = {0};
    toy.weight = calloc(job->nelements, sizeof(float));
    toy.momentum = calloc(job->nelements, sizeof(float));
    toy.grad = calloc(job->nelements, sizeof(float));
    if (toy.weight == NULL || toy.momentum == NULL || toy.grad == NULL)
        return 1;
    if (set_up(job, &toy, is_other, &t, &err) != FIRN_OK) {
        if (getenv("FIRN_JOIN_ORDER") == NULL || getenv("JOINJOB_LOUD") != NULL)
            fprintf(stderr, "joinjob: %s\n", err.text);
        return 1;
    }
    train(job, &toy, t);
    int code = firn_train_close(t, &err);
    if (code != 0 && getenv("JOINJOB_LOUD") != NULL)
        fprintf(stderr, "joinjob: %s\n", err.text);
    free(toy.weight);
    free(toy.momentum);
    free(toy.grad);
    return code;
}

/* --- processes ------------------------------------------------------------ */

static void set_number(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

/* `order` 0: not a joiner. */
static pid_t fork_one(struct joinjob *job, int rank, int nprocs, uint64_t order,
                      bool is_other)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    char text[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    set_number("RANK", (uint64_t)rank);
    set_number("WORLD_SIZE", (uint64_t)nprocs);
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    unsetenv("FIRN_URL");
    set_number("FIRN_ATTEMPT", (uint64_t)job->attempt);
    snprintf(text, sizeof text, "join-%d", (int)getppid());
    setenv("FIRN_JOB", text, 1);
    snprintf(text, sizeof text, "/proc/self/fd/%d", job->fd);
    setenv("FIRN_JOIN", text, 1);
    if (job->is_far) {
        setenv("FIRN_GROUP_KEY",
               "00112233445566778899aabbccddeeff"
               "00112233445566778899aabbccddeeff",
               1);
        setenv("FIRN_HOST", "127.0.0.1", 1);
    }
    unsetenv("FIRN_JOIN_ORDER");
    if (order > 0)
        set_number("FIRN_JOIN_ORDER", order);
    _exit(body(job, is_other));
}

static void kill_one(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

void joinjob_start(struct joinjob *job, int nprocs)
{
    job->attempt++;
    job->nprocs = nprocs;
    if (job->board != NULL) {
        firn_join_board_close(job->board);
        close(job->fd);
    }
    job->fd = firn_join_board_make(&job->board);
    assert_true(job->fd >= 0);
    atomic_store(&job->board->is_far, job->is_far);
    for (int r = 0; r < nprocs; r++)
        job->pid[r] = fork_one(job, r, nprocs, 0, false);
}

static void kill_all(struct joinjob *job, pid_t *joiner)
{
    for (int r = 0; r < JOINJOB_PROCS; r++) {
        kill_one(&job->pid[r]);
        if (joiner != NULL)
            kill_one(&joiner[r]);
    }
    job->nlost++;
}

/* Has one of these ended? Its number, and how: -1: none has. */
static int ended(pid_t *pid, int n, int *status)
{
    for (int r = 0; r < n; r++)
        if (pid[r] > 0 && waitpid(pid[r], status, WNOHANG) == pid[r]) {
            pid[r] = 0;
            return r;
        }
    return -1;
}

/* --- a resize ------------------------------------------------------------- */

static enum firn_join_phase phase_of(const struct joinjob *job)
{
    return firn_join_phase_of(atomic_load(&job->board->word));
}

/* One joiner, or one member, is hit when the switch begins. */
static void strike(struct joinjob *job, const pid_t *joiner, int nprocs,
                   enum joinjob_fault fault)
{
    for (int r = 0; r < nprocs; r++) {
        if (joiner[r] <= 0)
            continue;
        if (fault == JOINJOB_JOINER_LATE)
            kill(joiner[r], SIGKILL);
        if (fault == JOINJOB_JOINER_HANGS)
            kill(joiner[r], SIGSTOP);
        break;
    }
    if (fault == JOINJOB_MEMBER)
        kill(job->pid[job->nprocs - 1], SIGKILL);
}

/* True: the resize is over, or the attempt is. */
static bool is_settled(struct joinjob *job, pid_t *joiner, int nprocs,
                       uint64_t order, bool *is_broken)
{
    struct firn_join_row row;
    enum firn_join_phase phase = phase_of(job); /* before the ends are read */
    int status = 0;
    if (phase == FIRN_JOIN_DONE || phase == FIRN_JOIN_FAILED)
        return true;
    if (ended(joiner, nprocs, &status) >= 0) {
        atomic_store(&job->board->lost, order + 1);
        (void)firn_join_move(job->board, order, FIRN_JOIN_PREPARING,
                             FIRN_JOIN_ON_JOINER_LOST, &row);
    }
    /* A leaver may end well before process 0 has written that all is done. */
    int lost = ended(job->pid, job->nprocs, &status);
    *is_broken = lost >= 0 && status != 0 && phase_of(job) != FIRN_JOIN_DONE;
    return *is_broken;
}

static void wait_for(pid_t *pid)
{
    if (*pid > 0)
        waitpid(*pid, NULL, 0);
    *pid = 0;
}

static void end_done(struct joinjob *job, const pid_t *joiner, int nprocs,
                     const int *from)
{
    pid_t old[JOINJOB_PROCS];
    memcpy(old, job->pid, sizeof old);
    memset(job->pid, 0, sizeof job->pid);
    for (int r = 0; r < nprocs; r++) {
        job->pid[r] = from[r] >= 0 ? old[from[r]] : joiner[r];
        if (from[r] >= 0)
            old[from[r]] = 0;
    }
    for (int r = 0; r < JOINJOB_PROCS; r++) /* leavers */
        wait_for(&old[r]);
    job->nprocs = nprocs;
}

static uint64_t give(struct joinjob *job, int nprocs, const int *from)
{
    struct firn_join_order order = {
        .nold = job->nprocs, .nnew = nprocs, .limit_s = job->limit_s};
    for (int r = 0; r < nprocs; r++)
        order.from[r] = from[r];
    for (int r = 0; r < nprocs; r++)
        order.place[r] = r / 2;
    uint64_t number = firn_join_give(job->board, &order);
    assert_true(number > 0);
    return number;
}

enum firn_join_phase joinjob_resize(struct joinjob *job, int nprocs,
                                    const int *from, enum joinjob_fault fault)
{
    pid_t joiner[JOINJOB_PROCS] = {0};
    bool is_broken = false, has_struck = false;
    struct firn_join_row row;
    uint64_t order = give(job, nprocs, from);
    for (int r = 0; r < nprocs; r++)
        if (from[r] < 0)
            joiner[r] =
                fork_one(job, r, nprocs, order, fault == JOINJOB_OTHER_MODEL);
    for (int r = 0; fault == JOINJOB_JOINER_EARLY && r < nprocs; r++)
        if (joiner[r] > 0)
            kill(joiner[r], SIGKILL);
    while (!is_settled(job, joiner, nprocs, order, &is_broken)) {
        if (phase_of(job) == FIRN_JOIN_SWITCHING && !has_struck) {
            strike(job, joiner, nprocs, fault);
            has_struck = true;
        }
        joinjob_allow(job, joinjob_step(job) + 2);
        nap();
    }
    enum firn_join_phase phase = is_broken ? FIRN_JOIN_BROKEN : phase_of(job);
    if (phase == FIRN_JOIN_DONE)
        end_done(job, joiner, nprocs, from);
    for (int r = 0; r < nprocs && phase == FIRN_JOIN_FAILED; r++)
        kill_one(&joiner[r]);
    if (phase == FIRN_JOIN_BROKEN)
        kill_all(job, joiner);
    else
        assert_true(firn_join_move(job->board, order, phase,
                                   FIRN_JOIN_ON_CLEARED, &row));
    return phase;
}

struct firn_join_result joinjob_result(const struct joinjob *job)
{
    return job->board->result;
}

/* --- a run ---------------------------------------------------------------- */

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    char name[600];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        snprintf(name, sizeof name, "%s/%.200s", path, e->d_name);
        if (e->d_name[0] != '.')
            remove(name);
    }
    if (dir != NULL)
        closedir(dir);
}

void joinjob_open(struct joinjob *job, const char *dir, int nthreads,
                  size_t nelements, uint64_t nsteps)
{
    *job = (struct joinjob){.nthreads = nthreads,
                            .nelements = nelements,
                            .nsteps = nsteps,
                            .every = 20,
                            .limit_s = 60,
                            .fd = -1};
    snprintf(job->dir, sizeof job->dir, "%s", dir);
    empty(dir);
    job->share = mmap(NULL, sizeof *job->share, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job->share != MAP_FAILED);
}

void joinjob_close(struct joinjob *job)
{
    for (int r = 0; r < JOINJOB_PROCS; r++)
        kill_one(&job->pid[r]);
    firn_join_board_close(job->board);
    if (job->fd >= 0)
        close(job->fd);
    munmap(job->share, sizeof *job->share);
    empty(job->dir);
    rmdir(job->dir);
}

void joinjob_allow(struct joinjob *job, uint64_t step)
{
    uint64_t now = atomic_load(&job->share->gate);
    if (step > now)
        atomic_store(&job->share->gate, step);
}

bool joinjob_finish(struct joinjob *job)
{
    bool is_good = true;
    joinjob_allow(job, UINT64_MAX);
    for (int r = 0; r < job->nprocs; r++) {
        int status = 0;
        assert_int_equal(waitpid(job->pid[r], &status, 0), job->pid[r]);
        job->pid[r] = 0;
        if (status != 0)
            fprintf(stderr, "joinjob: process %d of %d ended with %s %d\n", r,
                    job->nprocs, WIFEXITED(status) ? "status" : "signal",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        is_good = is_good && status == 0;
    }
    return is_good;
}

uint64_t joinjob_step(const struct joinjob *job)
{
    return atomic_load(&job->share->step);
}

double joinjob_ended_s(const struct joinjob *job, uint64_t step)
{
    return step < JOINJOB_STEPS ? job->share->ended_s[step] : 0;
}

uint64_t joinjob_hash(const struct joinjob *job)
{
    struct firn_ckpt *ckpt = NULL;
    struct firn_error refused = {0}, err = {0};
    assert_int_equal(
        firn_ckpt_open_newest(&ckpt, job->dir, "toy", &refused, &err), FIRN_OK);
    assert_int_equal(firn_ckpt_step(ckpt), job->nsteps);
    uint64_t hash = 0xcbf29ce484222325u;
    const struct firn_ckpt_section *s;
    for (size_t i = 0; (s = firn_ckpt_at(ckpt, i)) != NULL; i++) {
        const unsigned char *at = s->data;
        for (const char *c = s->name; *c != '\0'; c++)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        for (uint64_t k = 0; k < s->nbytes; k++)
            hash = (hash ^ at[k]) * 0x100000001b3u;
    }
    firn_ckpt_close(ckpt);
    return hash;
}
