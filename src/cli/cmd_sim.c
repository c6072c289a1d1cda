/* cmd_sim.c - firn sim: simulates every trace under every policy, in parallel.
 *
 * A task is a pair of trace and policy; it runs in its own process
 * (cli/pool.h), which sends its result back as plain data. Results are printed
 * in the order of the command line, when all tasks have ended or were
 * interrupted.
 *
 * (1) Standard output has results only; messages and the progress bar go to
 *     standard error.
 * (2) Messages about the rows of a trace are printed once, not per policy;
 * equal failures of several policies are one message. (3) --explain reads event
 * logs. Without --out they are in a temporary directory.
 */
#include "base/buf.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/pool.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/simargs.h"
#include "cli/simfiles.h"
#include "cli/simlives.h"
#include "sim/world.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct batch {
    const struct sim_args *args;
    struct words labels;     /* names of the traces in file names */
    struct firn_buf scratch; /* directory of logs that only --explain reads */
    struct progress progress;
};

static const char *trace_of(const struct batch *batch, size_t task)
{
    return batch->args->traces.at[task / batch->args->policies.n];
}

static const char *policy_of(const struct batch *batch, size_t task)
{
    return batch->args->policies.at[task % batch->args->policies.n];
}

/* Sets the path of the event log of a task; false if it has none. */
static bool log_path_of(const struct batch *batch, size_t task,
                        struct firn_buf *out)
{
    const char *dir =
        batch->args->out_dir ? batch->args->out_dir : batch->scratch.at;
    if (dir)
        simfiles_path(dir, batch->labels.at[task / batch->args->policies.n],
                      policy_of(batch, task), "events.tsv", out);
    return dir != NULL;
}

static void send_share(void *child, double share)
{
    pool_share(child, share);
}

/* The directory of files of jobs and timelines; NULL: none is written. */
static const char *files_dir(const struct batch *batch)
{
    if (batch->args->out_dir != NULL || batch->args->report_path == NULL)
        return batch->args->out_dir;
    return batch->scratch.at;
}

static void path_of(const struct batch *batch, size_t task, const char *dir,
                    const char *kind, struct firn_buf *out)
{
    simfiles_path(dir, batch->labels.at[task / batch->args->policies.n],
                  policy_of(batch, task), kind, out);
}

/* Runs one simulation, in the child process. */
static enum firn_status run_one(void *arg, size_t task,
                                struct pool_child *child, void *out,
                                struct firn_error *err)
{
    const struct batch *batch = arg;
    const char *dir = files_dir(batch);
    struct firn_sim_options options = batch->args->options;
    struct firn_buf paths[4] = {{0}};
    static const char *const kinds[] = {"jobs.csv", "timeline.csv"};
    options.trace = trace_of(batch, task);
    options.policy = policy_of(batch, task);
    options.progress = send_share;
    options.progress_arg = child;
    options.stop = pool_stop();
    for (int i = 0; dir && i < 2; i++)
        path_of(batch, task, dir, kinds[i], &paths[i]);
    log_path_of(batch, task, &paths[2]);
    if (dir && options.accounts != NULL)
        path_of(batch, task, dir, "usage.csv", &paths[3]);
    options.usage_path = paths[3].at;
    options.jobs_path = paths[0].at;
    options.timeline_path = paths[1].at;
    options.log_path = paths[2].at;
    enum firn_status status = firn_sim_run(&options, out, err);
    for (int i = 0; i < 4; i++)
        buf_release(&paths[i]);
    return status;
}

static void watch(void *arg, const struct pool *pool)
{
    struct batch *batch = arg;
    struct pool_progress at = pool_progress(pool);
    progress_draw(&batch->progress, at.share, at.nended, pool->ntasks,
                  at.running < pool->ntasks ? policy_of(batch, at.running)
                                            : "");
}

/* Has the task a result to print: it ended, or stalled? */
static bool is_printed(const struct pool_outcome *outcome)
{
    return outcome->state == POOL_ENDED && outcome->has_out &&
           (outcome->status == FIRN_OK || outcome->status == FIRN_ESTALLED);
}

static bool is_failed(const struct pool_outcome *outcome)
{
    return outcome->state == POOL_ENDED && outcome->status != FIRN_OK;
}

/* The message without the trace's name, which is printed before it. */
static const char *without(const char *text, const char *trace)
{
    size_t n = strlen(trace);
    bool has = strncmp(text, trace, n) == 0 && strncmp(text + n, ": ", 2) == 0;
    return has ? text + n + 2 : text;
}

