/* config_live.c - settings that firnd makes before the operator's.
 *
 * A policy under the name of a paper does what the paper says. Some papers
 * divide GPUs at rounds only, minutes apart, and a job submitted between two
 * rounds waits beside idle GPUs. That is right for comparing policies and wrong
 * for a user at a terminal, so firnd lets such a job start at once.
 *
 * (1) These are the first settings: firn.yaml, the command line and the API
 *     come later, and the last setting of an option counts.
 * (2) They are no choice of the operator: what the API had set is not forgotten
 *     because a new firnd has other settings here.
 */
#include "base/mem.h"
#include "daemon/config.h"
#include <string.h>

static const char *const live[] = {
    "icefrog.between=yes",
    "icefrog-batch.between=yes",
    "ymir.between=yes",
};
enum { NLIVE = sizeof live / sizeof *live };

void config_live(struct config *config)
{
    size_t n = config->nsettings;
    const char **all = mem_new(NLIVE + n, sizeof *all);
    memcpy(all, live, sizeof live);
    if (n > 0)
        memcpy(all + NLIVE, config->settings, n * sizeof *all);
    mem_free(config->settings);
    config->settings = all;
    config->nsettings = config->settings_cap = NLIVE + n;
    config->nlive = NLIVE;
}
