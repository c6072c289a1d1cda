/* listener.h - the socket of a server in a test, and a way to end it.
 *
 * On a free port of the loopback or on a Unix socket. Whatever waits, waits for
 * the end too, so that the server's thread can be joined at any moment.
 */
#ifndef LIB_LISTENER_H
#define LIB_LISTENER_H
#include <stdbool.h>
#include <stddef.h>

struct listener {
    int fd, stop[2];
    int port;       /* 0: a Unix socket */
    char path[108]; /* of it; removed at the end */
};

/* `path` NULL: a port. Fails the test when it cannot be had. */
void listener_open(struct listener *l, const char *path);
/* From now on each waiting call returns and reports the stop. */
void listener_stop(const struct listener *l);
void listener_close(struct listener *l);

/* The next connection; -1: it is to stop. */
int listener_accept(const struct listener *l);
/* Waits for bytes (POLLIN) or room (POLLOUT) at `fd`, -1 for neither; at
 * most for the given milliseconds, -1 for ever. False: it is to stop. */
bool listener_wait(const struct listener *l, int fd, short events,
                   int timeout_ms);
bool listener_say(const struct listener *l, int fd, const char *text, size_t n);
/* A whole request of HTTP; where its body starts, or NULL. */
char *listener_hear(const struct listener *l, int fd, char *text, size_t max);

#endif
