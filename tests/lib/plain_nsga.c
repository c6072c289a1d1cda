/* plain_nsga.c - population, tournament, crossover, mutation, repair, fronts.
 *
 * One generation: as many children as parents; each pair of children from four
 * parents by two tournaments (dominance, then crowding, then chance), one-point
 * crossover over rows with probability 0.9; each child mutated and repaired;
 * doubles dropped and bred again; then the best of parents and children by
 * front and crowding.
 */
#include "plain_nsga.h"
#include "base/mem.h"
#include "math/allot_board.h"
#include <math.h>
#include <string.h>

struct creature {
    int *matrix;
    struct nsga_score score;
    int front;
    double crowding;
};

static size_t cells(const struct allot_problem *p)
{
    return (size_t)p->rows * (size_t)p->cols;
}

/* ---- objectives ---- */

static double row_value(const struct allot_problem *p, int i, const int *row,
                        bool *same)
{
    int sum = 0, n = 0;
    const struct allot_cells *now = &p->row[i].now;
    int at = 0;
    *same = true;
    for (int c = 0; c < p->cols; c++) {
        int had = at < now->n && now->at[at].col == c ? now->at[at++].count : 0;
        *same = *same && row[c] == had;
        sum += row[c];
        n += row[c] > 0;
    }
    return sum == 0 ? 0 : p->value(p->ctx, i, 0, n, sum);
}

struct nsga_score nsga_score(const struct allot_problem *p, const int *matrix)
{
    double cost = 0, values = 0, used = 0;
    for (int i = 0; i < p->rows; i++) {
        bool same;
        double value = row_value(p, i, &matrix[i * p->cols], &same);
        cost += board_cost(p, value * (same ? 1 : p->row[i].change));
        values += value;
    }
    for (int c = 0; c < p->cols; c++) {
        int sum = 0;
        for (int i = 0; i < p->rows; i++)
            sum += matrix[i * p->cols + c];
        used += sum > 0 ? p->room[c] : 0;
    }
    return (struct nsga_score){board_fitness(p, cost / p->rows),
                               used > 0 ? values / used : 0};
}

/* ---- repair ---- */

static void part_spread_rows(const struct allot_problem *p, int *matrix)
{
    bool taken[1024] = {false};
    for (int i = 0; i < p->rows; i++) {
        int *row = &matrix[i * p->cols], n = 0;
        for (int c = 0; c < p->cols; c++)
            n += row[c] > 0;
        for (int c = 0; c < p->cols && n > 1; c++) {
            if (row[c] == 0)
                continue;
            if (taken[c])
                row[c] = 0;
            taken[c] = true;
        }
    }
}

static void cut_rows(struct nsga *nsga, int *matrix)
{
    const struct allot_problem *p = nsga->problem;
    int order[1024];
    for (int c = 0; c < p->cols; c++)
        order[c] = c;
    for (int i = 0; i < p->rows; i++) {
        int *row = &matrix[i * p->cols], sum = 0;
        for (int c = p->cols - 1; c > 0; c--) {
            int k = (int)rng_below(&nsga->rng, (uint64_t)c + 1), t = order[c];
            order[c] = order[k];
            order[k] = t;
        }
        for (int c = 0; c < p->cols; c++) {
            int *cell = &row[order[c]], left = p->row[i].most - sum;
            *cell = *cell < left ? *cell : left;
            sum += *cell;
        }
    }
}

void nsga_repair(struct nsga *nsga, int *matrix)
{
    const struct allot_problem *p = nsga->problem;
    if (p->one_spread)
        part_spread_rows(p, matrix);
    cut_rows(nsga, matrix);
    for (int c = 0; c < p->cols; c++)
        for (int i = 0, sum = 0; i < p->rows; i++) {
            int *cell = &matrix[i * p->cols + c], left = p->room[c] - sum;
            *cell = *cell < left ? *cell : left;
            sum += *cell;
        }
}

/* ---- mutation ---- */

static bool chance(struct nsga *nsga, double share)
{
    return rng_unit(&nsga->rng) < share;
}

static void set_now(const struct allot_problem *p, int i, int *row)
{
    memset(row, 0, (size_t)p->cols * sizeof *row);
    for (int k = 0; k < p->row[i].now.n; k++)
        row[p->row[i].now.at[k].col] = p->row[i].now.at[k].count;
}

