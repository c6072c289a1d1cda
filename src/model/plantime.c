/* plantime.c - seconds of a training step by execution plan.
 *
 * The global batch is fixed: a plan changes the seconds of a step, never what
 * the step computes. Symbols: n GPUs on N nodes, p stages, t tensor shares, d
 * copies (n = p t d; ZeRO and offload: d = n), m micro-batches of a pipeline,
 * k members of a data-parallel group on the node that has the fewest, cross = 1
 * when such a group spans nodes. A step takes
 *
 *   T = sum over terms of seconds(term) x count(term)
 *
 *   (1) compute    C        b / t        b = (m + p - 1) / (m p d)
 *   (2) recompute  R        b / t        with activation checkpointing
 *   (3) tensor     A (t-1)/t b + A' b    A' only where t > 1
 *                  A"(t-1)/t b           a tensor group that spans nodes
 *   (4) stages     G (m + p - 2) / (m d) to the next stage and back, p > 1
 *   (5) data       v = 2 (d-1)/d / (p t), the ring's all-reduce of gradients:
 *                  L v + cross (W v / k + W' v / ceil(k/2))
 *   (6) ZeRO       the same v (reduce-scatter and all-gather), and a latency
 *                  H (d-1) for each member when it spans nodes
 *   (7) optimizer  O / (p t), on whole copies part of the host's constant
 *   (8) offload    P / d: gradients to the host, its update of 1/d of the
 *                  weights, and back; K (most - 1): GPUs of a node share the
 *                  host's memory and PCIe
 *   (9) uneven     S1 where each of several nodes has one GPU, S2 where some
 *                  node has an odd number otherwise, S3 more if 3 or above
 *
 * (1): a batch of d copies goes through p stages in m micro-batches; all stages
 * work only (m) of (m + p - 1) slots, the pipeline's bubble. Rubick's tables
 * have m = 1: four stages are as slow as one, and only save memory.
 *
 * (5): with k members on a node k of its network cards carry the ring, W / k;
 * where cards serve two GPUs, ceil(k/2) of them do. Both are fitted, since the
 * two kinds of jobs in the tables differ: LLaMA-7B, 1 copy on a node 1.02 s, 2
 * copies 0.49 s for the same bytes; BERT with 1 and 2 GPUs a node alike, with 4
 * half. A tensor group that spans nodes leaves k = 1. Nothing is hidden behind
 * the backward pass: T is a sum. On these tables the sum is right to 1.3 % for
 * LLaMA-7B, where exchange is up to 70 % of a step.
 *
 * (9) is an observation, not an explanation: on the authors' cluster T5 and ViT
 * wait up to 0.2 s in the forward pass on nodes with an odd number of GPUs.
 *
 * The digits of a plan in Rubick's tables are stages x tensor x data, though
 * the folder's README says data x tensor x pipeline. The optimizer's column
 * tells: LLaMA-7B's 182, 184 and 188 all update an eighth of the weights (25
 * ms), 281, 481 and 881 a 16th, 32nd and 64th (12.7, 6.7, 4.0 ms).
 *
 * Errors on rows that were not fitted (tests/model/test_plantime.c; plan_choose
 * names the rows to fit, terms + 4 of each kind), mean and largest:
 *
 *     llama30  0.9 %   2.7 %    7 rows fitted,  4 not
 *     llama7   1.4 %   6.5 %   14              34
 *     gpt2     2.5 %   7.5 %   38              36
 *     t5       2.7 %   8.9 %   43              49
 *     roberta  4.1 %  12.8 %   33              84
 *     bert     4.8 %  20.8 %   33              39
 *     vit     13.3 %  50.3 %   33              62
 *
 * BERT's largest is one row (gc on 1+1+2+2+2 GPUs, whose forward pass took 2.3
 * times that of its neighbours); without it 11.8 %. ViT on uneven nodes takes
 * 0.27 to 0.53 s in no order: the same GPUs with and without recomputation
 * differ by a third either way. No law of these inputs has that.
 *
 * Cost: 17 multiplications.
 */
