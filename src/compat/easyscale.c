/* easyscale.c - the trace simulator of EasyScale's artifact (SC 2023).
 *
 * Written from what that simulator does, not from the paper. A job has maxP
 * workers ("ESTs") of a fixed batch; a GPU of type i runs A_i of them one
 * after the other, so an iteration takes max over types of (mini-batch time x
 * A_i) and there is no communication. Each 60 s all jobs go on by 60 s, the
 * clock moves, and then the policy is asked. The quirks, by name:
 *
 *   counters      three numbers of GPUs (32 v100, 16 p100, 16 t4), no nodes
 *   steps         nothing is decided between multiples of 60 s, and nothing
 *                 before 60; a job that ends keeps its GPUs until the next
 *                 one, but its completion is the exact moment inside the step
 *   one-cost      20 s once, before a job's first progress; every later change
 *                 of GPUs is free
 *   names         the table of jobs is keyed by name: a later row replaces the
 *                 earlier one but keeps its place, so 68 rows are 62 jobs
 *   serial-yarn   yarn-cs gives the first living job, by row, all its GPUs and
 *                 nobody else any; a job of an earlier row that comes later
 *                 takes them away
 *   slow-start    a job starts with the slowest offer it has: one GPU
 *   stale-offer   a job that grows gets its own counts with one type raised,
 *                 but A and speedup of the offer, whose other counts may be
 *                 lower; A counts even for a type that is not held
 *   never-less    nobody shrinks or stops under the elastic policies
 *   set-order     offers that are equal are told apart by the order in which a
 *                 hash set lists them (CPython 3.8 and later), imitated below
 *
 * The artifact cannot be run as published: its logs of mini-batch times are
 * not there, and its newer planner compares a speedup with a waste. Here
 * time(b) = t x b / b0 from determinism_overhead.csv (ddp_determinism), and of
 * two offers with the same counts the one with less waste stays, as in the
 * older planner; one type alone wastes nothing, as in the newer one. Its mean
 * completion time is firn's; its makespan is the last clock less 60 s, where
 * firn's is the last completion less the first submission.
 *
 * What a job holds has more to it than counts: A and speedup. The engine keeps
 * them by job. The policies below read them through view->forecaster, and
 * plan counts only; the engine finds the offer again from what the job held
 * and the type that grew (grow(), a pure function), so plan and step agree
 * without a channel of their own.
 *
 * Invariants:
 * (1) all offers are made before the first decision; deciding changes nothing;
 * (2) job ids are in order of (submission, row); spec.line is the first row of
 *     the name and orders jobs as the artifact's table does;
 * (3) given = useful + overhead, summed step by step.
 *
 * Cost: some 10^6 offers looked at for a job of 32 workers, once for each
 * (application, batch, workers); O(running x offers) a step.
 */
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/sheet.h"
#include "sim/world.h"
#include "trace/row.h"
#include <firn/policy.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPES = 3,
    GPUS = 64,
    APPS_MAX = 16,
    PATH_MAX_BYTES = 1024,
};

static const char *const type_names[TYPES] = {"v100", "p100", "t4"};
static const int type_gpus[TYPES] = {32, 16, 16};

static const double step_s = 60;  /* steps */
static const double start_s = 20; /* one-cost */
static const double most_waste = 0.30;

/* Which offers a policy looks at: world_policy.quirks. */
enum plan_for { WHOLE_GANG, ONE_TYPE, ALL_TYPES };

/* Mini-batch times of one application. */
struct app {
    char name[FIRN_NAME_MAX];
    double samples; /* in one epoch */
    double batch[TYPES], batch_s[TYPES];
};

/* A way to run a job ("proposal"). */
struct offer {
    int gpus[TYPES];
    int ests[TYPES]; /* A: workers on each GPU of that type */
    double waste, speedup;
};

/* All offers to jobs of a kind, fastest first. */
struct menu {
    const struct app *app;
    int batch, workers;
    VEC(struct offer) offers;
};

struct esjob {
    struct firn_job_spec spec;
    const struct app *app;
    const struct menu *menu; /* NULL under WHOLE_GANG */
    int batch, workers;      /* of one EST; maxP */
    int preferred;           /* type */
    bool mixes;              /* may use several types */
    double samples;          /* all its work */

    struct offer holds;
    bool is_held, is_done;
    double progress;  /* samples */
    double pending_s; /* of the cost of the start */
};

struct easyscale {
    struct world world; /* first */
    struct arena text;
    struct app apps[APPS_MAX];
    int napps;
    VEC(struct esjob) jobs; /* by id: (2) */
    VEC(struct menu *) menus;
    firn_type_id types[TYPES]; /* the cluster's */
    size_t submitted, ended;
    double next_step_s;
    VEC(struct firn_event) events;
    size_t next_event;
};

static int sum_of(const int counts[TYPES])
{
    return counts[0] + counts[1] + counts[2];
}

/* ---- how fast ---- */

static double batch_s(const struct app *app, int type, int batch)
{
    return app->batch_s[type] * batch / app->batch[type];
}

/* Samples a second with that many workers on each GPU of a type. */
static double pace(const struct esjob *job, const int ests[TYPES])
{
    double iteration_s = 0;
    for (int i = 0; i < TYPES; i++)
        iteration_s =
            fmax(iteration_s, batch_s(job->app, i, job->batch) * ests[i]);
    return (double)job->batch * job->workers / iteration_s;
}

