/* caller.h - an HTTP client for tests of a server in the same process.
 *
 * Plain sockets, so that a test can send slowly, wrongly, or half a request.
 * While the client waits it calls `pump`, which runs one turn of the server.
 */
#ifndef LIB_CALLER_H
#define LIB_CALLER_H
#include <stdbool.h>
#include <stddef.h>

struct caller {
    int fd;
    char *in; /* received and not yet taken; ends with a NUL */
    size_t n, cap;
    bool is_closed; /* by the other side */
    void (*pump)(void *arg);
    void *arg;
};

struct reply {
    int status; /* 0: the server closed without an answer */
    char *head; /* with its status line */
    char *body; /* without chunks; ends with a NUL */
    size_t nbody;
};

/* Both fail the test if no server listens there. */
void caller_open_path(struct caller *caller, const char *path);
void caller_open_port(struct caller *caller, int port);
void caller_close(struct caller *caller);

/* Sends all bytes; false: the server has closed. */
bool caller_send(struct caller *caller, const char *bytes, size_t n);
/* Reads the bytes that are there, after one turn of the server. */
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
