/* cmd_memory.c - firn memory: what training a transformer takes, and where it
 * fits.
 *
 * The shape comes from --model or from --hidden, --layers, --heads and
 * --vocab; a number given beside --model replaces that of the model. With
 * --cluster the feasible plans follow, best first.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/memory_page.h"
#include "cli/output.h"
#include <stdio.h>
#include <string.h>

struct args {
    const char *model, *cluster, *format, *lora_on;
    int hidden, layers, heads, kv_heads, ffn, vocab;
    int family; /* -1: not said */
    int precision, optimizer, attention;
    bool is_checkpointing, is_plain, frees_gradients;
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
    return firn_fail(err, FIRN_EINVAL, "'%.40s' is none of %s", value, known);
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
    {"model", 'm', "NAME", "a shape by name; 'list' lists them", flag_text,
     offsetof(struct args, model)},
    {"hidden", 0, "H", "hidden size", flag_count,
     offsetof(struct args, hidden)},
    {"layers", 0, "L", "layers", flag_count, offsetof(struct args, layers)},
    {"heads", 0, "A", "attention heads", flag_count,
     offsetof(struct args, heads)},
    {"kv-heads", 0, "K",
     "heads of keys and values; as many as heads if not "
     "given",
     flag_count, offsetof(struct args, kv_heads)},
    {"ffn", 0, "F", "inner width of the MLP; 4 H if not given", flag_count,
     offsetof(struct args, ffn)},
    {"vocab", 0, "V", "vocabulary", flag_count, offsetof(struct args, vocab)},
    {"family", 0, "KIND", "gpt2, bert or llama (gated MLP, RMS norm)",
     set_family, offsetof(struct args, family)},
    {"seq", 's', "S", "tokens of a sample; 1024 if not given", flag_count,
     offsetof(struct args, seq)},
    {"micro-batch", 'b', "B", "samples on a GPU in one pass; 1 if not given",
     flag_count, offsetof(struct args, micro_batch)},
    {"batch", 0, "N",
     "samples of a step on all GPUs, for the plans; "
     "micro-batch x dp if not given",
     flag_count, offsetof(struct args, batch)},
    {"precision", 'p', "KIND",
     "amp (autocast over fp32 weights; the default), "
     "fp32, bf16, megatron",
     set_precision, offsetof(struct args, precision)},
    {"attention", 0, "KIND", "sdpa (the default) or eager", set_attention,
     offsetof(struct args, attention)},
    {"optimizer", 0, "KIND", "adamw (the default) or sgd with momentum",
     set_optimizer, offsetof(struct args, optimizer)},
    {"no-momentum", 0, NULL, "sgd keeps no momentum", flag_yes,
     offsetof(struct args, is_plain)},
    {"checkpointing", 0, NULL, "layers are computed again in the backward pass",
     flag_yes, offsetof(struct args, is_checkpointing)},
    {"free-gradients", 0, NULL,
     "gradients are freed before each pass (zero_grad without accumulation)",
     flag_yes, offsetof(struct args, frees_gradients)},
    {"lora", 0, "R", "train adapters of this rank only", flag_count,
     offsetof(struct args, lora)},
    {"lora-on", 0, "LIST",
     "projections with an adapter: q, k, v, o, gate, up, "
     "down; q,v if not given",
     flag_text, offsetof(struct args, lora_on)},
    {"zero", 0, "N", "ZeRO stage 0 to 3; 3 is fully sharded", flag_whole,
     offsetof(struct args, zero)},
    {"tp", 't', "T", "tensor-parallel GPUs", flag_count,
     offsetof(struct args, tp)},
    {"dp", 'd', "D", "data-parallel replicas", flag_count,
     offsetof(struct args, dp)},
    {"cluster", 'c', "CLUSTER", "also print the plans that fit there",
     flag_text, offsetof(struct args, cluster)},
    {"plans", 'n', "N", "how many of them; 10 if not given", flag_count,
     offsetof(struct args, nplans)},
    {"output", 'o', "FORMAT", "table or json", flag_text,
     offsetof(struct args, format)},
    {0},
};

static const struct flags_page page = {
    .command = "memory",
    .usage = "--model NAME [options]\n"
             "--hidden H --layers L --heads A --vocab V [options]",
    .about = "Predicts the memory that training a transformer takes on each "
             "GPU: the\npeak of all tensors, up to the most that the "
             "allocator may hold for them; Frenzy's\nMARP beside it. With "
             "--cluster, the feasible plans (type, t, d), best first.",
    .table = table,
};

/* "q,v" as bits. */
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
    /* The width goes with the size it belongs to. */
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

/* With the plans, when a cluster is named. */
static int run(const struct args *args, const struct firn_memory_job *job,
               bool is_json)
{
    struct memory_plans plans = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (args->cluster && find_plans(args, job, &plans, &err) != FIRN_OK) {
        fprintf(stderr, "firn memory: %s\n", err.text);
        return 1;
    }
    const struct memory_plans *found = args->cluster ? &plans : NULL;
    (is_json ? memory_page_json : memory_page_table)(job, found, &out);
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
    static const char *const formats[] = {"table", "json", NULL};
    struct args args = {.format = "table",
                        .lora_on = "q,v",
                        .family = -1,
                        .precision = FIRN_PRECISION_AMP,
                        .attention = FIRN_ATTENTION_SDPA,
                        .seq = 1024,
                        .micro_batch = 1,
                        .nplans = 10};
    struct firn_memory_job job;
    struct firn_error err = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    int format = output_format(page.command, args.format, formats);
    if (format < 0)
        return 2;
    if (argc > 1)
        return flags_wrong(&page, "unexpected '%s'", argv[1]);
    if (args.model && strcmp(args.model, "list") == 0)
        return list(format == 1);
    if (!args.model && (args.hidden == 0 || args.layers == 0 ||
                        args.heads == 0 || args.vocab == 0))
        return flags_wrong(&page, "--model, or --hidden, --layers, --heads "
                                  "and --vocab");
    if (make_job(&args, &job, &err) != FIRN_OK)
        return flags_wrong(&page, "%s", err.text);
    return run(&args, &job, format == 1);
}
