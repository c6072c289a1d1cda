/* rubick.c - GPUs and execution plans together, by sensitivity curves.
 *
 * A job's curve has its speed on 1, 2, 3 ... GPUs of a type, each with the best
 * plan there (copies, ZeRO, offload, recomputation, stages x tensor). Speed is
 * that over the job as its user asked for it, so the curves of different models
 * compare. A round moves GPUs from where they matter least to where they matter
 * most (Zhang et al., Rubick: exploiting job reconfigurability for deep
 * learning cluster scheduling, MLSys 2025).
 *
 * From the paper: re-planning with every change of GPUs; curves of the best
 * plan; a job that waits takes GPUs from the jobs whose curves fall least for
 * each GPU; GPUs that are left go to the jobs whose curves rise most; a job
 * with a guarantee gets the fewest GPUs with which it is as fast as asked for,
 * and never fewer; best-effort jobs run on the rest and may be stopped for it;
 * a job that was changed often lately is left alone: with T the time it held
 * GPUs, N its starts and D the cost of one, only where (T - N D) / T is at
 * least `steady`.
 *
 * Ours: GPUs only, where the paper divides CPUs and bandwidth too; curves of
 * one GPU type each; one curve for all jobs of a kind, made when the first of
 * them is met; the order of those that wait (first come, guaranteed ones first;
 * a job that finds too little is passed over); and that a running job grows
 * only by `gain` or more, and only while none waits. `steady`, `least` and
 * `gain` have the values with the least mean completion time on five samples of
 * 300 jobs of Rubick's workload (24 settings: 1025 to 1151 s with steady 0.5 or
 * 0.7, 1351 s and more with 0.9). Scenarios use other samples.
 *
 *   (1) who waits     the fewest GPUs as fast as asked for (its goal). If too
 *                     few are free, running jobs shrink, the smallest loss a
 *                     GPU first, as long as the sum of speeds gains: the loss
 *                     is below goal's speed a GPU. A guaranteed job takes them
 *                     in any case, and stops best-effort jobs, youngest first.
 *                     A best-effort job that still finds too few begins on what
 *                     is free, if that is `least` of the speed asked for.
 *   (2) who grows     the largest rise of speed a GPU first, among those that
 *                     begin now and those that may be changed.
 *
 * Invariants:
 * (a) GPUs of a job are of one type, unless no type has enough for it;
 * (b) a guaranteed job is never shrunk below the speed it asked for;
 * (c) shrinking that does not get the waiting job its goal is taken back;
 * (d) equal losses and rises: the lower id;
 * (e) a job whose number of GPUs and plan are unchanged keeps its GPUs;
 * (f) while others run, a job does not begin on scattered GPUs that make it
 *     slower than (1) says.
 *
 * Between rounds running jobs stay as they are, and arrivals are served from
 * free GPUs. Nothing is known of how long a job will take.
 *
 * Cost: a curve asks for about 750 forecasts on 64 GPUs with plans, 64 without,
 * once a kind; a round O((jobs + GPUs) (log jobs + GPUs of a job)).
 */
#include <firn/policy.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "policy/rounds.h"
#include <firn/parallel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CURVE_MOST = 128, /* GPUs of a curve, unless the job asks for more */
    SPLIT_MOST = 8,   /* stages, and tensor shares */
    WAYS_MAX = 512,
    KEY_MAX = 320,
    QUEUE_MIN = 1000,
};
static const double as_asked = 1 - 1e-9; /* speed that counts as that asked */

/* The best way on at most that number of GPUs. */
struct point {
    double rate; /* 0: it cannot run */
    int gpus;    /* that it uses */
    int passes;
    struct firn_layout how; /* zeroed: as submitted */
};

struct curve {
    VEC(struct point) at; /* by GPUs, from 0 */
    int most;
    int goal; /* fewest GPUs as fast as asked for, or the fastest; 0: none */
};

