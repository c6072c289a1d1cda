/* stopsignal.c - SIGUSR1, counted.
 *
 * Invariants:
 * (1) the handler does nothing but add to a lock-free counter, call the former
 *     handler and keep errno: all of it may be done in a signal handler;
 * (2) `before` changes only while our handler is not in place, so the handler
 *     never reads half of it;
 * (3) a handler that the program installed over ours may call ours. Then ours
 *     is never installed again: each would call the other without end.
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
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned nusers;
static bool in_place; /* (3) */
static struct sigaction before;
static atomic_uint count;

static void handle(int number, siginfo_t *info, void *context)
{
    int error = errno;
    atomic_fetch_add(&count, 1);
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 &&
           action->sa_sigaction == handle;
}

static enum firn_status put_in_place(struct firn_error *err)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART};
    if (sigaction(SIGUSR1, NULL, &before) == 0) { /* (2) */
        ours.sa_mask = before.sa_mask;
        ours.sa_sigaction = handle;
        if (sigaction(SIGUSR1, &ours, NULL) == 0) {
            in_place = true;
            return FIRN_OK;
        }
    }
    return firn_fail(err, FIRN_EIO, "SIGUSR1 cannot be caught: %s",
                     strerror(errno));
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

void firn_stopsignal_release(void)
{
    struct sigaction now = {0};
    pthread_mutex_lock(&lock);
    if (nusers > 0 && --nusers == 0 && sigaction(SIGUSR1, NULL, &now) == 0 &&
        is_ours(&now) && sigaction(SIGUSR1, &before, NULL) == 0)
        in_place = false;
    pthread_mutex_unlock(&lock);
}

unsigned firn_stopsignal_count(void)
{
    return atomic_load(&count);
}
