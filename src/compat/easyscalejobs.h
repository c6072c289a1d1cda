/* easyscalejobs.h - a workload of EasyScale as its artifact's table of jobs.
 */
#ifndef COMPAT_EASYSCALEJOBS_H
#define COMPAT_EASYSCALEJOBS_H
#include "base/arena.h"
#include "compat/easyscalemenu.h"
#include <firn/sim.h>

enum { ES_APPS_MAX = 16 };

struct es_job {
    struct firn_job_spec spec; /* for core; `line` is the first row of the
                                * name, the order of jobs in the table */
    const struct es_app *app;
    int batch, workers; /* of one EST; maxP */
    int preferred;      /* type */
    bool mixes;         /* may use several types at once */
    double samples;     /* all its work */
};

/* Zeroed, it is empty. */
struct es_jobs {
    struct arena text;
    struct es_app apps[ES_APPS_MAX];
    int napps;
    VEC(struct es_job) list; /* by submission, then row */
};

/* Reads options->trace and the tables easyscale/apps.csv and
 * easyscale/determinism_overhead.csv of options->profiles, and, where the world
 * is compat_easyscale_fitted, context_switch.csv. `trace` becomes the
 * reader of the workload, at its end; the caller closes it. FIRN_EINVAL with
 * file and line for what the artifact could not use either. Release `out` even
 * then. */
enum firn_status es_jobs_read(struct es_jobs *out, struct firn_trace **trace,
                              const struct firn_sim_options *options,
                              struct firn_error *err);
void es_jobs_release(struct es_jobs *jobs);

/* All workers at once on the preferred type: what durations refer to. */
struct es_offer es_job_whole(const struct es_job *job);

/* Samples a second with that many workers on each GPU of a type. */
double es_job_pace(const struct es_job *job, const int ests[ES_TYPES]);

#endif
