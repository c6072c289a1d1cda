/* mergekey.h - what a job that is trained by another one's processes cannot
 * have of its own.
 *
 * Two jobs in one training have one set of processes: one program, started by
 * one user in one folder with one environment. What of that a job asks for is
 * its merge key (firn_job_spec.merge_key): jobs with different keys are never
 * trained together, by any policy.
 */
#ifndef DAEMON_MERGEKEY_H
#define DAEMON_MERGEKEY_H
#include "daemon/livejob.h"
#include <firn/bytes.h>

/* Appends the key; equal for two jobs exactly when nothing of it differs. `id`
 * is the job's, for without `workdir` it runs in a folder of its own. */
void mergekey_text(const struct live_ask *ask, firn_job_id id,
                   struct firn_buf *out);

/* Appends the first thing that differs, "env differs: SEED". False: nothing
 * does. Values are not told. */
bool mergekey_differs(const struct live_job *a, const struct live_job *b,
                      struct firn_buf *out);

/* Do both run the same program, as far as their commands tell? A program that
 * runs another (python3, sh, env) counts with what it runs. */
bool mergekey_same_program(const struct live_ask *a, const struct live_ask *b);

#endif
