/* test_peak.c - peaks of training steps, term by term, and as measured.
 *
 * The measured rows are $FIRN_DATA/h200/modern_memory.csv: 24 peaks on one
 * H200 (PyTorch 2.11, transformers 5.17). Their `adamw` was made with
 * fused=False, which PyTorch takes as "tensor by tensor". No constant
 * of the counting belongs to a family. test_peak_measured.c has the table of
 * 447 rows, from which the constants come.
 *
 * profiles/h200/llm_memory.csv has 96 LLaMA shapes (gradients freed, AdamW by
 * PyTorch's default: foreach), $FIRN_DATA/h200/llm_memory.csv 154 of GPT-2
 * (gradients kept).
 */
#include "base/files.h"
#include "base/lines.h"
#include "base/rng.h"
#include "lib/data.h"
#include <firn/peak.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void set(struct firn_peak_job *job, const char *setting,
                const char *word)
{
    struct firn_error err = {0};
    if (firn_peak_set(job, setting, word, &err) != FIRN_OK)
        fail_msg("%s %s: %s", setting, word, err.text);
}

static struct firn_peak_job named(const char *name, int seq, int micro_batch)
{
    struct firn_peak_job job = {
        .seq = seq, .micro_batch = micro_batch, .mode = FIRN_MODE_BF16};
    assert_int_equal(firn_arch_find(&job.arch, name, NULL), FIRN_OK);
    assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
    return job;
}

/* h 8, l 2, a 2 of 4, f 32, V 100, not tied: a layer has 4 x 64 + 3 x 256 + 16
 * = 1040 parameters, the model 2 x 1040 + 800 + 800 + 8 = 3688. */
static struct firn_peak_job tiny(void)
{
    struct firn_llm_shape shape = {.family = FIRN_LLM_LLAMA,
                                   .hidden = 8,
                                   .layers = 2,
                                   .heads = 2,
                                   .ffn = 32,
                                   .vocab = 100};
    struct firn_peak_job job = {.arch = firn_arch_of_shape(&shape),
                                .seq = 4,
                                .micro_batch = 3,
                                .mode = FIRN_MODE_BF16};
    assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
    return job;
}

enum { LAYER_W = 1040, TINY_W = 3688 };

static double term(const struct firn_peak *m, enum firn_peak_term t)
{
    return m->terms_mib[t] * MIB;
}

static void each_precision_keeps_its_tensors(void **state)
{
    (void)state;
    /* 12 tokens, no gradients at the loss. A layer and token: two norms of h
     * fp32 2 x 12, bf16 2 x 8, amp 14 + 12; attention 4 h c + 4 a; MLP 4 f c.
     * The last norm: 12, 8, 10 of h. Logits: 12 bytes x 100. */
    static const struct {
        enum firn_peak_mode mode;
        double weights, state, norm, last, c;
    } want[] = {{FIRN_MODE_FP32, 4, 8, 24, 12, 4},
                {FIRN_MODE_AMP, 4, 8, 26, 10, 2},
                {FIRN_MODE_BF16, 2, 4, 16, 8, 2}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct firn_peak_job j = tiny();
        j.mode = want[i].mode;
        struct firn_peak m = firn_peak_of(&j);
        assert_int_equal(m.moment, FIRN_MOMENT_LOSS_BACK);
        assert_true(
            near(term(&m, FIRN_TERM_WEIGHTS), want[i].weights * TINY_W));
        assert_true(near(term(&m, FIRN_TERM_MOMENTS), want[i].state * TINY_W));
        assert_true(near(term(&m, FIRN_TERM_NORMS),
                         12 * 8 * (2 * want[i].norm + want[i].last)));
        assert_true(near(term(&m, FIRN_TERM_ATTENTION),
                         12 * 2 * (4 * 8 * want[i].c + 8)));
        assert_true(near(term(&m, FIRN_TERM_MLP), 12 * 2 * 4 * 32 * want[i].c));
        assert_true(near(term(&m, FIRN_TERM_LOGITS), 12 * 1200));
        assert_true(term(&m, FIRN_TERM_GRADIENTS) == 0);
        /* Autocast copies all but the embedding. */
        double casts = want[i].mode == FIRN_MODE_AMP ? 2 * (TINY_W - 800) : 0;
        assert_true(near(term(&m, FIRN_TERM_CASTS) + 1, casts + 1));
    }
}

