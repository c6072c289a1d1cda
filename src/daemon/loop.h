/* loop.h - the live scheduler: requests, events, rounds and commits take turns.
 *
 * One thread. A turn is: requests are handled, the engine's events taken in, a
 * round decided if one is due, its steps handed to the engine, everything
 * committed at once, and then the answers given. So whatever was answered is on
 * disk.
 *
 * Book ids are those users see. The round has ids of its own, rising: a job
 * that comes back to it (released, retried, changed) comes under a new one.
 */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H
#include "daemon/config.h"
#include <firn/engine.h>

struct loop;

struct loop_setup {
    const struct config *config;          /* finished */
    const char *token;                    /* the operator's; NULL: none */
    const char *certificate, *key;        /* of TLS; NULL: none */
    const struct firn_engine_def *engine; /* NULL: the one config names */
    bool is_deaf;                         /* no HTTP: for tests */
    int argc;                             /* firnd's flags, to be read again */
    char *const *argv;                    /* on SIGHUP; NULL: none */
};

/* Opens the state, the engine, the round; takes over what runs; listens. */
enum firn_status loop_open(struct loop **out, const struct loop_setup *setup,
                           struct firn_error *err);
/* Jobs go on. The policy's state is kept; all is committed. */
void loop_close(struct loop *loop);

/* Until loop_stop(), or until the state cannot be written. SIGTERM, SIGINT and
 * SIGHUP are blocked afterwards, so that no second signal cuts the end short.
 */
enum firn_status loop_run(struct loop *loop, struct firn_error *err);
/* May be called from a signal handler. */
void loop_stop(struct loop *loop);

/* One turn, without waiting; when the next is due at the latest, on the
 * engine's clock. FIRN_EIO: the state cannot be written, and the loop must
 * end. */
enum firn_status loop_turn(struct loop *loop, double *next_s,
                           struct firn_error *err);

#endif
