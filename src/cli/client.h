/* client.h - HTTP client of firnd.
 *
 * Connects to firnd's UNIX socket by default, or to a TCP address with a token.
 * A call sends one request and returns the JSON answer; a stream passes on the
 * answer as it arrives. Error messages name the address and the remedy: firnd
 * does not run, the socket belongs to another user, no answer in time, wrong
 * token, or the message of firnd. Text from firnd is escaped in them
 * (cli/safetext.h).
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Options of the command; NULL: from the environment, else the default. */
struct client_where {
    const char *socket;     /* FIRN_SOCKET; firnd's default socket */
    const char *url;        /* FIRN_API_URL */
    const char *token_file; /* FIRN_API_TOKEN_FILE */
    double timeout_s;       /* of a call; 0: 30 s */
};

struct client;

/* Sends nothing. FIRN_EINVAL for an invalid address, FIRN_EIO for a token file
 * that cannot be read. */
enum firn_status client_open(struct client **out,
                             const struct client_where *where,
                             struct firn_error *err);
void client_close(struct client *client);
/* The address: "/run/user/1000/firn.sock" or the URL. */
const char *client_place(const struct client *client);

struct client_request {
    const char *method; /* "GET" */
    const char *path;   /* "/v1/jobs?all=1", parts already escaped */
    const char *content_type;
    struct firn_bytes body;
    /* Idempotency key, or NULL. With a key the request is repeated for some
     * seconds if no answer comes; firnd carries it out once. */
    const char *request_id;
    const char *programs; /* PATH for the job; NULL: none */
    bool checks_fit;      /* a job that can never run is refused */
};

/* Sets `*out` to the JSON answer, which the caller releases by json_decref();
 * `out` may be NULL. FIRN_EINTR: interrupted (below). */
enum firn_status client_call(struct client *client,
                             const struct client_request *request, json_t **out,
                             struct firn_error *err);
/* A call with GET. */
enum firn_status client_get(struct client *client, const char *path,
                            json_t **out, struct firn_error *err);

/* A GET whose answer is not JSON: appends its bytes. Sets `*next` to the offset
 * of the next piece, or to -1 if the answer has none. */
enum firn_status client_piece(struct client *client, const char *path,
                              struct firn_buf *out, int64_t *next,
                              struct firn_error *err);

/* Receives a piece of the answer; returns false to end the stream. */
typedef bool client_taker(void *arg, struct firn_bytes piece);
/* A GET whose answer has no end in time. */
enum firn_status client_stream(struct client *client, const char *path,
                               client_taker *take, void *arg,
                               struct firn_error *err);
/* Did the last request get a status 2xx? */
bool client_was_answered(const struct client *client);

/* Appends `word`, percent-encoded. */
void client_escape(struct firn_buf *path, const char *word);

/* Draws 32 random hexadecimal digits, for request_id. */
enum { CLIENT_ID_MAX = 33 };
enum firn_status client_draw_id(char out[CLIENT_ID_MAX],
                                struct firn_error *err);

/* From now on SIGINT and SIGTERM end calls, streams and waits with FIRN_EINTR
 * instead of ending the process. For commands that follow a job or a log. */
void client_catch_interrupts(void);
bool client_interrupted(void);
/* Waits for `wait_s`, or until `fd` (unless -1) is readable. Returns false if
 * interrupted. */
bool client_wait(double wait_s, int fd);

#endif
