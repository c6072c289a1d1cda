/* procs.c - reads /proc: descendants, signal handlers, open files, variables.
 *
 * A snapshot of all processes is taken when it is needed, which is when a job
 * leaves: O(processes of the host), a few milliseconds for a thousand. A worker
 * that is asked for a checkpoint is asked again every 50 ms until it has a
 * handler: there only its own descendants are read, by the lists of children of
 * its threads, where the kernel has them (CONFIG_PROC_CHILDREN).
 *
 * A process whose parent dies during the snapshot may be missed; callers that
 * have to reach all processes repeat the call until none is left.
 */
#define _GNU_SOURCE
#include "engine/procs.h"
#include "base/buf.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct proc {
    pid_t pid, parent, session;
    pid_t thread; /* a living thread: its files are those of the process */
    uint64_t start;
    bool is_ending; /* its memory is freed, files and GPUs perhaps not */
    bool is_below;
};

struct snapshot {
    VEC(struct proc) procs;
};

/* The answer for a file of /proc/PID that cannot be read. EACCES means another
 * user's process: we may read our own. */
static enum procs_found missing(int error)
{
    return error == ENOENT || error == ESRCH || error == EACCES ||
                   error == EPERM
               ? PROCS_GONE
               : PROCS_UNKNOWN;
}

/* Reads a small file of /proc, NUL-terminated: bytes read, or -1 with errno. */
static ssize_t slurp(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    ssize_t got = 0;
    while (n < size - 1 && (got = read(fd, out + n, size - 1 - n)) > 0)
        n += (size_t)got;
    int error = errno;
    close(fd);
    errno = error;
    out[n] = '\0';
    return n > 0 || got == 0 ? (ssize_t)n : -1;
}

/* Another thread of the process; `pid` itself: none. */
static pid_t other_thread(pid_t pid)
{
    char path[64];
    pid_t found = pid;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return pid;
    for (struct dirent *e; found == pid && (e = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]))
            found = (pid_t)strtol(e->d_name, NULL, 10);
    closedir(folder);
    return found;
}

/* Reads /proc/PID/stat: "pid (any name) S ppid group session ... ", where field
 * 20 is the number of threads, 22 the start and 23 the bytes of memory. A
 * process whose first thread has ended looks like a zombie there. */
