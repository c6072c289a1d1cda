/* workers.c - a test program that is its own shepherd and its own workers.
 */
#define _GNU_SOURCE
#include "lib/workers.h"
#include "engine/procs.h"
#include "engine/shepherd.h"
#include "lib/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS = 120000 / 5 }; /* so often, five milliseconds apart */

static const char *word(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? text : "-";
}

static void add_line(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(120);
    close(fd);
}

static void ready(const char *file)
{
    char line[128];
    snprintf(line, sizeof line, "%s %s %ld\n", word("FIRN_EPOCH"), word("RANK"),
             (long)getpid());
    add_line(file, line);
}

static void put_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~' ||
            *text == '\\')
            fprintf(out, "\\x%02x", (unsigned char)*text);
        else
            fputc(*text, out);
    fputc('\n', out);
}

static int dump(int argc, char **argv)
{
    char path[512], draft[600];
    snprintf(path, sizeof path, "%s.%s", argv[3], word("RANK"));
    snprintf(draft, sizeof draft, "%s.draft", path);
    FILE *out = fopen(draft, "w");
    if (out == NULL)
        return 120;
    for (int i = 4; i < argc; i++)
        put_escaped(out, argv[i]);
    for (char **at = environ; *at != NULL; at++)
        put_escaped(out, *at);
    char *here = getcwd(NULL, 0);
    fprintf(out, "cwd=%s\n", here);
    free(here);
    return fclose(out) != 0 || rename(draft, path) != 0 ? 120 : 0;
}

static volatile sig_atomic_t is_asked;

static void note(int number)
{
    (void)number;
    is_asked = 1;
}

static int obey(const char *file)
{
    struct sigaction action = {.sa_handler = note};
    sigset_t blocked, open_set;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &open_set);
    sigaction(SIGUSR1, &action, NULL);
    ready(file);
    while (!is_asked)
        sigsuspend(&open_set);
    return 83;
}

static void wait_for_death(void)
{
    for (;;)
        pause();
}

static void *wait_on(void *arg)
{
    (void)arg;
    wait_for_death();
    return NULL;
}

/* Its first thread ends, another lives: /proc has it as a zombie. */
static void lose_head(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_on, NULL) == 0)
        syscall(SYS_exit, 0);
}

/* Child: a session of its own; grandchild: takes no notice of SIGTERM. Both
 * may close all descriptors, as a daemon does. */
static void grow(const char *what, const char *file)
{
    char name[300], *none[] = {NULL};
    char *again[] = {(char *)workers_program(), "--work", "idle", NULL};
    if (fork() != 0)
        return;
    setsid();
    for (int fd = 3; strcmp(what, "clan") != 0 && fd < 64; fd++)
        close(fd);
    signal(SIGTERM, SIG_IGN);
    if (fork() == 0)
        setsid();
    snprintf(name, sizeof name, "%s.held", file);
    if (strcmp(what, "clan") != 0) /* and of no lock of ours */
        flock(open(name, O_RDWR | O_CREAT, 0600), LOCK_SH);
    ready(file);
    if (strcmp(what, "headless") == 0)
        lose_head();
    if (strcmp(what, "bare") == 0)
        execve(again[0], again, none);
    wait_for_death();
}

/* One that was ready is dying: it has no memory any more, but files yet. */
static bool is_one_dying(const char *file)
{
    pid_t pids[64];
    size_t n = workers_pids(file, pids, 64);
    bool is_dying = false;
    for (size_t i = 0; i < n; i++)
        is_dying = is_dying || (procs_has_variable(pids[i], "RANK=") < 0 &&
                                procs_start(pids[i]) != 0);
    return is_dying;
}

/* Who lives has it: false. The kernel takes the files of the dead one by one,
 * and their attempt's lock may be free before this one. */
static bool take_turn(int fd, const char *file)
{
    for (;;) {
        bool is_dying = is_one_dying(file); /* before it is tried */
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (!is_dying)
            return false;
        poll(NULL, 0, 2);
    }
}

