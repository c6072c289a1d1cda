/* room.h - how much room the state's disk has, as a table of states and events.
 *
 * Pure: it reads no file. store_room.c sees the events and carries out the
 * actions; tests/daemon/test_room.c walks every cell.
 *
 *     AMPLE   there is room: jobs are taken and started
 *     LOW     little room is left, the reserve file is still held
 *     SPENT   the reserve file was given up; writes succeed
 *     FULL    writes fail: changes wait in memory and are tried again
 *
 * In every state but AMPLE no new job is taken and no job is started; in all
 * states jobs are shown and cancelled, and finished jobs are noticed.
 */
#ifndef DAEMON_ROOM_H
#define DAEMON_ROOM_H

enum room { ROOM_AMPLE, ROOM_LOW, ROOM_SPENT, ROOM_FULL, ROOM_N };

enum room_event {
    ROOM_SAW_NONE,     /* hardly any space is free */
    ROOM_SAW_LITTLE,   /* the free space is under the low mark */
    ROOM_SAW_ENOUGH,   /* it is above the high mark */
    ROOM_WRITE_FAILED, /* a change or a commit could not be written */
    ROOM_WROTE,        /* a commit is on disk */
    ROOM_MADE_RESERVE,
    ROOM_NO_RESERVE, /* it could not be made */
    ROOM_EVENT_N
};

/* Bits. */
enum room_action {
    ROOM_GIVE_UP = 1,     /* delete the reserve file */
    ROOM_RETRY = 2,       /* write the pending changes once more, now */
    ROOM_RETRY_LATER = 4, /* the same after a delay that doubles */
    ROOM_MAKE = 8         /* make the reserve file again */
};

struct room_step {
    enum room next;
    unsigned actions;
};

/* What follows when `event` is seen in state `room`. */
struct room_step room_on(enum room room, enum room_event event);
/* "ample", "low", "spent", "full". */
const char *room_name(enum room room);

#endif
