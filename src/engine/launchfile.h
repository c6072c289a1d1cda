/* launchfile.h - what a shepherd is to run, handed over in a file.
 *
 *     firn-launch 1
 *     arg 9
 *     train.bin
 *     env 7
 *     A=b
 *     c
 *     ...
 *     end 0
 *
 * A field is its name, the length of its value, and the value with a line end
 * behind it: any bytes but NUL pass unchanged and nothing is quoted or taken
 * apart. The reader is strict: unknown or missing fields, a wrong length, a
 * number out of range or bytes behind the end refuse the whole.
 */
#ifndef ENGINE_LAUNCHFILE_H
#define ENGINE_LAUNCHFILE_H
#include "base/arena.h"
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

/* A worker's own variables: own.at[first] to the next one's. */
struct launch_worker {
    size_t first, n;
};

/* Texts lie in the arena, after reading; the writer's may lie anywhere. */
struct launchfile {
    struct arena text;
    int64_t job, attempt;
    const char *workdir, *log;
    int64_t log_max_bytes; /* 0: no limit */
    double grace_s;
    bool can_checkpoint;
    int cgroup;                        /* enum cgroup_mode */
    VEC(const char *) argv;            /* at least one */
    VEC(const char *) common;          /* "NAME=value" of all workers */
    VEC(struct launch_worker) workers; /* at least one */
    VEC(const char *) own;             /* "NAME=value", worker by worker */
    VEC(const char *) env;             /* the user's, over all others */
};

/* The next variables are of another worker. */
void launchfile_add_worker(struct launchfile *launch);
void launchfile_add_own(struct launchfile *launch, const char *variable);

void launchfile_write(const struct launchfile *launch, struct firn_buf *out);
/* FIRN_EINVAL names what is wrong; release `out` in any case. */
enum firn_status launchfile_read(struct launchfile *out, struct firn_bytes text,
                                 struct firn_error *err);
void launchfile_release(struct launchfile *launch);

#endif