struct rubick {
    double interval_s, steady, gain, least, restart_s;
    bool plans;
    struct rounds rounds;
    struct map keys;            /* of kinds of jobs */
    VEC(struct curve *) curves; /* by number of the key, then type */
    VEC(int) kind_of;           /* by job id: 1 + its kind; 0: not met */
    struct heap heap;           /* entries, empty between rounds */
    VEC(struct firn_llm_way) ways;
};

static const struct firn_option options[] = {
    FIRN_NUMBER(struct rubick, interval_s, "interval", "60", 1e-3, 1e9,
                "seconds between two rounds"),
    FIRN_NUMBER(struct rubick, steady, "steady", "0.5", 0, 1,
                "a job is changed only if that share of its time was not "
                "spent on starts"),
    FIRN_NUMBER(struct rubick, gain, "gain", "0.5", 0, 100,
                "a running job grows only if it gets faster by that share"),
    FIRN_NUMBER(struct rubick, least, "least", "0.2", 0, 1,
                "a best-effort job begins at no less than that share of the "
                "speed asked for"),
    FIRN_BOOL(struct rubick, plans, "plans", "1",
              "change plans with GPUs; 0: keep those asked for"),
    FIRN_NUMBER(struct rubick, restart_s, "restart", "30", 0, 1e9,
                "seconds a restart costs jobs that do not name a cost"),
    {0},
};

/* A job in this round. */
struct entry {
    const struct firn_job *job;
    const struct curve *curve; /* on `type`; NULL: mixed */
    int type;                  /* -1: of several, or not chosen */
    int before;                /* GPUs it holds, on one type */
    int gpus;                  /* to have */
    bool is_running, is_guaranteed, is_placed;
    bool may_change; /* it is steady, */
    bool may_resize; /* or may be shrunk for a guaranteed job */
};

struct round {
    struct rubick *rubick;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct entry *entries;
    size_t n;
    int free[FIRN_TYPES_MAX];
    int largest[FIRN_TYPES_MAX]; /* GPUs of the largest node */
    int *taken;                  /* entries shrunk for the job at hand, */
    int *taken_from;             /* and how many GPUs each had */
    size_t ntaken;
    int heap_type; /* whose victims are in the heap; -1: none */
    bool is_round;
    bool is_urgent;   /* victims are for guaranteed jobs */
    bool has_waiting; /* a job found too little */
};

/* ---- curves ---- */

struct ask {
    const struct firn_view *view;
    const struct firn_job *job;
    struct curve *curve;
    int type, node;
};

static void offer(struct curve *curve, int gpus, double rate,
                  const struct firn_way *way)
{
    if (gpus < 1 || gpus > curve->most ||
        !(rate > curve->at.at[gpus].rate * (1 + 1e-9)))
        return;
    curve->at.at[gpus] = (struct point){
        rate, gpus, way->passes, {way->parallel, way->tensor, way->stages}};
}

static void try_way(const struct ask *ask, struct firn_way way)
{
    way.type = ask->type;
    double rate = firn_view_rate(ask->view, ask->job, &way);
    if (isnan(rate)) /* not known: the GPUs asked for, as submitted */
        rate = way.gpus == ask->job->spec.gpus && way.parallel == 0 ? 1 : 0;
    offer(ask->curve, way.gpus, rate, &way);
}

/* Stages x tensor on that many GPUs. */
static void try_splits(const struct ask *ask, int gpus)
{
    for (int p = 1; p <= SPLIT_MOST && p <= gpus; p++)
        for (int t = 1; t <= SPLIT_MOST && t <= ask->node && p * t <= gpus; t++)
            if (gpus % (p * t) == 0)
                try_way(ask,
                        (struct firn_way){.gpus = gpus,
                                          .parallel = FIRN_PARALLEL_PIPELINE,
                                          .tensor = t,
                                          .stages = p});
}

