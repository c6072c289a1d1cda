/* dock.c - the engine: opened with its settings, asked, closed.
 *
 * "owner.option=value" settings of the engine are its own; those of policies
 * are passed over, those of neither are refused.
 */
#include "daemon/dock.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include <firn/policy.h>
#include <stdio.h>
#include <string.h>

/* --- opening ------------------------------------------------------------- */

static enum firn_status engine_option(struct dock *dock, const char *name,
                                      const char *value, struct firn_error *err)
{
    return firn_option_set(dock->engine->options, dock->engine_state,
                           dock->engine->name, name, value, err);
}

/* "local.cgroup=off" for engine local; of a policy: passed over. */
static enum firn_status engine_setting(struct dock *dock, const char *setting,
                                       struct firn_error *err)
{
    char owner[FIRN_NAME_MAX], option[FIRN_NAME_MAX];
    const char *dot = strchr(setting, '.'), *equals = strchr(setting, '=');
    struct firn_error unknown = {0};
    if (dot == NULL || equals == NULL || dot > equals ||
        (size_t)(dot - setting) >= sizeof owner ||
        (size_t)(equals - dot) >= sizeof option)
        return firn_fail(err, FIRN_EINVAL,
                         "setting '%.80s' is not owner.option=value", setting);
    snprintf(owner, sizeof owner, "%.*s", (int)(dot - setting), setting);
    snprintf(option, sizeof option, "%.*s", (int)(equals - dot - 1), dot + 1);
    if (strcmp(owner, dock->engine->name) == 0)
        return engine_option(dock, option, equals + 1, err);
    if (firn_policy_find(owner, &unknown) == NULL &&
        firn_engine_find(owner, &unknown) == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "setting '%.80s' is of no policy or engine", setting);
    return FIRN_OK;
}

/* An engine that keeps something of its own is told where (firn/engine.h). */
static void tell_state(struct dock *dock, const char *folder)
{
    struct firn_error err = {0};
    const struct firn_option *at = dock->engine->options;
    while (at != NULL && at->name != NULL && strcmp(at->name, "state") != 0)
        at++;
    if (at != NULL && at->name != NULL &&
        engine_option(dock, at->name, folder, &err) != FIRN_OK)
        log_warn("engine %s keeps nothing: %s", dock->engine->name, err.text);
}

enum firn_status dock_open(struct dock *dock,
                           const struct firn_engine_def *engine, bool has_http,
                           const struct firn_engine_host *host,
                           struct firn_error *err)
{
    const struct config *config = dock->config;
    dock->engine =
        engine != NULL ? engine : firn_engine_find(config->engine, err);
    if (dock->engine == NULL)
        return err->status;
    if (has_http) { /* a mistake is told before anything is touched */
        FIRN_TRY(
            config_url(config, dock->engine->is_remote, 0, &dock->url, err));
        buf_clear(&dock->url);
    }
    dock->engine_state = mem_new(1, dock->engine->state_size);
    firn_options_default(dock->engine->options, dock->engine_state);
    tell_state(dock, config->state);
    if (config->gpus != NULL)
        FIRN_TRY(engine_option(dock, "gpus", config->gpus, err));
    for (size_t i = 0; i < config->nsettings; i++)
        FIRN_TRY(engine_setting(dock, config->settings[i], err));
    FIRN_TRY(dock->engine->open(dock->engine_state, err));
    dock->is_open = true;
    FIRN_TRY(dock_mark(dock, err));
    struct firn_engine_host marked = *host;
    marked.mark = dock->mark;
    FIRN_TRY(dock->engine->attach(dock->engine_state, &marked, err));
    FIRN_TRY(dock->engine->discover(dock->engine_state, &dock->cluster, err));
    dock_nodes_open(dock);
    return dock_number_nodes(dock, err);
}

void dock_close(struct dock *dock)
{
    if (dock->is_open)
        dock->engine->close(dock->engine_state);
    mem_free(dock->engine_state);
    dock_launch_free(dock);
    dock_nodes_close(dock);
    firn_cluster_release(&dock->cluster);
    vec_release(&dock->older);
    vec_release(&dock->unkept);
    buf_release(&dock->url);
}

/* --- asking -------------------------------------------------------------- */

double dock_now_s(const struct dock *dock)
{
    return dock->engine->now_s(dock->engine_state);
}

enum firn_phase dock_phase(const struct dock *dock, firn_job_id id)
{
    return dock->engine->phase(dock->engine_state, id);
}

bool dock_kill(struct dock *dock, firn_job_id id)
{
    if (dock->engine->kill == NULL)
        return false;
    dock->engine->kill(dock->engine_state, id);
    return true;
}

void dock_cancel(struct dock *dock, firn_job_id id)
{
    dock->engine->cancel(dock->engine_state, id);
}

const char *dock_trouble(const struct dock *dock)
{
    return dock->engine->trouble != NULL
               ? dock->engine->trouble(dock->engine_state)
               : NULL;
}

bool dock_bars(const struct dock *dock, firn_job_id id, struct firn_bars *out)
{
    *out = (struct firn_bars){.why = ""};
    return dock->engine->bars != NULL &&
           dock->engine->bars(dock->engine_state, id, out);
}

const char *dock_job_trouble(const struct dock *dock, firn_job_id id)
{
    return dock->engine->job_trouble != NULL
               ? dock->engine->job_trouble(dock->engine_state, id)
               : NULL;
}

double dock_starts_in_s(const struct dock *dock, firn_job_id id)
{
    return dock->engine->starts_in_s != NULL
               ? dock->engine->starts_in_s(dock->engine_state, id)
               : 0;
}

const char *dock_no_sharing(const struct dock *dock)
{
    return dock->engine->no_sharing != NULL
               ? dock->engine->no_sharing(dock->engine_state)
               : NULL;
}
