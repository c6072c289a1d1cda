/* mergekey.h - what two jobs must have in common to be trained together.
 *
 * Two co-trained jobs have one set of processes: one program, started by one
 * user in one folder with one environment. These make up the merge key of a job
 * (firn_job_spec.merge_key): no policy trains jobs with different keys
 * together.
 */
#ifndef DAEMON_MERGEKEY_H
#define DAEMON_MERGEKEY_H
#include "daemon/livejob.h"
#include <firn/bytes.h>

/* Appends the key. `id` is part of it if the job has no `workdir`, because it
 * then runs in a folder of its own. */
void mergekey_text(const struct live_ask *ask, firn_job_id id,
                   struct firn_buf *out);

/* Appends the first difference, "env differs: SEED", without its values. False:
 * there is none. */
bool mergekey_differs(const struct live_job *a, const struct live_job *b,
                      struct firn_buf *out);

/* Do both run the same program, as far as their commands tell? A program that
 * runs another (python3, sh, env) counts with what it runs. */
bool mergekey_same_program(const struct live_ask *a, const struct live_ask *b);

#endif
