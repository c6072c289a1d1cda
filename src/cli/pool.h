/* pool.h - runs tasks in parallel child processes.
 *
 * Each task runs in its own child process, so that a crash affects only that
 * task. A child sends its progress and finally its outcome through a pipe.
 * SIGINT and SIGTERM stop the pool: the signal is passed on to the children,
 * children that do not stop are killed, and finished outcomes are kept.
 * Outcomes are in the order of tasks.
 */
#ifndef CLI_POOL_H
#define CLI_POOL_H
#include <firn/status.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct pool_child; /* the writing end of a child's pipe */

enum pool_state {
    POOL_WAITING, /* not started */
    POOL_RUNNING,
    POOL_ENDED,   /* status and, unless it crashed, `out` are filled */
    POOL_STOPPED, /* interrupted before it ended */
};

struct pool_outcome {
    enum pool_state state;
    double share; /* progress, 0..1 */
    enum firn_status status;
    bool has_out; /* the child sent `out` */
    char text[FIRN_ERROR_TEXT];
    void *out; /* out_size bytes, owned by the pool */
};

struct pool {
    /* Set by the caller. */
    size_t ntasks, out_size;
    int width; /* children in parallel, >= 1 */
    void *arg;
    /* Runs the task, in the child; fills `out`, which is zeroed. */
    enum firn_status (*run)(void *arg, size_t task, struct pool_child *child,
                            void *out, struct firn_error *err);
    /* Called in the parent a few times a second; may be NULL. */
    void (*watch)(void *arg, const struct pool *pool);

    /* Filled by pool_run(). */
    struct pool_outcome *outcomes; /* ntasks of them */
    bool is_interrupted;
};

/* Runs all tasks. Returns when each has ended or is stopped. */
void pool_run(struct pool *pool);
void pool_release(struct pool *pool);

/* Progress of the pool. */
struct pool_progress {
    double share;   /* of all tasks, 0..1 */
    size_t nended;  /* number of ended tasks */
    size_t running; /* the first running task; ntasks if none */
};

/* In the parent; the pool has at least one task. */
struct pool_progress pool_progress(const struct pool *pool);

/* In the child: sends its progress to the parent; cheap for small steps. */
void pool_share(struct pool_child *child, double share);
/* In the child: becomes non-zero when the task must stop. */
const volatile sig_atomic_t *pool_stop(void);

#endif
