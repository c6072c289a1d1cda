/* api_node.c - nodes and the policy on the API.
 *
 * The options of a policy are shown with defaults and ranges from the policy's
 * own table; values are set as texts, which the host reads by that table.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/apiwork.h"
#include <stdio.h>
#include <string.h>

enum { OPTIONS_MAX = 64, VALUE_MAX = 64 };

/* --- nodes ------------------------------------------------------------- */

/* The numbers of the GPUs that foreign processes use; nothing for none. */
static void add_outside(struct firn_buf *out, const struct api_host *host,
                        const struct api_node *node, int number)
{
    if (node->noutside == 0 || host->is_outside == NULL)
        return;
    jsonbuf_open(out, "outside_gpus", '[');
    for (int i = 0; i < node->ngpus; i++)
        if (host->is_outside(host->arg, number, i))
            jsonbuf_int(out, NULL, i);
    jsonbuf_close(out, ']');
}

static void add_node(struct firn_buf *out, const struct api_host *host,
                     const struct api_node *node, int number)
{
    jsonbuf_open(out, NULL, '{');
    jsonbuf_text(out, "name", node->name);
    jsonbuf_text(out, "type", node->type);
    jsonbuf_double(out, "mem_gib", node->mem_gib);
    jsonbuf_int(out, "gpus", node->ngpus);
    jsonbuf_int(out, "free", node->nfree);
    jsonbuf_int(out, "outside", node->noutside);
    add_outside(out, host, node, number);
    jsonbuf_bool(out, "up", node->is_up);
    jsonbuf_bool(out, "drained", node->is_drained);
    if (node->why != NULL && node->why[0] != '\0')
        jsonbuf_text(out, "why", node->why);
    jsonbuf_close(out, '}');
}

void api_node_list(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    const struct api_node *nodes;
    struct firn_buf out = {0};
    if (!api_has(call, host->nodes != NULL))
        return;
    size_t n = host->nodes(host->arg, &nodes);
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_open(&out, "nodes", '[');
    for (size_t i = 0; i < n; i++)
        add_node(&out, host, &nodes[i], (int)i);
    jsonbuf_close(&out, ']');
    const char *trouble =
        host->trouble != NULL ? host->trouble(host->arg) : NULL;
    if (trouble != NULL)
        jsonbuf_text(&out, "trouble", trouble);
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

/* Is the node in that state already? Then there is no change and no event. */
static bool is_so(const struct api_host *host, const char *name,
                  bool is_drained)
{
    const struct api_node *nodes;
    size_t n = host->nodes != NULL ? host->nodes(host->arg, &nodes) : 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(nodes[i].name, name) == 0)
            return nodes[i].is_drained == is_drained;
    return false;
}

/* Adds an event that belongs to no job; a failure shows at the commit. */
static void tell(const struct api_host *host, const char *kind,
                 const char *text)
{
    struct firn_error ignored;
    book_tell(host->book, host->now_s(host->arg), kind, text, &ignored);
}

static void drain(struct api_call *call, bool is_drained)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf out = {0};
    struct firn_error err;
    if (!api_has(call, host->drain != NULL))
        return;
    bool was_so = is_so(host, call->word, is_drained);
    if (host->drain(host->arg, call->word, is_drained, &err) != FIRN_OK) {
        api_fail(call, &err);
        return;
    }
    if (!was_so) {
        buf_printf(&out, "node %s takes %s", call->word,
                   is_drained ? "no new jobs" : "jobs again");
        tell(host, is_drained ? "drained" : "undrained", out.at);
        buf_clear(&out);
    }
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "name", call->word);
    jsonbuf_bool(&out, "drained", is_drained);
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

void api_node_drain(struct api_call *call)
{
    drain(call, true);
}

void api_node_undrain(struct api_call *call)
{
    drain(call, false);
}

/* --- policy ------------------------------------------------------------ */

