/* after.h - jobs that start after others have ended: "ok:12,any:13".
 *
 *     ok:JOB     the job has succeeded
 *     fail:JOB   it has ended otherwise: failed, cancelled, lost
 *     any:JOB    it has ended
 *
 * All of them must hold. A job that waits so is held (is_held) with this text
 * in its ask; firnd releases it when all hold, and cancels it when one cannot
 * hold any more. JOB is a number here; a submit may name the job, and
 * book_find() finds the number.
 */
#ifndef DAEMON_AFTER_H
#define DAEMON_AFTER_H
#include "daemon/book.h"

enum after_verdict { AFTER_READY, AFTER_WAITS, AFTER_NEVER };

/* Replaces names by numbers in `text`, into `out`. FIRN_EINVAL: it is no such
 * list; FIRN_ENOENT: there is no such job. */
enum firn_status after_resolve(struct book *book, const char *text,
                               struct firn_buf *out, struct firn_error *err);
/* Looks at the jobs of a resolved text. `why` gets a sentence: what it waits
 * for, or what cannot hold any more. A job that is not known any more has not
 * succeeded. */
enum after_verdict after_judge(struct book *book, const char *text,
                               char why[LIVE_TEXT]);

#endif
