/* config_check.c - values and users that firnd refuses to start with.
 *
 * Jobs run as the user of firnd. As root, every submitted command would have
 * all rights on the host; therefore root needs --allow-root.
 */
#include "base/str.h"
#include "daemon/config.h"
#include <string.h>

enum { JOBS_USUAL = 200000, COUNT_MAX = 100000000 };

static bool is_yes_or_no(const char *text)
{
    return strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
}

/* `fallback` if `text` is NULL; false if it is not a whole number. */
static bool read_count(const char *text, long fallback, long *out)
{
    *out = fallback;
    return text == NULL || str_int(text, 0, COUNT_MAX, out);
}

void config_job_limits(const struct config *config, size_t *jobs_max,
                       size_t *user_jobs_max)
{
    long jobs = JOBS_USUAL, of_user = 0;
    read_count(config->jobs_max, JOBS_USUAL, &jobs);
    read_count(config->user_jobs_max, 0, &of_user);
    *jobs_max = (size_t)jobs;
    *user_jobs_max = (size_t)of_user;
}

enum firn_status config_check_values(const struct config *config,
                                     struct firn_error *err)
{
    if (config->allow_root != NULL && !is_yes_or_no(config->allow_root))
        return firn_fail(err, FIRN_EINVAL,
                         "'allow-root' is '%.60s'; use yes or no",
                         config->allow_root);
    const struct {
        const char *name, *text;
    } counts[] = {{"jobs-max", config->jobs_max},
                  {"user-jobs-max", config->user_jobs_max}};
    long ignored;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!read_count(counts[i].text, 0, &ignored))
            return firn_fail(
                err, FIRN_EINVAL,
                "'%s' is '%.60s': expected a whole number from 0 (no "
                "limit) to %d",
                counts[i].name, counts[i].text, COUNT_MAX);
    return FIRN_OK;
}

enum firn_status config_check_user(const struct config *config, uid_t uid,
                                   struct firn_error *err)
{
    bool is_allowed =
        config->allow_root != NULL && strcmp(config->allow_root, "yes") == 0;
    if (uid != 0 || is_allowed)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "firnd was started as root, and every job would run as "
                     "root: start firnd as another user, or allow it by "
                     "--allow-root ('allow-root: yes' in firn.yaml)");
}
