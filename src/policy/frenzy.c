/* frenzy.c - a model and a batch in, GPUs out (Chang et al., 2024).
 *
 * Users of Frenzy submit a language model and no number of GPUs. MARP lists the
 * plans that its memory allows: n = t d GPUs, and the memory that each must
 * have. HAS takes the first plan that the GPUs free now can satisfy and places
 * it by best fit. Nothing is ever moved, resized or stopped.
 *
 * By default the policy is the paper's letter:
 *
 *   memory = marp        the printed formula, in 10^9 bytes, against the GB of
 *                        the vendor
 *   rank = efficiency    "higher training efficiency" first, which the paper
 *                        does not define: most predicted samples a second for
 *                        each GPU, then fewer GPUs, then more memory left
 *   serve = memory       a plan is a number of GPUs and their memory: every
 *                        type that has it will do
 *   mix = 1              GPUs of several nodes may be of several types
 *   skip = 1             first come, first served, and a job that no plan is
 *                        found for is passed over: the paper says nothing of
 *                        the queue, and the simulator it used (that of
 *                        Alibaba's PAI, scheduler.py) tries the next job
 *
 * firn's options: memory = ours is the prediction of firn/memory.h, which
 * counts the logits and the allocator too. serve = speed keeps a plan off types
 * that are slower than the one it was made for. mix = 0 spreads over one type
 * as long as one has enough. skip = 0: a job that no plan is found for blocks
 * those behind it. rank = speed puts the most samples a second of the whole job
 * first, then fewer GPUs, the smallest t, the least memory; rank = fewest:
 * fewest GPUs, then the smallest t, then the least memory.
 *
 * docs/results.md has a column of the letter and one with memory = ours, serve
 * = speed and mix = 0, chosen on draws that no scenario uses (frenzy-fig4 names
 * them). Mean completion time there, in hours, on the paper's 11 GPUs with 90
 * jobs and on Sia's cluster with 120:
 *
 *     the letter                              0.75   19.8
 *     memory = ours                           0.60    5.2
 *     memory = ours, mix = 0                  0.57    5.2
 *     memory = ours, mix = 0, serve = speed   0.57    4.7
 *     the same and rank = speed               0.81   13.3
 *
 * By speed a job takes many GPUs for little, and nothing is ever resized. The
 * letter suffers from jobs on GPUs that the formula thinks large enough.
 *
 * HAS, Algorithm 1, with >= for its printed >, which its own examples need:
 *
 *   (1) a plan can be satisfied when enough GPUs of enough memory are free;
 *   (2) of one node if there is one: of the smallest GPUs that do, there on
 *       the node that it leaves the least of; equal ones by id;
 *   (3) else the emptiest node whole, whatever its type, and (2) for the rest;
 *       of equal ones the smaller GPUs, then the lower id.
 *
 * A model with a config.json, or with words that the paper does not have (LoRA,
 * ZeRO, a fused loss, ...; docs/memory.md), is planned with firn/peak.h
 * whatever `memory` says: its plans are tensor x data x ZeRO stage x passes,
 * with activations computed again or the optimizer on the host where nothing
 * else fits (core/llmjobs.c).
 *
 * As printed, (2) looks at idle GPUs only, and a nearly full node of large GPUs
 * wins over an empty one of small ones, against the paper's prose. Jobs that
 * are no language models have one plan: the GPUs they asked for, of what memory
 * they need.
 *
 * Cost: plans are made once for each (application, batch, sequence, training,
 * limits, abilities, memory ratio). GPUs only become fewer within a round, so
 * jobs like one that found no plan are not tried, and the queue is read until
 * all GPUs are taken: at most O(waiting + plans of each kind of job) a round,
 * and O(nodes) for each job that (3) places.
 */
#include <firn/policy.h>

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <firn/forecast.h>
#include <firn/offer.h>
#include <firn/parallel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rank { EFFICIENCY, FEWEST, SPEED };
/* What of a trainer's abilities plans depend on. */
enum {
    PLANNED = FIRN_CAN_TENSOR | FIRN_CAN_SHARDED | FIRN_CAN_PASSES |
              FIRN_CAN_ZERO | FIRN_CAN_RECOMPUTE | FIRN_CAN_OFFLOAD
};
enum memory { OURS, MARP };
enum others { SMALLEST, FASTEST };
enum serve { MEMORY, SPEED_TOO };

