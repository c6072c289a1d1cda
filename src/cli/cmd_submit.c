/* cmd_submit.c - `firn submit`: submits jobs, from files or options.
 *
 *     firn submit -f job.yaml [-f more.yaml | -f -]
 *     firn submit --gpus 1..8 -- python train.py
 *
 * A file is sent with the current directory as its default working directory,
 * unchanged but for the text of a config.json (cli/liveconfig.h); firnd checks
 * it and names the line of an error. Options are made into a file
 * (cli/jobtext.h). Each job has a random request id: if the answer is lost, the
 * same request is sent again, and firnd creates one job.
 *
 * The current PATH goes along: a job that sets no PATH finds the programs that
 * the user has here, such as the Python of a virtual environment. --env-all
 * gives it the other variables too, but for those that firn sets itself.
 */
#define _GNU_SOURCE /* environ */
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/jobtext.h"
#include "cli/live.h"
#include "cli/liveconfig.h"
#include "cli/livefile.h"
#include "cli/livewait.h"
#include "cli/safetext.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct live_args live;
    struct job_flags job;
    struct words files;
    const char *request;
    bool is_held, waits, is_dry, takes_all;
};

/* A longer PATH is not sent: firnd refuses it. */
enum { PATH_SENT_MOST = 8190 };

#define AT(field) offsetof(struct args, field)

static const struct flag table[] = {
    {"file", 'f', "FILE",
     "job file (YAML); - reads standard input; may be repeated", flag_word,
     AT(files)},
    {"hold", 0, NULL, "do not start the job before 'firn release JOB'",
     flag_yes, AT(is_held)},
    {"wait", 0, NULL, "wait for the job to finish; exit with its status",
     flag_yes, AT(waits)},
    {"env-all", 0, NULL,
     "give the job all variables of the current environment", flag_yes,
     AT(takes_all)},
    {"request-id", 0, "ID",
     "idempotency key: two submits with the same ID create one job", flag_text,
     AT(request)},
    {"dry-run", 0, NULL, "print the job file without submitting it", flag_yes,
     AT(is_dry)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "submit",
    .usage = "[options] -f FILE [-f FILE...]\n"
             "[options] -- COMMAND [ARGUMENT...]",
    .about = "Submits jobs to firnd and prints their numbers. A printed number "
             "means that the job is stored on disk. A job is a YAML file (-f) "
             "or a command with job options; the command is run without a "
             "shell.",
    .table = table,
    .shared = job_flags_table,
    .shared_head = "job options",
    .shared_at = AT(job),
};

/* The jobs to send, and the answers. */
struct batch {
    const struct args *args;
    struct live live;
    json_t *answers;
    struct firn_buf out;
};

/* `here`: the current directory; NULL if the text has a working directory. */
static enum firn_status post(struct batch *batch, struct firn_bytes text,
                             const char *here, json_t **answer,
                             struct firn_error *err)
{
    char id[CLIENT_ID_MAX];
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    const char *programs = getenv("PATH");
    bool is_held = batch->args->is_held;
    buf_puts(&path, is_held ? "/v1/jobs?hold=1" : "/v1/jobs");
    if (here != NULL) {
        buf_puts(&path, is_held ? "&workdir=" : "?workdir=");
        client_escape(&path, here);
    }
    struct client_request request = {.method = "POST",
                                     .path = path.at,
                                     .content_type = "application/yaml",
                                     .body = text,
                                     .request_id = batch->args->request};
    if (programs != NULL && strlen(programs) <= PATH_SENT_MOST)
        request.programs = programs;
    if (request.request_id == NULL) {
        status = client_draw_id(id, err);
        request.request_id = id;
    }
    if (status == FIRN_OK)
        status = client_call(batch->live.client, &request, answer, err);
    buf_release(&path);
    return status;
}

/* Sends one job; `where` is its file, or NULL. Returns the exit status. */
static int send_one(struct batch *batch, struct firn_bytes text,
                    const char *where)
{
    struct firn_error err = {0};
    json_t *answer = NULL;
    char here[PATH_MAX];
    bool is_here = where != NULL && getcwd(here, sizeof here) != NULL;
    if (batch->args->is_dry) {
        buf_add(&batch->out, text.at, text.n);
        return 0;
    }
    if (post(batch, text, is_here ? here : NULL, &answer, &err) != FIRN_OK) {
        live_file_name_error(&err, where);
        return live_failed(&batch->live, &err);
    }
    buf_printf(&batch->out, "%.0f\n", answer_number(answer, "id", -1));
    json_array_append_new(batch->answers, answer);
    return 0;
}

static int send_files(struct batch *batch)
{
    const struct words *files = &batch->args->files;
    int rc = 0;
    for (size_t i = 0; i < files->n && rc != 130; i++) {
        struct firn_error err = {0};
        struct firn_buf text = {0};
        int one = 1;
        if (live_file_read(&text, files->at[i], &err) != FIRN_OK ||
            live_config_put(&text, files->at[i], &err) != FIRN_OK)
            live_failed(&batch->live, &err);
        else
            one = send_one(batch, (struct firn_bytes){text.at, text.n},
                           files->at[i]);
        buf_release(&text);
        rc = one != 0 ? one : rc;
    }
    return rc;
}

/* Does a word of the list set the same variable as `variable`? */
static bool has_variable(const struct words *words, const char *variable)
{
    size_t n = strcspn(variable, "=");
    for (size_t i = 0; i < words->n; i++)
        if (strncmp(words->at[i], variable, n) == 0 &&
            (words->at[i][n] == '=' || words->at[i][n] == '\0'))
            return true;
    return false;
}

/* All variables that a job may set and --env does not. Those of the shell's own
 * state are left out, and those that are not UTF-8. */
static void take_environment(struct words *words)
{
    static const char *const own[] = {"PWD", "OLDPWD", "SHLVL", "_"};
    for (char **at = environ; *at != NULL; at++) {
        char name[256];
        struct firn_buf quoted = {0};
        size_t n = strcspn(*at, "=");
        if ((*at)[n] != '=' || n >= sizeof name || has_variable(words, *at))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n, *at);
        bool is_wanted =
            job_env_wrong(name) == NULL && safe_quote(&quoted, *at);
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            is_wanted = is_wanted && strcmp(name, own[i]) != 0;
        if (is_wanted)
            words_add(words, *at, strlen(*at));
        buf_release(&quoted);
    }
}

