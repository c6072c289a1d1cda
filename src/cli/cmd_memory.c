/* cmd_memory.c - firn memory: GPU memory of training, plans and changes.
 *
 * The architecture comes from --config (a config.json), from --model, or from
 * --hidden, --layers, --heads and --vocab; these also override single numbers
 * of --model. Settings of the training go by the words of firn/peak.h, which a
 * job file takes too. With --cluster the feasible plans are printed, best
 * first; with --gpu the largest micro-batch and the changes that make the job
 * fit.
 */
#include "base/buf.h"
#include "base/files.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/memory_page.h"
#include "cli/memory_vision.h"
#include "cli/output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *config, *model, *cluster, *gpu, *measured;
    int hidden, layers, heads, kv_heads, ffn, vocab;
    int family; /* -1: not given */
    const char *precision, *optimizer, *attention, *loss, *offload;
    const char *lora, *qlora, *lora_on, *lora_precision;
    bool is_checkpointing, is_selective, is_plain, frees_gradients,
        keeps_gradients, is_dora, is_sequence, keeps_gathered, is_json;
    int image;
    int seq, micro_batch, batch, tp, dp, pp, ep, micro_batches;
    long zero;
    int nplans;
};

static const char *const families[] = {"gpt2", "bert", "llama"};

static enum firn_status set_family(void *at, const char *value,
                                   struct firn_error *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(families[i], value) == 0) {
            *(int *)at = i;
            return FIRN_OK;
        }
    return firn_fail(err, FIRN_EINVAL,
                     "'%.40s' is not one of gpt2, bert, llama", value);
}

#define AT(member) offsetof(struct args, member)

static const struct flag table[] = {
    {"config", 0, "FILE", "config.json of a Hugging Face model", flag_text,
     AT(config)},
    {"model", 'm', "NAME", "model by name; 'list' prints the known models",
     flag_text, AT(model)},
    {"measured", 0, "B=MIB,B=MIB",
     "peaks measured at two batches instead of a model: predicts that of "
     "--micro-batch by the line through them",
     flag_text, AT(measured)},
    {"image", 0, "N",
     "side of the images of a network of convolutions, in pixels (default: "
     "224), or of a U-Net's latents (default: 64)",
     flag_count, AT(image)},
    {"hidden", 0, "H", "hidden size", flag_count, AT(hidden)},
    {"layers", 0, "L", "number of layers", flag_count, AT(layers)},
    {"heads", 0, "A", "number of attention heads", flag_count, AT(heads)},
    {"kv-heads", 0, "K", "number of key/value heads (default: A)", flag_count,
     AT(kv_heads)},
    {"ffn", 0, "F", "inner width of the MLP (default: 4 H)", flag_count,
     AT(ffn)},
    {"vocab", 0, "V", "vocabulary size", flag_count, AT(vocab)},
    {"family", 0, "KIND",
     "layer type: gpt2, bert or llama (gated MLP, RMS norm)", set_family,
     AT(family)},
    {"seq", 's', "S", "sequence length in tokens (default: 1024)", flag_count,
     AT(seq)},
    {"micro-batch", 'b', "B", "samples per GPU and pass (default: 1)",
     flag_count, AT(micro_batch)},
    {"batch", 0, "N",
     "global batch size in samples, for --cluster (default: B x D)", flag_count,
     AT(batch)},
    {"precision", 'p', "KIND",
     "amp (autocast over fp32 weights), fp32, bf16, bf16-master (fp32 weights "
     "in the optimizer: 16 bytes a parameter) or megatron (default: amp)",
     flag_text, AT(precision)},
    {"attention", 0, "KIND",
     "sdpa, or eager, which stores the attention matrices "
     "(default: sdpa)",
     flag_text, AT(attention)},
    {"loss", 0, "KIND",
     "plain (logits in fp32, as the library computes them), chunked (fp32 for "
     "an eighth at a time) or fused (logits for an eighth at a time) "
     "(default: plain)",
     flag_text, AT(loss)},
    {"optimizer", 0, "KIND",
     "adamw (tensor by tensor), adamw-foreach, adamw-fused, adamw-8bit, "
     "adafactor, lion, sgd with momentum or sgd-plain (default: adamw)",
     flag_text, AT(optimizer)},
    {"no-momentum", 0, NULL, "sgd without momentum", flag_yes, AT(is_plain)},
    {"checkpointing", 0, NULL,
     "activation checkpointing: recompute layers in the "
     "backward pass",
     flag_yes, AT(is_checkpointing)},
    {"selective", 0, NULL,
     "selective activation checkpointing: keep matrix products, recompute the "
     "rest",
     flag_yes, AT(is_selective)},
    {"offload", 0, "LIST",
     "what is kept in the host's memory: optimizer, activations (inputs of "
     "checkpointed layers)",
     flag_text, AT(offload)},
    {"keep-gradients", 0, NULL,
     "gradients stay between passes (gradient accumulation)", flag_yes,
     AT(keeps_gradients)},
    {"free-gradients", 0, NULL,
     "free gradients before each pass: the default, as zero_grad() does",
     flag_yes, AT(frees_gradients)},
    {"lora", 0, "R", "train only LoRA adapters of rank R", flag_text, AT(lora)},
    {"qlora", 0, "R", "LoRA of rank R on a base in 4 bits (nf4)", flag_text,
     AT(qlora)},
    {"dora", 0, NULL, "adapters are DoRA's: with a magnitude", flag_yes,
     AT(is_dora)},
    {"lora-on", 0, "LIST",
     "projections with an adapter, of q, k, v, o, gate, up and down, or all "
     "(default: q,v)",
     flag_text, AT(lora_on)},
    {"lora-precision", 0, "KIND",
     "of adapters: fp32, as peft has them, or bf16 (default: fp32)", flag_text,
     AT(lora_precision)},
    {"zero", 0, "N", "ZeRO stage, 0 to 3; 3 is fully sharded (default: 0)",
     flag_whole, AT(zero)},
    {"no-reshard", 0, NULL,
     "ZeRO 3: weights stay whole between forward and backward pass", flag_yes,
     AT(keeps_gathered)},
    {"tp", 't', "T", "tensor-parallel degree (default: 1)", flag_count, AT(tp)},
    {"sequence-parallel", 0, NULL,
     "the tensor group divides the tokens of norms too", flag_yes,
     AT(is_sequence)},
    {"dp", 'd', "D", "data-parallel degree (default: 1)", flag_count, AT(dp)},
    {"pp", 0, "P", "pipeline-parallel degree (default: 1)", flag_count, AT(pp)},
    {"ep", 0, "E", "expert-parallel degree (default: 1)", flag_count, AT(ep)},
    {"micro-batches", 0, "M",
     "micro-batches of a step, for pipelines (default: P)", flag_count,
     AT(micro_batches)},
    {"gpu", 0, "TYPE@GIB",
     "also print the largest micro-batch that fits this GPU, and the cheapest "
     "changes that make the job fit; h100@80, for example",
     flag_text, AT(gpu)},
    {"cluster", 'c', "CLUSTER", "also print the plans that fit on CLUSTER",
     flag_text, AT(cluster)},
    {"plans", 'n', "N", "number of plans to print (default: 10)", flag_count,
     AT(nplans)},
    FORMAT_FLAG(AT(is_json)),
    {0},
};

