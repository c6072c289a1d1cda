/* refuse.c - the list of options that only the default simulator has. */
#include "compat/refuse.h"
#include <math.h>
#include <string.h>

/* An option, by its description in the error. */
struct extra {
    const char *text;
    bool is_set;
};

static enum firn_status refuse(const char *artifact, const struct extra *extras,
                               size_t n, struct firn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (extras[i].is_set)
            return firn_fail(err, FIRN_EINVAL, "%s never had %s", artifact,
                             extras[i].text);
    return FIRN_OK;
}

/* Options of interval and restart cost, some of which an artifact may have. */
static enum firn_status refuse_rounds(const char *artifact,
                                      const struct firn_sim_options *options,
                                      unsigned but, struct firn_error *err)
{
    const struct firn_sim_options usual = firn_sim_defaults();
    bool has_intervals = but & REFUSE_BUT_INTERVALS;
    bool has_restarts = but & REFUSE_BUT_RESTARTS;
    const struct extra extras[] = {
        {"another interval", !has_intervals && options->interval_s > 0},
        {"rounds of a part of a second",
         options->interval_s != floor(options->interval_s)},
        {"a quantum", options->quantum_s > 0},
        {"restart costs but its own",
         !has_restarts && options->restart_s != usual.restart_s},
        {"restart costs by application", options->nrestarts > 0},
        {"resizes without a stop", options->resizes},
        {"a choice whether the first start costs",
         options->charges_first_start},
        {"quiet starts", options->quiet_starts},
        {"prepared starts", options->prepares > 0},
        {"quiet ends", options->nends > 0},
    };
    return refuse(artifact, extras, sizeof extras / sizeof *extras, err);
}

enum firn_status refuse_options(const char *artifact,
                                const struct firn_sim_options *options,
                                unsigned but, struct firn_error *err)
{
    const struct firn_sim_options usual = firn_sim_defaults();
    const struct firn_sim_noise *noise = &options->noise;
    const struct extra extras[] = {
        {"noise", noise->throughput > 0 || noise->sharing > 0 ||
                      noise->transfer > 0 || noise->report > 0},
        {"failures", options->failures != NULL || options->mtbf_s > 0},
        {"checkpoint intervals", options->checkpoint_s > 0},
        {"elastic bounds", options->elastic_max > 0},
        {"a time to hand GPUs over", options->handover_s > 0},
        {"shared GPUs", options->shares},
        {"frozen layers", options->freeze != usual.freeze},
        {"a scaling exponent", options->scaling != usual.scaling},
        {"a slowdown of sharing",
         options->share_slowdown != usual.share_slowdown},
    };
    FIRN_TRY(refuse(artifact, extras, sizeof extras / sizeof *extras, err));
    return refuse_rounds(artifact, options, but, err);
}

enum firn_status refuse_no_tables(const char *artifact,
                                  const struct firn_sim_options *options,
                                  const char *holds, struct firn_error *err)
{
    const char *folder = options->profiles;
    if (folder == NULL || strcmp(folder, "none") == 0 ||
        strcmp(folder, "builtin") == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s needs its measured tables: name the folder that "
                         "has %s (--profiles, or FIRN_DATA)",
                         artifact, holds);
    return FIRN_OK;
}