/* KEY_MAX: 22 numbers of at most 14 characters, and the application. */
enum {
    NOTES = 32,
    APP_MAX = 80,
    KEY_MAX = 22 * 14 + APP_MAX + 1,
    WAYS_USUAL = 64
};

/* A number of GPUs of any of these types. */
struct frenzy_plan {
    int gpus, tensor;
    int parallel, passes; /* as in struct firn_how */
    double need_gib, rate;
    uint32_t types;
};

/* Jobs that have the same plans. */
struct kind {
    VEC(struct frenzy_plan) plans; /* best first; never empty */
    bool is_llm;
    bool is_stuck; /* in this round a job of the kind found no plan */
    int noted;     /* GPUs free, as `note` has it; -1: there is no note yet */
    char note[64]; /* why jobs of the kind wait */
};

struct frenzy {
    int rank, memory, others, serve;
    bool skip, mix;
    struct map keys;
    VEC(struct kind) kinds;        /* by number of the key */
    VEC(int) kind_of;              /* by job id: 1 + its kind; 0: not met */
    VEC(struct firn_llm_way) ways; /* room for those of one kind */
};

static const char *const ranks[] = {"efficiency", "fewest", "speed", NULL};
static const char *const memories[] = {"ours", "marp", NULL};
static const char *const preferences[] = {"smallest", "fastest", NULL};
static const char *const matches[] = {"memory", "speed", NULL};

static const struct firn_option options[] = {
    FIRN_CHOICE(
        struct frenzy, rank, "rank", "efficiency", ranks,
        "first: most samples/s per GPU, fewest GPUs, or most samples/s"),
    FIRN_CHOICE(struct frenzy, memory, "memory", "marp", memories,
                "predicted by the paper's formula, or by firn's model"),
    FIRN_CHOICE(
        struct frenzy, serve, "serve", "memory", matches,
        "types for a plan: with its memory, or also as fast as its own"),
    FIRN_BOOL(struct frenzy, mix, "mix", "1",
              "several nodes may be of several types; 0: of one, if it has "
              "enough"),
    FIRN_CHOICE(struct frenzy, others, "others", "smallest", preferences,
                "GPUs for jobs that are no language models: memory or speed"),
    FIRN_BOOL(struct frenzy, skip, "skip", "1",
              "later jobs pass one that no plan is found for"),
    {0},
};

/* ---- MARP: the plans of a kind of job ---- */

/* Types of the mask with that much memory, at least as fast as `speed`. */
static uint32_t types_with(const struct firn_view *view, uint32_t mask,
                           double need_gib, double speed)
{
    uint32_t types = 0;
    for (int t = 0; t < view->cluster->ntypes; t++) {
        const struct firn_gpu_type *type = &view->cluster->types[t];
        bool has_room = type->mem_gib <= 0 || need_gib <= type->mem_gib;
        if ((mask >> t & 1) && has_room && type->speed >= speed)
            types |= (uint32_t)1 << t;
    }
    return types;
}

static int by_gpus(const void *a, const void *b)
{
    const struct frenzy_plan *p = a, *q = b;
    if (p->gpus != q->gpus)
        return p->gpus < q->gpus ? -1 : 1;
    if (p->tensor != q->tensor)
        return p->tensor < q->tensor ? -1 : 1;
    if (p->need_gib != q->need_gib)
        return firn_cmp(p->need_gib, q->need_gib);
    if (p->parallel != q->parallel)
        return p->parallel < q->parallel ? -1 : 1;
    return (p->passes > q->passes) - (p->passes < q->passes);
}

static int by_rate(const void *a, const void *b)
{
    const struct frenzy_plan *p = a, *q = b;
    if (p->rate != q->rate)
        return p->rate > q->rate ? -1 : 1;
    return by_gpus(a, b);
}

/* Is there a plan of as many GPUs, split alike, for the same types? Then the
 * later one is never reached. */
