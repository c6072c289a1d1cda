/* plain_nsga.h - the genetic search of the Pollux paper, written plainly.
 *
 * NSGA-II over whole matrices (Deb et al., IEEE TEVC 6, 2002) with the
 * operators of the Pollux artifact: what math/allot.h is measured against, and
 * as slow as it looks. Two objectives, both to be large: the fitness, and the
 * utility, sum of values / room of the columns in use. The answer is the best
 * fitness of the first front.
 *
 * Rows are dense: rows x cols counts. Groups are not known here.
 */
#ifndef LIB_PLAIN_NSGA_H
#define LIB_PLAIN_NSGA_H
#include "base/rng.h"
#include "math/allot.h"

struct nsga_score {
    double fitness, utility;
};

struct nsga {
    const struct allot_problem *problem;
    struct rng rng;
    int population, generations;
    long evals;
};

/* Both objectives of a matrix. */
struct nsga_score nsga_score(const struct allot_problem *problem,
                             const int *matrix);

/* Makes a matrix keep to the bounds: spread rows give way on shared columns in
 * the order of rows, rows are cut at `most` in a random order of columns,
 * columns at their room in the order of rows. */
void nsga_repair(struct nsga *nsga, int *matrix);

/* Runs from `nstart` matrices (0: from the matrix as it is), one after the
 * other in `start`, and writes the best into `out`; returns its score. The
 * first front is handed to `keep`, if not NULL. */
struct nsga_score nsga_run(struct nsga *nsga, const int *start, int nstart,
                           int *out, void (*keep)(void *arg, const int *matrix),
                           void *arg);

#endif
