/* desk_ahead.c - which waiting jobs may be prepared, and which are.
 *
 * A job may be prepared if its trainer waits for its GPUs (firn/ahead.h): by
 * its own last report, by `can: ahead` of its job file, or because the trainers
 * of its application did. `can` without "ahead" declines it.
 *
 * Policies are told what the processes that a job has already save of its start
 * (firn_costs.saved_s): those of this moment, or, while a future is rolled, the
 * ones that the future has. The future is asked through a function, so that the
 * desk does not depend on dryrun.c.
 *
 * Cost: O(1).
 */
#include "daemon/abilities.h"
#include "daemon/desk.h"
#include <math.h>
#include <string.h>

bool desk_app_waits(const struct desk *desk, const char *app)
{
    return app[0] != '\0' &&
           livecosts_own_mean(desk->costs, app, LIVECOST_WAITS) > 0.5;
}

bool desk_can_ahead(const struct desk *desk, const struct live_job *job)
{
    const struct live_ask *ask = &job->ask;
    bool is_declared = strstr(ask->can, "ahead") != NULL;
    if (ask->inbox[0] != '\0' ||
        (ask->can[0] != '\0' && !is_declared && strcmp(ask->can, "all") != 0))
        return false;
    if (job->reported_s > 0 && job->last.can >= 0)
        return ((unsigned)job->last.can & FIRN_CAN_AHEAD) != 0;
    return is_declared || desk_app_waits(desk, ask->app);
}

size_t desk_prepares(const struct desk *desk)
{
    const struct dock *dock = desk->dock;
    return dock->engine->prepares != NULL
               ? (size_t)dock->engine->prepares(dock->engine_state)
               : 0;
}

bool desk_early_s(const struct desk *desk, const struct firn_job *job,
                  double *early_s)
{
    const struct desk_future *future = &desk->future;
    const struct track *track = desk_track(desk, desk_book_id(desk, job->id));
    *early_s = 0;
    if (desk->nprepared == 0 || job->held.nparts > 0)
        return false;
    if (future->early_s != NULL)
        *early_s = future->early_s(future->of, job->id);
    else if (track != NULL && track->early_s > 0)
        *early_s = dock_now_s(desk->dock) - track->early_s;
    return future->early_s != NULL || track != NULL;
}
