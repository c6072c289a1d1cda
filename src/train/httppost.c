/* httppost.c - one JSON object posted to the scheduler, by libcurl.
 *
 * The multi interface is used for one transfer at a time: unlike the easy one
 * it can be woken from another thread, so that closing never waits for a
 * scheduler that does not answer.
 *
 * Invariants:
 * (1) an exchange ends after timeout_s, whatever the other side does;
 * (2) no more than FIRN_POST_REPLY bytes of an answer are kept or waited for;
 * (3) an answer counts only when it is whole.
 *
 * libcurl's global state is made once and left: the host program may use it
 * too. Not done: proxies, redirections, cookies, compressed answers.
 */
#include "train/httppost.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKET_PATH = 107 }; /* sun_path's room, less the terminator */

/* --- addresses ------------------------------------------------------------ */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Visible ASCII only: what may stand in a header and in an address. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static enum firn_status check_config(const struct firn_post_config *c,
                                     struct firn_error *err)
{
    if (starts_with(c->url, "unix:")) {
        size_t n = strlen(c->url + 5);
        if (n == 0 || n > SOCKET_PATH)
            return firn_fail(
                err, FIRN_EINVAL,
                "FIRN_URL '%s': the socket's path has %zu bytes, not "
                "1 to %d",
                c->url, n, SOCKET_PATH);
    } else if ((!starts_with(c->url, "http://") &&
                !starts_with(c->url, "https://")) ||
               !is_plain(c->url)) {
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_URL '%s' is not an http://, https:// or unix: "
                         "address",
                         c->url);
    }
    if (c->job == NULL || *c->job == '\0')
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_URL is set and FIRN_JOB is not: set both, or "
                         "neither");
    if (c->token != NULL && !is_plain(c->token))
        return firn_fail(err, FIRN_EINVAL,
                         "FIRN_TOKEN has characters that a token cannot have");
    return FIRN_OK;
}

/* Appends to `out` as far as `max`; the length that all of it needs. */
static size_t add_text(char *out, size_t max, size_t n, const char *text)
{
    for (; *text != '\0'; text++, n++)
        if (n + 1 < max)
            out[n] = *text;
    return n;
}

/* The same, with everything but letters, digits and -._~ as %XX. */
static size_t add_escaped(char *out, size_t max, size_t n, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text != '\0'; text++) {
        char bytes[4] = {*text, '\0'};
        if (strchr(plain, *text) == NULL)
            snprintf(bytes, sizeof bytes, "%%%02X", (unsigned char)*text);
        n = add_text(out, max, n, bytes);
    }
    return n;
}

/* Where reports go; the bytes needed, as snprintf. */
static size_t write_url(char *out, size_t max, const struct firn_post_config *c)
{
    size_t n = 0;
    if (starts_with(c->url, "unix:")) {
        n = add_text(out, max, n, "http://localhost");
    } else {
        n = add_text(out, max, n, c->url);
        while (n > 0 && c->url[n - 1] == '/')
            n--;
    }
    n = add_text(out, max, n, "/jobs/");
    n = add_escaped(out, max, n, c->job);
    n = add_text(out, max, n, "/reports");
    if (max > 0)
        out[n < max ? n : max - 1] = '\0';
    return n;
}

#ifdef FIRN_WITH_CURL
#include <curl/curl.h>
#include <pthread.h>

struct firn_post {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
};

bool firn_post_possible(void)
{
    return true;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t keep(char *data, size_t size, size_t count, void *arg)
{
    struct firn_post_reply *reply = arg;
    size_t n = size * count;
    if (n > sizeof reply->text - reply->n)
        return 0; /* (2); ends the transfer */
    memcpy(reply->text + reply->n, data, n);
    reply->n += n;
    return n;
}

static bool add_header(struct firn_post *post, const char *name,
                       const char *value)
{
    size_t n = strlen(name) + strlen(value) + 1;
    char *line = malloc(n);
    if (line == NULL)
        return false;
    snprintf(line, n, "%s%s", name, value);
    struct curl_slist *more = curl_slist_append(post->headers, line);
    free(line);
    if (more == NULL)
        return false;
    post->headers = more;
    return true;
}

static bool add_headers(struct firn_post *post,
                        const struct firn_post_config *c)
{
    char attempt[32];
    snprintf(attempt, sizeof attempt, "%" PRId64, c->attempt);
    return add_header(post, "Content-Type: ", "application/json") &&
           add_header(post, "Accept: ", "application/json") &&
           add_header(post, "Expect:", "") &&
           add_header(post, "Firn-Attempt: ", attempt) &&
           add_header(post, "Firn-Epoch: ", attempt) && /* the older name */
           (c->token == NULL ||
            add_header(post, "Authorization: Bearer ", c->token));
}

static void set_options(struct firn_post *post,
                        const struct firn_post_config *c)
{
    CURL *easy = post->easy;
    long timeout_ms = (long)(c->timeout_s * 1000);
    curl_easy_setopt(easy, CURLOPT_URL, post->url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->headers);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms); /* (1) */
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
    if (starts_with(c->url, "unix:"))
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->url + 5);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

