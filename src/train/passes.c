/* passes.c - a batch cut into passes.
 *
 * B = q s + r: the first r passes have q + 1 samples, the others q. Pass i
 * starts at i q + min(i, r). Weights are exact quotients rounded once; they
 * sum to 1 within s roundings.
 */
#include <firn/passes.h>

size_t firn_passes_count(size_t batch, size_t npasses)
{
    if (npasses > batch)
        return batch;
    return npasses > 0 || batch == 0 ? npasses : 1;
}

struct firn_pass firn_passes_at(size_t batch, size_t npasses, size_t i)
{
    size_t n = firn_passes_count(batch, npasses);
    if (i >= n)
        return (struct firn_pass){.start = batch};
    size_t quotient = batch / n, rest = batch % n;
    struct firn_pass pass = {.start = i * quotient + (i < rest ? i : rest),
                             .size = quotient + (i < rest)};
    pass.weight = (double)pass.size / (double)batch;
    return pass;
}

void firn_passes_add(float *sum, const float *grad, size_t n,
                     struct firn_pass pass, size_t i)
{
    const float weight = (float)pass.weight;
    if (i == 0)
        for (size_t j = 0; j < n; j++)
            sum[j] = weight * grad[j];
    else
        for (size_t j = 0; j < n; j++)
            sum[j] += weight * grad[j];
}
