/* tickjob.c - a job in ticks that checkpoints, and notices company.
 */
#define _GNU_SOURCE
#include "lib/tickjob.h"
#include <fcntl.h>
#include <firn/report.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 400, TICK_NS = 50000000, KEEP_EVERY = 5 };

static volatile sig_atomic_t is_asked;

static void ask(int sig)
{
    (void)sig;
    is_asked = 1;
}

double tickjob_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* The GPU of this worker: its own of those that the node's workers see. */
static int own_gpu(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    for (long i = number("LOCAL_RANK"); text != NULL && i > 0; i--) {
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return text != NULL && *text >= '0' && *text <= '9'
               ? (int)strtol(text, NULL, 10)
               : -1;
}

static bool lock_file(const char *folder, const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%.300s/%.80s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static bool note(const char *folder, struct tickjob_line *l, const char *what)
{
    char path[PATH], line[TICKJOB_LINE + 1];
    snprintf(path, sizeof path, "%.300s/ledger", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(line, sizeof line, "%7ld %5ld %3d %3d %3d %-7.7s %-14.14s %20.3f",
             l->job, l->attempt, l->rank, l->nranks, l->gpu, what, l->node,
             tickjob_now_s());
    memset(line + strlen(line), ' ', TICKJOB_LINE - strlen(line));
    line[TICKJOB_LINE - 1] = '\n';
    bool is_good = fd >= 0 && write(fd, line, TICKJOB_LINE) == TICKJOB_LINE;
    if (fd >= 0)
        close(fd);
    return is_good;
}

int tickjob_read(const char *folder, size_t i, struct tickjob_line *out)
{
    char path[PATH], line[TICKJOB_LINE + 1] = "";
    snprintf(path, sizeof path, "%.300s/ledger", folder);
    FILE *f = fopen(path, "r");
    int n = 0;
    if (f == NULL)
        return 0;
    if (fseek(f, (long)(i * TICKJOB_LINE), SEEK_SET) == 0 &&
        fread(line, 1, TICKJOB_LINE, f) == TICKJOB_LINE)
        n = sscanf(line, "%ld %ld %d %d %d %7s %19s %lf", &out->job,
                   &out->attempt, &out->rank, &out->nranks, &out->gpu,
                   out->what, out->node, &out->at_s);
    fclose(f);
    return n == 8;
}

/* --- ticks kept ----------------------------------------------------------- */

static int kept(const char *folder, long job)
{
    char path[PATH], text[20] = "";
    snprintf(path, sizeof path, "%.300s/kept-%ld", folder, job);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    const char *line = fgets(text, sizeof text, f);
    fclose(f);
    return line != NULL ? (int)strtol(line, NULL, 10) : 0;
}

static void keep(const char *folder, const struct tickjob_line *l, int ticks)
{
    char path[PATH], next[PATH + 20];
    if (l->rank != 0)
        return;
    snprintf(path, sizeof path, "%.300s/kept-%ld", folder, l->job);
    snprintf(next, sizeof next, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(next, "w");
    if (f == NULL)
        return;
    fprintf(f, "%d\n", ticks);
    if (fclose(f) == 0)
        rename(next, path);
}

static int ticks_go_by(const char *folder, struct tickjob_line *l, int nticks)
{
    int ticks = kept(folder, l->job);
    for (; ticks < nticks && !is_asked; ticks++) {
        nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
        if (ticks % KEEP_EVERY == 0)
            keep(folder, l, ticks + 1);
    }
    keep(folder, l, ticks);
    if (ticks < nticks)
        return note(folder, l, "saved") ? FIRN_EXIT_CHECKPOINT : 3;
    return note(folder, l, "end") ? 0 : 3;
}

int tickjob_work(const char *folder, int nticks)
{
    struct sigaction act = {.sa_handler = ask};
    struct tickjob_line l = {.job = number("FIRN_JOB"),
                             .attempt = number("FIRN_EPOCH"),
                             .rank = (int)number("RANK"),
                             .nranks = (int)number("WORLD_SIZE"),
                             .gpu = own_gpu()};
    const char *node = getenv("SLURMD_NODENAME");
    char job[60], gpu[60];
    sigaction(SIGUSR1, &act, NULL);
    snprintf(l.node, sizeof l.node, "%.14s", node != NULL ? node : "-");
    snprintf(job, sizeof job, "job-%ld-%d", l.job, l.rank);
    snprintf(gpu, sizeof gpu, "gpu-%s-%d", l.node, l.gpu);
    if (l.job <= 0 || l.gpu < 0 || node == NULL)
        return 2;
    if (!lock_file(folder, job))
        return note(folder, &l, "job") ? 4 : 3;
    if (!lock_file(folder, gpu))
        return note(folder, &l, "gpu") ? 4 : 3;
    return note(folder, &l, "begin") ? ticks_go_by(folder, &l, nticks) : 3;
}
