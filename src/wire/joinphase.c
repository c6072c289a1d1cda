/* joinphase.c - the table of a resize without a stop: phase x event -> what
 * follows.
 *
 *   IDLE -order-> PREPARING -ready-> SWITCHING -commit-> DONE -cleared-> IDLE
 *                     |                  |
 *                     +------ fault -----+--> FAILED -cleared-> IDLE
 *
 * Invariants, which tests/wire/test_join.c checks over all combinations:
 * (1) before the commit every fault that leaves the old group whole leads to
 *     FAILED, whose action is that the old layout trains on;
 * (2) DONE is reached by a commit in SWITCHING only;
 * (3) a lost process of the group that trains always ends the attempt: its job
 *     resumes from the last checkpoint, so no bits of a broken group count;
 * (4) from every phase but BROKEN a sequence of events leads back to IDLE.
 */
#include "wire/join.h"

enum {
    OVER = FIRN_JOIN_DO_KEEP | FIRN_JOIN_DO_END_NEW | FIRN_JOIN_DO_TELL,
    SWAP = FIRN_JOIN_DO_SWAP | FIRN_JOIN_DO_END_OLD | FIRN_JOIN_DO_TELL,
    BREAK = FIRN_JOIN_DO_END_NEW | FIRN_JOIN_DO_RESUME
};

struct entry {
    struct firn_join_row row;
    bool is_there; /* else the event cannot happen in the phase */
};

#define ROW(phase, event, next, acts) \
    [FIRN_JOIN_##                     \
        phase][FIRN_JOIN_ON_##event] = {{FIRN_JOIN_##next, (acts)}, true}

/* clang-format off */
static const struct entry table[FIRN_JOIN_NPHASES][FIRN_JOIN_NEVENTS] = {
    ROW(IDLE, ORDER, PREPARING, FIRN_JOIN_DO_START),
    ROW(IDLE, MEMBER_LOST, BROKEN, BREAK),

    ROW(PREPARING, READY, SWITCHING, FIRN_JOIN_DO_MOVE),
    ROW(PREPARING, JOINER_LOST, FAILED, OVER),
    ROW(PREPARING, LATE, FAILED, OVER),
    ROW(PREPARING, WITHDRAWN, FAILED, OVER),
    ROW(PREPARING, MEMBER_LOST, BROKEN, BREAK),

    ROW(SWITCHING, COMMIT, DONE, SWAP),
    ROW(SWITCHING, JOINER_LOST, FAILED, OVER),
    ROW(SWITCHING, LATE, FAILED, OVER),
    ROW(SWITCHING, WITHDRAWN, FAILED, OVER),
    ROW(SWITCHING, REFUSED, FAILED, OVER),
    ROW(SWITCHING, MEMBER_LOST, BROKEN, BREAK),

    ROW(DONE, CLEARED, IDLE, 0),
    ROW(DONE, MEMBER_LOST, BROKEN, BREAK),
    ROW(FAILED, CLEARED, IDLE, 0),
    ROW(FAILED, MEMBER_LOST, BROKEN, BREAK),
};
/* clang-format on */

bool firn_join_next(enum firn_join_phase phase, enum firn_join_event event,
                    struct firn_join_row *out)
{
    if ((unsigned)phase >= FIRN_JOIN_NPHASES ||
        (unsigned)event >= FIRN_JOIN_NEVENTS || !table[phase][event].is_there)
        return false;
    *out = table[phase][event].row;
    return true;
}

const char *firn_join_phase_words(enum firn_join_phase phase)
{
    static const char *const words[] = {
#define X(code, words) words,
        FIRN_JOIN_PHASE_MAP(X)
#undef X
    };
    return (unsigned)phase < FIRN_JOIN_NPHASES ? words[phase] : "?";
}

const char *firn_join_event_words(enum firn_join_event event)
{
    static const char *const words[] = {
#define X(code, words) words,
        FIRN_JOIN_EVENT_MAP(X)
#undef X
    };
    return (unsigned)event < FIRN_JOIN_NEVENTS ? words[event] : "?";
}
