/* httppost.h - one JSON object posted to the scheduler, and its answer.
 *
 * The only place that knows libcurl. In a build without it everything here is
 * checked as usual and nothing can be sent.
 *
 *   http://host:port, https://...    POST <url>/jobs/<job>/reports
 *   unix:/path/to/socket             the same, over a Unix socket
 *
 * with Authorization: Bearer <token> and Firn-Attempt: <attempt> (also as
 * Firn-Epoch, which older schedulers read). No proxy is used and no redirection
 * followed: the token goes to the scheduler only. One thread sends;
 * firn_post_wake() may be called from any.
 */
#ifndef TRAIN_HTTPPOST_H
#define TRAIN_HTTPPOST_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct firn_post;

struct firn_post_config {
    const char *url, *job, *token; /* token NULL: none */
    int64_t attempt;
    double timeout_s; /* of a whole exchange */
};

enum { FIRN_POST_REPLY = 1 << 16 }; /* a longer answer is a failure */

struct firn_post_reply {
    long http; /* status; 0: no whole answer came */
    size_t n;
    char text[FIRN_POST_REPLY];
};

/* Called repeatedly during an exchange: the seconds that are left for it; 0 or
 * less ends it. */
typedef double firn_post_left(void *arg);

/* FIRN_EINVAL, naming the setting, for an invalid address, a missing job, or
 * characters that a header cannot hold. */
enum firn_status firn_post_open(struct firn_post **out,
                                const struct firn_post_config *config,
                                struct firn_error *err);
void firn_post_close(struct firn_post *post);
/* Sends and waits for the answer. */
void firn_post_send(struct firn_post *post, const char *body, size_t n,
                    struct firn_post_reply *reply, firn_post_left *left,
                    void *arg);
/* Makes a send under way ask `left` at once. */
void firn_post_wake(struct firn_post *post);
bool firn_post_possible(void);

#endif
