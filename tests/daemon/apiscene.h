/* apiscene.h - the API over a real book, store and socket, with a host that the
 * test plays, and a client that is an operator.
 *
 * Functions that ask fail the test unless the answer has the status they name.
 */
#ifndef TESTS_DAEMON_APISCENE_H
#define TESTS_DAEMON_APISCENE_H
#include "daemon/api.h"
#include "lib/caller.h"
#include <jansson.h>

extern const char api_token[];   /* the operator's */
extern const char api_simple[];  /* job files: 'a' on 2 GPUs */
extern const char api_elastic[]; /* 'e' on 1..4 */

struct api_scene {
    struct store *store;
    struct book *book;
    struct metrics *metrics;
    struct audit *audit;
    struct api *api;
    struct http *http;
    struct caller caller; /* on the socket: an operator */
    char path[300], log[300];
    bool keeps_changes; /* no commit */
    double now_s;
    int nchanged, ncancelled, nreported, nasked;
    bool is_drained;
    const char *trouble, *why; /* of the engine; of n1, which is then down */
    char policy[32], option[32], value[32];
};
extern struct api_scene api_scene;

int api_scene_start(void **state);
int api_scene_stop(void **state);
#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, api_scene_start, api_scene_stop)

/* A turn of the daemon: requests, commit, answers. */
void api_scene_turn(void *arg);

/* The answer's JSON, to be given back. */
json_t *api_ask_with(const char *method, const char *target,
                     const char *headers, const char *body, int status);
json_t *api_ask(const char *method, const char *target, const char *body,
                int status);
void api_just(const char *method, const char *target, const char *body,
              int status);
/* The number or text at "a.b" of it, as text; "-" when it is not there. */
const char *api_at(const json_t *root, const char *path);
void api_expect(const json_t *root, const char *path, const char *value);
/* A call without a body whose answer has all of "a.b=value c=-". */
void api_says(const char *method, const char *target, const char *want);

struct live_job *api_job_of(firn_job_id id);
/* Puts a job into its next start. */
void api_run_job(firn_job_id id);

#endif
