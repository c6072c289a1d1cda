/* main.c - firn-launch: starts the supervisors of jobs as root, for firnd.
 *
 * firnd is not root. To run a job as the user who submitted it, firnd asks this
 * program, over a Unix socket that only firnd's user can open. The program does
 * six things (engine/launchmsg.h, launch/request.c) and nothing else: it says
 * whether jobs of a user may be started, starts the supervisor of an attempt,
 * opens and closes GPUs for an attempt that grows or shrinks, kills what is
 * left of a job, and runs Slurm's sbatch and scancel as the job's user. Here
 * are its options and its socket.
 *
 * (1) The peer's user is compared with --user for every connection.
 * (2) to (5) are in launch/request.c.
 * (6) With a limit (--memory-max, ...) no attempt is started without it;
 * without control groups this program does not start, unless --without-cgroups.
 *
 * One request at a time; a request takes some milliseconds. Those that run
 * Slurm's commands have a process of their own.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/launchmsg.h"
#include "launch/cell.h"
#include "launch/request.h"
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    const char *socket, *user, *group, *cgroups;
    struct request_rules rules;
    struct cell_limits limits; /* of each attempt */
    int cells;                 /* version of control groups; 0: none */
    bool is_without;           /* --without-cgroups */
} options = {.rules = {.shepherd = "/usr/bin/firnd",
                       .slurm = "/usr/bin",
                       .uid_min = 1000},
             .cgroups = "/sys/fs/cgroup"};

/* --- the socket ---------------------------------------------------------- */

/* (1) */
static bool is_firnd(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.uid == options.rules.own.uid;
}

static void serve(int fd)
{
    static char text[LAUNCHMSG_MOST + 1];
    struct timeval patience = {.tv_sec = 2};
    struct firn_buf out = {0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ssize_t n = is_firnd(fd) ? recv(fd, text, sizeof text, 0) : -1;
    if (n <= 0)
        return;
    request_answer(&options.rules, (struct firn_bytes){text, (size_t)n}, fd,
                   &out);
    if (out.n == 0)
        return;
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
        chown(at.sun_path, options.rules.own.uid, options.rules.own.gid) != 0 ||
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
    "  --slurm-path DIR    where sbatch and scancel are (default: "
    "/usr/bin)\n"
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
    if (options.rules.state == NULL || options.socket == NULL ||
        options.user == NULL || options.group == NULL)
        return wrong("give --state, --socket, --user and --group; ",
                     "'firn-launch --help' explains them");
    if (options.rules.state[0] != '/' || strlen(options.rules.state) > 4000 ||
        options.rules.shepherd[0] != '/' || options.cgroups[0] != '/' ||
        options.rules.slurm[0] != '/')
        return wrong("--state, --shepherd, --slurm-path and --cgroup-root must "
                     "be paths from "
                     "the root",
                     "");
    return 0;
}

static int read_options(int argc, char **argv)
{
    static const struct option table[] = {{"state", 1, NULL, 'd'},
                                          {"socket", 1, NULL, 's'},
                                          {"user", 1, NULL, 'u'},
                                          {"group", 1, NULL, 'g'},
                                          {"shepherd", 1, NULL, 'p'},
                                          {"uid-min", 1, NULL, 'm'},
                                          {"memory-max", 1, NULL, 'M'},
                                          {"pids-max", 1, NULL, 'P'},
                                          {"cpus-max", 1, NULL, 'C'},
                                          {"cpuset", 1, NULL, 'S'},
                                          {"cpus-per-gpu", 1, NULL, 'G'},
                                          {"devices", 1, NULL, 'D'},
                                          {"cgroup-root", 1, NULL, 'R'},
                                          {"without-cgroups", 0, NULL, 'w'},
                                          {"slurm-path", 1, NULL, 'L'},
                                          {"help", 0, NULL, 'h'},
                                          {0}};
    const char **const texts[] = {
        ['d'] = &options.rules.state,    ['s'] = &options.socket,
        ['u'] = &options.user,           ['g'] = &options.group,
        ['p'] = &options.rules.shepherd, ['R'] = &options.cgroups,
        ['L'] = &options.rules.slurm};
    for (int c, code; (c = getopt_long(argc, argv, "", table, NULL)) >= 0;) {
        if (c == 'h') {
            puts(help);
            exit(0);
        }
        if (c == '?')
            return 2;
        if (c == 'm')
            options.rules.uid_min = strtoul(optarg, NULL, 10);
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
    options.rules.members = group->gr_gid;
    if (!request_find_user(options.user, &entry, room, sizeof room,
                           &options.rules.own) ||
        options.rules.own.uid == 0)
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
