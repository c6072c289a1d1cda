/* allot.c - ruin and recreate, from the matrix as it is.
 *
 * The fitness is a sum over rows, so it depends on how much each row has; the
 * columns only limit what fits. A try takes a few rows off the board and puts
 * them back by marginal gain: again and again the row whose cost falls most
 * for each further count gets its larger way, until none gains. The result is
 * kept unless it is worse (Schrimpf et al., "Record breaking optimization
 * results using the ruin and recreate principle", J. Comput. Phys. 159, 2000).
 * A try costs a few microseconds for any number of rows, as the other rows
 * stay.
 *
 * Start:  all rows as they are; empty rows grow into the room that is left;
 *         rows that are still empty are tried with each column in turn.
 *         Starting from the present matrix keeps the changes few.
 * Search: tries with rows that are likely to trade: those of one or two
 *         columns, or any two or three. More often than not a row is first put
 *         as it was, where that fits; half of the time the gains are
 *         multiplied by random numbers. It ends after `effort` tries a row
 *         without success.
 * End:    the rows that changed are put once more, larger ones first, so that
 *         their columns do not depend on chance.
 *
 * Invariant: the cost on the board never rises from one try to the next.
 */
#include "math/allot.h"
#include "base/arena.h"
#include "base/rng.h"
#include "math/allot_board.h"
#include <stdlib.h>
#include <string.h>

enum { RUIN = 8 /* rows in one try, at most */ };

struct search {
    struct board board;
    struct rng rng;
    long max_work;
    int *order;            /* [rows]: the rows of a rebuild */
    double *gain;          /* [rows]: as last computed */
    double *noise;         /* [rows] */
    struct board_way *way; /* [rows] */
    /* The rows of a try as they were before it. */
    struct allot_cell *saved;
    int saved_n[RUIN];
};

static bool has_work(const struct search *in)
{
    return in->max_work == 0 || in->board.work < in->max_work;
}

/* ---- rebuilding ---- */

/* Finds the best larger way of row k of the rebuild, and its gain per count. */
static void look(struct search *in, int k)
{
    struct board *board = &in->board;
    int row = in->order[k];
    struct board_way from = board_way_of(board, row);
    board_lift(board, row);
    struct board_way to = board_look(board, row, from, true);
    in->way[k] = to;
    in->gain[k] = to.sum <= from.sum ? 0
                                     : (from.cost - to.cost) /
                                           (to.sum - from.sum) * in->noise[k];
    board_drop(board, row);
}

/* The n rows in `order` grow by marginal gain. Room only shrinks meanwhile, so
 * a gain seen earlier is hardly ever too small: only the top one is looked at
 * again. */
static void grow(struct search *in, int n)
{
    for (int k = 0; k < n; k++)
        look(in, k);
    for (;;) {
        int top = 0;
        double second = 0;
        for (int k = 1; k < n; k++) {
            if (in->gain[k] > in->gain[top]) {
                second = in->gain[top];
                top = k;
            } else if (in->gain[k] > second) {
                second = in->gain[k];
            }
        }
        if (!(in->gain[top] > 0))
            return;
        double seen = in->gain[top];
        look(in, top);
        if ((in->gain[top] < seen && in->gain[top] < second) ||
            !(in->gain[top] > 0))
            continue;
        board_take(&in->board, in->order[top]);
        board_put(&in->board, in->order[top], in->way[top]);
        look(in, top);
    }
}

/* ---- the search ---- */

static int add(struct search *in, int n, int row)
{
    for (int k = 0; k < n; k++)
        if (in->order[k] == row)
            return n;
    if (n < RUIN)
        in->order[n++] = row;
    return n;
}

/* A random column of a random row, or any. */
static int some_column(struct search *in)
{
    const struct allot_problem *p = in->board.problem;
    const struct board_row *it =
        &in->board.row[rng_below(&in->rng, (uint64_t)p->rows)];
    if (it->n == 0)
        return (int)rng_below(&in->rng, (uint64_t)p->cols);
    return it->cells[rng_below(&in->rng, (uint64_t)it->n)].col;
}

