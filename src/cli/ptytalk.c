/* ptytalk.c - the end of a terminal that is the user's: see pty.h.
 *
 * The terminal is set so that every key goes to the job, Ctrl-C too; its
 * settings come back when the connection ends, also by a signal. Ctrl-P Ctrl-Q
 * leaves the job running, as in docker; a Ctrl-P before another key goes to the
 * job with that key.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "cli/pty.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

enum { CTRL_P = 0x10, CTRL_Q = 0x11 };

static volatile sig_atomic_t is_resized, is_ended;

static void note_resize(int number)
{
    (void)number;
    is_resized = 1;
}

static void note_end(int number)
{
    (void)number;
    is_ended = 1;
}

enum firn_status pty_connect(const char *path, int *fd, struct firn_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && connect(*fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
        (peer.uid == geteuid() || geteuid() == 0)) /* (1) */
        return FIRN_OK;
    int error = *fd >= 0 && peer.uid != (uid_t)-1 ? EPERM : errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return firn_fail(
        err, error == ENOENT || error == ECONNREFUSED ? FIRN_ENOENT : FIRN_EIO,
        "the terminal of the job, %s: %s", path, strerror(error));
}

struct talk {
    int fd;
    bool has_keys; /* standard input is open */
    bool is_leaving, was_p;
    struct firn_buf out, in;
};

static void put_size(struct talk *t)
{
    struct winsize size;
    if (ioctl(0, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return;
    unsigned char bytes[4] = {
        (unsigned char)(size.ws_row & 0xff), (unsigned char)(size.ws_row >> 8),
        (unsigned char)(size.ws_col & 0xff), (unsigned char)(size.ws_col >> 8)};
    pty_frame(&t->out, 'w', bytes, sizeof bytes);
}

static void read_keys(struct talk *t, bool is_terminal)
{
    char room[1024], keys[2 * sizeof room];
    size_t nkeys = 0;
    ssize_t n = read(0, room, sizeof room);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        t->has_keys = false;
    for (ssize_t i = 0; i < n && !t->is_leaving; i++) {
        bool is_p = is_terminal && room[i] == CTRL_P && !t->was_p;
        if (t->was_p && room[i] == CTRL_Q)
            t->is_leaving = true;
        else if (t->was_p)
            keys[nkeys++] = CTRL_P;
        if (!is_p && !t->is_leaving)
            keys[nkeys++] = room[i];
        t->was_p = is_p;
    }
    if (nkeys > 0)
        pty_frame(&t->out, 'i', keys, nkeys);
}

/* Writes all of it to standard output. */
static void show(struct firn_bytes text)
{
    while (text.n > 0) {
        ssize_t n = write(1, text.at, text.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text.at += n;
        text.n -= (size_t)n;
    }
}

/* PTY_DETACHED: go on; else the end. */
static int read_job(struct talk *t)
{
    char room[PTY_FRAME], kind;
    struct firn_bytes payload;
    size_t at = 0;
    long used;
    ssize_t n = recv(t->fd, room, sizeof room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PTY_DETACHED;
    if (n <= 0)
        return PTY_GONE;
    buf_add(&t->in, room, (size_t)n);
    while ((used = pty_parse((struct firn_bytes){t->in.at + at, t->in.n - at},
                             &kind, &payload)) > 0) {
        if (kind == 'o')
            show(payload);
        if (kind == 'x' && payload.n == 1)
            return (unsigned char)payload.at[0];
        at += (size_t)used;
    }
    if (used < 0)
        return PTY_GONE;
    memmove(t->in.at, t->in.at + at, t->in.n - at);
    t->in.n -= at;
    return PTY_DETACHED;
}

static bool write_job(struct talk *t)
{
    ssize_t n = send(t->fd, t->out.at, t->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    memmove(t->out.at, t->out.at + n, t->out.n - (size_t)n);
    t->out.n -= (size_t)n;
    return true;
}

static int talk(struct talk *t, bool is_terminal)
{
    int end = PTY_DETACHED;
    while (end == PTY_DETACHED && !t->is_leaving && !is_ended) {
        struct pollfd fds[] = {
            {.fd = t->has_keys ? 0 : -1, .events = POLLIN},
            {.fd = t->fd,
             .events = (short)(POLLIN | (t->out.n > 0 ? POLLOUT : 0))}};
        if (is_resized) {
            is_resized = 0;
            put_size(t);
        }
        if (poll(fds, 2, 500) < 0 && errno != EINTR)
            return PTY_GONE;
        if (fds[0].revents != 0 && t->has_keys)
            read_keys(t, is_terminal);
        if (fds[1].revents & (POLLIN | POLLHUP | POLLERR))
            end = read_job(t);
        if (end == PTY_DETACHED && t->out.n > 0 && !write_job(t))
            end = PTY_GONE;
    }
    return end;
}

int pty_talk(int fd)
{
    struct talk t = {.fd = fd, .has_keys = true};
    struct termios before, raw;
    struct sigaction resize = {.sa_handler = note_resize};
    struct sigaction ends = {.sa_handler = note_end};
    bool is_terminal = isatty(0) && tcgetattr(0, &before) == 0;
    sigaction(SIGWINCH, &resize, NULL);
    sigaction(SIGTERM, &ends, NULL);
    sigaction(SIGHUP, &ends, NULL);
    if (is_terminal) {
        raw = before;
        cfmakeraw(&raw);
        tcsetattr(0, TCSANOW, &raw);
    }
    put_size(&t);
    int end = talk(&t, is_terminal);
    if (is_terminal)
        tcsetattr(0, TCSADRAIN, &before);
    close(fd);
    buf_release(&t.out);
    buf_release(&t.in);
    return end;
}
