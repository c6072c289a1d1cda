/* turnwatch.h - what a turn of the loop spent its time on.
 *
 *     turnwatch_begin(&watch);
 *     ... requests ...          turnwatch_part(&watch, TURN_REQUESTS);
 *     ... a round ...           turnwatch_part(&watch, TURN_DECISION);
 *     turnwatch_tell(&watch, metrics);
 */
#ifndef DAEMON_TURNWATCH_H
#define DAEMON_TURNWATCH_H
#include "daemon/livemetrics.h"
#include <firn/bytes.h>
#include <stdbool.h>

enum turn_part {
    TURN_REQUESTS,
    TURN_EVENTS,
    TURN_DECISION,
    TURN_COMMIT,
    TURN_ANSWERS,
    TURN_PARTS
};

/* A turn that takes longer is logged, with its parts. */
#define TURN_BUDGET_S 1.0

struct turnwatch {
    double budget_s;      /* 0: TURN_BUDGET_S; below 0: every turn is over it */
    double wall_s, cpu_s; /* of the turn that ended last */
    double part_s[TURN_PARTS]; /* of this turn */
    double began_s, began_cpu_s, mark_s;
    double forecast_s; /* of the requests' time */
    int nrequests, nevents;
    const char *method, *route; /* the slowest request; NULL: there was none */
    double route_s;
    double logged_s; /* the last line; 0: none */
    long nsilent;    /* turns over the budget since, without a line */
};

void turnwatch_begin(struct turnwatch *watch);
/* The time since the last call was this part's. */
void turnwatch_part(struct turnwatch *watch, enum turn_part part);
/* A request of a route, whose texts live as long as the program. */
void turnwatch_request(struct turnwatch *watch, const char *method,
                       const char *route, double seconds);
/* Is the turn over its budget? Then, but for the turns within ten seconds of
 * the last line, a sentence about it is appended to `text`. */
bool turnwatch_end(struct turnwatch *watch, struct firn_buf *text);
/* The same, with the sentence in the log and the turn in the metrics. */
void turnwatch_tell(struct turnwatch *watch, struct metrics *metrics);

#endif
