/* model_eval.c - how many iteration times a core predicts in a second.
 *
 * Prints one line a model: name, evaluations per second, nanoseconds each; and
 * the time of a typical refit (7 parameters, 60 measurements). The bars are
 * 10^7 evaluations a second and 1 ms. Time is that of the processor, so that a
 * busy machine does not matter.
 */
#include "base/rng.h"
#include "model/correct.h"
#include <firn/goodput.h>
#include <firn/itertime.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

enum { SHAPES = 1024, ROUNDS = 100, REPEATS = 40, POINTS = 60, REFITS = 200 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct firn_shape draw(struct rng *rng)
{
    int nodes = 1 + (int)rng_below(rng, 4);
    int gpus = nodes + (int)rng_below(rng, (uint64_t)(3 * nodes + 1));
    return (struct firn_shape){.nodes = nodes,
                               .gpus = gpus,
                               .batch_per_gpu =
                                   8 + 8 * (double)rng_below(rng, 16),
                               .accum_steps = 1 + (int)rng_below(rng, 4),
                               .theta = 1,
                               .omega = 1};
}

typedef double evaluation(const struct firn_shape *shape);

static struct firn_itertime model;
static struct correction correction;
static const struct firn_noise noise = {
    .grad_sqr = 1, .grad_var = 4, .batch0 = 128};

static double iteration(const struct firn_shape *shape)
{
    return firn_itertime_iteration(&model, shape);
}

static double correct(const struct firn_shape *shape)
{
    return correction_factor(&correction, shape);
}

static double goodput(const struct firn_shape *shape)
{
    return firn_goodput_at(&model, &noise, shape, 1);
}

/* The best of REPEATS: the others were disturbed. */
static void measure(const char *name, evaluation *f,
                    const struct firn_shape *shapes)
{
    double best_s = INFINITY, sum = 0;
    for (int i = 0; i < REPEATS; i++) {
        double start_s = now_s();
        for (int r = 0; r < ROUNDS; r++)
            for (int k = 0; k < SHAPES; k++)
                sum += f(&shapes[k]);
        best_s = fmin(best_s, (now_s() - start_s) / (SHAPES * ROUNDS));
    }
    printf("%-28s %10.3g evaluations/s  %6.1f ns  (sum %.6g)\n", name,
           1 / best_s, best_s * 1e9, sum);
}

static void refits(const struct firn_itertime *truth, struct rng *rng)
{
    struct firn_step_obs obs[POINTS];
    double sum = 0, worst_s = 0, start_s = now_s();
    for (int i = 0; i < REFITS; i++) {
        struct firn_itertime m;
        struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
        for (int j = 0; j < POINTS; j++) {
            obs[j].shape = draw(rng);
            struct firn_itertime_parts p =
                firn_itertime_parts(truth, &obs[j].shape);
            obs[j].step_s = p.step_s * (1 + 0.02 * rng_normal(rng));
            obs[j].sync_s = NAN;
        }
        double from_s = now_s();
        firn_itertime_default(&m);
        firn_itertime_refit(&m, obs, POINTS, &fit, NULL);
        worst_s = fmax(worst_s, now_s() - from_s);
        sum += fit.cost;
    }
    printf("%-28s %10.3g ms mean  %.3g ms worst  (cost %.3g)\n",
           "refit, 60 points", (now_s() - start_s) / REFITS * 1e3,
           worst_s * 1e3, sum / REFITS);
}

int main(void)
{
    struct rng rng;
    static struct firn_shape shapes[SHAPES];
    static struct firn_step_obs obs[SHAPES];
    rng_seed(&rng, 1);
    firn_itertime_default(&model);
    model.alpha_s = 0.05;
    model.beta_s = 0.002;
    model.gamma = 1.7;
    model.phi = model.phi_fixed = 0;
    model.local = (struct firn_sync_law){.alpha_s = 0.02, .beta_s = 0.004};
    model.pair = (struct firn_sync_law){.alpha_s = 0.1, .beta_s = 0.01};
    model.far = model.pair;
    for (int i = 0; i < SHAPES; i++) {
        shapes[i] = draw(&rng);
        obs[i].shape = shapes[i];
        obs[i].step_s = firn_itertime_parts(&model, &shapes[i]).step_s *
                        (1 + 0.1 * rng_normal(&rng));
        obs[i].sync_s = NAN;
    }
    correction_learn(&correction, &model, obs, SHAPES);
    measure("iteration", iteration, shapes);
    measure("correction", correct, shapes);
    measure("goodput", goodput, shapes);
    refits(&model, &rng);
    return 0;
}
