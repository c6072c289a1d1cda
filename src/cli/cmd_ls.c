/* cmd_ls.c - `firn ls`: the jobs there are.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"

struct args {
    struct live_args live;
    const char *state, *user;
    bool is_all;
    long limit; /* -1: not given */
};

enum { LIMIT = 1000 };

static const struct flag table[] = {
    LIVE_FLAGS,
    {"all", 'a', NULL, "those that are over too", flag_yes,
     offsetof(struct args, is_all)},
    {"state", 's', "A,B,...",
     "only those in these states (pending, failed, ...)", flag_text,
     offsetof(struct args, state)},
    {"limit", 'n', "N", "of those that wait, the first N; 0: all (1000)",
     flag_whole, offsetof(struct args, limit)},
    {"user", 'u', "USER", "only those of that user", flag_text,
     offsetof(struct args, user)},
    {0},
};

static const struct flags_page page = {
    .command = "ls",
    .usage = "[options]",
    .about = "Lists the jobs that run or wait, those that run first; with "
             "--all those that\nare over too. GPUS is what a job asked for, "
             "HOLDS what it has now,\nRAN for how long it has had GPUs in all "
             "its attempts. A table has the first 1000\nthat wait, and says "
             "so; with --all or --state, or as JSON, it has all.",
    .table = table,
};

static int list(struct live *live, const struct args *args)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    json_t *jobs = NULL;
    struct live_list which = {
        .states = args->state, .user = args->user, .with_over = args->is_all};
    if (args->limit >= 0)
        which.most = (size_t)args->limit;
    else if (!live->is_json && !args->is_all && args->state == NULL)
        which.most = LIMIT;
    enum firn_status status =
        live->is_json ? live_jobs_print(live->client, &which, &out, &err)
                      : live_jobs_get(live->client, &which, &jobs, &err);
    if (status == FIRN_OK && !live->is_json)
        live_jobs_table(jobs, &out);
    int rc =
        status == FIRN_OK ? live_write(live, &out) : live_failed(live, &err);
    json_decref(jobs);
    buf_release(&out);
    return rc;
}

int cmd_ls(int argc, char **argv)
{
    struct args args = {.limit = -1};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page, "takes options only; 'firn show %s'?",
                           argv[1]);
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = list(&live, &args);
    live_close(&live);
    return rc;
}
