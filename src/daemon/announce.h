/* announce.h - tells users of ends, failures and preemptions by a command.
 *
 * A job asks for it by `notify: [end, failure, preemption]`; the operator's
 * `notify-command` is the program that sends the mail or calls the webhook. It
 * is run once for each such event, without a shell, as firnd's user, with the
 * facts in its environment:
 *
 *     FIRN_EVENT      end, failure or preemption
 *     FIRN_JOB        the number; FIRN_JOB_NAME, FIRN_JOB_USER, FIRN_JOB_STATE,
 *                     FIRN_JOB_WHY (a sentence), FIRN_JOB_STATUS (exit status)
 *     FIRN_MESSAGE    one line for people
 *
 * (1) firnd never waits for the command: it is a grandchild, which ends itself
 *     after ANNOUNCE_LIMIT_S by its alarm.
 * (2) At most ANNOUNCE_BURST commands are started at once and ANNOUNCE_RATE_S a
 *     second later on; others wait, ANNOUNCE_MOST at most, then they are
 * dropped and counted in the log. (3) A command is started after the event is
 * on disk. What waits when firnd ends is not sent: it is a courtesy, and the
 * events are the record.
 */
#ifndef DAEMON_ANNOUNCE_H
#define DAEMON_ANNOUNCE_H
#include "daemon/livejob.h"

enum {
    ANNOUNCE_LIMIT_S = 60,
    ANNOUNCE_BURST = 16,
    ANNOUNCE_RATE_S = 4,
    ANNOUNCE_MOST = 10000
};

struct announce;

struct announce *announce_new(void);
void announce_free(struct announce *announce);

/* The job has come to its present state: does it ask to be told of it? Then the
 * event waits for announce_turn(). `stopped`: its GPUs are taken by a decision
 * of the policy or the operator. */
void announce_state(struct announce *announce, const struct live_job *job,
                    bool stopped);
/* Starts commands of events that wait; without a command (NULL) forgets them.
 * Returns when to call it again, by `now_s`; INFINITY: nothing waits. */
double announce_turn(struct announce *announce, const char *command,
                     double now_s);
/* How many events wait. */
size_t announce_waiting(const struct announce *announce);

#endif
