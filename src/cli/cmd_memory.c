/* cmd_memory.c - firn memory: GPU memory of a transformer, and plans that fit.
 *
 * The model's shape comes from --model, or from --hidden, --layers, --heads and
 * --vocab; these also override single numbers of --model. With --cluster the
 * feasible plans are printed, best first.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/memory_page.h"
#include "cli/output.h"
#include <stdio.h>
#include <string.h>

struct args {
    const char *model, *cluster, *lora_on;
    int hidden, layers, heads, kv_heads, ffn, vocab;
    int family; /* -1: not given */
    int precision, optimizer, attention;
    bool is_checkpointing, is_plain, frees_gradients, is_json;
    int seq, micro_batch, batch, lora, tp, dp;
    long zero;
    int nplans;
};

static const char *const families[] = {"gpt2", "bert", "llama"};
static const char *const precisions[] = {"fp32", "bf16", "amp", "megatron"};
static const char *const optimizers[] = {"adamw", "sgd"};
static const char *const attentions[] = {"eager", "sdpa"};
/* In the order of the bits FIRN_LLM_*. */
static const char *const projections[] = {"q",    "k",  "v",   "o",
                                          "gate", "up", "down"};

static enum firn_status choose(int *at, const char *value,
                               const char *const *names, size_t n,
                               struct firn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], value) == 0) {
            *at = (int)i;
            return FIRN_OK;
        }
    char known[128] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i ? ", " : "", names[i]);
    return firn_fail(err, FIRN_EINVAL, "'%.40s' is not one of %s", value,
                     known);
}

#define CHOICE(name, list)                                               \
    static enum firn_status name(void *at, const char *value,            \
                                 struct firn_error *err)                 \
    {                                                                    \
        return choose(at, value, list, sizeof list / sizeof *list, err); \
    }

CHOICE(set_family, families)
CHOICE(set_precision, precisions)
CHOICE(set_optimizer, optimizers)
CHOICE(set_attention, attentions)

