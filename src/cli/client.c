/* client.c - HTTP client of firnd, with libcurl.
 *
 * One handle, one transfer at a time. The multi interface is used because it
 * waits for the network and for an interrupt at the same time.
 *
 * Invariants:
 * (1) a call ends after its timeout in all cases; a stream ends when either
 * side ends it; (2) at most ANSWER_MAX bytes of an answer are kept; (3) a
 * request without an id is sent once. A request with an id is repeated, with
 * the same bytes, while it is unknown whether firnd carried it out; firnd
 * carries it out once. If nothing listens at the first try, it is not repeated;
 * (4) redirects are not followed and no proxy is used, so that a token goes
 * only to the given address; (5) SIGINT and SIGTERM set a flag and write a byte
 * to a pipe, which wakes a waiting poll() at once.
 */
#include "cli/client.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/clientplace.h"
#include "cli/curlcalls.h"
#include "cli/safetext.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { ANSWER_MAX = 256 << 20, MESSAGE_MAX = 1 << 16 };

static const double timeout_default_s = 30;
static const double retry_for_s = 20, retry_pause_s = 0.2;

struct client {
    struct client_place place;
    double timeout_s;
    CURLM *multi;
    CURL *easy;
    struct firn_buf url;
    bool was_answered; /* the last transfer got a status 2xx */
};

/* Result of one transfer. */
struct answer {
    struct client *client;
    CURLcode code;
    long http;
    struct firn_buf body;
    client_taker *take; /* NULL: the body is kept */
    void *arg;
    bool is_enough;
    int64_t next; /* offset of the next piece; -1: not in the header */
};

/* --- interrupts (5) ------------------------------------------------------ */

static volatile sig_atomic_t is_stopped;
static int stop_pipe[2] = {-1, -1};

static void on_signal(int number)
{
    int before = errno;
    (void)number;
    is_stopped = 1;
    ssize_t n = write(stop_pipe[1], "x", 1);
    (void)n; /* a full pipe wakes poll() too */
    errno = before;
}

void client_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    if (stop_pipe[0] >= 0 || pipe(stop_pipe) != 0)
        return;
    for (int i = 0; i < 2; i++) {
        fcntl(stop_pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(stop_pipe[i], F_SETFD, FD_CLOEXEC);
    }
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool client_interrupted(void)
{
    return is_stopped != 0;
}

bool client_wait(double wait_s, int fd)
{
    double until_s = clock_elapsed_s() + wait_s;
    while (!client_interrupted()) {
        double left_s = until_s - clock_elapsed_s();
        struct pollfd fds[2] = {{.fd = stop_pipe[0], .events = POLLIN},
                                {.fd = fd, .events = POLLIN}};
        if (!(left_s > 0))
            return true;
        int ms = left_s < 3600 ? (int)(left_s * 1000) + 1 : 3600 * 1000;
        if (poll(fds, 2, ms) > 0 && fds[1].revents != 0)
            return true;
    }
    return false;
}

/* --- opening -------------------------------------------------------------- */

enum firn_status client_open(struct client **out,
                             const struct client_where *where,
                             struct firn_error *err)
{
    struct client_place place;
    FIRN_TRY(curl_load(err));
    FIRN_TRY(client_place_find(&place, where, err));
    struct client *c = mem_new(1, sizeof *c);
    c->place = place;
    c->timeout_s = where->timeout_s > 0 ? where->timeout_s : timeout_default_s;
    curl.global_init(CURL_GLOBAL_DEFAULT);
    c->multi = curl.multi_init();
    c->easy = curl.easy_init();
    if (c->multi == NULL || c->easy == NULL) {
        client_close(c);
        return firn_fail(err, FIRN_ENOMEM, "libcurl cannot be started");
    }
    *out = c;
    return FIRN_OK;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    curl.easy_cleanup(client->easy);
    curl.multi_cleanup(client->multi);
    client_place_release(&client->place);
    buf_release(&client->url);
    mem_free(client);
}

const char *client_place(const struct client *client)
{
    return client->place.socket != NULL ? client->place.socket
                                        : client->place.url;
}

/* --- one transfer --------------------------------------------------------- */

static size_t keep(char *data, size_t size, size_t count, void *arg)
{
    struct answer *answer = arg;
    size_t n = size * count;
    long http = 0;
    curl.easy_getinfo(answer->client->easy, CURLINFO_RESPONSE_CODE, &http);
    if (answer->take != NULL && http >= 200 && http < 300) {
        answer->is_enough =
            !answer->take(answer->arg, (struct firn_bytes){data, n});
        return answer->is_enough ? 0 : n;
    }
    if (n > ANSWER_MAX - answer->body.n)
        return 0; /* (2) */
    buf_add(&answer->body, data, n);
    return n;
}

static size_t read_header(char *data, size_t size, size_t count, void *arg)
{
    static const char name[] = "Firn-Next-Offset:";
    struct answer *answer = arg;
    size_t n = size * count;
    char line[64];
    double next;
    if (n <= sizeof name || n >= sizeof line ||
        strncasecmp(data, name, sizeof name - 1) != 0)
        return n;
    memcpy(line, data, n);
    line[n] = '\0';
    if (str_double(str_trim(line + sizeof name - 1), &next) && next >= 0 &&
        next < 9e15)
        answer->next = (int64_t)next;
    return n;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name,
                                     const char *value)
{
    struct firn_buf line = {0};
    buf_puts(&line, name);
    buf_puts(&line, value);
    struct curl_slist *more = curl.slist_append(list, line.at);
    buf_release(&line);
    return more != NULL ? more : list;
}

static struct curl_slist *make_headers(const struct client *c,
                                       const struct client_request *request)
{
    struct curl_slist *list = add_header(NULL, "Expect:", "");
    if (c->place.token != NULL)
        list = add_header(list, "Authorization: Bearer ", c->place.token);
    if (request->content_type != NULL)
        list = add_header(list, "Content-Type: ", request->content_type);
    if (request->request_id != NULL)
        list = add_header(list, "Idempotency-Key: ", request->request_id);
    if (request->programs != NULL && request->programs[0] != '\0')
        list = add_header(list, "Firn-Path: ", request->programs);
    if (request->checks_fit)
        list = add_header(list, "Firn-Check: ", "fits");
    return list;
}

static void set_options(struct client *c, const struct client_request *request,
                        struct answer *answer, struct curl_slist *headers)
{
    CURL *easy = c->easy;
    long timeout_ms = (long)(c->timeout_s * 1000);
    curl.easy_reset(easy);
    buf_clear(&c->url);
    buf_puts(&c->url,
             c->place.socket != NULL ? "http://localhost" : c->place.url);
    buf_puts(&c->url, request->path);
    curl.easy_setopt(easy, CURLOPT_URL, c->url.at);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (strcmp(request->method, "GET") != 0) {
        curl.easy_setopt(easy, CURLOPT_POSTFIELDS,
                         request->body.n > 0 ? request->body.at : "");
        curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)request->body.n);
    }
    if (answer->take == NULL) /* (1) */
        curl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_PROXY, ""); /* (4) */
    curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, read_header);
    curl.easy_setopt(easy, CURLOPT_HEADERDATA, answer);
    if (c->place.socket != NULL)
        curl.easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->place.socket);
    const char *authority = getenv("FIRN_API_CA_FILE");
    if (authority != NULL && authority[0] != '\0')
        curl.easy_setopt(easy, CURLOPT_CAINFO, authority);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

