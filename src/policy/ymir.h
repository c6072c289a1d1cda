/* ymir.h - what the policy ymir remembers from round to round.
 *
 * ymir.c has the essay; ymir_keep.c writes it down and reads it again.
 */
#ifndef POLICY_YMIR_H
#define POLICY_YMIR_H
#include "base/vec.h"
#include "policy/merger.h"
#include "policy/rounds.h"

/* `second` waits for `first`; or may begin with its weights, once it ended. */
struct bond {
    firn_job_id first, second;
    double gain;
    bool is_ready;
};

struct ymir {
    struct merger_rules rules;
    bool between, merge, guard;
    double profile_s;
    int profile_gpus;

    struct rounds rounds;
    VEC(struct bond) bonds;
    struct pairs_result latest;
};

/* For struct firn_policy_def. */
void ymir_save(const void *state, struct firn_buf *out);
enum firn_status ymir_load(void *state, struct firn_bytes in,
                           struct firn_error *err);

#endif
