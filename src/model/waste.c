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
 * Cost: O(G) and at most G + 1 passes over G GPUs; by types the same in the
 * number of types. No allocation.
 */
#include <firn/waste.h>

#include <math.h>
#include <stdbool.h>
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
