/* attemptfiles.c - lock, fence, pid and exit: one line of plain text each.
 *
 * "firn-exit 1 3 2 137": the kind of file, the version of the format, numbers.
 * The exit line is padded with blanks to a fixed length; a file of that length
 * is written and synced before the job starts, and the end overwrites it.
 *
 * Invariants:
 * (1) files appear by rename() only, except those that are overwritten because
 *     other hosts read them;
 * (2) pid and exit: the contents are synced before the rename, the folder after
 *     it.
 */
#define _GNU_SOURCE
#include "engine/attemptfiles.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <firn/launch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 128, FILE_MAX = 1 << 24 };

static const char exit_reserved[] = "exit.reserved";

static const int as_folder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
static const int as_file = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

enum attempt_found attempt_missing(int error)
{
    if (error == ENOENT || error == ENOTDIR)
        return ATTEMPT_ABSENT;
    return error == ELOOP ? ATTEMPT_DAMAGED : ATTEMPT_UNKNOWN;
}

static void close_quietly(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
}

int attempt_above(const char *job_folder)
{
    return open(job_folder, as_folder);
}

static int open_below(const char *job_folder, const char *name, bool make)
{
    if (make && mkdir(job_folder, 0700) != 0 && errno != EEXIST)
        return -1;
    int above = attempt_above(job_folder);
    if (above < 0)
        return -1;
    int folder = -1;
    if (!make || mkdirat(above, name, 0700) == 0 || errno == EEXIST)
        folder = openat(above, name, as_folder);
    close_quietly(above);
    return folder;
}

int attempt_folder(const char *job_folder, int64_t attempt, bool make)
{
    char name[32];
    snprintf(name, sizeof name, "epoch-%lld", (long long)attempt);
    return open_below(job_folder, name, make);
}

int attempt_ahead_folder(const char *job_folder)
{
    return open_below(job_folder, "ahead", true);
}

