/* livepatience.c - how long a daemon that was there may be away.
 *
 * A scheduler that is started anew is back in seconds, or in a minute where
 * somebody upgrades it; who follows a job or a log waits for that long. Counted
 * from when the daemon was last there, which for a stream is the moment that it
 * broke off, not that of its last byte: a job may print nothing for hours.
 */
#include "cli/livepatience.h"

static const double away_s = 60;

bool live_bears(double *heard_s, enum firn_status status, bool was_heard,
                double now_s)
{
    if (status == FIRN_OK || was_heard)
        *heard_s = now_s;
    return status == FIRN_OK ||
           (status == FIRN_EIO && now_s - *heard_s <= away_s);
}
