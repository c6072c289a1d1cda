/* cmd_plan.c - `firn plan`: what would happen if a job were submitted.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livefile.h"
#include "cli/livewords.h"
#include "cli/said.h"

struct args {
    struct live_args live;
    const char *file;
};

static const struct flag table[] = {
    {"file", 'f', "FILE", "the job file, - for standard input", flag_text,
     offsetof(struct args, file)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "plan",
    .usage = "[options] -f FILE",
    .about = "Says what would happen if the job were submitted now: when it "
             "would start, on\nwhich GPUs, how fast it would be, when it would "
             "be done, whom it would slow, and\nthe smallest change that would "
             "start it at once. Nothing is changed.",
    .table = table,
};

static int ask(struct live *live, const char *path)
{
    struct firn_error err = {0};
    struct firn_buf text = {0}, out = {0};
    json_t *answer = NULL;
    enum firn_status status = live_file_read(&text, path, &err);
    struct client_request request = {.method = "POST",
                                     .path = "/v1/plan",
                                     .content_type = "application/yaml",
                                     .body = {text.at, text.n}};
    if (status == FIRN_OK) {
        status = client_call(live->client, &request, &answer, &err);
        live_file_blame(&err, path);
    }
    buf_release(&text);
    if (status != FIRN_OK)
        return live_failed(live, &err);
    (live->is_json ? said_print : live_plan_page)(answer, &out);
    int rc = live_write(live, &out);
    buf_release(&out);
    json_decref(answer);
    return rc;
}

int cmd_plan(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page, "takes options only");
    if (args.file == NULL)
        return flags_wrong(&page, "say -f FILE");
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = ask(&live, args.file);
    live_close(&live);
    return rc;
}
