/* livetrace.h - the daemon's history, fetched as a trace.
 */
#ifndef CLI_LIVETRACE_H
#define CLI_LIVETRACE_H
#include "cli/live.h"

/* Into `path`, or to standard output when that is NULL. `last_s` above 0: only
 * jobs that came so many seconds ago or later. The file is made when the first
 * bytes have come, so that a failure before leaves what was there. `njobs`, if
 * not NULL: rows of it. */
enum firn_status live_trace_write(struct live *live, const char *path,
                                  double last_s, size_t *njobs,
                                  struct firn_error *err);

#endif
