/* ymir_keep.c - what ymir must know after a restart: who waits for whom.
 *
 * A bond is not in the view: a job that waits for another's weights looks as
 * any that waits, and of one whose first has ended nothing else is left. With
 * them goes the time of the last round.
 */
#include "base/keep.h"
#include "policy/ymir.h"
#include <stdint.h>

void ymir_save(const void *state, struct firn_buf *out)
{
    const struct ymir *y = state;
    keep_begin(out, "policy ymir", 1);
    rounds_save(&y->rounds, out);
    keep_int(out, (long)y->bonds.n);
    for (size_t i = 0; i < y->bonds.n; i++) {
        const struct bond *bond = &y->bonds.at[i];
        keep_int(out, bond->first);
        keep_int(out, bond->second);
        keep_double(out, bond->gain);
        keep_int(out, bond->is_ready);
    }
}

enum firn_status ymir_load(void *state, struct firn_bytes in,
                           struct firn_error *err)
{
    struct ymir *y = state;
    struct keep keep;
    VEC(struct bond) bonds = {0};
    FIRN_TRY(keep_open(&keep, in, "policy ymir", 1, err));
    struct rounds rounds = rounds_load(&keep);
    long n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++) {
        struct bond bond = {.first = (int)keep_read_int(&keep, 0, INT32_MAX)};
        bond.second = (int)keep_read_int(&keep, 0, INT32_MAX);
        bond.gain = keep_read_double(&keep);
        bond.is_ready = keep_read_int(&keep, 0, 1);
        vec_add(&bonds, bond);
    }
    enum firn_status status = keep_close(&keep, err);
    if (status == FIRN_OK) {
        y->rounds = rounds;
        y->bonds.n = 0;
        for (size_t i = 0; i < bonds.n; i++)
            vec_add(&y->bonds, bonds.at[i]);
    }
    vec_release(&bonds);
    return status;
}
