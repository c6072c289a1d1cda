/* audit.h - who asked for what, from where, and was it done.
 *
 * One line of JSON for each request that changes something and for each request
 * that was refused for lack of a right; refusals for lack of a known token are
 * counted for each peer and written at most once a second. The file is opened
 * for appending only and is never rewritten, cut or removed by firnd: an
 * administrator may move it away (firnd then goes on in a new file), or set the
 * file system's append-only flag (chattr +a).
 *
 *     {"at_s": 1763377200.5, "user": "ann", "role": "user", "from": "socket",
 *      "did": "POST /jobs/7/cancel", "status": 200}
 *
 * (1) A line is one write(): lines of a full disk are missing, not mixed.
 * (2) Bodies, queries and headers are not written: they may have secrets.
 */
#ifndef DAEMON_AUDIT_H
#define DAEMON_AUDIT_H
#include "daemon/http.h"

struct audit;

/* Appends to `path`, made with mode 0600. FIRN_EIO. */
enum firn_status audit_open(struct audit **out, const char *path,
                            struct firn_error *err);
void audit_close(struct audit *audit);

/* A request that was answered with this HTTP status. */
void audit_request(struct audit *audit, double at_s,
                   const struct http_request *request, int status);
/* Refused requests of a peer, in words. */
void audit_refused(struct audit *audit, double at_s, const char *peer,
                   const char *text);

/* Lines from byte `after` on, each followed by a comma but the last, into
 * `json`, at most `most` of them; `*next` is the byte behind the last. With
 * `tail` only the last `most` lines of the file. FIRN_EIO. */
enum firn_status audit_read(const struct audit *audit, int64_t after,
                            size_t most, bool tail, struct firn_buf *json,
                            int64_t *next, struct firn_error *err);

#endif
