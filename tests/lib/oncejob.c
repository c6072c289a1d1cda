/* oncejob.c - a job that notices when it runs twice at once.
 */
#define _GNU_SOURCE
#include "lib/oncejob.h"
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 24, PATH = 400 };

static bool lock_file(const char *folder, const char *kind, const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%.300s/%s-%.20s", folder, kind, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static int note(const char *folder, const char *job, const char *what)
{
    char path[PATH], line[LINE + 1];
    const char *attempt = getenv("FIRN_EPOCH");
    snprintf(path, sizeof path, "%.300s/ledger", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(line, sizeof line, "%10.10s %5.5s %-6.6s\n", job,
             attempt != NULL ? attempt : "0", what);
    if (fd < 0)
        return 3;
    bool is_written = write(fd, line, LINE) == LINE;
    close(fd);
    return is_written ? 0 : 3;
}

int oncejob_work(const char *folder, double work_s)
{
    struct timespec time = {(time_t)work_s,
                            (long)(1e9 * (work_s - (double)(time_t)work_s))};
    const char *job = getenv("FIRN_JOB"), *gpu = getenv("CUDA_VISIBLE_DEVICES");
    if (job == NULL || gpu == NULL)
        return 2;
    if (!lock_file(folder, "job", job) || !lock_file(folder, "gpu", gpu))
        return note(folder, job, "twice");
    int bad = note(folder, job, "begin");
    nanosleep(&time, NULL);
    return bad + note(folder, job, "end");
}

struct oncejob_tally *oncejob_of(struct oncejob_ledger *ledger, long job)
{
    return &ledger->jobs[job > 0 ? job % ONCEJOB_MAX : 0];
}

static void take(struct oncejob_ledger *ledger, const char *line)
{
    char *what;
    long job = strtol(line, &what, 10), attempt = strtol(what, &what, 10);
    struct oncejob_tally *t = oncejob_of(ledger, job);
    if (strncmp(what, " twice", 6) == 0) {
        t->ntwice++;
        return;
    }
    bool is_begin = strncmp(what, " begin", 6) == 0;
    t->nbackwards += is_begin ? attempt <= t->attempt : attempt != t->attempt;
    t->attempt = attempt;
    t->nbegun += is_begin;
    if (!is_begin && t->nended++ == 0)
        ledger->nended++;
}

void oncejob_read(struct oncejob_ledger *ledger, const char *folder)
{
    char path[PATH], line[LINE + 1] = "";
    snprintf(path, sizeof path, "%.300s/ledger", folder);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    if (fseek(f, ledger->offset, SEEK_SET) == 0)
        while (fread(line, 1, LINE, f) == LINE) {
            ledger->offset += LINE;
            take(ledger, line);
        }
    fclose(f);
}

int oncejob_processes(const char *folder)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return -1;
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        char path[PATH], text[4096];
        long pid = strtol(e->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, text, sizeof text) : 0;
        if (fd >= 0)
            close(fd);
        n += size > 0 &&
             memmem(text, (size_t)size, folder, strlen(folder)) != NULL;
    }
    closedir(proc);
    return n;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

int oncejob_remove(const char *folder)
{
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