static const struct flags_page page = {
    .command = "memory",
    .usage = "--config FILE [options]\n"
             "--model NAME [options]\n"
             "--measured B=MIB,B=MIB --micro-batch B\n"
             "--hidden H --layers L --heads A --vocab V [options]",
    .about = "Predicts the memory per GPU for training a transformer: the peak "
             "of all tensors, term by term, and the largest reservation of the "
             "allocator for them, beside the prediction of Frenzy's formula "
             "(MARP). With --gpu it also prints which changes make the job "
             "fit, with --cluster the feasible plans (GPU type, tensor-, "
             "pipeline- and data-parallel degree, ZeRO stage), best first. "
             "Networks of convolutions (ResNet, ConvNeXt, a U-Net) are counted "
             "by name; for any other model two measured peaks give a line.",
    .table = table,
};

/* --- the job -------------------------------------------------------------- */

static void replace(int *at, int given)
{
    if (given > 0)
        *at = given;
}

static enum firn_status read_config(const char *path, struct firn_arch *arch,
                                    struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = files_text(&text, path, err);
    if (status == FIRN_OK) {
        status = firn_arch_read(
            arch, (struct firn_bytes){text.at ? text.at : "", text.n}, err);
        if (status != FIRN_OK)
            firn_fail_in(err, path);
    }
    buf_release(&text);
    return status;
}

/* A shape of llm.h: numbers given override those of the name. */
static enum firn_status make_shape(const struct args *args,
                                   struct firn_llm_shape *shape,
                                   struct firn_error *err)
{
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
    return firn_llm_complete(shape, err);
}

