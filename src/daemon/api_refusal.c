/* api_refusal.c - requests that were refused: counted, and said in the log.
 *
 * Each refusal counts in firn_refused_requests by its reason. In the log the
 * first of a peer is said at once; those that follow within SAY_EVERY_S are
 * counted and said together, so that a peer gets at most one line a second,
 * whatever it sends. A peer is an address, or a user of the Unix socket. Of at
 * most PEERS the counts are kept apart; the others share one line. The same
 * lines go into the audit.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include <string.h>

enum { PEERS = 32 };
static const double say_every_s = 1;

static const char *const reasons[HTTP_NREFUSALS] = {
    [HTTP_REFUSED_TOKEN] = "without a known token",
    [HTTP_REFUSED_RIGHT] = "of a caller that may not do that",
    [HTTP_REFUSED_SHAPE] = "with a head that can be read in two ways",
    [HTTP_REFUSED_SLOW] = "not whole, or without a token, in time",
    [HTTP_REFUSED_CROWD] = "of too many connections",
    [HTTP_REFUSED_RATE] = "above a limit",
};

struct peer {
    char name[96]; /* "": free */
    double said_s;
    int n, count[HTTP_NREFUSALS]; /* since then */
    bool is_audited; /* some were not of users, whose refusals api_route.c
                        writes into the audit one by one */
};

/* The last is that of all other peers. */
struct api_refusals {
    struct peer peers[PEERS + 1];
};

static void say(const struct api *api, struct peer *peer, double now_s)
{
    struct firn_buf out = {0};
    for (int i = 0; i < HTTP_NREFUSALS; i++)
        if (peer->count[i] > 0)
            buf_printf(&out, "%s%d %s", out.n > 0 ? ", " : "", peer->count[i],
                       reasons[i]);
    log_warn("refused requests from %s: %s", peer->name, out.at);
    if (api->host.audit != NULL && peer->is_audited)
        audit_refused(api->host.audit, api->host.now_s(api->host.arg),
                      peer->name, out.at);
    buf_release(&out);
    memset(peer->count, 0, sizeof peer->count);
    peer->n = 0;
    peer->is_audited = false;
    peer->said_s = now_s;
}

/* Its place: the one that it has, a free one, one that was quiet for longest
 * and has nothing left to say, or the last. */
static struct peer *place_of(struct api_refusals *refusals, const char *name,
                             double now_s)
{
    struct peer *free = NULL;
    for (int i = 0; i < PEERS; i++) {
        struct peer *peer = &refusals->peers[i];
        if (strcmp(peer->name, name) == 0)
            return peer;
        bool is_free = peer->name[0] == '\0' ||
                       (peer->n == 0 && now_s - peer->said_s > say_every_s);
        if (is_free && (free == NULL || peer->said_s < free->said_s))
            free = peer;
    }
    if (free == NULL) {
        free = &refusals->peers[PEERS];
        name = "other peers";
    } else {
        free->said_s = -say_every_s;
    }
    str_copy(free->name, sizeof free->name, name);
    return free;
}

void api_turned_away(void *arg, enum http_refusal why,
                     const struct http_caller *caller)
{
    struct api *api = arg;
    struct firn_buf name = {0};
    double now_s = clock_elapsed_s();
    if (api->host.metrics != NULL)
        metrics_add(api->host.metrics, METRIC_REFUSALS, (int)why, 1);
    if (api->refusals == NULL)
        api->refusals = mem_new(1, sizeof *api->refusals);
    if (caller->address[0] != '\0')
        buf_puts(&name, caller->address);
    else
        buf_printf(&name, "%s (Unix socket)", caller->user);
    struct peer *peer = place_of(api->refusals, name.at, now_s);
    buf_release(&name);
    peer->count[why]++;
    peer->n++;
    peer->is_audited |= why != HTTP_REFUSED_RIGHT || caller->role <= ACCESS_JOB;
    if (now_s - peer->said_s >= say_every_s)
        say(api, peer, now_s);
}

bool refusals_are_left(const struct api *api)
{
    for (int i = 0; api->refusals != NULL && i <= PEERS; i++)
        if (api->refusals->peers[i].n > 0)
            return true;
    return false;
}

void refusals_say(struct api *api)
{
    double now_s = clock_elapsed_s();
    for (int i = 0; api->refusals != NULL && i <= PEERS; i++) {
        struct peer *peer = &api->refusals->peers[i];
        if (peer->n > 0 && now_s - peer->said_s >= say_every_s)
            say(api, peer, now_s);
    }
}
