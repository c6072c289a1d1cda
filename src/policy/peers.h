/* peers.h - of equal jobs the one submitted first comes first.
 *
 * A policy that solves a problem for all jobs at once may value two equal jobs
 * differently because one is a second older, or take either of them because
 * both are worth the same. Users see jobs that start in a random or reversed
 * order. Such a policy calls peers_settle() on its solution: among equal jobs
 * it hands the larger answers to the older jobs. The sum of the answers does
 * not change, and neither do the jobs that are not equal to any other.
 */
#ifndef POLICY_PEERS_H
#define POLICY_PEERS_H
#include <firn/policy.h>
#include <string.h>

/* A job and the answer that a policy has for it. */
struct peer {
    const struct firn_job *job;
    uint64_t kind; /* jobs of different kinds are never peers: what is
                    * forecast for them, say; see peers_kind() */
    double gets;   /* how good the answer is: number of GPUs, or place in line
                    * counted backwards */
};

/* Returns true if neither job ever held GPUs and their specs differ in name,
 * group, time of submission and trace line at most. */
bool peers_are(const struct firn_job *a, const struct firn_job *b);

/* The kind of a job for which `value` was found after those in `kind`. */
static inline uint64_t peers_kind(uint64_t kind, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    kind = (kind ^ bits) * 0x9e3779b97f4a7c15u;
    return kind ^ kind >> 32;
}

/* Returns `from`, n numbers in the memory of the round: peer i is to have the
 * answer of peer from[i], which is its own unless they are peers. Of peers the
 * one with the lower id has the answer of more `gets`. O(n log n). */
const size_t *peers_settle(const struct firn_view *view,
                           const struct peer *peers, size_t n);

#endif