/* Did `other` fail on the same trace with the same message as `task`? */
static bool same_failure(const struct batch *batch, const struct pool *pool,
                         size_t task, size_t other)
{
    size_t npolicies = batch->args->policies.n;
    return other / npolicies == task / npolicies &&
           is_failed(&pool->outcomes[other]) &&
           strcmp(pool->outcomes[task].text, pool->outcomes[other].text) == 0;
}

static void report_failure(const struct batch *batch, const struct pool *pool,
                           size_t task)
{
    for (size_t i = 0; i < task; i++)
        if (same_failure(batch, pool, task, i))
            return; /* (2) */
    const char *trace = trace_of(batch, task);
    const char *before = " (";
    fprintf(stderr, "firn sim: %s", trace);
    for (size_t i = task; i < pool->ntasks; i++) {
        if (!same_failure(batch, pool, task, i))
            continue;
        fprintf(stderr, "%s%s", before, policy_of(batch, i));
        before = ", ";
    }
    fprintf(stderr, "): %s\n", without(pool->outcomes[task].text, trace));
}

/* Reports bad rows of a trace and jobs without a profile, from the first result
 * of the trace. */
static void report_bad_rows(const struct batch *batch, const struct pool *pool,
                            size_t trace)
{
    size_t npolicies = batch->args->policies.n;
    const struct firn_sim_result *result = NULL;
    for (size_t i = 0; i < npolicies && !result; i++)
        if (is_printed(&pool->outcomes[trace * npolicies + i]))
            result = pool->outcomes[trace * npolicies + i].out;
    if (!result)
        return;
    long shown = 0;
    for (size_t i = 0; i < 3 && result->first_bad[i][0] != '\0'; i++, shown++)
        fprintf(stderr, "firn sim: %s\n", result->first_bad[i]);
    if (result->bad_rows > shown)
        fprintf(stderr, "firn sim: %s: %ld more bad row%s\n", result->trace,
                result->bad_rows - shown,
                result->bad_rows - shown == 1 ? "" : "s");
    if (result->unprofiled_jobs > 0)
        fprintf(stderr,
                "firn sim: %s: %ld job%s of applications without a profile "
                "('%s' first) keep the trace's duration\n",
                result->trace, result->unprofiled_jobs,
                result->unprofiled_jobs == 1 ? "" : "s", result->unprofiled);
    if (result->unfrozen_jobs > 0)
        fprintf(stderr,
                "firn sim: %s: %ld job%s of applications without data on "
                "layers ('%s' first) freeze%s no layer\n",
                result->trace, result->unfrozen_jobs,
                result->unfrozen_jobs == 1 ? "" : "s", result->unfrozen,
                result->unfrozen_jobs == 1 ? "s" : "");
}

/* Appends the histories for --explain. A task that failed to start has no log;
 * its failure was reported before. */
static int explain(const struct batch *batch, const struct pool *pool,
                   struct firn_buf *out)
{
    struct lives lives;
    struct firn_buf path = {0};
    lives_begin(&lives, &batch->args->explains,
                batch->args->format == FIRN_SIM_JSON);
    for (size_t i = 0; i < pool->ntasks; i++)
        if (pool->outcomes[i].state == POOL_ENDED &&
            log_path_of(batch, i, &path) && access(path.at, R_OK) == 0)
            lives_add(&lives, path.at, trace_of(batch, i));
    int rc = lives_end(&lives);
    lives_print(&lives, out);
    lives_release(&lives);
    buf_release(&path);
    return rc;
}

static int report(const struct batch *batch, const struct pool *pool)
{
    VEC(struct firn_sim_result) results = {0};
    struct firn_buf text = {0};
    bool has_failed = false;
    for (size_t i = 0; !batch->args->is_quiet && i < batch->args->traces.n; i++)
        report_bad_rows(batch, pool, i);
    for (size_t i = 0; i < pool->ntasks; i++) {
        const struct pool_outcome *outcome = &pool->outcomes[i];
        if (is_failed(outcome)) {
            report_failure(batch, pool, i);
            has_failed = true;
        }
        if (is_printed(outcome))
            vec_add(&results, *(const struct firn_sim_result *)outcome->out);
    }
    firn_sim_print(results.at, results.n, batch->args->format, &text);
    if (batch->args->explains.n > 0 && explain(batch, pool, &text) != 0)
        has_failed = true;
    fflush(stderr);
    int rc = output_write("sim", &text);
    if (pool->is_interrupted) {
        fprintf(stderr, "firn sim: interrupted; %zu of %zu runs finished\n",
                results.n, pool->ntasks);
        rc = 130;
    }
    vec_release(&results);
    buf_release(&text);
    return rc == 0 && has_failed ? 1 : rc;
}