static void try_plans(const struct ask *ask, int gpus, unsigned parallels)
{
    try_way(ask, (struct firn_way){.gpus = gpus});
    for (int way = FIRN_PARALLEL_DATA; way <= FIRN_PARALLEL_RECOMPUTE; way++)
        if ((parallels >> way & 1) && way != FIRN_PARALLEL_PIPELINE)
            try_way(ask, (struct firn_way){.gpus = gpus, .parallel = way});
    if (parallels >> FIRN_PARALLEL_PIPELINE & 1)
        try_splits(ask, gpus);
}

/* The ways of a language model, which has its own list; false: it has none. */
static bool try_llm(struct rubick *rubick, const struct ask *ask)
{
    vec_reserve(&rubick->ways, WAYS_MAX);
    size_t n =
        firn_view_llm_ways(ask->view, ask->job, rubick->ways.at, WAYS_MAX);
    for (size_t i = 0; i < n && i < WAYS_MAX; i++) {
        const struct firn_llm_way *way = &rubick->ways.at[i];
        double mem_gib = ask->view->cluster->types[ask->type].mem_gib;
        bool fits = mem_gib <= 0 || way->mem_gib <= mem_gib;
        if (way->way.type == ask->type && fits &&
            way->way.gpus >= ask->job->spec.gpus_min)
            offer(ask->curve, way->way.gpus, way->rate, &way->way);
    }
    return n > 0;
}

/* The best on at most n GPUs; and the goal. */
static void finish(struct curve *curve)
{
    curve->goal = 0;
    for (int n = 1; n <= curve->most; n++) {
        struct point *at = curve->at.at;
        if (!(at[n].rate > at[n - 1].rate))
            at[n] = at[n - 1];
        if (curve->goal == 0 && at[n].rate >= as_asked)
            curve->goal = n;
    }
    if (curve->goal == 0)
        curve->goal = curve->at.at[curve->most].gpus;
}

static void draw(struct round *round, const struct firn_job *job, int type,
                 struct curve *curve)
{
    const struct firn_job_spec *spec = &job->spec;
    int most = spec->gpus_max < CURVE_MOST ? spec->gpus_max : CURVE_MOST;
    most = most > spec->gpus ? most : spec->gpus;
    int there = round->view->cluster->types[type].ngpus;
    curve->most = most < there ? most : there;
    vec_reserve(&curve->at, (size_t)curve->most + 1);
    curve->at.n = (size_t)curve->most + 1;
    struct ask ask = {round->view, job, curve, type, round->largest[type]};
    unsigned parallels =
        round->rubick->plans ? firn_view_parallels(round->view, job) : 0;
    if (spec->seq <= 0 || !try_llm(round->rubick, &ask))
        for (int n = spec->gpus_min; n <= curve->most; n++)
            try_plans(&ask, n, parallels);
    finish(curve);
}

/* What makes the curves of two jobs one. */
static void write_key(char key[KEY_MAX], const struct firn_job *job)
{
    const struct firn_job_spec *s = &job->spec;
    const struct firn_training *as = &s->training;
    snprintf(
        key, KEY_MAX,
        "%d %d %d %x %d %d %x %d/%d/%d %d/%d/%d/%d/%d/%d/%d/%d/%d/%d/%d/%d "
        "%.17g %.17g %.120s",
        s->gpus, s->gpus_min, s->gpus_max, (unsigned)job->type_mask, s->batch,
        s->seq, s->cannot, s->asked.parallel, s->asked.tensor, s->asked.stages,
        (int)as->precision, (int)as->optimizer, (int)as->attention,
        (int)as->checkpointing, (int)as->loss, (int)as->mode, (int)as->zero,
        (int)as->lora_precision, (int)as->offload, (int)as->lora_on,
        (int)as->lora, as->accumulation, s->mem_gib, s->mem_ratio, s->app);
}

static int kind_of(struct rubick *rubick, const struct firn_job *job)
{
    size_t id = (size_t)job->id;
    char key[KEY_MAX];
    if (id < rubick->kind_of.cap && rubick->kind_of.at[id] > 0)
        return rubick->kind_of.at[id] - 1;
    write_key(key, job);
    int kind = map_add(&rubick->keys, key);
    vec_reserve(&rubick->kind_of, id + 1);
    rubick->kind_of.at[id] = kind + 1;
    return kind;
}