/* Another name than those of llm.h: single numbers may be replaced. */
static void change_arch(const struct args *args, struct firn_arch *arch)
{
    replace(&arch->hidden, args->hidden);
    replace(&arch->layers, args->layers);
    replace(&arch->heads, args->heads);
    replace(&arch->kv_heads, args->kv_heads);
    replace(&arch->ffn, args->ffn);
    replace(&arch->vocab, args->vocab);
}

static enum firn_status make_arch(const struct args *args,
                                  struct firn_arch *arch,
                                  struct firn_error *err)
{
    struct firn_llm_shape shape = {.is_tied = true};
    if (args->config) {
        FIRN_TRY(read_config(args->config, arch, err));
        change_arch(args, arch);
        return FIRN_OK;
    }
    if (args->model && firn_llm_find(&shape, args->model, NULL) != FIRN_OK) {
        FIRN_TRY(firn_arch_find(arch, args->model, err));
        change_arch(args, arch);
        return FIRN_OK;
    }
    FIRN_TRY(make_shape(args, &shape, err));
    *arch = firn_arch_of_shape(&shape);
    return FIRN_OK;
}

/* Applies a setting that was given; the message names it. */
static enum firn_status set(struct firn_peak_job *job, const char *setting,
                            const char *word, struct firn_error *err)
{
    if (!word)
        return FIRN_OK;
    enum firn_status status = firn_peak_set(job, setting, word, err);
    return status == FIRN_OK ? FIRN_OK : firn_fail_in(err, setting);
}

static enum firn_status make_adapter(const struct args *args,
                                     struct firn_peak_job *job,
                                     struct firn_error *err)
{
    const char *rank = args->qlora ? args->qlora : args->lora;
    if (!rank)
        return FIRN_OK;
    if (args->qlora && (args->lora || args->is_dora))
        return firn_fail(err, FIRN_EINVAL,
                         "--qlora stands for itself: give "
                         "neither --lora nor --dora with it");
    job->adapter = args->qlora     ? FIRN_ADAPTER_QLORA
                   : args->is_dora ? FIRN_ADAPTER_DORA
                                   : FIRN_ADAPTER_LORA;
    FIRN_TRY(set(job, "lora", rank, err));
    FIRN_TRY(set(job, "lora_on", args->lora_on, err));
    /* A frozen base needs no fp32 weights; peft users load it in bf16. */
    if (!args->precision)
        job->mode = FIRN_MODE_BF16;
    return set(job, "lora_precision", args->lora_precision, err);
}

static enum firn_status make_job(const struct args *args,
                                 struct firn_peak_job *job,
                                 struct firn_error *err)
{
    *job = (struct firn_peak_job){
        .seq = args->seq,
        .micro_batch = args->micro_batch,
        .mode = FIRN_MODE_AMP,
        .keeps_gradients = args->keeps_gradients,
        .keeps_gathered = args->keeps_gathered,
        .is_sequence = args->is_sequence,
        .zero = args->zero > 3 ? 4 : (int)args->zero,
        .tp = args->tp,
        .dp = args->dp,
        .pp = args->pp,
        .ep = args->ep,
        .micro_batches = args->micro_batches,
    };
    FIRN_TRY(set(job, "precision", args->precision, err));
    FIRN_TRY(set(job, "optimizer", args->optimizer, err));
    FIRN_TRY(set(job, "attention", args->attention, err));
    FIRN_TRY(set(job, "loss", args->loss, err));
    FIRN_TRY(set(job, "offload", args->offload, err));
    if (args->is_plain && job->optimizer == FIRN_OPT_SGD)
        job->optimizer = FIRN_OPT_SGD_PLAIN;
    if (args->is_selective)
        job->recompute = FIRN_RECOMPUTE_SELECTIVE;
    if (args->is_checkpointing)
        job->recompute = FIRN_RECOMPUTE_LAYERS;
    FIRN_TRY(make_arch(args, &job->arch, err));
    FIRN_TRY(make_adapter(args, job, err));
    return firn_peak_check(job, err);
}

/* --- plans and changes ---------------------------------------------------- */

static enum firn_status find_plans(const struct args *args,
                                   const struct firn_peak_job *job,
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
    struct firn_peak_search search = {
        .types = out->types,
        .ntypes = (size_t)cluster->ntypes,
        .batch = args->batch > 0 ? args->batch : job->micro_batch * job->dp,
        .pp_max = args->pp > 1 ? args->pp : 1,
        .has_zero = args->zero == 0,
        .has_accumulation = true,
    };
    size_t max =
        args->nplans < MEMORY_PLANS ? (size_t)args->nplans : MEMORY_PLANS;
    out->total = firn_peak_plans(job, &search, out->at, max, &out->refused);
    out->n = out->total < max ? out->total : max;
    return FIRN_OK;
}