/* All workers at once on the preferred type: what durations refer to. */
static struct offer whole_gang(const struct esjob *job)
{
    struct offer whole = {.speedup = 1};
    whole.gpus[job->preferred] = job->workers;
    whole.ests[job->preferred] = 1;
    return whole;
}

/* ---- the planner: candidates ---- */

/* A for each type (0: not considered) at the scale m. */
struct candidate {
    int ests[TYPES], m;
    uint64_t hash;
};

struct candidates {
    VEC(struct candidate) list;
};

static uint64_t hash_tuple(const uint64_t *items, size_t n)
{
    const uint64_t p1 = 11400714785074694791U, p2 = 14029467366897019727U,
                   p5 = 2870177450012600261U;
    uint64_t sum = p5;
    for (size_t i = 0; i < n; i++) {
        sum += items[i] * p2;
        sum = (sum << 31 | sum >> 33) * p1;
    }
    sum += n ^ (p5 ^ 3527539U);
    return sum == UINT64_MAX ? 1546275796 : sum;
}

static void add_candidate(struct candidates *all, const int ests[TYPES], int m)
{
    struct candidate c = {.m = m};
    uint64_t inner[TYPES], outer[2] = {0, (uint64_t)m};
    for (int i = 0; i < TYPES; i++) {
        c.ests[i] = ests[i];
        inner[i] = (uint64_t)ests[i];
    }
    outer[0] = hash_tuple(inner, TYPES);
    c.hash = hash_tuple(outer, 2);
    vec_add(&all->list, c);
}

/* The sets of two types and that of three, in the artifact's order; none that
 * has more workers than there are on each of its GPUs. */
static void add_sets(struct candidates *all, const int ests[TYPES], int m,
                     int workers)
{
    static const int sets[][TYPES] = {
        {1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}};
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        int some[TYPES];
        bool fits = false;
        for (int i = 0; i < TYPES; i++) {
            some[i] = sets[s][i] ? ests[i] : 0;
            fits = fits || (sets[s][i] && ests[i] <= workers);
        }
        if (fits)
            add_candidate(all, some, m);
    }
}

/* Every rounding of m C_i, and single types. */
static void list_candidates(struct candidates *all, const double power[TYPES],
                            int workers)
{
    for (int m = 1; m <= workers; m++) {
        int low[TYPES], n[TYPES];
        for (int i = 0; i < TYPES; i++) {
            low[i] = (int)floor(power[i] * m);
            n[i] = (int)ceil(power[i] * m) - low[i] + 1;
        }
        for (int a = 0; a < n[0]; a++)
            for (int b = 0; b < n[1]; b++)
                for (int c = 0; c < n[2]; c++)
                    add_sets(all, (int[]){low[0] + a, low[1] + b, low[2] + c},
                             m, workers);
    }
    for (int i = 0; i < TYPES; i++)
        for (int m = 1; m <= workers; m++) {
            int one[TYPES] = {0};
            one[i] = m;
            add_candidate(all, one, m);
        }
}

/* ---- the planner: the order of a set (set-order) ---- */

enum { SET_LEAST = 8, SET_PROBES = 9, SET_SHIFT = 5 };

/* Open addressing; slots hold 1 + an index, 0 for none. */
struct hashset {
    const struct candidate *list;
    size_t *slots, mask, used;
};

static bool is_same(const struct candidate *a, const struct candidate *b)
{
    return a->hash == b->hash && a->m == b->m &&
           memcmp(a->ests, b->ests, sizeof a->ests) == 0;
}

/* The slot that has the candidate or would. */
static size_t *find_slot(const struct hashset *set, size_t index)
{
    uint64_t rest = set->list[index].hash;
    size_t at = (size_t)rest & set->mask;
    for (;;) {
        size_t probes = at + SET_PROBES <= set->mask ? SET_PROBES : 0;
        for (size_t i = at; i <= at + probes; i++) {
            size_t *slot = &set->slots[i];
            if (*slot == 0 || is_same(&set->list[*slot - 1], &set->list[index]))
                return slot;
        }
        rest >>= SET_SHIFT;
        at = (at * 5 + 1 + (size_t)rest) & set->mask;
    }
}

static void resize_set(struct hashset *set)
{
    size_t n = set->mask + 1, size = SET_LEAST, *old = set->slots;
    while (size <= set->used * 4)
        size *= 2;
    set->slots = mem_new(size, sizeof *set->slots);
    set->mask = size - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i] != 0)
            *find_slot(set, old[i] - 1) = old[i];
    mem_free(old);
}

static int by_first_type(const struct candidate *a, const struct candidate *b)
{
    return a->ests[0] - b->ests[0];
}

/* Stable, and the lists are short. */
static void sort_candidates(struct candidate *at, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct candidate c = at[i];
        size_t j = i;
        for (; j > 0 && by_first_type(&at[j - 1], &c) > 0; j--)
            at[j] = at[j - 1];
        at[j] = c;
    }
}

/* Drops what is there twice; the order is that of the set, then by A of the
 * first type. */
static void order_as_set(struct candidates *all)
{
    struct hashset set = {all->list.at, mem_new(SET_LEAST, sizeof(size_t)),
                          SET_LEAST - 1, 0};
    struct candidates ordered = {0};
    for (size_t i = 0; i < all->list.n; i++) {
        size_t *slot = find_slot(&set, i);
        if (*slot != 0)
            continue;
        *slot = i + 1;
        set.used++;
        if (set.used * 5 >= set.mask * 3)
            resize_set(&set);
    }
    for (size_t i = 0; i <= set.mask; i++)
        if (set.slots[i] != 0)
            vec_add(&ordered.list, all->list.at[set.slots[i] - 1]);
    mem_free(set.slots);
    vec_release(&all->list);
    sort_candidates(ordered.list.at, ordered.list.n);
    *all = ordered;
}

