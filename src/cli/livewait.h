/* livewait.h - a job followed to its end.
 */
#ifndef CLI_LIVEWAIT_H
#define CLI_LIVEWAIT_H
#include "cli/live.h"

/* Returns when the job is over; each new state is said on standard error. The
 * exit status: the job's own (livejobs.h), 1 when the daemon stays away, 130
 * when interrupted. `*job` is what was last heard, to be given back. */
int live_wait(struct live *live, long long id, json_t **job);

#endif
