/* sampler.c - which samples a virtual rank sees, by (seed, epoch) alone.
 *
 * Place p of an epoch is sample order[p mod n] of a permutation of the n
 * samples; virtual rank v of V has the places v, v + V, v + 2V, ..., cut into
 * batches. That is PyTorch's DistributedSampler for V processes, padding
 * included, but with a shuffle of its own: Fisher and Yates on firn's
 * generator, the same on every machine.
 *
 * (1) Nothing here knows how many processes there are.
 * (2) Any batch of any epoch is found without those before it: a sampler has
 *     no state, so a checkpoint needs the epoch and the batch only.
 * (3) The shuffle of (seed 1, epoch 2) is not that of (seed 2, epoch 1): the
 *     seed is stirred before the epoch is added.
 *
 * Cost: a shuffle is n draws; a batch as many steps as it has samples.
 */
#include "base/rng.h"
#include <firn/feed.h>

/* Places of one thread: rounded up, or down. */
uint64_t firn_sampler_places(const struct firn_sampler *s)
{
    if (s->nthreads < 1)
        return 0;
    uint64_t v = (uint64_t)s->nthreads;
    return s->nsamples / v + (!s->drop_last && s->nsamples % v != 0);
}

uint64_t firn_sampler_batches(const struct firn_sampler *s)
{
    if (s->batch < 1)
        return 0;
    uint64_t places = firn_sampler_places(s), batch = (uint64_t)s->batch;
    return places / batch + (!s->drop_last && places % batch != 0);
}

enum firn_status firn_sampler_check(const struct firn_sampler *s,
                                    struct firn_error *err)
{
    if (s->nsamples < 1 || s->nsamples > UINT32_MAX)
        return firn_fail(err, FIRN_EINVAL,
                         "a data set has 1 to 4294967295 samples, not %llu",
                         (unsigned long long)s->nsamples);
    if (s->nthreads < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "a job has at least 1 thread, not %d", s->nthreads);
    if (s->batch < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "a batch has at least 1 sample, not %d", s->batch);
    if (firn_sampler_batches(s) == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%llu samples do not fill one batch of %d for each of "
                         "%d threads, and what is short is dropped",
                         (unsigned long long)s->nsamples, s->batch,
                         s->nthreads);
    return FIRN_OK;
}

void firn_sampler_shuffle(const struct firn_sampler *s, uint64_t epoch,
                          uint32_t *order)
{
    struct rng rng;
    for (uint64_t i = 0; i < s->nsamples; i++)
        order[i] = (uint32_t)i;
    if (!s->shuffle)
        return;
    rng_seed(&rng, s->seed);
    rng_seed(&rng, rng_u64(&rng) + epoch);
    for (uint64_t i = s->nsamples; i > 1; i--) {
        uint64_t j = rng_below(&rng, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

size_t firn_sampler_batch(const struct firn_sampler *s, const uint32_t *order,
                          int thread, uint64_t batch, uint32_t *out)
{
    if (thread < 0 || thread >= s->nthreads || batch >= firn_sampler_batches(s))
        return 0;
    uint64_t first = batch * (uint64_t)s->batch;
    uint64_t left = firn_sampler_places(s) - first;
    size_t n = left < (uint64_t)s->batch ? (size_t)left : (size_t)s->batch;
    for (size_t i = 0; i < n; i++) {
        uint64_t place = (first + i) * (uint64_t)s->nthreads + (uint64_t)thread;
        place %= s->nsamples;
        out[i] = order != NULL ? order[place] : (uint32_t)place;
    }
    return n;
}