static bool is_known(const struct kind *kind, const struct frenzy_plan *plan)
{
    for (size_t i = 0; i < kind->plans.n; i++) {
        const struct frenzy_plan *old = &kind->plans.at[i];
        if (old->gpus == plan->gpus && old->tensor == plan->tensor &&
            old->parallel == plan->parallel && old->passes == plan->passes &&
            old->types == plan->types)
            return true;
    }
    return false;
}

/* The plan that a way is, if the memory believed in allows it. */
static void add_plan(const struct frenzy *frenzy, const struct firn_view *view,
                     const struct firn_job *job, const struct firn_llm_way *way,
                     struct kind *kind)
{
    const struct firn_gpu_type *type = &view->cluster->types[way->way.type];
    struct frenzy_plan plan = {
        .gpus = way->way.gpus,
        .tensor = way->way.tensor,
        .parallel = way->way.parallel,
        .passes = way->way.passes,
        .rate = way->rate,
        .need_gib = frenzy->memory == MARP ? way->marp_gib : way->mem_gib,
    };
    double speed = frenzy->serve == MEMORY ? 0 : type->speed;
    if (!(way->rate > 0) ||
        (type->mem_gib > 0 && plan.need_gib > type->mem_gib))
        return;
    plan.types = types_with(view, job->type_mask, plan.need_gib, speed);
    if (!is_known(kind, &plan))
        vec_add(&kind->plans, plan);
}

/* As submitted, on the types that it is known to run on, if any. */
static void add_asked(const struct firn_view *view, const struct firn_job *job,
                      struct kind *kind)
{
    uint32_t types = 0;
    size_t n = 0;
    const struct firn_offer *offers = NULL;
    if (kind->is_llm)
        offers = firn_offers(view, job, FIRN_OFFER_TYPES, &n);
    for (size_t i = 0; i < n; i++)
        types |= (uint32_t)1 << offers[i].way.type;
    vec_add(&kind->plans,
            ((struct frenzy_plan){.gpus = job->spec.gpus,
                                  .need_gib = job->spec.mem_gib,
                                  .types = types ? types : job->type_mask}));
}

/* Fills frenzy->ways; returns how many. Most models have a few dozen ways: room
 * for many more costs more than the search. */
static size_t find_ways(struct frenzy *frenzy, const struct firn_view *view,
                        const struct firn_job *job)
{
    size_t n = 0;
    vec_reserve(&frenzy->ways, WAYS_USUAL);
    while ((n = firn_view_llm_ways(view, job, frenzy->ways.at,
                                   frenzy->ways.cap)) >= frenzy->ways.cap)
        vec_reserve(&frenzy->ways, 4 * frenzy->ways.cap);
    return n;
}

static void list_plans(struct frenzy *frenzy, const struct firn_view *view,
                       const struct firn_job *job, struct kind *kind)
{
    size_t n = 0;
    kind->plans.n = 0;
    kind->noted = -1;
    kind->is_llm = job->spec.seq > 0;
    if (kind->is_llm)
        n = find_ways(frenzy, view, job);
    for (size_t i = 0; i < n; i++)
        add_plan(frenzy, view, job, &frenzy->ways.at[i], kind);
    if (kind->plans.n == 0)
        add_asked(view, job, kind);
    if (frenzy->rank != EFFICIENCY)
        qsort(kind->plans.at, kind->plans.n, sizeof *kind->plans.at,
              frenzy->rank == FEWEST ? by_gpus : by_rate);
}

/* Writes a number in base 32, least digit first, and a blank. */
static char *put_number(char *at, uint64_t n)
{
    do
        *at++ = "0123456789abcdefghijklmnopqrstuv"[n & 31];
    while ((n >>= 5) != 0);
    *at++ = ' ';
    return at;
}

/* What makes two jobs one kind, as text. Not by printf: this is a fifth of the
 * first round. */