/* ---- the planner: offers ---- */

/* The best offer for one vector of counts, and when it was found. */
struct found {
    struct offer offer;
    size_t candidate, turn;
    bool is_there;
};

enum { COUNTS = 33 * 17 * 17 };

struct planning {
    const double *power; /* C_i = time on a t4 / time on i */
    int workers;
    const struct candidate *candidate;
    size_t index, turn;
    int order[TYPES], norder; /* its types, largest A first */
    struct found *found;      /* COUNTS of them */
};

static struct found *found_at(const struct planning *p, const int gpus[TYPES])
{
    return &p->found[(gpus[0] * 17 + gpus[1]) * 17 + gpus[2]];
}

/* Share of the GPUs' power that A leaves idle, over two or more types. */
static double waste_of(const struct planning *p, const int gpus[TYPES])
{
    const int *ests = p->candidate->ests;
    double f = 0, waste = 0, power = 0, placed = 0;
    double ideal[TYPES]; /* m C_i */
    for (int i = 0; i < TYPES; i++) {
        ideal[i] = p->power[i] * p->candidate->m;
        if (gpus[i] > 0)
            f = fmax(f, ests[i] / ideal[i]);
    }
    for (int k = 0; k < p->norder; k++) {
        int i = p->order[k];
        for (int n = 0; n < gpus[i]; n++) { /* one by one: the same rounding */
            power += ideal[i];
            placed += ests[i];
            waste += ideal[i] - ests[i] / f;
        }
    }
    waste += (placed - p->workers) / f;
    return waste / power;
}

static void look_at(struct planning *p, const int gpus[TYPES])
{
    struct offer offer = {.waste = 0};
    int used = 0, last = 0;
    for (int i = 0; i < TYPES; i++) {
        offer.gpus[i] = gpus[i];
        used += gpus[i] > 0;
        last = gpus[i] > 0 ? i : last;
    }
    p->turn++;
    if (used == 1) {
        offer.ests[last] = (p->workers + gpus[last] - 1) / gpus[last];
    } else {
        memcpy(offer.ests, p->candidate->ests, sizeof offer.ests);
        offer.waste = waste_of(p, gpus);
    }
    double speed = 0;
    for (int i = 0; i < TYPES; i++)
        speed += p->power[i] * gpus[i];
    offer.speedup = speed * (1.0 - offer.waste);
    struct found *found = found_at(p, gpus);
    if (!found->is_there || offer.waste < found->offer.waste)
        *found = (struct found){offer, p->index, p->turn, true};
}

/* All ways to seat `left` more workers on the types from order[k] on, so that
 * the last GPU is needed. */
static void cover(struct planning *p, int k, int left, int gpus[TYPES])
{
    if (k == p->norder)
        return;
    int i = p->order[k], ests = p->candidate->ests[i];
    int enough = (left + ests - 1) / ests;
    int most = enough < type_gpus[i] ? enough : type_gpus[i];
    for (int n = most; n >= 0; n--) {
        gpus[i] = n;
        if (n == enough)
            look_at(p, gpus);
        else
            cover(p, k + 1, left - n * ests, gpus);
    }
    gpus[i] = 0;
}

static void look_through(struct planning *p, const struct candidate *c)
{
    int gpus[TYPES] = {0};
    p->candidate = c;
    p->norder = 0;
    for (int i = 0; i < TYPES; i++) {
        if (c->ests[i] == 0)
            continue;
        int k = p->norder++;
        for (; k > 0 && c->ests[p->order[k - 1]] < c->ests[i]; k--)
            p->order[k] = p->order[k - 1];
        p->order[k] = i;
    }
    cover(p, 0, p->workers, gpus);
}

/* Fastest first; of equal ones more of the first type, less waste, and then
 * as they were found. */
static int by_speedup(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int order = firn_cmp(y->offer.speedup, x->offer.speedup);
    if (order == 0)
        order = y->offer.gpus[0] - x->offer.gpus[0];
    if (order == 0)
        order = firn_cmp(x->offer.waste, y->offer.waste);
    if (order == 0)
        order = (x->candidate > y->candidate) - (x->candidate < y->candidate);
    if (order == 0)
        order = sum_of(x->offer.gpus) - sum_of(y->offer.gpus);
    return order ? order : (x->turn > y->turn) - (x->turn < y->turn);
}

static void fill_menu(struct menu *menu)
{
    double power[TYPES];
    struct candidates all = {0};
    for (int i = 0; i < TYPES; i++)
        power[i] = batch_s(menu->app, TYPES - 1, menu->batch) /
                   batch_s(menu->app, i, menu->batch);
    list_candidates(&all, power, menu->workers);
    order_as_set(&all);
    struct planning p = {.power = power,
                         .workers = menu->workers,
                         .found = mem_new(COUNTS, sizeof *p.found)};
    for (; p.index < all.list.n; p.index++)
        look_through(&p, &all.list.at[p.index]);
    size_t n = 0;
    for (size_t i = 0; i < COUNTS; i++)
        if (p.found[i].is_there)
            p.found[n++] = p.found[i];
    qsort(p.found, n, sizeof *p.found, by_speedup);
    for (size_t i = 0; i < n; i++)
        vec_add(&menu->offers, p.found[i].offer);
    mem_free(p.found);
    vec_release(&all.list);
}

