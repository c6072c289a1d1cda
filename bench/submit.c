/* submit.c - the wait of submits at a fixed rate through the daemon's socket.
 *
 * firnd is started on a folder, with or without jobs that wait in it already.
 * Submits are sent at fixed moments, one each millisecond at the usual rate,
 * whether earlier ones were answered or not; each waits from its moment to the
 * last byte of its answer, which comes when the job is on disk. Beside them, in
 * the same seconds and on the same disk, a file is written and synced every
 * 20 ms: the least time that a submit can take.
 *
 *     submit FIRND [SECONDS [QUEUED [POLICY [RATE [SETTING ...]]]]]
 *
 * Each SETTING ("icefrog.interval=20") is given to firnd as --set.
 *
 * Without QUEUED: new jobs are held, so that the policy has nothing to do; of
 * three runs of three seconds the one with the lowest p99. With QUEUED: that
 * number of jobs wait before the first submit, and 64 GPUs are busy. New jobs
 * enter the round, and each is cancelled after KEPT later submits, so that the
 * number of jobs is constant; a job that got GPUs meanwhile gives them back,
 * and the policy divides them anew. firnd's memory is read every minute; the
 * growth for each submit is from the first reading (after a tenth of the time,
 * or once firnd keeps its full number of finished jobs) to the last.
 */
#define _DEFAULT_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "base/sort.h"
#include "daemon/fullstate.h"
#include "lib/folder.h"
#include "lib/measure.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 256, CANCEL_LINES = 64, KEPT = 2000, SYNCS_S = 50, RUNS = 3 };
/* Submits until firnd keeps its full number of finished jobs in memory. */
enum { SETTLED = BOOK_KEEP + 2 * KEPT };

static struct {
    const char *firnd, *policy;
    int seconds, queued, rate, nsettings;
    char **settings;
} plan = {.policy = "fifo", .seconds = 3, .rate = 1000};

static char folder[200], path[300];
static int nsubmits;

/* A connection that is kept; `job` is the submit it waits for, or -1. */
struct line {
    int fd, job;
    size_t got;
    char answer[4096];
};

static struct line lines[LINES], cancels[CANCEL_LINES];
static int nlines, ncancels, nanswered, nrefused;
static double began_s, *waits_ms;
static int *ids; /* by submit: the job that it made; 0: not answered */
static int next_cancel;

static pid_t daemon_pid;

static void die(const char *what)
{
    fprintf(stderr, "submit: %s: %s\n", what, strerror(errno));
    if (daemon_pid > 0)
        kill(daemon_pid, SIGKILL);
    exit(1);
}

/* --- requests ------------------------------------------------------------ */

static int reach(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.100s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("socket");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static struct line *free_line(struct line *at, int *n, int most)
{
    for (int i = 0; i < *n; i++)
        if (at[i].job < 0)
            return &at[i];
    if (*n == most)
        return NULL;
    at[*n] = (struct line){.fd = reach(), .job = -1};
    return &at[(*n)++];
}

static void send_text(struct line *line, int job, const char *text, int n)
{
    line->job = job;
    line->got = 0;
    if (write(line->fd, text, (size_t)n) != n)
        die("a request");
}

static void send_job(struct line *line, int job)
{
    static const char body[] =
        "run: [/bin/sleep, \"100000\"]\ngpus: 1..4\n"
        "elastic: {consistency: D1, threads: 8}\ncheckpoint: {grace: 1s}\n";
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "POST /v1/jobs%s HTTP/1.1\r\nHost: firn\r\n"
                     "Content-Type: application/yaml\r\n"
                     "Idempotency-Key: run-%d-%d\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     plan.queued > 0 ? "" : "?hold=1", (int)getpid(), job,
                     strlen(body), body);
    send_text(line, job, text, n);
}

static void send_cancel(struct line *line, int job)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "POST /v1/jobs/%d/cancel HTTP/1.1\r\nHost: firn\r\n"
                     "Content-Length: 0\r\n\r\n",
                     ids[job]);
    send_text(line, job, text, n);
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

