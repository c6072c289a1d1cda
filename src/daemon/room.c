/* room.c - the table of room.h: what a full disk leads to.
 *
 * (1) The reserve is given up at most once on the way down: only AMPLE and LOW
 * have the action, and both lead to SPENT. It is given up when a write fails,
 * and also when no space is left for the files by which jobs tell their ends.
 * (2) A write that fails is tried at once only behind giving up the reserve;
 * else after a delay, so no cell leads to a loop without an end. (3) FULL is
 * left by one event alone, a commit that is on disk: free space that is only
 * seen proves nothing (quotas, EIO). (4) AMPLE is reached from SPENT by one
 * event alone, a reserve that was made, which is the proof that there is room.
 * (5) In AMPLE and LOW the reserve is held, or was never asked for.
 */
#include "daemon/room.h"

#define GO(to, ...)            \
    {                          \
        ROOM_##to, __VA_ARGS__ \
    }

static const struct room_step table[ROOM_N][ROOM_EVENT_N] =
    {
        [ROOM_AMPLE] =
            {
                [ROOM_SAW_NONE] = GO(SPENT, ROOM_GIVE_UP),
                [ROOM_SAW_LITTLE] = GO(LOW, 0),
                [ROOM_SAW_ENOUGH] = GO(AMPLE, 0),
                [ROOM_WRITE_FAILED] = GO(SPENT, ROOM_GIVE_UP | ROOM_RETRY),
                [ROOM_WROTE] = GO(AMPLE, 0),
                [ROOM_MADE_RESERVE] = GO(AMPLE, 0),
                [ROOM_NO_RESERVE] = GO(SPENT, 0),
            },
        [ROOM_LOW] =
            {
                [ROOM_SAW_NONE] = GO(SPENT, ROOM_GIVE_UP),
                [ROOM_SAW_LITTLE] = GO(LOW, 0),
                [ROOM_SAW_ENOUGH] = GO(AMPLE, 0),
                [ROOM_WRITE_FAILED] = GO(SPENT, ROOM_GIVE_UP | ROOM_RETRY),
                [ROOM_WROTE] = GO(LOW, 0),
                [ROOM_MADE_RESERVE] = GO(LOW, 0),
                [ROOM_NO_RESERVE] = GO(SPENT, 0),
            },
        [ROOM_SPENT] =
            {
                [ROOM_SAW_NONE] = GO(SPENT, 0),
                [ROOM_SAW_LITTLE] = GO(SPENT, 0),
                [ROOM_SAW_ENOUGH] = GO(SPENT, ROOM_MAKE),
                [ROOM_WRITE_FAILED] = GO(FULL, ROOM_RETRY_LATER),
                [ROOM_WROTE] = GO(SPENT, 0),
                [ROOM_MADE_RESERVE] = GO(AMPLE, 0),
                [ROOM_NO_RESERVE] = GO(SPENT, 0),
            },
        [ROOM_FULL] =
            {
                [ROOM_SAW_NONE] = GO(FULL, 0),
                [ROOM_SAW_LITTLE] = GO(FULL, 0),
                [ROOM_SAW_ENOUGH] = GO(FULL, 0),
                [ROOM_WRITE_FAILED] = GO(FULL, ROOM_RETRY_LATER),
                [ROOM_WROTE] = GO(SPENT, 0),
                [ROOM_MADE_RESERVE] = GO(FULL, 0),
                [ROOM_NO_RESERVE] = GO(FULL, 0),
            },
};

struct room_step room_on(enum room room, enum room_event event)
{
    return table[room][event];
}

const char *room_name(enum room room)
{
    static const char *const names[ROOM_N] = {"ample", "low", "spent", "full"};
    return names[room];
}
