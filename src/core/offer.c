/* offer.c - menus from forecasts.
 *
 * The menu of a job is the product of its freedoms: types x numbers of GPUs x
 * ways to spread its model, with the trainer's tunings switched on in all of
 * them, then what other jobs add. Nothing here knows an objective.
 *
 * Sharing: two jobs fit on a GPU when their memory does (firn/sharing.h, rule
 * 1 with its margin); unknown memory counts as fitting, for a simulation
 * without it would never share. The slowdown is the forecast's, applied to
 * both.
 *
 * A way that needs what the job's trainer cannot do is not on its menu: the
 * forecast's answer to it is 0 (core/forecast.c).
 *
 * Invariant: same view, same menu; ordered as offer.h says.
 * Cost: O(offers) questions to the forecast.
 */
#include <firn/offer.h>

#include "base/vec.h"
#include "core/state.h"
#include <firn/parallel.h>
#include <firn/sharing.h>
#include <math.h>
#include <string.h>

enum { SMALL = 8, PASSES_UNTOLD = 64, PASSES_MAX = 1 << 20 };

/* An array in scratch memory. */
struct menu {
    const struct firn_view *view;
    const struct firn_job *job;
    unsigned kinds;
    unsigned parallels; /* ways to spread its model; 0: no choice */
    struct firn_offer *at;
    size_t n, cap;
};

static void add(struct menu *menu, const struct firn_offer *offer)
{
    if (menu->n == menu->cap) {
        size_t cap = menu->cap ? 2 * menu->cap : 16;
        struct firn_offer *at = firn_view_alloc(menu->view, cap * sizeof *at);
        if (menu->n > 0)
            memcpy(at, menu->at, menu->n * sizeof *at);
        menu->at = at;
        menu->cap = cap;
    }
    menu->at[menu->n++] = *offer;
}

static unsigned tunes_of(unsigned kinds)
{
    return (kinds & FIRN_OFFER_FREEZE ? FIRN_TUNE_FREEZE : 0u) |
           (kinds & FIRN_OFFER_BATCH ? FIRN_TUNE_BATCH : 0u);
}

/* With elastic threads instead of a tuned batch, if that is faster. Models that
 * are spread over their GPUs have none. */
static void try_threads(const struct menu *menu, struct firn_offer *offer)
{
    struct firn_way way = offer->way;
    if ((menu->kinds & FIRN_OFFER_THREADS) == 0 || way.parallel != 0 ||
        menu->job->spec.seq > 0 || !(offer->rate > 0))
        return;
    way.tunes &= ~(unsigned)FIRN_TUNE_BATCH;
    way.tunes |= FIRN_TUNE_THREADS;
    double rate = firn_view_rate(menu->view, menu->job, &way);
    if (!(rate > offer->rate * (1 + 1e-4)))
        return;
    offer->way = way;
    offer->rate = rate;
    offer->kinds |= FIRN_OFFER_THREADS;
    offer->kinds &= ~(unsigned)FIRN_OFFER_BATCH;
}

/* One way to run it alone, if it can be. */
static void add_way(struct menu *menu, struct firn_way way)
{
    const struct firn_job *job = menu->job;
    struct firn_offer offer = {.way = way};
    offer.mem_gib = (double)NAN;
    offer.way.tunes = firn_job_tunes(job, tunes_of(menu->kinds));
    offer.kinds |= offer.way.tunes & FIRN_TUNE_FREEZE ? FIRN_OFFER_FREEZE : 0u;
    offer.kinds |= offer.way.tunes & FIRN_TUNE_BATCH ? FIRN_OFFER_BATCH : 0u;
    offer.kinds |= way.gpus != job->spec.gpus ? FIRN_OFFER_ELASTIC : 0u;
    offer.kinds |= way.parallel != 0 ? FIRN_OFFER_PARALLEL : 0u;
    offer.kinds |= menu->kinds & FIRN_OFFER_TYPES;
    offer.rate = firn_view_rate(menu->view, job, &offer.way);
    try_threads(menu, &offer);
    firn_view_setting(menu->view, job, &offer.way, &offer.setting);
    if (offer.rate > 0)
        add(menu, &offer);
}

/* ---- measured plans ---- */

static bool has_plans(const struct menu *menu)
{
    const struct firn_layout *asked = &menu->job->spec.asked;
    return (menu->kinds & FIRN_OFFER_PLANS) != 0 && menu->parallels != 0 &&
           (asked->parallel != 0 || asked->tensor > 0 || asked->stages > 0);
}

static void try_plan(const struct menu *menu, struct firn_way way,
                     struct firn_offer *best)
{
    double rate = firn_view_rate(menu->view, menu->job, &way);
    if (rate > best->rate * (1 + 1e-9)) {
        best->rate = rate;
        best->way = way;
    }
}

