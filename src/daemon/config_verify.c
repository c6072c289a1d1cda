/* config_verify.c - `firnd --check-config`: a dry start of the configuration.
 *
 * Looks for every mistake in options and firn.yaml that would stop firnd or
 * disable a setting, without opening the state directory, a socket or a
 * device: an administrator runs it as root before a restart. What depends on
 * the moment (a full disk, a driver that does not answer, another firnd) is not
 * looked at. config_finish() has checked the values by themselves; this file
 * adds what needs the tables of policies and engines, and the files and groups
 * that are named.
 *
 * (1) Nothing on disk is written.
 * (2) Settings of all policies are checked, not only of the chosen one: a
 *     policy can be changed while firnd runs.
 *
 * Cost: a state of each policy that has a setting, for a moment.
 */
#define _DEFAULT_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "core/accounts.h"
#include "daemon/config.h"
#include <errno.h>
#include <firn/cluster.h>
#include <firn/engine.h>
#include <firn/policy.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The table of options of a policy or an engine, and the size of its state. */
struct owner {
    const struct firn_option *options;
    size_t state_size;
};

static bool find_owner(const char *name, struct owner *out)
{
    struct firn_error none = {0};
    const struct firn_policy_def *policy = firn_policy_find(name, &none);
    const struct firn_engine_def *engine =
        policy == NULL ? firn_engine_find(name, &none) : NULL;
    if (policy != NULL)
        *out = (struct owner){policy->options, policy->state_size};
    else if (engine != NULL)
        *out = (struct owner){engine->options, engine->state_size};
    return policy != NULL || engine != NULL;
}

static enum firn_status verify_option(const struct owner *owner,
                                      const char *name, const char *option,
                                      const char *value, struct firn_error *err)
{
    void *state = mem_new(1, owner->state_size);
    firn_options_default(owner->options, state);
    enum firn_status status =
        firn_option_set(owner->options, state, name, option, value, err);
    mem_free(state);
    return status;
}

/* config_flags() and config_text() have seen a dot before the '='. */
static enum firn_status verify_setting(const char *setting,
                                       struct firn_error *err)
{
    char name[FIRN_NAME_MAX], option[FIRN_NAME_MAX];
    const char *dot = strchr(setting, '.'), *equals = strchr(setting, '=');
    struct owner owner;
    if (dot == NULL || equals == NULL || dot > equals ||
        (size_t)(dot - setting) >= sizeof name ||
        (size_t)(equals - dot) >= sizeof option)
        return firn_fail(err, FIRN_EINVAL,
                         "setting '%.80s' is not owner.option=value", setting);
    snprintf(name, sizeof name, "%.*s", (int)(dot - setting), setting);
    snprintf(option, sizeof option, "%.*s", (int)(equals - dot - 1), dot + 1);
    if (!find_owner(name, &owner))
        return firn_fail(err, FIRN_EINVAL,
                         "setting '%.80s' is of no policy or engine", setting);
    return verify_option(&owner, name, option, equals + 1, err);
}

static enum firn_status verify_engine(const struct config *config,
                                      struct firn_error *err)
{
    struct firn_buf url = {0};
    const struct firn_engine_def *engine =
        firn_engine_find(config->engine, err);
    if (engine == NULL)
        return err->status;
    enum firn_status status =
        config_url(config, engine->is_remote, 0, &url, err);
    buf_release(&url);
    if (status != FIRN_OK || config->gpus == NULL)
        return status;
    const struct owner owner = {engine->options, engine->state_size};
    FIRN_TRY(verify_option(&owner, engine->name, "gpus", config->gpus, err));
    struct firn_cluster cluster = {0};
    FIRN_TRY(firn_cluster_open(&cluster, config->gpus, err));
    firn_cluster_release(&cluster);
    return FIRN_OK;
}

static enum firn_status verify_group(const char *name, struct firn_error *err)
{
    struct group entry, *found = NULL;
    char room[8192];
    if (name == NULL ||
        (getgrnam_r(name, &entry, room, sizeof room, &found) == 0 &&
         found != NULL))
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL, "socket-group: no group '%.60s'", name);
}

static enum firn_status verify_shares(const char *path, struct firn_error *err)
{
    struct accounts *accounts = NULL;
    if (path == NULL)
        return FIRN_OK;
    FIRN_TRY(accounts_load(&accounts, path, err));
    accounts_free(accounts);
    return FIRN_OK;
}

enum firn_status config_verify(struct config *config, struct firn_error *err)
{
    const char *token = NULL, *certificate = NULL, *key = NULL;
    FIRN_TRY(config_token(config, &token, err));
    FIRN_TRY(config_tls(config, &certificate, &key, err));
    const struct firn_policy_def *policy =
        strchr(config->policy, '/') != NULL
            ? firn_policy_load(config->policy, err)
            : firn_policy_find(config->policy, err);
    if (policy == NULL)
        return err->status;
    FIRN_TRY(verify_engine(config, err));
    FIRN_TRY(verify_group(config->socket_group, err));
    FIRN_TRY(verify_shares(config->shares, err));
    if (config->notify_command != NULL &&
        access(config->notify_command, X_OK) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "notify-command: '%.200s' cannot be run: %s",
                         config->notify_command, strerror(errno));
    for (size_t i = 0; i < config->nsettings; i++) /* (2) */
        FIRN_TRY(verify_setting(config->settings[i], err));
    return FIRN_OK;
}
