/* livepatience.c - how long commands wait for a firnd that is restarting.
 *
 * One minute, enough for an upgrade, counted from the last contact. For a
 * stream that is the moment when it broke, not its last byte: a job may print
 * nothing for hours.
 */
#include "cli/livepatience.h"

static const double away_s = 60;

bool live_should_retry(double *contact_s, enum firn_status status,
                       bool was_answered, double now_s)
{
    if (status == FIRN_OK || was_answered)
        *contact_s = now_s;
    return status == FIRN_OK ||
           (status == FIRN_EIO && now_s - *contact_s <= away_s);
}
