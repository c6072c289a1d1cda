/* cmd_trace.c - `firn trace`: describe, convert and generate traces.
 *
 *     firn trace stat FILE...    statistics of traces
 *     firn trace convert FILE    a trace as firn's CSV
 *     firn trace gen             a synthetic trace
 *     firn trace export          the job history of firnd
 *     firn trace formats         the trace formats that firn reads
 *
 * Invalid rows are reported on standard error and skipped; with --strict the
 * first one is an error. An output file is opened only after the input was
 * read, so that a failure leaves an existing file unchanged.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/trace_export.h"
#include "cli/trace_import.h"
#include "cli/trace_stat.h"
#include "core/llmjobs.h"
#include "trace/mixed.h"
#include "trace/serving.h"
#include "trace/sixapps.h"
#include "trace/synth.h"
#include "trace/write.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 16 };

static int failed(const struct firn_error *err)
{
    fprintf(stderr, "firn trace: %s\n", err->text);
    return 1;
}

static void name_bad_rows(const struct firn_trace_report *report)
{
    long shown = report->bad < 3 ? report->bad : 3;
    for (long i = 0; i < shown; i++)
        fprintf(stderr, "firn trace: %s\n", report->first_bad[i]);
    if (report->bad > shown)
        fprintf(stderr, "firn trace: %ld more bad rows\n", report->bad - shown);
}

/* --- stat --- */

struct stat_args {
    const char *cluster;
    bool strict, is_json;
};

static const struct flag stat_flags[] = {
    FORMAT_FLAG(offsetof(struct stat_args, is_json)),
    {"cluster", 'c', "CLUSTER",
     "also print the load on this cluster (preset, spec or YAML file)",
     flag_text, offsetof(struct stat_args, cluster)},
    {"strict", 0, NULL, "fail on the first invalid or unsorted row", flag_yes,
     offsetof(struct stat_args, strict)},
    {0},
};

static const struct flags_page stat_page = {
    .command = "trace stat",
    .usage = "[options] FILE [FILE...]",
    .about = "Prints statistics of traces: jobs, GPUs, load, durations, "
             "arrivals.\nFILE#GROUP selects one group (virtual cluster).",
    .table = stat_flags,
};

static int print_stats(const struct stat_args *args, char **paths, int n,
                       const struct firn_cluster *cluster)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    bool is_json = args->is_json;
    int rc = 0;
    buf_puts(&out, is_json ? "{\"traces\":[" : "");
    for (int i = 0, printed = 0; i < n; i++) {
        struct trace_stat stat;
        if (trace_stat_read(&stat, paths[i], args->strict, cluster, &err) !=
            FIRN_OK) {
            rc = failed(&err);
            continue;
        }
        name_bad_rows(&stat.report);
        if (printed++ > 0)
            buf_putc(&out, is_json ? ',' : '\n');
        if (is_json)
            trace_stat_json(&stat, &out);
        else
            trace_stat_table(&stat, &out);
        trace_stat_release(&stat);
    }
    buf_puts(&out, is_json ? "]}\n" : "");
    fwrite(out.at, 1, out.n, stdout);
    buf_release(&out);
    return rc;
}

static int run_stat(int argc, char **argv)
{
    struct stat_args args = {0};
    int rc = flags_parse(&stat_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&stat_page, argc, argv, 1, INT_MAX, "trace");
    if (rc >= 0)
        return rc;
    struct firn_cluster cluster = {0};
    struct firn_error err = {0};
    if (args.cluster != NULL &&
        firn_cluster_open(&cluster, args.cluster, &err) != FIRN_OK)
        return failed(&err);
    rc = print_stats(&args, argv + 1, argc - 1,
                     args.cluster != NULL ? &cluster : NULL);
    firn_cluster_release(&cluster);
    return rc;
}

/* --- convert --- */

struct convert_args {
    const char *out, *from, *map, *zone;
    bool strict;
};