static void shrink(struct nsga *nsga, int *matrix)
{
    const struct allot_problem *p = nsga->problem;
    for (int i = 0; i < p->rows; i++)
        if (chance(nsga, 0.1))
            set_now(p, i, &matrix[i * p->cols]);
    for (int i = 0; i < p->rows; i++)
        if (chance(nsga, 0.1))
            for (int c = 0; c < p->cols; c++)
                if (chance(nsga, 0.1))
                    matrix[i * p->cols + c] = 0;
}

static void enlarge(struct nsga *nsga, int *matrix)
{
    const struct allot_problem *p = nsga->problem;
    for (int c = 0; c < p->cols; c++) {
        int sum = 0, present = 0;
        uint64_t rooms = (uint64_t)p->room[c] + 1;
        for (int i = 0; i < p->rows; i++) {
            sum += matrix[i * p->cols + c];
            present += matrix[i * p->cols + c] > 0;
        }
        for (int i = 0; i < p->rows && sum < p->room[c]; i++) {
            int *cell = &matrix[i * p->cols + c];
            double any = 1.0 / p->rows, here = *cell > 0 ? 1.0 / present : 0;
            if (chance(nsga, any + here - any * here))
                *cell += (int)rng_below(&nsga->rng, rooms - (uint64_t)*cell);
        }
    }
}

/* ---- fronts ---- */

static bool dominates(const struct creature *a, const struct creature *b)
{
    struct nsga_score x = a->score, y = b->score;
    return x.fitness >= y.fitness && x.utility >= y.utility &&
           (x.fitness > y.fitness || x.utility > y.utility);
}

static int by_fitness(const struct creature *a, const struct creature *b)
{
    if (a->score.fitness != b->score.fitness)
        return a->score.fitness > b->score.fitness ? -1 : 1;
    if (a->score.utility != b->score.utility)
        return a->score.utility > b->score.utility ? -1 : 1;
    return 0;
}

static void sort_creatures(struct creature *at, int n,
                           int (*order)(const struct creature *,
                                        const struct creature *))
{
    for (int i = 1; i < n; i++) {
        struct creature it = at[i];
        int k = i;
        for (; k > 0 && order(&at[k - 1], &it) > 0; k--)
            at[k] = at[k - 1];
        at[k] = it;
    }
}

static void set_fronts(struct creature *at, int n)
{
    int left = n;
    for (int i = 0; i < n; i++)
        at[i].front = -1;
    for (int front = 0; left > 0; front++) {
        for (int i = 0; i < n; i++) {
            bool is_dominated = false;
            for (int k = 0; k < n && !is_dominated && at[i].front < 0; k++)
                is_dominated = (at[k].front < 0 || at[k].front == front) &&
                               k != i && dominates(&at[k], &at[i]);
            if (at[i].front < 0 && !is_dominated) {
                at[i].front = front;
                left--;
            }
        }
    }
}

/* Sorted by fitness, a front is sorted by utility the other way round. */
static void set_crowding(struct creature *at, int n)
{
    sort_creatures(at, n, by_fitness);
    for (int front = 0; front < n; front++) {
        struct creature *prev = NULL, *mid = NULL, *first = NULL, *last = NULL;
        for (int i = 0; i < n; i++)
            if (at[i].front == front) {
                first = first ? first : &at[i];
                last = &at[i];
            }
        if (first == NULL)
            return;
        double f = first->score.fitness - last->score.fitness;
        double u = last->score.utility - first->score.utility;
        for (int i = 0; i < n; i++) {
            if (at[i].front != front)
                continue;
            at[i].crowding = 0;
            if (mid && by_fitness(mid, &at[i]) == 0)
                continue;
            if (prev && mid)
                mid->crowding =
                    (prev->score.fitness - at[i].score.fitness) / f +
                    (at[i].score.utility - prev->score.utility) / u;
            prev = mid;
            mid = &at[i];
        }
        first->crowding = INFINITY;
        mid->crowding = INFINITY;
    }
}

static int by_front(const struct creature *a, const struct creature *b)
{
    if (a->front != b->front)
        return a->front - b->front;
    return (a->crowding < b->crowding) - (a->crowding > b->crowding);
}

/* ---- generations ---- */

