/* notify.c - the protocol of sd_notify(3), without its library.
 *
 * A message is one datagram of NAME=VALUE lines to the socket that
 * NOTIFY_SOCKET names: a path, or an abstract name behind '@'. WATCHDOG_USEC
 * says after how many microseconds without a sign of life systemd ends the
 * process; firnd sends one after half of that. WATCHDOG_PID, where it is set,
 * must be our own process: a wrapper's watchdog is not ours.
 *
 * The signs come from the loop's turn, not from a timer of their own: a turn
 * that does not end sends none, and systemd starts firnd again.
 *
 * (1) Sending never waits: a datagram that finds no room is sent again at the
 * next turn, as the watchdog's time is not counted from it. (2) What fails is
 * logged once.
 */
#define _GNU_SOURCE
#include "daemon/notify.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* False: no address of a socket. */
static bool read_address(struct notify *notify, const char *text)
{
    size_t n = strlen(text);
    bool is_abstract = text[0] == '@';
    if ((!is_abstract && text[0] != '/') || n < 2 ||
        n >= sizeof notify->to.sun_path)
        return false;
    notify->to.sun_family = AF_UNIX;
    memcpy(notify->to.sun_path, text, n);
    if (is_abstract)
        notify->to.sun_path[0] = '\0';
    notify->to_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n +
                               (is_abstract ? 0 : 1));
    return true;
}

static double read_every_s(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long value = 0, owner = 0;
    if (usec == NULL)
        return 0;
    if (pid != NULL &&
        (!str_int(pid, 1, LONG_MAX, &owner) || owner != (long)getpid()))
        return 0;
    if (!str_int(usec, 1, LONG_MAX, &value)) {
        log_warn("WATCHDOG_USEC is '%.40s', no number of microseconds: no "
                 "sign of life is sent",
                 usec);
        return 0;
    }
    return 1e-6 * (double)value / 2;
}

void notify_open(struct notify *notify)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.fd = -1};
    if (path != NULL && !read_address(notify, path))
        log_warn("NOTIFY_SOCKET is '%.100s', no path from the root and no "
                 "@name: systemd is told nothing",
                 path);
    else if (path != NULL)
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd >= 0) {
        notify->every_s = read_every_s();
        notify->sent_s = clock_elapsed_s();
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

static bool send_text(struct notify *notify, const char *text)
{
    ssize_t n = -1;
    if (notify->fd < 0)
        return true;
    do
        n = sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
                   (const struct sockaddr *)&notify->to, notify->to_n);
    while (n < 0 && errno == EINTR);
    if (n < 0 && !notify->has_failed) {
        log_warn("systemd cannot be told '%.40s': %s", text, strerror(errno));
        notify->has_failed = true;
    }
    return n >= 0;
}

void notify_ready(struct notify *notify)
{
    send_text(notify, "READY=1\nSTATUS=schedules");
}

void notify_stopping(struct notify *notify)
{
    send_text(notify, "STOPPING=1\nSTATUS=stops; jobs go on");
}

double notify_alive(struct notify *notify)
{
    double now_s = clock_elapsed_s();
    if (notify->fd < 0 || !(notify->every_s > 0))
        return (double)INFINITY;
    if (now_s >= notify->sent_s + notify->every_s &&
        send_text(notify, "WATCHDOG=1"))
        notify->sent_s = now_s;
    double left_s = notify->sent_s + notify->every_s - now_s;
    return left_s > 0.01 ? left_s : 0.01;
}
