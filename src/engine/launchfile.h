/* launchfile.h - the file that tells a shepherd what to run.
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
 * A field is its name, the length of its value, the value and a line end: all
 * bytes but NUL pass unchanged, and nothing is quoted. The reader is strict: an
 * unknown or missing field, a wrong length, a number out of range or bytes
 * behind the end make the whole file invalid. The names "epoch" (the attempt)
 * and "cage" (the control group) are those of older versions.
 */
#ifndef ENGINE_LAUNCHFILE_H
#define ENGINE_LAUNCHFILE_H
#include "base/arena.h"
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

/* A worker's own variables: own.at[first] on, n of them. */
struct launch_worker {
    size_t first, n;
};

/* The reader's texts lie in the arena; the writer's may lie anywhere. */
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
    VEC(const char *) env; /* the user's, which replace all others */
};

/* Begins the next worker; launchfile_add_own() adds its variables. */
void launchfile_add_worker(struct launchfile *launch);
void launchfile_add_own(struct launchfile *launch, const char *variable);

void launchfile_write(const struct launchfile *launch, struct firn_buf *out);
/* FIRN_EINVAL says what is wrong. Release `out` in any case. */
enum firn_status launchfile_read(struct launchfile *out, struct firn_bytes text,
                                 struct firn_error *err);
void launchfile_release(struct launchfile *launch);

#endif
