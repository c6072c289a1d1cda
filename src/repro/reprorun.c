/* reprorun.c - runs the simulations of scenarios, each once.
 *
 * (1) A child process parses its command line as `firn sim` does, so that
 * errors in a scenario give the same messages. Standard error of the child goes
 * to a temporary file; its first line is the reason of a failure. (2) A run
 * with unfinished jobs has no result: its means would cover other jobs than
 * those of the other runs.
 */
#include "repro/reprorun.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/pool.h"
#include "cli/progress.h"
#include "cli/simargs.h"
#include "cli/simfiles.h"
#include "repro/repromemory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void book_add(struct repro_book *book, struct repro_scenario *scenario)
{
    struct repro_part part = {.scenario = scenario};
    part.cells = mem_new((size_t)REPRO_NROWS * scenario->policies_count *
                             (size_t)scenario->npoints,
                         sizeof *part.cells);
    vec_add(&book->parts, part);
}

struct repro_cell *book_cell(const struct repro_part *part,
                             enum repro_rules rules, int policy, int point)
{
    const struct repro_scenario *it = part->scenario;
    size_t row = (size_t)rules * it->policies_count + (size_t)policy;
    return &part->cells[row * (size_t)it->npoints + (size_t)point];
}

/* --- running ------------------------------------------------------------- */

struct watched {
    struct repro_book *book;
    struct progress progress;
};

static void send_share(void *child, double share)
{
    pool_share(child, share);
}

