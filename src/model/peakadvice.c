/* peakadvice.c - the cheapest changes with which a job fits a GPU.
 *
 * A change is a row of the table below: a few settings by their words. Every
 * row and every pair of rows that sets different things is tried; those that
 * fit are ordered by their price in time: seconds of a sample with the change
 * over those without it, by the model of peakplan.h. A change that trains
 * something else (LoRA, another precision) counts three times its price: it is
 * listed first only where others are slow. A pair is kept only if neither of
 * its parts fits alone, and of changes with adapters only the cheapest.
 *
 * Cost: some hundred predictions.
 */
#include <firn/peakplan.h>

#include <stdio.h>
#include <string.h>

#define MIB_PER_GIB 1024.0

enum { SETTINGS = 3 };

static const struct change {
    const char *text;
    const char *set[SETTINGS][2];
    bool changes_training;
} changes[] = {
    {"--loss fused", {{"loss", "fused"}}, false},
    {"--loss chunked", {{"loss", "chunked"}}, false},
    {"--checkpointing", {{"checkpointing", "layers"}}, false},
    {"--selective", {{"checkpointing", "selective"}}, false},
    {"--optimizer adamw-fused", {{"optimizer", "adamw-fused"}}, false},
    {"--offload optimizer", {{"offload", "optimizer"}}, false},
    {"--zero 1 --dp 8", {{"zero", "1"}, {"dp", "8"}}, false},
    {"--zero 2 --dp 8", {{"zero", "2"}, {"dp", "8"}}, false},
    {"--zero 3 --dp 8", {{"zero", "3"}, {"dp", "8"}}, false},
    {"--optimizer adamw-8bit", {{"optimizer", "adamw-8bit"}}, true},
    {"--precision bf16", {{"precision", "bf16"}}, true},
    {"--lora 16 --lora-on all",
     {{"adapter", "lora"}, {"lora", "16"}, {"lora_on", "all"}},
     true},
    {"--qlora 16 --lora-on all",
     {{"adapter", "qlora"}, {"lora", "16"}, {"lora_on", "all"}},
     true},
};

enum { CHANGES = sizeof changes / sizeof *changes };

static bool is_eight(const struct change *c)
{
    const char *first = c->set[0][0];
    return first != NULL && strcmp(first, "zero") == 0;
}

/* True: the job has it already, or it makes no sense for it. */
static bool is_vain(const struct firn_peak_job *job, const struct change *c)
{
    struct firn_peak_job j = *job;
    const char *first = c->set[0][0];
    bool is_adapter = strcmp(first, "adapter") == 0;
    bool has_adapter = job->adapter != FIRN_ADAPTER_NONE;
    if (is_adapter)
        return job->adapter == FIRN_ADAPTER_QLORA ||
               (has_adapter && strcmp(c->set[0][1], "lora") == 0);
    if (is_eight(c))
        return job->dp > 1 && job->zero >= c->set[0][1][0] - '0';
    if (strcmp(first, "checkpointing") == 0)
        return job->recompute != FIRN_RECOMPUTE_NONE;
    if (strcmp(first, "precision") == 0)
        return job->mode == FIRN_MODE_BF16;
    if (strcmp(first, "offload") == 0)
        return has_adapter || job->offloads_optimizer;
    if (firn_peak_set(&j, first, c->set[0][1], NULL) != FIRN_OK)
        return true;
    if (strcmp(first, "loss") == 0)
        return job->loss == FIRN_LOSS_FUSED || j.loss == job->loss;
    return has_adapter || j.optimizer == job->optimizer;
}

static void apply(struct firn_peak_job *job, const struct change *c)
{
    int dp = job->dp;
    for (int i = 0; i < SETTINGS && c->set[i][0]; i++)
        firn_peak_set(job, c->set[i][0], c->set[i][1], NULL);
    if (is_eight(c) && dp > 1)
        job->dp = dp; /* over the GPUs that it has */
}

struct advising {
    const struct firn_peak_job *job;
    double mem_mib, sample_s; /* without a change */
    const struct firn_llm_gpus *gpus;
    struct firn_llm_speed speed;
    struct firn_peak_advice *out;
    size_t n, max;
};

static double sample_s(const struct advising *a,
                       const struct firn_peak_job *job)
{
    struct firn_llm_gpus one = *a->gpus;
    one.speed = 1;
    return firn_peak_step_s(job, 1, &one, &a->speed) / job->micro_batch;
}

