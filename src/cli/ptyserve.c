/* ptyserve.c - the end of a terminal that is in the job: see pty.h.
 *
 * One loop with poll(): the terminal of the command, the socket, and the one
 * client that is attached. The loop ends when the command has ended and its
 * last output was read; processes that the command left behind keep the
 * terminal open no longer than the command lives. SIGTERM, by which a job is
 * cancelled, hangs the terminal up: a shell ignores SIGTERM, and obeys SIGHUP.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "cli/pty.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_WAIT_S = 10 };

static volatile sig_atomic_t is_asked_to_end;

static void note_end(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

struct server {
    int listener, client, terminal;
    pid_t child;
    int status;        /* of waitpid(); -1: the command runs */
    bool was_attached; /* by any terminal so far */
    struct firn_buf to_client, from_client;
    struct firn_buf past; /* (3): the last output, not trimmed at each byte */
};

static int failed(const char *what)
{
    fprintf(stderr, "firn attach: %s: %s\n", what, strerror(errno));
    return 1;
}

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    mode_t old = umask(0177); /* (1) */
    bool is_bound = fd >= 0 &&
                    bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                    listen(fd, 4) == 0;
    umask(old);
    if (!is_bound && fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return is_bound ? fd : -1;
}

/* In the child; never returns. */
static void run_command(const char *name, char **argv)
{
    sigset_t none;
    setsid();
    int fd = open(name, O_RDWR); /* becomes the controlling terminal */
    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0)
        _exit(126);
    for (int i = 0; i < 3; i++)
        if (dup2(fd, i) < 0)
            _exit(126);
    if (fd > 2)
        close(fd);
    if (getenv("TERM") == NULL)
        setenv("TERM", "xterm-256color", 1);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    dprintf(2, "firn attach: cannot run '%.200s': %s\n", argv[0],
            strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static bool start(struct server *s, char **argv)
{
    char name[128] = "";
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    s->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->terminal < 0 || grantpt(s->terminal) != 0 ||
        unlockpt(s->terminal) != 0 ||
        ptsname_r(s->terminal, name, sizeof name) != 0 ||
        fcntl(s->terminal, F_SETFL, O_NONBLOCK) != 0)
        return false;
    ioctl(s->terminal, TIOCSWINSZ, &size);
    s->child = fork();
    if (s->child == 0)
        run_command(name, argv);
    return s->child > 0;
}

static void drop_client(struct server *s)
{
    if (s->client >= 0)
        close(s->client);
    s->client = -1;
    buf_clear(&s->to_client);
    buf_clear(&s->from_client);
}

static void take_client(struct server *s)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
        (peer.uid != geteuid() && peer.uid != 0)) { /* (1) */
        close(fd);
        return;
    }
    drop_client(s);
    s->client = fd;
    s->was_attached = true;
    size_t skip = s->past.n > PTY_REPLAY ? s->past.n - PTY_REPLAY : 0;
    if (s->past.n > 0)
        pty_frame(&s->to_client, 'o', s->past.at + skip, s->past.n - skip);
}