/* The menu for such jobs; made once: (1). */
static const struct menu *menu_for(struct easyscale *es,
                                   const struct esjob *job)
{
    for (size_t i = 0; i < es->menus.n; i++) {
        const struct menu *menu = es->menus.at[i];
        if (menu->app == job->app && menu->batch == job->batch &&
            menu->workers == job->workers)
            return menu;
    }
    struct menu *menu = mem_new(1, sizeof *menu);
    menu->app = job->app;
    menu->batch = job->batch;
    menu->workers = job->workers;
    fill_menu(menu);
    vec_add(&es->menus, menu);
    return menu;
}

/* ---- what a job may have next ---- */

static bool is_open_to(const struct easyscale *es, const struct esjob *job,
                       const struct offer *offer)
{
    if (es->world.policy->quirks == ALL_TYPES && job->mixes)
        return true;
    return offer->gpus[job->preferred] == sum_of(offer->gpus);
}

/* What a job begins with: all of it, or the slowest offer (slow-start). */
static struct offer first_offer(const struct easyscale *es,
                                const struct esjob *job)
{
    if (es->world.policy->quirks == WHOLE_GANG)
        return whole_gang(job);
    const struct menu *menu = job->menu;
    for (size_t i = menu->offers.n; i-- > 0;)
        if (is_open_to(es, job, &menu->offers.at[i]))
            return menu->offers.at[i];
    FIRN_BUG("job %s has no offer", job->spec.name);
}

struct growth {
    const struct esjob *job;
    struct offer to;
    double gain; /* of speed for each GPU added */
    int type, added, row;
};

/* At least as fast, little waste, only `type` grows and at most to twice the
 * GPUs. */
static bool may_grow_to(const struct esjob *job, int type,
                        const struct offer *offer)
{
    const struct offer *has = &job->holds;
    int twice = 2 * sum_of(has->gpus);
    if (offer->speedup < has->speedup || offer->waste > most_waste ||
        sum_of(offer->gpus) > twice)
        return false;
    for (int i = 0; i < TYPES; i++)
        if ((offer->gpus[i] > has->gpus[i]) != (i == type))
            return false;
    int added = offer->gpus[type] - has->gpus[type];
    return sum_of(has->gpus) + added <= twice;
}

/* The best offer with more GPUs of that type; false for none. Counts are the
 * job's own with one raised, the rest is the offer's (stale-offer). */
static bool grow(const struct easyscale *es, const struct esjob *job, int type,
                 struct growth *out)
{
    const struct offer *has = &job->holds;
    bool is_found = false;
    for (size_t i = 0; i < job->menu->offers.n; i++) {
        const struct offer *offer = &job->menu->offers.at[i];
        if (!may_grow_to(job, type, offer) || !is_open_to(es, job, offer))
            continue;
        int added = offer->gpus[type] - has->gpus[type];
        double gain = (offer->speedup / has->speedup - 1) / added + 1;
        if (is_found && gain <= out->gain)
            continue;
        is_found = true;
        *out = (struct growth){.job = job,
                               .to = *offer,
                               .gain = gain,
                               .type = type,
                               .added = added};
        memcpy(out->to.gpus, has->gpus, sizeof has->gpus);
        out->to.gpus[type] += added;
    }
    return is_found;
}

/* ---- the engine: steps of 60 s ---- */

/* What core is told of a job's progress. */
static void tell(struct easyscale *es, const struct esjob *job, firn_job_id id)
{
    struct offer whole = whole_gang(job);
    double unit = pace(job, whole.ests), now_s = es->world.now_s;
    struct firn_event event = {
        .kind = FIRN_EVENT_REPORT,
        .at_s = now_s,
        .job = id,
        .report = {.done_s = job->progress / unit,
                   .rate = pace(job, job->holds.ests) / unit,
                   .resumes_s = now_s + job->pending_s}};
    vec_add(&es->events, event);
}

/* One step of one job, from `begin_s` on. */
static void advance(struct easyscale *es, firn_job_id id, double begin_s)
{
    struct esjob *job = &es->jobs.at[id];
    double delay_s = fmin(job->pending_s, step_s), run_s = step_s - delay_s;
    double samples_s = pace(job, job->holds.ests);
    double left_s = (job->samples - job->progress) / samples_s;
    job->pending_s -= delay_s;
    if (left_s <= run_s) {
        struct firn_event done = {.kind = FIRN_EVENT_DONE,
                                  .at_s = es->world.now_s,
                                  .job = id,
                                  .finished_s = begin_s + delay_s + left_s};
        vec_add(&es->events, done);
        job->is_held = false;
        job->is_done = true;
        es->ended++;
        run_s = left_s;
    } else {
        job->progress += samples_s * run_s;
    }
    double gpus = sum_of(job->holds.gpus);
    es->world.spent.given += gpus * step_s; /* (3) */
    es->world.spent.useful += gpus * run_s;
    es->world.spent.overhead += gpus * (step_s - run_s);
}

static void step_all(struct easyscale *es)
{
    double now_s = es->next_step_s;
    es->world.now_s = now_s;
    for (size_t i = 0; i < es->submitted; i++)
        if (es->jobs.at[i].is_held)
            advance(es, (firn_job_id)i, now_s - step_s);
    struct firn_event timer = {.kind = FIRN_EVENT_TIMER, .at_s = now_s};
    vec_add(&es->events, timer);
    es->next_step_s = now_s + step_s;
}

/* The first multiple of a step at or after that time, but never the first. */
static double next_multiple(double at_s)
{
    return fmax(ceil(at_s / step_s) * step_s, step_s);
}

