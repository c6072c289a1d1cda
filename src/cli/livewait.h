/* livewait.h - waits for the end of a job.
 */
#ifndef CLI_LIVEWAIT_H
#define CLI_LIVEWAIT_H
#include "cli/live.h"

/* Waits until the job has ended and prints each new state on standard error.
 * Returns the exit status: the job's (livejobs.h), 1 if firnd does not answer,
 * 130 if interrupted. Sets `*job` to the last answer, owned by the caller. */
int live_wait(struct live *live, long long id, json_t **job);

#endif