#include "model/plantime.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[PLAN_TERMS] = {
    [PLAN_HOST] = "host",           [PLAN_COMPUTE] = "compute",
    [PLAN_RECOMPUTE] = "recompute", [PLAN_OPTIMIZER] = "optimizer",
    [PLAN_LINK] = "link",           [PLAN_NET] = "net",
    [PLAN_RAIL] = "rail",           [PLAN_HOPS] = "hops",
    [PLAN_PCIE] = "pcie",           [PLAN_CROWD] = "crowd",
    [PLAN_TENSOR] = "tensor",       [PLAN_TENSOR_HOPS] = "tensor_hops",
    [PLAN_STRADDLE] = "straddle",   [PLAN_STAGE] = "stage",
    [PLAN_LONE] = "lone",           [PLAN_ODD] = "odd",
    [PLAN_ODD_LARGE] = "odd_large",
};

const char *plan_term_name(enum plan_term term)
{
    return names[term];
}

/* --- plans --------------------------------------------------------------- */

static const struct {
    const char *word;
    enum exec_kind kind;
    bool recomputes;
} words[] = {
    {"ga", PLAN_DATA, false},
    {"gc", PLAN_DATA, true},
    {"zero-dp", PLAN_ZERO, false},
    {"zero-offload", PLAN_OFFLOAD, false},
    {"zero-offload+gc", PLAN_OFFLOAD, true},
};

/* A number from 1 to 9999, and what stands behind it. */
static bool read_number(const char **at, size_t digits, int *out)
{
    int n = 0;
    for (; digits > 0 && **at >= '0' && **at <= '9'; digits--)
        n = 10 * n + *(*at)++ - '0';
    *out = n;
    return n > 0;
}

/* "244", or "2x4x16". */
static bool read_digits(const char *word, int gpus, struct exec_plan *out)
{
    bool has_x = strchr(word, 'x') != NULL;
    int n[3];
    for (int i = 0; i < 3; i++) {
        if (i > 0 && has_x && *word++ != 'x')
            return false;
        if (!read_number(&word, has_x ? 4 : 1, &n[i]))
            return false;
    }
    if (*word != '\0' || n[0] > gpus || n[1] > gpus || n[2] > gpus)
        return false;
    if ((long)n[0] * n[1] * n[2] != gpus)
        return false;
    *out = (struct exec_plan){PLAN_SPLIT, false, n[0], n[1], n[2], 1};
    return true;
}

bool exec_plan_read(const char *word, int gpus, struct exec_plan *out)
{
    if (gpus < 1)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = (struct exec_plan){
                words[i].kind, words[i].recomputes, 1, 1, gpus, 1};
            return true;
        }
    if (strcmp(word, "tp+ga") == 0) {
        *out = (struct exec_plan){PLAN_SPLIT, false, 1, gpus, 1, 1};
        return true;
    }
    return read_digits(word, gpus, out);
}

void exec_plan_write(const struct exec_plan *plan, char out[EXEC_PLAN_TEXT])
{
    if (plan->kind == PLAN_SPLIT) {
        snprintf(out, EXEC_PLAN_TEXT, "%dx%dx%d", plan->stages, plan->tensor,
                 plan->data);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].kind == plan->kind &&
            (words[i].recomputes == plan->recomputes ||
             plan->kind == PLAN_ZERO)) {
            snprintf(out, EXEC_PLAN_TEXT, "%s", words[i].word);
            return;
        }
}

bool exec_plan_equal(const struct exec_plan *a, const struct exec_plan *b)
{
    return a->kind == b->kind && a->recomputes == b->recomputes &&
           a->stages == b->stages && a->tensor == b->tensor &&
           a->data == b->data && a->micro == b->micro;
}

/* --- places -------------------------------------------------------------- */

static int divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct plan_spot plan_spot_of(const int *each, int nodes)
{
    struct plan_spot spot = {.nodes = nodes};
    bool has_odd = false, has_odd_large = false;
    for (int i = 0; i < nodes; i++) {
        spot.gpus += each[i];
        spot.least = i == 0 || each[i] < spot.least ? each[i] : spot.least;
        spot.most = each[i] > spot.most ? each[i] : spot.most;
        spot.step = divisor(spot.step, each[i]);
        has_odd |= each[i] % 2 != 0;
        has_odd_large |= each[i] % 2 != 0 && each[i] >= 3;
    }
    spot.is_lone = nodes > 1 && spot.most == 1;
    spot.is_odd = nodes > 1 && has_odd && !spot.is_lone;
    spot.is_odd_large = spot.is_odd && has_odd_large;
    return spot;
}

/* --- the equations ------------------------------------------------------- */

