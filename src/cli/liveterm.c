/* liveterm.c - attaches to the terminal of a job: see the header.
 *
 * The path of the terminal's socket is in the command of the job, which firnd
 * shows to the job's user and to operators only. The socket is on the host of
 * the job: with firnd on this host all jobs of the local backend are here, with
 * Slurm they are on the nodes.
 */
#include "cli/liveterm.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/livejobs.h"
#include "cli/pty.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <string.h>

/* How long a running job may take until it listens. */
static const double patience_s = 20, pause_s = 0.05;

/* The path behind --serve; NULL: the job has no terminal. */
static const char *socket_of(const json_t *job)
{
    const json_t *run = answer_list(json_object_get(job, "ask"), "run");
    for (size_t i = 0; i + 1 < json_array_size(run); i++) {
        const char *word = json_string_value(json_array_get(run, i));
        const char *path = json_string_value(json_array_get(run, i + 1));
        if (word != NULL && path != NULL && strcmp(word, "--serve") == 0 &&
            pty_is_path(path))
            return path;
    }
    return NULL;
}

static void say_state(const struct live *live, const json_t *job)
{
    struct firn_buf text = {0};
    safe_puts(&text, answer_text(job, "state"));
    if (*answer_text(job, "why") != '\0') {
        buf_puts(&text, ": ");
        safe_puts(&text, answer_text(job, "why"));
    }
    fprintf(stderr, "firn %s: job %.0f: %s\n", live->page->command,
            answer_number(job, "id", -1), text.at);
    buf_release(&text);
}

static int say_end(const struct live *live, const json_t *job, int end)
{
    double id = answer_number(job, "id", -1);
    const char *command = live->page->command;
    if (end == PTY_DETACHED)
        fprintf(stderr,
                "\nfirn %s: detached; job %.0f goes on: 'firn attach %.0f'\n",
                command, id, id);
    else if (end == PTY_GONE)
        fprintf(stderr,
                "\nfirn %s: the connection has ended: the job was stopped, or "
                "another terminal is attached to it; 'firn show %.0f' tells\n",
                command, id);
    return end == PTY_DETACHED ? 0 : end == PTY_GONE ? 1 : end;
}

/* Connects once it can; -1: not yet. */
static int try_attach(const struct live *live, const json_t *job,
                      const char *path, double since_s)
{
    struct firn_error err = {0};
    int fd = -1;
    enum firn_status status = pty_connect(path, &fd, &err);
    if (status == FIRN_OK)
        return say_end(live, job, pty_talk(fd));
    if (status == FIRN_ENOENT && clock_elapsed_s() < since_s + patience_s)
        return -1;
    struct firn_error why = {0};
    firn_fail(&why, FIRN_EIO,
              "%.200s; a terminal can be attached on the host where the job "
              "runs, by its user or root",
              err.text);
    return live_failed(live, &why);
}

static int no_terminal(const struct live *live, const json_t *job)
{
    struct firn_error err = {0};
    double id = answer_number(job, "id", -1);
    firn_fail(&err, FIRN_EINVAL,
              "job %.0f has no terminal: only jobs of 'firn run -t' have one; "
              "'firn logs -f %.0f' follows the output of any job",
              id, id);
    return live_failed(live, &err);
}

/* The exit status; -1: look again. */
static int look(struct live *live, const json_t *job, double *runs_since_s)
{
    const char *path = socket_of(job);
    if (path == NULL)
        return no_terminal(live, job);
    if (live_job_is_over(job))
        return live_job_status(job);
    if (strcmp(answer_text(job, "state"), "running") != 0)
        return -1;
    if (*runs_since_s < 0)
        *runs_since_s = clock_elapsed_s();
    return try_attach(live, job, path, *runs_since_s);
}

int live_attach(struct live *live, const char *name)
{
    struct firn_buf path = {0};
    char last[32] = "";
    double runs_since_s = -1;
    int rc = -1;
    buf_puts(&path, "/v1/jobs/");
    client_escape(&path, name);
    while (rc < 0) {
        struct firn_error err = {0};
        json_t *job = NULL;
        if (client_get(live->client, path.at, &job, &err) != FIRN_OK) {
            rc = live_failed(live, &err);
            break;
        }
        bool is_new = strcmp(last, answer_text(job, "state")) != 0;
        snprintf(last, sizeof last, "%.31s", answer_text(job, "state"));
        if (is_new && strcmp(last, "running") != 0)
            say_state(live, job);
        rc = look(live, job, &runs_since_s);
        json_decref(job);
        if (rc < 0 &&
            !client_wait(runs_since_s < 0 ? 4 * pause_s : pause_s, -1))
            rc = 130;
    }
    buf_release(&path);
    return rc;
}
