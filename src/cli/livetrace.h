/* livetrace.h - fetches the job history of firnd as a trace.
 */
#ifndef CLI_LIVETRACE_H
#define CLI_LIVETRACE_H
#include "cli/live.h"

/* Writes to `path`, or to standard output if NULL. `last_s` above 0: only jobs
 * submitted in the last `last_s` seconds. The file is opened when the first
 * bytes arrive, so that an earlier failure leaves an existing file unchanged.
 * `has_costs`: durations are of the training alone, and restart costs as
 * measured. Sets
 * `*njobs`, unless NULL, to the number of rows. */
enum firn_status live_trace_write(struct live *live, const char *path,
                                  double last_s, bool has_costs, size_t *njobs,
                                  struct firn_error *err);

#endif
