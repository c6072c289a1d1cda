/* model_eval.c - time of an evaluation of a model, and of a refit.
 *
 * Nanoseconds of an iteration time, of its learned correction and of a goodput
 * (the bar of 10^7 a second is 100 ns each), over random shapes of up to four
 * nodes. Milliseconds of fitting 60 measurements with Pollux's 7 parameters
 * (the bar is 1 ms in the mean): from nothing, and again with ten measurements
 * exchanged for new ones, as a scheduler does every round. The worst are those
 * that end on a bound, which the fit nears slowly. Time is processor time, the
 * least of a few repeats, so that other programs matter little.
 */
#include "base/rng.h"
#include "lib/measure.h"
#include "model/correct.h"
#include <firn/goodput.h>
#include <firn/itertime.h>
#include <math.h>

enum { SHAPES = 1024, ROUNDS = 100, REPEATS = 40 };
enum { POINTS = 60, MORE = 10, REFITS = 200, TRIES = 3 };

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

static void evaluations(const char *name, evaluation *f,
                        const struct firn_shape *shapes)
{
    double best_s = INFINITY;
    static volatile double kept; /* keeps the compiler from dropping the sum */
    for (int i = 0; i < REPEATS; i++) {
        double start_s = measure_cpu_s(), sum = 0;
        for (int r = 0; r < ROUNDS; r++)
            for (int k = 0; k < SHAPES; k++)
                sum += f(&shapes[k]);
        best_s = fmin(best_s, measure_cpu_s() - start_s);
        kept = sum;
    }
    (void)kept;
    measure_at_most(name, best_s / (SHAPES * ROUNDS) * 1e9, 100, "ns");
}

/* The least time of fitting n measurements from `prior`, which becomes the last
 * fit. */
static double refit_s(struct firn_itertime *prior,
                      const struct firn_step_obs *obs, size_t n)
{
    struct firn_itertime m = *prior;
    double best_s = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
        m = *prior;
        double from_s = measure_cpu_s();
        firn_itertime_refit(&m, obs, n, &fit, NULL);
        best_s = fmin(best_s, measure_cpu_s() - from_s);
    }
    *prior = m;
    return best_s;
}

static void refits(struct rng *rng)
{
    struct firn_step_obs obs[POINTS + MORE];
    double first_s = 0, again_s = 0, worst_s = 0, worst_again_s = 0;
    for (int i = 0; i < REFITS; i++) {
        struct firn_itertime m;
        for (int j = 0; j < POINTS + MORE; j++) {
            obs[j].shape = draw(rng);
            obs[j].step_s = firn_itertime_parts(&model, &obs[j].shape).step_s *
                            (1 + 0.02 * rng_normal(rng));
            obs[j].sync_s = NAN;
        }
        firn_itertime_default(&m);
        double s = refit_s(&m, obs, POINTS);
        first_s += s / REFITS;
        worst_s = fmax(worst_s, s);
        s = refit_s(&m, obs + MORE, POINTS);
        again_s += s / REFITS;
        worst_again_s = fmax(worst_again_s, s);
    }
    measure_at_most("fit of 60 steps from nothing, mean", first_s * 1e3, 1,
                    "ms");
    measure_tell("fit of 60 steps from nothing, worst", worst_s * 1e3, "ms");
    measure_at_most("refit with ten of them new, mean", again_s * 1e3, 1, "ms");
    measure_tell("refit with ten of them new, worst", worst_again_s * 1e3,
                 "ms");
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
    evaluations("iteration time, one evaluation", iteration, shapes);
    evaluations("learned correction, one evaluation", correct, shapes);
    evaluations("goodput, one evaluation", goodput, shapes);
    refits(&rng);
    return 0;
}
