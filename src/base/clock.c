/* clock.c - processor time of the whole process, all threads.
 */
#include "base/clock.h"
#include <time.h>

double clock_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