static enum procs_found look_at(pid_t pid, struct proc *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    ssize_t n = slurp(path, text, sizeof text);
    if (n <= 0)
        return n < 0 ? missing(errno) : PROCS_GONE;
    char *at = strrchr(text, ')'); /* a name may have ')' in it */
    if (at == NULL || at[1] != ' ' || at[2] == '\0')
        return PROCS_GONE;
    char state = at[2];
    at += 3;
    long parent = strtol(at, &at, 10);
    strtol(at, &at, 10);
    long session = strtol(at, &at, 10);
    for (int field = 7; field < 20; field++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    long nthreads = strtol(at, &at, 10);
    strtol(at, &at, 10);
    *out = (struct proc){.pid = pid,
                         .parent = (pid_t)parent,
                         .session = (pid_t)session,
                         .thread = pid,
                         .start = strtoull(at, &at, 10)};
    out->is_ending = strtoull(at, NULL, 10) == 0;
    if (state == 'Z' && nthreads > 1)
        out->thread = other_thread(pid);
    bool is_over = (state == 'Z' && out->thread == pid) || state == 'X';
    return !is_over && out->start > 0 ? PROCS_THERE : PROCS_GONE;
}

static int by_pid(const void *a, const void *b)
{
    const struct proc *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void take(struct snapshot *out)
{
    DIR *folder = opendir("/proc");
    *out = (struct snapshot){0};
    if (folder == NULL)
        return;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        struct proc proc;
        if (isdigit((unsigned char)e->d_name[0]) &&
            look_at((pid_t)strtol(e->d_name, NULL, 10), &proc) == PROCS_THERE)
            vec_add(&out->procs, proc);
    }
    closedir(folder);
    if (out->procs.n > 1)
        qsort(out->procs.at, out->procs.n, sizeof *out->procs.at, by_pid);
}

static const struct proc *find(const struct snapshot *snapshot, pid_t pid)
{
    size_t low = 0, high = snapshot->procs.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (snapshot->procs.at[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < snapshot->procs.n && snapshot->procs.at[low].pid == pid
               ? &snapshot->procs.at[low]
               : NULL;
}

/* Marks the descendants of `root`, one generation at a time. */
static void mark_below(struct snapshot *snapshot, pid_t root)
{
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (size_t i = 0; i < snapshot->procs.n; i++) {
            struct proc *proc = &snapshot->procs.at[i];
            if (proc->is_below)
                continue;
            const struct proc *parent = find(snapshot, proc->parent);
            proc->is_below =
                proc->parent == root || (parent != NULL && parent->is_below);
            is_more = is_more || proc->is_below;
        }
    }
}

enum procs_found procs_look(pid_t pid, uint64_t *start)
{
    struct proc proc = {0};
    enum procs_found found = look_at(pid, &proc);
    *start = found == PROCS_THERE ? proc.start : 0;
    return found;
}

uint64_t procs_start(pid_t pid)
{
    uint64_t start = 0;
    procs_look(pid, &start);
    return start;
}

int procs_open(pid_t pid)
{
    static bool is_unknown; /* this kernel has no pidfd_open() */
    if (is_unknown)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    is_unknown = fd < 0 && errno == ENOSYS;
    return fd;
}

bool procs_signal(pid_t pid, uint64_t start, int number)
{
    int fd = procs_open(pid);
    bool is_there = procs_start(pid) == start;
    if (is_there && fd >= 0)
        is_there = syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0;
    else if (is_there)
        is_there = kill(pid, number) == 0;
    if (fd >= 0)
        close(fd);
    return is_there;
}

size_t procs_signal_below(pid_t root, int number, int then)
{
    struct snapshot snapshot;
    size_t n = 0;
    take(&snapshot);
    mark_below(&snapshot, root);
    for (size_t i = 0; i < snapshot.procs.n; i++) {
        const struct proc *proc = &snapshot.procs.at[i];
        if (!proc->is_below)
            continue;
        n += procs_signal(proc->pid, proc->start, number);
        if (then != 0)
            procs_signal(proc->pid, proc->start, then);
    }
    vec_release(&snapshot.procs);
    return n;
}

/* A bit of a mask of /proc/PID/status, such as "\nSigCgt:". */
static bool has_signal(pid_t pid, const char *mask, int number)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (slurp(path, text, sizeof text) <= 0)
        return false;
    const char *at = strstr(text, mask);
    return at != NULL && (strtoull(at + 8, NULL, 16) >> (number - 1) & 1) != 0;
}

bool procs_blocks(pid_t pid, int number)
{
    return has_signal(pid, "\nSigBlk:", number);
}

struct children {
    VEC(pid_t) at;
};

/* Adds the children of one thread: numbers with blanks between them. */
static void add_children(struct children *out, pid_t pid, const char *thread)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/task/%.200s/children", (long)pid,
             thread);
    if (slurp(path, text, sizeof text) <= 0)
        return;
    char *at = text, *end = NULL;
    for (long child; (child = strtol(at, &end, 10)) > 0 && end != at; at = end)
        vec_add(&out->at, (pid_t)child);
}

/* The children of all threads of a process; none: it is gone. */
static void children_of(pid_t pid, struct children *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]))
            add_children(out, pid, e->d_name);
    if (folder != NULL)
        closedir(folder);
}

/* The same from a snapshot. */
static void children_in(const struct snapshot *snapshot, pid_t pid,
                        struct children *out)
{
    for (size_t i = 0; i < snapshot->procs.n; i++)
        if (snapshot->procs.at[i].parent == pid)
            vec_add(&out->at, snapshot->procs.at[i].pid);
}

