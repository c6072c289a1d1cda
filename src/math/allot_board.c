/* allot_board.c - rows on columns, with room counted by level.
 *
 * A row that is put anew goes into one column if one has the room: the one
 * with the least room that fits, preferably one that already has a spread row
 * and so can take no other spread row. Otherwise it is spread over as few
 * columns as possible: those with most room first, the last one by best fit.
 * So the cost of a sum depends only on the number of columns at each level of
 * room, and all sums of a row are evaluated without a walk over columns, in
 * O(most + levels).
 */
#include "math/allot_board.h"
#include "base/arena.h"
#include "base/fmath.h"
#include <math.h>
#include <string.h>

double board_cost(const struct allot_problem *problem, double u)
{
    double base = u + problem->offset, power = problem->power;
    if (power == -1)
        return 1 / base;
    if (power == 0)
        return -fm_log(base);
    return power < 0 ? fm_pow(base, power) : -fm_pow(base, power);
}

double board_fitness(const struct allot_problem *problem, double mean_cost)
{
    double power = problem->power;
    if (power == -1)
        return 1 / mean_cost;
    if (power == 0)
        return fm_exp(-mean_cost);
    return fm_pow(fabs(mean_cost), 1 / power);
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* ---- columns ---- */

/* Sets the room left in a column and its number of spread rows: (1), (2). */
static void change(struct board *board, int col, int left, int spread)
{
    int from = board->base[col] + board->left[col], to = from + left;
    int *spreads = &board->spread[col];
    bool any = !board->problem->one_spread;
    board->one[from]--;
    board->one[to]++;
    board->many[from] -= any || *spreads == 0;
    board->left[col] += left;
    *spreads += spread;
    board->many[to] += any || *spreads == 0;
}

static void init_columns(struct board *board, struct arena *scratch)
{
    const struct allot_problem *p = board->problem;
    board->levels = board->groups = 1;
    for (int c = 0; c < p->cols; c++) {
        if (p->room[c] >= board->levels)
            board->levels = p->room[c] + 1;
        if (p->group[c] >= board->groups)
            board->groups = p->group[c] + 1;
    }
    size_t cols = (size_t)p->cols, groups = (size_t)board->groups;
    size_t levels = groups * (size_t)board->levels;
    board->base = arena_alloc(scratch, cols * sizeof *board->base);
    board->left = arena_alloc(scratch, cols * sizeof *board->left);
    board->spread = arena_alloc(scratch, cols * sizeof *board->spread);
    board->one = arena_alloc(scratch, levels * sizeof *board->one);
    board->many = arena_alloc(scratch, levels * sizeof *board->many);
    board->widest = arena_alloc(scratch, groups * sizeof *board->widest);
    for (int c = 0; c < p->cols; c++) {
        board->left[c] = p->room[c];
        board->base[c] = p->group[c] * board->levels;
        board->one[board->base[c] + p->room[c]]++;
        board->many[board->base[c] + p->room[c]]++;
        if (p->room[c] > board->widest[p->group[c]])
            board->widest[p->group[c]] = p->room[c];
    }
}

/* ---- what a row costs ---- */

/* The cost of a row's way; the caller's value() is called once for each. */
static double cost_of(struct board *board, int row, int group, int n, int sum)
{
    struct board_row *it = &board->row[row];
    int at = n <= ALLOT_SPREAD ? n : ALLOT_SPREAD + 1;
    double *known = &it->known[group][sum * it->depth + at - 1];
    if (*known == 0) {
        const struct allot_problem *p = board->problem;
        int wide = board->widest[group];
        int cols = n <= ALLOT_SPREAD ? n : (sum + wide - 1) / wide;
        double u = p->value(p->ctx, row, group, cols, sum);
        *known = board_cost(p, u * p->row[row].change);
    }
    return *known;
}

/* Notes the row's present cells, if they are within the bounds. */
static void init_now(struct board *board, int row)
{
    const struct allot_problem *p = board->problem;
    const struct allot_row *spec = &p->row[row];
    struct board_row *it = &board->row[row];
    int sum = 0, group = 0;
    bool suits = spec->now.n > 0;
    for (int i = 0; i < spec->now.n; i++) {
        const struct allot_cell *cell = &spec->now.at[i];
        group = p->group[cell->col];
        suits = suits && (spec->groups >> group & 1) != 0 &&
                group == p->group[spec->now.at[0].col] &&
                cell->count <= p->room[cell->col];
        sum += cell->count;
    }
    it->now_suits = suits && sum >= spec->least && sum <= spec->most;
    if (it->now_suits)
        it->now_cost =
            board_cost(p, p->value(p->ctx, row, group, spec->now.n, sum));
}

static void init_row(struct board *board, int row, struct arena *scratch)
{
    const struct allot_problem *p = board->problem;
    const struct allot_row *spec = &p->row[row];
    struct board_row *it = &board->row[row];
    int cells = least_of(spec->most, p->cols);
    it->depth = least_of(cells, ALLOT_SPREAD + 1);
    size_t known = (size_t)(spec->most + 1) * (size_t)it->depth;
    it->cells = arena_alloc(scratch, (size_t)cells * sizeof *it->cells);
    for (int g = 0; g < board->groups; g++)
        if (spec->groups >> g & 1)
            it->known[g] = arena_alloc(scratch, known * sizeof **it->known);
    it->cost = it->none_cost = board_cost(p, 0);
    init_now(board, row);
}

void board_init(struct board *board, const struct allot_problem *problem,
                struct arena *scratch)
{
    *board = (struct board){.problem = problem, .first_fit = -1};
    init_columns(board, scratch);
    board->row =
        arena_alloc(scratch, (size_t)problem->rows * sizeof *board->row);
    for (int i = 0; i < problem->rows; i++)
        init_row(board, i, scratch);
}

/* ---- looking ---- */

static bool cells_fit(const struct board *board, struct allot_cells cells)
{
    bool lonely = board->problem->one_spread && cells.n > 1;
    for (int i = 0; i < cells.n; i++) {
        int col = cells.at[i].col;
        if (board->left[col] < cells.at[i].count ||
            (lonely && board->spread[col] > 0))
            return false;
    }
    return true;
}

bool board_now_fits(const struct board *board, int row)
{
    return board->row[row].now_suits &&
           cells_fit(board, board->problem->row[row].now);
}

struct best {
    struct board_way way;
    double score; /* more is better */
    bool ratio;
    struct board_way from;
};

static void offer(struct best *best, struct board_way way)
{
    double score = -way.cost;
    if (best->ratio) {
        if (way.sum <= best->from.sum)
            return;
        score = (best->from.cost - way.cost) / (way.sum - best->from.sum);
    }
    if (score > best->score) {
        best->score = score;
        best->way = way;
    }
}

/* Tries every sum of the row in this group, in as few columns as possible. */
static void look_in(struct board *board, int row, int group, struct best *best)
{
    const struct allot_row *spec = &board->problem->row[row];
    const int *one = &board->one[group * board->levels];
    const int *many = &board->many[group * board->levels];
    int top = board->levels - 1;
    while (top > 0 && one[top] == 0)
        top--;
    int sum = spec->least;
    if (best->ratio && sum <= best->from.sum)
        sum = best->from.sum + 1;
    for (; sum <= spec->most && sum <= top; sum++)
        offer(best, (struct board_way){group, 1, sum, false,
                                       cost_of(board, row, group, 1, sum)});
    int level = top, unused = many[top], n = 0, reach = 0;
    for (; sum <= spec->most; sum++) {
        while (reach < sum) {
            while (unused == 0 && level > 1)
                unused = many[--level];
            if (unused == 0 || level == 0)
                return;
            unused--;
            n++;
            reach += level;
        }
        offer(best, (struct board_way){group, n, sum, false,
                                       cost_of(board, row, group, n, sum)});
    }
}

struct board_way board_look(struct board *board, int row, struct board_way from,
                            bool ratio)
{
    const struct board_row *it = &board->row[row];
    struct best best = {.way = from, .ratio = ratio, .from = from};
    best.score = ratio ? 0 : -from.cost;
    board->work++;
    if (board_now_fits(board, row)) {
        struct board_way way = {0, 0, 0, true, it->now_cost};
        for (int i = 0; i < board->problem->row[row].now.n; i++)
            way.sum += board->problem->row[row].now.at[i].count;
        offer(&best, way);
    }
    for (int g = 0; g < board->groups; g++)
        if (it->known[g] != NULL)
            look_in(board, row, g, &best);
    return best.way;
}

struct board_way board_again(const struct board *board, struct board_way way)
{
    const int *one = &board->one[way.group * board->levels];
    const int *many = &board->many[way.group * board->levels];
    int reach = 0;
    way.n = 0;
    way.is_now = false;
    for (int level = way.sum; level < board->levels; level++)
        if (one[level] > 0)
            way.n = 1;
    for (int level = board->levels - 1; level > 0 && way.n != 1; level--)
        for (int k = 0; k < many[level] && reach < way.sum; k++) {
            reach += level;
            way.n--;
        }
    if (way.n < 0)
        way.n = reach < way.sum ? 0 : -way.n;
    return way;
}

/* ---- putting ---- */

/* The column with the least room of at least `count`, a used one first among
 * equals; -1 for none. */
static int best_fit(const struct board *board, int group, int least,
                    bool lonely)
{
    const struct allot_problem *p = board->problem;
    int found = -1;
    for (int c = 0; c < p->cols; c++) {
        if (board->left[c] < least || p->group[c] != group ||
            (lonely && board->spread[c] > 0))
            continue;
        if (found < 0 || board->left[c] < board->left[found] ||
            (board->left[c] == board->left[found] &&
             board->spread[c] > board->spread[found]))
            found = c;
    }
    return found;
}

/* The first column at or after `from` that has `level` units left. */
static int at_level(const struct board *board, int group, int level, int from,
                    bool lonely)
{
    const struct allot_problem *p = board->problem;
    int c = from;
    while (c < p->cols && (board->left[c] != level || p->group[c] != group ||
                           (lonely && board->spread[c] > 0)))
        c++;
    return c < p->cols ? c : -1;
}

static int first_fit(const struct board *board, int group, int least)
{
    const struct allot_problem *p = board->problem;
    int c = board->first_fit;
    while (board->left[c] < least || p->group[c] != group)
        c = c + 1 < p->cols ? c + 1 : 0;
    return c;
}

static void sort_cells(struct allot_cell *cells, int n)
{
    for (int i = 1; i < n; i++) {
        struct allot_cell cell = cells[i];
        int k = i;
        for (; k > 0 && cells[k - 1].col > cell.col; k--)
            cells[k] = cells[k - 1];
        cells[k] = cell;
    }
}

static void choose_columns(const struct board *board, struct board_way way,
                           struct allot_cell *cells)
{
    bool lonely = board->problem->one_spread && way.n > 1;
    int wanted = way.sum, level = board->levels - 1, from = 0;
    for (int i = 0; i + 1 < way.n; i++) {
        int col;
        while ((col = at_level(board, way.group, level, from, lonely)) < 0) {
            level--;
            from = 0;
        }
        cells[i] = (struct allot_cell){col, level};
        wanted -= level;
        from = col + 1;
    }
    /* The last may not be one of those before: they have more room, unless
     * several have the same. */
    int last = -1;
    if (way.n == 1 && board->first_fit >= 0)
        last = first_fit(board, way.group, wanted);
    else if (way.n == 1 || wanted < level)
        last = best_fit(board, way.group, wanted, lonely);
    if (way.n > 1 && (last < 0 || board->left[last] >= level))
        last = at_level(board, way.group, level, from, lonely);
    cells[way.n - 1] = (struct allot_cell){last, wanted};
    sort_cells(cells, way.n);
}

static void occupy(struct board *board, int row, int by)
{
    const struct board_row *it = &board->row[row];
    int spread = it->n > 1 ? by : 0;
    for (int i = 0; i < it->n; i++)
        change(board, it->cells[i].col, -by * it->cells[i].count, spread);
}

void board_put(struct board *board, int row, struct board_way way)
{
    struct board_row *it = &board->row[row];
    if (way.is_now) {
        struct allot_cells now = board->problem->row[row].now;
        it->n = now.n;
        memcpy(it->cells, now.at, (size_t)now.n * sizeof *now.at);
        it->group = board->problem->group[now.at[0].col];
    } else if (way.sum > 0) {
        it->n = way.n;
        it->group = way.group;
        choose_columns(board, way, it->cells);
    }
    it->sum = way.sum;
    it->cost = way.cost;
    it->is_now = way.is_now;
    occupy(board, row, 1);
    struct allot_cells now = board->problem->row[row].now;
    if (!way.is_now && it->now_suits && it->n == now.n &&
        memcmp(it->cells, now.at, (size_t)now.n * sizeof *now.at) == 0) {
        it->is_now = true;
        it->cost = it->now_cost;
    }
}

bool board_put_cells(struct board *board, int row, struct allot_cells cells)
{
    const struct allot_problem *p = board->problem;
    const struct allot_row *spec = &p->row[row];
    struct board_way way = {.n = cells.n};
    if (cells.n == 0 || !cells_fit(board, cells))
        return false;
    way.group = p->group[cells.at[0].col];
    for (int i = 0; i < cells.n; i++) {
        if (p->group[cells.at[i].col] != way.group)
            return false;
        way.sum += cells.at[i].count;
    }
    if (way.sum < spec->least || way.sum > spec->most ||
        (spec->groups >> way.group & 1) == 0)
        return false;
    struct board_row *it = &board->row[row];
    struct allot_cells now = spec->now;
    it->n = cells.n;
    memcpy(it->cells, cells.at, (size_t)cells.n * sizeof *cells.at);
    it->group = way.group;
    it->sum = way.sum;
    it->is_now = it->now_suits && cells.n == now.n &&
                 memcmp(cells.at, now.at, (size_t)now.n * sizeof *now.at) == 0;
    it->cost = it->is_now ? it->now_cost
                          : cost_of(board, row, way.group, way.n, way.sum);
    occupy(board, row, 1);
    return true;
}

void board_take(struct board *board, int row)
{
    struct board_row *it = &board->row[row];
    occupy(board, row, -1);
    it->n = it->sum = 0;
    it->is_now = false;
    it->cost = it->none_cost;
}

void board_lift(struct board *board, int row)
{
    occupy(board, row, -1);
}

void board_drop(struct board *board, int row)
{
    occupy(board, row, 1);
}

struct board_way board_way_of(const struct board *board, int row)
{
    const struct board_row *it = &board->row[row];
    return (struct board_way){it->group, it->n, it->sum, it->is_now, it->cost};
}