static double decide_s(const struct cadence *cadence, double at_s)
{
    (void)cadence;
    return next_multiple(at_s);
}

static void submit(struct easyscale *es, struct firn_event *out)
{
    const struct firn_job_spec *spec = &es->jobs.at[es->submitted].spec;
    es->world.now_s = fmax(es->world.now_s, spec->submit_s);
    if (es->submitted == es->ended)
        es->next_step_s = fmax(es->next_step_s, next_multiple(spec->submit_s));
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = es->world.now_s,
                               .job = (firn_job_id)es->submitted++,
                               .spec = spec};
    es->world.is_drained = es->submitted == es->jobs.n;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct easyscale *es = state;
    (void)err;
    for (;;) {
        if (es->next_event < es->events.n) {
            *out = es->events.at[es->next_event++];
            return true;
        }
        es->next_event = es->events.n = 0;
        double turn_s = es->submitted > es->ended ? es->next_step_s : INFINITY;
        double submit_s = es->submitted < es->jobs.n
                              ? es->jobs.at[es->submitted].spec.submit_s
                              : INFINITY;
        double first_s = fmin(turn_s, submit_s);
        if (!(first_s <= until_s) || isinf(first_s)) {
            if (isfinite(until_s))
                es->world.now_s = fmax(es->world.now_s, until_s);
            return false;
        }
        if (submit_s < turn_s) {
            submit(es, out);
            return true;
        }
        step_all(es);
    }
}

static void count_types(const struct easyscale *es,
                        const struct firn_alloc *alloc, int gpus[TYPES])
{
    const struct firn_node *nodes = es->world.options->cluster->nodes;
    memset(gpus, 0, TYPES * sizeof *gpus);
    for (int p = 0; p < alloc->nparts; p++)
        for (int i = 0; i < TYPES; i++)
            if (nodes[alloc->parts[p].node].type == es->types[i])
                gpus[i] += __builtin_popcountll(alloc->parts[p].gpus);
}

/* The offer that a step means: the first, or the growth of one type. */
static struct offer meant(const struct easyscale *es, const struct esjob *job,
                          const int gpus[TYPES])
{
    struct growth growth;
    struct offer offer = {0};
    if (!job->is_held)
        offer = first_offer(es, job);
    for (int i = 0; i < TYPES && job->is_held; i++)
        if (gpus[i] > job->holds.gpus[i] && grow(es, job, i, &growth))
            offer = growth.to;
    if (memcmp(offer.gpus, gpus, sizeof offer.gpus) != 0)
        FIRN_BUG("job %s was never offered %d, %d and %d GPUs", job->spec.name,
                 gpus[0], gpus[1], gpus[2]);
    return offer;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct easyscale *es = state;
    struct esjob *job = &es->jobs.at[step->job->id];
    int gpus[TYPES];
    (void)err;
    es->world.now_s = step->at_s;
    if (step->kind == FIRN_STEP_STOP) {
        job->is_held = false;
        return FIRN_OK;
    }
    count_types(es, step->to, gpus);
    job->holds = meant(es, job, gpus);
    job->is_held = true;
    tell(es, job, step->job->id);
    return FIRN_OK;
}

static double now_s(void *state)
{
    return ((struct easyscale *)state)->world.now_s;
}

/* ---- opening: tables ---- */

