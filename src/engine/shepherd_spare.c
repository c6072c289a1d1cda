/* shepherd_spare.c - processes that wait to join a running attempt.
 *
 * A resize without a stop (shepherd_join.c) begins with new processes that
 * start, import libraries, read data and build the model: 13 to 17 s for
 * PyTorch. Meanwhile the GPUs that the job gets in addition do nothing. None of
 * that needs a GPU, so the supervisor starts such processes in advance, each
 * with a gate (wire/aheadgate.h) as those of a job that starts next
 * (shepherd_ahead.c): spare processes. When the engine orders a resize,
 * shepherd_start_joiner() lets them through with the environment of the joiner,
 * and starts only the others.
 *
 *     can join, 5 s --start--> at its gate --resize--> a joiner
 *                                  |
 *                                  +-- attempt ends, no room to grow --> killed
 *
 * The engine says by FIRN_SPARES=N, in the launch file of the attempt and of
 * each resize, how many there may be (`local.spares`). The first ones are
 * started `after_s` behind the trainer's word that it can be resized, so that
 * they do not compete with its own start, and the next ones as long behind a
 * resize.
 *
 * Invariants
 *   1. A spare process is no worker: how it ends changes nothing for the
 *      attempt. One that ends by itself is not replaced before the next resize.
 *   2. It has the attempt's lock, mark and control group, and dies with the
 *      supervisor: the fence and every search for processes cover it.
 *   3. It has no GPU: CUDA sees none before the gate.
 *   4. None is started if it and those that are still starting would need more
 *      than half of the host's free memory, each as much as the first worker.
 *
 * Cost: a look each second until they are at their gates, then nothing.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "engine/procs.h"
#include "engine/shepherdwork.h"
#include "wire/aheadgate.h"
#include "wire/join.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const double after_s = 5;
static const double memory_wait_s = 60;

void shepherd_spare_learn(struct shepherd *s, const struct launchfile *launch)
{
    static const char name[] = "FIRN_SPARES=";
    long n = 0;
    for (size_t i = 0; i < launch->common.n; i++)
        if (strncmp(launch->common.at[i], name, sizeof name - 1) == 0)
            n = strtol(launch->common.at[i] + sizeof name - 1, NULL, 10);
    if (n < 0 || s->kind != SHEPHERD_LOCAL)
        n = 0;
    s->spares.most = n < SPARES ? (size_t)n : SPARES;
}

static void drop(struct shepherd *s, size_t i)
{
    struct parked *spare = &s->spares.at[i];
    if (spare->gate >= 0)
        close(spare->gate);
    if (spare->pid > 0)
        kill(-spare->pid, SIGKILL); /* it leads a process group */
    *spare = s->spares.at[--s->spares.n];
}

void shepherd_spare_end(struct shepherd *s)
{
    while (s->spares.n > 0)
        drop(s, s->spares.n - 1);
}

void shepherd_spare_note(struct shepherd *s, pid_t pid)
{
    for (size_t i = 0; i < s->spares.n; i++) {
        if (s->spares.at[i].pid != pid)
            continue;
        s->spares.at[i].pid = 0;
        drop(s, i);
        s->spares.most = 0; /* (1) */
        if (s->stage == STAGE_RUNNING)
            shepherd_say(s, "a process that was started in advance ended "
                            "before it was needed: no more are started "
                            "until the next resize");
        return;
    }
}

struct parked *shepherd_spare_take(struct shepherd *s)
{
    if (s->spares.n == 0)
        return NULL;
    s->spares.taken = s->spares.at[0]; /* the oldest one is the furthest */
    memmove(&s->spares.at[0], &s->spares.at[1],
            --s->spares.n * sizeof s->spares.at[0]);
    return &s->spares.taken;
}

/* (4) */
static bool has_memory(const struct shepherd *s)
{
    double free_mib = procs_free_mib();
    double each_mib = procs_resident_mib(s->workers[s->ranks[0]].pid);
    size_t n = 1;
    for (size_t i = 0; i < s->spares.n; i++)
        n += !s->spares.at[i].is_ready;
    return free_mib < 0 || 2 * each_mib * (double)n <= free_mib;
}

static void start_one(struct shepherd *s, double now_s)
{
    struct spares *spares = &s->spares;
    if (!has_memory(s)) {
        spares->from_s = now_s + memory_wait_s;
        return;
    }
    struct parked *spare = &spares->at[spares->n];
    *spare = (struct parked){.gate = -1};
    bool is_there = s->start_spare(s, spare);
    spares->n += is_there || spare->pid > 0; /* its end is noted */
    if (!is_there)
        spares->most = 0;
}

/* Do all wait at their gates? */
static bool are_ready(struct shepherd *s)
{
    bool are = true;
    char byte;
    for (size_t i = 0; i < s->spares.n; i++) {
        struct parked *spare = &s->spares.at[i];
        if (spare->is_ready)
            continue;
        spare->is_ready = recv(spare->gate, &byte, 1, MSG_DONTWAIT) == 1;
        if (spare->is_ready)
            shepherd_say(s, "a process waits to join when the job gets more "
                            "GPUs");
        are = are && spare->is_ready;
    }
    return are;
}

int shepherd_spare_advance(struct shepherd *s)
{
    enum { LOOK_MS = 1000 };
    struct spares *spares = &s->spares;
    double now_s = clock_elapsed_s();
    if (s->stage != STAGE_RUNNING || s->board == NULL || s->nleft == 0)
        spares->most = 0;
    while (spares->n > spares->most)
        drop(s, spares->n - 1);
    if (spares->most == 0)
        return -1;
    if (s->joining != NULL || atomic_load(&s->board->can) == 0) {
        spares->from_s = now_s + after_s;
        return LOOK_MS;
    }
    if (spares->n < spares->most && now_s >= spares->from_s)
        start_one(s, now_s);
    bool are = are_ready(s);
    return spares->n < spares->most || !are ? LOOK_MS : -1;
}