/* Removes the temporary directory with its logs, complete or not. */
static void remove_scratch(struct batch *batch, size_t ntasks)
{
    struct firn_buf path = {0};
    static const char *const kinds[] = {"events.tsv", "jobs.csv",
                                        "timeline.csv"};
    for (size_t i = 0; i < 3 * ntasks; i++) {
        path_of(batch, i / 3, batch->scratch.at, kinds[i % 3], &path);
        remove(path.at);
        buf_puts(&path, ".tmp");
        remove(path.at);
    }
    rmdir(batch->scratch.at);
    buf_release(&path);
    buf_release(&batch->scratch);
}

/* The page of --report; returns the exit status. */
static int write_report(const struct batch *batch, const struct pool *pool)
{
    struct report page = {0};
    struct firn_buf path = {0}, text = {0};
    struct firn_error err = {0};
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; i < pool->ntasks && status == FIRN_OK; i++) {
        if (!is_printed(&pool->outcomes[i]))
            continue;
        path_of(batch, i, files_dir(batch), "jobs.csv", &path);
        status = report_add(&page, path.at, &err);
    }
    if (status == FIRN_OK) {
        report_page(&page, &text);
        status = output_file(batch->args->report_path, &text, &err);
    }
    if (status != FIRN_OK)
        fprintf(stderr, "firn sim: --report: %s\n", err.text);
    buf_release(&path);
    buf_release(&text);
    report_release(&page);
    return status == FIRN_OK ? 0 : 1;
}

static int run(const struct sim_args *args)
{
    struct batch batch = {.args = args};
    struct firn_error err = {0};
    if (args->out_dir && simfiles_folder(args->out_dir, &err) != FIRN_OK) {
        fprintf(stderr, "firn sim: --out: %s\n", err.text);
        return 1;
    }
    bool needs_scratch =
        (args->explains.n > 0 || args->report_path) && !args->out_dir;
    if (needs_scratch && simfiles_scratch(&batch.scratch, &err) != FIRN_OK) {
        fprintf(stderr, "firn sim: %s: %s\n",
                args->report_path ? "--report" : "--explain", err.text);
        return 1;
    }
    struct pool pool = {
        .ntasks = args->traces.n * args->policies.n,
        .out_size = sizeof(struct firn_sim_result),
        .width = args->width,
        .arg = &batch,
        .run = run_one,
        .watch = watch,
    };
    simfiles_labels(&args->traces, &batch.labels);
    progress_begin(&batch.progress, args->is_quiet);
    pool_run(&pool);
    progress_wipe(&batch.progress);
    int rc = report(&batch, &pool);
    if (rc != 130 && args->report_path != NULL) {
        int failed = write_report(&batch, &pool);
        rc = rc != 0 ? rc : failed;
    }
    if (needs_scratch)
        remove_scratch(&batch, pool.ntasks);
    pool_release(&pool);
    words_release(&batch.labels);
    return rc;
}

static int replay_lives(const struct sim_args *args)
{
    struct lives lives;
    struct firn_buf text = {0};
    lives_begin(&lives, &args->explains, args->format == FIRN_SIM_JSON);
    for (size_t i = 0; i < args->replays.n; i++)
        lives_add(&lives, args->replays.at[i], args->replays.at[i]);
    int failed = lives_end(&lives);
    lives_print(&lives, &text);
    int rc = output_write("sim", &text);
    buf_release(&text);
    lives_release(&lives);
    return failed ? failed : rc;
}

static int replay(const struct sim_args *args)
{
    if (args->explains.n > 0)
        return replay_lives(args);
    struct firn_buf text = {0};
    int failed = 0;
    for (size_t i = 0; i < args->replays.n; i++) {
        struct firn_sim_result result;
        struct firn_error err = {0};
        const char *path = args->replays.at[i];
        if (firn_sim_replay(path, &result, &err) != FIRN_OK) {
            fprintf(stderr, "firn sim: %s\n", err.text);
            failed = 1;
            continue;
        }
        buf_printf(&text, "%s: ok, %ld jobs under %s, JCT mean ", path,
                   result.jobs, result.policy);
        buf_double(&text, result.jct_mean_s);
        buf_printf(&text, " s, %ld restarts", result.restarts);
        if (strcmp(result.world, world_honest.name) != 0)
            buf_printf(&text,
                       "; under --compat %s the work of jobs is not checked",
                       result.world);
        buf_putc(&text, '\n');
    }
    int rc = output_write("sim", &text);
    buf_release(&text);
    return failed ? failed : rc;
}

int cmd_sim(int argc, char **argv)
{
    struct sim_args args;
    int rc = simargs_read(&args, argc, argv);
    if (rc < 0)
        rc = args.is_replay ? replay(&args) : run(&args);
    simargs_release(&args);
    return rc;
}
