/* firndbed.c - firnd in a folder of its own, to be killed and started again.
 */
#define _GNU_SOURCE
#include "lib/firndbed.h"
#include "base/clock.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_SHOWN = 3000, MOST = 256 };

void firndbed_pause_s(double time_s)
{
    struct timespec time = {(time_t)time_s,
                            (long)(1e9 * (time_s - (double)(time_t)time_s))};
    nanosleep(&time, NULL);
}

void firndbed_path(const struct firndbed *bed, const char *name,
                   char out[FIRNDBED_PATH])
{
    snprintf(out, FIRNDBED_PATH, "%.200s/%.100s", bed->folder, name);
}

bool firndbed_make(struct firndbed *bed, const char *name, bool has_plan)
{
    char path[FIRNDBED_PATH];
    const char *tmp = getenv("TMPDIR"), *firn = getenv("FIRN");
    bed->pid = 0;
    bed->plan = NULL;
    snprintf(bed->folder, sizeof bed->folder, "%.60s/firn-%.20s-XXXXXX",
             tmp != NULL ? tmp : "/tmp", name);
    snprintf(bed->firnd, sizeof bed->firnd, "%.300sd",
             firn != NULL ? firn : "build/firn");
    snprintf(bed->preload, sizeof bed->preload,
             "%.*s/tests/fault/faultcalls.so",
             (int)(strrchr(bed->firnd, '/') - bed->firnd), bed->firnd);
    if (access(bed->firnd, X_OK) != 0 || mkdtemp(bed->folder) == NULL) {
        bed->folder[0] = '\0';
        return false;
    }
    if (!has_plan)
        return true;
    firndbed_path(bed, "plan", path);
    bed->plan = faultplan_make(path);
    return bed->plan != NULL && access(bed->preload, R_OK) == 0;
}

/* --- processes ------------------------------------------------------------ */

/* Those that have the folder among their words, and `word` if it is not NULL;
 * how many, at most MOST. Ours is not among them. */
static int find(const struct firndbed *bed, const char *word, pid_t out[MOST])
{
    int n = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc != NULL && (e = readdir(proc)) != NULL;) {
        char path[FIRNDBED_PATH], text[8192];
        long pid = strtol(e->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid() || n == MOST)
            continue;
        snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, text, sizeof text) : 0;
        if (fd >= 0)
            close(fd);
        if (size > 0 &&
            memmem(text, (size_t)size, bed->folder, strlen(bed->folder)) !=
                NULL &&
            (word == NULL ||
             memmem(text, (size_t)size, word, strlen(word) + 1) != NULL))
            out[n++] = (pid_t)pid;
    }
    if (proc != NULL)
        closedir(proc);
    return n;
}

pid_t firndbed_signal(const struct firndbed *bed, const char *word,
                      unsigned draw, int number)
{
    pid_t all[MOST];
    int n = find(bed, word, all);
    pid_t pid = n > 0 ? all[draw % (unsigned)n] : 0;
    return pid > 0 && kill(pid, number) == 0 ? pid : 0;
}

int firndbed_remove(struct firndbed *bed)
{
    pid_t all[MOST];
    if (bed->folder[0] == '\0')
        return 0;
    firndbed_kill(bed, NULL);
    for (int tries = 0, n; tries < 3000; tries++) {
        if ((n = find(bed, NULL, all)) == 0)
            break;
        while (n > 0)
            kill(all[--n], SIGKILL);
        firndbed_pause_s(0.01);
    }
    faultplan_free(bed->plan);
    bed->plan = NULL;
    int result = oncejob_remove(bed->folder);
    bed->folder[0] = '\0';
    return result;
}

static void become(const struct firndbed *bed, const char *failpoint)
{
    char state[FIRNDBED_PATH], sock[FIRNDBED_PATH], err[FIRNDBED_PATH];
    char plan[FIRNDBED_PATH];
    firndbed_path(bed, "state", state);
    firndbed_path(bed, "sock", sock);
    firndbed_path(bed, "err", err);
    firndbed_path(bed, "plan", plan);
    int fd = open(err, O_WRONLY | O_APPEND | O_CREAT, 0600);
    unsetenv("FIRN_FAILPOINT");
    if (failpoint != NULL)
        setenv("FIRN_FAILPOINT", failpoint, 1);
    if (bed->plan != NULL) {
        setenv("LD_PRELOAD", bed->preload, 1);
        setenv("FAULT_PLAN", plan, 1);
    }
    const char *argv[20] = {
        "firnd", "--state", state, "--socket", sock, "--gpus", bed->gpus,
        "--policy", bed->policy, "--allow-root", "--set",
        /* shepherds and jobs get these, too */
        "local.pass-env=LD_PRELOAD,FAULT_PLAN,ASAN_OPTIONS"};
    int n = 12;
    for (int i = 0; i < 4 && bed->more[i] != NULL; i++)
        argv[n++] = bed->more[i];
    if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
        execv(bed->firnd, (char *const *)argv);
    _exit(127);
}

