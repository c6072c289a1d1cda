/* cmd_shares.c - `firn shares`: users and projects with shares and quotas.
 *
 * One line for each project and, indented below it, its members; then users
 * that have a quota of their own.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/safetext.h"
#include <string.h>

static const struct flag flag_table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "shares",
    .usage = "[options]",
    .about =
        "Shows the projects and their members: SHARE, the GPUs held now, the "
        "mean number of GPUs of the recent past (usage of one half-life ago "
        "counts half), its PART of the past of all, and the GPU-hours used in "
        "the present window. Quotas are shown as used/limit. The project and "
        "the user with the lowest (PAST + GPUS) / SHARE go first.\n"
        "Shares and quotas are set by the operator (firnd --shares, "
        "docs/shares.md).",
    .table = flag_table,
};

static void put_quota(struct table *table, const json_t *account,
                      const char *used, const char *quota)
{
    double most = answer_number(account, quota, 0);
    double now = answer_number(account, used, 0);
    if (most > 0)
        table_cellf(table, "%.1f/%g", now, most);
    else
        table_cellf(table, "%.1f", now);
}

static void add_row(struct table *table, const json_t *account,
                    const char *indent)
{
    struct firn_buf name = {0};
    buf_puts(&name, indent);
    safe_puts(&name, answer_text(account, "name"));
    table_cell(table, name.at);
    buf_release(&name);
    table_cellf(table, "%g", answer_number(account, "share", 1));
    put_quota(table, account, "gpus", "quota_gpus");
    table_cellf(table, "%.2f", answer_number(account, "past_gpus", 0));
    table_cellf(table, "%.0f%%", 100 * answer_number(account, "part", 0));
    put_quota(table, account, "window_gpu_hours", "quota_gpu_hours");
    table_cell(table, answer_yes(account, "borrow") ? "yes" : "no");
}

static bool is_kind(const json_t *account, const char *kind)
{
    return strcmp(answer_text(account, "kind"), kind) == 0;
}

static bool has_quota(const json_t *account)
{
    return answer_number(account, "quota_gpus", 0) > 0 ||
           answer_number(account, "quota_gpu_hours", 0) > 0;
}

static void print_shares(const json_t *answer, struct firn_buf *out)
{
    static const char *const heads[] = {"ACCOUNT", "SHARE", "GPUS",  "PAST",
                                        "PART",    "HOURS", "BORROW"};
    const json_t *accounts = answer_list(answer, "accounts");
    size_t n = json_array_size(accounts);
    struct table table;
    if (!answer_yes(answer, "enabled")) {
        buf_puts(out, "no shares are set: firnd runs without --shares\n");
        return;
    }
    table_init(&table, "lrrrrrl");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n; i++) {
        const json_t *project = json_array_get(accounts, i);
        if (!is_kind(project, "project"))
            continue;
        add_row(&table, project, "");
        for (size_t k = 0; k < n; k++) {
            const json_t *member = json_array_get(accounts, k);
            if (is_kind(member, "member") &&
                strcmp(answer_text(member, "project"),
                       answer_text(project, "name")) == 0)
                add_row(&table, member, "  ");
        }
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *user = json_array_get(accounts, i);
        if (is_kind(user, "user") && has_quota(user))
            add_row(&table, user, "user ");
    }
    table_print(&table, out);
    table_release(&table);
}

int cmd_shares(int argc, char **argv)
{
    static const struct live_shown shown = {
        .page = &page, .before = "/v1/shares", .print = print_shares};
    return live_shown_run(&shown, argc, argv);
}