static double flag(bool is)
{
    return is ? 1 : 0;
}

/* (5) and (6). */
static void count_exchange(const struct exec_plan *plan,
                           const struct plan_spot *spot, bool straddles,
                           double counts[PLAN_TERMS])
{
    double d = plan->data;
    double bytes = 2 * (d - 1) / d / (plan->stages * plan->tensor);
    int members = straddles ? 1 : spot->least / plan->tensor;
    members = members < 1 ? 1 : members;
    members = members > plan->data ? plan->data : members;
    int rails = (members + 1) / 2;
    double cross = flag(members < plan->data);
    counts[PLAN_LINK] = bytes;
    counts[PLAN_NET] = cross * bytes / members;
    counts[PLAN_RAIL] = cross * bytes / rails;
    if (plan->kind == PLAN_ZERO)
        counts[PLAN_HOPS] = cross * (d - 1);
}

bool plan_counts(const struct exec_plan *plan, const struct plan_spot *spot,
                 double counts[PLAN_TERMS])
{
    double p = plan->stages, t = plan->tensor, d = plan->data, m = plan->micro;
    memset(counts, 0, PLAN_TERMS * sizeof *counts);
    if (plan->stages < 1 || plan->tensor < 1 || plan->data < 1 ||
        plan->micro < 1 || spot->nodes < 1 ||
        plan->stages * plan->tensor * plan->data != spot->gpus)
        return false;
    bool straddles = plan->tensor > 1 && spot->step % plan->tensor != 0;
    double batch = (m + p - 1) / (m * p * d);
    counts[PLAN_HOST] = 1;
    counts[PLAN_COMPUTE] = batch / t;
    counts[PLAN_RECOMPUTE] = plan->recomputes ? batch / t : 0;
    counts[PLAN_TENSOR] = batch * (t - 1) / t;
    counts[PLAN_TENSOR_HOPS] = flag(t > 1) * batch;
    counts[PLAN_STRADDLE] = straddles ? counts[PLAN_TENSOR] : 0;
    counts[PLAN_STAGE] = p > 1 ? (m + p - 2) / (m * d) : 0;
    counts[PLAN_OPTIMIZER] = 1 / (p * t);
    count_exchange(plan, spot, straddles, counts);
    if (plan->kind == PLAN_OFFLOAD) {
        counts[PLAN_PCIE] = 1 / d;
        counts[PLAN_CROWD] = spot->most - 1;
    }
    if (plan->kind == PLAN_DATA || plan->kind == PLAN_ZERO) {
        counts[PLAN_LONE] = flag(spot->is_lone);
        counts[PLAN_ODD] = flag(spot->is_odd);
        counts[PLAN_ODD_LARGE] = flag(spot->is_odd_large);
    }
    return true;
}

bool plan_law_knows(const struct plan_law *law, enum exec_kind kind)
{
    for (int i = 0; i < PLAN_TERMS; i++)
        if (law->seconds[kind][i] > 0)
            return true;
    return false;
}

double plan_step_s(const struct plan_law *law, const struct exec_plan *plan,
                   const struct plan_spot *spot)
{
    double counts[PLAN_TERMS], step_s = 0;
    if (!plan_counts(plan, spot, counts))
        return (double)NAN;
    for (int i = 0; i < PLAN_TERMS; i++)
        step_s += law->seconds[plan->kind][i] * counts[i];
    return step_s > 0 ? step_s : (double)NAN;
}

struct plan_law plan_law_on(const struct plan_law *law,
                            const struct plan_ratio *ratio)
{
    const double faster[PLAN_TERMS] = {
        [PLAN_COMPUTE] = ratio->compute,   [PLAN_RECOMPUTE] = ratio->compute,
        [PLAN_OPTIMIZER] = ratio->compute, [PLAN_LINK] = ratio->link,
        [PLAN_TENSOR] = ratio->link,       [PLAN_NET] = ratio->net,
        [PLAN_RAIL] = ratio->net,          [PLAN_STRADDLE] = ratio->net,
        [PLAN_STAGE] = ratio->net,
    };
    struct plan_law out = *law;
    for (int k = 0; k < PLAN_KINDS; k++)
        for (int i = 0; i < PLAN_TERMS; i++)
            if (faster[i] > 0)
                out.seconds[k][i] /= faster[i];
    return out;
}