static int send_flags(struct batch *batch, char **argv)
{
    struct firn_error err = {0};
    struct firn_buf text = {0};
    char here[PATH_MAX];
    int rc = 1;
    if (getcwd(here, sizeof here) == NULL)
        firn_fail(&err, FIRN_EIO, "the working directory: %s", strerror(errno));
    else if (job_text(&text, &batch->args->job, argv, here, &err) == FIRN_OK)
        live_config_put(&text, NULL, &err);
    if (err.status != FIRN_OK)
        rc = live_failed(&batch->live, &err);
    else
        rc = send_one(batch, (struct firn_bytes){text.at, text.n}, NULL);
    buf_release(&text);
    return rc;
}

/* Waits for all jobs; returns the status of the first that failed. */
static int wait_all(struct batch *batch)
{
    int rc = 0;
    client_catch_interrupts();
    for (size_t i = 0; i < json_array_size(batch->answers) && rc != 130; i++) {
        double id = answer_number(json_array_get(batch->answers, i), "id", -1);
        json_t *job = NULL;
        int one = live_wait(&batch->live, (long long)id, &job);
        if (one == 130)
            fprintf(stderr,
                    "firn submit: job %.0f goes on; 'firn cancel %.0f' ends "
                    "it\n",
                    id, id);
        rc = rc == 0 || one == 130 ? one : rc;
        if (job != NULL)
            json_array_set_new(batch->answers, i, job);
    }
    return rc;
}

static int submit(struct batch *batch, char **argv)
{
    const struct args *args = batch->args;
    int rc = args->files.n > 0 ? send_files(batch) : send_flags(batch, argv);
    bool is_json = batch->live.is_json && !args->is_dry;
    int written = is_json && !args->waits
                      ? live_write_json(&batch->live, batch->answers)
                  : is_json ? 0
                            : live_write(&batch->live, &batch->out);
    rc = rc != 0 ? rc : written;
    if (!args->waits || args->is_dry || rc == 130)
        return rc;
    int waited = wait_all(batch);
    if (is_json)
        written = live_write_json(&batch->live, batch->answers);
    rc = rc != 0 ? rc : waited;
    return rc != 0 ? rc : written;
}

static int check(const struct args *args, int argc)
{
    bool has_command = argc > 1;
    if (args->files.n == 0 && !has_command)
        return flags_wrong(&page, "no job given: use -f FILE, or -- COMMAND");
    if (args->files.n > 0 && (has_command || job_flags_any(&args->job)))
        return flags_wrong(&page, "-f FILE cannot be combined with a command "
                                  "or with job options");
    if (args->files.n > 0 && args->takes_all)
        return flags_wrong(&page, "--env-all goes with a command; in a job "
                                  "file 'env' lists the variables");
    if (args->files.n > 1 && args->request != NULL)
        return flags_wrong(&page,
                           "--request-id names one job, but %zu files were "
                           "given",
                           args->files.n);
    return -1;
}

int cmd_submit(int argc, char **argv)
{
    struct args args = {0};
    struct batch batch = {.args = &args};
    job_flags_init(&args.job);
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = check(&args, argc);
    if (rc < 0) {
        argv[argc] = NULL; /* ends the operands */
        args.live.is_offline = args.is_dry;
        if (args.takes_all)
            take_environment(&args.job.value[JOB_FIELD_env].words);
        rc = live_open(&batch.live, &page, &args.live);
        batch.answers = json_array();
        if (rc < 0)
            rc = submit(&batch, argv + 1);
        live_close(&batch.live);
        json_decref(batch.answers);
    }
    buf_release(&batch.out);
    words_release(&args.files);
    job_flags_release(&args.job);
    return rc;
}