enum firn_status firn_post_open(struct firn_post **out,
                                const struct firn_post_config *config,
                                struct firn_error *err)
{
    FIRN_TRY(check_config(config, err));
    pthread_once(&once, init_curl);
    size_t n = write_url(NULL, 0, config) + 1;
    struct firn_post *post = calloc(1, sizeof *post);
    if (post != NULL) {
        post->url = malloc(n);
        post->multi = curl_multi_init();
        post->easy = curl_easy_init();
    }
    if (post == NULL || post->url == NULL || post->multi == NULL ||
        post->easy == NULL || !add_headers(post, config)) {
        firn_post_close(post);
        return firn_fail(err, FIRN_ENOMEM, "no memory to send reports");
    }
    write_url(post->url, n, config);
    set_options(post, config);
    *out = post;
    return FIRN_OK;
}

void firn_post_close(struct firn_post *post)
{
    if (post == NULL)
        return;
    curl_easy_cleanup(post->easy);
    curl_multi_cleanup(post->multi);
    curl_slist_free_all(post->headers);
    free(post->url);
    free(post);
}

/* Lets the transfer go on until it is done; was it whole? */
static bool drive(struct firn_post *post, firn_post_left *left, void *arg)
{
    for (;;) {
        int nrunning = 0, nmessages = 0;
        double left_s = left(arg);
        if (!(left_s > 0) ||
            curl_multi_perform(post->multi, &nrunning) != CURLM_OK)
            return false;
        CURLMsg *message = curl_multi_info_read(post->multi, &nmessages);
        if (message != NULL && message->msg == CURLMSG_DONE)
            return message->data.result == CURLE_OK; /* (3) */
        int wait_ms = left_s < 1 ? (int)(left_s * 1000) + 1 : 1000;
        if (curl_multi_poll(post->multi, NULL, 0, wait_ms, NULL) != CURLM_OK)
            return false;
    }
}

void firn_post_send(struct firn_post *post, const char *body, size_t n,
                    struct firn_post_reply *reply, firn_post_left *left,
                    void *arg)
{
    reply->http = 0;
    reply->n = 0;
    curl_easy_setopt(post->easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(post->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    curl_easy_setopt(post->easy, CURLOPT_WRITEDATA, reply);
    if (curl_multi_add_handle(post->multi, post->easy) != CURLM_OK)
        return;
    if (drive(post, left, arg))
        curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &reply->http);
    curl_multi_remove_handle(post->multi, post->easy);
}

void firn_post_wake(struct firn_post *post)
{
    curl_multi_wakeup(post->multi);
}

#else

struct firn_post {
    char *url; /* where reports would go */
};

bool firn_post_possible(void)
{
    return false;
}

enum firn_status firn_post_open(struct firn_post **out,
                                const struct firn_post_config *config,
                                struct firn_error *err)
{
    FIRN_TRY(check_config(config, err));
    size_t n = write_url(NULL, 0, config) + 1;
    struct firn_post *post = calloc(1, sizeof *post);
    char *url = malloc(n);
    if (post == NULL || url == NULL) {
        free(post);
        free(url);
        return firn_fail(err, FIRN_ENOMEM, "no memory to send reports");
    }
    write_url(url, n, config);
    post->url = url;
    *out = post;
    return FIRN_OK;
}

void firn_post_close(struct firn_post *post)
{
    if (post == NULL)
        return;
    free(post->url);
    free(post);
}

void firn_post_send(struct firn_post *post, const char *body, size_t n,
                    struct firn_post_reply *reply, firn_post_left *left,
                    void *arg)
{
    (void)post;
    (void)body;
    (void)n;
    (void)left;
    (void)arg;
    reply->http = 0;
    reply->n = 0;
}

void firn_post_wake(struct firn_post *post)
{
    (void)post;
}

#endif
