/* peakadvice.c - the cheapest changes with which a job fits a GPU.
 *
 * A change is a row of the table below, a few settings by their words, or a
 * smaller micro-batch. Every change and every pair that sets different things
 * is tried, three together where fewer than three were found, and four where
 * none was; those that fit are ordered by their price in time: seconds of a
 * sample with the change over those without it, by the model of peakplan.h. A
 * change that trains something else (LoRA, another precision) counts three
 * times its price: it is listed first only where others are slow. Changes are
 * kept together only if none of them fits alone, and no two of three; of
 * changes with adapters only the cheapest.
 *
 * Cost: some hundred predictions; of four together ten
 * thousand.
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

/* A smaller micro-batch is one more change; at most PARTS are made together. */
enum {
    SMALLER = sizeof changes / sizeof *changes,
    NONE = SMALLER + 1,
    PARTS = 4,
    ENOUGH = 3
};
_Static_assert(SMALLER < 32, "a bit for each");

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

/* Changes that are tried together. */
struct combination {
    int parts[PARTS]; /* places in `changes`; SMALLER: the micro-batch */
    int n;
};

/* What is changed, as options: "--micro-batch 2 --loss fused". */
static void write_text(struct firn_peak_advice *advice,
                       const struct combination *with, int micro_batch)
{
    size_t used = 0;
    for (int i = 0; i < with->n && used < sizeof advice->text; i++) {
        char smaller[40];
        const char *text = smaller;
        if (with->parts[i] == SMALLER)
            snprintf(smaller, sizeof smaller, "--micro-batch %d", micro_batch);
        else
            text = changes[with->parts[i]].text;
        used +=
            (size_t)snprintf(advice->text + used, sizeof advice->text - used,
                             "%s%s", i > 0 ? " " : "", text);
    }
}

/* The job with the changes; false: it makes no sense. A smaller micro-batch is
 * the largest that fits, and the rest of the batch is accumulated. */
static bool change(const struct advising *a, const struct combination *with,
                   struct firn_peak_job *job)
{
    bool is_smaller = false;
    *job = *a->job;
    for (int i = 0; i < with->n; i++)
        if (with->parts[i] == SMALLER)
            is_smaller = true;
        else
            apply(job, &changes[with->parts[i]]);
    if (is_smaller) {
        job->keeps_gradients = true;
        int most = firn_peak_largest(job, a->mem_mib / MIB_PER_GIB);
        if (most == 0 || most >= a->job->micro_batch)
            return false;
        job->micro_batch = most;
    }
    return firn_peak_check(job, NULL) == FIRN_OK;
}

/* Adds the job when it fits with the changes. */
static bool try_changes(struct advising *a, const struct combination *with)
{
    struct firn_peak_job job;
    if (!change(a, with, &job))
        return false;
    double device_mib = firn_peak_of(&job).device_mib;
    if (device_mib > a->mem_mib)
        return false;
    struct firn_peak_advice advice = {
        .device_mib = device_mib,
        .slowdown = sample_s(a, &job) / a->sample_s,
        .gpus = job.tp * job.pp * job.dp,
    };
    for (int i = 0; i < with->n; i++)
        advice.changes_training = advice.changes_training ||
                                  (with->parts[i] != SMALLER &&
                                   changes[with->parts[i]].changes_training);
    write_text(&advice, with, job.micro_batch);
    add_advice(a, advice);
    return true;
}

/* Two parts that set the same thing, or one that the job has already; `k` may
 * be NONE. */
static bool is_absurd(const struct firn_peak_job *job, int i, int k)
{
    if (i != SMALLER && is_vain(job, &changes[i]))
        return true;
    if (i == SMALLER || k == SMALLER || k == NONE)
        return i == k;
    return strcmp(changes[i].set[0][0], changes[k].set[0][0]) == 0;
}

/* Tries all combinations of `n` more parts from `first` on. Those with a part,
 * or two, that fit by themselves are left out: less does it. `fits` has a bit
 * for each such part or pair. */
static void try_more(struct advising *a, struct combination *with, int first,
                     int n, unsigned fits[SMALLER + 1])
{
    for (int i = first; i <= SMALLER; i++) {
        bool is_left_out = (fits[i] >> i & 1) || is_absurd(a->job, i, NONE);
        for (int k = 0; k < with->n; k++)
            is_left_out = is_left_out || is_absurd(a->job, i, with->parts[k]) ||
                          (fits[i] >> with->parts[k] & 1);
        if (is_left_out)
            continue;
        with->parts[with->n++] = i;
        if (n > 1) {
            try_more(a, with, i + 1, n - 1, fits);
        } else if (try_changes(a, with) && with->n <= 2) {
            fits[i] |= 1U << with->parts[0];
            fits[with->parts[0]] |= 1U << i;
        }
        with->n--;
    }
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
    unsigned fits[SMALLER + 1] = {0};
    if (max == 0 || firn_peak_of(job).device_mib <= a.mem_mib)
        return 0;
    a.sample_s = sample_s(&a, job);
    for (int n = 1; n <= PARTS && (n <= 2 || a.n < (n == 3 ? ENOUGH : 1)); n++)
        try_more(&a, &(struct combination){.n = 0}, 0, n, fits);
    return a.n;
}
