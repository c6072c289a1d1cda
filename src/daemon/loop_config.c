/* loop_config.c - policy and settings: the operator's and the API's.
 *
 * The operator sets a policy and settings by flags and firn.yaml; the API may
 * change both while firnd runs. The most recent change wins. What the API set
 * is kept, beside the operator's of that time: after a restart it holds again
 * as long as the operator's are the same, and is forgotten when the flags or
 * the file set something else.
 *
 * On SIGHUP flags and file are read again, and the token. Another policy or
 * other settings of policies take effect at once, running jobs going on; what
 * cannot change while firnd runs is named in the log. A file that cannot be
 * read or has a mistake changes nothing.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <stdio.h>
#include <string.h>

/* --- what is kept ------------------------------------------------------- */

/* A line for the policy and for each setting of the operator. */
static void write_choice(const struct config *config, struct firn_buf *out)
{
    buf_printf(out, "%s\n", config->policy);
    for (size_t i = config->nlive; i < config->nsettings; i++)
        buf_printf(out, "%s\n", config->settings[i]);
}

static size_t key_of(const char *setting)
{
    return strcspn(setting, "=");
}

void loop_set(struct loop *loop, const char *setting)
{
    const char *kept = arena_strdup(&loop->desk.settings_text, setting);
    size_t n = key_of(setting);
    for (size_t i = loop->current->nsettings; i < loop->desk.settings.n; i++)
        if (key_of(loop->desk.settings.at[i]) == n &&
            strncmp(loop->desk.settings.at[i], setting, n) == 0) {
            loop->desk.settings.at[i] = kept;
            return;
        }
    vec_add(&loop->desk.settings, kept);
}

/* The operator's, then an empty line, then the API's. */
void loop_keep_choice(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    write_choice(loop->current, &text);
    buf_printf(&text, "\n%s\n", loop->desk.policy->name);
    for (size_t i = loop->current->nsettings; i < loop->desk.settings.n; i++)
        buf_printf(&text, "%s\n", loop->desk.settings.at[i]);
    enum firn_status status = store_put_meta(
        loop->store, "policy", (struct firn_bytes){text.at, text.n}, &err);
    book_wrote(loop->book, status, &err);
    buf_release(&text);
}

static void forget_choice(struct loop *loop)
{
    struct firn_error err = {0};
    enum firn_status status =
        store_put_meta(loop->store, "policy", (struct firn_bytes){"", 0}, &err);
    book_wrote(loop->book, status, &err);
}

/* --- at the start -------------------------------------------------------- */

/* The operator's policy: by name, or of a shared object by its path. Only the
 * command line and firn.yaml can name a path: a request over the API cannot
 * load code. */
static const struct firn_policy_def *policy_of(const struct config *config,
                                               struct firn_error *err)
{
    return strchr(config->policy, '/') != NULL
               ? firn_policy_load(config->policy, err)
               : firn_policy_find(config->policy, err);
}

/* The API's lines, if the operator's settings are still those of that time;
 * else NULL. */
static char *chosen(const struct loop *loop, struct firn_buf *kept)
{
    struct firn_error none = {0};
    struct firn_buf now = {0};
    char *at = NULL;
    write_choice(loop->current, &now);
    if (store_get_meta(loop->store, "policy", kept, &none) == FIRN_OK &&
        kept->n > now.n + 1 && memcmp(kept->at, now.at, now.n) == 0 &&
        kept->at[now.n] == '\n')
        at = kept->at + now.n + 1;
    else if (kept->n > 0)
        log_info("the flags or firn.yaml have changed: what "
                 "the API had set is forgotten");
    buf_release(&now);
    return at;
}

static void take_chosen(struct loop *loop, char *at,
                        const struct firn_policy_def **policy)
{
    struct firn_error err = {0};
    for (char *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        if (*policy != NULL) {
            loop_set(loop, at);
            continue;
        }
        *policy = firn_policy_find(at, &err);
        if (*policy == NULL) {
            log_warn("what the API had set is forgotten: %s", err.text);
            return;
        }
    }
}

/* Names firnd's own settings of the policy (config_live.c). */
static void log_live(const struct config *config,
                     const struct firn_policy_def *policy)
{
    size_t n = strlen(policy->name);
    for (size_t i = 0; i < config->nlive; i++)
        if (strncmp(config->settings[i], policy->name, n) == 0 &&
            config->settings[i][n] == '.')
            log_info("%s is set by firnd, unless you set it; 'firn policies "
                     "%s' has the default of the paper",
                     config->settings[i], policy->name);
}

enum firn_status loop_choose_policy(struct loop *loop,
                                    const struct firn_policy_def **out,
                                    struct firn_error *err)
{
    struct firn_buf kept = {0};
    const struct firn_policy_def *policy = NULL;
    for (size_t i = 0; i < loop->current->nsettings; i++)
        vec_add(&loop->desk.settings, loop->current->settings[i]);
    char *at = chosen(loop, &kept);
    if (at != NULL)
        take_chosen(loop, at, &policy);
    if (policy != NULL)
        log_info("policy %s, as the API set it", policy->name);
    buf_release(&kept);
    *out = policy != NULL ? policy : policy_of(loop->current, err);
    if (*out == NULL)
        return err->status;
    log_live(loop->current, *out);
    return FIRN_OK;
}

