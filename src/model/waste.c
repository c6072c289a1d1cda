/* waste.c - EasyScale's waste, and the layout with the least waste.
 *
 * The least step time T satisfies sum floor(T C_g) >= maxP and is one of the
 * times k / C_g. No search is needed: T >= T0 = maxP / sum
 * C_g, and at T0 the floors sum to more than maxP - G, for each loses less
 * than one. So the floors at T0 are given out at once, and each of the fewer
 * than G threads left goes to the GPU that would finish it first, that is the
 * one with the least (n_g + 1) / C_g. Taking the candidate times in order is
 * what the search would do. By types it is shorter still: all GPUs of a type
 * get their next thread at the same time, and since each type's floor is less
 * than one thread short, no type gets more than one beyond it. m executors on a
 * GPU, each with the share I of its speed, are m GPUs of rate C I: MC = m C I
 * and MA = m A in (1a) to (1e) say the same.
 *
 * Invariants:
 * (1) Any thread given at once ends before T: T0 is taken a little low, so
 *     that rounding up a floor cannot pass T.
 * (2) p / C_g < q / C_h is decided as p C_h < q C_g in integers of 128 bits:
 *     a double is m 2^e with m < 2^53, and p, q <= 2^24. Rounded products
 *     decide where they differ by far more than rounding.
 *
 * Which number of executors is best depends on the step time: three threads on
 * a GPU are done in 3 / C by one executor and in 2 / (C I) by two. At a time T
 * a GPU can do max over m of m floor(T C I_m) threads, so firn_waste_choose()
 * goes through the times k / (C I_m) of all m, from T0 with the fastest m on,
 * until all threads are done.
 *
 * Cost: O(G) and at most G + 1 passes over G GPUs; by types the same in the
 * number of types; with a choice of executors as many times more as the most
 * of them. No allocation.
 */
#include <firn/waste.h>

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 uint128;

/* Bounds of a plausible rate. */
static const double rate_max = 1e12, rate_min = 1e-12;

static bool is_rate(double rate)
{
    return rate >= rate_min && rate <= rate_max; /* false for NaN */
}

static enum firn_status check_maxp(int maxp, struct firn_error *err)
{
    if (maxp >= 1 && maxp <= FIRN_WASTE_THREADS_MAX)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "maxP is %d; 1 to %d are possible", maxp,
                     FIRN_WASTE_THREADS_MAX);
}

static enum firn_status check_type(const struct firn_waste_type *type, int i,
                                   struct firn_error *err)
{
    if (type->ngpus < 0 || type->ngpus > FIRN_WASTE_THREADS_MAX)
        return firn_fail(err, FIRN_EINVAL, "type %d has %d GPUs", i,
                         type->ngpus);
    if (!is_rate(type->rate))
        return firn_fail(err, FIRN_EINVAL,
                         "type %d does %g mini-batches a second", i,
                         type->rate);
    if (type->threads < 0 || type->threads > FIRN_WASTE_THREADS_MAX)
        return firn_fail(err, FIRN_EINVAL, "type %d has %d threads on a GPU", i,
                         type->threads);
    if (type->executors < 0 || type->executors > 1 << 16)
        return firn_fail(err, FIRN_EINVAL, "type %d has %d executors", i,
                         type->executors);
    if (!(type->interference >= 0 && type->interference <= 1))
        return firn_fail(err, FIRN_EINVAL, "type %d: interference is %g", i,
                         type->interference);
    return FIRN_OK;
}

/* MC_i and MA_i. */
static double capability(const struct firn_waste_type *type)
{
    return (type->executors ? type->executors : 1) * type->rate *
           (type->interference > 0 ? type->interference : 1);
}

static double load(const struct firn_waste_type *type)
{
    return (type->executors ? type->executors : 1) * (double)type->threads;
}

enum firn_status firn_waste_of(const struct firn_waste_type *types, int ntypes,
                               int maxp, struct firn_waste *out,
                               struct firn_error *err)
{
    struct firn_waste w = {0};
    double total = 0;
    FIRN_TRY(check_maxp(maxp, err));
    for (int i = 0; i < ntypes; i++) {
        FIRN_TRY(check_type(&types[i], i, err));
        if (types[i].ngpus == 0)
            continue;
        double c = capability(&types[i]), a = load(&types[i]);
        w.capacity += types[i].ngpus * a;
        total += types[i].ngpus * c;
        w.step_s = fmax(w.step_s, a / c);
    }
    if (total <= 0)
        return firn_fail(err, FIRN_EINVAL, "no GPUs");
    if (w.capacity < maxp)
        return firn_fail(err, FIRN_EINVAL,
                         "%d threads, but room for %.0f: (1a)", maxp,
                         w.capacity);
    for (int i = 0; i < ntypes; i++)
        w.waste += types[i].ngpus *
                   (capability(&types[i]) - load(&types[i]) / w.step_s);
    w.waste += (w.capacity - maxp) / w.step_s;
    w.waste_norm = w.waste / total;
    w.perf = maxp / w.step_s;
    *out = w;
    return FIRN_OK;
}

