/* livepatience.h - how long commands wait for a firnd that is restarting.
 */
#ifndef CLI_LIVEPATIENCE_H
#define CLI_LIVEPATIENCE_H
#include <firn/status.h>
#include <stdbool.h>

/* Should a request that ended with `status` at `now_s` be repeated?
 * `was_answered`: firnd had answered and the stream broke later. `*contact_s`
 * is the time of the last contact; the caller sets it to the time of the start.
 */
bool live_should_retry(double *contact_s, enum firn_status status,
                       bool was_answered, double now_s);

#endif
