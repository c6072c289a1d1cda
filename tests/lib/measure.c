/* measure.c - a child in between, so that only its child is counted.
 *
 * getrusage(RUSAGE_CHILDREN) sums over all children ever waited for; the
 * process in between has one only, and sends the numbers through a pipe.
 */
#include "lib/measure.h"
#include "base/buf.h"
#include <fcntl.h>
#include <firn/engine.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static _Noreturn void run(const char *const argv[])
{
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0)
        dup2(null, STDOUT_FILENO);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

static struct measured wait_and_count(const char *const argv[])
{
    struct measured out = {.status = -1};
    struct rusage used;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        run(argv);
    if (pid < 0 || waitpid(pid, &status, 0) != pid ||
        getrusage(RUSAGE_CHILDREN, &used) != 0)
        return out;
    out.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
    out.peak_mib = (double)used.ru_maxrss / 1024;
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
}

struct measured measure_command(const char *const argv[])
{
    struct measured out = {.status = -1};
    int ends[2];
    if (pipe(ends) != 0)
        return out;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct measured got = wait_and_count(argv);
        ssize_t n = write(ends[1], &got, sizeof got);
        _exit(n == (ssize_t)sizeof got ? 0 : 1);
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], &out, sizeof out) != (ssize_t)sizeof out)
        out.status = -1;
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return out;
}

double measure_cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double measure_cpu_of(int pid)
{
    clockid_t clock;
    struct timespec now;
    if (clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &now) != 0)
        return (double)NAN;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void measure_end_children(void)
{
    char file[64];
    snprintf(file, sizeof file, "/proc/self/task/%d/children", (int)getpid());
    for (int i = 0; i < 50; i++) {
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

static void line(const char *name, double value, const char *relation,
                 const char *limit, const char *unit)
{
    char text[STR_DOUBLE_MAX];
    printf("%s\t%s\t%s\t%s\t%s\n", name, double_text(value, text), relation,
           limit, unit);
    fflush(stdout);
}

void measure_at_most(const char *name, double value, double limit,
                     const char *unit)
{
    char text[STR_DOUBLE_MAX];
    line(name, value, "<=", double_text(limit, text), unit);
}

void measure_exactly(const char *name, double value, double limit,
                     const char *unit)
{
    char text[STR_DOUBLE_MAX];
    line(name, value, "==", double_text(limit, text), unit);
}

void measure_tell(const char *name, double value, const char *unit)
{
    line(name, value, "-", "", unit);
}

void measure_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("# ");
    vprintf(fmt, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

/* --- an engine on which nothing happens ---------------------------------- */

static double now_s(void *state)
{
    (void)state;
    return 0;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    (void)state, (void)step, (void)err;
    return FIRN_OK;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    (void)state, (void)until_s, (void)out, (void)err;
    return false;
}

struct firn_engine_def measure_engine(const struct firn_forecast_def *forecast)
{
    return (struct firn_engine_def){
        .name = "bench",
        .summary = "forecasts only",
        .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
        .forecast = forecast,
        .now_s = now_s,
        .apply = apply,
        .next = next};
}
