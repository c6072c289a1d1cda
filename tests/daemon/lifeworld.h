/* lifeworld.h - a model of the rest of the world around jobs' lives.
 *
 * One job, or two that may be partners, with what the round and the engine have
 * of them. A move is one thing that a user, the policy, the engine or foreign
 * processes do, or a restart of firnd; it becomes events of life.h, whose
 * actions change the model. Everything that goes wrong fails the test.
 */
#ifndef TESTS_DAEMON_LIFEWORLD_H
#define TESTS_DAEMON_LIFEWORLD_H
#include "daemon/life.h"

enum { GONE, QUEUED, BEGUN, ACTIVE, LEAVING };       /* the engine's phases */
enum { OWES_NONE, OWES_LEFT, OWES_LATE, OWES_FAIL }; /* by the engine */

/* A job and what the round and the engine have of it. */
struct sim {
    uint8_t state, reason, phase, owes;
    bool held, ending, lone;
    bool inbox, rigid, checkpoints;
    bool tells; /* the engine is to report that its processes run */
    bool in_round, granted, pinned, later, never, watched;
    bool wants; /* the engine is to start it, again if it is leaving */
    bool open;  /* its attempt has no end yet */
};

struct world {
    struct sim job[2]; /* the lead, or a job alone; the partner */
    bool is_pair;
    bool merged;  /* the round wants the two in one training */
    bool with;    /* they are: their attempts are open together */
    bool is_tiny; /* the cluster has no GPUs for it */
};

enum { USER = 7, POLICY = 10, ENGINE = 24, PER_JOB = USER + POLICY + ENGINE };
enum { MOVES = 2 * PER_JOB + 2 };

enum kind { PLAIN, RESTARTS, RIGID, INBOX, TINY, PAIR };

struct world world_newborn(enum kind kind);
/* False: that cannot happen in this world. The partner is looked at behind each
 * move, as it is behind each round. */
bool world_move(struct world *w, int choice);
/* Is this move one of the engine's? */
bool world_is_engine(int choice);
bool sim_is_over(const struct sim *s);
/* The world and the events that led to it, for messages. */
const char *world_show(const struct world *w);

/* Lines of the table that were used so far. */
enum { WORLD_ROWS = 512 };
extern unsigned char world_rows[WORLD_ROWS];

/* The states that a state became, and by which events: a bit each. */
enum { LIFEWORLD_STATES = LIVE_LOST + 1 };
extern uint64_t world_changes[LIFEWORLD_STATES][LIFEWORLD_STATES];

/* Behind all moves: docs/jobs.md is as the table and the model have it. */
void lifedoc_check(void);

#endif
