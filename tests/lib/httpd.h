/* httpd.h - a scheduler for tests: gives every POST the prepared answer.
 *
 * One thread, one connection at a time, on a free port of the loopback or on
 * a Unix socket.
 */
#ifndef LIB_HTTPD_H
#define LIB_HTTPD_H
#include "lib/listener.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum httpd_mode {
    HTTPD_ANSWER,  /* status and text */
    HTTPD_SILENT,  /* takes the request and says nothing */
    HTTPD_DRIP,    /* a byte now and then, for ever */
    HTTPD_HUGE,    /* an answer that is far too long */
    HTTPD_CUT,     /* half of the text, then it hangs up */
    HTTPD_NONSENSE /* no HTTP at all */
};

struct httpd {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct listener at;

    enum httpd_mode mode; /* under the lock from here */
    int status;
    char text[512];
    int nrequests; /* received whole */
    char head[2048], body[8192];
};

/* A folder with the path of a Unix socket in it. */
struct httpd_place {
    char dir[64], socket[96], url[128];
};
void httpd_place_make(struct httpd_place *place);

/* `path` NULL: a port. Fails the test when it cannot be had. */
void httpd_start(struct httpd *httpd, const char *path);
void httpd_stop(struct httpd *httpd);
void httpd_tell(struct httpd *httpd, enum httpd_mode mode, int status,
                const char *text);
/* Waits until `nrequests` requests have come in all. */
bool httpd_wait(struct httpd *httpd, int nrequests, double timeout_s);
/* Copies of the last request. */
void httpd_last(struct httpd *httpd, char head[2048], char body[8192]);

#endif