/* The fastest plan on that many GPUs; the one asked for if none is faster. */
static void add_plan(struct menu *menu, firn_type_id type, int gpus)
{
    struct firn_offer best = {.kinds = menu->kinds & FIRN_OFFER_TYPES};
    struct firn_way way = {.gpus = gpus, .type = type};
    try_plan(menu, way, &best);
    for (int i = FIRN_PARALLEL_DATA; i <= FIRN_PARALLEL_RECOMPUTE; i++) {
        way.parallel = i;
        if ((menu->parallels >> i & 1) && i != FIRN_PARALLEL_PIPELINE)
            try_plan(menu, way, &best);
    }
    way.parallel = FIRN_PARALLEL_PIPELINE;
    bool splits = menu->parallels >> way.parallel & 1;
    for (way.stages = 1; splits && way.stages <= SMALL; way.stages++)
        for (way.tensor = 1; way.tensor <= SMALL; way.tensor++)
            if (gpus % (way.stages * way.tensor) == 0)
                try_plan(menu, way, &best);
    best.mem_gib = (double)NAN;
    best.kinds |= best.way.parallel != 0 ? FIRN_OFFER_PLANS : 0u;
    best.kinds |= gpus != menu->job->spec.gpus ? FIRN_OFFER_ELASTIC : 0u;
    if (best.rate > 0)
        add(menu, &best);
}

/* One number of GPUs of one type, alone, in every way to spread its model. */
static void add_alone(struct menu *menu, firn_type_id type, int gpus)
{
    struct firn_way way = {.gpus = gpus, .type = type};
    if (has_plans(menu)) {
        add_plan(menu, type, gpus);
        return;
    }
    if (menu->parallels == 0) {
        add_way(menu, way);
        return;
    }
    for (int i = FIRN_PARALLEL_DATA; i <= FIRN_PARALLEL_SHARDED; i++) {
        way.parallel = i;
        if (menu->parallels >> i & 1)
            add_way(menu, way);
    }
    way.parallel = FIRN_PARALLEL_PIPELINE;
    for (way.stages = 1; way.stages <= gpus; way.stages *= 2)
        if ((menu->parallels >> way.parallel & 1) && gpus % way.stages == 0)
            add_way(menu, way);
}

/* GPUs of the largest node of a type, or of all types for FIRN_ANY_TYPE. */
static int largest_node(const struct menu *menu, firn_type_id type)
{
    const struct state *state = menu->view->state;
    int most = 1;
    for (int t = 0; t < state->cluster.ntypes; t++)
        if ((type == FIRN_ANY_TYPE || t == type) &&
            state->map.types[t].max > most)
            most = state->map.types[t].max;
    return most;
}

/* GPUs that are up, of a type or of all the job accepts; the most of one of
 * them where it keeps to one. */
static int gpus_up(const struct menu *menu, firn_type_id type)
{
    const struct state *state = menu->view->state;
    int sum = 0, most = 0;
    for (int t = 0; t < state->cluster.ntypes; t++) {
        if (type == FIRN_ANY_TYPE ? !(menu->job->type_mask >> t & 1)
                                  : t != type)
            continue;
        int up = state->map.types[t].up;
        sum += up;
        most = up > most ? up : most;
    }
    return menu->job->spec.one_type ? most : sum;
}

static void add_counts(struct menu *menu, firn_type_id type)
{
    const struct firn_job_spec *spec = &menu->job->spec;
    int up = gpus_up(menu, type);
    int most = firn_view_gpus_max(menu->view, menu->job, tunes_of(menu->kinds));
    most = up < most ? up : most;
    if ((menu->kinds & FIRN_OFFER_ELASTIC) == 0) {
        if (spec->gpus <= up)
            add_alone(menu, type, spec->gpus);
        return;
    }
    int node = largest_node(menu, type);
    for (int gpus = spec->gpus_min; gpus <= most; gpus++)
        if (gpus <= SMALL || gpus % node == 0 || gpus == spec->gpus ||
            gpus == most)
            add_alone(menu, type, gpus);
}

bool firn_offer_fits(const struct firn_view *view, firn_type_id type,
                     double mem_gib, double other_gib)
{
    double gpu_gib = view->cluster->types[type].mem_gib;
    if (isnan(mem_gib) || isnan(other_gib) || gpu_gib <= 0)
        return true;
    struct firn_share_need needs[] = {{.mem_mib = mem_gib * 1024},
                                      {.mem_mib = other_gib * 1024}};
    return firn_share_check(needs, 2, gpu_gib * 1024) != FIRN_SHARE_MEMORY;
}

/* Same rate and memory: more passes changed nothing. */
static bool is_same(const struct firn_offer *a, const struct firn_offer *b)
{
    return a->rate == b->rate && (a->mem_gib == b->mem_gib ||
                                  (isnan(a->mem_gib) && isnan(b->mem_gib)));
}

