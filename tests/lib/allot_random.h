/* allot_random.h - allotment problems like those of a cluster in mid-day.
 *
 * Rows are data-parallel jobs with random step times, noise scales, ages and
 * limits; columns are nodes of 4 GPUs. One row in twenty is new, the others
 * have had their shares before.
 */
#ifndef LIB_ALLOT_RANDOM_H
#define LIB_ALLOT_RANDOM_H
#include "base/arena.h"
#include "math/allot.h"

struct allot_case {
    struct allot_problem problem;
    struct arena arena;
    struct allot_row *row;
    struct allot_model *model; /* [rows] */
};

/* The caller releases it. */
void allot_case_draw(struct allot_case *out, int rows, int cols, uint64_t seed);
void allot_case_release(struct allot_case *it);

#endif