static int add_column(struct search *in, int n, int col)
{
    const struct board *board = &in->board;
    for (int i = 0; i < board->problem->rows && n < RUIN; i++)
        for (int k = 0; k < board->row[i].n; k++)
            if (board->row[i].cells[k].col == col)
                n = add(in, n, i);
    return n;
}

/* Chooses the rows of the next try; returns their number. */
static int choose(struct search *in)
{
    uint64_t rows = (uint64_t)in->board.problem->rows;
    uint64_t kind = rng_below(&in->rng, 8);
    int n = add(in, 0, (int)rng_below(&in->rng, rows));
    if (kind < 2)
        n = add(in, n, (int)rng_below(&in->rng, rows));
    if (kind == 1)
        n = add(in, n, (int)rng_below(&in->rng, rows));
    if (kind >= 2)
        n = add_column(in, n, some_column(in));
    if (kind >= 4)
        n = add_column(in, n, some_column(in));
    return n;
}

static double ruin(struct search *in, int n)
{
    double cost = 0;
    struct allot_cell *to = in->saved;
    for (int k = 0; k < n; k++) {
        const struct board_row *it = &in->board.row[in->order[k]];
        cost += it->cost;
        in->saved_n[k] = it->n;
        memcpy(to, it->cells, (size_t)it->n * sizeof *to);
        to += it->n;
        board_take(&in->board, in->order[k]);
    }
    return cost;
}

static void restore(struct search *in, int n)
{
    const struct allot_cell *from = in->saved;
    for (int k = 0; k < n; k++)
        board_take(&in->board, in->order[k]);
    for (int k = 0; k < n; k++) {
        board_put_cells(&in->board, in->order[k],
                        (struct allot_cells){from, in->saved_n[k]});
        from += in->saved_n[k];
    }
}

static void put_some_back(struct search *in, int n)
{
    uint64_t bits = rng_u64(&in->rng);
    bool noisy = bits >> 63 != 0;
    in->board.first_fit =
        (bits >> 62 & 1) != 0
            ? (int)rng_below(&in->rng, (uint64_t)in->board.problem->cols)
            : -1;
    for (int k = 0; k < n; k++) {
        int row = in->order[k];
        in->noise[k] = noisy ? 0.25 + rng_unit(&in->rng) : 1;
        if ((bits >> 4 * k & 15) < 10 && board_now_fits(&in->board, row))
            board_put_cells(&in->board, row, in->board.problem->row[row].now);
    }
}

/* One try with the n rows in `order`; true when the matrix got better. */
static bool try_rows(struct search *in, int n)
{
    double before = ruin(in, n), after = 0;
    put_some_back(in, n);
    grow(in, n);
    for (int k = 0; k < n; k++)
        after += in->board.row[in->order[k]].cost;
    double rounding = 1e-12 * (before < 0 ? -before : before);
    if (after > before + rounding)
        restore(in, n);
    return after < before - rounding;
}

/* ---- the start ---- */

/* The start of the essay. Trying the columns for empty rows ends after a few
 * rows in turn for which no column had room. */
static void begin(struct search *in)
{
    const struct allot_problem *p = in->board.problem;
    const struct board_row *row = in->board.row;
    int n = 0, failed = 0;
    for (int i = 0; i < p->rows; i++) {
        in->noise[i] = 1;
        if (!board_put_cells(&in->board, i, p->row[i].now))
            in->order[n++] = i;
    }
    if (n > 0)
        grow(in, n);
    for (int i = 0; i < p->rows && failed < 4; i++) {
        int col = (int)rng_below(&in->rng, (uint64_t)p->cols);
        for (int k = 0; k < p->cols && row[i].n == 0 && has_work(in); k++)
            try_rows(in, add_column(in, add(in, 0, i), (col + k) % p->cols));
        failed = row[i].n == 0 ? failed + 1 : 0;
    }
}