static int alone(const char *file, const char *lock)
{
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char name[300];
    snprintf(name, sizeof name, "%s.%s", lock, word("RANK"));
    int own = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* All ranks of an attempt share `lock`; one of each rank has `own`. */
    if (fd < 0 || own < 0 || !take_turn(own, file))
        add_line(file, "TWICE\n");
    return obey(file);
}

static bool is_parent(const char *what)
{
    static const char *const all[] = {"clan", "tree", "leave", "headless",
                                      "bare"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(what, all[i]) == 0)
            return true;
    return false;
}

static int work(int argc, char **argv)
{
    const char *what = argv[2], *file = argc > 3 ? argv[3] : "";
    if (strcmp(what, "exit") == 0)
        return (int)strtol(file, NULL, 10);
    if (strcmp(what, "die") == 0)
        kill(getpid(), (int)strtol(file, NULL, 10));
    if (strcmp(what, "say") == 0) {
        fprintf(stderr, "%s\n", file);
        return (int)strtol(argv[4], NULL, 10);
    }
    if (strcmp(what, "dump") == 0)
        return dump(argc, argv);
    if (strcmp(what, "obey") == 0)
        return obey(file);
    if (strcmp(what, "late") == 0) {
        ready(file);
        poll(NULL, 0, 200);
        return obey(file);
    }
    if (strcmp(what, "alone") == 0)
        return alone(file, argv[4]);
    if (strcmp(what, "stubborn") == 0)
        signal(SIGTERM, SIG_IGN);
    if (strcmp(what, "idle") == 0)
        wait_for_death();
    if (is_parent(what)) {
        grow(what, file);
        while (workers_ready(file) < 2)
            poll(NULL, 0, 2);
        if (strcmp(what, "leave") == 0)
            return 0;
    }
    ready(file);
    wait_for_death();
    return 121;
}

int workers_main(int argc, char **argv)
{
    int code = shepherd_args(argc, argv);
    if (code >= 0)
        return code;
    if (argc > 2 && strcmp(argv[1], "--work") == 0)
        return work(argc, argv);
    return -1;
}

const char *workers_program(void)
{
    static char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = '\0';
    return path;
}

size_t workers_pids(const char *file, pid_t *out, size_t max)
{
    char line[256];
    size_t n = 0;
    FILE *in = fopen(file, "r");
    if (in == NULL)
        return 0;
    while (fgets(line, sizeof line, in) != NULL && n < max) {
        const char *last = strrchr(line, ' ');
        if (last != NULL && strchr(line, '\n') != NULL)
            out[n++] = (pid_t)strtol(last, NULL, 10);
    }
    fclose(in);
    return n;
}

size_t workers_ready(const char *file)
{
    pid_t pids[64];
    return workers_pids(file, pids, 64);
}

void workers_await(const char *file, size_t n)
{
    for (int i = 0; i < LOOKS; i++) {
        if (workers_ready(file) >= n)
            return;
        poll(NULL, 0, 5);
    }
    fail_msg("%s: %zu processes are ready, not %zu", file, workers_ready(file),
             n);
}

bool workers_is_gone(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    if (procs_start(pid) == 0)
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 && folder_path()[0] != '\0' &&
           memmem(text, (size_t)n, folder_path(), strlen(folder_path())) ==
               NULL;
}

void workers_await_gone(pid_t pid)
{
    for (int i = 0; i < LOOKS && !workers_is_gone(pid); i++)
        poll(NULL, 0, 5);
    if (!workers_is_gone(pid))
        fail_msg("process %ld is still there", (long)pid);
}

static int kill_holders(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
    (void)type;
    if (strcmp(path + at->base, "lock") != 0)
        return 0;
    const struct procs_marks marks = {.device = st->st_dev,
                                      .inode = st->st_ino};
    struct procs_seen seen = {0};
    for (int i = 0; i < LOOKS && procs_kill_marked(&marks, &seen) > 0; i++)
        poll(NULL, 0, 5);
    vec_release(&seen.ids);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

int workers_sweep(void **state)
{
    (void)state;
    nftw(folder_path(), kill_holders, 16, FTW_PHYS);
    for (int i = 0; i < LOOKS; i++) { /* a shepherd may write its last file */
        if (nftw(folder_path(), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0)
            return 0;
        poll(NULL, 0, 5);
    }
    return 1;
}
