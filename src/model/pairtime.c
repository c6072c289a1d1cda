/* pairtime.c - the mean completion time of a pair, and its least value.
 *
 * Let a and b be what is left of the new and of the running job, alone, and k
 * the moment the new one joins. Until then the running one is alone; then both
 * go on until one is done, and what is left of the other is done alone. With
 * b' = b - k left at that moment:
 *
 *   xi_a a >= xi_b b'   running first:  k + xi_b b'
 *                       new:            k + xi_b b' + a - xi_b b' / xi_a
 *   otherwise           new first:      k + xi_a a
 *                       running:        k + xi_a a + b' - xi_a a / xi_b
 *
 * (Luo et al., SJF-BSBF, Theorem 1 and (18)-(25).) The paper swaps the names
 * of the two jobs between statement and proof, loses k in its first case and
 * divides by shared times in (22) and (23); the lines above are the model that
 * (5) and (6) state, and at k = 0 they are (21) and (25). The mean of the two
 * has slope 1/2 in k while the new one would end first, and 1 - xi_b +
 * xi_b / (2 xi_a) after that. The first is positive: so the least mean is at
 * k = 0 or at k = b, whatever the second is.
 *
 * The mean rises with a: of two ways to run the new job beside the same running
 * job at the same xi, the faster way is the better one.
 */
#include <firn/pairtime.h>

double firn_pairtime_mean(const struct firn_pairtime *pair, double after_s)
{
    double a_s = pair->new_s, b_s = pair->running_s;
    if (after_s >= b_s)
        return (b_s + after_s + a_s) / 2;
    b_s -= after_s;
    double slow_a_s = pair->new_xi * a_s, slow_b_s = pair->running_xi * b_s;
    if (slow_a_s >= slow_b_s)
        return after_s + slow_b_s + (a_s - slow_b_s / pair->new_xi) / 2;
    return after_s + slow_a_s + (b_s - slow_a_s / pair->running_xi) / 2;
}

double firn_pairtime_shared(const struct firn_pairtime *pair)
{
    return firn_pairtime_mean(pair, 0);
}

double firn_pairtime_in_turn(const struct firn_pairtime *pair)
{
    return pair->running_s + pair->new_s / 2;
}

double firn_pairtime_apart(const struct firn_pairtime *pair, double wait_s)
{
    return (pair->running_s + wait_s + pair->new_s) / 2;
}

bool firn_pairtime_shares(const struct firn_pairtime *pair)
{
    return firn_pairtime_shared(pair) < firn_pairtime_in_turn(pair);
}
