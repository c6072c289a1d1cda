/* fdlimit.c - raises the limit, restores it for children, divides it.
 *
 * posix_spawn() cannot set limits, so this process has the former limit while a
 * program is started. Descriptors above it stay open and usable meanwhile; only
 * new ones fail.
 */
#include "base/fdlimit.h"
#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit usual, raised;
static bool is_raised;

void fdlimit_raise(void)
{
    if (is_raised || getrlimit(RLIMIT_NOFILE, &usual) != 0)
        return;
    raised = usual;
    raised.rlim_cur = usual.rlim_max;
    is_raised = setrlimit(RLIMIT_NOFILE, &raised) == 0;
}

unsigned fdlimit_http_share(unsigned most, unsigned nservers)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) != 0 || nservers == 0)
        return 1;
    rlim_t reserve = now.rlim_cur / 2;
    if (reserve > FDLIMIT_RESERVE)
        reserve = FDLIMIT_RESERVE;
    rlim_t share = (now.rlim_cur - reserve) / FDLIMIT_PER_CONNECTION / nservers;
    if (share > most)
        return most;
    return share > 0 ? (unsigned)share : 1;
}

void fdlimit_child_begin(void)
{
    if (is_raised)
        setrlimit(RLIMIT_NOFILE, &usual);
}

void fdlimit_child_end(void)
{
    if (is_raised)
        setrlimit(RLIMIT_NOFILE, &raised);
}
