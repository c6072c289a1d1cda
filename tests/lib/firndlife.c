/* firndlife.c - a real firnd of a test's own: started, killed, started again.
 */
#define _GNU_SOURCE
#include "lib/firndlife.h"
#include "base/clock.h"
#include "lib/askfirnd.h"
#include "lib/folder.h"
#include "lib/oncejob.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONGEST_S = 120, LOG_SHOWN = 4000, PATH = FIRNDLIFE_PATH };

int firndlife_open(struct firndlife *life)
{
    const char *tmp = getenv("TMPDIR"), *firn = getenv("FIRN");
    *life = (struct firndlife){.pid = 0};
    snprintf(life->folder, sizeof life->folder, "%.60s/firn-life-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (firn != NULL)
        snprintf(life->program, sizeof life->program, "%.180sd", firn);
    return mkdtemp(life->folder) == NULL;
}

bool firndlife_has_program(const struct firndlife *life)
{
    return access(life->program, X_OK) == 0;
}

void firndlife_path(const struct firndlife *life, char out[PATH],
                    const char *name)
{
    snprintf(out, PATH, "%s/%s", life->folder, name);
}

static void show_log(const struct firndlife *life)
{
    char path[PATH], line[300];
    firndlife_path(life, path, "err");
    FILE *log = fopen(path, "r");
    if (log != NULL && fseek(log, -LOG_SHOWN, SEEK_END) != 0)
        rewind(log);
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        print_error("%s", line);
    if (log != NULL)
        fclose(log);
}

void firndlife_close(struct firndlife *life, const char *seconds, bool is_shown)
{
    struct timespec nap = {.tv_nsec = 10000000};
    if (life->pid != 0) {
        kill(life->pid, SIGKILL);
        waitpid(life->pid, NULL, 0);
    }
    life->pid = 0;
    for (int i = 0; i < 500 && oncejob_processes(life->folder) > 0; i++) {
        firndlife_sleepers(seconds, true); /* a supervisor ends with its job */
        nanosleep(&nap, NULL);
    }
    if (is_shown)
        show_log(life);
    folder_empty(life->folder);
    rmdir(life->folder);
}

void firndlife_check(struct firndlife *life)
{
    int status;
    if (life->pid != 0 && waitpid(life->pid, &status, WNOHANG) == life->pid) {
        life->pid = 0;
        fail_msg("firnd ended by itself, status %d", status);
    }
}

static void wait_ready(struct firndlife *life)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    char sock[PATH], reply[ASKFIRND_TEXT];
    struct timespec nap = {.tv_nsec = 2000000};
    firndlife_path(life, sock, "sock");
    while (askfirnd_get(sock, "/health", until_s, reply) != 200) {
        firndlife_check(life);
        if (clock_elapsed_s() > until_s)
            fail_msg("firnd does not answer after %d s", LONGEST_S);
        nanosleep(&nap, NULL);
    }
}

void firndlife_begin(struct firndlife *life)
{
    char state[PATH], sock[PATH], err[PATH];
    firndlife_path(life, state, "state");
    firndlife_path(life, sock, "sock");
    firndlife_path(life, err, "err");
    life->nlives++;
    life->pid = fork();
    assert_true(life->pid >= 0);
    if (life->pid > 0) {
        wait_ready(life);
        return;
    }
    int fd = open(err, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
        execl(life->program, "firnd", "--state", state, "--socket", sock,
              "--gpus", "4x1:v100@16", "--policy", "fifo", "--allow-root",
              (char *)NULL);
    _exit(127);
}

void firndlife_end(struct firndlife *life, int signal_number)
{
    int status;
    kill(life->pid, signal_number);
    assert_int_equal(waitpid(life->pid, &status, 0), life->pid);
    life->pid = 0;
    bool is_good = signal_number == SIGKILL
                       ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                       : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_good)
        fail_msg("firnd ended with status %d after signal %d", status,
                 signal_number);
}

int firndlife_sleepers(const char *seconds, bool is_ended)
{
    DIR *proc = opendir("/proc");
    int n = 0;
    assert_non_null(proc);
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        char path[300], line[300] = "";
        snprintf(path, sizeof path, "/proc/%.200s/cmdline", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
        if (fd >= 0)
            close(fd);
        if (got <= 0 || strcmp(line, "/bin/sleep") != 0 ||
            strcmp(line + sizeof "/bin/sleep", seconds) != 0)
            continue;
        n++;
        if (is_ended)
            kill((pid_t)atoi(e->d_name), SIGKILL);
    }
    closedir(proc);
    return n;
}
