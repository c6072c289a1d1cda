/* cmd_policy.c - `firn policy`: shows or changes the policy of a running firnd.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/livepatch.h"
#include "cli/safetext.h"
#include <string.h>

struct args {
    struct live_args live;
    struct words settings;
};

static const struct flag table[] = {
    {"set", 0, "NAME=VALUE", "set an option of the policy; may be repeated",
     flag_word, offsetof(struct args, settings)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "policy",
    .usage = "[options] [NAME]",
    .about = "Shows the scheduling policy of firnd and its options, or changes "
             "them (operators). Running jobs go on; the next decision is the "
             "new policy's. 'firn policies' lists the policies.",
    .table = table,
};

static void print(const json_t *answer, struct firn_buf *out)
{
    const json_t *options = answer_list(answer, "options");
    safe_puts(out, answer_text(answer, "name"));
    buf_puts(out, ": ");
    safe_puts(out, answer_text(answer, "summary"));
    buf_putc(out, '\n');
    if (json_array_size(options) == 0)
        return;
    struct table rows;
    table_init(&rows, "llll");
    static const char *const heads[] = {"OPTION", "VALUE", "DEFAULT", "RANGE"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&rows, heads[i]);
    for (size_t i = 0; i < json_array_size(options); i++) {
        const json_t *option = json_array_get(options, i);
        answer_cell(&rows, answer_text(option, "name"));
        answer_cell(&rows, answer_text(option, "value"));
        answer_cell(&rows, answer_text(option, "default"));
        answer_cell(&rows, answer_text(option, "range"));
    }
    table_print(&rows, out);
    table_release(&rows);
}

/* The body of the change; NULL: a setting is wrong, and that was printed. */
static json_t *body_of(const struct args *args, const char *name)
{
    json_t *body = json_object(), *options = json_object();
    for (size_t i = 0; i < args->settings.n; i++) {
        char *word = args->settings.at[i], *sign = strchr(word, '=');
        if (sign == NULL || sign == word) {
            flags_wrong(&page, "--set '%s': expected NAME=VALUE", word);
            json_decref(options);
            json_decref(body);
            return NULL;
        }
        *sign = '\0';
        json_object_set_new(options, word, json_string(sign + 1));
    }
    if (name != NULL)
        json_object_set_new(body, "name", json_string(name));
    if (args->settings.n > 0)
        json_object_set(body, "options", options);
    json_decref(options);
    return body;
}

static int run(struct live *live, const struct args *args, const char *name)
{
    if (name == NULL && args->settings.n == 0)
        return live_show(live, "/v1/policy", print);
    json_t *body = body_of(args, name);
    return body != NULL ? live_patch(live, "/v1/policy", "", body, print) : 2;
}

int cmd_policy(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 1, "policy");
    if (rc < 0) {
        rc = live_open(&live, &page, &args.live);
        if (rc < 0)
            rc = run(&live, &args, argc > 1 ? argv[1] : NULL);
        live_close(&live);
    }
    words_release(&args.settings);
    return rc;
}
