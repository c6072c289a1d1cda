/* sia_keep.c - what sia must know after a restart: when its last round was.
 *
 * Without it a round would begin at once, and not at the next multiple of the
 * interval.
 */
#include "base/keep.h"
#include "policy/sia.h"

void sia_save(const void *state, struct firn_buf *out)
{
    const struct sia *sia = state;
    keep_begin(out, "policy sia", 1);
    keep_int(out, sia->had_round);
    keep_double(out, sia->round_s);
}

enum firn_status sia_load(void *state, struct firn_bytes in,
                          struct firn_error *err)
{
    struct sia *sia = state;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy sia", 1, err));
    bool had_round = keep_read_int(&keep, 0, 1);
    double round_s = keep_read_double(&keep);
    FIRN_TRY(keep_close(&keep, err));
    sia->had_round = had_round;
    sia->round_s = round_s;
    return FIRN_OK;
}
