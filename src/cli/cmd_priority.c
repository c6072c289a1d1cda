/* cmd_priority.c - `firn priority`: changes the priority of a job.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/livepatch.h"
#include "cli/safetext.h"
#include "core/jobfields.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "priority",
    .usage = "[options] JOB NUMBER",
    .about = "Changes the priority of a job: a whole number from 0 to 100. "
             "Under policies that use priorities, jobs with a higher one go "
             "first.\nJOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

static void print(const json_t *answer, struct firn_buf *out)
{
    buf_printf(out, "job %.0f (", answer_number(answer, "id", -1));
    safe_puts(out, answer_text(answer, "name"));
    buf_printf(out, ") has priority %.0f\n",
               answer_number(answer, "priority", 0));
}

int cmd_priority(int argc, char **argv)
{
    const struct job_field *field = &job_fields[JOB_FIELD_priority];
    struct live_args args = {0};
    struct live live;
    long number = 0;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 2, 2, "job and priority");
    if (rc < 0 &&
        !str_int(argv[2], (long)field->least, (long)field->most, &number))
        rc = flags_wrong(&page,
                         "'%s' is not a priority: a whole number from %ld to "
                         "%ld",
                         argv[2], (long)field->least, (long)field->most);
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = live_patch(&live, "/v1/jobs/", argv[1],
                        json_pack("{s:i}", "priority", (int)number), print);
    live_close(&live);
    return rc;
}
