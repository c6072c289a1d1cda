/* peakrows.h - rows of profiles/h200/modern_memory.csv as jobs of firn/peak.h.
 *
 * The table has trainings of models cut to some layers; the configs of the
 * models are in bench/gpu/configs. Run from the root of the tree.
 */
#ifndef LIB_PEAKROWS_H
#define LIB_PEAKROWS_H
#include <firn/peak.h>
#include <stddef.h>

enum { PEAKROWS_MAX = 512 };

struct peakrow {
    struct firn_peak_job job; /* checked */
    char model[32], family[32], mode[8], optimizer[16];
    bool is_held; /* not to be fitted to */
    int repeat;   /* 1: measured again */
    double params, trained;
    double alloc_mib, reserved_mib, static_mib;
};

/* Reads at most PEAKROWS_MAX rows of the file; the number of rows, or 0 with
 * a message on stderr when a row cannot be read. */
size_t peakrows_read(struct peakrow *rows, const char *path);

#endif