/* Its curve on a type, drawn now if it was not before. */
static const struct curve *curve_of(struct round *round,
                                    const struct firn_job *job, int type)
{
    struct rubick *rubick = round->rubick;
    size_t ntypes = (size_t)round->view->cluster->ntypes;
    size_t at = (size_t)kind_of(rubick, job) * ntypes + (size_t)type;
    vec_reserve(&rubick->curves, rubick->keys.n * ntypes);
    rubick->curves.n = rubick->keys.n * ntypes;
    if (rubick->curves.at[at] == NULL) {
        rubick->curves.at[at] = mem_new(1, sizeof(struct curve));
        draw(round, job, type, rubick->curves.at[at]);
    }
    return rubick->curves.at[at];
}

static double rate_on(const struct entry *entry, int gpus)
{
    const struct curve *curve = entry->curve;
    int n = gpus < curve->most ? gpus : curve->most;
    return curve->at.at[n].rate;
}

/* The fewest GPUs that it may be left with. */
static int floor_of(const struct entry *entry)
{
    const struct curve *curve = entry->curve;
    if (entry->is_guaranteed)
        return curve->goal;
    int n = 1;
    while (n < curve->most && !(curve->at.at[n].rate > 0))
        n++;
    return n;
}

/* ---- (1) shrinking others ---- */

/* The number of GPUs with the smallest loss for each one given up; -1: none
 * may be. */
static int shrunk(const struct entry *entry, double *loss)
{
    const struct point *at = entry->curve->at.at;
    double now = rate_on(entry, entry->gpus);
    int best = -1;
    for (int n = entry->gpus - 1; n >= floor_of(entry); n--) {
        if (n > entry->curve->most || at[n].gpus != n)
            continue;
        double each = (now - at[n].rate) / (entry->gpus - n);
        if (best < 0 || each < *loss) {
            best = n;
            *loss = each;
        }
    }
    return best;
}

static void clear_heap(struct heap *heap)
{
    const struct heap_item *top;
    while ((top = heap_top(heap)) != NULL)
        heap_remove(heap, top->item);
}

static void set_victim(struct round *round, int i)
{
    const struct entry *entry = &round->entries[i];
    double loss = 0;
    bool may = round->is_urgent ? entry->may_resize : entry->may_change;
    if (may && entry->is_running && shrunk(entry, &loss) >= 0)
        heap_set(&round->rubick->heap, i, loss, (uint64_t)entry->job->id);
    else
        heap_remove(&round->rubick->heap, i);
}

static void fill_victims(struct round *round, int type, bool is_urgent)
{
    if (round->heap_type == type && round->is_urgent == is_urgent)
        return;
    clear_heap(&round->rubick->heap);
    round->heap_type = type;
    round->is_urgent = is_urgent;
    for (size_t i = 0; i < round->n; i++)
        if (round->entries[i].type == type)
            set_victim(round, (int)i);
}

static void take(struct round *round, int i, int gpus)
{
    struct entry *entry = &round->entries[i];
    round->taken[round->ntaken] = i;
    round->taken_from[round->ntaken++] = entry->gpus;
    round->free[entry->type] += entry->gpus - gpus;
    entry->gpus = gpus;
}

/* (c) */
static void give_back(struct round *round, bool keeps_heap)
{
    while (round->ntaken > 0) {
        int i = round->taken[--round->ntaken];
        struct entry *entry = &round->entries[i];
        round->free[entry->type] +=
            entry->gpus - round->taken_from[round->ntaken];
        entry->gpus = round->taken_from[round->ntaken];
        if (keeps_heap)
            set_victim(round, i);
    }
}

/* Shrinks running jobs until the goal is free, each for less than `most` of
 * speed a GPU. Every job is taken from at most once for each of its points. */
