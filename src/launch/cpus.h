/* cpus.h - lists of processors, such as "0-7,16": read, cut and written.
 *
 * Of a list with the processors of GPU 0 first, then those of GPU 1 and so on,
 * a job gets those of its GPUs. No state: two jobs on different GPUs never have
 * a processor in common, and a restart of the launcher changes nothing.
 */
#ifndef LAUNCH_CPUS_H
#define LAUNCH_CPUS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPUS_MOST = 1024, CPUS_TEXT = 4096 };

struct cpus {
    size_t n;
    unsigned short at[CPUS_MOST]; /* in the order of the list */
};

/* "0-7,16": false if it is no such list, or names a processor twice. */
bool cpus_read(const char *text, struct cpus *out);
/* Those on which this process may run. */
void cpus_here(struct cpus *out);
/* `per_gpu` processors of the list for each GPU in `gpus` (bit i: GPU i).
 * False: the list is too short for one of them. */
bool cpus_of_gpus(const struct cpus *all, uint64_t gpus, size_t per_gpu,
                  struct cpus *out);
/* As the kernel reads it. */
void cpus_write(const struct cpus *cpus, char out[CPUS_TEXT]);

#endif
