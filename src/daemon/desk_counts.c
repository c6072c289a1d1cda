/* desk_counts.c - how long jobs train whose users said how many iterations they
 * make (livecounts.h).
 *
 * The time of an iteration is measured of jobs that have ended, of all of them:
 * what counts is the number of the last step that the trainer reported, or the
 * number that the user gave where it reports none. So the first job of a kind
 * teaches what is expected of the next one, also if its user said nothing.
 *
 * A job that ended with frozen layers, whose batch the policy may change, or
 * that may have been trained together with another teaches nothing: its
 * iterations did not take equal times.
 *
 * Where both are known, iterations are believed before a duration that the user
 * gave, for the time of training; the order of jobs goes by that duration.
 *
 * Cost: a look into a hash table; O(jobs) when an expectation has moved.
 */
#include "daemon/desk.h"

double desk_counted_s(const struct desk *desk, const struct firn_job_spec *spec)
{
    char key[LIVECOUNTS_KEY];
    if (!(spec->iterations > 0) ||
        !livecounts_key(&desk->dock->cluster, spec, key))
        return 0;
    return livecounts_training_s(desk->counts, key, spec->iterations);
}

double desk_counted_whole_s(const struct desk *desk,
                            const struct firn_job_spec *spec)
{
    double counted_s = desk_counted_s(desk, spec);
    return counted_s > 0
               ? counted_s + livecosts_around_s(desk->costs, spec->app)
               : 0;
}

bool desk_steps_are_alike(const struct live_job *job)
{
    const struct live_ask *ask = &job->ask;
    return !(job->last.nfrozen > 0) && ask->batch_rule[0] == '\0' &&
           !ask->may_merge;
}

/* Those that a job has made which has ended well; 0: not known, or they were of
 * several kinds. */
static double iterations_of(const struct live_job *job)
{
    const struct live_ask *ask = &job->ask;
    if (!desk_steps_are_alike(job))
        return 0;
    bool is_reported = job->last.progress >= 1 && job->last.step > 0;
    return is_reported ? (double)job->last.step
                       : (double)ask->target_iterations;
}

bool desk_counts_ended(struct desk *desk, const struct live_job *job,
                       const struct track *track,
                       const struct firn_job_spec *spec)
{
    char key[LIVECOUNTS_KEY];
    double iterations = iterations_of(job);
    return track->trained_s > 0 && iterations > 0 &&
           livecounts_key(&desk->dock->cluster, spec, key) &&
           livecounts_ended(desk->counts, key, iterations, track->trained_s);
}
