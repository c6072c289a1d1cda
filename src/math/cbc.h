/* cbc.h - small mixed-integer programs, solved by COIN-OR's program `cbc`.
 *
 * `cbc` is started as a child process with a deadline. Its answer is not
 * trusted: it is checked against the problem's bounds, rows and integrality,
 * and its objective is added up again. Every failure is an answer (enum
 * cbc_answer), never an error and never a hang, so a caller tries it and falls
 * back on a method of its own. The caller's struct counts the answers.
 *
 * It may be called only while the process has a single thread: signals and
 * children belong to the whole process. A call takes about 20 ms for the
 * process alone.
 */
#ifndef MATH_CBC_H
#define MATH_CBC_H
#include "base/arena.h"
#include <stdbool.h>

/* A variable, times `cost` in the objective, from lower to upper (which may be
 * infinite). */
struct milp_col {
    double cost, lower, upper;
    bool is_integer;
};

struct milp_term {
    int col;
    double factor;
};

/* lower <= sum of factor * column <= upper; either may be infinite. A column
 * appears at most once in a row. */
struct milp_row {
    double lower, upper;
    const struct milp_term *terms;
    int nterms;
};

/* Minimise the sum of cost * column. */
struct milp {
    const struct milp_col *cols;
    int ncols;
    const struct milp_row *rows;
    int nrows;
};

/* Is `x` a solution? Bounds and rows hold to 1e-6 of their size and integers
 * are whole numbers. */
bool milp_holds(const struct milp *problem, const double *x);
/* The objective at `x`. */
double milp_value(const struct milp *problem, const double *x);

enum cbc_answer {
    CBC_SOLVED,     /* an optimum within the gap; checked */
    CBC_INFEASIBLE, /* cbc reports no solution, or an unbounded problem */
    CBC_MISSING,    /* the program is missing or cannot be started */
    CBC_CRASHED,    /* ended by a signal or with a failing status */
    CBC_GARBLED,    /* its answer cannot be read, or there is none */
    CBC_LIED,       /* not a solution, or not of the value reported */
    CBC_LATE,       /* not done by the deadline, or killed */
    CBC_ANSWERS,
};

/* "solved", "infeasible", "missing" and so on. */
const char *cbc_answer_text(enum cbc_answer answer);

/* A solver and counts of its answers. Valid when zeroed but for the deadline.
 */
struct cbc {
    const char *program; /* NULL: cbc, looked for along PATH */
    double deadline_s;   /* > 0, of processor time, for each call; by the clock
                            a call ends after three times as long at most */
    double gap;          /* relative: good enough; 0: the optimum */
    long counts[CBC_ANSWERS];
};

/* Solves `problem`. On CBC_SOLVED `x` has the columns, integers exactly whole;
 * otherwise it is unchanged. Leaves no process, descriptor or file behind. */
enum cbc_answer cbc_solve(struct cbc *cbc, const struct milp *problem,
                          struct arena *scratch, double *x);

#endif
