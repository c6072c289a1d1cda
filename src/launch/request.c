/* request.c - the six requests: may a user run jobs, start, other GPUs, end,
 * and Slurm's sbatch and scancel as the user (launch/asuser.h).
 *
 * This file decides what a firnd that was taken over could have root do; the
 * numbers are those of main.c.
 *
 * (2) No path, command or environment comes from the request: the folder is
 *     made of --state and two numbers, the program is --shepherd, the
 *     environment is written here. Slurm's commands have arguments from the
 *     request, of a closed list (engine/launchslurm.h).
 * (3) Jobs are started for members of --group only, never for root or users
 *     below --uid-min, nor for firnd's own user.
 * (4) The supervisor takes firnd's identity at once, and the workers the user's
 *     (engine/identity.h). Only work and ckpt in STATE/jobs/N are given to the
 *     user; they and all on the way below STATE must be folders and no links,
 *     and they must be firnd's or the user's already.
 * (5) Only processes with firn's mark of this state folder and job, or in
 *     control groups with that mark, are killed.
 * (6) With a limit (--memory-max, ...) no attempt is started without it.
 *
 * Why this is not shorter: root answers here in 170 lines of code, of which 30
 * check the user, 30 give folders away, 50 start a supervisor, and 60 read,
 * kill and refuse. With less, a request would have less checked. What needs no
 * root is done after the identity was changed: all of Slurm's commands
 * (launch/asuser.h), and all that a supervisor does.
 */
#define _GNU_SOURCE
#include "launch/request.h"
#include "base/buf.h"
#include "engine/launchmsg.h"
#include "engine/procs.h"
#include "launch/asuser.h"
#include "launch/cell.h"
#include "launch/jobfolder.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct request_rules *rules; /* of the request that is answered */

/* --- users --------------------------------------------------------------- */

bool request_find_user(const char *name, struct passwd *entry, char *room,
                       size_t size, struct identity *out)
{
    struct passwd *found = NULL;
    gid_t groups[IDENTITY_GROUPS];
    int n = IDENTITY_GROUPS;
    if (getpwnam_r(name, entry, room, size, &found) != 0 || found == NULL ||
        getgrouplist(name, entry->pw_gid, groups, &n) < 0)
        return false;
    *out = (struct identity){.uid = entry->pw_uid, .gid = entry->pw_gid};
    for (int i = 0; i < n; i++)
        if (groups[i] != 0)
            out->groups[out->ngroups++] = groups[i];
    return true;
}

/* (3) NULL, or why not. */
static const char *may_not(const struct identity *user)
{
    if (user->uid == 0 || user->gid == 0 || user->uid < rules->uid_min)
        return "jobs of system users are not started";
    if (user->uid == rules->own.uid)
        return "jobs of firnd's own user are not started";
    for (size_t i = 0; i < user->ngroups; i++)
        if (user->groups[i] == rules->members)
            return NULL;
    return "the user is not a member of the launcher's group";
}

/* --- the requests -------------------------------------------------------- */

/* A folder of firnd's becomes the user's; firnd may still read it, to count
 * what is in it for quotas. One that is the user's stays as it is; another
 * user's is not given away. */
static bool give_folder(int fd, const struct identity *user)
{
    struct stat is;
    if (fstat(fd, &is) != 0)
        return false;
    if (is.st_uid == user->uid)
        return true;
    return is.st_uid == rules->own.uid && fchmod(fd, 0750) == 0 &&
           fchown(fd, user->uid, rules->own.gid) == 0;
}