/* p / c < q / d, exactly: invariant (2). */
static bool is_sooner(int p, double c, int q, double d)
{
    double near_left = p * d, near_right = q * c;
    if (near_left < near_right * (1 - 1e-12))
        return true;
    if (near_left > near_right * (1 + 1e-12))
        return false;
    int ce, de;
    uint64_t cm = (uint64_t)ldexp(frexp(c, &ce), 53);
    uint64_t dm = (uint64_t)ldexp(frexp(d, &de), 53);
    uint128 left = (uint128)dm * (unsigned)p;  /* p d / 2^de */
    uint128 right = (uint128)cm * (unsigned)q; /* q c / 2^ce */
    /* The products have 53 to 78 bits and are all but equal, so the shift is
     * below 26 and nothing is shifted out. */
    int shift = de - ce;
    if (shift >= 0)
        return left << shift < right;
    return left < right << -shift;
}

enum firn_status firn_waste_layout(const double *rates, int ngpus, int maxp,
                                   int *threads, struct firn_waste *out,
                                   struct firn_error *err)
{
    double total = 0;
    FIRN_TRY(check_maxp(maxp, err));
    if (ngpus < 1)
        return firn_fail(err, FIRN_EINVAL, "no GPUs");
    for (int g = 0; g < ngpus; g++) {
        if (!is_rate(rates[g]))
            return firn_fail(err, FIRN_EINVAL,
                             "GPU %d does %g mini-batches a second", g,
                             rates[g]);
        total += rates[g];
    }
    double low_s = maxp / total * (1 - 1e-9); /* invariant (1) */
    int left = maxp;
    for (int g = 0; g < ngpus; g++) {
        threads[g] = (int)(low_s * rates[g]);
        left -= threads[g];
    }
    for (; left > 0; left--) {
        int soonest = 0; /* to finish one more thread */
        for (int g = 1; g < ngpus; g++)
            if (is_sooner(threads[g] + 1, rates[g], threads[soonest] + 1,
                          rates[soonest]))
                soonest = g;
        threads[soonest]++;
    }
    if (!out)
        return FIRN_OK;
    *out = (struct firn_waste){.capacity = maxp};
    for (int g = 0; g < ngpus; g++)
        out->step_s = fmax(out->step_s, threads[g] / rates[g]);
    out->perf = maxp / out->step_s;
    out->waste = total - out->perf;
    out->waste_norm = out->waste / total;
    return FIRN_OK;
}

/* Its executors, all GPUs together, and the rate of one. */
static int slots(const struct firn_waste_type *type)
{
    return type->ngpus * (type->executors > 0 ? type->executors : 1);
}

static double slot_rate(const struct firn_waste_type *type)
{
    return type->rate * (type->interference > 0 ? type->interference : 1);
}

/* Sets A_i; the threads that have room beyond maxp. */
static long give_out(struct firn_waste_type *types, int ntypes, int maxp,
                     double low_s)
{
    long left = maxp;
    for (int i = 0; i < ntypes; i++) {
        bool is_used = types[i].ngpus > 0;
        types[i].threads = is_used ? (int)(low_s * slot_rate(&types[i])) : 0;
        left -= (long)types[i].threads * slots(&types[i]);
    }
    while (left > 0) {
        int soonest = -1; /* to finish one more thread on each of its slots */
        for (int i = 0; i < ntypes; i++)
            if (types[i].ngpus > 0 &&
                (soonest < 0 ||
                 is_sooner(types[i].threads + 1, slot_rate(&types[i]),
                           types[soonest].threads + 1,
                           slot_rate(&types[soonest]))))
                soonest = i;
        types[soonest].threads++;
        left -= slots(&types[soonest]);
    }
    return -left;
}

bool firn_waste_best(struct firn_waste_type *types, int ntypes, int maxp,
                     struct firn_waste *out)
{
    double total = 0;
    for (int i = 0; i < ntypes; i++) {
        if (types[i].ngpus <= 0)
            continue;
        if (!is_rate(types[i].rate) || !is_rate(slot_rate(&types[i])) ||
            types[i].interference > 1 || types[i].executors > 1 << 16)
            return false;
        total += slots(&types[i]) * slot_rate(&types[i]);
    }
    if (!(total > 0) || maxp < 1 || maxp > FIRN_WASTE_THREADS_MAX)
        return false;
    struct firn_waste w = {0};
    double low_s = maxp / total * (1 - 1e-9); /* invariant (1) */
    w.capacity = (double)maxp + (double)give_out(types, ntypes, maxp, low_s);
    for (int i = 0; i < ntypes; i++)
        if (types[i].ngpus > 0)
            w.step_s = fmax(w.step_s, types[i].threads / slot_rate(&types[i]));
    w.perf = maxp / w.step_s;
    w.waste = total - w.perf;
    w.waste_norm = w.waste / total;
    *out = w;
    return true;
}