/* Reads; false while the answer is not complete. A connection that firnd closed
 * because it was idle is opened anew; a request sent at the same moment is sent
 * again, and its time runs on. */
static bool hear(struct line *line, void (*send)(struct line *, int))
{
    ssize_t n = read(line->fd, line->answer + line->got,
                     sizeof line->answer - 1 - line->got);
    if (n == 0 && line->got == 0) {
        close(line->fd);
        line->fd = reach();
        if (line->job >= 0)
            send(line, line->job);
        return false;
    }
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return false;
        die("an answer");
    }
    line->got += (size_t)n;
    line->answer[line->got] = '\0';
    return is_whole(line);
}

static void hear_submit(struct line *line)
{
    if (!hear(line, send_job))
        return;
    const char *id = strstr(line->answer, "\"id\":");
    bool is_made = strncmp(line->answer, "HTTP/1.1 201", 12) == 0 && id != NULL;
    nrefused += !is_made;
    ids[line->job] = is_made ? atoi(id + 5) : 0;
    waits_ms[line->job] =
        1e3 * (clock_elapsed_s() - began_s) - 1e3 * line->job / plan.rate;
    line->job = -1;
    line->got = 0;
    nanswered++;
}

static void hear_cancel(struct line *line)
{
    if (!hear(line, send_cancel))
        return;
    line->job = -1;
    line->got = 0;
}

static void wait_a_little(double until_s)
{
    struct pollfd polls[LINES + CANCEL_LINES];
    for (int i = 0; i < nlines; i++)
        polls[i] = (struct pollfd){lines[i].fd, POLLIN, 0};
    for (int i = 0; i < ncancels; i++)
        polls[nlines + i] = (struct pollfd){cancels[i].fd, POLLIN, 0};
    int n = nlines + ncancels;
    /* To the millisecond: on time, without keeping a core busy. */
    poll(polls, (nfds_t)n, until_s > clock_elapsed_s() ? 1 : 0);
    for (int i = 0; i < n; i++)
        if (polls[i].revents != 0 && i < nlines)
            hear_submit(&lines[i]);
        else if (polls[i].revents != 0)
            hear_cancel(&cancels[i - nlines]);
}

/* Cancels the jobs with KEPT later submits. */
static void cancel_old(int sent)
{
    struct line *line = NULL;
    while (plan.queued > 0 && next_cancel + KEPT < sent &&
           ids[next_cancel] != 0 &&
           (line = free_line(cancels, &ncancels, CANCEL_LINES)) != NULL)
        send_cancel(line, next_cancel++);
}

/* --- memory -------------------------------------------------------------- */