static double price(const struct firn_peak_advice *a)
{
    return a->slowdown * (a->changes_training ? 3 : 1);
}

static bool is_cheaper(const struct firn_peak_advice *a,
                       const struct firn_peak_advice *b)
{
    if (price(a) != price(b))
        return price(a) < price(b);
    return a->gpus < b->gpus;
}

static bool is_adapter(const struct firn_peak_advice *a)
{
    return strstr(a->text, "lora ") != NULL;
}

/* In order of price; of those with adapters only the cheapest. */
static void add_advice(struct advising *a, struct firn_peak_advice advice)
{
    size_t twin = a->n;
    for (size_t i = 0; i < a->n && is_adapter(&advice); i++)
        if (is_adapter(&a->out[i]))
            twin = i;
    size_t at = twin < a->n ? twin : a->n < a->max ? a->n : a->max - 1;
    if (at < a->n && !is_cheaper(&advice, &a->out[at]))
        return;
    if (at == a->n)
        a->n++;
    for (; at > 0 && is_cheaper(&advice, &a->out[at - 1]); at--)
        a->out[at] = a->out[at - 1];
    a->out[at] = advice;
}

/* Adds the job when it fits; `text` says what was changed. */
static bool try_job(struct advising *a, const struct firn_peak_job *job,
                    const char *first, const char *second, bool is_other)
{
    struct firn_peak_job j = *job;
    if (firn_peak_check(&j, NULL) != FIRN_OK)
        return false;
    double device_mib = firn_peak_of(&j).device_mib;
    if (device_mib > a->mem_mib)
        return false;
    struct firn_peak_advice advice = {
        .device_mib = device_mib,
        .slowdown = sample_s(a, &j) / a->sample_s,
        .changes_training = is_other,
        .gpus = j.tp * j.pp * j.dp,
    };
    snprintf(advice.text, sizeof advice.text, "%s%s%s", first,
             *second ? " " : "", second);
    add_advice(a, advice);
    return true;
}

/* The largest micro-batch that fits; the rest is accumulated. */
static void try_smaller(struct advising *a, const struct change *with)
{
    struct firn_peak_job j = *a->job;
    char text[40];
    if (with)
        apply(&j, with);
    j.keeps_gradients = true;
    int most = firn_peak_largest(&j, a->mem_mib / MIB_PER_GIB);
    if (most == 0 || most >= a->job->micro_batch)
        return;
    j.micro_batch = most;
    snprintf(text, sizeof text, "--micro-batch %d", most);
    try_job(a, &j, text, with ? with->text : "",
            with && with->changes_training);
}

size_t firn_peak_advise(const struct firn_peak_job *job, double mem_gib,
                        const struct firn_llm_gpus *gpus,
                        struct firn_peak_advice *out, size_t max)
{
    struct advising a = {.job = job,
                         .mem_mib = mem_gib * MIB_PER_GIB,
                         .gpus = gpus,
                         .speed = firn_llm_speed_of(gpus->name, gpus->speed),
                         .out = out,
                         .max = max};
    bool fits[CHANGES] = {false}, vain[CHANGES];
    if (max == 0 || firn_peak_of(job).device_mib <= a.mem_mib)
        return 0;
    a.sample_s = sample_s(&a, job);
    for (int i = 0; i < CHANGES; i++) {
        struct firn_peak_job j = *job;
        vain[i] = is_vain(job, &changes[i]);
        if (vain[i])
            continue;
        apply(&j, &changes[i]);
        fits[i] =
            try_job(&a, &j, changes[i].text, "", changes[i].changes_training);
    }
    try_smaller(&a, NULL);
    for (int i = 0; i < CHANGES; i++)
        for (int k = i + 1; k < CHANGES; k++) {
            struct firn_peak_job j = *job;
            bool is_same =
                strcmp(changes[i].set[0][0], changes[k].set[0][0]) == 0;
            if (fits[i] || fits[k] || vain[i] || vain[k] || is_same)
                continue;
            apply(&j, &changes[i]);
            apply(&j, &changes[k]);
            try_job(&a, &j, changes[i].text, changes[k].text,
                    changes[i].changes_training || changes[k].changes_training);
        }
    return a.n;
}
