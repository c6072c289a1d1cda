/* allot_random.c - step time sqrt(C^2 + N^2), efficiency (q + B0) / (q + B).
 *
 * C = a + b x batch of a GPU, N = network time by number of GPUs, dearer
 * between nodes; q is the noise scale. The value is the best goodput over
 * batches B0 .. 32 B0 in steps of sqrt 2, over that of the fair share, times
 * columns / room as Pollux has it.
 */
#include "allot_random.h"
#include "base/fmath.h"
#include "base/rng.h"
#include <math.h>

struct allot_model {
    double alpha, beta, inside, between, more, noise, batch, base;
};

static double goodput(const struct allot_model *m, int n, int gpus)
{
    double best = 0, batch = m->batch;
    for (int k = 0; k <= 10; k++) {
        double c = m->alpha + m->beta * batch / gpus, net = 0;
        if (gpus > 1)
            net = (n > 1 ? m->between : m->inside) + m->more * (gpus - 2);
        double rate = batch / sqrt(c * c + net * net);
        double efficiency = (m->noise + m->batch) / (m->noise + batch);
        best = fmax(best, rate * efficiency);
        batch *= 1.4142135623730951;
    }
    return best;
}

static double value(void *ctx, int row, int group, int cols, int sum)
{
    const struct allot_case *it = ctx;
    const struct allot_model *m = &it->model[row];
    (void)group;
    return goodput(m, cols, sum) / m->base / 4;
}

static double between(struct rng *rng, double low, double high)
{
    return low * fm_exp(rng_unit(rng) * fm_log(high / low));
}

static void draw_row(struct allot_case *out, int i, struct rng *rng)
{
    struct allot_model *m = &out->model[i];
    struct allot_row *row = &out->row[i];
    int share =
        (4 * out->problem.cols + out->problem.rows - 1) / out->problem.rows;
    m->batch = between(rng, 8, 256);
    m->alpha = between(rng, 0.01, 0.1);
    m->beta = between(rng, 0.1, 1) / m->batch;
    m->inside = between(rng, 0.005, 0.1);
    m->between = m->inside * between(rng, 1.1, 5);
    m->more = m->inside * between(rng, 0.001, 0.05);
    m->noise = m->batch * between(rng, 0.5, 200);
    m->base = goodput(m, 1, share);
    double age_s = between(rng, 60, 20000);
    double restarts = floor(rng_unit(rng) * fmin(age_s / 120, 20));
    row->least = 1;
    row->most = 1 << rng_below(rng, 6);
    row->groups = 1;
    row->change = fmax(age_s - 30 * restarts, 0) / (age_s + 30);
}

void allot_case_draw(struct allot_case *out, int rows, int cols, uint64_t seed)
{
    struct rng rng;
    struct arena *arena = &out->arena;
    rng_seed(&rng, seed);
    *out = (struct allot_case){.problem = {.rows = rows, .cols = cols}};
    out->row = arena_alloc(arena, (size_t)rows * sizeof *out->row);
    out->model = arena_alloc(arena, (size_t)rows * sizeof *out->model);
    int *room = arena_alloc(arena, (size_t)cols * sizeof *room);
    for (int c = 0; c < cols; c++)
        room[c] = 4;
    struct allot_problem *p = &out->problem;
    p->room = room;
    p->group = arena_alloc(arena, (size_t)cols * sizeof *p->group);
    p->row = out->row;
    p->value = value;
    p->ctx = out;
    p->power = -1;
    p->offset = 1e-3;
    p->one_spread = true;
    p->seed = seed;
    for (int i = 0; i < rows; i++)
        draw_row(out, i, &rng);
    struct allot_problem before = *p;
    before.rows = rows - rows / 20;
    struct allot_answer had = allot_run(&before, arena);
    for (int i = 0; i < before.rows; i++)
        out->row[i].now = had.row[i];
}

void allot_case_release(struct allot_case *it)
{
    arena_release(&it->arena);
}
