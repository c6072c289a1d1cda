/* config_check.c - values and users that firnd refuses to start with.
 *
 * Jobs run as the user of firnd. As root, every submitted command would have
 * all rights on the host; therefore root needs --allow-root.
 *
 * A token that goes over a network without TLS can be read on its way and used
 * by others; therefore an address beyond this host needs a certificate, or the
 * operator's word that the network is private (--listen-plain).
 */
#include "base/str.h"
#include "core/jobvalue.h"
#include "daemon/access.h"
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

/* 127.0.0.1:7070 and [::1]:7070 are reached from this host only. */
static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

static enum firn_status check_listen(const struct config *config,
                                     struct firn_error *err)
{
    bool is_plain = config->listen_plain != NULL &&
                    strcmp(config->listen_plain, "yes") == 0;
    if ((config->tls_cert == NULL) != (config->tls_key == NULL))
        return firn_fail(err, FIRN_EINVAL,
                         "TLS needs both --tls-cert FILE and --tls-key FILE");
    if (config->listen == NULL || config->tls_cert != NULL || is_plain ||
        is_loopback(config->listen))
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "--listen %.100s can be reached from other hosts, and "
                     "without TLS tokens can be read on the way: give "
                     "--tls-cert FILE and --tls-key FILE, or --listen-plain on "
                     "a private network",
                     config->listen);
}

static enum firn_status check_lists(const struct config *config,
                                    struct firn_error *err)
{
    if (config->operators != NULL)
        FIRN_TRY(access_check_list("operators", config->operators, err));
    if (config->users != NULL)
        FIRN_TRY(access_check_list("users", config->users, err));
    if (config->viewers != NULL)
        FIRN_TRY(access_check_list("viewers", config->viewers, err));
    return FIRN_OK;
}

enum firn_status config_check_values(const struct config *config,
                                     struct firn_error *err)
{
    const struct {
        const char *name, *text;
    } switches[] = {{"allow-root", config->allow_root},
                    {"listen-plain", config->listen_plain}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (switches[i].text != NULL && !is_yes_or_no(switches[i].text))
            return firn_fail(err, FIRN_EINVAL, "'%s' is '%.60s'; use yes or no",
                             switches[i].name, switches[i].text);
    FIRN_TRY(check_lists(config, err));
    FIRN_TRY(check_listen(config, err));
    double after_s = 0;
    const char *should = config->idle_after != NULL
                             ? value_time_s(config->idle_after, &after_s)
                             : NULL;
    if (should != NULL)
        return firn_fail(err, FIRN_EINVAL, "'idle-after' is '%.60s', not %s",
                         config->idle_after, should);
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