static bool shrink_others(struct round *round, int type, int goal, double most)
{
    fill_victims(round, type, isinf(most));
    while (round->free[type] < goal) {
        const struct heap_item *top = heap_top(&round->rubick->heap);
        if (top == NULL || !(top->key < most))
            return false;
        int i = top->item;
        double loss;
        take(round, i, shrunk(&round->entries[i], &loss));
        set_victim(round, i);
    }
    return true;
}

/* For a guaranteed job: best-effort jobs are stopped, youngest first. */
static bool stop_others(struct round *round, int type, int goal)
{
    for (size_t i = round->n; i-- > 0 && round->free[type] < goal;) {
        struct entry *entry = &round->entries[i];
        if (entry->type != type || !entry->is_running || entry->is_guaranteed ||
            entry->gpus == 0 || entry->curve == NULL)
            continue;
        take(round, (int)i, 0);
        set_victim(round, (int)i);
    }
    return round->free[type] >= goal;
}

/* ---- (1) who waits ---- */

static void begin(struct round *round, struct entry *entry, int type, int gpus)
{
    entry->type = type;
    entry->gpus = gpus;
    round->free[type] -= gpus;
    round->ntaken = 0;
}

/* Its goal on that type, from free GPUs or from others'. */
static bool reach_goal(struct round *round, struct entry *entry, int type)
{
    const struct curve *curve = entry->curve;
    int goal = curve->goal;
    if (goal == 0)
        return false;
    if (round->free[type] >= goal) {
        begin(round, entry, type, goal);
        return true;
    }
    if (!round->is_round)
        return false;
    double most =
        entry->is_guaranteed ? INFINITY : curve->at.at[goal].rate / goal;
    if (shrink_others(round, type, goal, most) ||
        (entry->is_guaranteed && stop_others(round, type, goal))) {
        begin(round, entry, type, goal);
        return true;
    }
    give_back(round, true);
    return false;
}

/* Of a best-effort job: on what is free. */
static bool begin_small(struct round *round, struct entry *entry, int type)
{
    const struct curve *curve = entry->curve;
    int free = round->free[type];
    int n = free < curve->most ? free : curve->most;
    if (n < 1 || curve->goal == 0)
        return false;
    double asked = curve->at.at[curve->goal].rate;
    asked = asked < 1 ? asked : 1;
    if (!(curve->at.at[n].rate >= round->rubick->least * asked) ||
        !(curve->at.at[n].rate > 0))
        return false;
    begin(round, entry, type, curve->at.at[n].gpus);
    return true;
}

/* Types by the speed of its goal, the fastest first. */
static int list_types(struct round *round, const struct firn_job *job,
                      int order[FIRN_TYPES_MAX])
{
    double rates[FIRN_TYPES_MAX];
    int n = 0;
    for (int t = 0; t < round->view->cluster->ntypes; t++) {
        if (!(job->type_mask >> t & 1) ||
            round->view->cluster->types[t].ngpus < job->spec.gpus_min)
            continue;
        const struct curve *curve = curve_of(round, job, t);
        double rate = curve->at.at[curve->most].rate;
        int i = n++;
        for (; i > 0 && rates[i - 1] < rate; i--) {
            rates[i] = rates[i - 1];
            order[i] = order[i - 1];
        }
        rates[i] = rate;
        order[i] = t;
    }
    return n;
}

static void serve(struct round *round, struct entry *entry)
{
    int order[FIRN_TYPES_MAX];
    int n = list_types(round, entry->job, order);
    bool is_served = false;
    for (int i = 0; i < n && !is_served; i++) {
        entry->curve = curve_of(round, entry->job, order[i]);
        is_served = reach_goal(round, entry, order[i]);
    }
    for (int i = 0; i < n && !is_served && !entry->is_guaranteed; i++) {
        entry->curve = curve_of(round, entry->job, order[i]);
        is_served = begin_small(round, entry, order[i]);
    }
    if (is_served)
        return;
    entry->curve = NULL;
    round->has_waiting = true;
}

