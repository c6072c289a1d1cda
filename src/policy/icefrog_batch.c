/* icefrog_batch.c - icefrog whose trainers tune their batch as well.
 *
 * The extension of IceFrog, section V-D and Fig. 10c: effective progress
 * includes Pollux's statistical efficiency, and menus are of tuned batches.
 * Everything else is icefrog.c.
 */
#include "policy/icefrog.h"

static enum firn_status init(void *state, struct firn_error *err)
{
    (void)err;
    ((struct icefrog *)state)->batch = true;
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_icefrog_batch = {
    .size = sizeof(struct firn_policy_def),
    .name = "icefrog-batch",
    .summary = "icefrog, and jobs tune their batches",
    .paper = "Gao et al., IceFrog, TPDS 2025, Fig. 10c",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_DURATION,
    .does =
        FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE | FIRN_DOES_SHARE,
    .tunes = FIRN_TUNE_FREEZE | FIRN_TUNE_BATCH,
    .options = icefrog_options,
    .state_size = sizeof(struct icefrog),
    .decide = icefrog_decide,
    .init = init,
    .fini = icefrog_fini,
    .wake_s = icefrog_wake_s,
    .save = icefrog_save,
    .load = icefrog_load,
};
