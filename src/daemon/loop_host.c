/* loop_host.c - what the HTTP API asks of the loop.
 *
 * The API has changed the book by the time it calls; here the round and the
 * engine follow. See daemon/api.h for the contract.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "daemon/fits.h"
#include "daemon/loopwork.h"
#include "engine/launcher.h"
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static double now_s(void *arg)
{
    return dock_now_s(&((struct loop *)arg)->dock);
}

static size_t nodes(void *arg, const struct api_node **out)
{
    struct loop *loop = arg;
    const struct state *state = round_state(loop->desk.round);
    int n = loop->dock.cluster.nnodes;
    if (loop->nodes == NULL)
        loop->nodes = mem_new((size_t)n, sizeof *loop->nodes);
    for (int i = 0; i < n; i++) {
        const struct firn_node *node = &loop->dock.cluster.nodes[i];
        const struct firn_gpu_type *type =
            &loop->dock.cluster.types[node->type];
        loop->nodes[i] = (struct api_node){
            .name = dock_node_name(&loop->dock, i),
            .type = type->name,
            .mem_gib = type->mem_gib,
            .ngpus = node->ngpus,
            .nfree = loop->dock.is_drained[i] && !loop->dock.is_down[i]
                         ? loop_node_idle(loop, i)
                         : state->map.node_free[i],
            .noutside = foreign_count(&loop->desk, i),
            .is_up = !loop->dock.is_down[i],
            .is_drained = loop->dock.is_drained[i],
            .why = loop->dock.is_down[i] ? dock_node_why(&loop->dock, i) : ""};
    }
    *out = loop->nodes;
    return (size_t)n;
}

static enum firn_status drain(void *arg, const char *name, bool is_drained,
                              struct firn_error *err)
{
    struct loop *loop = arg;
    firn_node_id node = 0;
    if (!dock_node_find(&loop->dock, name, &node))
        return firn_fail(err, FIRN_ENOENT, "there is no node '%.40s'", name);
    return loop_drain(loop, node, is_drained, err);
}

static void gpus_text(void *arg, const char *held, struct firn_buf *out)
{
    dock_gpus_text(&((struct loop *)arg)->dock, held, out);
}

static const char *trouble(void *arg)
{
    return loop_trouble(arg);
}

static void changed(void *arg, struct live_job *job)
{
    struct loop *loop = arg;
    loop_after_add(loop, job);
    if (loop->desk.is_thinking)
        vec_add(&loop->desk.arrived, job->id);
    else
        loop_changed(loop, job);
}

static void cancel(void *arg, struct live_job *job)
{
    loop_cancelled(arg, job);
}

static bool kill_now(void *arg, struct live_job *job)
{
    return dock_kill(&((struct loop *)arg)->dock, job->id);
}

static void reported(void *arg, struct live_job *job)
{
    loop_reported(arg, job);
}

static bool gpu_load(void *arg, int node, int gpu, firn_job_id job,
                     struct firn_load *out)
{
    const struct dock *dock = &((const struct loop *)arg)->dock;
    return dock->engine->gpu_load != NULL &&
           dock->engine->gpu_load(dock->engine_state, node, gpu, job, out);
}

static bool is_outside(void *arg, int node, int gpu)
{
    return foreign_has(&((const struct loop *)arg)->desk, node, gpu);
}

static bool load(void *arg, const struct live_job *job, struct firn_load *out)
{
    const struct loop *loop = arg;
    return loop->dock.engine->load != NULL &&
           loop->dock.engine->load(loop->dock.engine_state, job->id, out);
}

static void waits(void *arg, const struct live_job *job,
                  enum live_reason *reason, char why[LIVE_TEXT])
{
    why_waits(arg, job, reason, why);
}

static void not_merged(void *arg, const struct live_job *job,
                       struct firn_buf *json)
{
    desk_not_merged(&((struct loop *)arg)->desk, job, json);
}

static void memory(void *arg, const struct live_job *job, struct firn_buf *json)
{
    loop_memory_json(arg, job, json);
}

static enum firn_status why(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err)
{
    return why_job(arg, job, json, err);
}

static void costs(void *arg, struct firn_buf *json)
{
    loop_costs_json(arg, json);
}

static double cost(void *arg, const char *app, enum livecost which)
{
    const struct loop *loop = arg;
    return livecosts_mean(loop->desk.costs, app, which);
}

static double slowdown(void *arg, const char *app, const char *other)
{
    const struct loop *loop = arg;
    struct firn_job one = {.spec = {.name = "", .app = app}, .type_mask = 1};
    struct firn_job two = {.spec = {.name = "", .app = other}, .type_mask = 1};
    return liveforecast_slowdown(loop->desk.forecast,
                                 (struct liveforecast_job){-2, &one},
                                 (struct liveforecast_job){-2, &two});
}

static enum firn_status eta(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err)
{
    double began_s = clock_elapsed_s();
    enum firn_status status = dryrun_eta(arg, job, json, err);
    ((struct loop *)arg)->watch.forecast_s += clock_elapsed_s() - began_s;
    return status;
}

static enum firn_status forecast(void *arg, bool is_fresh,
                                 struct firn_buf *json, struct firn_error *err)
{
    double began_s = clock_elapsed_s();
    enum firn_status status = dryrun_all(arg, is_fresh, json, err);
    ((struct loop *)arg)->watch.forecast_s += clock_elapsed_s() - began_s;
    return status;
}

static enum firn_status plan(void *arg, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err)
{
    double began_s = clock_elapsed_s();
    enum firn_status status = dryrun_plan(arg, ask, json, err);
    ((struct loop *)arg)->watch.forecast_s += clock_elapsed_s() - began_s;
    return status;
}

static void board_url(void *arg, struct firn_buf *out)
{
    const struct loop *loop = arg;
    if (loop->http != NULL)
        config_board_url(loop->config, http_port(loop->http), out);
}

static void handled(void *arg, const char *method, const char *route,
                    double seconds)
{
    struct loop *loop = arg;
    turnwatch_request(&loop->watch, method, route, seconds);
}

static bool log_path(void *arg, const struct live_job *job, char *out,
                     size_t max)
{
    const struct loop *loop = arg;
    int n = snprintf(out, max, "%s/jobs/%d/log", loop->config->state, job->id);
    return n > 0 && (size_t)n < max;
}

/* --- the policy ---------------------------------------------------------- */

