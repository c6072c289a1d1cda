/* caller.h - an HTTP client for tests of a server in the same process.
 *
 * Plain sockets, so that a test can be slow, rude or wrong. While it waits it
 * calls `pump`, which is to run the server for a turn.
 */
#ifndef LIB_CALLER_H
#define LIB_CALLER_H
#include <stdbool.h>
#include <stddef.h>

struct caller {
    int fd;
    char *in; /* heard and not yet given out; ends with a NUL */
    size_t n, cap;
    bool is_closed; /* by the other side */
    void (*pump)(void *arg);
    void *arg;
};

struct reply {
    int status; /* 0: none came, the other side hung up */
    char *head; /* with its status line */
    char *body; /* without chunks; ends with a NUL */
    size_t nbody;
};

/* Both fail the test if no server listens there. */
void caller_open_path(struct caller *caller, const char *path);
void caller_open_port(struct caller *caller, int port);
void caller_close(struct caller *caller);

/* All of it is sent, or the other side has closed: false. */
bool caller_send(struct caller *caller, const char *bytes, size_t n);
/* Reads once what is there, after one pump. */
void caller_hear(struct caller *caller);
/* Waits until that number of bytes has arrived or the connection is closed;
 * after twenty seconds the test fails. */
void caller_wait(struct caller *caller, size_t n);
/* The next whole answer; the caller frees it by reply_release. */
struct reply caller_reply(struct caller *caller);
/* A request with a body and its answer. `headers` has lines with their ends;
 * NULL for none. */
struct reply caller_ask(struct caller *caller, const char *method,
                        const char *target, const char *headers,
                        const char *body);
void reply_release(struct reply *reply);

#endif
