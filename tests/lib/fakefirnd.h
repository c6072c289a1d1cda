/* fakefirnd.h - a daemon for tests of commands, with prepared answers.
 *
 * One thread, one connection at a time, one request on each, on a Unix socket
 * or a port of the loopback. Requests are kept for the test to look at.
 *
 *     fake_start(&fake, path);
 *     fake_tell(&fake, "GET /v1/jobs", 200, "{\"jobs\": []}");
 *     ... firn ls --socket path ...
 *     fake_stop(&fake);
 */
#ifndef LIB_FAKEFIRND_H
#define LIB_FAKEFIRND_H
#include "lib/listener.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { FAKE_ROUTES = 32, FAKE_REQUESTS = 32 };

struct fake_route {
    const char *what; /* "GET /v1/jobs?all=1" */
    int status;
    const char *body; /* borrowed */
    bool ends;        /* false: the body goes on for ever, silently */
};

struct fake_request {
    char what[512];  /* "POST /v1/jobs" */
    char head[2048]; /* with it */
    char body[16384];
};

struct fake {
    pthread_t thread;
    pthread_mutex_t lock;
    struct listener at;

    struct fake_route routes[FAKE_ROUTES]; /* under the lock from here */
    int nroutes;
    int ndrops; /* requests that are read and not answered */
    bool is_silent;
    struct fake_request requests[FAKE_REQUESTS];
    int nrequests;
};

/* `path` NULL: a port. Fails the test when it cannot be had. */
void fake_start(struct fake *fake, const char *path);
void fake_stop(struct fake *fake);
/* Prepares the answer to a request with that method and target (default: 404);
 * a second call for the same request replaces the first. */
void fake_tell(struct fake *fake, const char *what, int status,
               const char *body);
/* The same; the connection then stays open and silent. */
void fake_tell_open(struct fake *fake, const char *what, const char *body);
void fake_drop(struct fake *fake, int nrequests);
/* From now on requests are read and never answered. */
void fake_silence(struct fake *fake);
/* A copy of the i-th request; false: there was none. */
bool fake_request(struct fake *fake, int i, struct fake_request *out);
int fake_count(struct fake *fake);

/* A program run to its end. */
struct ran {
    int status; /* 128 + the signal that ended it */
    char out[1 << 16], err[1 << 14];
};
/* Runs argv[0] with standard input from `in` (NULL: nothing). Once it has
 * printed `until`, unless that is NULL, it gets SIGINT. */
void run_program(struct ran *ran, const char *const *argv, const char *in,
                 const char *until);

#endif
