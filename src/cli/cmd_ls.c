/* cmd_ls.c - `firn ls`: the jobs there are.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"
#include <string.h>

struct args {
    struct live_args live;
    const char *state, *user;
    bool is_all;
};

static const struct flag table[] = {
    LIVE_FLAGS,
    {"all", 'a', NULL, "those that are over too", flag_yes,
     offsetof(struct args, is_all)},
    {"state", 's', "STATE", "only those in that state (pending, running, ...)",
     flag_text, offsetof(struct args, state)},
    {"user", 'u', "USER", "only those of that user", flag_text,
     offsetof(struct args, user)},
    {0},
};

static const struct flags_page page = {
    .command = "ls",
    .usage = "[options]",
    .about = "Lists the jobs that run or wait, those that run first; with "
             "--all those that\nare over too. GPUS is what a job asked for, "
             "HOLDS what it has now.",
    .table = table,
};

static void add_query(struct firn_buf *path, const char *key, const char *value)
{
    buf_putc(path, strchr(path->at, '?') != NULL ? '&' : '?');
    buf_printf(path, "%s=", key);
    client_escape(path, value);
}

int cmd_ls(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    struct firn_buf path = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page, "takes options only; 'firn show %s'?",
                           argv[1]);
    rc = live_open(&live, &page, &args.live);
    if (rc < 0) {
        buf_puts(&path, "/v1/jobs");
        if (args.is_all)
            add_query(&path, "all", "1");
        if (args.state != NULL)
            add_query(&path, "state", args.state);
        if (args.user != NULL)
            add_query(&path, "user", args.user);
        rc = live_show(&live, path.at, live_jobs_table);
    }
    live_close(&live);
    buf_release(&path);
    return rc;
}