const struct firn_offer *firn_offer_passes(const struct firn_view *view,
                                           const struct firn_job *job,
                                           firn_type_id type, size_t *n)
{
    struct menu menu = {.view = view, .job = job};
    int gpus = job->spec.gpus;
    int most = job->spec.batch > 0 ? job->spec.batch / gpus : PASSES_UNTOLD;
    most = most < PASSES_MAX ? most : PASSES_MAX;
    if (!firn_job_can(job, FIRN_CAN_PASSES))
        most = 0; /* one pass alone */
    for (int passes = 1; passes == 1 || passes / 2 < most; passes *= 2) {
        struct firn_offer offer = {
            .way = {.gpus = gpus, .type = type, .passes = passes}};
        if (passes == 1)
            offer.way.passes = 0;
        offer.rate = firn_view_rate(view, job, &offer.way);
        if (!(offer.rate > 0))
            continue;
        offer.mem_gib = firn_view_load(view, job, &offer.way).mem_gib;
        if (menu.n == 0 || !is_same(&offer, &menu.at[menu.n - 1]))
            add(&menu, &offer);
    }
    *n = menu.n;
    return menu.at;
}

/* The way a running job is held; of several types the first. */
static struct firn_way way_of(const struct firn_view *view,
                              const struct firn_job *job)
{
    return (struct firn_way){
        .gpus = job->held.ngpus,
        .nodes = firn_alloc_nodes(&job->held),
        .type = view->cluster->nodes[job->held.parts[0].node].type,
        .tunes = job->held.tunes,
        .passes = job->held.how.passes,
        .tensor = job->held.how.tensor,
        .parallel = job->held.how.parallel,
        .stages = job->held.how.stages,
    };
}

bool firn_offer_beside(const struct firn_view *view, const struct firn_job *job,
                       const struct firn_job *host, struct firn_offer *out)
{
    if (job == host || !job->spec.may_share || !host->held.is_shared ||
        host->held.nparts == 0)
        return false;
    struct firn_way theirs = way_of(view, host);
    double their_gib = firn_view_load(view, host, &theirs).mem_gib;
    double mine_xi = firn_view_slowdown(view, job, host);
    double their_xi = firn_view_slowdown(view, host, job);
    double their_rate = firn_view_rate(view, host, &theirs);
    if (!(mine_xi >= 1) || !(their_xi >= 1) || !(their_rate > 0))
        return false;
    size_t n;
    const struct firn_offer *at = firn_offer_passes(view, job, theirs.type, &n);
    const struct firn_offer *best = NULL;
    for (size_t i = 0; i < n; i++)
        if ((best == NULL || at[i].rate > best->rate) &&
            firn_offer_fits(view, theirs.type, at[i].mem_gib, their_gib))
            best = &at[i];
    if (best == NULL)
        return false;
    *out = *best;
    out->kinds = FIRN_OFFER_SHARE;
    out->with = host;
    out->rate /= mine_xi;
    out->with_rate = their_rate / their_xi;
    return true;
}

static void add_shares(struct menu *menu)
{
    const struct firn_job *const *running = firn_view_running(menu->view);
    struct firn_offer offer;
    for (size_t i = 0; i < menu->view->nrunning; i++)
        if (firn_offer_beside(menu->view, menu->job, running[i], &offer))
            add(menu, &offer);
}

static void add_merges(struct menu *menu)
{
    const struct firn_job *const *waiting = firn_view_waiting(menu->view);
    size_t alone = menu->n;
    for (size_t i = 0; i < menu->view->nwaiting; i++)
        for (size_t k = 0; k < alone; k++) {
            struct firn_offer offer = menu->at[k];
            offer.kinds |= FIRN_OFFER_MERGE;
            offer.with = waiting[i];
            if (firn_view_merge(menu->view, menu->job, waiting[i],
                                FIRN_MERGE_TOGETHER, &offer.way, &offer.merge))
                add(menu, &offer);
        }
}

static void add_parallel(struct menu *menu)
{
    enum { WAYS = 512 };
    if (menu->job->spec.seq <= 0) /* no language model */
        return;
    struct firn_llm_way ways[WAYS];
    size_t n = firn_view_llm_ways(menu->view, menu->job, ways, WAYS);
    for (size_t i = 0; i < n && i < WAYS; i++) {
        struct firn_offer offer = {.kinds = FIRN_OFFER_PARALLEL,
                                   .way = ways[i].way,
                                   .rate = ways[i].rate,
                                   .mem_gib = ways[i].mem_gib,
                                   .marp_gib = ways[i].marp_gib};
        add(menu, &offer);
    }
}

const struct firn_offer *firn_offers(const struct firn_view *view,
                                     const struct firn_job *job, unsigned kinds,
                                     size_t *n)
{
    struct menu menu = {.view = view, .job = job, .kinds = kinds};
    if (kinds & (FIRN_OFFER_PARALLEL | FIRN_OFFER_PLANS))
        menu.parallels = firn_view_parallels(view, job);
    if (kinds & FIRN_OFFER_TYPES) {
        for (int t = 0; t < view->cluster->ntypes; t++)
            if (job->type_mask >> t & 1)
                add_counts(&menu, t);
    } else {
        add_counts(&menu, FIRN_ANY_TYPE);
    }
    if ((kinds & FIRN_OFFER_MERGE) && job->spec.may_merge)
        add_merges(&menu);
    if (kinds & FIRN_OFFER_SHARE)
        add_shares(&menu);
    if (kinds & FIRN_OFFER_PARALLEL)
        add_parallel(&menu);
    *n = menu.n;
    return menu.at;
}