/* ---- a choice of executors ---- */

enum { WAYS_MAX = FIRN_EXECUTORS_MAX + 1, CHOICE_TYPES = 64 };

/* One type: its executors, one first, and the threads of each at a time. */
struct choice {
    int n;
    struct firn_waste_type way[WAYS_MAX];
};

/* False: a number makes no sense. */
static bool choices_of(const struct firn_waste_type *type,
                       const struct firn_executor_ways *ways, int maxp,
                       struct choice *out)
{
    *out = (struct choice){.n = 1, .way = {*type}};
    out->way[0].executors = 1;
    out->way[0].interference = 1;
    if (type->ngpus <= 0)
        return true;
    for (int i = 0; i < ways->n && i < FIRN_EXECUTORS_MAX; i++) {
        const struct firn_executors *e = &ways->at[i];
        if (e->number < 2 || e->number > 1 << 16 || !(e->speed > 0) ||
            e->speed > e->number)
            return false;
        if ((long)e->number * type->ngpus > maxp)
            continue; /* some would have no thread */
        struct firn_waste_type *way = &out->way[out->n++];
        *way = *type;
        way->executors = e->number;
        way->interference = e->speed / e->number;
    }
    for (int i = 0; i < out->n; i++)
        if (!is_rate(slot_rate(&out->way[i])))
            return false;
    return true;
}

/* The way with the most threads on a GPU; of equal ones the first, with the
 * fewest executors if the ways rise. */
static const struct firn_waste_type *most_threads(const struct choice *c)
{
    const struct firn_waste_type *best = &c->way[0];
    for (int i = 1; i < c->n; i++)
        if (load(&c->way[i]) > load(best) ||
            (load(&c->way[i]) == load(best) &&
             c->way[i].executors < best->executors))
            best = &c->way[i];
    return best;
}

/* Gives one more thread to each executor of the way that ends it first. False:
 * there is no GPU. */
static bool step_on(struct choice *choices, int ntypes)
{
    struct firn_waste_type *soonest = NULL;
    for (int t = 0; t < ntypes; t++)
        for (int i = 0; i < choices[t].n && choices[t].way[0].ngpus > 0; i++) {
            struct firn_waste_type *way = &choices[t].way[i];
            if (soonest == NULL ||
                is_sooner(way->threads + 1, slot_rate(way),
                          soonest->threads + 1, slot_rate(soonest)))
                soonest = way;
        }
    if (soonest == NULL)
        return false;
    soonest->threads++;
    return true;
}

static double room(const struct choice *choices, int ntypes)
{
    double sum = 0;
    for (int t = 0; t < ntypes; t++)
        if (choices[t].way[0].ngpus > 0)
            sum += choices[t].way[0].ngpus * load(most_threads(&choices[t]));
    return sum;
}

bool firn_waste_choose(struct firn_waste_type *types,
                       const struct firn_executor_ways *ways, int ntypes,
                       int maxp, struct firn_waste *out)
{
    struct choice choices[CHOICE_TYPES];
    double fastest = 0;
    if (ways == NULL)
        return firn_waste_best(types, ntypes, maxp, out);
    if (ntypes > CHOICE_TYPES || maxp < 1 || maxp > FIRN_WASTE_THREADS_MAX)
        return false;
    for (int t = 0; t < ntypes; t++) {
        double most = 0;
        if (!choices_of(&types[t], &ways[t], maxp, &choices[t]))
            return false;
        for (int i = 0; i < choices[t].n && types[t].ngpus > 0; i++)
            most = fmax(most, capability(&choices[t].way[i]));
        fastest += types[t].ngpus > 0 ? types[t].ngpus * most : 0;
    }
    if (!(fastest > 0))
        return false;
    double low_s = maxp / fastest * (1 - 1e-9); /* invariant (1) */
    for (int t = 0; t < ntypes; t++)
        for (int i = 0; i < choices[t].n; i++)
            choices[t].way[i].threads =
                types[t].ngpus > 0
                    ? (int)(low_s * slot_rate(&choices[t].way[i]))
                    : 0;
    while (room(choices, ntypes) < maxp && step_on(choices, ntypes))
        ;
    struct firn_waste w = {.capacity = room(choices, ntypes)};
    double total = 0;
    for (int t = 0; t < ntypes; t++) {
        types[t] = *most_threads(&choices[t]);
        if (types[t].ngpus <= 0)
            continue;
        total += types[t].ngpus * capability(&types[t]);
        w.step_s = fmax(w.step_s, types[t].threads / slot_rate(&types[t]));
    }
    w.perf = maxp / w.step_s;
    w.waste = total - w.perf;
    w.waste_norm = w.waste / total;
    *out = w;
    return true;
}
