/* batchrule.c - the learning rate of a job whose batch was changed.
 *
 * The formulas are in firn/batchrule.h. With V threads of b samples the
 * variance of a thread's gradient is s2 / b, and the mean of V b samples has
 * the squared norm g2 + s2 / (V b).
 */
#include <firn/batchrule.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

bool firn_batch_rule_named(const char *word, enum firn_batch_rule *out)
{
    static const char *const names[] = {"none", "linear", "sqrt", "adascale"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = (enum firn_batch_rule)i;
            return true;
        }
    return false;
}

double firn_batch_factor(enum firn_batch_rule rule, double batch0, double batch,
                         const struct firn_batch_noise *noise)
{
    if (!(batch0 > 0) || !(batch > 0) || rule == FIRN_BATCH_NONE)
        return 1;
    if (rule == FIRN_BATCH_LINEAR)
        return batch / batch0;
    if (rule == FIRN_BATCH_SQRT || noise == NULL || !(noise->variance > 0))
        return sqrt(batch / batch0);
    double s2 = noise->variance, g2 = noise->square;
    return (s2 / batch0 + g2) / (s2 / batch + g2);
}

struct firn_batch_noise firn_batch_noise_of(int nthreads, int each,
                                            double variance, double mean_square)
{
    struct firn_batch_noise noise = {0, 0};
    if (nthreads < 2 || each < 1 || !isfinite(variance) ||
        !isfinite(mean_square) || !(variance > 0))
        return noise;
    noise.variance = variance * each;
    noise.square = fmax(mean_square - variance / nthreads, 0);
    return noise;
}
