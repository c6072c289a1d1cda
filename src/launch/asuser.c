/* asuser.c - gives an attempt's files to its user, runs sbatch or scancel.
 *
 * See the header. The command's output and error text go back to firnd, each
 * cut at 4 KiB. A command that takes longer than the limit is killed with its
 * process group, and the answer says that it timed out: whether Slurm took the
 * job is then found out by its name in the queue.
 *
 * Root gives the files away and nothing more: what starts the command, waits
 * for it and answers firnd is the user's already. The user can end that
 * process, as the user could end sbatch, and cannot look into it; firnd waits a
 * minute.
 *
 * Cost: two forks; the time of the command.
 */
#define _GNU_SOURCE
#include "launch/asuser.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/vec.h"
#include "engine/launchslurm.h"
#include "launch/jobfolder.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX = 4096, LIMIT_S = 50 };
enum { AS_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* --- files -----------------------------------------------------------------
 */

struct gift {
    const struct launch_slurm *slurm;
    const struct identity *user;
};

/* (1) False: errno. A file that is not there is fine. */
static bool give_fd(const struct gift *gift, int fd, mode_t mode, gid_t gid)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    bool is_good =
        (st.st_uid == gift->slurm->own->uid || st.st_uid == gift->user->uid) &&
        (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1));
    if (!is_good) {
        errno = EPERM;
        return false;
    }
    return fchown(fd, gift->user->uid, gid) == 0 && fchmod(fd, mode) == 0;
}

static bool give_file(const struct gift *gift, int above, const char *name)
{
    int fd = openat(above, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    bool is_given = give_fd(gift, fd, 0660, gift->slurm->own->gid);
    int error = errno;
    close(fd);
    errno = error;
    return is_given;
}

/* A folder that is the user's alone. */
static bool give_folder(const struct gift *gift, int above, const char *name)
{
    int fd = openat(above, name, AS_FOLDER);
    if (fd < 0)
        return errno == ENOENT;
    bool is_given = give_fd(gift, fd, 0711, gift->user->gid);
    int error = errno;
    close(fd);
    errno = error;
    return is_given;
}

static bool give_work(const struct gift *gift, int job)
{
    int fd = jobfolder_open(gift->slurm->state, "jobs", job);
    if (fd < 0)
        return errno == ENOENT;
    bool is_given =
        give_folder(gift, fd, "work") && give_folder(gift, fd, "ckpt") &&
        give_file(gift, fd, "log") && give_file(gift, fd, "log.1") &&
        give_fd(gift, fd, 02770, gift->slurm->own->gid);
    int error = errno;
    close(fd);
    errno = error;
    return is_given;
}

static bool give_control(const struct gift *gift, const struct launchmsg *msg)
{
    char name[40];
    snprintf(name, sizeof name, "epoch-%lld", (long long)msg->attempt);
    int fd = jobfolder_open(gift->slurm->state, "control", msg->job);
    int attempt = fd >= 0 ? openat(fd, name, AS_FOLDER) : -1;
    bool is_given = attempt >= 0 && give_file(gift, fd, "lock") &&
                    give_file(gift, fd, "workers") &&
                    give_file(gift, attempt, "launch") &&
                    give_file(gift, attempt, "ask") &&
                    give_fd(gift, attempt, 02770, gift->slurm->own->gid);
    int error = errno;
    if (attempt >= 0)
        close(attempt);
    if (fd >= 0)
        close(fd);
    errno = error;
    return is_given;
}

/* --- the command -----------------------------------------------------------
 */

static void add_quoted(struct firn_buf *out, const char *text)
{
    buf_putc(out, '\'');
    for (; *text != '\0'; text++)
        if (*text == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, *text);
    buf_putc(out, '\'');
}

/* The batch script: the attempt's supervisor, or what keeps a further
 * allocation for it. */
static void write_script(const struct launch_slurm *slurm,
                         const struct launchmsg *msg, struct firn_buf *out)
{
    struct firn_buf folder = {0};
    const struct launchslurm_job job = {msg->job, msg->attempt};
    bool is_pilot = launchslurm_is_pilot(msg->words, &job);
    buf_printf(&folder, "%s/control/%d/epoch-%lld", slurm->state, msg->job,
               (long long)msg->attempt);
    buf_puts(out, "#!/bin/sh\nexec ");
    add_quoted(out, slurm->shepherd);
    buf_puts(out, is_pilot ? " --pilot " : " --shepherd-slurm ");
    add_quoted(out, folder.at);
    buf_putc(out, '\n');
    buf_release(&folder);
}

/* In the child; never returns. (2) */
static void execute(const struct launch_slurm *slurm,
                    const struct launchmsg *msg, const struct passwd *entry,
                    const int ends[3])
{
    char program[512], home[512], name[128], logname[128], shell[512];
    char conf[512];
    VEC(char *) argv = {0};
    const char *own_conf = getenv("SLURM_CONF"); /* root's word */
    sigset_t none;
    snprintf(program, sizeof program, "%s/%s", slurm->folder,
             msg->kind == LAUNCHMSG_SBATCH ? "sbatch" : "scancel");
    snprintf(home, sizeof home, "HOME=%s", entry->pw_dir);
    snprintf(name, sizeof name, "USER=%s", entry->pw_name);
    snprintf(logname, sizeof logname, "LOGNAME=%s", entry->pw_name);
    snprintf(shell, sizeof shell, "SHELL=%s", entry->pw_shell);
    snprintf(conf, sizeof conf, "SLURM_CONF=%s",
             own_conf != NULL ? own_conf : "");
    char *env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", home, name, logname, shell,
        own_conf != NULL ? conf : NULL,      NULL};
    struct arena text = {0};
    char *words = arena_printf(&text, "%.*s", (int)msg->words.n, msg->words.at);
    vec_add(&argv, program);
    for (char *at = words; *at != '\0';) {
        char *end = strchr(at, '\n');
        vec_add(&argv, at);
        *end = '\0';
        at = end + 1;
    }
    vec_add(&argv, NULL);
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    setpgid(0, 0);
    if (dup2(ends[0], 0) < 0 || dup2(ends[1], 1) < 0 || dup2(ends[2], 2) < 0 ||
        chdir("/") != 0)
        _exit(126);
    execve(program, argv.at, env);
    dprintf(2, "cannot run '%s': %s\n", program, strerror(errno));
    _exit(127);
}