bool loop_unchoose(struct loop *loop, const struct firn_error *why,
                   const struct firn_policy_def **out)
{
    struct firn_error none = {0};
    const struct firn_policy_def *own = policy_of(loop->current, &none);
    if (loop->desk.settings.n == loop->current->nsettings && *out == own)
        return false;
    log_warn("what the API had set is forgotten: %s", why->text);
    loop->desk.settings.n = loop->current->nsettings;
    forget_choice(loop);
    *out = own;
    return own != NULL;
}

/* --- while it runs ------------------------------------------------------- */

static bool is_other(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

/* Those of the engine, as one text. */
static void write_engine(const struct loop *loop, const struct config *config,
                         struct firn_buf *out)
{
    size_t n = strlen(loop->dock.engine->name);
    buf_puts(out, "");
    for (size_t i = 0; i < config->nsettings; i++)
        if (strncmp(config->settings[i], loop->dock.engine->name, n) == 0 &&
            config->settings[i][n] == '.')
            buf_printf(out, "%s\n", config->settings[i]);
}

void loop_limit_jobs(struct loop *loop, const struct config *config)
{
    size_t jobs_max, user_jobs_max;
    config_job_limits(config, &jobs_max, &user_jobs_max);
    book_limits(loop->book, jobs_max, user_jobs_max);
}

/* What has changed and cannot is named. */
static void name_fixed(const struct loop *loop, const struct config *fresh)
{
    const struct config *now = loop->current;
    const struct {
        const char *name, *before, *after;
    } fixed[] = {{"engine", now->engine, fresh->engine},
                 {"gpus", now->gpus, fresh->gpus},
                 {"state", now->state, fresh->state},
                 {"socket", now->socket, fresh->socket},
                 {"socket-group", now->socket_group, fresh->socket_group},
                 {"launcher", now->launcher, fresh->launcher},
                 {"listen", now->listen, fresh->listen},
                 {"tls-cert", now->tls_cert, fresh->tls_cert},
                 {"tls-key", now->tls_key, fresh->tls_key}};
    struct firn_buf before = {0}, after = {0};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (is_other(fixed[i].before, fixed[i].after))
            log_warn("'%s' cannot change while firnd runs; it is taken at the "
                     "next start",
                     fixed[i].name);
    write_engine(loop, now, &before);
    write_engine(loop, fresh, &after);
    if (is_other(before.at, after.at))
        log_warn("settings of engine %s cannot change while firnd runs; they "
                 "are taken at the next start",
                 loop->dock.engine->name);
    buf_release(&before);
    buf_release(&after);
}

/* The operator's policy and settings take effect if they have changed. */
static enum firn_status take_policy(struct loop *loop,
                                    const struct config *fresh,
                                    struct firn_error *err)
{
    struct firn_buf before = {0}, after = {0};
    write_choice(loop->current, &before);
    write_choice(fresh, &after);
    bool is_same = strcmp(before.at, after.at) == 0;
    buf_release(&before);
    buf_release(&after);
    const struct firn_policy_def *policy =
        is_same ? loop->desk.policy : policy_of(fresh, err);
    if (policy == NULL)
        return err->status;
    VEC(const char *) settings = {0};
    for (size_t i = 0; i < fresh->nsettings; i++)
        vec_add(&settings, fresh->settings[i]);
    for (size_t i = loop->current->nsettings;
         is_same && i < loop->desk.settings.n; i++)
        vec_add(&settings, loop->desk.settings.at[i]);
    struct desk was = loop->desk;
    loop->desk.settings.at = settings.at;
    loop->desk.settings.n = settings.n;
    loop->desk.settings.cap = settings.cap;
    enum firn_status status =
        is_same ? FIRN_OK : loop_new_round(loop, policy, err);
    if (status != FIRN_OK) {
        loop->desk.settings = was.settings;
        vec_release(&settings);
        return status;
    }
    vec_release(&was.settings);
    if (!is_same)
        forget_choice(loop);
    return FIRN_OK;
}

static enum firn_status reread(struct loop *loop, struct config *fresh,
                               struct firn_error *err)
{
    const char *token = NULL;
    FIRN_TRY(config_flags(fresh, loop->argc, loop->argv, err));
    FIRN_TRY(config_finish(fresh, err));
    FIRN_TRY(config_token(fresh, &token, err));
    FIRN_TRY(loop_shares_reload(loop, fresh, err));
    FIRN_TRY(take_policy(loop, fresh, err));
    name_fixed(loop, fresh);
    loop_limit_jobs(loop, fresh);
    if (loop->http != NULL)
        http_set_token(loop->http, token);
    return FIRN_OK;
}

static void tell_reload(struct loop *loop, const char *kind, const char *text)
{
    struct firn_error err = {0};
    book_caller(loop->book, "SIGHUP");
    enum firn_status status =
        book_tell(loop->book, dock_now_s(&loop->dock), kind, text, &err);
    book_caller(loop->book, "");
    book_wrote(loop->book, status, &err);
}

void loop_reload(struct loop *loop)
{
    struct config fresh = {0};
    struct firn_error err = {0};
    if (loop->argv == NULL)
        return;
    if (reread(loop, &fresh, &err) != FIRN_OK) {
        log_warn("nothing is changed: %s", err.text);
        tell_reload(loop, "not-reloaded", err.text);
        config_release(&fresh);
        return;
    }
    config_release(&loop->reread);
    loop->reread = fresh;
    loop->current = &loop->reread;
    loop->dock.log_mib = fresh.keep.log_mib;
    char text[128];
    snprintf(text, sizeof text, "flags and files are read again; policy %s",
             loop->desk.policy->name);
    log_info("%s", text);
    tell_reload(loop, "reloaded", text);
}
