/* cmd_resize.c - `firn resize`: changes the number of GPUs of a job.
 */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/livepatch.h"
#include "cli/safetext.h"
#include "core/jobfields.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "resize",
    .usage = "[options] JOB N|MIN..MAX",
    .about =
        "Changes how many GPUs a job asks for: a number, or the fewest "
        "and the most. A waiting job waits for the new number. A running "
        "job that can checkpoint is resized, without a stop where its trainer "
        "can and its GPUs allow it; one that cannot must still "
        "have its present number within the range, or is refused.\n"
        "JOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

static void print(const json_t *answer, struct firn_buf *out)
{
    double least = answer_number(answer, "gpus_min", 0);
    double most = answer_number(answer, "gpus_max", 0);
    buf_printf(out, "job %.0f (", answer_number(answer, "id", -1));
    safe_puts(out, answer_text(answer, "name"));
    if (least < most)
        buf_printf(out, ") asks for %.0f to %.0f GPUs\n", least, most);
    else
        buf_printf(out, ") asks for %.0f GPU%s\n", least,
                   least == 1 ? "" : "s");
}

int cmd_resize(int argc, char **argv)
{
    struct live_args args = {0};
    struct live live;
    char what[JOB_WHAT_MAX];
    int range[2] = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc =
            flags_operands(&page, argc, argv, 2, 2, "job and a number of GPUs");
    if (rc < 0 &&
        !job_field_read(&job_fields[JOB_FIELD_gpus_min], argv[2], range, what))
        rc = flags_wrong(&page, "'%s' is not %s", argv[2], what);
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = live_patch(&live, "/v1/jobs/", argv[1],
                        json_pack("{s:{s:i,s:i}}", "gpus", "min", range[0],
                                  "max", range[1]),
                        print);
    live_close(&live);
    return rc;
}
