/* cpus.c - see the header.
 *
 * Cost: O(processors), once for each attempt.
 */
#define _GNU_SOURCE
#include "launch/cpus.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number below CPUS_MOST; *text moves behind it. */
static bool read_one(const char **text, unsigned long *out)
{
    char *end = NULL;
    if (**text < '0' || **text > '9')
        return false;
    *out = strtoul(*text, &end, 10);
    *text = end;
    return *out < CPUS_MOST;
}

bool cpus_read(const char *text, struct cpus *out)
{
    bool seen[CPUS_MOST] = {false};
    out->n = 0;
    for (;;) {
        unsigned long first, last;
        if (!read_one(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!read_one(&text, &last) || last < first)
                return false;
        }
        for (unsigned long i = first; i <= last; i++) {
            if (seen[i])
                return false;
            seen[i] = true;
            out->at[out->n++] = (unsigned short)i;
        }
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

void cpus_here(struct cpus *out)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    out->n = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE && i < CPUS_MOST; i++)
        if (CPU_ISSET(i, &set))
            out->at[out->n++] = (unsigned short)i;
}

bool cpus_of_gpus(const struct cpus *all, uint64_t gpus, size_t per_gpu,
                  struct cpus *out)
{
    out->n = 0;
    for (size_t gpu = 0; gpu < 64; gpu++) {
        if (!(gpus >> gpu & 1))
            continue;
        if ((gpu + 1) * per_gpu > all->n)
            return false;
        for (size_t i = 0; i < per_gpu; i++)
            out->at[out->n++] = all->at[gpu * per_gpu + i];
    }
    return out->n > 0;
}

void cpus_write(const struct cpus *cpus, char out[CPUS_TEXT])
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < cpus->n && used + 8 < CPUS_TEXT; i++)
        used += (size_t)snprintf(out + used, CPUS_TEXT - used, "%s%u",
                                 i > 0 ? "," : "", cpus->at[i]);
}
