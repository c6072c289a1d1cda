/* slurm_pilot_table.c - see slurm_pilot_table.h.
 *
 * Invariants, which the test checks for every row:
 *   1. Only GONE is left without an event; every other state reaches it.
 *   2. A state in which Slurm may have the allocation is left for GONE only by
 *      Slurm's own word (over, missing, refused).
 *   3. Every way into RETURNING cancels.
 *   4. Workers are lost only where there were some.
 */
#include "engine/slurm_pilot_table.h"
#include <stddef.h>

enum {
    CANCEL = PILOT_DO_CANCEL,
    FORGET = PILOT_DO_FORGET,
    BAR = PILOT_DO_BAR,
    RESTART = PILOT_DO_RESTART,
    LOSE = PILOT_DO_LOSE
};

static const struct {
    bool can;
    struct pilot_row row;
} table[PILOT_NSTATES][PILOT_NEVENTS] = {
#define ROW(from, event, to, acts) \
    [PILOT_##from][PILOT_ON_##event] = {true, {PILOT_##to, acts}}
    ROW(ASKED, PENDING, QUEUED, 0),
    ROW(ASKED, RUNS, HELD, 0),
    ROW(ASKED, OVER, GONE, FORGET | BAR),
    ROW(ASKED, MISSING, GONE, FORGET), /* asked for again */
    ROW(ASKED, REFUSED, GONE, FORGET | RESTART),
    ROW(ASKED, LATE, RETURNING, CANCEL | BAR),
    ROW(ASKED, UNWANTED, RETURNING, CANCEL),

    ROW(QUEUED, PENDING, QUEUED, 0),
    ROW(QUEUED, RUNS, HELD, 0),
    ROW(QUEUED, OVER, GONE, FORGET | BAR),
    ROW(QUEUED, MISSING, GONE, FORGET),
    ROW(QUEUED, LATE, RETURNING, CANCEL | BAR),
    ROW(QUEUED, REFUSED, RETURNING, CANCEL | RESTART),
    ROW(QUEUED, UNWANTED, RETURNING, CANCEL),

    ROW(HELD, PENDING, QUEUED, 0), /* a crashed controller revived it */
    ROW(HELD, RUNS, HELD, 0),
    ROW(HELD, OVER, GONE, FORGET | BAR),
    ROW(HELD, MISSING, GONE, FORGET),
    ROW(HELD, FILL, JOINING, 0),
    ROW(HELD, UNWANTED, RETURNING, CANCEL),

    /* Joiners that lost their allocation make the resize fail by themselves. */
    ROW(JOINING, PENDING, JOINING, 0),
    ROW(JOINING, RUNS, JOINING, 0),
    ROW(JOINING, OVER, JOINING, 0),
    ROW(JOINING, MISSING, JOINING, 0),
    ROW(JOINING, DONE, USED, 0),
    ROW(JOINING, FAILED, RETURNING, CANCEL),
    ROW(JOINING, UNWANTED, RETURNING, CANCEL),

    ROW(USED, PENDING, RETURNING, CANCEL | LOSE), /* revived, too */
    ROW(USED, RUNS, USED, 0),
    ROW(USED, OVER, GONE, FORGET | LOSE),
    ROW(USED, MISSING, GONE, FORGET | LOSE),
    ROW(USED, EMPTY, LEAVING, 0),
    ROW(USED, UNWANTED, RETURNING, CANCEL),

    ROW(LEAVING, PENDING, LEAVING, 0),
    ROW(LEAVING, RUNS, LEAVING, 0),
    ROW(LEAVING, OVER, LEAVING, 0),
    ROW(LEAVING, MISSING, LEAVING, 0),
    ROW(LEAVING, DONE, RETURNING, CANCEL),
    ROW(LEAVING, FAILED, USED, 0),
    ROW(LEAVING, UNWANTED, RETURNING, CANCEL),

    ROW(RETURNING, PENDING, RETURNING, CANCEL),
    ROW(RETURNING, RUNS, RETURNING, CANCEL),
    ROW(RETURNING, OVER, GONE, FORGET),
    ROW(RETURNING, MISSING, GONE, FORGET),
    ROW(RETURNING, REFUSED, GONE, FORGET),
    ROW(RETURNING, UNWANTED, RETURNING, 0),
#undef ROW
};

bool pilot_next(enum pilot_state state, enum pilot_event event,
                struct pilot_row *out)
{
    if ((unsigned)state >= PILOT_NSTATES || (unsigned)event >= PILOT_NEVENTS ||
        !table[state][event].can)
        return false;
    *out = table[state][event].row;
    return true;
}

const char *pilot_state_words(enum pilot_state state)
{
    static const char *const words[] = {
#define X(code, text) text,
        PILOT_STATE_MAP(X)
#undef X
    };
    return (unsigned)state < PILOT_NSTATES ? words[state] : "";
}

const char *pilot_event_words(enum pilot_event event)
{
    static const char *const words[] = {
#define X(code, text) text,
        PILOT_EVENT_MAP(X)
#undef X
    };
    return (unsigned)event < PILOT_NEVENTS ? words[event] : "";
}
