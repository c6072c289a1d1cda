/* stopsignal.c - SIGUSR1, and SIGTERM where the cluster sends it, counted.
 *
 * Slurm ends a job that it preempts, or whose time is over, by SIGTERM to each
 * of its processes, and many sites give no other notice. There the supervisor
 * sets FIRN_TERM=checkpoint, and SIGTERM counts as a request for a checkpoint
 * like SIGUSR1. A program that does not answer is killed later, as before.
 *
 * Invariants:
 * (1) the handler does nothing but add to a lock-free counter, call the former
 *     handler and keep errno: all of it may be done in a signal handler;
 * (2) `before` changes only while our handler is not in place, so the handler
 *     never reads half of it;
 * (3) a handler that the program installed over ours may call ours. Then ours
 *     is never installed again: each would call the other without end;
 * (4) a child of fork() ends by SIGTERM as if we were not there: libraries end
 *     their helpers so, and wait for them.
 *
 * The signal interrupts no system call that can be restarted. A child of
 * fork() has the handler and a counter of its own.
 */
#include "train/stopsignal.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned nusers;
static bool in_place; /* (3) */
enum { NSIGNALS = 2 };
static const int signals[NSIGNALS] = {SIGUSR1, SIGTERM};
static struct sigaction before[NSIGNALS];
static pid_t owner;    /* the process that caught them */
static size_t ncaught; /* of `signals`, while in place */
static atomic_uint count;

static void handle(int number, siginfo_t *info, void *context)
{
    int error = errno;
    if (number == SIGTERM && getpid() != owner) { /* (4) */
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM); /* delivered when this handler returns */
        return;
    }
    const struct sigaction *former = &before[number == SIGUSR1 ? 0 : 1];
    atomic_fetch_add(&count, 1);
    if ((former->sa_flags & SA_SIGINFO) != 0)
        former->sa_sigaction(number, info, context);
    else if (former->sa_handler != SIG_DFL && former->sa_handler != SIG_IGN)
        former->sa_handler(number);
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 &&
           action->sa_sigaction == handle;
}

static bool has_term(void)
{
    const char *term = getenv("FIRN_TERM");
    return term != NULL && strcmp(term, "checkpoint") == 0;
}

static bool catch_one(size_t i)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART};
    if (sigaction(signals[i], NULL, &before[i]) != 0) /* (2) */
        return false;
    ours.sa_mask = before[i].sa_mask;
    ours.sa_sigaction = handle;
    return sigaction(signals[i], &ours, NULL) == 0;
}

static enum firn_status put_in_place(struct firn_error *err)
{
    ncaught = 0;
    owner = getpid();
    for (size_t i = 0; i < (has_term() ? NSIGNALS : 1); i++) {
        if (!catch_one(i))
            return firn_fail(err, FIRN_EIO, "signal %d cannot be caught: %s",
                             signals[i], strerror(errno));
        ncaught = i + 1;
    }
    in_place = true;
    return FIRN_OK;
}

enum firn_status firn_stopsignal_catch(struct firn_error *err)
{
    enum firn_status status = FIRN_OK;
    pthread_mutex_lock(&lock);
    if (!in_place)
        status = put_in_place(err);
    if (status == FIRN_OK)
        nusers++;
    pthread_mutex_unlock(&lock);
    return status;
}

/* The program has not replaced any of our handlers. */
static bool are_ours(void)
{
    struct sigaction now = {0};
    for (size_t i = 0; i < ncaught && i < NSIGNALS; i++)
        if (sigaction(signals[i], NULL, &now) != 0 || !is_ours(&now))
            return false;
    return true;
}

void firn_stopsignal_release(void)
{
    pthread_mutex_lock(&lock);
    if (nusers > 0 && --nusers == 0 && are_ours()) {
        in_place = false;
        for (size_t i = 0; i < ncaught && i < NSIGNALS; i++)
            in_place = sigaction(signals[i], &before[i], NULL) != 0 || in_place;
    }
    pthread_mutex_unlock(&lock);
}

unsigned firn_stopsignal_count(void)
{
    return atomic_load(&count);
}
