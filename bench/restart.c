/* restart.c - ready again after kill -9, with 100 000 living jobs.
 *
 * A state folder is filled: a history of finished jobs with their attempts,
 * events and reports, then LIVING jobs that wait, every tenth of which has run
 * before. A firnd is started on it with 256 GPUs and runs what its policy
 * likes; when that many jobs run, it is killed with SIGKILL, and from then on
 * started and killed RUNS times. Each time is from the start of the process to
 * the last byte of its first answer, to GET /v1/health, which is asked for
 * every millisecond until it comes; beside it the processor time that firnd
 * had used by then. The least of the runs is printed, since other programs may
 * be at work.
 *
 *     restart FIRND [LIVING [POLICY [RUNS]]]
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "daemon/book.h"
#include "lib/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
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
static struct firn_error err;

static void must(enum firn_status status)
{
    if (status == FIRN_OK)
        return;
    fprintf(stderr, "restart: %s\n", err.text);
    exit(1);
}

static void die(const char *what)
{
    fprintf(stderr, "restart: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- the folder ---------------------------------------------------------- */

static struct live_job *submit(struct book *book, int i, double at_s)
{
    static const char *const apps[] = {
        "resnet50", "bert", "vgg19",       "",         "gnmt",
        "yolov3",   "ncf",  "deepspeech2", "imagenet", "cifar10"};
    char name[32];
    snprintf(name, sizeof name, "job-%d-%d", i % 97, i);
    struct live_ask ask = {.name = mem_strdup(name),
                           .queue = mem_strdup("research"),
                           .user = mem_strdup(i % 3 == 0 ? "ann" : "bob"),
                           .app = mem_strdup(apps[i % 10]),
                           .workdir = mem_strdup("/tmp"),
                           .argv = mem_new(3, sizeof(char *)),
                           .gpus_min = 1,
                           .gpus_max = i % 3 == 0 ? 1 : 4,
                           .is_elastic = i % 3 != 0,
                           .can_checkpoint = true,
                           .may_share = i % 4 == 0,
                           .mem_gib = i % 5 == 0 ? 4 : 0,
                           .grace_s = 60,
                           .duration_s = i % 2 == 0 ? 0 : 600 + i % 7000};
    ask.argv[0] = mem_strdup("/bin/sleep");
    ask.argv[1] = mem_strdup("100000");
    struct live_job *job = NULL;
    bool is_new = false;
    must(book_submit(book, &ask, "run: [/bin/sleep, \"100000\"]\n", "", at_s,
                     &job, &is_new, &err));
    return job;
}

/* One attempt, from start to end, with a report. */
static void attempt(struct book *book, struct live_job *job, double at_s)
{
    struct firn_trainer_report report = firn_trainer_report_unknown();
    int64_t number = 0;
    must(book_held(book, job, "n0[0]", &err));
    must(book_ride(book, job, &number, &err));
    must(book_state(book, job, LIVE_RUNNING, LIVE_BECAUSE_POLICY, at_s, "",
                    &err));
    report.step = 1000;
    report.progress = 0.5;
    must(book_report(book, job, number, &report, at_s + 60, &err));
    struct store_epoch epoch = {.job = job->id,
                                .epoch = number,
                                .started_s = at_s,
                                .ended_s = at_s + 100,
                                .end = 1,
                                .held = "n0[0]"};
    must(book_epoch_ended(book, job, &epoch, &err));
    must(book_held(book, job, "-", &err));
    must(book_state(book, job, LIVE_PENDING, LIVE_BECAUSE_POLICY, at_s, "",
                    &err));
}

static void fill(int living)
{
    struct store *store;
    struct book *book;
    char said[256];
    double now_s = (double)time(NULL) - 1e6;
    must(store_open(&store, folder, said, sizeof said, &err));
    must(book_open(&book, store, &err));
    for (int i = 0; i < HISTORY + living; i++) {
        bool is_over = i < HISTORY;
        struct live_job *job = submit(book, i, now_s + i);
        for (int k = 0; k < (is_over ? 1 : i % 10 == 0 ? 3 : 0); k++)
            attempt(book, job, now_s + i);
        if (is_over)
            must(book_state(book, job, LIVE_SUCCEEDED, LIVE_BECAUSE_NONE,
                            now_s + i + 100, "", &err));
        if (i % 10000 == 0)
            must(store_commit(store, &err));
    }
    must(store_commit(store, &err));
    book_close(book);
    store_close(store);
}

/* --- the daemon ---------------------------------------------------------- */

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
              gpus, "--policy", policy, (char *)NULL);
        _exit(127);
    }
    return daemon;
}

/* Asks for its health; false: there was no answer. */
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
        die("a socket");
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
    while (!answers()) {
        if (waitpid(daemon, NULL, WNOHANG) == daemon)
            die("firnd ended");
        if (clock_elapsed_s() > began_s + 120)
            die("no answer in 120 s");
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return clock_elapsed_s() - began_s;
}

static double cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec now;
    if (clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &now) != 0)
        return (double)NAN;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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

/* Until their number stands still for two seconds. */
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

/* Jobs and their supervisors are ours since firnd was killed. */
static void end_children(void)
{
    char file[64];
    snprintf(file, sizeof file, "/proc/self/task/%d/children", (int)getpid());
    for (int i = 0; i < 20; i++) {
        FILE *children = fopen(file, "r");
        int pid = 0, n = 0;
        while (children != NULL && fscanf(children, "%d", &pid) == 1)
            n += kill((pid_t)pid, SIGKILL) == 0;
        if (children != NULL)
            fclose(children);
        if (n == 0)
            return;
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
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
    fill(living);
    pid_t daemon = start(argv[1], policy);
    until_it_answers_s(daemon);
    int nrunning = wait_for_jobs();
    for (int i = 0; i < nruns; i++) {
        kill_hard(daemon);
        daemon = start(argv[1], policy);
        wall_s = fmin(wall_s, until_it_answers_s(daemon));
        cpu_s = fmin(cpu_s, cpu_of(daemon));
        sleep(2); /* it decides and writes, as one does that is killed later */
    }
    kill_hard(daemon);
    end_children();
    printf("%d living jobs, %s: of which run\t%d\t-\t-\tjobs\n", living, policy,
           nrunning);
    printf("%d living jobs, %s: answers after kill -9\t%.17g\t<=\t2\ts\n",
           living, policy, wall_s);
    printf("%d living jobs, %s: CPU until then\t%.17g\t-\t-\ts\n", living,
           policy, cpu_s);
    folder_empty(folder);
    return rmdir(folder) != 0;
}