static void write_key(char key[KEY_MAX], const struct firn_job *job)
{
    const struct firn_job_spec *spec = &job->spec;
    bool is_llm = spec->seq > 0;
    uint64_t memory;
    memcpy(&memory, &spec->mem_gib, sizeof memory);
    char *at = put_number(key, (unsigned)spec->gpus);
    at = put_number(at, job->type_mask);
    at = put_number(at, memory);
    if (is_llm) {
        const struct firn_training *train = &spec->training;
        const unsigned how[] = {(unsigned)spec->gpus_min,
                                (unsigned)spec->gpus_max,
                                (unsigned)spec->seq,
                                (unsigned)spec->batch,
                                train->precision,
                                train->optimizer,
                                train->attention,
                                train->checkpointing,
                                train->loss,
                                train->mode,
                                train->zero,
                                train->lora_precision,
                                train->offload,
                                train->lora_on,
                                train->lora,
                                (unsigned)train->accumulation,
                                spec->cannot & PLANNED};
        uint64_t ratio;
        memcpy(&ratio, &spec->mem_ratio, sizeof ratio);
        at = put_number(at, ratio);
        for (size_t i = 0; i < sizeof how / sizeof *how; i++)
            at = put_number(at, how[i]);
        size_t n = strnlen(spec->app, APP_MAX);
        memcpy(at, spec->app, n);
        at += n;
    }
    *at = '\0';
}

/* The number of the job's kind, met now if it was not before. */
static int kind_of(struct frenzy *frenzy, const struct firn_view *view,
                   const struct firn_job *job)
{
    size_t id = (size_t)job->id;
    char key[KEY_MAX];
    if (id < frenzy->kind_of.cap && frenzy->kind_of.at[id] > 0)
        return frenzy->kind_of.at[id] - 1;
    write_key(key, job);
    int kind = map_add(&frenzy->keys, key);
    vec_reserve(&frenzy->kinds, frenzy->keys.n);
    if (frenzy->kinds.at[kind].plans.n == 0)
        list_plans(frenzy, view, job, &frenzy->kinds.at[kind]);
    frenzy->kinds.n = frenzy->keys.n;
    vec_reserve(&frenzy->kind_of, id + 1);
    frenzy->kind_of.at[id] = kind + 1;
    return kind;
}

/* ---- HAS: where ---- */

struct has {
    const struct frenzy *frenzy;
    const struct firn_view *view;
    struct firn_plan *plan;
    int by_size[FIRN_TYPES_MAX];  /* types, least memory first */
    int by_speed[FIRN_TYPES_MAX]; /* fastest first */
    int notes; /* notes that may still be made in this round */
};

static bool is_smaller(const struct firn_gpu_type *a,
                       const struct firn_gpu_type *b)
{
    if (a->mem_gib <= 0 || b->mem_gib <= 0) /* not known: counts as unlimited */
        return a->mem_gib > 0;
    return a->mem_gib < b->mem_gib;
}

/* Both orders; equal types by id. */
static void order_types(struct has *has)
{
    const struct firn_gpu_type *types = has->view->cluster->types;
    for (int n = 0; n < has->view->cluster->ntypes; n++) {
        int i = n, k = n;
        for (; i > 0 && is_smaller(&types[n], &types[has->by_size[i - 1]]); i--)
            has->by_size[i] = has->by_size[i - 1];
        for (; k > 0 && types[n].speed > types[has->by_speed[k - 1]].speed; k--)
            has->by_speed[k] = has->by_speed[k - 1];
        has->by_size[i] = n;
        has->by_speed[k] = n;
    }
}

static int free_of(const struct has *has, uint32_t types)
{
    int free = 0;
    for (; types != 0; types &= types - 1)
        free += firn_plan_free_of(has->plan, __builtin_ctz(types));
    return free;
}

/* (2), and with `is_spread` over several nodes of one type. */
static bool place_one_type(const struct has *has, const struct firn_job *job,
                           const struct frenzy_plan *plan, const int *order,
                           struct firn_want want, bool is_spread)
{
    want.one_type = true;
    want.one_node = !is_spread;
    for (int i = 0; i < has->view->cluster->ntypes; i++) {
        want.types = plan->types & (uint32_t)1 << order[i];
        if (want.types != 0 &&
            firn_plan_free_of(has->plan, order[i]) >= plan->gpus &&
            firn_plan_give_want(has->plan, job, &want))
            return true;
    }
    return false;
}

static int idle_on(const struct has *has, const struct firn_node *node)
{
    int idle = 0;
    for (int b = 0; b * FIRN_BOARD_GPUS < node->ngpus; b++)
        idle += __builtin_popcountll(firn_plan_free_on(has->plan, node->id, b));
    return idle;
}

