/* allot.h - rows that share columns: how many each gets, and where.
 *
 * A matrix of small counts: row i has count c_ij in column j. The sum of a
 * column is at most its room; the sum of a row is 0 or between its least and
 * most; all counts of a row are in columns of one group. The value of a row
 * depends on its sum and on how many columns it is spread over, and is reduced
 * when the row differs from its present state. Sought is the matrix with the
 * largest
 *
 *     fitness = ( 1/rows  sum_i (u_i + offset)^power )^(1/power)
 *     u_i     = value_i(group, columns, sum) x (1, or change_i when row i
 *               differs from `now`)
 *
 * the generalised mean: power 1 is the plain one, 0 stands for the geometric,
 * -1 is the harmonic, under which no row starves.
 *
 * Deterministic: the same problem and seed give the same matrix. Work is
 * bounded by a count, not by a clock.
 */
#ifndef MATH_ALLOT_H
#define MATH_ALLOT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

enum {
    ALLOT_GROUPS = 32,
    ALLOT_SPREAD = 16, /* rows over more columns than this are valued as if
                        * over as few as possible */
};

struct allot_cell {
    int col, count; /* count >= 1 */
};

/* A row: its cells, by column. n 0: nothing. */
struct allot_cells {
    const struct allot_cell *at;
    int n;
};

struct allot_row {
    int least, most;        /* 1 <= least <= most */
    uint32_t groups;        /* bit per group it may use */
    double change;          /* 0..1 */
    struct allot_cells now; /* present cells; may be outside the bounds */
};

struct allot_problem {
    int rows, cols;
    const struct allot_row *row; /* [rows] */
    const int *room;             /* [cols], >= 0 */
    const int *group;            /* [cols], 0..ALLOT_GROUPS - 1 */
    /* >= 0 and finite; pure. Called at most once for each set of arguments. */
    double (*value)(void *ctx, int row, int group, int cols, int sum);
    void *ctx;
    double power, offset; /* offset > 0 */
    bool one_spread;      /* at most one row in a column is spread over several
                           * columns */
    uint64_t seed;
    int effort;    /* the search ends after effort x rows tries without success;
                    * 0: no search after the start */
    long max_work; /* rows looked at; 0: no bound */
};

struct allot_answer {
    struct allot_cells *row; /* [rows], in `scratch` */
    double fitness;
    long work; /* rows looked at */
    int tries; /* rebuilds tried */
};

/* Everything is borrowed; scratch memory comes from the arena. About 0.3 us a
 * row looked at. */
struct allot_answer allot_run(const struct allot_problem *problem,
                              struct arena *scratch);

/* The fitness of any matrix, which need not keep to the bounds; [rows]. */
double allot_fitness(const struct allot_problem *problem,
                     const struct allot_cells *row);

#endif
