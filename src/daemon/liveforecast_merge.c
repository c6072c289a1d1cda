/* liveforecast_merge.c - two live jobs as core/forecaster_merge.h has them.
 *
 * Nothing was measured of a pair before it has reported: both are taken to be
 * trained in turns, each in proportion to its work, with the gain of struct
 * gains.
 */
#include "daemon/liveforecast_merge.h"
#include "base/mem.h"
#include "core/forecaster_merge.h"
#include <string.h>

struct livemerge {
    struct gains *gains;
};

struct livemerge *livemerge_new(void)
{
    struct livemerge *merges = mem_new(1, sizeof *merges);
    merges->gains = gains_new();
    return merges;
}

void livemerge_free(struct livemerge *merges)
{
    if (merges == NULL)
        return;
    gains_free(merges->gains);
    mem_free(merges);
}

bool livemerge_expect(const struct livemerge *merges,
                      const struct livemerge_side side[2],
                      enum firn_merge_kind kind, struct firn_merge *out)
{
    const double both_s = side[0].alone_s + side[1].alone_s;
    struct merge_side sides[2];
    struct firn_merge merge;
    if (side[0].base[0] == '\0' || strcmp(side[0].base, side[1].base) != 0 ||
        strcmp(side[0].dataset, side[1].dataset) == 0)
        return false;
    double gain = gains_together(merges->gains, side[0].base, side[0].dataset,
                                 side[1].dataset);
    for (int i = 0; i < 2; i++) /* work in seconds of each alone */
        sides[i] = (struct merge_side){
            .work_s = side[i].alone_s,
            .alone = 1,
            .together = gain * side[i].alone_s / both_s,
            .after = gains_after(merges->gains),
            .is_new = side[i].is_new,
        };
    if (!merge_expect(sides, kind, &merge))
        return false;
    merge.epoch_s = kind == FIRN_MERGE_AFTER
                        ? side[1].epoch_s
                        : side[0].epoch_s + side[1].epoch_s;
    *out = merge;
    return true;
}

void livemerge_saw(struct livemerge *merges,
                   const struct livemerge_side side[2], double together)
{
    gains_learn(merges->gains, side[0].base, side[0].dataset, side[1].dataset,
                together);
}