static enum firn_status read_table(const struct easyscale *es, const char *name,
                                   struct sheet *out, struct firn_error *err)
{
    char path[PATH_MAX_BYTES];
    int n = snprintf(path, sizeof path, "%s/easyscale/%s",
                     es->world.options->profiles, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return firn_fail(err, FIRN_EINVAL, "the path of %s is too long", name);
    return sheet_read(out, path, err);
}

static struct app *find_app(struct easyscale *es, const char *name)
{
    if (str_equal_nocase(name, "NeuMF")) /* one table has the model's name */
        name = "ncf";
    for (int i = 0; i < es->napps; i++)
        if (str_equal_nocase(es->apps[i].name, name))
            return &es->apps[i];
    return NULL;
}

static int find_type(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (str_equal_nocase(type_names[i], name))
            return i;
    return -1;
}

static enum firn_status read_apps(struct easyscale *es, struct firn_error *err)
{
    struct sheet sheet;
    FIRN_TRY(read_table(es, "apps.csv", &sheet, err));
    int name = sheet_column(&sheet, "application");
    int samples = sheet_column(&sheet, "dataset_len");
    enum firn_status status = FIRN_OK;
    for (size_t r = 0; r < sheet.nrows && status == FIRN_OK; r++) {
        struct app app = {.samples = sheet_number(&sheet, r, samples)};
        if (name < 0 || !(app.samples > 0) || es->napps == APPS_MAX)
            status = firn_fail(err, FIRN_EINVAL,
                               "apps.csv: row %zu: no application with a "
                               "dataset_len above 0, or more than %d of them",
                               r + 1, APPS_MAX);
        else
            str_copy(app.name, sizeof app.name, sheet_text(&sheet, r, name));
        if (status == FIRN_OK)
            es->apps[es->napps++] = app;
    }
    sheet_release(&sheet);
    return status;
}

static enum firn_status take_time(struct easyscale *es,
                                  const struct sheet *sheet, size_t r,
                                  struct firn_error *err)
{
    int model = sheet_column(sheet, "model"), gpu = sheet_column(sheet, "gpu");
    double batch = sheet_number(sheet, r, sheet_column(sheet, "bs"));
    double time_s =
        sheet_number(sheet, r, sheet_column(sheet, "ddp_determinism"));
    if (model < 0 || gpu < 0 || !(batch > 0) || !(time_s > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "determinism_overhead.csv: row %zu: needs model, gpu, "
                         "bs and ddp_determinism above 0",
                         r + 1);
    struct app *app = find_app(es, sheet_text(sheet, r, model));
    int type = find_type(sheet_text(sheet, r, gpu));
    if (app != NULL && type >= 0) {
        app->batch[type] = batch;
        app->batch_s[type] = time_s;
    }
    return FIRN_OK;
}

static enum firn_status read_times(struct easyscale *es, struct firn_error *err)
{
    struct sheet sheet;
    FIRN_TRY(read_table(es, "determinism_overhead.csv", &sheet, err));
    enum firn_status status = FIRN_OK;
    for (size_t r = 0; r < sheet.nrows && status == FIRN_OK; r++)
        status = take_time(es, &sheet, r, err);
    sheet_release(&sheet);
    for (int a = 0; a < es->napps && status == FIRN_OK; a++)
        for (int i = 0; i < TYPES && status == FIRN_OK; i++)
            if (!(es->apps[a].batch_s[i] > 0))
                status = firn_fail(err, FIRN_EINVAL,
                                   "determinism_overhead.csv: has no time of "
                                   "%s on %s",
                                   es->apps[a].name, type_names[i]);
    return status;
}

/* ---- opening: jobs ---- */

static enum firn_status unknown_app(const struct easyscale *es,
                                    const struct firn_job_spec *spec,
                                    struct firn_error *err)
{
    char known[FIRN_ERROR_TEXT / 2] = "";
    size_t n = 0;
    for (int i = 0; i < es->napps; i++)
        if (n + FIRN_NAME_MAX + 2 < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
                                  i > 0 ? ", " : "", es->apps[i].name);
    return firn_fail(err, FIRN_EINVAL,
                     "%s: line %ld: no times of application '%.40s'; there are "
                     "those of %s",
                     es->world.options->trace, spec->line, spec->app, known);
}

/* Columns that a trace's reader passes over. */
enum { EPOCHS, MIXES, PREFERRED, NCOLUMNS };
static const char *const columns[] = {
    "epochs", "enable_heterogeneous_deterministic", "preferred_gpu", NULL};

static enum firn_status finish_job(struct easyscale *es, struct esjob *job,
                                   const struct row *row,
                                   struct firn_error *err)
{
    struct firn_job_spec *spec = &job->spec;
    double epochs = 0, mixes = 0;
    job->app = find_app(es, spec->app);
    if (job->app == NULL)
        return unknown_app(es, spec, err);
    job->preferred = find_type(row_text(row, PREFERRED));
    job->workers = spec->gpus;
    job->batch = spec->batch / spec->gpus;
    bool can_read = row_span(row, EPOCHS, &epochs, err) &&
                    row_number(row, MIXES, -1e9, 1e9, &mixes, err);
    if (!can_read || job->preferred < 0 || job->batch < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: line %ld: epochs, batch, flag or preferred GPU "
                         "cannot be used; GPUs are v100, p100 and t4",
                         es->world.options->trace, spec->line);
    if (job->workers > GPUS)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: line %ld: %d workers; the artifact's cluster has "
                         "%d GPUs",
                         es->world.options->trace, spec->line, job->workers,
                         GPUS);
    job->mixes = mixes != 0;
    job->samples = epochs * job->app->samples;
    job->pending_s = start_s;
    return FIRN_OK;
}

/* Keeps the spec as core shall see it. */
static struct esjob copy_job(struct easyscale *es,
                             const struct firn_job_spec *from)
{
    struct esjob job = {.spec = *from};
    job.spec.name = arena_strdup(&es->text, from->name);
    job.spec.app = arena_strdup(&es->text, from->app);
    job.spec.group = job.spec.types = "";
    job.spec.gpus_max = GPUS; /* stale-offer may pass the workers */
    job.spec.restart_s = 0;
    job.spec.is_nominal = false;
    return job;
}

static int by_line(const void *a, const void *b)
{
    const struct esjob *x = a, *y = b;
    return (x->spec.line > y->spec.line) - (x->spec.line < y->spec.line);
}

static int by_submit(const void *a, const void *b)
{
    const struct esjob *x = a, *y = b;
    int order = firn_cmp(x->spec.submit_s, y->spec.submit_s);
    return order ? order : by_line(a, b);
}

/* The rows that can be read, in the order of the file. */
static enum firn_status read_trace(struct easyscale *es, struct firn_error *err)
{
    const struct firn_sim_options *options = es->world.options;
    struct firn_trace_options reading = {.strict = options->strict};
    struct firn_job_spec spec;
    struct firn_error failed = {0};
    FIRN_TRY(firn_trace_open(&es->world.trace, options->trace, &reading, err));
    const char *format = firn_trace_format(es->world.trace)->name;
    if (strcmp(format, "easyscale") != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: a workload of format %s; EasyScale's simulator "
                         "reads those of format easyscale",
                         options->trace, format);
    while (firn_trace_next(es->world.trace, &spec, &failed))
        vec_add(&es->jobs, copy_job(es, &spec));
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    if (es->jobs.n == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: not one job that can run; the first bad row: %s",
                         options->trace,
                         firn_trace_report(es->world.trace)->first_bad[0]);
    qsort(es->jobs.at, es->jobs.n, sizeof *es->jobs.at, by_line);
    return FIRN_OK;
}

/* The columns the trace's reader has passed over, line by line. */
static enum firn_status read_columns(struct easyscale *es, struct lines *in,
                                     struct firn_error *err)
{
    struct row row = {0};
    enum firn_row got;
    size_t i = 0;
    FIRN_TRY(row_open(&row, in, columns, NCOLUMNS, err));
    while ((got = row_next(&row, in, NULL)) != FIRN_ROW_END) {
        if (i == es->jobs.n || lines_number(in) != es->jobs.at[i].spec.line)
            continue;
        FIRN_TRY(finish_job(es, &es->jobs.at[i++], &row, err));
    }
    return FIRN_OK;
}

/* A later row of the same name takes the place of the earlier one (names). */
static void replace_names(struct easyscale *es)
{
    size_t n = 0;
    for (size_t i = 0; i < es->jobs.n; i++) {
        struct esjob job = es->jobs.at[i];
        size_t j = 0;
        while (j < n && strcmp(es->jobs.at[j].spec.name, job.spec.name) != 0)
            j++;
        if (j < n)
            job.spec.line = es->jobs.at[j].spec.line;
        es->jobs.at[j] = job;
        n += j == n;
    }
    es->jobs.n = n;
}

static enum firn_status set_durations(struct easyscale *es,
                                      struct firn_error *err)
{
    bool is_gang = es->world.policy->quirks == WHOLE_GANG;
    for (size_t i = 0; i < es->jobs.n; i++) {
        struct esjob *job = &es->jobs.at[i];
        struct offer whole = whole_gang(job);
        job->spec.duration_s = job->samples / pace(job, whole.ests);
        job->spec.gpus_min = is_gang ? job->workers : 1;
        job->spec.gpus_max = is_gang ? job->workers : GPUS;
        if (is_gang && job->workers > type_gpus[job->preferred])
            return firn_fail(err, FIRN_EINVAL,
                             "%s: job %.40s wants %d %s, of which there are %d",
                             es->world.options->trace, job->spec.name,
                             job->workers, type_names[job->preferred],
                             type_gpus[job->preferred]);
    }
    return FIRN_OK;
}

static enum firn_status open_engine(void *state, struct firn_error *err)
{
    struct easyscale *es = state;
    struct lines *in;
    const struct firn_cluster *cluster = es->world.options->cluster;
    es->world.cadence = cadence_every(step_s, 0, true);
    es->world.cadence.decide_s = decide_s;
    for (int i = 0; i < TYPES; i++)
        es->types[i] = firn_cluster_type(cluster, type_names[i]);
    FIRN_TRY(read_apps(es, err));
    FIRN_TRY(read_times(es, err));
    FIRN_TRY(read_trace(es, err));
    FIRN_TRY(lines_open(&in, es->world.options->trace, err));
    enum firn_status status = read_columns(es, in, err);
    lines_close(in);
    FIRN_TRY(status);
    replace_names(es);
    FIRN_TRY(set_durations(es, err));
    qsort(es->jobs.at, es->jobs.n, sizeof *es->jobs.at, by_submit);
    for (size_t i = 0; i < es->jobs.n; i++)
        if (es->world.policy->quirks != WHOLE_GANG)
            es->jobs.at[i].menu = menu_for(es, &es->jobs.at[i]);
    return FIRN_OK;
}

static void close_engine(void *state)
{
    struct easyscale *es = state;
    for (size_t i = 0; i < es->menus.n; i++) {
        vec_release(&es->menus.at[i]->offers);
        mem_free(es->menus.at[i]);
    }
    vec_release(&es->menus);
    vec_release(&es->jobs);
    vec_release(&es->events);
    arena_release(&es->text);
    firn_trace_close(es->world.trace);
}

/* Alone on GPUs of one type. */
static double forecast_rate(void *state, const struct firn_job *job,
                            const struct firn_way *way, double at_s)
{
    const struct easyscale *es = state;
    const struct esjob *esjob = &es->jobs.at[job->id];
    struct offer whole = whole_gang(esjob);
    int ests[TYPES] = {0};
    (void)at_s;
    for (int i = 0; i < TYPES; i++)
        if (way->type == es->types[i] ||
            (way->type == FIRN_ANY_TYPE && i == esjob->preferred))
            ests[i] = (esjob->workers + way->gpus - 1) / way->gpus;
    return pace(esjob, ests) / pace(esjob, whole.ests);
}

static const struct firn_forecast_def forecast = {.rate = forecast_rate};

static const struct firn_engine_def engine = {
    .name = "easyscale",
    .summary = "steps of 60 s over three counters",
    .gives = FIRN_NEED_DURATION | FIRN_NEED_TYPES | FIRN_NEED_FORECAST,
    .forecast = &forecast,
    .state_size = sizeof(struct easyscale),
    .open = open_engine,
    .close = close_engine,
    .now_s = now_s,
    .apply = apply,
    .next = next,
};

/* ---- the policies ---- */

/* They run in this world only, and read what jobs hold in it. */
static const struct easyscale *world_of(const struct firn_view *view)
{
    if (view->forecast != &forecast)
        FIRN_BUG("a policy of EasyScale's artifact outside of it");
    return view->forecaster;
}

static int by_row(const struct firn_job *a, const struct firn_job *b)
{
    return (a->spec.line > b->spec.line) - (a->spec.line < b->spec.line);
}

static bool give(const struct easyscale *es, struct firn_plan *plan,
                 const struct firn_job *job, const int gpus[TYPES])
{
    int counts[FIRN_TYPES_MAX] = {0};
    for (int i = 0; i < TYPES; i++)
        counts[es->types[i]] = gpus[i];
    struct firn_want want = {.gpus = sum_of(gpus), .counts = counts};
    return firn_plan_give_want(plan, job, &want);
}

/* serial-yarn */
static enum firn_status decide_yarn(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    const struct easyscale *es = world_of(view);
    (void)state;
    if (view->njobs == 0)
        return FIRN_OK;
    const struct firn_job *first = firn_view_sorted(view, by_row)[0];
    struct offer whole = whole_gang(&es->jobs.at[first->id]);
    give(es, plan, first, whole.gpus);
    return FIRN_OK;
}

/* The largest gain first; equal ones by row, then type. */
static int by_gain(const void *a, const void *b)
{
    const struct growth *x = a, *y = b;
    int order = firn_cmp(y->gain, x->gain);
    if (order == 0)
        order = x->row - y->row;
    return order ? order : x->type - y->type;
}

/* New jobs first, each with its slowest offer; then growth, at most one type a
 * job (never-less). */
static enum firn_status decide_elastic(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    const struct easyscale *es = world_of(view);
    const struct firn_job **jobs = firn_view_sorted(view, by_row);
    struct growth *all =
        firn_view_alloc(view, (view->njobs * TYPES + 1) * sizeof *all);
    size_t n = 0;
    (void)state;
    firn_plan_keep_all(plan);
    for (size_t j = 0; j < view->njobs; j++) {
        const struct esjob *job = &es->jobs.at[jobs[j]->id];
        if (jobs[j]->state == FIRN_JOB_WAITING) {
            struct offer first = first_offer(es, job);
            give(es, plan, jobs[j], first.gpus);
            continue;
        }
        for (int i = 0; i < TYPES; i++)
            if (grow(es, job, i, &all[n]))
                all[n++].row = (int)j;
    }
    qsort(all, n, sizeof *all, by_gain);
    for (size_t i = 0; i < n; i++) {
        const struct firn_job *job = jobs[all[i].row];
        bool has_grown = firn_plan_of(plan, job)->ngpus != job->held.ngpus;
        if (!has_grown)
            give(es, plan, job, all[i].to.gpus);
    }
    return FIRN_OK;
}

static const struct firn_policy_def yarn = {
    .name = "yarn-cs",
    .summary = "the first job of the file has its GPUs, all others wait",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_PREEMPT,
    .state_size = 1,
    .decide = decide_yarn,
};

static const struct firn_policy_def homo = {
    .name = "easyscale-homo",
    .summary = "elastic on the preferred GPU type",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_RESIZE,
    .state_size = 1,
    .decide = decide_elastic,
};

static const struct firn_policy_def heter = {
    .name = "easyscale-heter",
    .summary = "elastic over all GPU types",
    .paper = "Li et al., EasyScale, SC 2023 (artifact)",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_RESIZE,
    .state_size = 1,
    .decide = decide_elastic,
};

static const struct world_policy policies[] = {
    {.name = "yarn-cs", .def = &yarn, .interval_s = 60, .quirks = WHOLE_GANG},
    {.name = "easyscale-homo",
     .def = &homo,
     .interval_s = 60,
     .quirks = ONE_TYPE},
    {.name = "easyscale-heter",
     .def = &heter,
     .interval_s = 60,
     .quirks = ALL_TYPES},
    {0},
};

/* ---- what it can be asked ---- */

/* counters: any nodes do, if the GPUs are those. */
static enum firn_status suits_cluster(const struct firn_cluster *cluster,
                                      struct firn_error *err)
{
    for (int i = 0; i < TYPES; i++) {
        firn_type_id type = firn_cluster_type(cluster, type_names[i]);
        int has = type < 0 ? 0 : cluster->types[type].ngpus;
        if (has != type_gpus[i] || cluster->ntypes != TYPES)
            return firn_fail(err, FIRN_EINVAL,
                             "EasyScale's simulator has 32 v100, 16 p100 and "
                             "16 t4, such as 1x32:v100,1x16:p100,1x16:t4; "
                             "cluster %s has %d %s of %d GPUs",
                             cluster->name, has, type_names[i], cluster->ngpus);
    }
    return FIRN_OK;
}

static enum firn_status suits(const struct firn_sim_options *options,
                              struct firn_error *err)
{
    const struct {
        const char *words;
        bool is_set;
    } never[] = {
        {"node failures", options->failures != NULL || options->mtbf_s > 0},
        {"elastic limits", options->elastic_max > 0},
        {"another interval", options->interval_s > 0},
        {"a quantum", options->quantum_s > 0},
        {"noise", options->noise.throughput > 0 || options->noise.sharing > 0 ||
                      options->noise.transfer > 0 || options->noise.report > 0},
        {"groups in a trace", strchr(options->trace, '#') != NULL},
    };
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (never[i].is_set)
            return firn_fail(err, FIRN_EINVAL,
                             "EasyScale's simulator never had %s",
                             never[i].words);
    if (options->profiles == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "EasyScale's simulator needs measured times: name a "
                         "folder that has easyscale/determinism_overhead.csv "
                         "as the profiles");
    return suits_cluster(options->cluster, err);
}

const struct world_def compat_easyscale = {
    .name = "easyscale",
    .summary = "EasyScale's trace simulator: steps of 60 s, free re-allocation",
    .artifact = "EasyScale's simulator",
    .engine = &engine,
    .policies = policies,
    .suits = suits,
};