static double resident_mib(pid_t pid)
{
    char name[64];
    long pages = 0;
    snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(name, "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        die(name);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

struct memory {
    double looked_s, first_mib, last_mib;
    int first_at; /* submits by then */
};

static void look(struct memory *memory, pid_t daemon, double now_s, int sent)
{
    bool is_first = memory->first_at == 0 && now_s > 0.1 * plan.seconds &&
                    (sent > SETTLED || 2 * sent > nsubmits);
    if (!is_first && now_s < memory->looked_s + 60 && sent < nsubmits)
        return;
    memory->looked_s = now_s;
    memory->last_mib = resident_mib(daemon);
    if (is_first) {
        memory->first_mib = memory->last_mib;
        memory->first_at = sent;
    }
    if (plan.queued > 0) {
        printf("# after %.0f s: %d submitted, %d cancelled, %.1f MiB\n", now_s,
               sent, next_cancel, memory->last_mib);
        fflush(stdout);
    }
}

static void submit_all(pid_t daemon, struct memory *memory)
{
    int sent = 0;
    nanswered = nrefused = next_cancel = 0;
    began_s = clock_elapsed_s();
    while (nanswered < nsubmits) {
        double now_s = clock_elapsed_s() - began_s;
        struct line *line = NULL;
        while (sent < nsubmits && sent <= now_s * plan.rate &&
               (line = free_line(lines, &nlines, LINES)) != NULL)
            send_job(line, sent++);
        cancel_old(sent);
        look(memory, daemon, now_s, nanswered);
        wait_a_little(began_s + (double)sent / plan.rate);
        if (now_s > 60 + 2 * plan.seconds)
            die("too few answers");
    }
    look(memory, daemon, clock_elapsed_s() - began_s, nsubmits);
}

/* --- beside it ----------------------------------------------------------- */

/* Shared with the process that syncs. */
struct syncs {
    volatile int n;
    double ms[];
};

static void sync_beside(struct syncs *to, int most)
{
    char name[300], block[4096] = "";
    snprintf(name, sizeof name, "%s/beside", folder);
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    while (to->n < most) {
        nanosleep(&(struct timespec){0, 1000000000 / SYNCS_S}, NULL);
        double start_s = clock_elapsed_s();
        if (pwrite(fd, block, sizeof block, (to->n % 4096) * 4096) < 0 ||
            fdatasync(fd) != 0)
            _exit(1);
        to->ms[to->n] = 1e3 * (clock_elapsed_s() - start_s);
        to->n = to->n + 1;
    }
    _exit(0);
}

static bool answers(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.100s", path);
    bool is_there = connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    close(fd);
    return is_there;
}

static void exec_daemon(void)
{
    const char *gpus = plan.queued > 0 ? "1x64:v100@16" : "1x4:v100@16";
    const char *first[] = {"firnd",     "--state",     folder, "--socket",
                           path,        "--gpus",      gpus,   "--policy",
                           plan.policy, "--allow-root"};
    enum { FIRST = sizeof first / sizeof *first };
    const char **argv =
        mem_new(FIRST + 2 * (size_t)plan.nsettings + 1, sizeof *argv);
    memcpy(argv, first, sizeof first);
    for (int i = 0; i < plan.nsettings; i++) {
        argv[FIRST + 2 * i] = "--set";
        argv[FIRST + 2 * i + 1] = plan.settings[i];
    }
    execv(plan.firnd, (char *const *)argv);
    _exit(127);
}

static pid_t start_daemon(void)
{
    pid_t daemon = fork();
    if (daemon == 0) {
        const char *log = getenv("SUBMIT_LOG");
        if (freopen(log != NULL ? log : "/dev/null", "w", stderr) == NULL)
            _exit(1);
        exec_daemon();
    }
    for (int i = 0; i < 2400 && !answers(); i++)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    if (plan.queued > 0)
        sleep(5); /* the first decision, and 64 starts */
    return daemon;
}

/* --- a run --------------------------------------------------------------- */

/* Milliseconds. */
struct shape {
    double p50, p99, p999;
};

static struct shape shape_of(double *ms, size_t n)
{
    sort_doubles(ms, n);
    return n == 0 ? (struct shape){(double)NAN, (double)NAN, (double)NAN}
                  : (struct shape){ms[n / 2], ms[n * 99 / 100],
                                   ms[n * 999 / 1000]};
}

struct result {
    struct shape submit, sync;
    double bytes; /* growth of firnd for each submit */
    double mib;   /* at the end */
};

static void close_lines(struct line *at, int *n)
{
    for (int i = 0; i < *n; i++)
        close(at[i].fd);
    *n = 0;
}

static struct result run(void)
{
    struct firn_error err = {0};
    struct memory memory = {0};
    struct fullstate full = {.living = plan.queued, .oldest_s = 1e9};
    int most = plan.seconds * SYNCS_S;
    size_t bytes = sizeof(struct syncs) + (size_t)most * sizeof(double);
    struct syncs *syncs = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (syncs == MAP_FAILED)
        die("memory");
    if (plan.queued > 0 && fullstate_fill(folder, &full, &err) != FIRN_OK)
        die(err.text);
    pid_t daemon = daemon_pid = start_daemon(), syncer = fork();
    if (syncer == 0)
        sync_beside(syncs, most);
    submit_all(daemon, &memory);
    kill(syncer, SIGKILL);
    waitpid(syncer, NULL, 0);
    kill(daemon, SIGTERM);
    waitpid(daemon, NULL, 0);
    close_lines(lines, &nlines);
    close_lines(cancels, &ncancels);
    measure_end_children();
    struct result result = {.submit = shape_of(waits_ms, (size_t)nsubmits),
                            .sync = shape_of(syncs->ms, (size_t)syncs->n),
                            .mib = memory.last_mib,
                            .bytes = (memory.last_mib - memory.first_mib) *
                                     (1 << 20) /
                                     (nsubmits - memory.first_at + 1)};
    if (nrefused > 0)
        result.submit.p99 = (double)NAN;
    munmap(syncs, bytes);
    return result;
}

static void print_short(const struct result *r)
{
    printf("1000 submits a second over HTTP: p99\t%.17g\t<=\t20\tms\n",
           r->submit.p99);
    printf("1000 submits a second over HTTP: median\t%.17g\t-\t-\tms\n",
           r->submit.p50);
    printf("fdatasync in the same seconds: p99\t%.17g\t-\t-\tms\n",
           r->sync.p99);
}

static void print_long(const struct result *r)
{
    char name[200];
    snprintf(name, sizeof name, "%d submits/s, %d s, %d queued, %s", plan.rate,
             plan.seconds, plan.queued, plan.policy);
    printf("%s: p50\t%.17g\t-\t-\tms\n", name, r->submit.p50);
    printf("%s: p99\t%.17g\t-\t-\tms\n", name, r->submit.p99);
    printf("%s: p99.9\t%.17g\t-\t-\tms\n", name, r->submit.p999);
    printf("fdatasync in the same seconds: p50\t%.17g\t-\t-\tms\n",
           r->sync.p50);
    printf("fdatasync in the same seconds: p99\t%.17g\t-\t-\tms\n",
           r->sync.p99);
    printf("fdatasync in the same seconds: p99.9\t%.17g\t-\t-\tms\n",
           r->sync.p999);
    printf("%s: p99 over fdatasync's\t%.17g\t<=\t20\tms\n", name,
           r->submit.p99 - r->sync.p99);
    printf("%s: p99 as a multiple of fdatasync's\t%.17g\t-\t-\t\n", name,
           r->submit.p99 / r->sync.p99);
    printf("%s: memory at the end\t%.17g\t-\t-\tMiB\n", name, r->mib);
    printf("%s: memory for each submit\t%.17g\t<=\t128\tB\n", name, r->bytes);
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    struct result best = {.submit = {.p99 = INFINITY}};
    if (argc < 2)
        return 2;
    plan.firnd = argv[1];
    plan.seconds = argc > 2 ? atoi(argv[2]) : plan.seconds;
    plan.queued = argc > 3 ? atoi(argv[3]) : plan.queued;
    plan.policy = argc > 4 ? argv[4] : plan.policy;
    plan.rate = argc > 5 ? atoi(argv[5]) : plan.rate;
    plan.nsettings = argc > 6 ? argc - 6 : 0;
    plan.settings = argv + 6;
    nsubmits = plan.seconds * plan.rate;
    if (nsubmits < 100)
        return 2;
    waits_ms = mem_new((size_t)nsubmits, sizeof *waits_ms);
    ids = mem_new((size_t)nsubmits, sizeof *ids);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(folder, sizeof folder, "%.150s/firn-bench-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/firn.sock", folder);
    for (int i = 0; i < (argc > 2 ? 1 : RUNS); i++) {
        struct result now = run();
        if (!(now.submit.p99 >= best.submit.p99))
            best = now;
        folder_empty(folder);
    }
    if (argc > 2)
        print_long(&best);
    else
        print_short(&best);
    mem_free(waits_ms);
    mem_free(ids);
    return rmdir(folder) != 0;
}
