/* clock.c - processor time of the whole process, all threads; and a clock that
 * only ever goes forward.
 */
#include "base/clock.h"
#include <time.h>

static double read_s(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_cpu_s(void)
{
    return read_s(CLOCK_PROCESS_CPUTIME_ID);
}

double clock_elapsed_s(void)
{
    return read_s(CLOCK_MONOTONIC);
}