static const struct creature *tournament(struct nsga *nsga,
                                         const struct creature *at, int n)
{
    const struct creature *a = &at[rng_below(&nsga->rng, (uint64_t)n)];
    const struct creature *b = &at[rng_below(&nsga->rng, (uint64_t)n)];
    if (dominates(a, b) || dominates(b, a))
        return dominates(a, b) ? a : b;
    if (a->crowding != b->crowding)
        return a->crowding > b->crowding ? a : b;
    return chance(nsga, 0.5) ? a : b;
}

static bool is_known(const struct allot_problem *p, const struct creature *at,
                     int n, const int *matrix)
{
    size_t bytes = cells(p) * sizeof *matrix;
    for (int i = 0; i < n; i++)
        if (memcmp(at[i].matrix, matrix, bytes) == 0)
            return true;
    return false;
}

/* Two children into at[n] and, if there is room, at[n + 1]; doubles are left
 * out. The new number. */
static int breed(struct nsga *nsga, struct creature *at, int parents, int n,
                 int most)
{
    const struct allot_problem *p = nsga->problem;
    const struct creature *mother = tournament(nsga, at, parents);
    const struct creature *father = tournament(nsga, at, parents);
    int cut =
        chance(nsga, 0.9) ? (int)rng_below(&nsga->rng, (uint64_t)p->rows) : 0;
    size_t head = (size_t)cut * (size_t)p->cols, all = cells(p);
    for (int child = 0; child < 2 && n < most; child++) {
        const struct creature *a = child ? father : mother;
        const struct creature *b = child ? mother : father;
        int *matrix = at[n].matrix;
        memcpy(matrix, b->matrix, head * sizeof *matrix);
        memcpy(matrix + head, a->matrix + head, (all - head) * sizeof *matrix);
        shrink(nsga, matrix);
        enlarge(nsga, matrix);
        nsga_repair(nsga, matrix);
        if (is_known(p, at, n, matrix))
            continue;
        at[n].score = nsga_score(p, matrix);
        nsga->evals++;
        n++;
    }
    return n;
}

static int generation(struct nsga *nsga, struct creature *at, int n)
{
    int most = n + nsga->population, grown = n;
    for (int tries = 0; grown < most && tries < 50 * nsga->population; tries++)
        grown = breed(nsga, at, n, grown, most);
    set_fronts(at, grown);
    set_crowding(at, grown);
    sort_creatures(at, grown, by_front);
    return grown < nsga->population ? grown : nsga->population;
}

static int first_ones(struct nsga *nsga, const int *start, int nstart,
                      struct creature *at)
{
    const struct allot_problem *p = nsga->problem;
    int n = 0;
    for (int i = 0; i < nstart || i == 0; i++) {
        if (nstart > 0)
            memcpy(at[n].matrix, start + (size_t)i * cells(p),
                   cells(p) * sizeof *start);
        else
            for (int r = 0; r < p->rows; r++)
                set_now(p, r, at[n].matrix + r * p->cols);
        nsga_repair(nsga, at[n].matrix);
        if (is_known(p, at, n, at[n].matrix))
            continue;
        at[n].score = nsga_score(p, at[n].matrix);
        n++;
    }
    set_fronts(at, n);
    set_crowding(at, n);
    return n;
}

struct nsga_score nsga_run(struct nsga *nsga, const int *start, int nstart,
                           int *out, void (*keep)(void *arg, const int *matrix),
                           void *arg)
{
    const struct allot_problem *p = nsga->problem;
    int most = 2 * nsga->population + nstart;
    struct creature *at = mem_new((size_t)most, sizeof *at);
    for (int i = 0; i < most; i++)
        at[i].matrix = mem_new(cells(p), sizeof *at[i].matrix);
    int n = first_ones(nsga, start, nstart, at);
    for (int g = 1; g < nsga->generations; g++)
        n = generation(nsga, at, n);
    const struct creature *best = &at[0];
    for (int i = 0; i < n; i++) {
        if (at[i].score.fitness > best->score.fitness)
            best = &at[i];
        if (keep != NULL && at[i].front == 0)
            keep(arg, at[i].matrix);
    }
    struct nsga_score score = best->score;
    memcpy(out, best->matrix, cells(p) * sizeof *out);
    for (int i = 0; i < most; i++)
        mem_free(at[i].matrix);
    mem_free(at);
    return score;
}
