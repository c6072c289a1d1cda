/* pace.h - work in portions: how much may be done before a pause.
 *
 * Each piece of work has a price in seconds. Pieces are done at once until
 * their prices add up to the burst, and then one for each price that has
 * passed, so that other work of the same thread and of the same host gets its
 * turn. A pure function of the times that it is given.
 */
#ifndef ENGINE_PACE_H
#define ENGINE_PACE_H

struct pace {
    double burst_s;
    double paid_s; /* all work so far is paid for at this time */
};

/* The moment from which the next piece may be done; at most `now_s`: now. */
static inline double pace_next_s(const struct pace *pace, double now_s)
{
    double next_s = pace->paid_s - pace->burst_s;
    return next_s > now_s ? next_s : now_s;
}

/* A piece of work was done. */
static inline void pace_pay(struct pace *pace, double now_s, double price_s)
{
    pace->paid_s = (pace->paid_s > now_s ? pace->paid_s : now_s) + price_s;
}

#endif
