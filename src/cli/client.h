/* client.h - the daemon, asked over HTTP.
 *
 * On its Unix socket by default, or on TCP with a token. A call sends one
 * request and gives the JSON that came back; a stream hands over the answer as
 * it comes. What goes wrong is a sentence that names the address and what to
 * do: no daemon there, another user's socket, no answer in time, a token that
 * is not taken, the daemon's own words. All that comes from the other side is
 * escaped in these sentences (cli/safetext.h).
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* As the flags say it; NULL: by the environment, then by default. */
struct client_where {
    const char *socket;     /* FIRN_SOCKET; firn.sock as firnd has it */
    const char *url;        /* FIRN_API_URL */
    const char *token_file; /* FIRN_API_TOKEN_FILE */
    double timeout_s;       /* of a call; 0: 30 */
};

struct client;

/* Nothing is sent yet. FIRN_EINVAL for an address that is none, FIRN_EIO for a
 * token file that cannot be read. */
enum firn_status client_open(struct client **out,
                             const struct client_where *where,
                             struct firn_error *err);
void client_close(struct client *client);
/* Where it asks: "/run/user/1000/firn.sock" or the URL. */
const char *client_place(const struct client *client);

struct client_request {
    const char *method; /* "GET" */
    const char *path;   /* "/v1/jobs?all=1", parts already escaped */
    const char *content_type;
    struct firn_bytes body;
    /* Not NULL: the same request may come twice and is done once, so it is
     * tried again for some seconds when no answer came. */
    const char *request_id;
};

/* The answer as JSON in `*out`, to be given back by json_decref(); `out` NULL:
 * it is not wanted. FIRN_EINTR: interrupted (below). */
enum firn_status client_call(struct client *client,
                             const struct client_request *request, json_t **out,
                             struct firn_error *err);
/* The same for a GET. */
enum firn_status client_get(struct client *client, const char *path,
                            json_t **out, struct firn_error *err);

/* The same for an answer that is no JSON: appends its bytes. `*next` is where
 * the next piece begins, if that was said, else -1. */
enum firn_status client_piece(struct client *client, const char *path,
                              struct firn_buf *out, int64_t *next,
                              struct firn_error *err);

/* Takes a piece of the answer; false: it has seen enough. */
typedef bool client_taker(void *arg, struct firn_bytes piece);
/* A GET whose answer comes for as long as the other side likes. */
enum firn_status client_stream(struct client *client, const char *path,
                               client_taker *take, void *arg,
                               struct firn_error *err);
/* Did the daemon begin to answer the last request, and well? */
bool client_was_heard(const struct client *client);

/* Appends `word` with everything but letters, digits and -._~ as %XX. */
void client_escape(struct firn_buf *path, const char *word);

/* 32 letters drawn at random, for request_id. */
enum { CLIENT_ID_MAX = 33 };
enum firn_status client_draw_id(char out[CLIENT_ID_MAX],
                                struct firn_error *err);

/* From here on SIGINT and SIGTERM do not end the process, but calls, streams
 * and waits: FIRN_EINTR. For commands that follow something. */
void client_catch_interrupts(void);
bool client_interrupted(void);
/* Waits; false: interrupted. `fd`, unless -1, ends it too when readable. */
bool client_wait(double wait_s, int fd);

#endif
