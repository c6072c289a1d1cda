/* joblog.c - speed of a job's output through its supervisor's pipe, beside a
 * file that the job writes itself.
 *
 * A child writes pieces of one size as fast as it can, into a file or into the
 * pipe of engine/joblog.h, which this process empties as a shepherd does, with
 * a limit of 64 MiB. Both ways in turn, the best of several runs. Then a child
 * that prints as a training does (a line of 100 bytes each millisecond): the
 * longest and the mean time of one write().
 */
#define _GNU_SOURCE
#include "engine/joblog.h"
#include "base/clock.h"
#include "lib/folder.h"
#include "lib/measure.h"
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 5, LIMIT = 64 << 20, LINES = 2000 };

/* The child's measurements. */
struct report {
    double mean_us, longest_us;
};

static void write_all(int fd, size_t size, size_t total)
{
    static char piece[1 << 17];
    memset(piece, 'x', sizeof piece);
    piece[size - 1] = '\n';
    for (size_t done = 0; done < total;) {
        ssize_t n = write(fd, piece, size);
        if (n <= 0)
            _exit(1);
        done += (size_t)n;
    }
}

static void write_lines(int fd, struct report *report)
{
    static const struct timespec pause = {0, 1000000};
    char line[100];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < LINES; i++) {
        nanosleep(&pause, NULL);
        double began_s = clock_elapsed_s();
        if (write(fd, line, sizeof line) < 0)
            _exit(1);
        double us = 1e6 * (clock_elapsed_s() - began_s);
        report->mean_us += us / LINES;
        report->longest_us = fmax(report->longest_us, us);
    }
}

static void work(int fd, size_t size, size_t total, struct report *report)
{
    if (size > 0)
        write_all(fd, size, total);
    else
        write_lines(fd, report);
    _exit(0);
}

/* Empties the pipe until the child is gone. */
static void pump(struct joblog *log, pid_t child)
{
    struct pollfd fd = {.fd = log->in, .events = POLLIN};
    while (waitpid(child, NULL, WNOHANG) == 0) {
        poll(&fd, 1, 100);
        joblog_pump(log);
    }
    joblog_drain(log);
}

/* Seconds from the first byte to the last one in the file. */
static double run_s(bool is_piped, size_t size, size_t total,
                    struct report *report)
{
    char path[300];
    struct joblog log = {0};
    struct firn_error err;
    snprintf(path, sizeof path, "%s/log", folder_path());
    int fd = -1;
    if (is_piped && joblog_open(&log, path, LIMIT, &err) != FIRN_OK)
        return NAN;
    if (!is_piped)
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    double began_s = clock_elapsed_s();
    pid_t child = fork();
    if (child == 0)
        work(is_piped ? log.out : fd, size, total, report);
    if (is_piped)
        pump(&log, child);
    else
        waitpid(child, NULL, 0);
    double took_s = clock_elapsed_s() - began_s;
    if (is_piped)
        joblog_close(&log);
    else
        close(fd);
    unlink(path);
    strcat(path, ".1");
    unlink(path);
    return took_s;
}

int main(void)
{
    static const size_t sizes[] = {100, 4096, 65536};
    struct report *report =
        mmap(NULL, 2 * sizeof *report, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED || folder_make(NULL) != 0)
        return 1;
    for (size_t k = 0; k < 3; k++) {
        size_t total = sizes[k] < 4096 ? (size_t)50 << 20 : (size_t)512 << 20;
        double best_s[2] = {INFINITY, INFINITY};
        for (int i = 0; i < 2 * RUNS; i++)
            best_s[i % 2] =
                fmin(best_s[i % 2], run_s(i % 2 == 1, sizes[k], total, report));
        char name[64];
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "output in writes of %zu bytes, %s",
                     sizes[k], i == 0 ? "to a file" : "by the pump");
            measure_tell(name, (double)total / best_s[i] * 1e-6, "MB/s");
        }
    }
    for (int i = 0; i < 2; i++) {
        run_s(i == 1, 0, 0, &report[i]);
        measure_tell(i == 0 ? "a line to a file, mean"
                            : "a line by the pump, mean",
                     report[i].mean_us, "us");
        measure_tell(i == 0 ? "a line to a file, longest"
                            : "a line by the pump, longest",
                     report[i].longest_us, "us");
    }
    folder_remove(NULL);
    return 0;
}