static void add_option(struct firn_buf *out, const struct api_policy *policy,
                       const struct firn_option *option)
{
    const char *value = option->fallback;
    struct firn_buf range = {0};
    for (size_t i = 0; i < policy->nsettings; i++)
        if (strcmp(policy->settings[i].name, option->name) == 0)
            value = policy->settings[i].value;
    firn_option_describe(option, &range);
    jsonbuf_open(out, NULL, '{');
    jsonbuf_text(out, "name", option->name);
    jsonbuf_text(out, "value", value);
    jsonbuf_text(out, "default", option->fallback);
    jsonbuf_text(out, "range", range.at);
    jsonbuf_text(out, "help", option->help);
    jsonbuf_close(out, '}');
    buf_release(&range);
}

static void reply_policy(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct api_policy policy;
    struct firn_buf out = {0};
    host->policy(host->arg, &policy);
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "name", policy.def->name);
    jsonbuf_text(&out, "summary", policy.def->summary);
    jsonbuf_text(&out, "paper", policy.def->paper);
    jsonbuf_open(&out, "options", '[');
    const struct firn_option *option = policy.def->options;
    for (; option != NULL && option->name != NULL; option++)
        add_option(&out, &policy, option);
    jsonbuf_close(&out, ']');
    jsonbuf_close(&out, '}');
    api_reply(call, 200, &out);
}

void api_policy_get(struct api_call *call)
{
    if (api_has(call, call->api->host.policy != NULL))
        reply_policy(call);
}

/* Texts of the values; numbers and truths as their JSON. */
struct settings {
    size_t n;
    struct api_setting at[OPTIONS_MAX];
    char values[OPTIONS_MAX][VALUE_MAX];
};

static const char *value_text(const json_t *value, char out[VALUE_MAX])
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        snprintf(out, VALUE_MAX, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        double_text(json_real_value(value), out);
    else if (json_is_boolean(value))
        snprintf(out, VALUE_MAX, "%s", json_is_true(value) ? "yes" : "no");
    else
        return NULL;
    return out;
}

static const char *read_settings(const json_t *root, const char **name,
                                 struct settings *out)
{
    const json_t *named = json_object_get(root, "name");
    json_t *options = json_object_get(root, "options"), *value;
    const char *key;
    if (json_object_size(root) == 0)
        return "the body must have 'name' or 'options'";
    if (named != NULL && !json_is_string(named))
        return "'name' must be the name of a policy";
    *name = json_string_value(named);
    if (options != NULL &&
        (!json_is_object(options) || json_object_size(options) > OPTIONS_MAX))
        return "'options' must be an object of names and values";
    json_object_foreach(options, key, value)
    {
        const char *text = value_text(value, out->values[out->n]);
        if (text == NULL)
            return "an option's value must be a text, a number, true or false";
        out->at[out->n++] = (struct api_setting){key, text};
    }
    return NULL;
}

static void tell_policy(const struct api_host *host,
                        const struct settings *settings)
{
    struct api_policy policy;
    struct firn_buf text = {0};
    host->policy(host->arg, &policy);
    buf_printf(&text, "policy %s", policy.def->name);
    for (size_t i = 0; i < settings->n; i++)
        buf_printf(&text, ", %s=%s", settings->at[i].name,
                   settings->at[i].value);
    tell(host, "policy", text.at);
    buf_release(&text);
}

void api_policy_patch(struct api_call *call)
{
    static const char *const keys[] = {"name", "options", NULL};
    const struct api_host *host = &call->api->host;
    const char *name = NULL;
    struct firn_error err = {0};
    json_t *root;
    if (!api_has(call, host->set_policy != NULL && host->policy != NULL) ||
        !api_read_object(call, keys, &root))
        return;
    struct settings *settings = mem_new(1, sizeof *settings);
    const char *wrong = read_settings(root, &name, settings);
    if (wrong != NULL)
        firn_fail(&err, FIRN_EINVAL, "%s", wrong);
    else
        host->set_policy(host->arg, name, settings->at, settings->n, &err);
    if (err.status == FIRN_OK)
        tell_policy(host, settings);
    mem_free(settings);
    json_decref(root);
    if (err.status != FIRN_OK)
        api_fail(call, &err);
    else
        reply_policy(call);
}
