/* cost.h - what a change of GPUs costs a training job.
 *
 * A running job gets other GPUs in one of two ways:
 *
 *   restart  checkpoint, exit, start, resume: no progress for `pause_s`;
 *   resize   without a stop (docs/resize.md): new processes are prepared for
 *            `prepare_s` while the job trains on, on the GPUs that it had and
 *            with steps `slowdown` times as long; then state moves, which
 *            stops training for `pause_s`.
 *
 * A change to fewer of the same GPUs prepares no process: it costs the pause
 * alone. Live costs are measured by engine and trainers, those of a simulation
 * come from profiles and options.
 */
#ifndef FIRN_COST_H
#define FIRN_COST_H
#include <firn/api.h>
#include <stdbool.h>

FIRN_C_BEGIN

struct firn_cost {
    double pause_s;   /* without progress; < 0: not known */
    double prepare_s; /* before the pause, while the job trains; 0: none */
    double slowdown;  /* step time meanwhile / usual, >= 1; 0: not known, 1 */
};

struct firn_costs {
    struct firn_cost restart;
    bool is_seen; /* `restart` was measured of jobs of the application here; it
                   * is no rule of a simulation and no guess */
    struct firn_cost resize; /* like `restart` where it is not possible */
    bool can_resize;         /* engine and trainer resize it without a stop, as
                              * long as it runs, shares no GPU before and
                              * after, and is run in the same way (`how`) */
    double first_s; /* until the training begins after its first start, without
                     * progress; 0: no time, or not known */
    bool is_saved_known; /* of this job; else the view's ahead_s holds for all
                          */
    int nprepared;       /* jobs that the engine prepares at a time; 0: none */
    double saved_s; /* of the start if it came now: its processes were started
                     * in advance, and are this far */
    double end_s;   /* for which it holds its GPUs behind its last step; 0: for
                     * none, or not known */
    double idle_s;  /* of the time that is left of it by its rate: that it does
                     * not train, before its first step and behind its last */
};

/* Seconds of training, at the job's usual speed, that a change costs: the pause
 * and what is lost to slower steps before it. */
static inline double firn_cost_lost_s(const struct firn_cost *cost)
{
    double slower = cost->slowdown > 1 ? cost->slowdown : 1;
    return cost->pause_s + cost->prepare_s * (1 - 1 / slower);
}

FIRN_C_END

#endif
