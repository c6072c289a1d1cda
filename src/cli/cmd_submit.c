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
#include "base/mem.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/jobtext.h"
#include "cli/live.h"
#include "cli/liveconfig.h"
#include "cli/livefile.h"
#include "cli/livewait.h"
#include "cli/safetext.h"
#include "cli/sbatch.h"
#include "cli/template.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct args {
    struct live_args live;
    struct job_flags job;
    struct words files, with;
    const char *request, *array, *template;
    bool is_held, waits, is_dry, takes_all, is_anyway, is_script;
};

/* A longer PATH is not sent: firnd refuses it. */
enum { PATH_SENT_MOST = 8190 };

#define AT(field) offsetof(struct args, field)

static const struct flag table[] = {
    {"file", 'f', "FILE",
     "job file (YAML); - reads standard input; may be repeated", flag_word,
     AT(files)},
    {"template", 0, "NAME",
     "job file of a template, NAME.yaml in ~/.config/firn/templates or "
     "/etc/firn/templates",
     flag_text, AT(template)},
    {"with", 0, "NAME=VALUE",
     "value for {{NAME}} in the job file; may be repeated", flag_word,
     AT(with)},
    {"hold", 0, NULL, "do not start the job before 'firn release JOB'",
     flag_yes, AT(is_held)},
    {"wait", 0, NULL, "wait for the job to finish; exit with its status",
     flag_yes, AT(waits)},
    {"array", 0, "A-B[%N]",
     "submit the command once for each number, with ARRAY_INDEX set to it; at "
     "most N at a time",
     flag_text, AT(array)},
    {"anyway", 0, NULL,
     "take the job although the cluster has no such GPUs: it waits for them",
     flag_yes, AT(is_anyway)},
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
             "[options] --template NAME [--with NAME=VALUE...]\n"
             "[options] -- COMMAND [ARGUMENT...]\n"
             "[options] SCRIPT [ARGUMENT...]",
    .about = "Submits jobs to firnd and prints their numbers. A printed number "
             "means that the job is stored on disk. A job is a YAML file (-f) "
             "or a command with job options; the command is run without a "
             "shell. A script with #SBATCH lines is taken with their options, "
             "as one process for all GPUs; what firn ignores of them is named.",
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
    request.checks_fit = !batch->args->is_anyway;
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

/* Replaces placeholders, if there is a template or --with. */
static enum firn_status fill(const struct batch *batch, struct firn_buf *text,
                             const char *where, struct firn_error *err)
{
    struct firn_buf filled = {0};
    if (batch->args->template == NULL && batch->args->with.n == 0)
        return FIRN_OK;
    enum firn_status status =
        template_fill(&filled, text->at, &batch->args->with, err);
    if (status == FIRN_OK) {
        buf_clear(text);
        buf_add(text, filled.at, filled.n);
    } else {
        firn_fail_in(err, where);
    }
    buf_release(&filled);
    return status;
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
            fill(batch, &text, files->at[i], &err) != FIRN_OK ||
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

/* All variables that a job may set and --env does not. Those of the shell's own
 * state are left out, and those that are not UTF-8. */
static void take_environment(struct words *words)
{
    static const char *const own[] = {"PWD", "OLDPWD", "SHLVL", "_"};
    for (char **at = environ; *at != NULL; at++) {
        char name[256];
        struct firn_buf quoted = {0};
        size_t n = strcspn(*at, "=");
        if ((*at)[n] != '=' || n >= sizeof name || job_env_has(words, *at))
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

static int send_command(struct batch *batch, const struct job_flags *job,
                        char **argv)
{
    struct firn_error err = {0};
    struct firn_buf text = {0};
    char here[PATH_MAX];
    int rc = 1;
    if (getcwd(here, sizeof here) == NULL)
        firn_fail(&err, FIRN_EIO, "the working directory: %s", strerror(errno));
    else if (job_text(&text, job, argv, here, &err) == FIRN_OK)
        live_config_put(&text, NULL, &err);
    if (err.status != FIRN_OK)
        rc = live_failed(&batch->live, &err);
    else
        rc = send_one(batch, (struct firn_bytes){text.at, text.n}, NULL);
    buf_release(&text);
    return rc;
}

/* One of an array: its number in its name and environment, and it waits for the
 * one that is `at_once` before it. */
static int send_of_array(struct batch *batch, const struct words *numbers,
                         size_t i, long at_once, char **argv)
{
    struct job_flags job = batch->args->job;
    struct words *env = &job.value[JOB_FIELD_env].words;
    const char *own = job.value[JOB_FIELD_name].text;
    const char *first = job.value[JOB_FIELD_waits_for].text;
    struct firn_buf name = {0}, after = {0}, variable = {0};
    struct words all = {0};
    buf_printf(&name, "%s-%s", own != NULL ? own : "array", numbers->at[i]);
    buf_printf(&variable, "ARRAY_INDEX=%s", numbers->at[i]);
    for (size_t k = 0; k < env->n; k++)
        words_add(&all, env->at[k], strlen(env->at[k]));
    words_add(&all, variable.at, variable.n);
    if (batch->args->is_script) { /* of Slurm, which names it so */
        buf_clear(&variable);
        buf_printf(&variable, "SLURM_ARRAY_TASK_ID=%s", numbers->at[i]);
        words_add(&all, variable.at, variable.n);
    }
    if (first != NULL)
        buf_puts(&after, first);
    if (at_once > 0 && i >= (size_t)at_once && !batch->args->is_dry)
        buf_printf(
            &after, "%sany:%.0f", after.n > 0 ? "," : "",
            answer_number(json_array_get(batch->answers, i - (size_t)at_once),
                          "id", 0));
    job.value[JOB_FIELD_env].words = all;
    job.value[JOB_FIELD_name].text = name.at;
    job.value[JOB_FIELD_waits_for].text = after.n > 0 ? after.at : NULL;
    int rc = send_command(batch, &job, argv);
    words_release(&all);
    buf_release(&name);
    buf_release(&after);
    buf_release(&variable);
    return rc;
}

static int send_flags(struct batch *batch, char **argv)
{
    struct words numbers = {0};
    long at_once = 0;
    int rc = 0;
    if (batch->args->array == NULL)
        return send_command(batch, &batch->args->job, argv);
    if (!array_read(batch->args->array, &numbers, &at_once))
        rc = flags_wrong(&page,
                         "--array '%s' is not like 0-99, 1,3,7 or 0-99%%10 "
                         "with at most 10000 numbers",
                         batch->args->array);
    for (size_t i = 0; i < numbers.n && rc == 0; i++)
        rc = send_of_array(batch, &numbers, i, at_once, argv);
    words_release(&numbers);
    return rc;
}

/* --- scripts of sbatch ---------------------------------------------------- */

/* A script and the command that runs it; the texts live as long as it. */
struct script {
    struct sbatch lines;
    struct firn_buf path;
    char gpus[32];
    struct words argv;
};

static void put_option(struct args *args, enum job_field_id id,
                       const char *text)
{
    if (text[0] != '\0' && args->job.value[id].text == NULL)
        args->job.value[id].text = text;
}

static void say_ignored(const struct script *script, const char *name)
{
    struct firn_buf text = {0};
    for (size_t i = 0; i < script->lines.ignored.n; i++) {
        buf_puts(&text, i > 0 ? " " : "");
        safe_puts(&text, script->lines.ignored.at[i]);
    }
    if (text.n > 0)
        fprintf(stderr, "firn submit: %s: ignored: %s\n", name, text.at);
    buf_release(&text);
}

/* The interpreter of "#!", the script by its whole path, its arguments. */
static void make_command(struct script *script, int argc, char **argv)
{
    char here[PATH_MAX], *rest = NULL;
    char *words = script->lines.interpreter;
    if (words[0] == '\0')
        words_add(&script->argv, "/bin/sh", 7);
    for (char *word = strtok_r(words, " \t\r", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r", &rest))
        words_add(&script->argv, word, strlen(word));
    if (argv[1][0] != '/' && getcwd(here, sizeof here) != NULL)
        buf_printf(&script->path, "%s/", here);
    buf_puts(&script->path, argv[1]);
    words_add(&script->argv, script->path.at, script->path.n);
    for (int i = 2; i < argc; i++)
        words_add(&script->argv, argv[i], strlen(argv[i]));
}

/* Is the command such a script? Then its options are those of the job, but for
 * those that were given, and the command is in script->argv. */
static bool take_script(struct args *args, struct script *script, int argc,
                        char **argv)
{
    struct firn_buf text = {0};
    struct firn_error ignored = {0};
    struct stat st;
    if (argc < 2 || stat(argv[1], &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size > 1 << 20 ||
        live_file_read(&text, argv[1], &ignored) != FIRN_OK || text.n == 0 ||
        memchr(text.at, '\0', text.n) != NULL ||
        !sbatch_read(&script->lines, text.at)) {
        buf_release(&text);
        return false;
    }
    buf_release(&text);
    struct words *types = &args->job.value[JOB_FIELD_types].words;
    put_option(args, JOB_FIELD_name, script->lines.name);
    put_option(args, JOB_FIELD_workdir, script->lines.workdir);
    put_option(args, JOB_FIELD_queue, script->lines.queue);
    put_option(args, JOB_FIELD_waits_for, script->lines.after);
    put_option(args, JOB_FIELD_launch, "one");
    put_option(args, JOB_FIELD_limit_s, script->lines.limit);
    struct words *notify = &args->job.value[JOB_FIELD_notify].words;
    bool has_notify = notify->n > 0;
    for (size_t i = 0; i < script->lines.notify.n && !has_notify; i++)
        words_add(notify, script->lines.notify.at[i],
                  strlen(script->lines.notify.at[i]));
    if (sbatch_gpus(&script->lines) > 0)
        snprintf(script->gpus, sizeof script->gpus, "%ld",
                 sbatch_gpus(&script->lines));
    put_option(args, JOB_FIELD_gpus_min, script->gpus);
    if (script->lines.type[0] != '\0' && types->n == 0)
        words_add(types, script->lines.type, strlen(script->lines.type));
    if (script->lines.array[0] != '\0' && args->array == NULL)
        args->array = script->lines.array;
    say_ignored(script, argv[1]);
    make_command(script, argc, argv);
    return true;
}

static void script_release(struct script *script)
{
    sbatch_release(&script->lines);
    buf_release(&script->path);
    words_release(&script->argv);
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

/* A template is a file of the list. */
static int take_template(struct args *args)
{
    struct firn_buf path = {0};
    struct firn_error err = {0};
    int rc = -1;
    if (template_find(&path, args->template, &err) != FIRN_OK)
        rc = flags_wrong(&page, "%s", err.text);
    else
        words_add(&args->files, path.at, path.n);
    buf_release(&path);
    return rc;
}

static int check(const struct args *args, int argc)
{
    bool has_command = argc > 1;
    if (args->files.n == 0 && !has_command)
        return flags_wrong(&page, "no job given: use -f FILE, --template NAME "
                                  "or -- COMMAND");
    if (args->files.n == 0 && args->with.n > 0)
        return flags_wrong(&page, "--with goes with -f FILE or --template");
    if (args->files.n > 0 && (has_command || job_flags_any(&args->job)))
        return flags_wrong(&page, "-f FILE cannot be combined with a command "
                                  "or with job options");
    if (args->array != NULL && (args->files.n > 0 || args->request != NULL))
        return flags_wrong(&page, "--array goes with a command, and without "
                                  "--request-id");
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
    struct script script = {0};
    job_flags_init(&args.job);
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0 && args.template != NULL)
        rc = take_template(&args);
    if (rc < 0)
        rc = check(&args, argc);
    if (rc < 0) {
        argv[argc] = NULL; /* ends the operands */
        bool is_script =
            args.files.n == 0 && take_script(&args, &script, argc, argv);
        char **command = argv + 1;
        args.is_script = is_script;
        if (is_script) { /* the list ends with NULL */
            command = mem_new(script.argv.n + 1, sizeof *command);
            memcpy(command, script.argv.at, script.argv.n * sizeof *command);
        }
        args.live.is_offline = args.is_dry;
        if (args.takes_all)
            take_environment(&args.job.value[JOB_FIELD_env].words);
        else if (args.files.n == 0)
            job_env_python(&args.job.value[JOB_FIELD_env].words);
        rc = live_open(&batch.live, &page, &args.live);
        batch.answers = json_array();
        if (rc < 0)
            rc = submit(&batch, command);
        live_close(&batch.live);
        json_decref(batch.answers);
        if (is_script)
            mem_free(command);
    }
    buf_release(&batch.out);
    words_release(&args.files);
    words_release(&args.with);
    job_flags_release(&args.job);
    script_release(&script);
    return rc;
}
