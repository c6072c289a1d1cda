/* cmd_run.c - `firn run`: submits a command and stays with it.
 *
 *     firn run --gpus 2 -- python train.py     output here, status of the job
 *     firn run -it --gpus 1 -- bash            a terminal in the job
 *
 * Without -t the output of the job is printed as `firn logs -f` does. With -t
 * the job's command is `firn attach --serve SOCKET -- COMMAND` (cli/pty.h): the
 * same program, by the path it has here, in the job. The command is started
 * once, for all GPUs of the job, unless --launch says otherwise.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/jobtext.h"
#include "cli/live.h"
#include "cli/liveconfig.h"
#include "cli/liveterm.h"
#include "cli/livewait.h"
#include "cli/pty.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct live_args live;
    struct job_flags job;
    bool has_terminal, is_interactive;
};

enum { PATH_SENT_MOST = 8190, SERVE_WORDS = 5 };

#define AT(field) offsetof(struct args, field)

static const struct flag table[] = {
    {"tty", 't', NULL,
     "run the command on a terminal and attach to it; -it is the same",
     flag_yes, AT(has_terminal)},
    {"interactive", 'i', NULL, "the same as -t", flag_yes, AT(is_interactive)},
    LIVE_PLACE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "run",
    .usage = "[options] -- COMMAND [ARGUMENT...]",
    .about = "Submits a command as a job, waits for its GPUs, prints its "
             "output, and exits with its status. With -it the command has a "
             "terminal: 'firn run -it -- bash' is a shell on GPUs; Ctrl-P "
             "Ctrl-Q leaves it running, 'firn attach JOB' returns to it. "
             "Without -t, Ctrl-C leaves the job running. The command is "
             "started once for all GPUs (--launch one) and without a shell.",
    .table = table,
    .shared = job_flags_table,
    .shared_head = "job options",
    .shared_at = AT(job),
};

/* The command of the job; owned by the caller, the words are not. */
static char **command_of(const struct args *args, char *program, char *path,
                         int argc, char **argv)
{
    char **out = mem_new((size_t)argc + SERVE_WORDS + 1, sizeof *out);
    size_t n = 0;
    if (args->has_terminal) {
        out[n++] = program;
        out[n++] = "attach";
        out[n++] = "--serve";
        out[n++] = path;
        out[n++] = "--";
    }
    for (int i = 1; i < argc; i++)
        out[n++] = argv[i];
    return out;
}

/* Makes the job file; *program has room for PATH_MAX. */
static enum firn_status make_text(struct firn_buf *text, struct args *args,
                                  int argc, char **argv, struct firn_error *err)
{
    char here[PATH_MAX], program[PATH_MAX], path[PTY_PATH] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0 || getcwd(here, sizeof here) == NULL)
        return firn_fail(err, FIRN_EIO, "the working directory: %s",
                         strerror(errno));
    program[n] = '\0';
    if (args->has_terminal)
        FIRN_TRY(pty_new_path(path, err));
    if (args->job.value[JOB_FIELD_launch].text == NULL)
        args->job.value[JOB_FIELD_launch].text = "one";
    job_env_python(&args->job.value[JOB_FIELD_env].words);
    char **command = command_of(args, program, path, argc, argv);
    enum firn_status status = job_text(text, &args->job, command, here, err);
    mem_free(command);
    return status == FIRN_OK ? live_config_put(text, NULL, err) : status;
}

static enum firn_status post(struct live *live, const struct firn_buf *text,
                             json_t **answer, struct firn_error *err)
{
    char id[CLIENT_ID_MAX];
    const char *programs = getenv("PATH");
    FIRN_TRY(client_draw_id(id, err));
    struct client_request request = {
        .method = "POST",
        .path = "/v1/jobs",
        .content_type = "application/yaml",
        .body = {text->at, text->n},
        .request_id = id,
        .programs = programs != NULL && strlen(programs) <= PATH_SENT_MOST
                        ? programs
                        : NULL,
        .checks_fit = true};
    return client_call(live->client, &request, answer, err);
}

/* By `firn logs -f`, then the status of the job. */
static int follow(struct live *live, const struct args *args, double id)
{
    char number[32];
    char *argv[12] = {"logs", "-f", "--raw", number};
    int argc = 4;
    const struct client_where *where = &args->live.where;
    const struct {
        char *option;
        const char *value;
    } places[] = {{"--socket", where->socket},
                  {"--url", where->url},
                  {"--token-file", where->token_file}};
    snprintf(number, sizeof number, "%.0f", id);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].value != NULL) {
            argv[argc++] = places[i].option;
            argv[argc++] = (char *)places[i].value;
        }
    int rc = cmd_logs(argc, argv);
    json_t *job = NULL;
    if (rc == 0)
        rc = live_wait(live, (long long)id, &job);
    json_decref(job);
    if (rc == 130)
        fprintf(stderr,
                "firn run: job %.0f goes on; 'firn cancel %.0f' ends it\n", id,
                id);
    return rc;
}

static int run(struct live *live, struct args *args, int argc, char **argv)
{
    struct firn_error err = {0};
    struct firn_buf text = {0};
    json_t *answer = NULL;
    char number[32];
    enum firn_status status = make_text(&text, args, argc, argv, &err);
    if (status == FIRN_OK)
        status = post(live, &text, &answer, &err);
    buf_release(&text);
    if (status != FIRN_OK)
        return live_failed(live, &err);
    double id = answer_number(answer, "id", -1);
    json_decref(answer);
    fprintf(stderr, "firn run: job %.0f\n", id);
    client_catch_interrupts();
    snprintf(number, sizeof number, "%.0f", id);
    return args->has_terminal ? live_attach(live, number)
                              : follow(live, args, id);
}

int cmd_run(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    job_flags_init(&args.job);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-it") == 0 || strcmp(argv[i], "-ti") == 0)
            argv[i] = "-t";
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0 && argc < 2)
        rc = flags_wrong(&page, "no command given: use -- COMMAND");
    if (rc < 0) {
        args.has_terminal = args.has_terminal || args.is_interactive;
        rc = live_open(&live, &page, &args.live);
        if (rc < 0)
            rc = run(&live, &args, argc, argv);
        live_close(&live);
    }
    job_flags_release(&args.job);
    return rc;
}
