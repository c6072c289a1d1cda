/* abilities.c - what a live job's trainer can do: declared, implied, reported.
 *
 * Three sources, the later before the earlier:
 *
 *   implied   by keys of the job file, until the trainer reports:
 *               resize           a range of GPUs, or `elastic`
 *               passes           `elastic`
 *               freeze           `freeze` with a rule other than off
 *               batch            `batch-rule`
 *               partner, after   `finetune` with sharing, base and dataset
 *               tensor, sharded, passes   `model`
 *             A job with none of these keys is taken for a program that knows
 *             nothing of firn: nothing is ordered.
 *   declared  `can` of the job file replaces what is implied
 *   reported  by the trainer: holds instead of what is implied, and within what
 *             is declared: a user may decline what a trainer could do
 *
 * Invariant: a function of the job file and the last report that has `can`,
 * which are on disk: the answer is the same after a restart of firnd.
 */
#include "daemon/abilities.h"
#include <string.h>

static const char *const names[] = {"implied", "declared", "reported"};

const char *abilities_from_name(enum abilities_from from)
{
    return names[from];
}

static unsigned when(bool holds, unsigned can)
{
    return holds ? can : 0;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static unsigned implied(const struct live_ask *ask)
{
    bool freezes = is_given(ask->freeze) && strcmp(ask->freeze, "off") != 0;
    bool merges =
        ask->may_merge && is_given(ask->base) && is_given(ask->dataset);
    bool is_llm = is_given(ask->model) || ask->seq > 0;
    return when(ask->is_elastic, FIRN_CAN_RESIZE) |
           when(is_given(ask->consistency), FIRN_CAN_PASSES) |
           when(freezes, FIRN_CAN_FREEZE) |
           when(is_given(ask->batch_rule), FIRN_CAN_BATCH) |
           when(merges, FIRN_CAN_PARTNER | FIRN_CAN_AFTER) |
           when(is_llm, FIRN_CAN_TENSOR | FIRN_CAN_SHARDED | FIRN_CAN_PASSES);
}

unsigned abilities_asked(const struct live_ask *ask)
{
    unsigned can = 0;
    if (is_given(ask->can) && firn_can_read(ask->can, strlen(ask->can), &can))
        return can;
    return implied(ask);
}

unsigned abilities_of(const struct live_job *job, enum abilities_from *from)
{
    bool is_declared = is_given(job->ask.can);
    bool is_reported = job->reported_s > 0 && job->last.can >= 0;
    unsigned can = abilities_asked(&job->ask);
    if (from != NULL)
        *from = is_reported   ? ABILITIES_REPORTED
                : is_declared ? ABILITIES_DECLARED
                              : ABILITIES_IMPLIED;
    if (!is_reported)
        return can;
    return (unsigned)job->last.can & (is_declared ? can : FIRN_CAN_ALL);
}