static const struct flag convert_flags[] = {
    {"from", 0, "PROGRAM",
     "read what another program wrote: sacct (output of 'sacct -a -P -o "
     "JobID,User,Submit,ElapsedRaw,AllocTRES') or kube (output of 'kubectl "
     "get pods -A -o json')",
     flag_text, offsetof(struct convert_args, from)},
    {"map", 0, "FIELD=COLUMN,...",
     "read any table with a line of names: which column holds name, submit, "
     "gpus, duration, user and app, e.g. "
     "'submit=Submit,gpus=AllocTRES:gres/gpu,"
     "duration=Elapsed'; usual names are found without it",
     flag_text, offsetof(struct convert_args, map)},
    {"zone", 0, "ZONE",
     "time zone of times that name none, e.g. Europe/Berlin; local is the "
     "system's (default: UTC)",
     flag_text, offsetof(struct convert_args, zone)},
    {"output", 'o', "OUT", "output file (default: standard output)", flag_text,
     offsetof(struct convert_args, out)},
    {"strict", 0, NULL, "fail on the first invalid or unsorted row", flag_yes,
     offsetof(struct convert_args, strict)},
    {0},
};

static const struct flags_page convert_page = {
    .command = "trace convert",
    .usage = "[options] FILE",
    .about = "Writes a trace as firn's own CSV, sorted by submission time.\n"
             "FILE#GROUP selects one group (virtual cluster).",
    .table = convert_flags,
};

