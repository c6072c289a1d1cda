/* cmd_ls.c - `firn ls`: lists jobs.
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
    {"all", 'a', NULL, "include finished jobs", flag_yes,
     offsetof(struct args, is_all)},
    {"state", 's', "A,B,...", "only jobs in these states, e.g. pending,failed",
     flag_text, offsetof(struct args, state)},
    {"limit", 'n', "N", "at most N waiting jobs; 0 means all (default: 1000)",
     flag_whole, offsetof(struct args, limit)},
    {"user", 'u', "USER", "only jobs of this user", flag_text,
     offsetof(struct args, user)},
    {0},
};

static const struct flags_page page = {
    .command = "ls",
    .usage = "[options]",
    .about = "Lists running and waiting jobs, running ones first. GPUS is the "
             "number requested, HOLDS the GPUs held now, RAN the time on GPUs "
             "over all attempts. The table has at most 1000 waiting jobs; "
             "--all, --state and -o json list all.",
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
        return flags_wrong(&page,
                           "unexpected argument '%s'; did you mean "
                           "'firn show %s'?",
                           argv[1], argv[1]);
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = list(&live, &args);
    live_close(&live);
    return rc;
}
