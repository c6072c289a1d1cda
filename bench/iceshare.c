/* iceshare.c - time of one decision of icefrog, by jobs and GPUs.
 *
 * The solver alone: menus as the policy makes them, in half GPUs, of jobs whose
 * speed grows with a power of their GPUs (1 to 8, then whole nodes), a third
 * of them with half a GPU to choose, waiting worth one interval. Then whole
 * rounds of the policy, from the view to the steps, with an engine that only
 * forecasts by the same powers: the first, in which all jobs are placed, and
 * the next, 300 s later, after a tenth as many jobs have arrived. Best of some
 * runs.
 */
#include "policy/iceshare.h"
#include "base/arena.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/round.h"
#include "lib/measure.h"
#include <stdio.h>

enum { RUNS = 5, NODE = 8, MOST = 32, MENU = 16 };

/* ---- the solver ---- */

/* Draws one job's choices; returns how many. */
static size_t draw_menu(struct rng *rng, struct iceshare_choice *out)
{
    double age_s = 20000 * rng_unit(rng), left_s = rng_exp(rng, 20000);
    double power = 0.5 + 0.45 * rng_unit(rng);
    double best_s = age_s + left_s / fm_pow(MOST, power);
    size_t n = 0;
    out[n++] = (struct iceshare_choice){0, 0, best_s / (best_s + 300)};
    if (rng_below(rng, 3) == 0)
        out[n++] =
            (struct iceshare_choice){0, 1, best_s / (age_s + left_s / 0.9)};
    for (int gpus = 1; gpus <= MOST; gpus += gpus < NODE ? 1 : NODE)
        out[n++] = (struct iceshare_choice){
            0, 2 * gpus, best_s / (age_s + left_s / fm_pow(gpus, power))};
    return n;
}

static void time_solver(size_t n, int gpus, double limit_ms)
{
    struct arena arena = {0};
    struct rng rng;
    char name[96];
    double best_ms = 1e9;
    int capacity = 2 * gpus;
    struct iceshare_choice *choices = mem_new(n * MENU, sizeof *choices);
    struct iceshare_item *items = mem_new(n, sizeof *items);
    size_t *chosen = mem_new(n, sizeof *chosen);
    rng_seed(&rng, n);
    for (size_t i = 0; i < n; i++) {
        items[i].choices = &choices[i * MENU];
        items[i].n = draw_menu(&rng, &choices[i * MENU]);
    }
    struct iceshare_problem problem = {items, n, &capacity, 1, ICESHARE_LEXIMIN,
                                       0};
    for (int run = 0; run < RUNS; run++) {
        double from_s = measure_cpu_s();
        iceshare_solve(&problem, chosen, &arena, NULL);
        double ms = 1e3 * (measure_cpu_s() - from_s);
        best_ms = ms < best_ms ? ms : best_ms;
        arena_reset(&arena);
    }
    snprintf(name, sizeof name, "iceshare, %zu jobs, %d GPUs", n, gpus);
    measure_at_most(name, best_ms, limit_ms, "ms");
    mem_free(choices);
    mem_free(items);
    mem_free(chosen);
    arena_release(&arena);
}

/* ---- whole rounds ---- */

/* A table, since speeds are asked for many times within the measured time. */
static double speed[4][MOST + 1];

static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    (void)state;
    (void)now_s;
    return speed[job->id % 4][way->gpus] / speed[job->id % 4][job->spec.gpus];
}

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    (void)state;
    (void)way;
    return (struct firn_load){0.2 + 0.1 * (job->id % 7), 4};
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    (void)state;
    (void)step;
    (void)err;
    return FIRN_OK;
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    (void)state;
    (void)err;
    return FIRN_OK;
}

static const struct firn_forecast_def forecast = {.rate = rate_of,
                                                  .load = load_of};

static const struct firn_engine_def engine = {
    .name = "bench",
    .summary = "forecasts and does nothing",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .apply = apply,
    .settled = settled,
};

static bool submit(struct round *round, struct rng *rng, firn_job_id id,
                   double at_s)
{
    struct firn_job_spec spec = {.name = "job",
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .submit_s = at_s,
                                 .gpus = 1,
                                 .gpus_min = 1,
                                 .gpus_max = MOST,
                                 .duration_s = 60 + rng_exp(rng, 20000),
                                 .restart_s = -1,
                                 .may_share = id % 3 == 0};
    struct firn_event event = {
        .kind = FIRN_EVENT_SUBMIT, .at_s = at_s, .job = id, .spec = &spec};
    return round_event(round, &event, NULL) == FIRN_OK;
}

/* Milliseconds of the first and of the next round; false on failure. */
static bool time_rounds(const struct firn_cluster *cluster, int n,
                        double *first_ms, double *next_ms)
{
    struct round_config config = {.cluster = cluster,
                                  .policy = firn_policy_find("icefrog", NULL),
                                  .engine = &engine};
    struct round *round;
    struct rng rng;
    rng_seed(&rng, (uint64_t)n);
    if (round_new(&round, &config, NULL) != FIRN_OK)
        return false;
    bool ok = true;
    for (int i = 0; i < n; i++)
        ok = ok && submit(round, &rng, i, 0);
    double from_s = measure_cpu_s();
    ok = ok && round_decide(round, 0, NULL) == FIRN_OK;
    *first_ms = 1e3 * (measure_cpu_s() - from_s);
    for (int i = n; i < n + n / 10; i++)
        ok = ok && submit(round, &rng, i, 300);
    from_s = measure_cpu_s();
    ok = ok && round_decide(round, 300, NULL) == FIRN_OK;
    *next_ms = 1e3 * (measure_cpu_s() - from_s);
    round_free(round);
    return ok;
}

static bool time_policy(int n, int gpus, double limit_ms)
{
    struct firn_cluster cluster;
    char spec[32], name[96];
    double first_ms = 0, next_ms = 0, best_first = 1e9, best_next = 1e9;
    snprintf(spec, sizeof spec, "%dx%d:v100", gpus / NODE, NODE);
    if (firn_cluster_parse_spec(&cluster, spec, NULL) != FIRN_OK)
        return false;
    bool ok = true;
    for (int run = 0; ok && run < RUNS; run++) {
        ok = time_rounds(&cluster, n, &first_ms, &next_ms);
        best_first = first_ms < best_first ? first_ms : best_first;
        best_next = next_ms < best_next ? next_ms : best_next;
    }
    firn_cluster_release(&cluster);
    snprintf(name, sizeof name, "icefrog, first round, %d jobs, %d GPUs", n,
             gpus);
    measure_at_most(name, best_first, limit_ms, "ms");
    snprintf(name, sizeof name, "icefrog, next round, %d jobs, %d GPUs",
             n + n / 10, gpus);
    measure_at_most(name, best_next, limit_ms, "ms");
    return ok;
}

int main(void)
{
    static const double power[] = {0.5, 0.7, 0.85, 0.95};
    for (int k = 0; k < 4; k++)
        for (int gpus = 1; gpus <= MOST; gpus++)
            speed[k][gpus] = fm_pow(gpus, power[k]);
    time_solver(60, 48, 1);
    time_solver(120, 240, 1);
    time_solver(400, 960, 1);
    time_solver(4000, 10000, 50);
    bool ok = time_policy(60, 48, 1) && time_policy(120, 240, 2) &&
              time_policy(400, 960, 5) && time_policy(4000, 10000, 50);
    return ok ? 0 : 1;
}