static void every_optimizer_has_its_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        double moments;
    } want[] = {{"adamw", 4},
                {"adamw-foreach", 4},
                {"adamw-fused", 4},
                {"lion", 4},
                {"sgd", 2},
                {"sgd-plain", 0},
                {"adamw-8bit", 2 + 8.0 / 256}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct firn_peak_job j = tiny();
        set(&j, "optimizer", want[i].word);
        struct firn_peak m = firn_peak_of(&j);
        assert_true(near(term(&m, FIRN_TERM_MOMENTS) + 1,
                         want[i].moments * TINY_W + 1));
    }
    /* 16 and 20 bytes a parameter: with one token the step is the peak. */
    struct firn_peak_job j = tiny();
    j.seq = j.micro_batch = 1;
    j.keeps_gradients = true;
    j.optimizer = FIRN_OPT_ADAMW_FUSED;
    j.mode = FIRN_MODE_MEGATRON;
    struct firn_peak m = firn_peak_of(&j);
    double bytes = term(&m, FIRN_TERM_WEIGHTS) + term(&m, FIRN_TERM_MASTER) +
                   term(&m, FIRN_TERM_MOMENTS) + term(&m, FIRN_TERM_GRADIENTS);
    assert_true(near(bytes, 20.0 * TINY_W));
    j.mode = FIRN_MODE_BF16_MASTER;
    m = firn_peak_of(&j);
    bytes = term(&m, FIRN_TERM_WEIGHTS) + term(&m, FIRN_TERM_MASTER) +
            term(&m, FIRN_TERM_MOMENTS) + term(&m, FIRN_TERM_GRADIENTS);
    assert_true(near(bytes, 16.0 * TINY_W));
}

static void adamw_needs_scratch_for_its_step(void **state)
{
    (void)state;
    /* mistral-7b, one sample of 2048, checkpointed: 8 bytes x 7241732096
     * parameters, 66 MiB, and two tensors of 32000 x 4096 (adamw) or one more
     * for every parameter (foreach). */
    struct firn_peak_job j = named("mistral-7b", 2048, 1);
    j.recompute = FIRN_RECOMPUTE_LAYERS;
    struct firn_peak m = firn_peak_of(&j);
    assert_int_equal(m.moment, FIRN_MOMENT_STEP);
    assert_true(near(term(&m, FIRN_TERM_SCRATCH), 2 * 2 * 32000.0 * 4096));
    j.optimizer = FIRN_OPT_ADAMW_FOREACH;
    m = firn_peak_of(&j);
    assert_true(near(term(&m, FIRN_TERM_SCRATCH), 2 * 7241732096.0));
}

static void zero_divides_stage_by_stage(void **state)
{
    (void)state;
    for (int z = 0; z < 4; z++) {
        struct firn_peak_job j = tiny();
        j.dp = 4;
        j.zero = z;
        j.keeps_gradients = true;
        struct firn_peak m = firn_peak_of(&j);
        double w = TINY_W;
        assert_true(near(term(&m, FIRN_TERM_MOMENTS), 4 * w / (z > 0 ? 4 : 1)));
        assert_true(
            near(term(&m, FIRN_TERM_GRADIENTS), 2 * w / (z > 1 ? 4 : 1)));
        assert_true(near(term(&m, FIRN_TERM_WEIGHTS), 2 * w / (z > 2 ? 4 : 1)));
        /* Stage 3: two layers, embedding and output are whole. */
        double whole = 2 * (2 * LAYER_W + 800 + 808);
        assert_true(
            near(term(&m, FIRN_TERM_GATHERED) + 1, (z == 3 ? whole : 0) + 1));
        j.keeps_gathered = true;
        m = firn_peak_of(&j);
        assert_true(
            near(term(&m, FIRN_TERM_GATHERED) + 1, (z == 3 ? 2 * w : 0) + 1));
    }
}

