/* config_check.c - which values of the configuration firnd does not start with.
 *
 * Jobs run as the user of firnd, with all rights of that user. As root that is
 * every right on the host for every submitted command, so root has to be
 * allowed by name: firnd started as root by accident runs nothing.
 */
#include "base/str.h"
#include "daemon/config.h"
#include <string.h>

static bool is_yes_or_no(const char *text)
{
    return strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
}

enum firn_status config_check_values(const struct config *config,
                                     struct firn_error *err)
{
    if (config->allow_root != NULL && !is_yes_or_no(config->allow_root))
        return firn_fail(err, FIRN_EINVAL,
                         "'allow-root' is 'yes' or 'no', not '%.60s'",
                         config->allow_root);
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