/* The node that (3) takes next: the best fit for `left` GPUs, or else the
 * emptiest; -1 for none. `idle` has the idle GPUs of each node that the plan
 * may use, `place` the position of each type in the order. */
static int next_node(const struct has *has, const int *idle, const int *place,
                     int left)
{
    const struct firn_cluster *cluster = has->view->cluster;
    int best = -1;
    for (int i = 0; i < cluster->nnodes; i++) {
        if (idle[i] == 0)
            continue;
        if (best < 0) {
            best = i;
            continue;
        }
        int mine = place[cluster->nodes[i].type];
        int its = place[cluster->nodes[best].type];
        bool fits = idle[i] >= left, best_fits = idle[best] >= left;
        bool is_better =
            idle[i] > idle[best] || (idle[i] == idle[best] && mine < its);
        if (fits && best_fits)
            is_better = mine < its || (mine == its && idle[i] < idle[best]);
        else if (fits != best_fits)
            is_better = fits;
        if (is_better)
            best = i;
    }
    return best;
}

/* (3) over all types of the plan: how many GPUs of each, into `counts`. */
static void count_emptiest(const struct has *has,
                           const struct frenzy_plan *plan, const int *order,
                           int counts[FIRN_TYPES_MAX])
{
    const struct firn_cluster *cluster = has->view->cluster;
    int place[FIRN_TYPES_MAX], left = plan->gpus;
    int *idle =
        firn_view_alloc(has->view, (size_t)cluster->nnodes * sizeof *idle);
    for (int i = 0; i < cluster->ntypes; i++)
        place[order[i]] = i;
    for (int i = 0; i < cluster->nnodes; i++)
        if (plan->types >> cluster->nodes[i].type & 1)
            idle[i] = idle_on(has, &cluster->nodes[i]);
    while (left > 0) {
        int node = next_node(has, idle, place, left);
        if (node < 0)
            break;
        int some = idle[node] < left ? idle[node] : left;
        counts[cluster->nodes[node].type] += some;
        idle[node] = 0;
        left -= some;
    }
}

/* (2) and (3). */
static bool place(const struct has *has, const struct firn_job *job,
                  const struct frenzy_plan *plan, bool is_llm)
{
    const int *order = !is_llm && has->frenzy->others == FASTEST ? has->by_speed
                                                                 : has->by_size;
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.tensor = plan->tensor;
    how.parallel = plan->parallel;
    how.passes = plan->passes;
    struct firn_want want = {.gpus = plan->gpus, .how = &how};
    bool keeps_type = job->spec.one_type || !has->frenzy->mix;
    if (place_one_type(has, job, plan, order, want, false))
        return true;
    if (keeps_type && place_one_type(has, job, plan, order, want, true))
        return true;
    if (job->spec.one_type)
        return false;
    int counts[FIRN_TYPES_MAX] = {0};
    if (!keeps_type) {
        count_emptiest(has, plan, order, counts);
        want.counts = counts;
    }
    want.types = plan->types;
    return firn_plan_give_want(has->plan, job, &want);
}

/* A note, made without printf: where LAPACK brings libquadmath, which registers
 * formats of its own, each printf takes the way of formats with positions, 3600
 * instructions. */
struct line {
    char text[96];
    size_t n;
};

static void put(struct line *line, const char *text)
{
    str_copy(line->text + line->n, sizeof line->text - line->n, text);
    line->n += strlen(line->text + line->n);
}

static void put_int(struct line *line, int number)
{
    char digits[12];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(line, digits + at);
}

/* Three digits, as %.3g has them. */
static void put_gib(struct line *line, double gib)
{
    int units = gib >= 99.95 ? 1 : gib >= 9.995 ? 10 : 100;
    char text[32];
    if (!(gib >= 1 && gib < 999.5)) {
        snprintf(text, sizeof text, "%.3g", gib);
        put(line, text);
        return;
    }
    int all = (int)(gib * units + 0.5), rest = all % units;
    put_int(line, all / units);
    if (rest == 0)
        return;
    put(line, units == 100 && rest < 10 ? ".0" : ".");
    put_int(line, units == 100 && rest % 10 == 0 ? rest / 10 : rest);
}