static void tensor_and_sequence_parallel_divide(void **state)
{
    (void)state;
    struct firn_peak_job j = tiny();
    struct firn_peak one = firn_peak_of(&j);
    j.tp = 2;
    struct firn_peak m = firn_peak_of(&j);
    assert_true(near(2 * term(&m, FIRN_TERM_MLP), term(&one, FIRN_TERM_MLP)));
    assert_true(
        near(2 * term(&m, FIRN_TERM_LOGITS), term(&one, FIRN_TERM_LOGITS)));
    assert_true(
        near(2 * term(&m, FIRN_TERM_WEIGHTS), term(&one, FIRN_TERM_WEIGHTS)));
    double norms = term(&m, FIRN_TERM_NORMS);
    assert_true(near(norms, term(&one, FIRN_TERM_NORMS)));
    j.is_sequence = true;
    m = firn_peak_of(&j);
    assert_true(term(&m, FIRN_TERM_NORMS) < norms);
}

static void a_pipeline_holds_its_micro_batches(void **state)
{
    (void)state;
    /* 8B over 4 stages: the first keeps 8 layers of 4 micro-batches, as many
     * as the whole model keeps of one, and a quarter of the weights. */
    struct firn_peak_job j = named("llama-3.1-8b", 2048, 1);
    struct firn_peak one = firn_peak_of(&j);
    j.pp = 4;
    j.micro_batches = 8;
    struct firn_peak m = firn_peak_of(&j);
    assert_true(m.expected_mib < 0.5 * one.expected_mib);
    assert_true(m.expected_mib > 0.25 * one.expected_mib);
}

static void experts_are_divided_by_expert_parallel(void **state)
{
    (void)state;
    struct firn_peak_job j = named("mixtral-8x7b", 1024, 1);
    j.dp = 8;
    struct firn_peak m = firn_peak_of(&j);
    double all = term(&m, FIRN_TERM_WEIGHTS);
    j.ep = 8;
    m = firn_peak_of(&j);
    double experts = 32 * firn_arch_experts_params(&j.arch);
    assert_true(near(all - term(&m, FIRN_TERM_WEIGHTS), 2 * experts * 7 / 8));
}

static void qlora_packs_the_matrices_of_layers(void **state)
{
    (void)state;
    struct firn_peak_job j = named("llama-3.1-8b", 2048, 2);
    set(&j, "adapter", "qlora");
    set(&j, "lora", "8");
    set(&j, "lora_on", "q,v");
    struct firn_peak m = firn_peak_of(&j);
    /* 32 x (2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336) in nf4 at
     * 0.5 + 1/64 + 4/(64 x 256) bytes, the rest in bf16. */
    double packed = 32.0 * 218103808;
    double rest = 8030261248 - packed;
    assert_true(near(term(&m, FIRN_TERM_FROZEN),
                     packed * (0.5 + 1.0 / 64 + 4.0 / 16384) + 2 * rest));
}

static void offload_leaves_the_gpu(void **state)
{
    (void)state;
    struct firn_peak_job j = named("mistral-7b", 2048, 1);
    j.recompute = FIRN_RECOMPUTE_LAYERS;
    set(&j, "offload", "optimizer+activations");
    struct firn_peak m = firn_peak_of(&j);
    assert_true(term(&m, FIRN_TERM_MOMENTS) == 0);
    assert_true(term(&m, FIRN_TERM_SCRATCH) == 0);
    assert_true(term(&m, FIRN_TERM_INPUTS) <= 2.0 * 2048 * 4096 * 2);
}

static void a_smaller_loss_needs_less(void **state)
{
    (void)state;
    struct firn_peak_job j = named("llama-3.2-1b", 1024, 4);
    j.recompute = FIRN_RECOMPUTE_LAYERS;
    double plain = firn_peak_of(&j).expected_mib;
    set(&j, "loss", "chunked");
    double chunked = firn_peak_of(&j).expected_mib;
    set(&j, "loss", "fused");
    double fused = firn_peak_of(&j).expected_mib;
    assert_true(fused <= chunked && chunked < plain);
}

/* torchtune's published peaks in GiB: batch 2, 2048 tokens, chunked loss,
 * checkpointing, adapters of rank 8 in bf16. */
