/* abilities.h - what a live job's trainer can do (firn/can.h).
 */
#ifndef DAEMON_ABILITIES_H
#define DAEMON_ABILITIES_H
#include "daemon/livejob.h"

/* Where the answer comes from. */
enum abilities_from {
    ABILITIES_IMPLIED,  /* by other keys of the job file */
    ABILITIES_DECLARED, /* `can` of the job file */
    ABILITIES_REPORTED, /* by the trainer */
};
/* "implied", "declared", "reported". */
const char *abilities_from_name(enum abilities_from from);

/* FIRN_CAN_* by the job file alone: `can`, or what the other keys imply. */
unsigned abilities_asked(const struct live_ask *ask);

/* The same of a job; a report of its trainer counts, within `can`. `from` may
 * be NULL. */
unsigned abilities_of(const struct live_job *job, enum abilities_from *from);

#endif
