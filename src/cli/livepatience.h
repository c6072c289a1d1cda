/* livepatience.h - how long a daemon that was there may be away.
 */
#ifndef CLI_LIVEPATIENCE_H
#define CLI_LIVEPATIENCE_H
#include <firn/status.h>
#include <stdbool.h>

/* A question to the daemon, or a stream of it, ended with that status at
 * `now_s`; `was_heard`: it had answered, and a stream broke off behind that.
 * True: to be asked again. `*heard_s`, at first the time of the beginning, is
 * when it was last there. */
bool live_bears(double *heard_s, enum firn_status status, bool was_heard,
                double now_s);

#endif