struct running {
    pid_t pid;
    int out, err;
};

/* A file with the script, which is gone with its last descriptor. */
static int script_fd(const struct firn_buf *script)
{
    int fd = memfd_create("firn-script", MFD_CLOEXEC);
    if (fd >= 0 && script->n > 0 &&
        (write(fd, script->at, script->n) != (ssize_t)script->n ||
         lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool start(const struct launch_slurm *slurm, const struct launchmsg *msg,
                  const struct passwd *entry, struct running *out)
{
    struct firn_buf script = {0};
    int to_out[2], to_err[2];
    if (msg->kind == LAUNCHMSG_SBATCH)
        write_script(slurm, msg, &script);
    int input = script_fd(&script);
    buf_release(&script);
    if (input < 0 || pipe2(to_out, O_CLOEXEC) != 0 ||
        pipe2(to_err, O_CLOEXEC) != 0)
        return false; /* this process ends: nothing is to be closed */
    out->pid = fork();
    if (out->pid == 0)
        execute(slurm, msg, entry, (const int[3]){input, to_out[1], to_err[1]});
    close(input);
    close(to_out[1]);
    close(to_err[1]);
    out->out = to_out[0];
    out->err = to_err[0];
    return out->pid > 0;
}

/* Reads some; false: the end. */
static bool take(int fd, struct firn_buf *out)
{
    char part[1024];
    ssize_t n = read(fd, part, sizeof part);
    if (n > 0 && out->n < TEXT_MAX)
        buf_add(out, part, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Until both ends are closed; false: it took too long. */
static bool collect(const struct running *run, struct firn_buf *out,
                    struct firn_buf *err)
{
    struct pollfd fds[2] = {{run->out, POLLIN, 0}, {run->err, POLLIN, 0}};
    double until_s = clock_elapsed_s() + LIMIT_S;
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        double left_s = until_s - clock_elapsed_s();
        if (left_s <= 0)
            return false;
        if (poll(fds, 2, (int)(1000 * left_s) + 1) < 0 && errno != EINTR)
            return false;
        if (fds[0].revents != 0 && !take(run->out, out))
            fds[0].fd = -1;
        if (fds[1].revents != 0 && !take(run->err, err))
            fds[1].fd = -1;
    }
    return true;
}

static void run(const struct launch_slurm *slurm, const struct launchmsg *msg,
                const struct passwd *entry, struct firn_buf *answer)
{
    struct running running = {0};
    struct firn_buf out = {0}, err = {0};
    int status = 0;
    if (!start(slurm, msg, entry, &running)) {
        buf_printf(answer, "no cannot start a process: %s\n", strerror(errno));
        return;
    }
    if (!collect(&running, &out, &err)) {
        kill(-running.pid, SIGKILL);
        waitpid(running.pid, &status, 0);
        buf_puts(answer, "no Slurm's command timed out\n");
    } else {
        waitpid(running.pid, &status, 0);
        int code =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        buf_printf(answer, "ok %d %zu\n", code, out.n);
        if (out.n > 0)
            buf_add(answer, out.at, out.n);
        if (err.n > 0)
            buf_add(answer, err.at, err.n);
    }
    buf_release(&out);
    buf_release(&err);
}

void asuser_serve(const struct launch_slurm *slurm, const struct launchmsg *msg,
                  const struct passwd *entry, const struct identity *user,
                  int fd)
{
    struct firn_buf answer = {0};
    const struct gift gift = {slurm, user};
    signal(SIGCHLD, SIG_DFL);
    if (msg->kind == LAUNCHMSG_SBATCH &&
        (!give_work(&gift, msg->job) || !give_control(&gift, msg)))
        buf_printf(&answer,
                   "no cannot give the job's files to user %s: %s; the state "
                   "directory must let root give files away\n",
                   msg->user, strerror(errno));
    else if (!identity_become(user) || /* (3) */
             prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        buf_printf(&answer, "no cannot become user %s: %s\n", msg->user,
                   strerror(errno));
    else
        run(slurm, msg, entry, &answer);
    if (strncmp(answer.at, "no ", 3) == 0)
        fprintf(stderr, "firn-launch: refused: %s", answer.at + 3);
    send(fd, answer.at, answer.n, MSG_NOSIGNAL);
    buf_release(&answer);
}