static void serve_all(struct round *round)
{
    for (int guaranteed = 1; guaranteed >= 0; guaranteed--)
        for (size_t i = 0; i < round->n; i++) {
            struct entry *entry = &round->entries[i];
            if (entry->is_guaranteed == guaranteed && !entry->is_running)
                serve(round, entry);
        }
}

/* ---- (2) who grows ---- */

/* The number of GPUs, `room` more at most, with the largest rise for each; -1:
 * none. */
static int grown(const struct round *round, const struct entry *entry, int room,
                 double *rise)
{
    const struct curve *curve = entry->curve;
    double now = rate_on(entry, entry->gpus);
    double least = now * (1 + 1e-9);
    if (entry->is_running) /* it is restarted once for all it gets */
        least = fmax(least,
                     rate_on(entry, entry->before) * (1 + round->rubick->gain));
    int last =
        entry->gpus + room < curve->most ? entry->gpus + room : curve->most;
    int best = -1;
    for (int n = entry->gpus + 1; n <= last; n++) {
        if (curve->at.at[n].gpus != n || !(curve->at.at[n].rate > least))
            continue;
        double each = (curve->at.at[n].rate - now) / (n - entry->gpus);
        if (best < 0 || each > *rise) {
            best = n;
            *rise = each;
        }
    }
    return best;
}

static void set_grower(struct round *round, int i)
{
    const struct entry *entry = &round->entries[i];
    double rise = 0;
    if (grown(round, entry, round->free[entry->type], &rise) > 0)
        heap_set(&round->rubick->heap, i, -rise, (uint64_t)entry->job->id);
    else
        heap_remove(&round->rubick->heap, i);
}

static void grow_type(struct round *round, int type)
{
    struct heap *heap = &round->rubick->heap;
    const struct heap_item *top;
    clear_heap(heap);
    round->heap_type = -1;
    for (size_t i = 0; i < round->n; i++) {
        const struct entry *entry = &round->entries[i];
        bool may_grow = entry->may_change && entry->gpus >= entry->before &&
                        !round->has_waiting;
        if (entry->type == type && entry->curve != NULL && entry->gpus > 0 &&
            (may_grow || !entry->is_running))
            set_grower(round, (int)i);
    }
    while (round->free[type] > 0 && (top = heap_top(heap)) != NULL) {
        int i = top->item;
        double rise, key = top->key;
        struct entry *entry = &round->entries[i];
        int n = grown(round, entry, round->free[type], &rise);
        if (n > 0 && -rise <= key) { /* as large as when it was put in */
            round->free[type] -= n - entry->gpus;
            entry->gpus = n;
        }
        set_grower(round, i);
    }
    clear_heap(heap);
}

/* ---- the plan ---- */

static struct firn_how how_of(const struct entry *entry)
{
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    const struct curve *curve = entry->curve;
    int n = entry->gpus < curve->most ? entry->gpus : curve->most;
    const struct point *point = &curve->at.at[n];
    how.passes = point->passes;
    how.parallel = point->how.parallel;
    how.tensor = point->how.tensor;
    how.stages = point->how.stages;
    return how;
}

/* Its speed where the plan has put it; curves are of GPUs that stand together.
 */
static double rate_there(const struct round *round, const struct entry *entry,
                         const struct firn_how *how)
{
    const struct firn_alloc *to = firn_plan_of(round->plan, entry->job);
    struct firn_way way = {.gpus = to->ngpus,
                           .nodes = firn_alloc_nodes(to),
                           .type = entry->type,
                           .passes = how->passes,
                           .tensor = how->tensor,
                           .parallel = how->parallel,
                           .stages = how->stages};
    double rate = firn_view_rate(round->view, entry->job, &way);
    return isnan(rate) ? 1 : rate;
}

/* On one node if there is room on one. A job that would begin too slowly on the
 * nodes that are left waits while other jobs run. (f) */