/* Are the trace `in` (perhaps FILE#GROUP) and `out` the same file? */
static bool is_same_file(const char *in, const char *out)
{
    struct stat a, b;
    char path[4096];
    size_t n = strlen(in);
    if (stat(in, &a) != 0) {
        const char *mark = strrchr(in, '#');
        n = mark != NULL ? (size_t)(mark - in) : n;
    }
    if (n >= sizeof path)
        return false;
    memcpy(path, in, n);
    path[n] = '\0';
    return stat(path, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Reads the trace. With a `sink`, writes the columns of `mask` to it; without
 * one, adds the columns that the jobs need to `mask`. */
static enum firn_status pass(const char *path, bool strict, struct sink *sink,
                             unsigned *mask, struct firn_error *err)
{
    struct firn_trace *trace;
    struct firn_trace_options options = {.strict = strict};
    struct firn_job_spec spec;
    struct firn_error end = {0};
    FIRN_TRY(firn_trace_open(&trace, path, &options, err));
    if (sink != NULL)
        write_header(&sink->buf, *mask);
    while (firn_trace_next(trace, &spec, &end)) {
        if (sink == NULL) {
            *mask |= write_mask(&spec);
            continue;
        }
        write_row(&sink->buf, &spec, *mask);
        sink_flush(sink, CHUNK);
    }
    if (sink != NULL)
        name_bad_rows(firn_trace_report(trace));
    firn_trace_close(trace);
    if (end.status != FIRN_OK)
        return firn_fail(err, end.status, "%s", end.text);
    return FIRN_OK;
}

static enum firn_status convert(const char *path,
                                const struct convert_args *args,
                                struct firn_error *err)
{
    unsigned mask = 0;
    struct sink sink;
    FIRN_TRY(pass(path, args->strict, NULL, &mask, err));
    if (args->out != NULL && is_same_file(path, args->out))
        return firn_fail(err, FIRN_EINVAL,
                         "%s: the output file is the trace itself", args->out);
    FIRN_TRY(sink_open(&sink, args->out, err));
    enum firn_status status = pass(path, args->strict, &sink, &mask, err);
    struct firn_error closing = {0};
    if (sink_close(&sink, &closing) != FIRN_OK && status == FIRN_OK)
        return firn_fail(err, closing.status, "%s", closing.text);
    return status;
}

/* A table of another program. */
static enum firn_status import_table(const char *path,
                                     const struct convert_args *args,
                                     struct firn_error *err)
{
    struct trace_import report;
    struct firn_buf text = {0};
    struct sink sink;
    enum firn_status status =
        trace_import(path, args->from, args->map, &text, &report, err);
    if (status == FIRN_OK && report.bad > 0 && args->strict)
        status = firn_fail(err, FIRN_EDATA, "%s: %s", path, report.first);
    if (status == FIRN_OK && args->out != NULL && is_same_file(path, args->out))
        status =
            firn_fail(err, FIRN_EINVAL,
                      "%s: the output file is the table itself", args->out);
    if (status == FIRN_OK)
        status = sink_open(&sink, args->out, err);
    if (status == FIRN_OK) {
        buf_add(&sink.buf, text.at, text.n);
        status = sink_close(&sink, err);
        fprintf(stderr,
                "firn trace: %ld jobs; left out: %ld rows without GPUs or a "
                "run, %ld unreadable%s%s\n",
                report.jobs, report.not_gpu, report.bad,
                report.bad > 0 ? ", the first: " : "", report.first);
    }
    buf_release(&text);
    return status;
}

/* A file of no known format: says the mapping of its columns, if there is one.
 */
static void say_mapping(const char *path)
{
    struct firn_buf map = {0};
    if (trace_import_suggest(path, &map))
        fprintf(stderr,
                "firn trace: it may be a table of jobs; try: firn trace "
                "convert --map '%s' %s\n",
                map.at, path);
    buf_release(&map);
}

static int run_convert(int argc, char **argv)
{
    struct convert_args args = {0};
    struct firn_error err = {0};
    int rc = flags_parse(&convert_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&convert_page, argc, argv, 1, 1, "trace");
    if (rc >= 0)
        return rc;
    bool is_table = args.from != NULL || args.map != NULL;
    if (args.zone != NULL && !trace_import_zone(args.zone))
        return flags_wrong(&convert_page,
                           "--zone: there is no time zone '%.60s'; try a name "
                           "like Europe/Berlin, UTC or local",
                           args.zone);
    enum firn_status status = is_table ? import_table(argv[1], &args, &err)
                                       : convert(argv[1], &args, &err);
    rc = status == FIRN_OK ? 0 : failed(&err);
    if (rc != 0 && !is_table && strstr(err.text, "no trace format") != NULL)
        say_mapping(argv[1]);
    return rc;
}

/* --- gen --- */

struct gen_args {
    long jobs;
    uint64_t seed;
    const char *arrivals, *cluster, *out;
    double load, multi, duration_max_s, elastic, serving;
    double six, large_s;
    bool is_testbed, is_mixed;
    int gpus_max;
    struct words apps, models;
    bool asks;
};

static const struct flag gen_flags[] = {
    {"jobs", 'n', "N", "number of jobs (default: 1000)", flag_whole,
     offsetof(struct gen_args, jobs)},
    {"seed", 's', "S", "seed of the random numbers (default: 1)", flag_seed,
     offsetof(struct gen_args, seed)},
    {"arrivals", 0, "KIND",
     "arrival process: poisson, or diurnal with a daily cycle (default: "
     "poisson)",
     flag_text, offsetof(struct gen_args, arrivals)},
    {"load", 0, "L",
     "requested GPU time as a share of the cluster's (default: 0.8)",
     flag_positive, offsetof(struct gen_args, load)},
    {"cluster", 'c', "CLUSTER",
     "cluster that the load refers to (preset, spec or YAML file)", flag_text,
     offsetof(struct gen_args, cluster)},
    {"gpus-max", 0, "N",
     "largest number of GPUs of a job (default: the cluster's GPUs)",
     flag_count, offsetof(struct gen_args, gpus_max)},
    {"multi", 0, "SHARE",
     "share of jobs with several GPUs (default: 0.068, as in Philly)",
     flag_positive, offsetof(struct gen_args, multi)},
    {"duration-max", 0, "TIME", "longest duration of a job (default: 60d)",
     flag_duration, offsetof(struct gen_args, duration_max_s)},
    {"elastic", 0, "SHARE", "share of elastic jobs (default: 0)", flag_double,
     offsetof(struct gen_args, elastic)},
    {"apps", 0, "A,B,...", "application names to draw from (default: none)",
     flag_words, offsetof(struct gen_args, apps)},
    {"models", 0, "A,B,...",
     "generate jobs of these language models instead of GPU counts (names "
     "of 'firn memory --model list'); new means GPT-2 and BERT of 110M to 7B "
     "parameters",
     flag_words, offsetof(struct gen_args, models)},
    {"ask", 0, NULL,
     "with --models: also request the GPUs that a user would "
     "request, the fewest of the fastest type that fit",
     flag_yes, offsetof(struct gen_args, asks)},
    {"serving", 0, "SHARE",
     "add an inference load of priority 100 that holds SHARE of the cluster on "
     "average, with a daily cycle (default: none)",
     flag_positive, offsetof(struct gen_args, serving)},
    {"six-apps", 0, "SHARE",
     "generate the workload of SJF-BSBF instead: jobs of Pollux's six "
     "applications in eight hours, this share of them with more than four "
     "GPUs (the paper: 0.12); of the other options only --jobs, --seed and "
     "--large-mean count",
     flag_positive, offsetof(struct gen_args, six)},
    {"large-mean", 0, "TIME",
     "with --six-apps: mean run time of jobs with more than four GPUs "
     "(default: 1.75h; the others have 0.55h)",
     flag_duration, offsetof(struct gen_args, large_s)},
    {"testbed", 0, NULL,
     "with --six-apps: the jobs of the paper's own cluster of 16 GPUs, which "
     "come in 15 minutes; a third of them have 12 or 16 GPUs, whatever SHARE",
     flag_yes, offsetof(struct gen_args, is_testbed)},
    {"mixed", 0, NULL,
     "generate a mixed workload instead: vision models, language models, "
     "elastic jobs and fine-tuning, 30 jobs an hour (traces/README.md); of the "
     "other options only --jobs and --seed count",
     flag_yes, offsetof(struct gen_args, is_mixed)},
    {"output", 'o', "OUT", "output file (default: standard output)", flag_text,
     offsetof(struct gen_args, out)},
    {0},
};

static const struct flags_page gen_page = {
    .command = "trace gen",
    .usage = "--cluster CLUSTER [options]",
    .about = "Generates a synthetic trace: GPUs and durations are drawn from "
             "distributions of the Philly trace, and arrivals are spread so "
             "that the jobs request the share LOAD of the cluster's GPU time. "
             "With --models a job has a model and a batch of 2 to 32 that fits "
             "the cluster, and no number of GPUs.",
    .table = gen_flags,
};

/* The models of Frenzy: GPT-2 and BERT of 110M, 340M, 774M, 1.5B and 7B. */
static const char *const new_models[] = {"gpt2-124m", "gpt2-350m", "gpt2-774m",
                                         "gpt2-1.5b", "gpt2-7b",   "bert-base",
                                         "bert-large"};

enum { MODELS_MAX = 64, BATCHES = 5 }; /* batches 2, 4, ... 32 */

struct gen_fits {
    int gpus[MODELS_MAX];
    unsigned batches[MODELS_MAX];
};

/* Finds the batches of a model that fit the cluster, and the number of GPUs for
 * batch 8 or the nearest batch that fits. */
static enum firn_status fit_model(const char *model,
                                  const struct firn_cluster *cluster, int *gpus,
                                  unsigned *batches, struct firn_error *err)
{
    static const int order[BATCHES] = {32, 16, 2, 4, 8};
    struct firn_llm_shape shape;
    FIRN_TRY(firn_llm_find(&shape, model, err));
    *batches = 0;
    for (int i = 0; i < BATCHES; i++) {
        struct firn_job_spec spec = {.name = "",
                                     .app = model,
                                     .types = "",
                                     .batch = order[i],
                                     .seq = synth_seq(model),
                                     .duration_s = 1};
        llmjobs_ask(cluster, &spec);
        if (spec.gpus == 0)
            continue;
        *batches |= (unsigned)order[i];
        *gpus = spec.gpus;
    }
    if (*batches == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "model %s does not fit on any GPU of this cluster",
                         model);
    return FIRN_OK;
}

static enum firn_status gen_models(const struct gen_args *args,
                                   const struct firn_cluster *cluster,
                                   struct gen_fits *fits,
                                   struct synth_options *out,
                                   struct firn_error *err)
{
    out->models = (const char *const *)args->models.at;
    out->nmodels = args->models.n;
    if (out->nmodels == 1 && strcmp(out->models[0], "new") == 0) {
        out->models = new_models;
        out->nmodels = sizeof new_models / sizeof *new_models;
    }
    if (out->nmodels > MODELS_MAX)
        return firn_fail(err, FIRN_EINVAL, "--models: more than %d models",
                         MODELS_MAX);
    for (size_t i = 0; i < out->nmodels; i++)
        FIRN_TRY(fit_model(out->models[i], cluster, &fits->gpus[i],
                           &fits->batches[i], err));
    out->model_gpus = fits->gpus;
    out->model_batches = fits->batches;
    return FIRN_OK;
}

static unsigned gen_columns(const struct gen_args *args)
{
    unsigned mask = 0;
    if (args->elastic > 0)
        mask |= 1u << WRITE_MIN | 1u << WRITE_MAX;
    if (args->apps.n > 0)
        mask |= 1u << WRITE_APP;
    if (args->models.n > 0)
        mask |= 1u << WRITE_APP | 1u << WRITE_BATCH | 1u << WRITE_SEQ;
    if (args->serving > 0)
        mask |= 1u << WRITE_GROUP | 1u << WRITE_PRIORITY;
    return mask;
}

/* Writes the inference replicas that arrive up to `until_s`. */
static void write_replicas(struct sink *sink, struct serving *serving,
                           double until_s, unsigned mask)
{
    struct firn_job_spec spec;
    while (!sink->has_failed && serving_peek_s(serving) <= until_s &&
           serving_next(serving, &spec)) {
        write_row(&sink->buf, &spec, mask);
        sink_flush(sink, CHUNK);
    }
}

static enum firn_status gen(const struct gen_args *args,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct gen_fits fits;
    struct synth_options options = {
        .jobs = args->jobs,
        .seed = args->seed,
        .arrivals = strcmp(args->arrivals, "diurnal") == 0 ? SYNTH_DIURNAL
                                                           : SYNTH_POISSON,
        .load = args->load,
        .cluster_gpus = cluster->ngpus,
        .gpus_max = args->gpus_max,
        .multi = args->multi,
        .duration_max_s = args->duration_max_s,
        .elastic = args->elastic,
        .apps = (const char *const *)args->apps.at,
        .napps = args->apps.n,
    };
    struct synth synth;
    struct sink sink;
    struct firn_job_spec spec;
    FIRN_TRY(gen_models(args, cluster, &fits, &options, err));
    FIRN_TRY(synth_init(&synth, &options, err));
    struct serving serving = {0};
    struct serving_options day = {cluster->ngpus, args->serving, synth.span_s,
                                  args->seed};
    if (args->serving > 0)
        FIRN_TRY(serving_make(&serving, &day, err));
    enum firn_status status = sink_open(&sink, args->out, err);
    if (status != FIRN_OK) {
        serving_release(&serving);
        return status;
    }
    unsigned mask = gen_columns(args);
    write_header(&sink.buf, mask);
    while (!sink.has_failed && synth_next(&synth, &spec)) {
        if (args->asks && args->models.n > 0)
            llmjobs_ask(cluster, &spec);
        write_replicas(&sink, &serving, spec.submit_s, mask);
        write_row(&sink.buf, &spec, mask);
        sink_flush(&sink, CHUNK);
    }
    write_replicas(&sink, &serving, INFINITY, mask);
    serving_release(&serving);
    return sink_close(&sink, err);
}

static enum firn_status gen_six(const struct gen_args *args,
                                struct firn_error *err)
{
    struct sixapps_options options = sixapps_defaults();
    struct sixapps jobs;
    struct sink sink;
    unsigned mask =
        1u << WRITE_MIN | 1u << WRITE_MAX | 1u << WRITE_APP | 1u << WRITE_BATCH;
    options.jobs = args->jobs;
    options.seed = args->seed;
    options.large = args->six;
    options.is_testbed = args->is_testbed;
    options.large_s = args->large_s > 0 ? args->large_s : options.large_s;
    FIRN_TRY(sixapps_make(&jobs, &options, err));
    enum firn_status status = sink_open(&sink, args->out, err);
    if (status == FIRN_OK) {
        write_header(&sink.buf, mask);
        for (size_t i = 0; i < jobs.n; i++)
            write_row(&sink.buf, &jobs.at[i], mask);
        status = sink_close(&sink, err);
    }
    sixapps_release(&jobs);
    return status;
}

static enum firn_status gen_mixed(const struct gen_args *args,
                                  struct firn_error *err)
{
    struct mixed_options options = mixed_defaults();
    struct mixed jobs;
    struct sink sink;
    unsigned mask = 0;
    options.jobs = args->jobs;
    options.seed = args->seed;
    FIRN_TRY(mixed_make(&jobs, &options, err));
    enum firn_status status = sink_open(&sink, args->out, err);
    for (size_t i = 0; i < jobs.n; i++)
        mask |= write_mask(&jobs.at[i]);
    if (status == FIRN_OK) {
        write_header(&sink.buf, mask);
        for (size_t i = 0; i < jobs.n; i++)
            write_row(&sink.buf, &jobs.at[i], mask);
        status = sink_close(&sink, err);
    }
    mixed_release(&jobs);
    return status;
}

static int check_gen(const struct gen_args *args, int argc, char **argv)
{
    int rc = flags_operands(&gen_page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (args->cluster == NULL && !args->is_mixed)
        return flags_wrong(&gen_page, "no cluster given: use --cluster CLUSTER "
                                      "(the load refers to it)");
    if (strcmp(args->arrivals, "poisson") != 0 &&
        strcmp(args->arrivals, "diurnal") != 0)
        return flags_wrong(&gen_page,
                           "--arrivals is '%s'; use poisson or diurnal",
                           args->arrivals);
    return -1;
}

static int run_gen(int argc, char **argv)
{
    struct gen_args args = {
        .jobs = 1000, .seed = 1, .arrivals = "poisson", .load = 0.8};
    struct firn_cluster cluster = {0};
    struct firn_error err = {0};
    int rc = flags_parse(&gen_page, &args, &argc, argv);
    if (rc < 0)
        rc = check_gen(&args, argc, argv);
    if (rc < 0 && args.cluster != NULL &&
        firn_cluster_open(&cluster, args.cluster, &err) != FIRN_OK)
        rc = failed(&err);
    if (rc < 0)
        rc = (args.is_mixed  ? gen_mixed(&args, &err)
              : args.six > 0 ? gen_six(&args, &err)
                             : gen(&args, &cluster, &err)) == FIRN_OK
                 ? 0
                 : failed(&err);
    firn_cluster_release(&cluster);
    words_release(&args.apps);
    words_release(&args.models);
    return rc;
}

/* --- formats --- */

static const struct flags_page formats_page = {
    .command = "trace formats",
    .about = "Lists the trace formats. The format of a file is recognised by "
             "its first line.",
};

static int run_formats(int argc, char **argv)
{
    int rc = flags_parse(&formats_page, NULL, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&formats_page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    size_t n;
    const struct firn_trace_def *const *defs = firn_traces(&n);
    struct firn_buf out = {0};
    struct table table;
    table_init(&table, "ll");
    for (size_t i = 0; i < n; i++) {
        table_cell(&table, defs[i]->name);
        table_cell(&table, defs[i]->summary);
    }
    table_print(&table, &out);
    fwrite(out.at, 1, out.n, stdout);
    table_release(&table);
    buf_release(&out);
    return 0;
}

static const struct flags_page trace_page = {
    .command = "trace",
    .usage = "stat FILE...    print statistics of traces\n"
             "convert FILE    write a trace as firn's own CSV\n"
             "gen             generate a synthetic trace\n"
             "export          write the job history of firnd as a trace\n"
             "formats         list the trace formats that firn reads",
    .about = "Each subcommand has its own --help.",
};

int cmd_trace(int argc, char **argv)
{
    static const struct subcommand table[] = {
        {"stat", run_stat},       {"convert", run_convert}, {"gen", run_gen},
        {"export", trace_export}, {"formats", run_formats}, {0}};
    return flags_subcommand(&trace_page, table, argc, argv);
}