static void policy(void *arg, struct api_policy *out)
{
    struct loop *loop = arg;
    size_t n = strlen(loop->desk.policy->name);
    loop->shown.n = 0;
    arena_reset(&loop->shown_text);
    for (size_t i = 0; i < loop->desk.settings.n; i++) {
        const char *setting = loop->desk.settings.at[i];
        const char *equals = strchr(setting, '=');
        if (strncmp(setting, loop->desk.policy->name, n) != 0 ||
            setting[n] != '.' || equals == NULL)
            continue;
        char *name = arena_strdup(&loop->shown_text, setting + n + 1);
        name[equals - setting - (ptrdiff_t)n - 1] = '\0';
        struct api_setting shown = {name, equals + 1};
        vec_add(&loop->shown, shown);
    }
    *out =
        (struct api_policy){loop->desk.policy, loop->shown.at, loop->shown.n};
}

static enum firn_status set_policy(void *arg, const char *name,
                                   const struct api_setting *settings,
                                   size_t nsettings, struct firn_error *err)
{
    struct loop *loop = arg;
    const struct firn_policy_def *def =
        name != NULL ? firn_policy_find(name, err) : loop->desk.policy;
    if (def == NULL)
        return err->status;
    size_t before = loop->desk.settings.n;
    const char **were = mem_new(before + 1, sizeof *were);
    for (size_t i = 0; i < before; i++)
        were[i] = loop->desk.settings.at[i];
    for (size_t i = 0; i < nsettings; i++) {
        struct firn_buf text = {0};
        buf_printf(&text, "%s.%s=%s", def->name, settings[i].name,
                   settings[i].value);
        loop_set(loop, text.at);
        buf_release(&text);
    }
    enum firn_status status = loop_new_round(loop, def, err);
    if (status == FIRN_OK)
        loop_keep_choice(loop);
    for (size_t i = 0; status != FIRN_OK && i < before; i++)
        loop->desk.settings.at[i] = were[i];
    if (status != FIRN_OK)
        loop->desk.settings.n = before;
    mem_free(were);
    return status;
}