bool firndbed_begin(struct firndbed *bed, const char *failpoint)
{
    bed->pid = fork();
    if (bed->pid == 0)
        become(bed, failpoint);
    return bed->pid > 0;
}

bool firndbed_has_ended(struct firndbed *bed, int *status)
{
    int how;
    if (bed->pid == 0)
        return true;
    if (waitpid(bed->pid, &how, WNOHANG) != bed->pid)
        return false;
    bed->pid = 0;
    if (status != NULL)
        *status = how;
    return true;
}

bool firndbed_kill(struct firndbed *bed, int *status)
{
    if (firndbed_has_ended(bed, status))
        return false;
    kill(bed->pid, SIGKILL);
    waitpid(bed->pid, NULL, 0);
    bed->pid = 0;
    return true;
}

bool firndbed_is_ready(struct firndbed *bed, double limit_s)
{
    char reply[ASKFIRND_TEXT];
    double began_s = clock_elapsed_s();
    while (firndbed_get(bed, "/health", began_s + limit_s, reply) != 200) {
        siginfo_t info = {0};
        if (bed->pid == 0 ||
            (waitid(P_PID, (id_t)bed->pid, &info,
                    WEXITED | WNOHANG | WNOWAIT) == 0 &&
             info.si_pid != 0) ||
            clock_elapsed_s() - began_s >= limit_s)
            return false;
        firndbed_pause_s(0.002);
    }
    double took_s = clock_elapsed_s() - began_s;
    if (took_s > bed->ready_most_s)
        bed->ready_most_s = took_s;
    return true;
}

void firndbed_show_log(const struct firndbed *bed)
{
    char path[FIRNDBED_PATH], line[300];
    firndbed_path(bed, "err", path);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    if (fseek(f, -LOG_SHOWN, SEEK_END) != 0)
        rewind(f);
    while (fgets(line, sizeof line, f) != NULL)
        fputs(line, stderr);
    fclose(f);
}

/* --- talking ------------------------------------------------------------- */

int firndbed_get(const struct firndbed *bed, const char *target, double until_s,
                 char reply[ASKFIRND_TEXT])
{
    char sock[FIRNDBED_PATH];
    firndbed_path(bed, "sock", sock);
    return askfirnd_get(sock, target, until_s, reply);
}

int firndbed_send(const struct firndbed *bed, const char *method,
                  const char *target, const char *body, double until_s,
                  char reply[ASKFIRND_TEXT])
{
    char sock[FIRNDBED_PATH];
    firndbed_path(bed, "sock", sock);
    return askfirnd_send(sock, method, target, body, until_s, reply);
}

bool firndbed_field(const char *reply, const char *name, char out[64])
{
    char key[80];
    snprintf(key, sizeof key, "\"%.60s\": ", name);
    const char *at = strstr(reply, key);
    if (at == NULL)
        return false;
    at += strlen(key);
    at += *at == '"';
    snprintf(out, 64, "%.*s", (int)strcspn(at, "\",}"), at);
    return true;
}

long firndbed_submit_file(const struct firndbed *bed, const char *key,
                          const char *file, double until_s,
                          char reply[ASKFIRND_TEXT])
{
    char sock[FIRNDBED_PATH], id[64];
    firndbed_path(bed, "sock", sock);
    int status = askfirnd_submit(sock, key, file, until_s, reply);
    if (status == 0)
        return 0;
    if ((status != 200 && status != 201) || !firndbed_field(reply, "id", id))
        return -1;
    return strtol(id, NULL, 10);
}

long firndbed_submit(const struct firndbed *bed, const char *key, double work_s,
                     const char *more, double until_s,
                     char reply[ASKFIRND_TEXT])
{
    char file[PATH_MAX + 2 * FIRNDBED_PATH];
    snprintf(file, sizeof file,
             "name: %.40s\nrun: [\"%s\", \"work\", \"%s\", \"%.3f\"]\n%s", key,
             bed->self, bed->folder, work_s, more);
    return firndbed_submit_file(bed, key, file, until_s, reply);
}
