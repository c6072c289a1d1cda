/* switch.c - the next task is made ready while the present one computes.
 *
 * One thread runs the stages in order (Ymir 6.2: first the data loader, then
 * the weights) and stops at the first that fails. take() waits for what is
 * left: with enough warning nothing is, and the pause seen is the swap alone.
 *
 * Invariants: (1) `done` is set once, by the thread, after everything else it
 * writes, and is read before any of that; (2) all signals are blocked in the
 * thread, so handlers of the host program run elsewhere.
 *
 * A stage cannot be cancelled: take() waits for it. What a stage made is the
 * caller's also when a later one failed. After fork() the child has no thread
 * and must not call take().
 */
#include <firn/task.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STAGES = 8 };

struct firn_switch {
    struct firn_switch_stage stages[MOST_STAGES];
    size_t nstages;
    pthread_t thread;
    enum firn_status status;
    struct firn_error err;
    struct firn_switch_times times;
    atomic_bool done; /* (1) */
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *run(void *arg)
{
    struct firn_switch *s = arg;
    for (size_t i = 0; i < s->nstages && s->status == FIRN_OK; i++) {
        double start_s = now_s();
        s->err.text[0] = '\0';
        s->status = s->stages[i].prepare(s->stages[i].arg, &s->err);
        s->times.stage_s[i] = now_s() - start_s;
        s->times.prepare_s += s->times.stage_s[i];
        if (s->status == FIRN_OK)
            continue;
        if (s->err.text[0] == '\0')
            firn_fail(&s->err, s->status, "%s", firn_status_text(s->status));
        firn_fail_in(&s->err, s->stages[i].name);
    }
    atomic_store(&s->done, true);
    return NULL;
}

static enum firn_status start_thread(struct firn_switch *s,
                                     struct firn_error *err)
{
    sigset_t all, before;
    sigfillset(&all); /* (2) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return firn_fail(err, FIRN_EIO, "no thread to prepare a switch: %s",
                         strerror(rc));
    return FIRN_OK;
}

enum firn_status firn_switch_start(struct firn_switch **out,
                                   const struct firn_switch_stage *stages,
                                   size_t nstages, struct firn_error *err)
{
    if (nstages > MOST_STAGES)
        return firn_fail(err, FIRN_EINVAL,
                         "a switch of %zu stages; the limit is %d", nstages,
                         MOST_STAGES);
    for (size_t i = 0; i < nstages; i++)
        if (stages[i].name == NULL || stages[i].prepare == NULL)
            return firn_fail(err, FIRN_EINVAL,
                             "stage %zu of a switch has no name or function",
                             i + 1);
    struct firn_switch *s = calloc(1, sizeof *s);
    if (s == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory to prepare a switch");
    if (nstages > 0)
        memcpy(s->stages, stages, nstages * sizeof *stages);
    s->nstages = nstages;
    enum firn_status status = start_thread(s, err);
    if (status == FIRN_OK)
        *out = s;
    else
        free(s);
    return status;
}

bool firn_switch_ready(const struct firn_switch *s)
{
    return atomic_load(&s->done);
}

enum firn_status firn_switch_take(struct firn_switch *s,
                                  struct firn_switch_times *times,
                                  struct firn_error *err)
{
    double start_s = now_s();
    pthread_join(s->thread, NULL);
    s->times.waited_s = now_s() - start_s;
    enum firn_status status = s->status;
    if (times != NULL)
        *times = s->times;
    if (status != FIRN_OK && err != NULL)
        *err = s->err;
    free(s);
    return status;
}
