/* httpscene.h - an HTTP server with a handler that answers now, later or bit by
 * bit, and clients in the same process.
 *
 * /echo gives the body back, /later is kept in `kept`, /stream begins one in
 * `stream`, /who tells the caller, /query a parameter and a header.
 */
#ifndef TESTS_DAEMON_HTTPSCENE_H
#define TESTS_DAEMON_HTTPSCENE_H
#include "daemon/http.h"
#include "lib/caller.h"

extern const char http_token[];     /* the operator's */
extern const char http_job_token[]; /* of job 7 */

struct http_scene {
    struct http *http;
    char path[300];
    struct http_exchange *kept, *stream;
    int ncalls, ngone;
    double ran_s;
    size_t nmore; /* blocks that `more` has still to write */
    int nturned_away[HTTP_NREFUSALS];
};

extern struct http_scene http_scene;

/* On a socket and a port, with bodies of 100 000 bytes. The time for a request
 * is so long that nothing goes on by it alone: a wake-up that was lost is a
 * test that fails. */
extern double http_scene_timeout_s;
/* For a token over TCP, and the number of connections; 0: the usual. */
extern double http_scene_unknown_s;
extern int http_scene_places;
int http_scene_start(void **state);
int http_scene_stop(void **state);
#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, http_scene_start, http_scene_stop)
/* The same without a port or limits. */
struct http_config http_scene_config(void);
void http_scene_handle(void *arg, struct http_exchange *ex,
                       const struct http_request *request);

void http_scene_turns(int times);
double http_scene_now_s(void);
struct caller http_dial(void);
struct caller http_dial_port(void);
/* Releases the reply; `body` may be NULL. */
void http_expect(struct reply reply, int status, const char *body);
void http_scene_say(struct http_exchange *ex, const char *text);

#endif