/* Copies the first line of the error output without "firn sim: ". (1) */
static void first_error(FILE *errors, char *out, size_t size)
{
    char line[FIRN_ERROR_TEXT] = "";
    rewind(errors);
    if (fgets(line, sizeof line, errors) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    const char *text = strncmp(line, "firn sim: ", 10) == 0 ? line + 10 : line;
    str_copy(out, size,
             text[0] != '\0' ? text : "the command line was rejected");
}

/* A file of the run in the scratch directory. */
static void file_of(const struct repro_book *book, size_t run, const char *kind,
                    struct firn_buf *out)
{
    buf_clear(out);
    buf_printf(out, "%s/run-%zu.%s.csv", book->scratch.at, run, kind);
}

/* Simulates a command line. */
static enum firn_status simulate(const struct repro_book *book, size_t task,
                                 struct pool_child *child,
                                 struct firn_sim_result *out,
                                 struct firn_error *err)
{
    struct sim_args args;
    const struct words *argv = &book->runs.at[task].argv;
    struct firn_buf jobs = {0}, timeline = {0};
    char message[FIRN_ERROR_TEXT];
    FILE *errors = tmpfile();
    if (errors == NULL || dup2(fileno(errors), STDERR_FILENO) < 0)
        return firn_fail(err, FIRN_EIO,
                         "cannot create a temporary file for error output");
    char **line = mem_new(argv->n + 1, sizeof *line); /* ends with NULL */
    memcpy(line, argv->at, argv->n * sizeof *line);
    enum firn_status status = FIRN_OK;
    if (simargs_read(&args, (int)argv->n, line) >= 0) {
        first_error(errors, message, sizeof message);
        status = firn_fail(err, FIRN_EINVAL, "%s", message);
    } else {
        args.options.trace = args.traces.at[0];
        args.options.policy = args.policies.at[0];
        args.options.progress = send_share;
        args.options.progress_arg = child;
        args.options.stop = pool_stop();
        args.options.times_rounds = true;
        if (book->runs.at[task].keeps_files) {
            file_of(book, task, "jobs", &jobs);
            file_of(book, task, "timeline", &timeline);
            args.options.jobs_path = jobs.at;
            args.options.timeline_path = timeline.at;
        }
        status = firn_sim_run(&args.options, out, err);
    }
    simargs_release(&args);
    mem_free(line);
    buf_release(&jobs);
    buf_release(&timeline);
    fclose(errors);
    return status;
}

static enum firn_status run_one(void *arg, size_t task,
                                struct pool_child *child, void *out,
                                struct firn_error *err)
{
    const struct watched *watched = arg;
    const struct words *argv = &watched->book->runs.at[task].argv;
    struct repro_result *result = out;
    *result = (struct repro_result){0};
    if (strcmp(argv->at[0], "memory") == 0)
        return memory_evaluate(argv->at[1], argv->at[2], &result->error, err);
    return simulate(watched->book, task, child, &result->sim, err);
}

static void watch(void *arg, const struct pool *pool)
{
    struct watched *watched = arg;
    struct pool_progress at = pool_progress(pool);
    progress_draw(&watched->progress, at.share, at.nended, pool->ntasks,
                  at.running < pool->ntasks
                      ? watched->book->runs.at[at.running].name
                      : "");
}

static void store(struct repro_book *book, size_t i,
                  const struct pool_outcome *outcome)
{
    struct repro_run *run = &book->runs.at[i];
    if (outcome->state != POOL_ENDED) {
        str_copy(run->why, sizeof run->why, "interrupted");
        return;
    }
    if (outcome->status != FIRN_OK || !outcome->has_out) {
        str_copy(run->why, sizeof run->why, outcome->text);
        return;
    }
    memcpy(&run->result, outcome->out, sizeof run->result);
    run->is_done = run->result.sim.unfinished == 0; /* (2) */
    if (!run->is_done)
        snprintf(run->why, sizeof run->why, "%ld jobs did not finish",
                 run->result.sim.unfinished);
}

bool book_run(struct repro_book *book, int width, bool is_quiet)
{
    struct watched watched = {.book = book};
    struct pool pool = {
        .ntasks = book->runs.n,
        .out_size = sizeof(struct repro_result),
        .width = width,
        .arg = &watched,
        .run = run_one,
        .watch = watch,
    };
    progress_begin(&watched.progress, is_quiet);
    pool_run(&pool);
    progress_wipe(&watched.progress);
    for (size_t i = 0; i < pool.ntasks; i++)
        store(book, i, &pool.outcomes[i]);
    bool is_whole = !pool.is_interrupted;
    pool_release(&pool);
    return is_whole;
}

long book_jobs(const struct repro_book *book, const struct repro_cell *cell)
{
    long jobs = 0;
    for (size_t i = 0; i < cell->n; i++) {
        const struct repro_run *run = &book->runs.at[cell->at[i]];
        if (!run->is_done)
            return -1;
        jobs += run->result.sim.jobs;
    }
    return jobs;
}

/* Value of a run of a cell: the least over its repeats if a clock measures it,
 * else that of the first (all are equal). */
static double value_of(const struct repro_book *book,
                       const struct metric *metric,
                       const struct repro_cell *cell, size_t at)
{
    size_t step = (size_t)cell->ndraws * (size_t)cell->npatterns;
    double least = NAN;
    for (size_t i = at; i < cell->n; i += step) {
        double now = metric_of(metric, &book->runs.at[cell->at[i]].result);
        least = isnan(least) ? now : fmin(least, now);
        if (!metric->is_measured)
            break;
    }
    return least;
}

double book_draw(const struct repro_book *book, const struct repro_part *part,
                 const struct repro_cell *cell, int metric, int draw)
{
    double sum = 0;
    if (cell->n == 0 || book_jobs(book, cell) < 0)
        return NAN;
    for (int i = 0; i < cell->npatterns; i++)
        sum += value_of(book, &part->scenario->metric[metric], cell,
                        (size_t)draw * (size_t)cell->npatterns + (size_t)i);
    return sum / cell->npatterns;
}

struct repro_figure book_value(const struct repro_book *book,
                               const struct repro_part *part,
                               enum repro_rules rules, int policy, int point,
                               int metric)
{
    const struct repro_cell *cell = book_cell(part, rules, policy, point);
    double *values = mem_new((size_t)cell->ndraws + 1, sizeof *values);
    for (int i = 0; i < cell->ndraws; i++)
        values[i] = book_draw(book, part, cell, metric, i);
    struct repro_figure figure = stat_mean(values, cell->ndraws);
    mem_free(values);
    if (figure.low < 0) /* no metric is negative */
        figure.low = 0;
    return figure;
}

/* The run whose files are kept; NULL: the policy has none. */
static struct repro_run *shown(const struct repro_book *book,
                               const struct repro_part *part, int policy)
{
    const struct repro_cell *cell = book_cell(part, REPRO_HONEST, policy, 0);
    struct repro_run *run = cell->n > 0 ? &book->runs.at[cell->at[0]] : NULL;
    return run != NULL && strcmp(run->argv.at[0], "memory") != 0 ? run : NULL;
}

enum firn_status book_keep_files(struct repro_book *book,
                                 struct firn_error *err)
{
    if (book->scratch.n == 0)
        FIRN_TRY(simfiles_scratch(&book->scratch, err));
    for (size_t i = 0; i < book->parts.n; i++)
        for (size_t p = 0; p < book->parts.at[i].scenario->policies_count;
             p++) {
            struct repro_run *run = shown(book, &book->parts.at[i], (int)p);
            if (run != NULL)
                run->keeps_files = true;
        }
    return FIRN_OK;
}

const struct repro_run *book_files(const struct repro_book *book,
                                   const struct repro_part *part, int policy,
                                   struct firn_buf *path)
{
    const struct repro_run *run = shown(book, part, policy);
    if (run == NULL || !run->is_done || !run->keeps_files)
        return NULL;
    file_of(book, (size_t)(run - book->runs.at), "jobs", path);
    return run;
}

static void remove_scratch(struct repro_book *book)
{
    struct firn_buf file = {0};
    for (size_t i = 0; i < book->runs.n; i++) {
        if (!book->runs.at[i].keeps_files)
            continue;
        file_of(book, i, "jobs", &file);
        unlink(file.at);
        file_of(book, i, "timeline", &file);
        unlink(file.at);
    }
    buf_release(&file);
    struct firn_buf path = {0};
    for (size_t i = 0; i < book->made.n; i++) {
        buf_clear(&path);
        buf_printf(&path, "%s/made-%zu.csv", book->scratch.at, i);
        remove(path.at);
    }
    if (book->scratch.n > 0)
        rmdir(book->scratch.at);
    buf_release(&path);
    buf_release(&book->scratch);
}

void book_release(struct repro_book *book)
{
    remove_scratch(book);
    for (size_t i = 0; i < book->parts.n; i++) {
        struct repro_part *part = &book->parts.at[i];
        size_t n = (size_t)REPRO_NROWS * part->scenario->policies_count *
                   (size_t)part->scenario->npoints;
        for (size_t k = 0; k < n; k++)
            vec_release(&part->cells[k]);
        mem_free(part->cells);
        scenario_free(part->scenario);
    }
    for (size_t i = 0; i < book->runs.n; i++)
        words_release(&book->runs.at[i].argv);
    vec_release(&book->parts);
    vec_release(&book->runs);
    map_release(&book->lines);
    map_release(&book->made);
}