static void torchtunes_peaks_are_met_within_15_percent(void **state)
{
    (void)state;
    static const struct {
        const char *model, *adapter;
        int gpus;
        double gib;
    } rows[] = {{"llama-3.1-8b", "lora", 1, 16.2},
                {"llama-3.1-8b", "qlora", 1, 7.4},
                {"llama-3.1-70b", "lora", 8, 27.6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct firn_peak_job j = named(rows[i].model, 2048, 2);
        set(&j, "adapter", rows[i].adapter);
        set(&j, "lora", "8");
        set(&j, "lora_on", "q,v");
        set(&j, "lora_precision", "bf16");
        set(&j, "loss", "chunked");
        set(&j, "checkpointing", "layers");
        j.dp = rows[i].gpus;
        j.zero = j.dp > 1 ? 3 : 0;
        struct firn_peak m = firn_peak_of(&j);
        double ratio = m.expected_mib / 1024 / rows[i].gib;
        print_message("%s %s: %.1f GiB predicted, %.1f published\n",
                      rows[i].model, rows[i].adapter, m.expected_mib / 1024,
                      rows[i].gib);
        assert_true(ratio > 0.85 && ratio < 1.15);
        assert_true(m.device_mib < 80 * 1024);
    }
}

static void terms_add_up_and_the_interval_holds_the_expected(void **state)
{
    (void)state;
    const uint64_t seed = 20261117;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 20000; i++) {
        struct firn_peak_job j = {
            .seq = 1 << (1 + rng_below(&rng, 12)),
            .micro_batch = 1 + (int)rng_below(&rng, 64),
            .mode = (enum firn_peak_mode)rng_below(&rng, FIRN_MODES),
            .optimizer = (enum firn_peak_optimizer)rng_below(&rng, FIRN_OPTS),
            .loss = (enum firn_peak_loss)rng_below(&rng, FIRN_LOSSES),
            .recompute =
                (enum firn_peak_recompute)rng_below(&rng, FIRN_RECOMPUTES),
            .adapter = (enum firn_peak_adapter)rng_below(&rng, FIRN_ADAPTERS),
            .rank = 8,
            .on = 1 + (unsigned)rng_below(&rng, 127),
            .is_eager = rng_below(&rng, 2),
            .keeps_gradients = rng_below(&rng, 2),
            .zero = (int)rng_below(&rng, 4),
            .dp = 1 << rng_below(&rng, 5)};
        firn_arch_at(rng_below(&rng, firn_arch_count()), &j.arch);
        assert_int_equal(firn_peak_check(&j, NULL), FIRN_OK);
        struct firn_peak m = firn_peak_of(&j);
        double sum = 0;
        bool is_sane = true;
        for (int t = 0; t < FIRN_TERMS; t++) {
            sum += m.terms_mib[t];
            is_sane = is_sane && m.terms_mib[t] >= 0;
        }
        if (!is_sane || !near(sum, m.expected_mib) ||
            !(m.low_mib <= m.expected_mib) || !(m.expected_mib <= m.high_mib) ||
            !(m.high_mib <= 1.25 * m.expected_mib + 1e-6))
            fail_msg("seed %llu, case %d (%s)", (unsigned long long)seed, i,
                     j.arch.name);
        j.micro_batch++;
        if (firn_peak_of(&j).expected_mib < m.expected_mib - 1e-6 &&
            !j.arch.has_mask)
            fail_msg("seed %llu, case %d: a larger batch takes less",
                     (unsigned long long)seed, i);
    }
}

static void jobs_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"precision", "fp64"}, {"optimizer", "adam"}, {"zero", "4"},
        {"lora", "0"},         {"lora_on", "q,x"},    {"lora_on", ""},
        {"seq", "-1"},         {"tp", "two"},         {"offload", "weights"},
        {"color", "blue"}};
    struct firn_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct firn_peak_job j = tiny();
        if (firn_peak_set(&j, bad[i][0], bad[i][1], &err) == FIRN_OK)
            fail_msg("accepted: %s %s", bad[i][0], bad[i][1]);
    }
    struct firn_peak_job j = tiny();
    j.tp = 3;
    assert_int_equal(firn_peak_check(&j, &err), FIRN_EINVAL);
    j = tiny();
    j.ep = 2;
    assert_int_equal(firn_peak_check(&j, &err), FIRN_EINVAL);
    j = tiny();
    j.adapter = FIRN_ADAPTER_LORA;
    assert_int_equal(firn_peak_check(&j, &err), FIRN_EINVAL);
}