/* "h100@80", or the name of a known type. */
static enum firn_status find_fit(const struct args *args,
                                 const struct firn_peak_job *job,
                                 struct memory_plans *place,
                                 struct memory_fit *out, struct firn_error *err)
{
    char text[64];
    int n = snprintf(text, sizeof text, "1x8:%s", args->gpu);
    if (n < 0 || (size_t)n >= sizeof text)
        return firn_fail(err, FIRN_EINVAL, "no GPU type '%.40s'", args->gpu);
    FIRN_TRY(firn_cluster_open(&place->cluster, text, err));
    const struct firn_gpu_type *type = &place->cluster.types[0];
    if (type->mem_gib <= 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the memory of '%.40s' is not known: write TYPE@GIB",
                         args->gpu);
    out->gpus = (struct firn_llm_gpus){.name = type->name,
                                       .mem_gib = type->mem_gib,
                                       .speed = type->speed,
                                       .node_gpus = 8,
                                       .count = 8};
    out->micro_batch = firn_peak_largest(job, type->mem_gib);
    out->nchanges = firn_peak_advise(job, type->mem_gib, &out->gpus,
                                     out->changes, MEMORY_CHANGES);
    return FIRN_OK;
}

static int run(const struct args *args, const struct firn_peak_job *job)
{
    struct memory_plans plans = {0}, place = {0};
    struct memory_fit fit = {0};
    struct memory_page what = {.job = job};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    int rc = 1;
    enum firn_status status = FIRN_OK;
    if (args->gpu) {
        status = find_fit(args, job, &place, &fit, &err);
        what.fit = &fit;
    }
    if (status == FIRN_OK && args->cluster) {
        status = find_plans(args, job, &plans, &err);
        what.plans = &plans;
    }
    if (status != FIRN_OK) {
        fprintf(stderr, "firn memory: %s\n", err.text);
    } else {
        (args->is_json ? memory_page_json : memory_page_table)(&what, &out);
        rc = output_write(page.command, &out);
    }
    buf_release(&out);
    firn_cluster_release(&plans.cluster);
    firn_cluster_release(&place.cluster);
    return rc;
}

static int list(bool is_json)
{
    struct firn_buf out = {0};
    memory_page_shapes(is_json, &out);
    if (!is_json)
        memory_vision_names(&out);
    int rc = output_write(page.command, &out);
    buf_release(&out);
    return rc;
}

/* A network of convolutions, or measured peaks: no transformer. */
static int run_vision(const struct args *args, size_t network)
{
    struct firn_vision_job job = {.network = network,
                                  .image = args->image,
                                  .micro_batch = args->micro_batch};
    struct firn_peak_job words = {.mode = FIRN_MODE_AMP};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    enum firn_status status = set(&words, "precision", args->precision, &err);
    if (status == FIRN_OK)
        status = set(&words, "optimizer", args->optimizer, &err);
    job.mode = words.mode;
    job.optimizer = words.optimizer;
    if (status == FIRN_OK)
        status = args->measured
                     ? memory_measured(args->measured, args->micro_batch,
                                       args->is_json, &out, &err)
                     : memory_vision(&job, args->is_json, &out, &err);
    int rc = status == FIRN_OK ? output_write(page.command, &out)
                               : flags_wrong(&page, "%s", err.text);
    buf_release(&out);
    return rc;
}

int cmd_memory(int argc, char **argv)
{
    struct args args = {.lora_on = "q,v",
                        .family = -1,
                        .seq = 1024,
                        .micro_batch = 1,
                        .nplans = 10};
    struct firn_peak_job job;
    struct firn_error err = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (args.model && strcmp(args.model, "list") == 0)
        return list(args.is_json);
    size_t network = 0;
    if (args.measured && (args.model || args.config))
        return flags_wrong(&page, "--measured stands for itself: give no model "
                                  "with it");
    if (args.measured ||
        (args.model && firn_vision_find(&network, args.model, NULL) == FIRN_OK))
        return run_vision(&args, network);
    bool has_numbers =
        args.hidden > 0 && args.layers > 0 && args.heads > 0 && args.vocab > 0;
    if (args.config && args.model)
        return flags_wrong(&page, "give --config or --model, not both");
    if (!args.config && !args.model && !has_numbers)
        return flags_wrong(&page, "no model given: use --model NAME, or "
                                  "--hidden, --layers, --heads and --vocab, or "
                                  "--config FILE");
    if (make_job(&args, &job, &err) != FIRN_OK)
        return flags_wrong(&page, "%s", err.text);
    return run(&args, &job);
}