/* "plan 1 of 3: tensor 2 x data 4, sharded, recompute, 2 passes" */
static void note_plan(const struct has *has, const struct firn_job *job,
                      const struct kind *kind, size_t i)
{
    const struct frenzy_plan *plan = &kind->plans.at[i];
    struct line line = {.n = 0};
    put(&line, "plan ");
    put_int(&line, (int)i + 1);
    put(&line, " of ");
    put_int(&line, (int)kind->plans.n);
    put(&line, ": tensor ");
    put_int(&line, plan->tensor);
    put(&line, " x data ");
    put_int(&line, plan->gpus / (plan->tensor > 0 ? plan->tensor : 1));
    int zero = firn_parallel_zero(plan->parallel);
    if (zero == 3)
        put(&line, ", sharded");
    else if (zero > 0)
        put(&line, zero == 1 ? ", ZeRO 1" : ", ZeRO 2");
    if (firn_parallel_recomputes(plan->parallel))
        put(&line, ", recompute");
    if (firn_parallel_offloads(plan->parallel))
        put(&line, ", offload");
    if (plan->passes > 1) {
        put(&line, ", ");
        put_int(&line, plan->passes);
        put(&line, " passes");
    }
    firn_plan_note(has->plan, job, "%s", line.text);
}

/* (1): the first plan that can be. */
static bool serve(const struct has *has, const struct firn_job *job,
                  const struct kind *kind)
{
    for (size_t i = 0; i < kind->plans.n; i++) {
        const struct frenzy_plan *plan = &kind->plans.at[i];
        if (free_of(has, plan->types) < plan->gpus ||
            !place(has, job, plan, kind->is_llm))
            continue;
        if (kind->is_llm)
            note_plan(has, job, kind, i);
        return true;
    }
    return false;
}

static void explain(struct has *has, const struct firn_job *job,
                    struct kind *kind)
{
    const struct frenzy_plan *plan = &kind->plans.at[0];
    if (has->notes-- <= 0)
        return;
    int free = free_of(has, plan->types);
    if (kind->noted != free) {
        struct line line = {.n = 0};
        put(&line, "needs ");
        put_int(&line, plan->gpus);
        put(&line, " GPUs");
        if (plan->need_gib > 0) {
            put(&line, " of ");
            put_gib(&line, plan->need_gib);
            put(&line, " GiB");
        }
        put(&line, ", ");
        put_int(&line, free);
        put(&line, " free");
        str_copy(kind->note, sizeof kind->note, line.text);
    }
    kind->noted = free;
    firn_plan_note(has->plan, job, "%s", kind->note);
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct frenzy *frenzy = state;
    struct has has = {
        .frenzy = frenzy, .view = view, .plan = plan, .notes = NOTES};
    firn_plan_keep_all(plan);
    order_types(&has);
    for (size_t i = 0; i < frenzy->kinds.n; i++)
        frenzy->kinds.at[i].is_stuck = false;
    bool is_blocked = false;
    const struct firn_job *job = NULL;
    while ((job = firn_view_next_waiting(view, job)) != NULL) {
        if ((is_blocked || firn_plan_free(plan) == 0) && has.notes <= 0)
            break;
        int which = kind_of(frenzy, view, job);
        struct kind *kind = &frenzy->kinds.at[which];
        if (!is_blocked && !kind->is_stuck && serve(&has, job, kind))
            continue;
        if (!job->spec.one_type) /* others might mix types */
            kind->is_stuck = true;
        is_blocked = !frenzy->skip;
        explain(&has, job, kind);
    }
    return FIRN_OK;
}

static void fini(void *state)
{
    struct frenzy *frenzy = state;
    for (size_t i = 0; i < frenzy->kinds.n; i++)
        vec_release(&frenzy->kinds.at[i].plans);
    vec_release(&frenzy->kinds);
    vec_release(&frenzy->kind_of);
    vec_release(&frenzy->ways);
    map_release(&frenzy->keys);
}

const struct firn_policy_def firn_policy_frenzy = {
    .size = sizeof(struct firn_policy_def),
    .name = "frenzy",
    .summary = "GPUs by a language model's memory, best fit, no counts asked",
    .paper = "Chang et al., Frenzy, 2024",
    .needs = FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .options = options,
    .state_size = sizeof(struct frenzy),
    .decide = decide,
    .fini = fini,
};