/* `snapshot` is NULL where the kernel lists children. */
static bool ask_below(const struct snapshot *snapshot, pid_t pid, int number,
                      int depth)
{
    struct proc root;
    if (look_at(pid, &root) != PROCS_THERE)
        return false;
    if (has_signal(pid, "\nSigCgt:", number))
        return procs_signal(pid, root.start, number);
    struct children children = {0};
    if (depth < 64 && snapshot != NULL)
        children_in(snapshot, pid, &children);
    else if (depth < 64)
        children_of(pid, &children);
    bool is_asked = false;
    for (size_t i = 0; i < children.at.n; i++)
        if (ask_below(snapshot, children.at.at[i], number, depth + 1))
            is_asked = true;
    vec_release(&children.at);
    return is_asked;
}

bool procs_ask(pid_t pid, int number)
{
    if (access("/proc/thread-self/children", R_OK) == 0)
        return ask_below(NULL, pid, number, 0);
    struct snapshot snapshot;
    take(&snapshot);
    bool is_asked = ask_below(&snapshot, pid, number, 0);
    vec_release(&snapshot.procs);
    return is_asked;
}

static enum procs_found holds(pid_t pid, dev_t device, ino_t inode)
{
    char path[64];
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return missing(errno);
    for (struct dirent *e; !is_found && (e = readdir(folder)) != NULL;) {
        struct stat st;
        is_found = isdigit((unsigned char)e->d_name[0]) &&
                   fstatat(dirfd(folder), e->d_name, &st, 0) == 0 &&
                   st.st_dev == device && st.st_ino == inode;
    }
    closedir(folder);
    return is_found ? PROCS_THERE : PROCS_GONE;
}

/* Reads the variables of a process, each with a NUL behind it. */
static enum procs_found environment(pid_t pid, struct firn_buf *out)
{
    char path[64], piece[4096];
    ssize_t got = -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return missing(errno);
    while ((got = read(fd, piece, sizeof piece)) > 0)
        buf_add(out, piece, (size_t)got);
    int error = errno;
    close(fd);
    errno = error;
    return got < 0 ? missing(error) : PROCS_THERE;
}

/* The first variable that begins with `start`, or NULL. */
static const char *variable(const struct firn_buf *text, const char *start)
{
    for (size_t at = 0; at < text->n; at += strlen(text->at + at) + 1)
        if (strncmp(text->at + at, start, strlen(start)) == 0)
            return text->at + at;
    return NULL;
}

/* The environment of an exiting process is empty, and its file belongs to root,
 * whichever user the process had. */
int procs_has_variable(pid_t pid, const char *start)
{
    struct proc proc;
    struct firn_buf text = {0};
    enum procs_found found = environment(pid, &text);
    bool is_hidden = found == PROCS_GONE &&
                     (errno == EACCES || errno == EPERM) &&
                     look_at(pid, &proc) == PROCS_THERE && !proc.is_ending;
    int has = text.n > 0 || is_hidden ? 0 : -1;
    if (variable(&text, start) != NULL)
        has = 1;
    buf_release(&text);
    return has;
}

static enum procs_found has_one(pid_t pid, const struct procs_marks *marks)
{
    struct firn_buf text = {0};
    enum procs_found found = environment(pid, &text);
    bool is_any = false;
    for (int i = 0; i < PROCS_VARIABLES && !is_any; i++)
        is_any = marks->variables[i] != NULL &&
                 variable(&text, marks->variables[i]) != NULL;
    int error = errno;
    buf_release(&text);
    errno = error;
    if (found != PROCS_THERE)
        return found;
    return is_any ? PROCS_THERE : PROCS_GONE;
}

static enum procs_found is_marked(const struct proc *proc,
                                  const struct procs_marks *marks)
{
    enum procs_found by_file = PROCS_GONE, by_variable = PROCS_GONE;
    if (marks->session > 0 && proc->session == marks->session &&
        proc->is_ending)
        return PROCS_THERE;
    if (marks->inode != 0)
        by_file = holds(proc->thread, marks->device, marks->inode);
    if (by_file != PROCS_THERE)
        by_variable = has_one(proc->thread, marks);
    if (by_file == PROCS_THERE || by_variable == PROCS_THERE)
        return PROCS_THERE;
    return by_file == PROCS_UNKNOWN ? by_file : by_variable;
}

