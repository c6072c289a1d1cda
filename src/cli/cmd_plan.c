/* cmd_plan.c - `firn plan`: predicts what would happen to a new job.
 *
 * The job is a file or is described by options, as for `firn submit`.
 */
#include "base/buf.h"
#include "base/files.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/jobtext.h"
#include "cli/live.h"
#include "cli/liveconfig.h"
#include "cli/livefile.h"
#include "cli/livewords.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct live_args live;
    struct job_flags job;
    const char *file;
};

static const struct flag table[] = {
    {"file", 'f', "FILE", "job file, - for standard input", flag_text,
     offsetof(struct args, file)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "plan",
    .usage = "[options] -f FILE\n"
             "[options] FILE.yaml\n"
             "[options] -- COMMAND [ARGUMENT...]",
    .about = "Predicts what would happen if the job were submitted now: start, "
             "GPUs, speed, end, the jobs that it would slow down, and the "
             "smallest change that would start it at once. Of a language "
             "model it also prints the plans that fit with their memory, and "
             "the nearest that do not. Nothing is submitted.",
    .table = table,
    .shared = job_flags_table,
    .shared_head = "job options",
    .shared_at = offsetof(struct args, job),
};

/* Reads the job file, or makes one from the options. */
static enum firn_status read_job(struct firn_buf *out, const struct args *args,
                                 char **argv, struct firn_error *err)
{
    char here[PATH_MAX];
    if (args->file != NULL) {
        FIRN_TRY(live_file_read(out, args->file, err));
        return live_config_put(out, args->file, err);
    }
    if (getcwd(here, sizeof here) == NULL)
        return firn_fail(err, FIRN_EIO, "the working directory: %s",
                         strerror(errno));
    FIRN_TRY(job_text(out, &args->job, argv, here, err));
    return live_config_put(out, NULL, err);
}

static int ask(struct live *live, const struct args *args, char **argv)
{
    struct firn_error err = {0};
    struct firn_buf text = {0}, out = {0};
    json_t *answer = NULL;
    enum firn_status status = read_job(&text, args, argv, &err);
    struct client_request request = {.method = "POST",
                                     .path = "/v1/plan",
                                     .content_type = "application/yaml",
                                     .body = {text.at, text.n}};
    if (status == FIRN_OK) {
        status = client_call(live->client, &request, &answer, &err);
        live_file_name_error(&err, args->file);
    }
    buf_release(&text);
    if (status != FIRN_OK)
        return live_failed(live, &err);
    (live->is_json ? answer_print : live_plan_page)(answer, &out);
    int rc = live_write(live, &out);
    buf_release(&out);
    json_decref(answer);
    return rc;
}

static int check(const struct args *args, bool has_command)
{
    if (args->file == NULL && !has_command)
        return flags_wrong(&page, "no job given: use -f FILE, or -- COMMAND");
    if (args->file != NULL && (has_command || job_flags_any(&args->job)))
        return flags_wrong(&page, "-f takes the whole job from the file: give "
                                  "no job options and no command with it");
    return -1;
}

int cmd_plan(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    job_flags_init(&args.job);
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0 && args.file == NULL && argc == 2 &&
        files_ends(argv[1], ".yaml")) {
        args.file = argv[1];
        argc = 1;
    }
    if (rc < 0)
        rc = check(&args, argc > 1);
    if (rc < 0) {
        argv[argc] = NULL; /* ends the operands */
        rc = live_open(&live, &page, &args.live);
        if (rc < 0)
            rc = ask(&live, &args, argv + 1);
        live_close(&live);
    }
    job_flags_release(&args.job);
    return rc;
}
