/* cmd_policies.c - firn policies: lists the scheduling policies.
 *
 * All text comes from struct firn_policy_def and its options, so a new policy
 * needs no change here.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <firn/policy.h>
#include <stdio.h>
#include <string.h>

static const struct word {
    unsigned bit;
    const char *text;
} does_words[] =
    {
        {FIRN_DOES_PREEMPT, "preempt"}, {FIRN_DOES_RESIZE, "resize"},
        {FIRN_DOES_MOVE, "move"},       {FIRN_DOES_SHARE, "share"},
        {FIRN_DOES_REJECT, "reject"},   {FIRN_DOES_MERGE, "merge"},
        {FIRN_DOES_REPLAN, "re-plan"},  {0, NULL},
},
  need_words[] = {
      {FIRN_NEED_DURATION, "durations"},
      {FIRN_NEED_TYPES, "rates by GPU type"},
      {0, NULL},
};

static void put_words(const struct word *words, unsigned mask, bool is_json,
                      struct firn_buf *out)
{
    bool has_any = false;
    for (; words->text; words++) {
        if (!(mask & words->bit))
            continue;
        buf_puts(out, has_any ? (is_json ? "," : ", ") : "");
        if (is_json)
            buf_json_string(out, words->text);
        else
            buf_puts(out, words->text);
        has_any = true;
    }
    if (!has_any && !is_json)
        buf_putc(out, '-');
}

/* Which wishes of users decide under this policy. Shares and quotas: all of
 * them, by core; deadlines: where running jobs can be stopped. */
static void put_obeys(const struct firn_policy_def *policy, bool is_json,
                      struct firn_buf *out)
{
    static const struct word words[] = {
        {1, "shares"}, {2, "priorities"}, {4, "deadlines"}, {0, NULL}};
    unsigned mask = 1;
    if (policy->obeys & FIRN_OBEYS_PRIORITY)
        mask |= 2;
    if (policy->does & FIRN_DOES_PREEMPT)
        mask |= 4;
    put_words(words, mask, is_json, out);
}

static void put_option_json(const struct firn_option *option,
                            struct firn_buf *out)
{
    struct firn_buf range = {0};
    firn_option_describe(option, &range);
    buf_puts(out, "{\"name\":");
    buf_json_string(out, option->name);
    buf_puts(out, ",\"default\":");
    buf_json_string(out, option->fallback);
    buf_puts(out, ",\"range\":");
    buf_json_string(out, range.at ? range.at : "");
    buf_puts(out, ",\"help\":");
    buf_json_string(out, option->help);
    buf_putc(out, '}');
    buf_release(&range);
}

static void put_json(const struct firn_policy_def *policy, struct firn_buf *out)
{
    buf_puts(out, "{\"name\":");
    buf_json_string(out, policy->name);
    buf_puts(out, ",\"summary\":");
    buf_json_string(out, policy->summary);
    buf_puts(out, ",\"paper\":");
    if (policy->paper)
        buf_json_string(out, policy->paper);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"does\":[");
    put_words(does_words, policy->does, true, out);
    buf_puts(out, "],\"needs\":[");
    put_words(need_words, policy->needs, true, out);
    buf_puts(out, "],\"obeys\":[");
    put_obeys(policy, true, out);
    buf_puts(out, "],\"options\":[");
    for (const struct firn_option *o = policy->options; o && o->name; o++) {
        buf_puts(out, o == policy->options ? "" : ",");
        put_option_json(o, out);
    }
    buf_puts(out, "]}");
}

/* One table with the options of n policies. */
static void put_options(const struct firn_policy_def *const *all, size_t n,
                        struct firn_buf *out)
{
    static const char *const heads[] = {"option", "default", "value", "help"};
    struct firn_buf range = {0};
    struct table table;
    table_init(&table, "llll");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n; i++) {
        const struct firn_option *o = all[i]->options;
        for (; o && o->name; o++) {
            buf_clear(&range);
            buf_puts(&range, "");
            firn_option_describe(o, &range);
            table_cellf(&table, "%s.%s", all[i]->name, o->name);
            table_cell(&table, o->fallback);
            table_cell(&table, range.at);
            table_cell(&table, o->help);
        }
    }
    buf_putc(out, '\n');
    table_print(&table, out);
    table_release(&table);
    buf_release(&range);
}

static void put_one(const struct firn_policy_def *policy, struct firn_buf *out)
{
    buf_printf(out, "%s: %s\n", policy->name, policy->summary);
    buf_printf(out, "  from   %s\n", policy->paper ? policy->paper : "-");
    buf_puts(out, "  may    ");
    put_words(does_words, policy->does, false, out);
    buf_puts(out, "\n  needs  ");
    put_words(need_words, policy->needs, false, out);
    buf_puts(out, "\n  obeys  ");
    put_obeys(policy, false, out);
    buf_putc(out, '\n');
    if (policy->options && policy->options->name)
        put_options(&policy, 1, out);
}

static void put_list(const struct firn_policy_def *const *all, size_t n,
                     struct firn_buf *out)
{
    static const char *const heads[] = {"policy", "summary", "may",
                                        "needs",  "obeys",   "from"};
    struct table table;
    table_init(&table, "llllll");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n; i++) {
        struct firn_buf does = {0}, needs = {0}, obeys = {0};
        put_obeys(all[i], false, &obeys);
        put_words(does_words, all[i]->does, false, &does);
        put_words(need_words, all[i]->needs, false, &needs);
        table_cell(&table, all[i]->name);
        table_cell(&table, all[i]->summary);
        table_cell(&table, does.at);
        table_cell(&table, needs.at);
        table_cell(&table, obeys.at);
        table_cell(&table, all[i]->paper ? all[i]->paper : "-");
        buf_release(&does);
        buf_release(&needs);
        buf_release(&obeys);
    }
    table_print(&table, out);
    table_release(&table);
    put_options(all, n, out);
    buf_puts(out, "\nSet an option: firn sim --set POLICY.OPTION=VALUE, or "
                  "firnd --set\n");
}

static void print(const struct firn_policy_def *const *all, size_t n,
                  bool is_json, bool is_one, struct firn_buf *out)
{
    if (!is_json) {
        if (is_one)
            put_one(all[0], out);
        else
            put_list(all, n, out);
        return;
    }
    buf_puts(out, "{\"policies\":[");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_json(all[i], out);
    }
    buf_puts(out, "\n]}\n");
}

int cmd_policies(int argc, char **argv)
{
    bool is_json = false;
    static const struct flag table[] = {FORMAT_FLAG(0), {0}};
    static const struct flags_page page = {
        .command = "policies",
        .usage = "[NAME] [options]",
        .about =
            "Lists the scheduling policies with their options, or describes "
            "one.",
        .table = table,
    };
    int rc = flags_parse(&page, &is_json, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 1, "policy");
    if (rc >= 0)
        return rc;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    const struct firn_policy_def *one = NULL;
    struct firn_error err = {0};
    if (argc == 2 &&
        !(one = strchr(argv[1], '/') != NULL ? firn_policy_load(argv[1], &err)
                                             : firn_policy_find(argv[1], &err)))
        return flags_wrong(&page, "%s", err.text);
    struct firn_buf out = {0};
    print(one ? &one : all, one ? 1 : n, is_json, one != NULL, &out);
    rc = output_write(page.command, &out);
    buf_release(&out);
    return rc;
}
