/* shepherd_far.c - a shepherd whose workers are on other hosts.
 *
 * It is the batch step of a Slurm job and has one child, srun, which starts a
 * process of firn's for each worker (shepherd_one.c). Those are told by the
 * file `order` and tell by a file each how their worker ended; what reaches us
 * from the engine is the file `ask`. Slurm's signals are not used for it: with
 * some of its plugins they reach every process of a step, also those that would
 * die of them.
 *
 * Where the file system tells of changes (inotify, one host) that is a matter
 * of milliseconds; elsewhere files are looked at once a second.
 *
 * A worker without an end, when srun is over, was killed with its host or never
 * came to be. So was one that began, has no end and is not there: srun may wait
 * for it for minutes, when its host is back before Slurm has found out, and is
 * not waited for. The rest is told to go, and the epoch is over when nobody has
 * the workers' lock: then it is lost. If the lock stays taken, or an end cannot
 * be read, nothing is said: the engine waits for both, too.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/procs.h"
#include "engine/shepherdwork.h"
#include <errno.h>
#include <firn/launch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 16, PATH_SIZE = 4096 };
static const double remains_s = 20; /* for the last to go */
static const double late_s = 1;     /* an end may be seen so much later */

void shepherd_tell(struct shepherd *s, enum epoch_word word)
{
    if (word > s->told &&
        epoch_word_put(s->folder, "order", word, NULL) == FIRN_OK)
        s->told = word;
}

static void note(struct shepherd *s, struct herded *worker,
                 const struct epoch_exit *how)
{
    worker->is_over = true;
    s->nleft--;
    s->is_memory = s->is_memory || how->end == FIRN_END_MEMORY;
    if (how->end == FIRN_END_CHECKPOINT)
        s->has_checkpoint = true;
    else if (how->end == FIRN_END_KILLED)
        s->ended_status = s->ended_status >= 0 ? s->ended_status : how->status;
    else if (how->end != FIRN_END_DONE && s->bad_status < 0)
        s->bad_status = how->status;
}

/* False: the end of some worker could not be looked at. */
static bool gather(struct shepherd *s)
{
    bool is_news = false, is_sure = true;
    for (size_t i = 0; s->workers != NULL && i < s->launch.workers.n; i++) {
        struct epoch_exit how = {0};
        if (s->workers[i].is_over)
            continue;
        enum epoch_found found = epoch_worker_get(s->folder, i, &how);
        is_sure = is_sure && found != EPOCH_UNKNOWN;
        if (found != EPOCH_PRESENT || how.epoch != s->launch.epoch)
            continue;
        note(s, &s->workers[i], &how);
        is_news = true;
    }
    bool is_lame = s->bad_status >= 0 || s->ended_status >= 0;
    if (is_news && (is_lame || s->nleft == 0))
        shepherd_end(s, shepherd_short_grace_s(s));
    return is_sure;
}

/* All that are left had begun, and nobody has the lock. */
static bool have_vanished(struct shepherd *s)
{
    for (size_t i = 0; i < s->launch.workers.n; i++)
        if (!s->workers[i].is_over &&
            epoch_worker_has_begun(s->folder, i) != EPOCH_PRESENT)
            return false;
    int lock = epoch_workers_lock(s->above, false);
    if (lock < 0)
        return false;
    close(lock);
    bool is_sure = gather(s); /* who had the lock has written its end */
    return is_sure && s->nleft > 0;
}

static void look_for_vanished(struct shepherd *s)
{
    double now_s = clock_elapsed_s();
    if (s->workers == NULL || s->nleft == 0 || s->stage == STAGE_KILLED)
        return;
    if (!have_vanished(s)) {
        s->vanished_s = 0;
        return;
    }
    s->vanished_s = s->vanished_s > 0 ? s->vanished_s : now_s;
    if (now_s < s->vanished_s + late_s)
        return;
    s->stage = STAGE_KILLED;
    s->killed_s = s->vanished_s - remains_s; /* there is nobody to be told */
}

void shepherd_listen(struct shepherd *s)
{
    char room[4096];
    while (s->notes >= 0 && read(s->notes, room, sizeof room) > 0)
        ;
    enum epoch_word ask = EPOCH_GO, order = EPOCH_GO;
    (void)epoch_word_get(s->folder, "ask", &ask); /* else at the next look */
    if (s->kind == HERD_FAR) {
        shepherd_obey(s, ask);
        gather(s);
        look_for_vanished(s);
        return;
    }
    (void)epoch_word_get(s->folder, "order", &order);
    shepherd_obey(s, order);
    if (ask == EPOCH_KILL)
        shepherd_obey(s, ask);
}

bool shepherd_gather(struct shepherd *s)
{
    double until_s = clock_elapsed_s() + remains_s;
    int lock = -1;
    gather(s);
    if (s->nleft > 0)
        shepherd_tell(s, EPOCH_KILL);
    while ((lock = epoch_workers_lock(s->above, false)) < 0) {
        if (clock_elapsed_s() >= until_s)
            return false;
        shepherd_pause(0.02);
    }
    while (!gather(s)) { /* who had the lock has written its end */
        if (clock_elapsed_s() >= until_s) {
            close(lock);
            return false;
        }
        shepherd_pause(0.02);
    }
    if (s->nleft > 0) {
        s->is_lost = !s->was_told;
        if (s->ended_status < 0)
            s->ended_status = 128 + SIGKILL;
        shepherd_say(s, "%d of %zu processes vanished", s->nleft,
                     s->launch.workers.n);
    }
    close(lock);
    return true;
}

static bool reserve(struct shepherd *s)
{
    bool is_good =
        epoch_word_put(s->folder, "order", EPOCH_GO, NULL) == FIRN_OK;
    for (size_t i = 0; is_good && i < s->launch.workers.n; i++)
        is_good = epoch_worker_reserve(s->folder, i, NULL) == FIRN_OK;
    return is_good;
}

static int start_srun(struct shepherd *s)
{
    char program[PATH_SIZE], groups[64], cpus[64];
    const char *argv[WORDS] = {
        "srun",         "--quiet",    "--wait=0",     "--kill-on-bad-exit=0",
        "--input=none", "--mpi=none", "--export=ALL", "--chdir=/"};
    size_t n = 8;
    const char *size = getenv("SLURM_HET_SIZE");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return errno;
    program[length] = '\0';
    if (size != NULL) {
        snprintf(groups, sizeof groups, "--het-group=0-%ld",
                 strtol(size, NULL, 10) - 1);
        argv[n++] = groups;
    }
    const char *each = getenv("SLURM_CPUS_PER_TASK"); /* not srun's by itself */
    if (each != NULL) {
        snprintf(cpus, sizeof cpus, "--cpus-per-task=%ld",
                 strtol(each, NULL, 10));
        argv[n++] = cpus;
    }
    argv[n++] = program;
    argv[n++] = "--worker";
    argv[n++] = s->path;
    argv[n++] = s->port;
    return shepherd_spawn(s, &s->runner, environ, (char **)argv);
}

void shepherd_start_far(struct shepherd *s)
{
    size_t n = s->launch.workers.n;
    s->workers = mem_new(n, sizeof *s->workers);
    s->nleft = (int)n;
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    shepherd_say(s, "epoch %lld of job %lld: %zu process%s, by Slurm on %s",
                 (long long)s->launch.epoch, (long long)s->launch.job, n,
                 n == 1 ? "" : "es", nodes != NULL ? nodes : "its nodes");
    shepherd_pick_port(s);
    int error = reserve(s) ? start_srun(s) : EIO;
    if (error != 0)
        shepherd_say(s, "cannot run srun: %s", strerror(error));
}
