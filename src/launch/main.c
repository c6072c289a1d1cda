/* main.c - firn-launch: starts the supervisors of jobs as root, for firnd.
 *
 * firnd is not root. To run a job as the user who submitted it, firnd asks this
 * program, over a Unix socket that only firnd's user can open. The program does
 * four things (engine/launchmsg.h) and nothing else: it says whether jobs of a
 * user may be started, starts the supervisor of an attempt, opens and closes
 * GPUs for an attempt that grows or shrinks, and kills what is left of a job.
 *
 * (1) The peer's user is compared with --user for every connection.
 * (2) No path, command or environment comes from the request: the folder is
 *     made of --state and two numbers, the program is --shepherd, the
 *     environment is written here.
 * (3) Jobs are started for members of --group only, never for root or users
 *     below --uid-min, nor for firnd's own user.
 * (4) The supervisor takes firnd's identity at once, and the workers the user's
 *     (engine/identity.h). Only work and ckpt in STATE/jobs/N are given to the
 *     user; they and all on the way below STATE must be folders and no links,
 *     and they must be firnd's or the user's already.
 * (5) Only processes with firn's mark of this state folder and job, or in
 *     control groups with that mark, are killed.
 * (6) With a limit (--memory-max, ...) no attempt is started without it;
 * without control groups this program does not start, unless --without-cgroups.
 *
 * One request at a time; a request takes some milliseconds.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/identity.h"
#include "engine/launchmsg.h"
#include "engine/procs.h"
#include "launch/cell.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    const char *state, *socket, *user, *group, *shepherd, *cgroups;
    unsigned long uid_min;
    struct identity own;       /* of firnd */
    gid_t members;             /* the group of (3) */
    struct cell_limits limits; /* of each attempt */
    int cells;                 /* version of control groups; 0: none */
    bool is_without;           /* --without-cgroups */
} options = {
    .shepherd = "/usr/bin/firnd", .cgroups = "/sys/fs/cgroup", .uid_min = 1000};

/* --- users --------------------------------------------------------------- */

static bool find_user(const char *name, struct passwd *entry, char *room,
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
    if (user->uid == 0 || user->gid == 0 || user->uid < options.uid_min)
        return "jobs of system users are not started";
    if (user->uid == options.own.uid)
        return "jobs of firnd's own user are not started";
    for (size_t i = 0; i < user->ngroups; i++)
        if (user->groups[i] == options.members)
            return NULL;
    return "the user is not a member of the launcher's group";
}

/* --- the four requests -------------------------------------------------- */

/* The folder STATE/jobs/N, by no link: STATE is root's word, what is below it
 * belongs to firnd's user. -1: errno. */
static int open_job(int job)
{
    enum { HOW = O_PATH | O_DIRECTORY | O_CLOEXEC };
    char name[16];
    snprintf(name, sizeof name, "%d", job);
    int state = open(options.state, HOW);
    int jobs = state >= 0 ? openat(state, "jobs", HOW | O_NOFOLLOW) : -1;
    int fd = jobs >= 0 ? openat(jobs, name, HOW | O_NOFOLLOW) : -1;
    int error = errno;
    if (jobs >= 0)
        close(jobs);
    if (state >= 0)
        close(state);
    errno = error;
    return fd;
}

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
    return is.st_uid == options.own.uid && fchmod(fd, 0750) == 0 &&
           fchown(fd, user->uid, options.own.gid) == 0;
}