static const struct flag table[] = {
    {"model", 'm', "NAME", "model by name; 'list' prints the known models",
     flag_text, offsetof(struct args, model)},
    {"hidden", 0, "H", "hidden size", flag_count,
     offsetof(struct args, hidden)},
    {"layers", 0, "L", "number of layers", flag_count,
     offsetof(struct args, layers)},
    {"heads", 0, "A", "number of attention heads", flag_count,
     offsetof(struct args, heads)},
    {"kv-heads", 0, "K", "number of key/value heads (default: A)", flag_count,
     offsetof(struct args, kv_heads)},
    {"ffn", 0, "F", "inner width of the MLP (default: 4 H)", flag_count,
     offsetof(struct args, ffn)},
    {"vocab", 0, "V", "vocabulary size", flag_count,
     offsetof(struct args, vocab)},
    {"family", 0, "KIND",
     "layer type: gpt2, bert or llama (gated MLP, RMS norm)", set_family,
     offsetof(struct args, family)},
    {"seq", 's', "S", "sequence length in tokens (default: 1024)", flag_count,
     offsetof(struct args, seq)},
    {"micro-batch", 'b', "B", "samples per GPU and pass (default: 1)",
     flag_count, offsetof(struct args, micro_batch)},
    {"batch", 0, "N",
     "global batch size in samples, for --cluster (default: B x D)", flag_count,
     offsetof(struct args, batch)},
    {"precision", 'p', "KIND",
     "amp (autocast over fp32 weights), fp32, bf16 or megatron (default: "
     "amp)",
     set_precision, offsetof(struct args, precision)},
    {"attention", 0, "KIND",
     "sdpa, or eager, which stores the attention matrices "
     "(default: sdpa)",
     set_attention, offsetof(struct args, attention)},
    {"optimizer", 0, "KIND", "adamw, or sgd with momentum (default: adamw)",
     set_optimizer, offsetof(struct args, optimizer)},
    {"no-momentum", 0, NULL, "sgd without momentum", flag_yes,
     offsetof(struct args, is_plain)},
    {"checkpointing", 0, NULL,
     "activation checkpointing: recompute layers in the "
     "backward pass",
     flag_yes, offsetof(struct args, is_checkpointing)},
    {"free-gradients", 0, NULL,
     "free gradients before each pass (zero_grad without gradient "
     "accumulation)",
     flag_yes, offsetof(struct args, frees_gradients)},
    {"lora", 0, "R", "train only LoRA adapters of rank R", flag_count,
     offsetof(struct args, lora)},
    {"lora-on", 0, "LIST",
     "projections with an adapter, of q, k, v, o, gate, up and down "
     "(default: q,v)",
     flag_text, offsetof(struct args, lora_on)},
    {"zero", 0, "N", "ZeRO stage, 0 to 3; 3 is fully sharded (default: 0)",
     flag_whole, offsetof(struct args, zero)},
    {"tp", 't', "T", "tensor-parallel degree (default: 1)", flag_count,
     offsetof(struct args, tp)},
    {"dp", 'd', "D", "data-parallel degree (default: 1)", flag_count,
     offsetof(struct args, dp)},
    {"cluster", 'c', "CLUSTER", "also print the plans that fit on CLUSTER",
     flag_text, offsetof(struct args, cluster)},
    {"plans", 'n', "N", "number of plans to print (default: 10)", flag_count,
     offsetof(struct args, nplans)},
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page page = {
    .command = "memory",
    .usage = "--model NAME [options]\n"
             "--hidden H --layers L --heads A --vocab V [options]",
    .about = "Predicts the memory per GPU for training a transformer: the peak "
             "of all tensors and the largest reservation of the allocator for "
             "them, beside the prediction of Frenzy's formula (MARP). With "
             "--cluster it also prints the feasible plans (GPU type, tensor- "
             "and data-parallel degree), best first.",
    .table = table,
};

/* Converts "q,v" to bits FIRN_LLM_*. */
static enum firn_status parse_projections(const char *text, unsigned *out,
                                          struct firn_error *err)
{
    struct words words = {0};
    unsigned on = 0;
    enum firn_status status = flag_words(&words, text, err);
    for (size_t i = 0; i < words.n && status == FIRN_OK; i++) {
        int bit = 0;
        status = choose(&bit, words.at[i], projections,
                        sizeof projections / sizeof *projections, err);
        if (status == FIRN_OK)
            on |= 1U << bit;
    }
    words_release(&words);
    if (status == FIRN_OK)
        *out = on;
    return status;
}

static void replace(int *at, int given)
{
    if (given > 0)
        *at = given;
}

static enum firn_status make_shape(const struct args *args,
                                   struct firn_llm_shape *shape,
                                   struct firn_error *err)
{
    *shape = (struct firn_llm_shape){.is_tied = true};
    if (args->model)
        FIRN_TRY(firn_llm_find(shape, args->model, err));
    replace(&shape->hidden, args->hidden);
    replace(&shape->layers, args->layers);
    replace(&shape->heads, args->heads);
    replace(&shape->kv_heads, args->kv_heads);
    replace(&shape->vocab, args->vocab);
    /* A new hidden size resets the MLP width to its default. */
    if (args->ffn > 0 || args->hidden > 0)
        shape->ffn = args->ffn;
    if (args->heads > 0 && args->kv_heads == 0)
        shape->kv_heads = 0;
    if (args->family >= 0) {
        shape->family = (enum firn_llm_family)args->family;
        shape->is_tied = shape->family != FIRN_LLM_LLAMA;
    }
    return FIRN_OK;
}

static enum firn_status make_job(const struct args *args,
                                 struct firn_memory_job *job,
                                 struct firn_error *err)
{
    *job = (struct firn_memory_job){
        .seq = args->seq,
        .micro_batch = args->micro_batch,
        .precision = (enum firn_precision)args->precision,
        .optimizer = (enum firn_optimizer)args->optimizer,
        .attention = (enum firn_attention)args->attention,
        .is_checkpointing = args->is_checkpointing,
        .frees_gradients = args->frees_gradients,
        .lora_rank = args->lora,
        .zero = args->zero > 3 ? 4 : (int)args->zero,
        .tp = args->tp,
        .dp = args->dp,
    };
    if (args->is_plain && job->optimizer == FIRN_OPTIMIZER_SGD)
        job->optimizer = FIRN_OPTIMIZER_SGD_PLAIN;
    FIRN_TRY(make_shape(args, &job->shape, err));
    if (args->lora > 0)
        FIRN_TRY(parse_projections(args->lora_on, &job->lora_on, err));
    return firn_memory_check(job, err);
}

static enum firn_status find_plans(const struct args *args,
                                   const struct firn_memory_job *job,
                                   struct memory_plans *out,
                                   struct firn_error *err)
{
    FIRN_TRY(firn_cluster_open(&out->cluster, args->cluster, err));
    const struct firn_cluster *cluster = &out->cluster;
    for (int t = 0; t < cluster->ntypes; t++)
        out->types[t] = (struct firn_llm_gpus){
            .name = cluster->types[t].name,
            .mem_gib = cluster->types[t].mem_gib,
            .speed = cluster->types[t].speed,
            .count = cluster->types[t].ngpus,
        };
    for (int i = 0; i < cluster->nnodes; i++) {
        struct firn_llm_gpus *type = &out->types[cluster->nodes[i].type];
        if (cluster->nodes[i].ngpus > type->node_gpus)
            type->node_gpus = cluster->nodes[i].ngpus;
    }
    struct firn_llm_plan_options options = {
        .types = out->types,
        .ntypes = (size_t)cluster->ntypes,
        .batch = args->batch > 0 ? args->batch : job->micro_batch * job->dp,
    };
    size_t max =
        args->nplans < MEMORY_PLANS ? (size_t)args->nplans : MEMORY_PLANS;
    out->total = firn_llm_plans(job, &options, out->at, max);
    out->n = out->total < max ? out->total : max;
    return FIRN_OK;
}

static int run(const struct args *args, const struct firn_memory_job *job)
{
    struct memory_plans plans = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (args->cluster && find_plans(args, job, &plans, &err) != FIRN_OK) {
        fprintf(stderr, "firn memory: %s\n", err.text);
        return 1;
    }
    const struct memory_plans *found = args->cluster ? &plans : NULL;
    (args->is_json ? memory_page_json : memory_page_table)(job, found, &out);
    int rc = output_write(page.command, &out);
    buf_release(&out);
    firn_cluster_release(&plans.cluster);
    return rc;
}

static int list(bool is_json)
{
    struct firn_buf out = {0};
    memory_page_shapes(is_json, &out);
    int rc = output_write(page.command, &out);
    buf_release(&out);
    return rc;
}

int cmd_memory(int argc, char **argv)
{
    struct args args = {.lora_on = "q,v",
                        .family = -1,
                        .precision = FIRN_PRECISION_AMP,
                        .attention = FIRN_ATTENTION_SDPA,
                        .seq = 1024,
                        .micro_batch = 1,
                        .nplans = 10};
    struct firn_memory_job job;
    struct firn_error err = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (args.model && strcmp(args.model, "list") == 0)
        return list(args.is_json);
    if (!args.model && (args.hidden == 0 || args.layers == 0 ||
                        args.heads == 0 || args.vocab == 0))
        return flags_wrong(&page, "no model given: use --model NAME, or "
                                  "--hidden, --layers, --heads and --vocab");
    if (make_job(&args, &job, &err) != FIRN_OK)
        return flags_wrong(&page, "%s", err.text);
    return run(&args, &job);
}
