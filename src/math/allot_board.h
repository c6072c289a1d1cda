/* allot_board.h - a matrix under construction: cells of rows, room of columns.
 *
 * Rows are put on the board and taken off; the board knows the room left and
 * the cost of every way to put a row that fits. Cost is the row's term of the
 * fitness with its sign such that less is better:
 *
 *     power < 0:  (u + offset)^power      power > 0:  -(u + offset)^power
 *     power = 0:  -log(u + offset)
 *
 * Invariants: (1) a column's room left is its room less the counts on the
 * board. (2) `one` and `many` count the columns of a group by room left: all
 * of them, and those where one more spread row is allowed.
 */
#ifndef MATH_ALLOT_BOARD_H
#define MATH_ALLOT_BOARD_H
#include "math/allot.h"

struct board_row {
    struct allot_cell *cells; /* room for min(most, cols) */
    int n, sum, group;
    bool is_now;    /* the row is put as in `now` */
    bool now_suits; /* `now` is within the bounds */
    double cost, none_cost, now_cost;
    double *known[ALLOT_GROUPS]; /* costs by sum and columns; 0: not computed */
    int depth; /* of `known`: numbers of columns that are distinguished + 1 */
};

struct board {
    const struct allot_problem *problem;
    struct board_row *row;
    int *left, *spread; /* per column: room left; spread rows there */
    int *base;          /* per column: where its group begins in `one` */
    int levels;         /* the largest room + 1 */
    int groups;         /* the largest group + 1 */
    int *one, *many;    /* [groups][levels] */
    int *widest;        /* [groups]: the largest room */
    int first_fit; /* a row of one column goes to the first from here on that
                    * has the room; -1: to the one it fits best */
    long work;
};

/* A way to put a row. */
struct board_way {
    int group, n, sum; /* sum 0: not at all */
    bool is_now;
    double cost;
};

void board_init(struct board *board, const struct allot_problem *problem,
                struct arena *scratch);

/* Do the row's present cells (`now`) fit? */
bool board_now_fits(const struct board *board, int row);

/* The best way to put a row that is off the board. `ratio` false: the least
 * cost, fewer GPUs on ties; true: the largest fall of cost below `from.cost`
 * for each count beyond `from.sum`; from itself when there is none. */
struct board_way board_look(struct board *board, int row, struct board_way from,
                            bool ratio);

/* The same sum in the same group, in as few columns as now possible; n 0 when
 * there is no room. The cost is not filled in. */
struct board_way board_again(const struct board *board, struct board_way way);

/* Puts a row that is off the board; `way` was found by board_look() since the
 * board last changed, or is the row's `now` and fits. */
void board_put(struct board *board, int row, struct board_way way);
/* The same with given cells; false, and no change, when they do not suit. */
bool board_put_cells(struct board *board, int row, struct allot_cells cells);
void board_take(struct board *board, int row);

/* Frees the room of a row, to evaluate it, and takes the room again. */
void board_lift(struct board *board, int row);
void board_drop(struct board *board, int row);

/* The way in which the row is put now. */
struct board_way board_way_of(const struct board *board, int row);

/* The cost of a row's term, and the fitness of a mean cost. */
double board_cost(const struct allot_problem *problem, double u);
double board_fitness(const struct allot_problem *problem, double mean_cost);

#endif