static void place(struct round *round, struct entry *entry)
{
    struct firn_how how = how_of(entry);
    struct firn_want want = {.gpus = entry->gpus,
                             .types = 1u << entry->type,
                             .one_type = true,
                             .one_node = true,
                             .how = &how};
    double rate = rate_on(entry, entry->gpus);
    size_t mark = firn_plan_mark(round->plan);
    bool is_placed = firn_plan_give_want(round->plan, entry->job, &want);
    if (!is_placed) {
        want.one_node = false;
        is_placed = firn_plan_give_want(round->plan, entry->job, &want);
    }
    if (is_placed && want.one_node == false) {
        double needed = entry->is_guaranteed ? fmin(rate, as_asked)
                                             : fmin(rate, round->rubick->least);
        rate = rate_there(round, entry, &how);
        if (!entry->is_running && round->view->nrunning > 0 && rate < needed) {
            firn_plan_undo(round->plan, mark);
            is_placed = false;
        }
    }
    if (is_placed)
        firn_plan_note(round->plan, entry->job,
                       "%d GPUs: %.2f times the speed asked for", entry->gpus,
                       rate);
    else
        firn_plan_note(round->plan, entry->job,
                       "too slow on the nodes that have %d free GPUs",
                       entry->gpus);
}

/* The largest first, then by id. */
static int by_size(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;
    if (x->gpus != y->gpus)
        return y->gpus - x->gpus;
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* A gang that no type is large enough for: of several types. (a) */
static void give_mixed(struct round *round, struct entry *entry)
{
    int order[FIRN_TYPES_MAX];
    if (list_types(round, entry->job, order) == 0 &&
        !entry->job->spec.one_type &&
        firn_plan_give(round->plan, entry->job, entry->job->spec.gpus))
        return;
    firn_plan_note(
        round->plan, entry->job,
        "its GPUs are worth more to other jobs, or too few are free");
}

static void place_all(struct round *round)
{
    struct entry **order =
        firn_view_alloc(round->view, (round->n + 1) * sizeof(struct entry *));
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++) {
        struct entry *entry = &round->entries[i];
        if (entry->is_running && entry->gpus == entry->before) /* (e) */
            entry->is_placed = firn_plan_keep(round->plan, entry->job);
        if (!entry->is_placed && entry->gpus > 0 && entry->curve != NULL)
            order[n++] = entry;
    }
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++)
        place(round, order[i]);
    for (size_t i = 0; i < round->n; i++)
        if (!round->entries[i].is_placed && round->entries[i].gpus == 0)
            give_mixed(round, &round->entries[i]);
}

/* ---- the round ---- */

/* The one type of all GPUs it holds whole, or -1. */
static int held_type(const struct firn_view *view, const struct firn_job *job)
{
    const struct firn_node *nodes = view->cluster->nodes;
    if (job->held.nparts == 0 || job->held.is_shared)
        return -1;
    int type = nodes[job->held.parts[0].node].type;
    for (int i = 1; i < job->held.nparts; i++)
        if (nodes[job->held.parts[i].node].type != type)
            return -1;
    return type;
}

/* It has run long enough for what its starts cost. */
static bool is_steady(const struct rubick *rubick, const struct firn_view *view,
                      const struct firn_job *job)
{
    double cost_s = firn_view_change_s(view, job, rubick->restart_s);
    double held_s = job->held_s + view->now_s - job->since_s;
    return job->resumes_s <= view->now_s &&
           held_s - job->starts * cost_s >= rubick->steady * held_s;
}

static void enter(struct round *round, const struct firn_job *job,
                  struct entry *entry)
{
    const struct rubick *rubick = round->rubick;
    *entry = (struct entry){.job = job,
                            .type = -1,
                            .is_guaranteed = !job->spec.best_effort,
                            .is_running = job->held.nparts > 0};
    if (!entry->is_running)
        return;
    entry->type = held_type(round->view, job);
    entry->before = entry->gpus = job->held.ngpus;
    if (entry->type < 0)
        return;
    entry->curve = curve_of(round, job, entry->type);
    entry->may_resize = round->is_round && !firn_job_is_gang(job) &&
                        entry->gpus <= entry->curve->most;
    entry->may_change =
        entry->may_resize && is_steady(rubick, round->view, job);
}