static enum firn_status fits(void *arg, const struct live_ask *ask,
                             struct firn_error *err)
{
    const struct loop *loop = arg;
    FIRN_TRY(fits_deadline(ask, dock_now_s(&loop->dock), err));
    if (!loop->dock.engine->is_remote) /* its hosts may have other folders */
        FIRN_TRY(fits_workdir(ask, err));
    return fits_check(&loop->dock.cluster, ask, err);
}

static enum firn_status admits(void *arg, struct live_ask *ask,
                               struct firn_error *err)
{
    return loop_admits(arg, ask, err);
}

static void shares(void *arg, struct firn_buf *json)
{
    loop_shares_json(arg, json);
}

/* The name of firnd's own user. */
static bool is_own_name(const char *user)
{
    char room[4096];
    struct passwd entry, *found = NULL;
    return getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 &&
           found != NULL && strcmp(entry.pw_name, user) == 0;
}

/* With a launcher the launcher says whose jobs it runs. Without one jobs run as
 * firnd's own user: that user and operators, who may do all that firnd may,
 * submit. */
static enum firn_status may_run(void *arg, const struct http_caller *caller,
                                struct firn_error *err)
{
    const struct loop *loop = arg;
    const char *launcher = loop->config->launcher;
    struct launchmsg msg = {.kind = LAUNCHMSG_CHECK};
    long number;
    if (launcher != NULL) {
        if (!str_copy(msg.user, sizeof msg.user, caller->user) ||
            strchr(msg.user, ' ') != NULL)
            return firn_fail(err, FIRN_EREFUSED,
                             "'%.60s' is no user of firnd's host",
                             caller->user);
        return launcher_ask(launcher, &msg, &number, err);
    }
    if (caller->role == ACCESS_OPERATOR || is_own_name(caller->user))
        return FIRN_OK;
    return firn_fail(err, FIRN_EREFUSED,
                     "this firnd runs all jobs as its own user and takes none "
                     "of user %.60s: its administrator has to start "
                     "firn-launch (docs/admin.md)",
                     caller->user);
}

static enum access_role role_of_uid(void *arg, uid_t uid, const char *user)
{
    const struct config *config = ((struct loop *)arg)->current;
    const struct access_lists lists = {config->operators, config->users,
                                       config->viewers};
    return access_role_of_uid(&lists, uid, user);
}

struct api_host loop_host(struct loop *loop)
{
    return (struct api_host){
        .arg = loop,
        .book = loop->book,
        .store = loop->store,
        .metrics = loop->metrics,
        .audit = loop->audit,
        .engine = loop->dock.engine->name,
        .now_s = now_s,
        .nodes = nodes,
        .drain = drain,
        .gpus_text = loop->dock.engine->node_name != NULL ? gpus_text : NULL,
        .trouble = trouble,
        .changed = changed,
        .cancel = cancel,
        .kill = kill_now,
        .reported = reported,
        .load = load,
        .gpu_load = gpu_load,
        .is_outside = is_outside,
        .policy = policy,
        .set_policy = set_policy,
        .waits = waits,
        .not_merged = not_merged,
        .memory = memory,
        .why = why,
        .eta = eta,
        .forecast = forecast,
        .plan = plan,
        .costs = costs,
        .cost = cost,
        .slowdown = slowdown,
        .board_url = board_url,
        .handled = handled,
        .fits = fits,
        .admits = admits,
        .shares = shares,
        .may_run = may_run,
        .role_of_uid = role_of_uid,
        .log_path = log_path};
}
