/* loop_think.c - a long decision, with submits answered meanwhile.
 *
 * Over a hundred thousand jobs some policies think for a second, and no submit
 * shall wait for that. So with many jobs the policy thinks in a thread of its
 * own, and the loop's thread goes on with the one thing that does not touch
 * what the policy looks at: it takes submits, commits them and answers.
 *
 * (1) While the policy thinks, the loop's thread changes nothing that the
 *     policy or a forecast reads: the round, the tracks, the forecasts, the
 *     cluster and the jobs that the book has in memory. The book is paused,
 *     and other requests wait in the API.
 * (2) The policy's thread writes nothing but its plan, its state and the
 *     forecasts' own memory. It never reads the store, the metrics or the
 *     engine.
 * (3) Jobs that came meanwhile enter the round behind the decision, in their
 *     order. Nothing of a decision depends on whether it had a thread.
 * (4) What was changed in the turn before the decision is committed with the
 *     first of these submits: each change of the book stands for itself.
 * (5) Requests that waited are handled a slice in a turn, and none is decided
 *     before all are: a thousand cancels at once would hold submits up as a
 *     decision does.
 *
 * With few jobs, without a socket, or when there is no thread to be had, the
 * policy thinks where it was called. Cost: a thread for each such decision.
 */
#include "base/clock.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* libmicrohttpd has to be run often for a while after each answer: loop.c. */
static const double FLUSH_S = 0.1;
enum { FLUSH_MS = 1, LONGEST_MS = 100 };

struct thought {
    void (*work)(void *what);
    void *what;
    int done; /* an eventfd */
};

static void *think(void *arg)
{
    struct thought *thought = arg;
    thought->work(thought->what);
    eventfd_write(thought->done, 1);
    return NULL;
}

/* The thread gets no signals: they are the loop's. */
static bool begin(struct thought *thought, pthread_t *thread)
{
    sigset_t all, before;
    thought->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thought->done < 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, think, thought);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        close(thought->done);
    return failed == 0;
}

/* Takes requests, commits and answers; then waits for more of them, or for the
 * end of the thought. */
static void serve(struct loop *loop, const struct thought *thought)
{
    struct firn_error err = {0};
    int wait_ms = -1;
    http_run(loop->http);
    book_wrote(loop->book, loop_answer(loop, &err), &err);
    struct pollfd fds[] = {
        {.fd = http_fd(loop->http, &wait_ms), .events = POLLIN},
        {.fd = thought->done, .events = POLLIN}};
    if (wait_ms < 0 || wait_ms > LONGEST_MS)
        wait_ms = LONGEST_MS;
    if (wait_ms > FLUSH_MS &&
        dock_now_s(&loop->dock) < loop->answered_s + FLUSH_S)
        wait_ms = FLUSH_MS;
    poll(fds, 2, wait_ms);
}

void loop_think(void *arg, void (*work)(void *what), void *what)
{
    struct loop *loop = arg;
    struct thought thought = {work, what, -1};
    const struct state *state = round_state(loop->desk.round);
    pthread_t thread;
    eventfd_t n = 0;
    if (loop->http == NULL || book_broken(loop->book)->status != FIRN_OK ||
        state->nwaiting + state->nrunning < loop->desk.think_from ||
        !begin(&thought, &thread)) {
        work(what);
        return;
    }
    loop->desk.is_thinking = true; /* (1) */
    book_pause(loop->book);
    api_pause(loop->api);
    while (eventfd_read(thought.done, &n) != 0 &&
           book_broken(loop->book)->status == FIRN_OK)
        serve(loop, &thought);
    pthread_join(thread, NULL);
    close(thought.done);
    book_resume(loop->book);
    loop->desk.is_thinking = false;
}

void loop_thought(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.arrived.n; i++) /* (3) */
        loop_changed(loop, book_job(loop->book, loop->desk.arrived.at[i]));
    loop->desk.arrived.n = 0;
    api_resume(loop->api, clock_elapsed_s() + LOOP_SLICE_S); /* (5) */
}