static bool write_all(int fd, struct firn_bytes text)
{
    for (size_t done = 0; done < text.n;) {
        ssize_t n = write(fd, text.at + done, text.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

enum { SYNCED = 1, OVER = 2, OPEN = 4 };

/* The mode of a file: where a user's supervisor and firnd share the folder
 * (launch/asuser.h), its group is firnd's, and both write. The user is not of
 * that group and reads firnd's files as any user could who can enter the
 * folder: these two can. */
static mode_t mode_in(int folder, unsigned mode)
{
    struct stat st;
    if ((mode & OPEN) != 0)
        return 0644;
    if (fstat(folder, &st) != 0 || (st.st_mode & S_ISGID) == 0)
        return 0600;
    return st.st_uid == geteuid() ? 0660 : 0664;
}

/* Writes a file under a draft's name; OVER: over its present contents; OPEN:
 * every user may read it. */
static bool write_draft(int folder, const char *name, unsigned mode,
                        struct firn_bytes text)
{
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK |
                ((mode & OVER) != 0 ? 0 : O_TRUNC);
    mode_t access = mode_in(folder, mode);
    int fd = openat(folder, name, flags, access);
    if (fd < 0)
        return false;
    if (access != 0600 && fchmod(fd, access) != 0 && errno != EPERM) {
        close_quietly(fd); /* EPERM: the other one's file, which is open */
        return false;
    }
    bool is_written =
        write_all(fd, text) && ((mode & SYNCED) == 0 || fsync(fd) == 0);
    int error = errno;
    if (close(fd) != 0 && is_written)
        return false;
    errno = error;
    return is_written;
}

static enum firn_status failed(const char *name, struct firn_error *err)
{
    return firn_fail(err, FIRN_EIO, "cannot write a job's file '%s': %s", name,
                     strerror(errno));
}

static enum firn_status publish(int folder, const char *draft, const char *name,
                                unsigned mode, struct firn_error *err)
{
    failpoint("engine.rename.before");
    if (renameat(folder, draft, folder, name) != 0 ||
        ((mode & SYNCED) != 0 && fsync(folder) != 0))
        return failed(name, err);
    failpoint("engine.rename.after");
    return FIRN_OK;
}

static enum firn_status put(int folder, const char *name,
                            struct firn_bytes text, unsigned mode,
                            struct firn_error *err)
{
    char draft[64];
    snprintf(draft, sizeof draft, "%s.draft", name);
    if (!write_draft(folder, draft, mode, text))
        return failed(name, err);
    return publish(folder, draft, name, mode, err);
}

void attempt_ending_name(int64_t slurm_id, char out[ATTEMPT_ENDING])
{
    snprintf(out, ATTEMPT_ENDING, "ending-%lld", (long long)slurm_id);
}

enum firn_status attempt_put(int folder, const char *name,
                             struct firn_bytes text, struct firn_error *err)
{
    return put(folder, name, text, 0, err);
}

enum attempt_found attempt_get(int folder, const char *name,
                               struct firn_buf *out)
{
    int fd = openat(folder, name, as_file);
    if (fd < 0)
        return attempt_missing(errno);
    char part[4096];
    size_t before = out->n;
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            buf_add(out, part, (size_t)n);
        if (out->n - before > FILE_MAX)
            break;
    }
    close_quietly(fd);
    return n < 0 ? ATTEMPT_UNKNOWN : n > 0 ? ATTEMPT_DAMAGED : ATTEMPT_PRESENT;
}

static int take_lock(int job_folder, const char *name, int mode)
{
    int fd = openat(job_folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0)
        return -2;
    if (flock(fd, mode | LOCK_NB) == 0)
        return fd;
    int result = errno == EWOULDBLOCK ? -1 : -2;
    close_quietly(fd);
    return result;
}

int attempt_lock(int job_folder)
{
    return take_lock(job_folder, "lock", LOCK_EX);
}

int attempt_lock_file(int job_folder)
{
    int fd = openat(job_folder, "lock",
                    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : -2;
}

int attempt_lock_opened(int job_folder, int fd)
{
    struct stat mine, now;
    if (fstat(fd, &mine) != 0 || fstatat(job_folder, "lock", &now, 0) != 0 ||
        mine.st_ino != now.st_ino || mine.st_dev != now.st_dev)
        return -2;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    return errno == EWOULDBLOCK ? -1 : -2;
}

void attempt_herd(int job_folder, int64_t attempt, char out[ATTEMPT_HERD])
{
    struct stat st;
    out[0] = '\0';
    if (fstatat(job_folder, "lock", &st, 0) == 0)
        snprintf(out, ATTEMPT_HERD, "FIRN_HERD=%llx-%llx-%016llx",
                 (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
                 (unsigned long long)attempt);
}

int attempt_workers_lock(int job_folder, bool is_shared)
{
    return take_lock(job_folder, "workers", is_shared ? LOCK_SH : LOCK_EX);
}

/* Reads "firn-NAME 1 a b c", blanks and a line end. */
static bool parse(const char *at, const char *name, int64_t *out, int n)
{
    char head[64];
    snprintf(head, sizeof head, "firn-%s 1", name);
    if (strncmp(at, head, strlen(head)) != 0)
        return false;
    at += strlen(head);
    for (int i = 0; i < n; i++) {
        char *end;
        errno = 0;
        if (at[0] != ' ' || at[1] < '0' || at[1] > '9')
            return false;
        out[i] = strtoll(at + 1, &end, 10);
        if (errno != 0)
            return false;
        at = end;
    }
    at += strspn(at, " ");
    return at[0] == '\n' && at[1] == '\0';
}

static enum attempt_found numbers(int folder, const char *name, int64_t *out,
                                  int n)
{
    struct firn_buf text = {0};
    enum attempt_found found = attempt_get(folder, name, &text);
    int error = errno;
    if (found == ATTEMPT_PRESENT && (text.n == 0 || strlen(text.at) != text.n ||
                                     !parse(text.at, name, out, n)))
        found = ATTEMPT_DAMAGED;
    buf_release(&text);
    errno = error;
    return found;
}

enum attempt_found attempt_fence(int job_folder, int64_t *out)
{
    return numbers(job_folder, "fence", out, 1);
}

enum firn_status attempt_fence_raise(int job_folder, int64_t attempt,
                                     struct firn_error *err)
{
    char line[LINE];
    int64_t before = 0;
    enum attempt_found found = attempt_fence(job_folder, &before);
    if (found == ATTEMPT_UNKNOWN)
        return firn_fail(err, FIRN_EIO, "cannot read a job's file 'fence': %s",
                         strerror(errno));
    if (found == ATTEMPT_PRESENT && before >= attempt)
        return FIRN_OK;
    int n =
        snprintf(line, sizeof line, "firn-fence 1 %lld\n", (long long)attempt);
    return put(job_folder, "fence", (struct firn_bytes){line, (size_t)n}, OPEN,
               err);
}

enum firn_status attempt_pid_put(int folder, const struct attempt_pid *pid,
                                 struct firn_error *err)
{
    char line[LINE];
    int n = snprintf(line, sizeof line, "firn-pid 1 %lld %lld %lld\n",
                     (long long)pid->attempt, (long long)pid->pid,
                     (long long)pid->start);
    return put(folder, "pid", (struct firn_bytes){line, (size_t)n}, SYNCED,
               err);
}

enum attempt_found attempt_pid_get(int folder, struct attempt_pid *out)
{
    int64_t n[3] = {0};
    enum attempt_found found = numbers(folder, "pid", n, 3);
    if (found != ATTEMPT_PRESENT)
        return found;
    if (n[1] <= 0 || n[1] > INT32_MAX)
        return ATTEMPT_DAMAGED;
    *out = (struct attempt_pid){n[0], n[1], (uint64_t)n[2]};
    return ATTEMPT_PRESENT;
}

static struct firn_bytes exit_line(char line[LINE], const char *name,
                                   const struct attempt_exit *result)
{
    char text[LINE];
    snprintf(text, sizeof text, "firn-%.40s 1 %lld %d %d", name,
             (long long)result->attempt, result->end, result->status);
    snprintf(line, LINE, "%-*.100s\n", LINE - 2, text);
    return (struct firn_bytes){line, LINE - 1};
}

enum firn_status attempt_exit_reserve(int folder, struct firn_error *err)
{
    char line[LINE];
    struct firn_bytes text = exit_line(line, "exit", &(struct attempt_exit){0});
    if (!write_draft(folder, exit_reserved, SYNCED, text))
        return failed("exit", err);
    return FIRN_OK;
}

enum firn_status attempt_exit_put(int folder, const struct attempt_exit *result,
                                  struct firn_error *err)
{
    char line[LINE];
    if (!write_draft(folder, exit_reserved, SYNCED | OVER,
                     exit_line(line, "exit", result)))
        return failed("exit", err);
    return publish(folder, exit_reserved, "exit", SYNCED, err);
}

static enum attempt_found exit_of(int folder, const char *name,
                                  struct attempt_exit *out)
{
    int64_t n[3] = {0};
    enum attempt_found found = numbers(folder, name, n, 3);
    if (found != ATTEMPT_PRESENT)
        return found;
    if (n[1] > FIRN_END_LOST || n[2] > 255)
        return ATTEMPT_DAMAGED;
    *out = (struct attempt_exit){n[0], (int)n[1], (int)n[2]};
    return ATTEMPT_PRESENT;
}

enum attempt_found attempt_exit_get(int folder, struct attempt_exit *out)
{
    return exit_of(folder, "exit", out);
}

/* --- beyond one host ------------------------------------------------------ */

enum firn_status attempt_request_put(int folder, const char *name,
                                     enum attempt_request request,
                                     struct firn_error *err)
{
    char digit = (char)('0' + request);
    if (!write_draft(folder, name, OVER, (struct firn_bytes){&digit, 1}))
        return failed(name, err);
    return FIRN_OK;
}

/* Reads the first byte of a file. DAMAGED: the file is empty. */
static enum attempt_found first_byte(int folder, const char *name, char *out)
{
    int fd = openat(folder, name, as_file);
    if (fd < 0)
        return attempt_missing(errno);
    ssize_t n = read(fd, out, 1);
    close_quietly(fd);
    return n < 0 ? ATTEMPT_UNKNOWN : n == 0 ? ATTEMPT_DAMAGED : ATTEMPT_PRESENT;
}

enum attempt_found attempt_request_get(int folder, const char *name,
                                       enum attempt_request *out)
{
    char digit = '0';
    enum attempt_found found = first_byte(folder, name, &digit);
    if (found == ATTEMPT_PRESENT && (digit < '0' || digit > '0' + ATTEMPT_KILL))
        found = ATTEMPT_DAMAGED;
    *out = found == ATTEMPT_PRESENT ? (enum attempt_request)(digit - '0')
                                    : ATTEMPT_GO;
    return found;
}

enum { WORKER_NAME = 40 };

static const char *worker_name(size_t worker, char out[WORKER_NAME])
{
    snprintf(out, WORKER_NAME, "worker-%zu", worker);
    return out;
}

static enum firn_status put_state(int folder, size_t worker, const char *text,
                                  struct firn_error *err)
{
    char name[WORKER_NAME], line[LINE];
    snprintf(line, sizeof line, "%-*s\n", LINE - 2, text);
    struct firn_bytes padded = {line, LINE - 1};
    if (!write_draft(folder, worker_name(worker, name), OVER, padded))
        return failed(name, err);
    return FIRN_OK;
}

enum firn_status attempt_worker_reserve(int folder, size_t worker,
                                        struct firn_error *err)
{
    return put_state(folder, worker, "", err);
}

enum firn_status attempt_worker_begin(int folder, size_t worker,
                                      struct firn_error *err)
{
    return put_state(folder, worker, "begun", err);
}

enum attempt_found attempt_worker_has_begun(int folder, size_t worker)
{
    char name[WORKER_NAME], first = ' ';
    enum attempt_found found =
        first_byte(folder, worker_name(worker, name), &first);
    if (found == ATTEMPT_UNKNOWN)
        return found;
    return first != ' ' ? ATTEMPT_PRESENT : ATTEMPT_ABSENT;
}

enum firn_status attempt_worker_put(int folder, size_t worker,
                                    const struct attempt_exit *result,
                                    struct firn_error *err)
{
    char name[WORKER_NAME], line[LINE];
    worker_name(worker, name);
    if (!write_draft(folder, name, SYNCED | OVER,
                     exit_line(line, name, result)))
        return failed(name, err);
    return FIRN_OK;
}

enum attempt_found attempt_worker_get(int folder, size_t worker,
                                      struct attempt_exit *out)
{
    char name[WORKER_NAME];
    enum attempt_found found = exit_of(folder, worker_name(worker, name), out);
    return found == ATTEMPT_DAMAGED ? ATTEMPT_ABSENT : found; /* or "begun" */
}

/* "attempt, thousandths of the time, MiB". */
enum firn_status attempt_load_put(int folder, size_t worker, int64_t attempt,
                                  const struct firn_load *load,
                                  struct firn_error *err)
{
    char name[WORKER_NAME], line[LINE], text[LINE];
    snprintf(name, sizeof name, "load-%zu", worker);
    snprintf(text, sizeof text, "firn-%.30s 1 %lld %.0f %.0f", name,
             (long long)attempt, 1000 * load->util, 1024 * load->mem_gib);
    snprintf(line, sizeof line, "%-*.100s\n", LINE - 2, text);
    struct firn_bytes padded = {line, LINE - 1};
    if (!write_draft(folder, name, OVER, padded))
        return failed(name, err);
    return FIRN_OK;
}

enum attempt_found attempt_load_get(int folder, size_t worker, int64_t attempt,
                                    struct firn_load *out)
{
    char name[WORKER_NAME];
    int64_t n[3] = {0};
    snprintf(name, sizeof name, "load-%zu", worker);
    enum attempt_found found = numbers(folder, name, n, 3);
    if (found != ATTEMPT_PRESENT)
        return found;
    if (n[0] != attempt)
        return ATTEMPT_ABSENT;
    if (n[1] > 1000)
        return ATTEMPT_DAMAGED;
    *out = (struct firn_load){(double)n[1] / 1000, (double)n[2] / 1024};
    return ATTEMPT_PRESENT;
}
