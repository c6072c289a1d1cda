/* report.h - a trainer's reports to the scheduler, and the orders in reply.
 *
 * A report is a small JSON object posted to FIRN_URL/jobs/FIRN_JOB/reports with
 * "Authorization: Bearer FIRN_TOKEN" and "Firn-Attempt: FIRN_ATTEMPT" (and once
 * more as Firn-Epoch, the older name); the reply holds the orders. FIRN_URL is
 * http://..., https://... or unix:/path of a socket; proxies are not used.
 * Training never waits: reports are put into a bounded queue and sent by a
 * thread of their own; when the scheduler is away, the newest report of each
 * kind is kept, the rest are counted and dropped, and sending is tried again
 * with growing pauses. With no FIRN_URL, or in a build without libcurl,
 * everything works and nothing is sent.
 *
 * SIGUSR1 asks for "checkpoint and exit at the next boundary" and needs no
 * scheduler; a trainer that did so exits with FIRN_EXIT_CHECKPOINT. The handler
 * that was there before is called as well, and put back at the end.
 *
 * Safe to use from several threads. A child made by fork() has no reporter: it
 * may close its copy, which does nothing, and open one of its own.
 */
#ifndef FIRN_REPORT_H
#define FIRN_REPORT_H
#include <firn/message.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

/* The exit status of a trainer that stopped as ordered. EX_TEMPFAIL is 75 and
 * timeout(1) exits with 124; 83 has no other meaning. */
enum { FIRN_EXIT_CHECKPOINT = 83 };

struct firn_reporter;
struct firn_reporter_config {
    const char *url, *job, *token; /* NULL: FIRN_URL, FIRN_JOB, FIRN_TOKEN */
    int64_t attempt;               /* negative: FIRN_ATTEMPT, else 0 */
    double pause_max_s;            /* between tries; 0: 30. A try itself lasts
                                      up to 10 s, or four such pauses if that
                                      is less, but not below 1 s */
    bool catch_signal;             /* SIGUSR1, as above */
};
/* `config` may be NULL: all by the environment, signal caught. */
FIRN_API enum firn_status
firn_reporter_open(struct firn_reporter **out,
                   const struct firn_reporter_config *config,
                   struct firn_error *err);
/* Tries for at most `wait_s` to send what is left, for a fifth of that when the
 * scheduler is away. From half of it on only the newest of each kind are sent.
 */
FIRN_API void firn_reporter_close(struct firn_reporter *reporter,
                                  double wait_s);

/* Queues a copy; never waits. FIRN_EINVAL names a number that is not finite or
 * says that there are more than FIRN_MESSAGE_LAYERS layers. */
FIRN_API enum firn_status
firn_reporter_say(struct firn_reporter *reporter,
                  const struct firn_trainer_report *report,
                  struct firn_error *err);
/* The latest orders, each as the last reply that mentioned it had it, with
 * SIGUSR1 since open() counted as `stop`. Cheap. */
FIRN_API struct firn_orders
firn_reporter_orders(struct firn_reporter *reporter);
/* Reports taken by the scheduler, reports that never will be, tries that
 * failed. */
FIRN_API void firn_reporter_counts(struct firn_reporter *reporter,
                                   uint64_t *nsent, uint64_t *ndropped,
                                   uint64_t *nfailed);
/* Seconds since this process was started, or since it got its GPUs if it was
 * prepared before (firn/ahead.h); negative: not known. */
FIRN_API double firn_process_age_s(void);
/* Can this build send at all? */
FIRN_API bool firn_reporter_can_send(void);

FIRN_C_END

#endif
