/* clientstop.c - SIGINT and SIGTERM as an answer, not as an end.
 *
 * A handler may hardly do anything: it sets a flag and writes a byte into a
 * pipe, by which whoever waits with poll() is woken at once. A second signal
 * while the first is not yet obeyed changes nothing.
 */
#include "cli/clientstop.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t is_stopped;
static int ends[2] = {-1, -1};

static void note(int number)
{
    int before = errno;
    (void)number;
    is_stopped = 1;
    ssize_t n = write(ends[1], "x", 1);
    (void)n; /* full: it is awake already */
    errno = before;
}

void client_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note};
    if (ends[0] >= 0 || pipe(ends) != 0)
        return;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    }
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool client_interrupted(void)
{
    return is_stopped != 0;
}

int client_stop_fd(void)
{
    return ends[0];
}

bool client_wait(double wait_s, int fd)
{
    double until_s = clock_elapsed_s() + wait_s;
    while (!client_interrupted()) {
        double left_s = until_s - clock_elapsed_s();
        struct pollfd fds[2] = {{.fd = ends[0], .events = POLLIN},
                                {.fd = fd, .events = POLLIN}};
        if (!(left_s > 0))
            return true;
        int ms = left_s < 3600 ? (int)(left_s * 1000) + 1 : 3600 * 1000;
        if (poll(fds, 2, ms) > 0 && fds[1].revents != 0)
            return true;
    }
    return false;
}
