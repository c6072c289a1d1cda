/* frenzy.c - time of a round of frenzy with n waiting language models, beside
 * sia's.
 *
 * Sia's cluster of 44 GPUs; GPT-2 and BERT of four sizes and five batches, all
 * submitted at once and without a number of GPUs. A round is timed from the
 * view to the steps, with an engine that only forecasts: the first, in which
 * plans are made, and one with the cluster full. Beside it the same for sia,
 * which asks about numbers of GPUs. (The paper's Figure 5a: ten times less
 * than Sia.) The first round at 10 000 models is at that bar (0.09 to 0.11 on
 * a busy machine): it makes the plans of 20 kinds of jobs, about 230 memory
 * predictions and 540 speeds, which are half of its 0.9 million instructions.
 * Core's work around the policy counts too.
 */
#include "core/llmjobs.h"
#include "core/round.h"
#include "lib/measure.h"
#include <firn/policy.h>
#include <stdio.h>
#include <string.h>

enum { MODELS = 4, BATCHES = 5, KINDS = MODELS * BATCHES, RUNS = 9 };
enum { TYPES = 3, GPUS = 44, NODES = 6 }; /* of the cluster */

static struct firn_cluster cluster;
static struct firn_job_spec specs[KINDS];
static struct llmjob llms[KINDS];
static char types[KINDS][LLMJOBS_TYPES_TEXT];

/* Answers are cached, as in the simulator, until the next run; 0 means not
 * computed yet. */
static double kept[KINDS][TYPES][GPUS + 1][NODES + 1];

static double rate(void *state, const struct firn_job *job,
                   const struct firn_way *way, double now)
{
    (void)state, (void)now;
    firn_type_id type = way->type == FIRN_ANY_TYPE ? 0 : way->type;
    if (way->gpus > GPUS || way->nodes > NODES)
        return 0;
    double *at = &kept[job->id % KINDS][type][way->gpus][way->nodes];
    if (*at == 0) {
        struct llmspot spot =
            llmjobs_packed(&cluster, type, way->gpus, way->nodes);
        *at = 1 + llmjobs_expect(&llms[job->id % KINDS], &spot,
                                 (struct llmhow){0}, NULL);
    }
    return *at - 1;
}

static size_t llm_ways(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max)
{
    (void)state;
    return llmjobs_ways(&llms[job->id % KINDS], &cluster, job, 1, out, max);
}

static const struct firn_forecast_def forecast = {.rate = rate,
                                                  .llm_ways = llm_ways};

static void make_kinds(void)
{
    static const char *const models[MODELS] = {"gpt2-124m", "gpt2-350m",
                                               "gpt2-774m", "bert-large"};
    for (int i = 0; i < KINDS; i++) {
        specs[i] = (struct firn_job_spec){.name = "job",
                                          .app = models[i % MODELS],
                                          .group = "",
                                          .types = "",
                                          .duration_s = 3600,
                                          .restart_s = -1,
                                          .batch = 2 << i / MODELS,
                                          .seq = 512};
        llmjobs_fill(&cluster, &specs[i]);
        llmjobs_restrict(&cluster, &specs[i], types[i]);
        llms[i] = llmjobs_open(&cluster, &specs[i], 7);
    }
}

/* Lowers ms[0] and ms[1] to the milliseconds of the first and of the second
 * round; false on failure. */
static bool time_rounds(const char *policy, int n, double ms[2])
{
    struct firn_engine_def engine = measure_engine(&forecast);
    struct round_config config = {.cluster = &cluster,
                                  .policy = firn_policy_find(policy, NULL),
                                  .engine = &engine};
    struct round *round;
    memset(kept, 0, sizeof kept); /* the first round of every run asks anew */
    bool ok = round_new(&round, &config, NULL) == FIRN_OK;
    for (int i = 0; ok && i < n; i++) {
        struct firn_event event = {
            .kind = FIRN_EVENT_SUBMIT, .job = i, .spec = &specs[i % KINDS]};
        ok = round_event(round, &event, NULL) == FIRN_OK;
    }
    for (int k = 0; ok && k < 2; k++) {
        double from_s = measure_cpu_s();
        ok = round_decide(round, 60 * k, NULL) == FIRN_OK;
        double took_ms = 1e3 * (measure_cpu_s() - from_s);
        ms[k] = took_ms < ms[k] ? took_ms : ms[k];
    }
    round_free(round);
    return ok;
}

static bool time_policy(const char *policy, int n, double limit_ms,
                        double best[2])
{
    static const char *const rounds[] = {"first", "next"};
    char name[96];
    best[0] = best[1] = 1e9;
    for (int run = 0; run < RUNS; run++)
        if (!time_rounds(policy, n, best))
            return false;
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, "%s, %s round, %d models", policy,
                 rounds[k], n);
        if (limit_ms > 0)
            measure_at_most(name, best[k], limit_ms, "ms");
        else
            measure_tell(name, best[k], "ms");
    }
    return true;
}

int main(void)
{
    double ours[2], sias[2];
    if (firn_cluster_parse_spec(&cluster, "3x8:2080ti,2x8:a100,1x4:rtx6000",
                                NULL) != FIRN_OK)
        return 1;
    make_kinds();
    bool ok = true;
    for (int n = 100; ok && n <= 10000; n *= 10) {
        ok = time_policy("frenzy", n, n == 10000 ? 10 : 0, ours) &&
             time_policy("sia", n, 0, sias);
        char name[96];
        snprintf(name, sizeof name, "frenzy / sia, next round, %d models", n);
        measure_at_most(name, ours[1] / sias[1], 0.1, "");
        snprintf(name, sizeof name, "frenzy / sia, first round, %d models", n);
        if (n == 10000)
            measure_at_most(name, ours[0] / sias[0], 0.1, "");
        else
            measure_tell(name, ours[0] / sias[0], "");
    }
    firn_cluster_release(&cluster);
    return ok ? 0 : 1;
}
