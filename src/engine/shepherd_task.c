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
 * matter. CUDA_VISIBLE_DEVICES is Slurm's, and stays. A joiner, in a further
 * allocation, is found the same way in the launch file of its resize.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include <fcntl.h>
#include <firn/launch.h>
#include <stdio.h>
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

static bool has_any(const struct launchfile *launch, size_t worker,
                    const char *name)
{
    const struct launch_worker *own = &launch->workers.at[worker];
    size_t n = strlen(name);
    for (size_t i = 0; i < own->n; i++)
        if (strncmp(launch->own.at[own->first + i], name, n) == 0 &&
            launch->own.at[own->first + i][n] == '=')
            return true;
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

/* Reads the layout of the resize that this worker joins by. */
static int read_layout(struct shepherd *s)
{
    char name[48];
    struct firn_buf text = {0};
    const char *key = NULL;
    for (size_t i = 0; i < s->launch.common.n; i++)
        if (strncmp(s->launch.common.at[i], "FIRN_GROUP_KEY=", 15) == 0)
            key = s->launch.common.at[i];
    if (key != NULL) /* of the attempt: the layout's own is another */
        str_copy(s->key, sizeof s->key, key);
    snprintf(name, sizeof name, "launch-%lld", (long long)s->order);
    int64_t attempt = s->launch.attempt;
    launchfile_release(&s->launch);
    s->launch = (struct launchfile){0};
    bool is_good =
        attempt_get(s->folder, name, &text) == ATTEMPT_PRESENT &&
        launchfile_read(&s->launch, (struct firn_bytes){text.at, text.n},
                        NULL) == FIRN_OK &&
        s->launch.attempt == attempt;
    buf_release(&text);
    return is_good ? SHEPHERD_OVER : SHEPHERD_BAD;
}

/* The variables of a joiner: it sees the GPUs of its own step alone, so its
 * local rank is its place among the tasks of the step on this node. */
static void add_extra(struct shepherd *s, const char *place, int nlocal)
{
    snprintf(s->order_text, sizeof s->order_text, "FIRN_JOIN_ORDER=%llu",
             (unsigned long long)s->order);
    snprintf(s->local_rank, sizeof s->local_rank, "LOCAL_RANK=%.10s", place);
    snprintf(s->local_world, sizeof s->local_world, "LOCAL_WORLD_SIZE=%d",
             nlocal);
    s->extra[s->nextra++] = s->order_text;
    s->extra[s->nextra++] = s->local_rank;
    s->extra[s->nextra++] = s->local_world;
    if (s->key[0] != '\0')
        s->extra[s->nextra++] = s->key;
}

/* Finds the joiner that this task is: by its node, its allocation and its place
 * among the tasks of the step there. */
static int find_joiner(struct shepherd *s, size_t first)
{
    const char *node = getenv("SLURMD_NODENAME");
    const char *place = getenv("SLURM_LOCALID");
    const char *pilot = getenv("SLURM_JOB_ID");
    if (node == NULL || place == NULL || pilot == NULL)
        return SHEPHERD_BAD;
    long wanted = strtol(place, NULL, 10), nlocal = 0;
    size_t found = 0, worker = first;
    bool is_found = false;
    for (size_t i = 0; i < s->launch.workers.n; i++) {
        if (!has_any(&s->launch, i, "FIRN_PILOT"))
            continue;
        if (has(&s->launch, i, "FIRN_NODE", node) &&
            has(&s->launch, i, "FIRN_PILOT", pilot)) {
            if (nlocal == wanted) {
                found = i;
                s->worker = worker;
                is_found = true;
            }
            nlocal++;
        }
        worker++;
    }
    if (!is_found)
        return SHEPHERD_BAD;
    s->launch.workers.at[0] = s->launch.workers.at[found];
    s->launch.workers.n = 1;
    s->launch.cgroup = CGROUP_OFF;
    add_extra(s, place, (int)nlocal);
    return SHEPHERD_OVER;
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

static int enter(struct shepherd *s, size_t first)
{
    int code = shepherd_open(s);
    if (code == SHEPHERD_OVER && s->order > 0)
        code = read_layout(s);
    if (code == SHEPHERD_OVER)
        code = s->order > 0 ? find_joiner(s, first) : find_worker(s);
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

int shepherd_task(const char *folder, const char *port, int64_t resize,
                  size_t first)
{
    struct shepherd s = shepherd_new(folder, SHEPHERD_TASK);
    str_copy(s.port, sizeof s.port, port);
    s.order = resize > 0 ? (uint64_t)resize : 0;
    int code = enter(&s, first);
    if (code == SHEPHERD_OVER) {
        if (s.order == 0)
            hold_ports(&s);
        shepherd_far_open(&s);
        (void)shepherd_far_turn(&s); /* a joiner finds its order on the board */
        if (!shepherd_is_early(&s))
            shepherd_start(&s);
        shepherd_watch(&s);
        code = leave(&s);
    }
    shepherd_far_close(&s);
    firn_join_board_close(s.board);
    mem_free(s.workers);
    launchfile_release(&s.launch);
    return code;
}