static void open_search(struct search *in, const struct allot_problem *problem,
                        struct arena *scratch)
{
    size_t rows = (size_t)problem->rows, cells = 0;
    board_init(&in->board, problem, scratch);
    rng_seed(&in->rng, problem->seed);
    in->max_work = problem->max_work;
    in->order = arena_alloc(scratch, rows * sizeof *in->order);
    in->gain = arena_alloc(scratch, rows * sizeof *in->gain);
    in->noise = arena_alloc(scratch, rows * sizeof *in->noise);
    in->way = arena_alloc(scratch, rows * sizeof *in->way);
    for (int i = 0; i < problem->rows; i++) {
        int most = problem->row[i].most;
        most = most < problem->cols ? most : problem->cols;
        cells = (size_t)most > cells ? (size_t)most : cells;
    }
    in->saved = arena_alloc(scratch, RUIN * cells * sizeof *in->saved);
}

static double total(const struct board *board)
{
    double cost = 0;
    for (int i = 0; i < board->problem->rows; i++)
        cost += board->row[i].cost;
    return cost;
}

/* A copy of the board's rows, in fresh memory. */
static struct allot_cells *copy(const struct board *board,
                                struct arena *scratch)
{
    size_t rows = (size_t)board->problem->rows;
    struct allot_cells *out = arena_alloc(scratch, rows * sizeof *out);
    for (size_t i = 0; i < rows; i++) {
        const struct board_row *it = &board->row[i];
        size_t bytes = (size_t)it->n * sizeof *it->cells;
        struct allot_cell *cells = arena_alloc(scratch, bytes);
        memcpy(cells, it->cells, bytes);
        out[i] = (struct allot_cells){cells, it->n};
    }
    return out;
}

/* ---- the end ---- */

struct sized {
    int row;
    struct board_way way;
};

static int larger_first(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->way.sum != y->way.sum)
        return x->way.sum > y->way.sum ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Puts the rows that changed once more, larger ones first, each where it fits
 * best. False when a row then needs more columns than before. */
static bool tidy(struct search *in, struct arena *scratch)
{
    int rows = in->board.problem->rows, n = 0;
    struct sized *it = arena_alloc(scratch, (size_t)rows * sizeof *it);
    for (int i = 0; i < rows; i++)
        if (in->board.row[i].n > 0 && !in->board.row[i].is_now) {
            it[n++] = (struct sized){i, board_way_of(&in->board, i)};
            board_take(&in->board, i);
        }
    qsort(it, (size_t)n, sizeof *it, larger_first);
    in->board.first_fit = -1;
    for (int k = 0; k < n; k++) {
        struct board_way way = board_again(&in->board, it[k].way);
        if (way.n != it[k].way.n)
            return false;
        board_put(&in->board, it[k].row, way);
    }
    return true;
}

struct allot_answer allot_run(const struct allot_problem *problem,
                              struct arena *scratch)
{
    struct allot_answer answer = {0};
    struct search in = {.max_work = 0};
    if (problem->rows == 0)
        return answer;
    open_search(&in, problem, scratch);
    begin(&in);
    long idle = 0, patience = (long)problem->effort * problem->rows;
    while (idle < patience && has_work(&in)) {
        answer.tries++;
        idle = try_rows(&in, choose(&in)) ? 0 : idle + 1;
    }
    answer.row = copy(&in.board, scratch);
    answer.fitness = board_fitness(problem, total(&in.board) / problem->rows);
    answer.work = in.board.work;
    if (tidy(&in, scratch)) {
        answer.row = copy(&in.board, scratch);
        answer.fitness =
            board_fitness(problem, total(&in.board) / problem->rows);
    }
    return answer;
}

double allot_fitness(const struct allot_problem *problem,
                     const struct allot_cells *row)
{
    double cost = 0;
    for (int i = 0; i < problem->rows; i++) {
        struct allot_cells now = problem->row[i].now;
        int sum = 0;
        bool same = row[i].n == now.n;
        for (int k = 0; k < row[i].n; k++) {
            sum += row[i].at[k].count;
            same = same && row[i].at[k].col == now.at[k].col &&
                   row[i].at[k].count == now.at[k].count;
        }
        double u = 0;
        if (sum > 0)
            u = problem->value(problem->ctx, i,
                               problem->group[row[i].at[0].col], row[i].n,
                               sum) *
                (same ? 1 : problem->row[i].change);
        cost += board_cost(problem, u);
    }
    return board_fitness(problem, cost / problem->rows);
}
