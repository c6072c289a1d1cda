/* restart.c - seconds to the first answer after kill -9, with 100 000 jobs.
 *
 * A state folder is filled: a history of finished jobs with their attempts,
 * events and reports, then LIVING jobs that wait, every tenth of which has run
 * before. firnd starts on it with 256 GPUs and runs jobs by its policy; once
 * the number of running jobs is steady, firnd is killed with SIGKILL, and then
 * started and killed RUNS times. Each time is from the start of the process to
 * the last byte of its first answer to GET /v1/health, which is sent every
 * millisecond; beside it the processor time of firnd so far. The least of the
 * runs is printed, since other programs may use the machine.
 *
 *     restart FIRND [LIVING [POLICY [RUNS]]]
 *
 * RESTART_LOG=FILE keeps firnd's log.
 */
#include "base/clock.h"
#include "daemon/fullstate.h"
#include "lib/folder.h"
#include "lib/measure.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIVING = 100000, HISTORY = 100000, GPUS = 256, RUNS = 5, SOME = 200 };

static char folder[200], path[300];

__attribute__((format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("restart: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static pid_t start(const char *firnd, const char *policy)
{
    char gpus[32];
    snprintf(gpus, sizeof gpus, "1x%d:v100@16", GPUS);
    unlink(path);
    pid_t daemon = fork();
    if (daemon == 0) {
        const char *log = getenv("RESTART_LOG");
        int fd = open(log != NULL ? log : "/dev/null",
                      O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 2);
        execl(firnd, "firnd", "--state", folder, "--socket", path, "--gpus",
              gpus, "--policy", policy, "--allow-root", (char *)NULL);
        _exit(127);
    }
    return daemon;
}

/* Sends one GET /v1/health; true when firnd answers 200. */
static bool answers(void)
{
    static const char ask[] = "GET /v1/health HTTP/1.1\r\nHost: firn\r\n"
                              "Connection: close\r\n\r\n";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char answer[1024];
    size_t got = 0;
    ssize_t n = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.100s", path);
    if (fd < 0)
        die("socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        write(fd, ask, sizeof ask - 1) == sizeof ask - 1)
        while (got < sizeof answer - 1 &&
               (n = read(fd, answer + got, sizeof answer - 1 - got)) > 0)
            got += (size_t)n;
    close(fd);
    answer[got] = '\0';
    return strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

static double until_it_answers_s(pid_t daemon)
{
    double began_s = clock_elapsed_s();
    int status;
    while (!answers()) {
        if (waitpid(daemon, &status, WNOHANG) == daemon)
            die("firnd ended with status %d: RESTART_LOG=FILE keeps its log",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        if (clock_elapsed_s() > began_s + 120)
            die("firnd did not answer for 120 s");
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return clock_elapsed_s() - began_s;
}

static int count_running(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *sql = NULL;
    char file[300];
    int n = -1;
    snprintf(file, sizeof file, "%s/firn.db", folder);
    if (sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db,
                           "SELECT count(*) FROM jobs WHERE over = 0 AND "
                           "state = 'running'",
                           -1, &sql, NULL) == SQLITE_OK &&
        sqlite3_step(sql) == SQLITE_ROW)
        n = sqlite3_column_int(sql, 0);
    sqlite3_finalize(sql);
    sqlite3_close(db);
    return n;
}

/* Waits until the number of running jobs is steady for two seconds. */
static int wait_for_jobs(void)
{
    int before = -1, now = 0;
    for (int i = 0; i < 120 && (now < SOME / 4 || now != before); i++) {
        before = now;
        sleep(2);
        now = count_running();
    }
    return now;
}

static void kill_hard(pid_t daemon)
{
    kill(daemon, SIGKILL);
    waitpid(daemon, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    int living = argc > 2 ? atoi(argv[2]) : LIVING;
    const char *policy = argc > 3 ? argv[3] : "icefrog";
    int nruns = argc > 4 ? atoi(argv[4]) : RUNS;
    double wall_s = INFINITY, cpu_s = INFINITY;
    if (argc < 2 || living < 1)
        return 2;
    snprintf(folder, sizeof folder, "%.150s/firn-bench-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/firn.sock", folder);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct firn_error err = {0};
    struct fullstate full = {.history = HISTORY,
                             .living = living,
                             .ran_every = 10,
                             .oldest_s = (double)time(NULL) - 1e6};
    if (fullstate_fill(folder, &full, &err) != FIRN_OK)
        die("%s", err.text);
    pid_t daemon = start(argv[1], policy);
    until_it_answers_s(daemon);
    int nrunning = wait_for_jobs();
    for (int i = 0; i < nruns; i++) {
        kill_hard(daemon);
        daemon = start(argv[1], policy);
        wall_s = fmin(wall_s, until_it_answers_s(daemon));
        cpu_s = fmin(cpu_s, measure_cpu_of(daemon));
        sleep(2); /* firnd decides and writes for a while before it is killed */
    }
    kill_hard(daemon);
    measure_end_children();
    printf("%d living jobs, %s: running\t%d\t-\t-\tjobs\n", living, policy,
           nrunning);
    printf("%d living jobs, %s: answers after kill -9\t%.17g\t<=\t2\ts\n",
           living, policy, wall_s);
    printf("%d living jobs, %s: CPU until then\t%.17g\t-\t-\ts\n", living,
           policy, cpu_s);
    folder_empty(folder);
    return rmdir(folder) != 0;
}