static void see(struct procs_seen *seen, const struct proc *proc)
{
    for (size_t i = 0; i < seen->ids.n; i++)
        if (seen->ids.at[i].pid == proc->pid &&
            seen->ids.at[i].start == proc->start)
            return;
    vec_add(&seen->ids, ((struct procs_id){proc->pid, proc->start}));
}

/* Kills the process if it has a mark. It is killed at once, not after the
 * search: a process that forks and exits would escape. */
static enum procs_found kill_one(pid_t pid, const struct procs_marks *marks,
                                 struct procs_seen *seen)
{
    struct proc proc;
    enum procs_found found = pid == getpid() ? PROCS_GONE : look_at(pid, &proc);
    if (found == PROCS_THERE)
        found =
            proc.start < marks->since ? PROCS_GONE : is_marked(&proc, marks);
    if (found != PROCS_THERE)
        return found;
    procs_signal(proc.pid, proc.start, SIGKILL);
    if (seen != NULL)
        see(seen, &proc);
    return found;
}

size_t procs_kill_marked(const struct procs_marks *marks,
                         struct procs_seen *seen)
{
    DIR *folder = opendir("/proc");
    int error = folder == NULL ? errno : 0;
    size_t n = 0;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        enum procs_found found =
            kill_one((pid_t)strtol(e->d_name, NULL, 10), marks, seen);
        n += found == PROCS_THERE;
        if (found == PROCS_UNKNOWN)
            error = errno;
    }
    if (folder != NULL)
        closedir(folder);
    size_t left = seen != NULL ? procs_left(seen) : 0;
    if (seen != NULL)
        seen->error = error;
    return (left > n ? left : n) + (error != 0);
}

size_t procs_left(struct procs_seen *seen)
{
    size_t n = 0;
    for (size_t i = 0; i < seen->ids.n; i++) {
        uint64_t start = 0;
        enum procs_found found = procs_look(seen->ids.at[i].pid, &start);
        if (found == PROCS_UNKNOWN || start == seen->ids.at[i].start)
            seen->ids.at[n++] = seen->ids.at[i];
    }
    seen->ids.n = n;
    return n;
}

bool procs_each_variable(const char *const *starts, size_t nstarts,
                         procs_variable_fn *fn, void *arg)
{
    DIR *folder = opendir("/proc");
    struct firn_buf text = {0};
    int error = folder == NULL ? errno : 0;
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        struct proc proc;
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        enum procs_found found =
            look_at((pid_t)strtol(e->d_name, NULL, 10), &proc);
        buf_clear(&text);
        if (found == PROCS_THERE)
            found = environment(proc.thread, &text);
        if (found == PROCS_UNKNOWN)
            error = errno;
        for (size_t i = 0; found == PROCS_THERE && i < nstarts; i++) {
            const char *at = variable(&text, starts[i]);
            if (at != NULL)
                fn(arg, (struct procs_id){proc.pid, proc.start}, i,
                   at + strlen(starts[i]));
        }
    }
    if (folder != NULL)
        closedir(folder);
    buf_release(&text);
    errno = error;
    return error == 0;
}

bool procs_is_named(pid_t pid, const char *name)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
    if (slurp(path, text, sizeof text) <= 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, name) == 0;
}

/* --- memory --------------------------------------------------------------- */

double procs_resident_mib(pid_t pid)
{
    char path[48];
    char line[128] = "";
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    char *size = fgets(line, sizeof line, file); /* "SIZE RESIDENT ..." */
    fclose(file);
    char *resident = size == NULL ? NULL : strchr(size, ' ');
    if (resident == NULL)
        return 0;
    return (double)strtol(resident, NULL, 10) * (double)sysconf(_SC_PAGESIZE) /
           1048576;
}

double procs_free_mib(void)
{
    char line[128];
    double kib = -1;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtod(line + 13, NULL);
    if (file != NULL)
        fclose(file);
    return kib / 1024;
}
