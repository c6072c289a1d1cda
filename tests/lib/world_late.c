/* world_late.c - the honest engine with two bad habits.
 *
 * What finishing late and rounding do to logs and sums can be worked by hand
 * when everything else is exact.
 */
#include "sim/simengine.h"
#include "toys.h"
#include "worlds.h"

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    if (!simengine_def.next(state, until_s, out, err))
        return false;
    if (out->kind == FIRN_EVENT_DONE)
        out->finished_s = out->at_s + 0.3;
    if (out->kind == FIRN_EVENT_REPORT)
        out->report.done_s += 0.25;
    return true;
}

const struct firn_world_def *world_late(void)
{
    static const struct world_policy policies[] = {
        {.name = "fifo"},
        {.name = "greedy", .def = &toy_greedy},
        {0},
    };
    static struct firn_engine_def engine;
    static struct firn_world_def world;
    engine = simengine_def;
    engine.next = next;
    world = (struct firn_world_def){.name = "late",
                                    .summary = "finishes late, works too much",
                                    .artifact = "the late simulator",
                                    .engine = &engine,
                                    .policies = policies};
    return &world;
}