/* --- measured ------------------------------------------------------------- */

enum { COLUMNS = 32, ROWS_MAX = 256 };

struct csv {
    struct lines *lines;
    char head[1024];
    char *names[COLUMNS], *cells[COLUMNS];
};

static void split(char *line, char **out)
{
    int n = 0;
    for (char *at = line; at && n < COLUMNS; n++) {
        out[n] = at;
        at = strchr(at, ',');
        if (at)
            *at++ = '\0';
    }
    for (; n < COLUMNS; n++)
        out[n] = NULL;
}

static void open_csv(struct csv *csv, const char *path)
{
    assert_int_equal(lines_open(&csv->lines, path, NULL), FIRN_OK);
    snprintf(csv->head, sizeof csv->head, "%s", lines_next(csv->lines));
    split(csv->head, csv->names);
}

static const char *cell(const struct csv *csv, const char *name)
{
    for (int i = 0; i < COLUMNS && csv->names[i]; i++)
        if (strcmp(csv->names[i], name) == 0)
            return csv->cells[i] ? csv->cells[i] : "";
    return "";
}

static int whole(const struct csv *csv, const char *name)
{
    return (int)strtol(cell(csv, name), NULL, 10);
}

/* A row of modern_memory.csv: the architecture of its file in bench/gpu. */
static struct firn_peak_job modern(const struct csv *csv)
{
    struct firn_peak_job j = {0};
    struct firn_buf text = {0};
    char path[128];
    snprintf(path, sizeof path, "bench/gpu/configs/%s.json",
             cell(csv, "model"));
    assert_int_equal(files_text(&text, path, NULL), FIRN_OK);
    assert_int_equal(
        firn_arch_read(&j.arch, (struct firn_bytes){text.at, text.n}, NULL),
        FIRN_OK);
    firn_buf_release(&text);
    const char *mode = cell(csv, "mode");
    set(&j, "precision", strcmp(mode, "lora") == 0 ? "bf16" : mode);
    if (strcmp(mode, "lora") == 0) {
        set(&j, "lora", cell(csv, "lora_rank"));
        set(&j, "lora_on", cell(csv, "lora_on"));
    }
    set(&j, "optimizer", cell(csv, "optimizer"));
    set(&j, "checkpointing", whole(csv, "checkpointing") ? "layers" : "off");
    j.seq = whole(csv, "seq");
    j.micro_batch = whole(csv, "micro_batch");
    return j;
}

/* A row of the tables of GPT-2 and LLaMA shapes. */
static struct firn_peak_job shaped(const struct csv *csv)
{
    bool is_llama = cell(csv, "kv_heads")[0] != '\0';
    struct firn_llm_shape shape = {
        .family = is_llama ? FIRN_LLM_LLAMA : FIRN_LLM_GPT2,
        .is_tied = !is_llama,
        .hidden = whole(csv, "hidden"),
        .layers = whole(csv, "layers"),
        .heads = whole(csv, "heads"),
        .kv_heads = whole(csv, "kv_heads"),
        .ffn = whole(csv, "mlp"),
        .vocab = whole(csv, "vocab"),
    };
    struct firn_peak_job j = {.arch = firn_arch_of_shape(&shape),
                              .seq = whole(csv, "seq"),
                              .micro_batch = whole(csv, "micro_batch"),
                              .keeps_gradients = !is_llama};
    bool is_adam = strcmp(cell(csv, "optimizer"), "adamw") == 0;
    set(&j, "precision", cell(csv, "precision"));
    set(&j, "attention", cell(csv, "attn"));
    set(&j, "optimizer", is_adam ? "adamw-foreach" : "sgd");
    set(&j, "checkpointing", whole(csv, "checkpointing") ? "layers" : "off");
    return j;
}