/* Writes all of it to the log of the job, which is a pipe that may be full. */
static void write_log(const char *at, size_t n)
{
    while (n > 0) {
        ssize_t put = write(1, at, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return;
        at += put;
        n -= (size_t)put;
    }
}

/* False: there is no more for now. */
static bool read_terminal(struct server *s)
{
    char room[PTY_FRAME];
    ssize_t n = read(s->terminal, room, sizeof room);
    if (n <= 0)
        return false;
    write_log(room, (size_t)n);
    if (s->past.n > 4 * (size_t)PTY_REPLAY) {
        size_t skip = s->past.n - PTY_REPLAY;
        memmove(s->past.at, s->past.at + skip, PTY_REPLAY);
        s->past.n = PTY_REPLAY;
    }
    buf_add(&s->past, room, (size_t)n);
    if (s->client >= 0)
        pty_frame(&s->to_client, 'o', room, (size_t)n);
    if (s->to_client.n > PTY_BEHIND)
        drop_client(s); /* (3) */
    return true;
}

/* A terminal that is full loses no keys: it is waited for, as a real one. */
static void type(int terminal, struct firn_bytes keys)
{
    while (keys.n > 0) {
        ssize_t n = write(terminal, keys.at, keys.n);
        struct pollfd fd = {.fd = terminal, .events = POLLOUT};
        if (n < 0 && errno == EAGAIN && poll(&fd, 1, 1000) > 0)
            continue;
        if (n <= 0)
            return;
        keys.at += n;
        keys.n -= (size_t)n;
    }
}

static void obey(struct server *s, char kind, struct firn_bytes payload)
{
    if (kind == 'i')
        type(s->terminal, payload);
    if (kind == 'w' && payload.n == 4) {
        const unsigned char *at = (const unsigned char *)payload.at;
        struct winsize size = {.ws_row = (unsigned short)(at[0] | at[1] << 8),
                               .ws_col = (unsigned short)(at[2] | at[3] << 8)};
        ioctl(s->terminal, TIOCSWINSZ, &size);
    }
}

static void read_client(struct server *s)
{
    char room[PTY_FRAME], kind;
    struct firn_bytes payload;
    ssize_t n = recv(s->client, room, sizeof room, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        drop_client(s);
        return;
    }
    if (n < 0)
        return;
    buf_add(&s->from_client, room, (size_t)n);
    size_t at = 0;
    long used;
    while ((used = pty_parse((struct firn_bytes){s->from_client.at + at,
                                                 s->from_client.n - at},
                             &kind, &payload)) > 0) {
        obey(s, kind, payload);
        at += (size_t)used;
    }
    if (used < 0) {
        drop_client(s); /* (2) */
        return;
    }
    memmove(s->from_client.at, s->from_client.at + at, s->from_client.n - at);
    s->from_client.n -= at;
}

static void write_client(struct server *s)
{
    ssize_t n = send(s->client, s->to_client.at, s->to_client.n, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        drop_client(s);
    } else if (n > 0) {
        memmove(s->to_client.at, s->to_client.at + n,
                s->to_client.n - (size_t)n);
        s->to_client.n -= (size_t)n;
    }
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The rest of the output and the status, for two seconds at most. The first
 * terminal may come after the end of a short command. */
static void say_goodbye(struct server *s)
{
    unsigned char code = (unsigned char)exit_status(s->status);
    for (int i = 0; i < 1000 && read_terminal(s); i++)
        ;
    for (int i = 0;
         i < FIRST_WAIT_S * 100 && !s->was_attached && !is_asked_to_end; i++) {
        struct pollfd fd = {.fd = s->listener, .events = POLLIN};
        poll(&fd, 1, 10);
        take_client(s);
    }
    if (s->client < 0)
        return;
    pty_frame(&s->to_client, 'x', &code, 1);
    for (int i = 0; i < 200 && s->client >= 0 && s->to_client.n > 0; i++) {
        struct pollfd fd = {.fd = s->client, .events = POLLOUT};
        poll(&fd, 1, 10);
        write_client(s);
    }
}

static void serve(struct server *s)
{
    while (s->status < 0) {
        bool is_full = s->to_client.n > 0;
        struct pollfd fds[] = {
            {.fd = s->terminal, .events = POLLIN},
            {.fd = s->listener, .events = POLLIN},
            {.fd = s->client,
             .events = (short)(POLLIN | (is_full ? POLLOUT : 0))}};
        int status = 0;
        poll(fds, 3, 100); /* looks at the command at least so often */
        if (is_asked_to_end) {
            is_asked_to_end = 0;
            kill(-s->child, SIGHUP);
            kill(-s->child, SIGCONT);
        }
        if (fds[0].revents != 0)
            read_terminal(s);
        if (s->client >= 0 && (fds[2].revents & (POLLIN | POLLHUP | POLLERR)))
            read_client(s);
        if (s->client >= 0 && s->to_client.n > 0)
            write_client(s);
        if (fds[1].revents != 0)
            take_client(s);
        if (waitpid(s->child, &status, WNOHANG) == s->child)
            s->status = status;
        else if (fds[0].revents & POLLHUP)
            usleep(10000); /* closed by the command, which still runs */
    }
}

int pty_serve(const char *path, char **argv)
{
    struct server s = {.client = -1, .terminal = -1, .status = -1};
    struct sigaction ends = {.sa_handler = note_end};
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &ends, NULL);
    s.listener = listen_at(path);
    if (s.listener < 0)
        return failed(path);
    if (!start(&s, argv)) {
        unlink(path);
        return failed("no terminal");
    }
    serve(&s);
    say_goodbye(&s);
    drop_client(&s);
    unlink(path);
    close(s.listener);
    close(s.terminal);
    buf_release(&s.to_client);
    buf_release(&s.from_client);
    buf_release(&s.past);
    return exit_status(s.status);
}
