/* turnwatch.c - a turn over its budget is named, with what it did.
 *
 * A turn answers every caller, so a slow one is felt by all. The log has one
 * line for such a turn, with the seconds of its parts, the slowest route among
 * its requests and the forecasts' share; at most one line in EVERY_S, which
 * says how many turns over the budget had none.
 *
 * Cost: a clock is read seven times a turn.
 */
#include "daemon/turnwatch.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

static const double EVERY_S = 10;

void turnwatch_begin(struct turnwatch *watch)
{
    *watch = (struct turnwatch){.budget_s = watch->budget_s,
                                .logged_s = watch->logged_s,
                                .nsilent = watch->nsilent,
                                .began_s = clock_elapsed_s(),
                                .began_cpu_s = clock_cpu_s()};
    watch->mark_s = watch->began_s;
}

void turnwatch_part(struct turnwatch *watch, enum turn_part part)
{
    double now_s = clock_elapsed_s();
    watch->part_s[part] += now_s - watch->mark_s;
    watch->mark_s = now_s;
}

void turnwatch_request(struct turnwatch *watch, const char *method,
                       const char *route, double seconds)
{
    watch->nrequests++;
    if (watch->route != NULL && seconds <= watch->route_s)
        return;
    watch->method = method;
    watch->route = route;
    watch->route_s = seconds;
}

static void put(const struct turnwatch *watch, struct firn_buf *text)
{
    const double *s = watch->part_s;
    buf_printf(text,
               "a turn took %.2f s (%.2f s of processor time): requests %.2f s "
               "(%d",
               watch->wall_s, watch->cpu_s, s[TURN_REQUESTS], watch->nrequests);
    if (watch->route != NULL)
        buf_printf(text, ", slowest %s %s %.2f s, forecasts %.2f s",
                   watch->method, watch->route, watch->route_s,
                   watch->forecast_s);
    buf_printf(text,
               "), engine events %.2f s (%d), decision %.2f s, commit %.2f s, "
               "answers %.2f s",
               s[TURN_EVENTS], watch->nevents, s[TURN_DECISION], s[TURN_COMMIT],
               s[TURN_ANSWERS]);
    if (watch->nsilent > 0)
        buf_printf(text, "; %ld more turns over %.1f s since the last line",
                   watch->nsilent, TURN_BUDGET_S);
}

void turnwatch_tell(struct turnwatch *watch, struct metrics *metrics)
{
    struct firn_buf text = {0};
    if (turnwatch_end(watch, &text))
        metrics_add(metrics, METRIC_TURNS_SLOW, 0, 1);
    if (text.n > 0)
        log_warn("%s", text.at);
    metrics_observe(metrics, METRIC_TURN_S, watch->wall_s);
    buf_release(&text);
}

bool turnwatch_end(struct turnwatch *watch, struct firn_buf *text)
{
    double now_s = clock_elapsed_s();
    double budget_s = watch->budget_s != 0 ? watch->budget_s : TURN_BUDGET_S;
    watch->wall_s = now_s - watch->began_s;
    watch->cpu_s = clock_cpu_s() - watch->began_cpu_s;
    if (!(watch->wall_s > budget_s))
        return false;
    if (watch->logged_s > 0 && now_s < watch->logged_s + EVERY_S) {
        watch->nsilent++;
        return true;
    }
    put(watch, text);
    watch->logged_s = now_s;
    watch->nsilent = 0;
    return true;
}
