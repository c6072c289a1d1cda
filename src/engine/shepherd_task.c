/* shepherd_task.c - a task of srun: supervises one worker, on the worker's
 * host.
 *
 * It runs the same code as a shepherd: all processes of the worker are below
 * it, requests and graces are the same, and so is the meaning of an end. The
 * differences: requests come by files (shepherd_watch.c), its lock is one that
 * all workers share (engine/attemptfiles.h), its output goes to srun, and it
 * writes its end into a file of its own.
 *
 * Its worker is found by the node's name and the task's place on that node, as
 * Slurm gives them, not by a rank: so the order of Slurm's nodes does not
 * matter. CUDA_VISIBLE_DEVICES is Slurm's, and stays.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/str.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include <fcntl.h>
#include <firn/launch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const double lock_wait_s = 10, write_again_s = 60;

static bool has(const struct launchfile *launch, size_t worker,
                const char *name, const char *value)
{
    const struct launch_worker *own = &launch->workers.at[worker];
    size_t n = strlen(name);
    for (size_t i = 0; i < own->n; i++) {
        const char *variable = launch->own.at[own->first + i];
        if (strncmp(variable, name, n) == 0 && variable[n] == '=')
            return strcmp(variable + n + 1, value) == 0;
    }
    return false;
}

/* Finds our worker, and leaves no other one in the launch. */
static int find_worker(struct shepherd *s)
{
    const char *node = getenv("SLURMD_NODENAME");
    const char *place = getenv("SLURM_LOCALID");
    if (node == NULL || place == NULL)
        return SHEPHERD_BAD;
    for (size_t i = 0; i < s->launch.workers.n; i++) {
        if (!has(&s->launch, i, "FIRN_NODE", node) ||
            !has(&s->launch, i, "LOCAL_RANK", place))
            continue;
        s->worker = i;
        s->launch.workers.at[0] = s->launch.workers.at[i];
        s->launch.workers.n = 1;
        s->launch.cgroup = CGROUP_OFF; /* Slurm makes its own */
        return SHEPHERD_OVER;
    }
    return SHEPHERD_BAD;
}

/* Process 0 listens on this host. The ports were chosen by the shepherd of the
 * batch step; if that one is on another host, no process holds them here. */
static void hold_ports(struct shepherd *s)
{
    static const char name[] = "MASTER_PORT=";
    size_t n = sizeof name - 1;
    if (strncmp(s->port, name, n) == 0 && has(&s->launch, 0, "RANK", "0"))
        ports_hold_at(&s->ports, (int)strtol(s->port + n, NULL, 10));
}

static int take_lock(struct shepherd *s)
{
    double until_s = clock_elapsed_s() + lock_wait_s;
    while ((s->lock = attempt_workers_lock(s->above, true)) == -1) {
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_LOCKED;
        shepherd_pause(0.005);
    }
    return s->lock >= 0 ? SHEPHERD_OVER : SHEPHERD_IO;
}

static int enter(struct shepherd *s)
{
    int code = shepherd_open(s);
    if (code == SHEPHERD_OVER)
        code = find_worker(s);
    if (code == SHEPHERD_OVER)
        code = take_lock(s);
    if (code == SHEPHERD_OVER)
        code = shepherd_check_fence(s);
    if (code != SHEPHERD_OVER)
        return code;
    setsid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return SHEPHERD_IO;
    (void)attempt_worker_begin(
        s->folder, s->worker,
        NULL); /* if that fails, only a vanished worker is found later */
    s->log = fcntl(1, F_DUPFD_CLOEXEC, 3);
    s->kernel = shepherd_kernel(); /* before the kills are counted */
    s->ooms = shepherd_ooms();
    return SHEPHERD_OVER;
}

static int leave(struct shepherd *s)
{
    struct attempt_exit result = shepherd_verdict(s);
    double until_s = clock_elapsed_s() + write_again_s;
    while (attempt_worker_put(s->folder, s->worker, &result, NULL) != FIRN_OK) {
        if (clock_elapsed_s() >= until_s)
            return SHEPHERD_IO;
        shepherd_pause(1);
    }
    return SHEPHERD_OVER;
}

int shepherd_task(const char *folder, const char *port)
{
    struct shepherd s = shepherd_new(folder, SHEPHERD_TASK);
    str_copy(s.port, sizeof s.port, port);
    int code = enter(&s);
    if (code == SHEPHERD_OVER) {
        hold_ports(&s);
        if (!shepherd_is_early(&s))
            shepherd_start(&s);
        shepherd_watch(&s);
        code = leave(&s);
    }
    mem_free(s.workers);
    launchfile_release(&s.launch);
    return code;
}
