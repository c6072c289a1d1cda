/* peakrows.h - rows of profiles/h200/modern_memory.csv as jobs of firn/peak.h.
 *
 * The table has trainings of models cut to some layers; the configs of the
 * models are in bench/gpu/configs. Run from the root of the tree.
 */
#ifndef LIB_PEAKROWS_H
#define LIB_PEAKROWS_H
#include "model/peakterms.h"
#include <stddef.h>

enum { PEAKROWS_MAX = 1024 };

struct peakrow {
    struct firn_peak_job job; /* checked */
    char model[32], family[32], mode[12], optimizer[16];
    bool is_held; /* not to be fitted to */
    int repeat;   /* 1: measured again */
    double params, trained;
    double alloc_mib, reserved_mib, static_mib;
};

/* Reads at most PEAKROWS_MAX rows of the file; the number of rows, or 0 with
 * a message on stderr when a row cannot be read. */
size_t peakrows_read(struct peakrow *rows, const char *path);

/* Both tables of the repository, modern_memory.csv and quant_memory.csv, their
 * rows held back among them as if none were; the number of rows. */
size_t peakrows_read_all(struct peakrow *rows);

/* The constants that fit the rows of the part `fit` of all families but
 * `left_out` (NULL: of all). The workspace is the median of what is measured
 * and not counted; the spread is the largest error, rounded up to whole
 * percents; the shares of idle memory are least squares. */
struct peak_constants peakrows_fit(const struct peakrow *rows, size_t n,
                                   const char *left_out);

/* How right predictions are. `right` is 1 - |expected / measured - 1|. */
struct peakrows_score {
    int n, above; /* rows; peaks above `high` */
    int reserved_above;
    double median, worst;
    double width; /* the largest of (high - low) / expected */
};

/* Of the rows of one part and, unless it is NULL, one family. With
 * `leaves_out` each family is predicted with constants that were fitted
 * without it. */
struct peakrows_score peakrows_judge(const struct peakrow *rows, size_t n,
                                     bool is_held, const char *family,
                                     bool leaves_out);

#endif