/* (4) Folders that are not there yet are made by firnd later or never. */
static bool give_folders(int job, const struct identity *user)
{
    static const char *const names[] = {"work", "ckpt"};
    int above = jobfolder_open(rules->state, "jobs", job);
    bool is_given = above >= 0 || errno == ENOENT;
    for (size_t i = 0; above >= 0 && i < sizeof names / sizeof *names; i++) {
        int fd = openat(above, names[i],
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        is_given =
            is_given && (fd >= 0 ? give_folder(fd, user) : errno == ENOENT);
        if (fd >= 0)
            close(fd);
    }
    if (above >= 0)
        close(above);
    return is_given;
}

/* In the child; never returns. (2) */
static void run_shepherd(const struct launchmsg *msg,
                         const struct passwd *entry,
                         const struct identity *user, int report)
{
    char own[IDENTITY_TEXT], other[IDENTITY_TEXT], folder[4200];
    char home[512], name[128], logname[128], shell[512];
    identity_write(&rules->own, own);
    identity_write(user, other);
    snprintf(folder, sizeof folder, "%s/control/%d/epoch-%lld", rules->state,
             msg->job, (long long)msg->attempt);
    snprintf(home, sizeof home, "HOME=%s", entry->pw_dir);
    snprintf(name, sizeof name, "USER=%s", entry->pw_name);
    snprintf(logname, sizeof logname, "LOGNAME=%s", entry->pw_name);
    snprintf(shell, sizeof shell, "SHELL=%s", entry->pw_shell);
    char *argv[] = {
        (char *)rules->shepherd, "--shepherd-for", own, other, folder, NULL};
    char *env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", home, name, logname, shell, NULL};
    sigset_t none;
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (setsid() >= 0)
        execve(rules->shepherd, argv, env);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

static struct cell_gpus gpus_of(const struct launchmsg *msg)
{
    return (struct cell_gpus){.devices = msg->devices, .places = msg->gpus};
}

static void start(const struct launchmsg *msg, const struct passwd *entry,
                  const struct identity *user, struct firn_buf *out)
{
    int ends[2], error = 0;
    if (!give_folders(msg->job, user)) {
        buf_puts(out, "no cannot give its folders to the user: one of them is "
                      "a link, another user's, or not a folder");
        return;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        buf_printf(out, "no %s", strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (!cell_enter(msg->mark, msg->job, msg->attempt, gpus_of(msg),
                        rules->own.uid, rules->own.gid)) {
            error = ENOTSUP; /* (6) */
            _exit(write(ends[1], &error, sizeof error) < 0 ? 126 : 127);
        }
        run_shepherd(msg, entry, user, ends[1]);
    }
    if (pid < 0)
        error = errno;
    close(ends[1]);
    ssize_t n = pid > 0 ? read(ends[0], &error, sizeof error) : 0;
    close(ends[0]);
    if (n > 0 && error == ENOTSUP)
        buf_puts(out, "no the limits of its control group cannot be set");
    else if (pid < 0 || n > 0)
        buf_printf(out, "no cannot run '%s': %s", rules->shepherd,
                   strerror(error));
    else
        buf_printf(out, "ok %ld", (long)pid);
}

static void kill_one(void *arg, struct procs_id id, size_t which,
                     const char *rest)
{
    (void)which, (void)rest;
    procs_signal(id.pid, id.start, SIGKILL);
    ++*(long *)arg;
}

/* (5) What is left of earlier attempts of the job; how many processes. */
static long end_job(const struct launchmsg *msg)
{
    char mark[96];
    long n = 0;
    snprintf(mark, sizeof mark, "FIRN_HERD=%s-%d-", msg->mark, msg->job);
    const char *const starts[] = {mark};
    n += cell_end(msg->mark, msg->job);
    procs_each_variable(starts, 1, kill_one, &n);
    return n;
}

/* Slurm's commands, in a process of its own, which answers. Files are shared
 * with firnd by its group, so users must not be members of that. */
static void start_slurm(const struct launchmsg *msg, const struct passwd *entry,
                        const struct identity *user, int fd,
                        struct firn_buf *out)
{
    const struct launch_slurm slurm = {rules->state, rules->shepherd,
                                       rules->slurm, &rules->own};
    for (size_t i = 0; i < user->ngroups; i++)
        if (user->groups[i] == rules->own.gid) {
            buf_printf(out,
                       "no user %s: a member of firnd's own group %lu can read "
                       "the files of other users' jobs",
                       msg->user, (unsigned long)rules->own.gid);
            return;
        }
    pid_t pid = fork();
    if (pid == 0) {
        asuser_serve(&slurm, msg, entry, user, fd);
        _exit(0);
    }
    if (pid < 0)
        buf_printf(out, "no cannot start a process: %s", strerror(errno));
}

void request_answer(const struct request_rules *own_rules,
                    struct firn_bytes text, int fd, struct firn_buf *out)
{
    struct launchmsg msg;
    struct firn_error err = {0};
    struct passwd entry;
    struct identity user;
    char room[8192];
    const char *why = NULL;
    rules = own_rules;
    if (launchmsg_read(&msg, text, &err) != FIRN_OK) {
        buf_printf(out, "no %s", err.text);
        return;
    }
    if (msg.kind == LAUNCHMSG_END) {
        buf_printf(out, "ok %ld", end_job(&msg));
        return;
    }
    if (msg.kind == LAUNCHMSG_GPUS) {
        buf_puts(out, cell_change(msg.mark, msg.job, msg.attempt, gpus_of(&msg))
                          ? "ok 0"
                          : "no the limits of its control group cannot be "
                            "changed");
        return;
    }
    if (!request_find_user(msg.user, &entry, room, sizeof room, &user))
        why = "this host has no such user";
    else
        why = may_not(&user);
    if (why != NULL)
        buf_printf(out, "no user %s: %s", msg.user, why);
    else if (msg.kind == LAUNCHMSG_CHECK)
        buf_puts(out, "ok 0");
    else if (msg.kind != LAUNCHMSG_START)
        start_slurm(&msg, &entry, &user, fd, out);
    else if (end_job(&msg) > 0)
        buf_puts(out, "no processes of the job were still running; they are "
                      "killed");
    else
        start(&msg, &entry, &user, out);
}
