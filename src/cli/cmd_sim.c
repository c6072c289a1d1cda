/* cmd_sim.c - firn sim: every trace under every policy, in parallel.
 *
 * A task is one (trace, policy), traces outermost; each runs in a process of
 * its own (cli/pool.h) and sends its result back as plain data. Results are
 * printed in the order asked, once all have ended or were interrupted.
 *
 * (1) Standard output holds results only; words and the bar go to standard
 *     error.
 * (2) What is said of a trace's rows is said once, not once a policy; the
 *     same failure of several policies is one sentence.
 * (3) Lives are told from logs. Where no --out asks for these they lie in a
 *     folder of their own until the end.
 */
#include "base/buf.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/pool.h"
#include "cli/progress.h"
#include "cli/simargs.h"
#include "cli/simfiles.h"
#include "cli/simlives.h"
#include "sim/world.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct batch {
    const struct sim_args *args;
    struct words labels;     /* of the traces, for file names */
    struct firn_buf scratch; /* folder for logs that only --explain reads */
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

/* Where the log of a task goes; false when there is none. */
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

static void tell_share(void *child, double share)
{
    pool_share(child, share);
}

/* One simulation, in its own process. */
static enum firn_status run_one(void *arg, size_t task,
                                struct pool_child *child, void *out,
                                struct firn_error *err)
{
    const struct batch *batch = arg;
    const char *dir = batch->args->out_dir;
    struct firn_sim_options options = batch->args->options;
    struct firn_buf paths[3] = {{0}};
    static const char *const kinds[] = {"jobs.csv", "timeline.csv"};
    options.trace = trace_of(batch, task);
    options.policy = policy_of(batch, task);
    options.progress = tell_share;
    options.progress_arg = child;
    options.stop = pool_stop();
    for (int i = 0; dir && i < 2; i++)
        simfiles_path(dir, batch->labels.at[task / batch->args->policies.n],
                      options.policy, kinds[i], &paths[i]);
    log_path_of(batch, task, &paths[2]);
    options.jobs_path = paths[0].at;
    options.timeline_path = paths[1].at;
    options.log_path = paths[2].at;
    enum firn_status status = firn_sim_run(&options, out, err);
    for (int i = 0; i < 3; i++)
        buf_release(&paths[i]);
    return status;
}

static void watch(void *arg, const struct pool *pool)
{
    struct batch *batch = arg;
    struct pool_sight at = pool_look(pool);
    progress_draw(&batch->progress, at.share, at.nended, pool->ntasks,
                  at.running < pool->ntasks ? policy_of(batch, at.running)
                                            : "");
}

/* A result worth printing: of a run that ended, or that could not go on. */
static bool is_printed(const struct pool_outcome *outcome)
{
    return outcome->state == POOL_ENDED && outcome->has_out &&
           (outcome->status == FIRN_OK || outcome->status == FIRN_ESTALLED);
}

static bool is_failed(const struct pool_outcome *outcome)
{
    return outcome->state == POOL_ENDED && outcome->status != FIRN_OK;
}

/* The sentence without the trace's name, which is said before it. */
static const char *without(const char *text, const char *trace)
{
    size_t n = strlen(trace);
    bool has = strncmp(text, trace, n) == 0 && strncmp(text + n, ": ", 2) == 0;
    return has ? text + n + 2 : text;
}

/* The tasks of the same trace as `task` that failed with the same words. */
static bool same_failure(const struct batch *batch, const struct pool *pool,
                         size_t task, size_t other)
{
    size_t npolicies = batch->args->policies.n;
    return other / npolicies == task / npolicies &&
           is_failed(&pool->outcomes[other]) &&
           strcmp(pool->outcomes[task].text, pool->outcomes[other].text) == 0;
}

static void say_failure(const struct batch *batch, const struct pool *pool,
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

/* The first bad rows of a trace and jobs without a profile, from the first
 * result that read it. */
static void say_bad_rows(const struct batch *batch, const struct pool *pool,
                         size_t trace)
{
    size_t npolicies = batch->args->policies.n;
    const struct firn_sim_result *result = NULL;
    for (size_t i = 0; i < npolicies && !result; i++)
        if (is_printed(&pool->outcomes[trace * npolicies + i]))
            result = pool->outcomes[trace * npolicies + i].out;
    if (!result)
        return;
    long told = 0;
    for (size_t i = 0; i < 3 && result->first_bad[i][0] != '\0'; i++, told++)
        fprintf(stderr, "firn sim: %s\n", result->first_bad[i]);
    if (result->bad_rows > told)
        fprintf(stderr, "firn sim: %s: %ld more bad row%s\n", result->trace,
                result->bad_rows - told,
                result->bad_rows - told == 1 ? "" : "s");
    if (result->unprofiled_jobs > 0)
        fprintf(stderr,
                "firn sim: %s: %ld job%s of applications without a profile "
                "('%s' first) keep the trace's duration\n",
                result->trace, result->unprofiled_jobs,
                result->unprofiled_jobs == 1 ? "" : "s", result->unprofiled);
    if (result->unfrozen_jobs > 0)
        fprintf(stderr,
                "firn sim: %s: %ld job%s of applications that know no layers "
                "('%s' first) freeze%s none\n",
                result->trace, result->unfrozen_jobs,
                result->unfrozen_jobs == 1 ? "" : "s", result->unfrozen,
                result->unfrozen_jobs == 1 ? "s" : "");
}

/* The lives asked for, behind the results. A run that could not begin has no
 * log, and its failure was told. */
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
            lives_tell(&lives, path.at, trace_of(batch, i));
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
        say_bad_rows(batch, pool, i);
    for (size_t i = 0; i < pool->ntasks; i++) {
        const struct pool_outcome *outcome = &pool->outcomes[i];
        if (is_failed(outcome)) {
            say_failure(batch, pool, i);
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

/* Removes the scratch folder and the logs in it, whole or not. */
static void sweep(struct batch *batch, size_t ntasks)
{
    struct firn_buf path = {0};
    for (size_t i = 0; i < ntasks; i++) {
        log_path_of(batch, i, &path);
        remove(path.at);
        buf_puts(&path, ".tmp");
        remove(path.at);
    }
    rmdir(batch->scratch.at);
    buf_release(&path);
    buf_release(&batch->scratch);
}

static int run(const struct sim_args *args)
{
    struct batch batch = {.args = args};
    struct firn_error err = {0};
    if (args->out_dir && simfiles_folder(args->out_dir, &err) != FIRN_OK) {
        fprintf(stderr, "firn sim: --out: %s\n", err.text);
        return 1;
    }
    bool needs_scratch = args->explains.n > 0 && !args->out_dir;
    if (needs_scratch && simfiles_scratch(&batch.scratch, &err) != FIRN_OK) {
        fprintf(stderr, "firn sim: --explain: %s\n", err.text);
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
    if (needs_scratch)
        sweep(&batch, pool.ntasks);
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
        lives_tell(&lives, args->replays.at[i], args->replays.at[i]);
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
            buf_printf(&text, "; in the world of %s work is not added up",
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