struct accuracy {
    int n, above, reserved_above;
    double worst, width;
    double at[ROWS_MAX];
};

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(struct accuracy *a)
{
    qsort(a->at, (size_t)a->n, sizeof *a->at, ascending);
    return a->at[a->n / 2];
}

static struct accuracy judge(const char *path,
                             struct firn_peak_job (*read)(const struct csv *))
{
    struct accuracy out = {.worst = 1};
    struct csv csv;
    open_csv(&csv, path);
    for (char *line; (line = lines_next(csv.lines)) && out.n < ROWS_MAX;) {
        split(line, csv.cells);
        double alloc = strtod(cell(&csv, "peak_alloc_mib"), NULL);
        double reserved = strtod(cell(&csv, "peak_reserved_mib"), NULL);
        if (alloc <= 0)
            continue;
        struct firn_peak_job job = read(&csv);
        assert_int_equal(firn_peak_check(&job, NULL), FIRN_OK);
        struct firn_peak m = firn_peak_of(&job);
        assert_true(m.params == strtod(cell(&csv, "params"), NULL));
        double right = 1 - fabs(m.expected_mib / alloc - 1);
        out.at[out.n++] = right;
        out.worst = fmin(out.worst, right);
        out.above += alloc > m.high_mib;
        out.reserved_above += reserved > m.high_mib;
        double up = m.high_mib / m.expected_mib - 1;
        out.width = fmax(out.width, fmax(up, 1 - m.low_mib / m.expected_mib));
    }
    lines_close(csv.lines);
    print_message("%s: %d rows, median %.1f %%, worst %.1f %%, %d above high, "
                  "%d reserved above high\n",
                  path, out.n, 100 * median(&out), 100 * out.worst, out.above,
                  out.reserved_above);
    return out;
}

static void modern_models_are_predicted_as_measured(void **state)
{
    (void)state;
    const char *path = data_path("h200/modern_memory.csv");
    if (!path) {
        print_message("no h200/modern_memory.csv here\n");
        skip();
    }
    struct accuracy a = judge(path, modern);
    assert_int_equal(a.n, 24);
    assert_true(median(&a) > 0.99);
    assert_true(a.worst > 0.99);
    assert_int_equal(a.above, 0);
    assert_true(a.reserved_above <= 3);
    assert_true(a.width <= 0.25);
}

static void llama_shapes_are_predicted_as_measured(void **state)
{
    (void)state;
    struct accuracy a = judge("profiles/h200/llm_memory.csv", shaped);
    assert_true(a.n > 90);
    assert_true(median(&a) > 0.99);
    assert_true(a.worst > 0.96);
    assert_int_equal(a.above, 0);
}

static void gpt2_shapes_are_predicted_as_measured(void **state)
{
    (void)state;
    const char *path = data_path("h200/llm_memory.csv");
    if (!path) {
        print_message("no h200/llm_memory.csv here\n");
        skip();
    }
    struct accuracy a = judge(path, shaped);
    assert_int_equal(a.n, 154);
    assert_true(median(&a) > 0.99);
    assert_true(a.worst > 0.97);
    assert_int_equal(a.above, 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(each_precision_keeps_its_tensors),
        cmocka_unit_test(every_optimizer_has_its_bytes),
        cmocka_unit_test(adamw_needs_scratch_for_its_step),
        cmocka_unit_test(zero_divides_stage_by_stage),
        cmocka_unit_test(tensor_and_sequence_parallel_divide),
        cmocka_unit_test(a_pipeline_holds_its_micro_batches),
        cmocka_unit_test(experts_are_divided_by_expert_parallel),
        cmocka_unit_test(qlora_packs_the_matrices_of_layers),
        cmocka_unit_test(offload_leaves_the_gpu),
        cmocka_unit_test(a_smaller_loss_needs_less),
        cmocka_unit_test(torchtunes_peaks_are_met_within_15_percent),
        cmocka_unit_test(terms_add_up_and_the_interval_holds_the_expected),
        cmocka_unit_test(jobs_that_make_no_sense_are_refused),
        cmocka_unit_test(modern_models_are_predicted_as_measured),
        cmocka_unit_test(llama_shapes_are_predicted_as_measured),
        cmocka_unit_test(gpt2_shapes_are_predicted_as_measured),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