/* (4) Folders that are not there yet are made by firnd later or never. */
static bool give_folders(int job, const struct identity *user)
{
    static const char *const names[] = {"work", "ckpt"};
    int above = open_job(job);
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
    identity_write(&options.own, own);
    identity_write(user, other);
    snprintf(folder, sizeof folder, "%s/control/%d/epoch-%lld", options.state,
             msg->job, (long long)msg->attempt);
    snprintf(home, sizeof home, "HOME=%s", entry->pw_dir);
    snprintf(name, sizeof name, "USER=%s", entry->pw_name);
    snprintf(logname, sizeof logname, "LOGNAME=%s", entry->pw_name);
    snprintf(shell, sizeof shell, "SHELL=%s", entry->pw_shell);
    char *argv[] = {
        (char *)options.shepherd, "--shepherd-for", own, other, folder, NULL};
    char *env[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", home, name, logname, shell, NULL};
    sigset_t none;
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (setsid() >= 0)
        execve(options.shepherd, argv, env);
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
                        options.own.uid, options.own.gid)) {
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
        buf_printf(out, "no cannot run '%s': %s", options.shepherd,
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

static void answer(struct firn_bytes text, struct firn_buf *out)
{
    struct launchmsg msg;
    struct firn_error err = {0};
    struct passwd entry;
    struct identity user;
    char room[8192];
    const char *why = NULL;
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
    if (!find_user(msg.user, &entry, room, sizeof room, &user))
        why = "this host has no such user";
    else
        why = may_not(&user);
    if (why != NULL)
        buf_printf(out, "no user %s: %s", msg.user, why);
    else if (msg.kind == LAUNCHMSG_CHECK)
        buf_puts(out, "ok 0");
    else if (end_job(&msg) > 0)
        buf_puts(out, "no processes of the job were still running; they are "
                      "killed");
    else
        start(&msg, &entry, &user, out);
}

/* --- the socket ---------------------------------------------------------- */

/* (1) */
static bool is_firnd(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.uid == options.own.uid;
}

static void serve(int fd)
{
    char text[LAUNCHMSG_MOST + 1];
    struct timeval patience = {.tv_sec = 2};
    struct firn_buf out = {0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ssize_t n = is_firnd(fd) ? recv(fd, text, sizeof text, 0) : -1;
    if (n <= 0)
        return;
    answer((struct firn_bytes){text, (size_t)n}, &out);
    buf_putc(&out, '\n');
    send(fd, out.at, out.n, MSG_NOSIGNAL);
    if (strncmp(out.at, "no ", 3) == 0)
        fprintf(stderr, "firn-launch: refused: %s", out.at + 3);
    buf_release(&out);
}

/* The socket has its name when it can be used: who finds it is answered. */
static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int n = snprintf(at.sun_path, sizeof at.sun_path, "%s.new", path);
    mode_t before = umask(0177);
    if (fd < 0 || n < 0 || (size_t)n >= sizeof at.sun_path ||
        (unlink(at.sun_path) != 0 && errno != ENOENT) ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        chown(at.sun_path, options.own.uid, options.own.gid) != 0 ||
        listen(fd, 64) != 0 || rename(at.sun_path, path) != 0)
        return -1;
    umask(before);
    return fd;
}

static int wrong(const char *text, const char *word)
{
    fprintf(stderr, "firn-launch: %s%s\n", text, word);
    return 2;
}

/* 64G, 900M or a number; -1: neither. */
static int64_t read_size(const char *text)
{
    char *end = NULL;
    int shift = 0;
    long long n = strtoll(text, &end, 10);
    if (strcmp(end, "K") == 0 || strcmp(end, "M") == 0 ||
        strcmp(end, "G") == 0 || strcmp(end, "T") == 0)
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 40;
    else if (*end != '\0' || end == text)
        return -1;
    return n > 0 && n < 1 << 20 ? (int64_t)n << shift : shift == 0 ? n : -1;
}

static int open_cells(void)
{
    static const char *const words[] = {
        "without control groups", "in control groups of their own (version 1)",
        "in control groups of their own (version 2)"};
    const char *lacks = NULL;
    bool closes = false;
    options.cells =
        cell_open(options.cgroups, &options.limits, &lacks, &closes);
    if (lacks != NULL)
        return wrong("this host has no control groups that limit ", lacks);
    if (options.cells == 0 && !options.is_without)
        return wrong("root can make no control groups in ",
                     options.cgroups); /* (6) */
    fprintf(stderr, "firn-launch: jobs run %s; GPUs of others are %s\n",
            words[options.cells],
            closes                               ? "closed to them"
            : options.limits.devices == CELL_ALL ? "open to them"
                                                 : "open to them: this host's "
                                                   "control groups cannot "
                                                   "close devices");
    return 0;
}

static const char help[] =
    "usage: firn-launch --state DIR --socket PATH --user NAME --group NAME\n"
    "                   [options]\n"
    "Runs as root and starts jobs as the users who submitted them, for "
    "firnd.\n\n"
    "  --state DIR         firnd's state directory\n"
    "  --socket PATH       socket to listen on; firnd's option --launcher\n"
    "  --user NAME         user that firnd runs as\n"
    "  --group NAME        group whose members may run jobs\n"
    "  --shepherd PROGRAM  path of firnd (default: /usr/bin/firnd)\n"
    "  --uid-min N         lowest user number that may run jobs "
    "(default: 1000)\n"
    "  --memory-max SIZE   memory of each attempt of a job, e.g. "
    "64G (default: no\n"
    "                      limit)\n"
    "  --pids-max N        processes and threads of each attempt "
    "(default: no limit)\n"
    "  --cpus-max N        processors of each attempt, in time "
    "(default: no limit)\n"
    "  --cpuset LIST       processors that attempts run on, e.g. 4-63 "
    "(default: all)\n"
    "  --cpus-per-gpu N    processors of --cpuset for each GPU: GPU 0 has the "
    "first N\n"
    "                      of the list (default: attempts share the list)\n"
    "  --devices WHICH     GPUs that an attempt can open: own, or all "
    "(default: own,\n"
    "                      where the host can close devices)\n"
    "  --cgroup-root DIR   where control groups are mounted "
    "(default: /sys/fs/cgroup)\n"
    "  --without-cgroups   start on a host on which root can make no control "
    "groups";

static int wrong_number(const char *text)
{
    return wrong("not a number of processes or processors: ", text);
}

/* The options of limits. */
static int read_limit(int c, const char *text)
{
    struct cell_limits *limits = &options.limits;
    int64_t n = read_size(text);
    switch (c) {
    case 'M':
        limits->memory_bytes = n;
        return n > 0 ? 0
                     : wrong("--memory-max is not like 64G or 900M: ", text);
    case 'P':
        limits->pids = n;
        return n > 0 && n <= 1 << 22 ? 0 : wrong_number(text);
    case 'C':
        limits->cpus = n;
        return n > 0 && n <= 1 << 22 ? 0 : wrong_number(text);
    case 'G':
        limits->cpus_per_gpu = n;
        return n > 0 && n <= CPUS_MOST ? 0 : wrong_number(text);
    case 'S':
        return cpus_read(text, &limits->cpuset)
                   ? 0
                   : wrong("--cpuset is not like 0-7,16: ", text);
    default:
        limits->devices = strcmp(text, "all") == 0 ? CELL_ALL : CELL_OWN;
        return strcmp(text, "all") == 0 || strcmp(text, "own") == 0
                   ? 0
                   : wrong("--devices is neither own nor all: ", text);
    }
}

static int check_options(int argc, char **argv)
{
    if (optind < argc)
        return wrong("unexpected argument ", argv[optind]);
    if (options.state == NULL || options.socket == NULL ||
        options.user == NULL || options.group == NULL)
        return wrong("give --state, --socket, --user and --group; ",
                     "'firn-launch --help' explains them");
    if (options.state[0] != '/' || strlen(options.state) > 4000 ||
        options.shepherd[0] != '/' || options.cgroups[0] != '/')
        return wrong("--state, --shepherd and --cgroup-root must be paths from "
                     "the root",
                     "");
    return 0;
}

static int read_options(int argc, char **argv)
{
    static const struct option table[] = {
        {"state", 1, NULL, 'd'},        {"socket", 1, NULL, 's'},
        {"user", 1, NULL, 'u'},         {"group", 1, NULL, 'g'},
        {"shepherd", 1, NULL, 'p'},     {"uid-min", 1, NULL, 'm'},
        {"memory-max", 1, NULL, 'M'},   {"pids-max", 1, NULL, 'P'},
        {"cpus-max", 1, NULL, 'C'},     {"cpuset", 1, NULL, 'S'},
        {"cpus-per-gpu", 1, NULL, 'G'}, {"devices", 1, NULL, 'D'},
        {"cgroup-root", 1, NULL, 'R'},  {"without-cgroups", 0, NULL, 'w'},
        {"help", 0, NULL, 'h'},         {0}};
    const char **const texts[] = {
        ['d'] = &options.state,    ['s'] = &options.socket,
        ['u'] = &options.user,     ['g'] = &options.group,
        ['p'] = &options.shepherd, ['R'] = &options.cgroups};
    for (int c, code; (c = getopt_long(argc, argv, "", table, NULL)) >= 0;) {
        if (c == 'h') {
            puts(help);
            exit(0);
        }
        if (c == '?')
            return 2;
        if (c == 'm')
            options.uid_min = strtoul(optarg, NULL, 10);
        else if (c == 'w')
            options.is_without = true;
        else if ((size_t)c < sizeof texts / sizeof *texts && texts[c] != NULL)
            *texts[c] = optarg;
        else if ((code = read_limit(c, optarg)) != 0)
            return code;
    }
    return check_options(argc, argv);
}

int main(int argc, char **argv)
{
    struct passwd entry;
    char room[8192];
    int code = read_options(argc, argv);
    if (code != 0)
        return code;
    const struct group *group = getgrnam(options.group);
    if (group == NULL)
        return wrong("there is no group ", options.group);
    options.members = group->gr_gid;
    if (!find_user(options.user, &entry, room, sizeof room, &options.own) ||
        options.own.uid == 0)
        return wrong("firnd's user must exist and not be root: ", options.user);
    if (geteuid() != 0)
        return wrong("this program must run as root", "");
    signal(SIGCHLD, SIG_IGN); /* children that end leave nothing behind */
    signal(SIGPIPE, SIG_IGN);
    code = open_cells();
    if (code != 0)
        return code;
    int fd = listen_at(options.socket);
    if (fd < 0)
        return wrong("cannot listen on ", options.socket);
    for (;;) {
        int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (one < 0)
            continue; /* the peer left */
        serve(one);
        close(one);
    }
}
