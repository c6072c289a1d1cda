/* range.c - one sentence for a number outside of its range. */
#include "model/range.h"

enum firn_status range_check(const char *what, long value, long min, long max,
                             struct firn_error *err)
{
    if (value >= min && value <= max)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "%s is %ld; %ld to %ld are possible",
                     what, value, min, max);
}
