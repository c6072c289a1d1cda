/* submit.c - 1000 submits a second through the daemon's socket: what they wait.
 *
 * A firnd is started on a new folder. Submits come at fixed moments, one each
 * millisecond, whether those before them were answered or not; each waits from
 * its moment to the last byte of its answer, which comes when it is on disk.
 * Beside them, in the same seconds and on the same disk, a file is written to
 * and synced every 20 ms: what a submit cannot be faster than. Of three runs
 * the one with the lowest p99.
 *
 *     submit FIRND
 */
#include "base/clock.h"
#include "base/sort.h"
#include "lib/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SUBMITS = 3000, PER_SECOND = 1000, LINES = 256, SYNCS = 200, RUNS = 3 };

static char folder[200];

/* A connection that is kept; `job` is what it waits for, -1: nothing. */
struct line {
    int fd, job;
    size_t got;
    char answer[4096];
};

static struct line lines[LINES];
static int nlines, nanswered, nrefused;
static double began_s, waits_ms[SUBMITS];

static void die(const char *what)
{
    fprintf(stderr, "submit: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int reach(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.100s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("socket");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static struct line *free_line(const char *path)
{
    for (int i = 0; i < nlines; i++)
        if (lines[i].job < 0)
            return &lines[i];
    if (nlines == LINES)
        return NULL;
    lines[nlines] = (struct line){.fd = reach(path), .job = -1};
    return &lines[nlines++];
}

static void send_job(struct line *line, int job)
{
    static const char body[] =
        "run: [python, train.py, --epochs, \"90\"]\ngpus: 1..8\n"
        "elastic: {consistency: D1, threads: 8}\ncheckpoint: {grace: 60s}\n";
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "POST /v1/jobs?hold=1 HTTP/1.1\r\nHost: firn\r\n"
                     "Content-Type: application/yaml\r\n"
                     "Idempotency-Key: run-%d-%d\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     (int)getpid(), job, strlen(body), body);
    line->job = job;
    line->got = 0;
    if (write(line->fd, text, (size_t)n) != n)
        die("a request");
}

/* Is the answer whole? */
static bool is_whole(const struct line *line)
{
    const char *end = strstr(line->answer, "\r\n\r\n");
    const char *length = strstr(line->answer, "Content-Length: ");
    if (end == NULL || length == NULL || length > end)
        return false;
    size_t n = strtoul(length + 16, NULL, 10);
    return line->got >= (size_t)(end + 4 - line->answer) + n;
}

static void hear(struct line *line)
{
    ssize_t n = read(line->fd, line->answer + line->got,
                     sizeof line->answer - 1 - line->got);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return;
        die("an answer");
    }
    line->got += (size_t)n;
    line->answer[line->got] = '\0';
    if (!is_whole(line))
        return;
    nrefused += strncmp(line->answer, "HTTP/1.1 201", 12) != 0;
    waits_ms[line->job] =
        1e3 * (clock_elapsed_s() - began_s) - 1e3 * line->job / PER_SECOND;
    line->job = -1;
    nanswered++;
}

static void wait_a_little(double until_s)
{
    struct pollfd polls[LINES];
    for (int i = 0; i < nlines; i++)
        polls[i] = (struct pollfd){lines[i].fd, POLLIN, 0};
    /* To the millisecond: on time, without keeping a core busy. */
    poll(polls, (nfds_t)nlines, until_s > clock_elapsed_s() ? 1 : 0);
    for (int i = 0; i < nlines; i++)
        if (polls[i].revents != 0)
            hear(&lines[i]);
}

static void submit_all(const char *path)
{
    int sent = 0;
    nanswered = nrefused = 0;
    began_s = clock_elapsed_s();
    while (nanswered < SUBMITS) {
        double now_s = clock_elapsed_s() - began_s;
        struct line *line = NULL;
        while (sent < SUBMITS && sent <= now_s * PER_SECOND &&
               (line = free_line(path)) != NULL)
            send_job(line, sent++);
        wait_a_little(began_s + (double)sent / PER_SECOND);
        if (now_s > 60)
            die("too few answers");
    }
}

/* --- beside it ----------------------------------------------------------- */

/* Writes the 99th of a hundred syncs to `to`, in milliseconds. */
static void sync_beside(int to)
{
    static double ms[SYNCS];
    char path[300], block[4096] = "";
    snprintf(path, sizeof path, "%s/beside", folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    for (int i = 0; i < SUBMITS / PER_SECOND * 50 && i < SYNCS; i++) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        double start_s = clock_elapsed_s();
        if (write(fd, block, sizeof block) < 0 || fdatasync(fd) != 0)
            _exit(1);
        ms[i] = 1e3 * (clock_elapsed_s() - start_s);
    }
    size_t n = SUBMITS / PER_SECOND * 50;
    sort_doubles(ms, n);
    double p99 = ms[n * 99 / 100];
    if (write(to, &p99, sizeof p99) != sizeof p99)
        _exit(1);
    _exit(0);
}

static pid_t start_daemon(const char *firnd, const char *path)
{
    pid_t daemon = fork();
    if (daemon == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        execl(firnd, "firnd", "--state", folder, "--socket", path, "--gpus",
              "1x4:v100@16", "--policy", "fifo", "--allow-root", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 100 && access(path, F_OK) != 0; i++)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    return daemon;
}

static void run(const char *firnd, double *p99, double *p50, double *sync_p99)
{
    char path[300];
    int pipes[2];
    snprintf(path, sizeof path, "%s/firn.sock", folder);
    pid_t daemon = start_daemon(firnd, path);
    if (pipe(pipes) != 0)
        die("a pipe");
    pid_t syncer = fork();
    if (syncer == 0)
        sync_beside(pipes[1]);
    submit_all(path);
    if (read(pipes[0], sync_p99, sizeof *sync_p99) != sizeof *sync_p99)
        *sync_p99 = (double)NAN;
    waitpid(syncer, NULL, 0);
    kill(daemon, SIGTERM);
    waitpid(daemon, NULL, 0);
    for (int i = 0; i < nlines; i++)
        close(lines[i].fd);
    nlines = 0;
    close(pipes[0]);
    close(pipes[1]);
    sort_doubles(waits_ms, SUBMITS);
    *p99 = nrefused > 0 ? (double)NAN : waits_ms[SUBMITS * 99 / 100];
    *p50 = waits_ms[SUBMITS / 2];
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    double best[3] = {INFINITY, INFINITY, INFINITY};
    if (argc < 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    snprintf(folder, sizeof folder, "%.150s/firn-bench-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    for (int i = 0; i < RUNS; i++) {
        double now[3];
        run(argv[1], &now[0], &now[1], &now[2]);
        if (!(now[0] >= best[0]))
            memcpy(best, now, sizeof best);
        folder_empty(folder);
    }
    printf("1000 submits a second over HTTP: p99\t%.17g\t<=\t20\tms\n",
           best[0]);
    printf("1000 submits a second over HTTP: median\t%.17g\t-\t-\tms\n",
           best[1]);
    printf("fdatasync in the same seconds: p99\t%.17g\t-\t-\tms\n", best[2]);
    return rmdir(folder) != 0;
}
