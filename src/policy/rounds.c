/* rounds.c - the timer of policies that divide the GPUs anew at intervals.
 */
#include "policy/rounds.h"
#include <math.h>

double rounds_multiple_s(double at_s, double every_s)
{
    double next_s = (floor(at_s / every_s) + 1) * every_s;
    return next_s > at_s ? next_s : at_s + every_s; /* lost in rounding */
}

bool rounds_begin(struct rounds *rounds, double now_s, double next_s)
{
    if (rounds->has_begun && now_s > rounds->last_s && now_s < next_s) /* (1) */
        return false;
    *rounds = (struct rounds){true, now_s};
    return true;
}

void rounds_save(const struct rounds *rounds, struct firn_buf *out)
{
    keep_int(out, rounds->has_begun);
    keep_double(out, rounds->last_s);
}

struct rounds rounds_load(struct keep *keep)
{
    struct rounds rounds = {.has_begun = keep_read_int(keep, 0, 1)};
    rounds.last_s = keep_read_double(keep);
    return rounds;
}