/* Types in the plan, less what running jobs hold. */
static void count_free(struct round *round)
{
    const struct firn_cluster *cluster = round->view->cluster;
    for (int t = 0; t < cluster->ntypes; t++)
        round->free[t] = firn_plan_free_of(round->plan, t);
    for (int i = 0; i < cluster->nnodes; i++) {
        const struct firn_node *node = &cluster->nodes[i];
        if (node->ngpus > round->largest[node->type])
            round->largest[node->type] = node->ngpus;
    }
    for (size_t i = 0; i < round->n; i++) {
        const struct firn_alloc *held = &round->entries[i].job->held;
        for (int k = 0; k < held->nparts; k++)
            round->free[cluster->nodes[held->parts[k].node].type] -=
                __builtin_popcountll(held->parts[k].gpus);
    }
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct rubick *rubick = state;
    struct round round = {
        .rubick = rubick, .view = view, .plan = plan, .heap_type = -1};
    const struct firn_job *const *jobs =
        firn_view_foremost(view, QUEUE_MIN, &round.n);
    round.is_round = rounds_begin(
        &rubick->rounds, view->now_s,
        rounds_multiple_s(rubick->rounds.last_s, rubick->interval_s));
    round.entries =
        firn_view_alloc(view, (round.n + 1) * sizeof *round.entries);
    size_t most = round.n + (size_t)view->cluster->ngpus + 1;
    round.taken = firn_view_alloc(view, most * sizeof *round.taken);
    round.taken_from = firn_view_alloc(view, most * sizeof *round.taken_from);
    for (size_t i = 0; i < round.n; i++)
        round.entries[i].job = jobs[i];
    count_free(&round);
    for (size_t i = 0; i < round.n; i++)
        enter(&round, jobs[i], &round.entries[i]);
    serve_all(&round);
    for (int t = 0; t < view->cluster->ntypes; t++)
        grow_type(&round, t);
    place_all(&round);
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct rubick *rubick = state;
    return view->nrunning > 0
               ? rounds_multiple_s(view->now_s, rubick->interval_s)
               : INFINITY;
}

static void save(const void *state, struct firn_buf *out)
{
    const struct rubick *rubick = state;
    keep_begin(out, "policy rubick", 1);
    rounds_save(&rubick->rounds, out);
}

static enum firn_status load(void *state, struct firn_bytes in,
                             struct firn_error *err)
{
    struct rubick *rubick = state;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy rubick", 1, err));
    struct rounds rounds = rounds_load(&keep);
    FIRN_TRY(keep_close(&keep, err));
    rubick->rounds = rounds;
    return FIRN_OK;
}

static void fini(void *state)
{
    struct rubick *rubick = state;
    for (size_t i = 0; i < rubick->curves.n; i++)
        if (rubick->curves.at[i] != NULL) {
            vec_release(&rubick->curves.at[i]->at);
            mem_free(rubick->curves.at[i]);
        }
    vec_release(&rubick->curves);
    vec_release(&rubick->kind_of);
    vec_release(&rubick->ways);
    map_release(&rubick->keys);
    heap_release(&rubick->heap);
}

const struct firn_policy_def firn_policy_rubick = {
    .size = sizeof(struct firn_policy_def),
    .name = "rubick",
    .summary = "GPUs and execution plans together, by sensitivity curves",
    .paper = "Zhang et al., Rubick, MLSys 2025",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_TYPES,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_REPLAN,
    .obeys = FIRN_OBEYS_REQUEST,
    .options = options,
    .state_size = sizeof(struct rubick),
    .decide = decide,
    .wake_s = wake_s,
    .save = save,
    .load = load,
    .fini = fini,
};