/* Runs the transfer to its end. */
static CURLcode drive(struct client *c)
{
    for (;;) {
        int nrunning = 0, nmessages = 0;
        if (client_interrupted())
            return CURLE_ABORTED_BY_CALLBACK;
        if (curl.multi_perform(c->multi, &nrunning) != CURLM_OK)
            return CURLE_RECV_ERROR;
        CURLMsg *message = curl.multi_info_read(c->multi, &nmessages);
        if (message != NULL && message->msg == CURLMSG_DONE)
            return message->data.result;
        struct curl_waitfd stop = {.fd = stop_pipe[0],
                                   .events = CURL_WAIT_POLLIN};
        curl.multi_poll(c->multi, &stop, stop.fd >= 0 ? 1 : 0, 1000, NULL);
    }
}

static void transfer(struct client *c, const struct client_request *request,
                     struct answer *answer)
{
    struct curl_slist *headers = make_headers(c, request);
    answer->client = c;
    answer->code = CURLE_OUT_OF_MEMORY;
    answer->http = 0;
    answer->next = -1;
    buf_clear(&answer->body);
    set_options(c, request, answer, headers);
    if (curl.multi_add_handle(c->multi, c->easy) == CURLM_OK) {
        answer->code = drive(c);
        curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &answer->http);
        curl.multi_remove_handle(c->multi, c->easy);
    }
    c->was_answered = answer->http >= 200 && answer->http < 300;
    curl.slist_free_all(headers);
}

/* --- error messages ------------------------------------------------------- */

static enum firn_status no_answer(const struct client *c, CURLcode code,
                                  struct firn_error *err)
{
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return firn_fail(err, FIRN_EINTR, "interrupted");
    case CURLE_COULDNT_CONNECT:
        return client_place_away(&c->place, err);
    case CURLE_OPERATION_TIMEDOUT:
        return firn_fail(err, FIRN_EIO,
                         "firnd at %s did not answer within %g s",
                         client_place(c), c->timeout_s);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return firn_fail(err, FIRN_EIO,
                         "firnd at %s closed the connection before it answered",
                         client_place(c));
    default:
        return firn_fail(err, FIRN_EIO, "%s: %s", client_place(c),
                         curl.easy_strerror(code));
    }
}

