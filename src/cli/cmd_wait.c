/* cmd_wait.c - `firn wait`: waits for the end of jobs.
 */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livewait.h"
#include <limits.h>

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "wait",
    .usage = "[options] JOB [JOB...]",
    .about = "Waits until all jobs have ended and prints each new state on "
             "standard error. The exit status is 0 if all succeeded, else that "
             "of the first job in the list that did not. It goes on over a "
             "restart of firnd.\nJOB is a number, a name, or a unique prefix "
             "of a name.",
    .table = table,
};

/* The number of the job that a word names; -1: an error was printed. */
static long long number_of(struct live *live, const char *word, int *rc)
{
    struct firn_error err = {0};
    struct firn_buf path = {0};
    json_t *job = NULL;
    buf_puts(&path, "/v1/jobs/");
    client_escape(&path, word);
    if (client_get(live->client, path.at, &job, &err) != FIRN_OK)
        *rc = live_failed(live, &err);
    double id = answer_number(job, "id", -1);
    json_decref(job);
    buf_release(&path);
    return (long long)id;
}

static int wait_for(struct live *live, int n, char **words)
{
    json_t *answers = json_array();
    int rc = 0;
    client_catch_interrupts();
    for (int i = 0; i < n && rc != 130; i++) {
        json_t *job = NULL;
        int one = 0;
        long long id = number_of(live, words[i], &one);
        if (id >= 0)
            one = live_wait(live, id, &job);
        rc = rc == 0 || one == 130 ? one : rc;
        if (job != NULL)
            json_array_append_new(answers, job);
    }
    int written = live->is_json ? live_write_json(live, answers) : 0;
    json_decref(answers);
    return rc != 0 ? rc : written;
}

int cmd_wait(int argc, char **argv)
{
    struct live_args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 1, INT_MAX, "job");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = wait_for(&live, argc - 1, argv + 1);
    live_close(&live);
    return rc;
}