/* The firn_status for an HTTP status. */
static enum firn_status status_of(long http)
{
    switch (http) {
    case 404:
        return FIRN_ENOENT;
    case 409:
        return FIRN_EREFUSED;
    case 422:
        return FIRN_EDATA;
    case 503:
        return FIRN_EINTR;
    default:
        return http >= 400 && http < 500 ? FIRN_EINVAL : FIRN_EIO;
    }
}

/* Fails with the error message of firnd. */
static enum firn_status refused(const struct client *c,
                                const struct answer *answer,
                                struct firn_error *err)
{
    struct firn_buf text = {0};
    const char *message = NULL;
    json_t *json = answer->body.n > 0 && answer->body.n < MESSAGE_MAX
                       ? json_loadb(answer->body.at, answer->body.n, 0, NULL)
                       : NULL;
    if (json_unpack(json, "{s:{s:s}}", "error", "text", &message) == 0)
        safe_puts(&text, message);
    else
        buf_printf(&text,
                   "%s answered with HTTP status %ld without a message of "
                   "firnd: is it firnd?",
                   client_place(c), answer->http);
    if (answer->http == 401)
        buf_puts(&text, "; give the token by --token-file or "
                        "FIRN_API_TOKEN_FILE");
    enum firn_status status = status_of(answer->http);
    /* FIRN_EINTR means that this process was interrupted. */
    firn_fail(err, status == FIRN_EINTR ? FIRN_EIO : status, "%s", text.at);
    buf_release(&text);
    json_decref(json);
    return status == FIRN_EINTR ? FIRN_EIO : status;
}

static enum firn_status understand(const struct client *c,
                                   const struct answer *answer, json_t **out,
                                   struct firn_error *err)
{
    if (answer->code != CURLE_OK)
        return no_answer(c, answer->code, err);
    if (answer->http < 200 || answer->http >= 300)
        return refused(c, answer, err);
    if (out == NULL)
        return FIRN_OK;
    json_t *json = answer->body.n > 0
                       ? json_loadb(answer->body.at, answer->body.n,
                                    JSON_REJECT_DUPLICATES, NULL)
                       : json_object();
    if (json == NULL)
        return firn_fail(err, FIRN_EIO,
                         "%s did not answer with JSON: is it firnd?",
                         client_place(c));
    *out = json;
    return FIRN_OK;
}

/* --- calls ---------------------------------------------------------------- */

enum firn_status client_call(struct client *client,
                             const struct client_request *request, json_t **out,
                             struct firn_error *err)
{
    struct answer answer = {0};
    double until_s = clock_elapsed_s() + retry_for_s;
    transfer(client, request, &answer);
    bool may_repeat = request->request_id != NULL &&
                      answer.code != CURLE_COULDNT_CONNECT; /* (3) */
    while (may_repeat && answer.code != CURLE_ABORTED_BY_CALLBACK &&
           (answer.code != CURLE_OK || answer.http == 503) &&
           clock_elapsed_s() < until_s && client_wait(retry_pause_s, -1))
        transfer(client, request, &answer);
    enum firn_status status = understand(client, &answer, out, err);
    buf_release(&answer.body);
    return status;
}

enum firn_status client_get(struct client *client, const char *path,
                            json_t **out, struct firn_error *err)
{
    struct client_request request = {.method = "GET", .path = path};
    return client_call(client, &request, out, err);
}

enum firn_status client_piece(struct client *client, const char *path,
                              struct firn_buf *out, int64_t *next,
                              struct firn_error *err)
{
    struct client_request request = {.method = "GET", .path = path};
    struct answer answer = {0};
    transfer(client, &request, &answer);
    enum firn_status status = understand(client, &answer, NULL, err);
    if (status == FIRN_OK) {
        *next = answer.next;
        if (answer.body.n > 0)
            buf_add(out, answer.body.at, answer.body.n);
    }
    buf_release(&answer.body);
    return status;
}

enum firn_status client_stream(struct client *client, const char *path,
                               client_taker *take, void *arg,
                               struct firn_error *err)
{
    struct client_request request = {.method = "GET", .path = path};
    struct answer answer = {.take = take, .arg = arg};
    transfer(client, &request, &answer);
    enum firn_status status = FIRN_OK;
    if (!answer.is_enough)
        status = understand(client, &answer, NULL, err);
    buf_release(&answer.body);
    return status;
}

bool client_was_answered(const struct client *client)
{
    return client->was_answered;
}

void client_escape(struct firn_buf *path, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *word != '\0'; word++) {
        if (strchr(plain, *word) != NULL)
            buf_putc(path, *word);
        else
            buf_printf(path, "%%%02X", (unsigned)(unsigned char)*word);
    }
}

enum firn_status client_draw_id(char out[CLIENT_ID_MAX], struct firn_error *err)
{
    unsigned char bytes[(CLIENT_ID_MAX - 1) / 2];
    FILE *file = fopen("/dev/urandom", "rb");
    size_t n = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    if (n != sizeof bytes)
        return firn_fail(err, FIRN_EIO, "cannot read /dev/urandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return FIRN_OK;
}
