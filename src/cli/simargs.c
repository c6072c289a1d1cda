/* simargs.c - the command line of `firn sim`, parsed and checked.
 *
 * A wrong name or value on the command line is a usage error (status 2); a
 * cluster file that cannot be read is a failure (status 1).
 */
#include "cli/simargs.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/world.h"
#include <firn/compat.h>
#include <firn/policy.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "APP=rest": the application, kept in `args`, and the rest; without '=' NULL
 * and the whole text. */
static const char *split_app(struct sim_args *args, const char *text,
                             const char **rest)
{
    const char *equals = strrchr(text, '=');
    *rest = equals != NULL ? equals + 1 : text;
    if (equals == NULL)
        return NULL;
    words_add(&args->apps, text, (size_t)(equals - text));
    return args->apps.at[args->apps.n - 1];
}

/* Takes a value apart: "TIME" or "APP=TIME" a piece. `app` is NULL, or in
 * args->apps. */
typedef enum firn_status take_piece(struct sim_args *args, const char *app,
                                    const char *rest, struct firn_error *err);

static enum firn_status each_piece(struct sim_args *args, const char *value,
                                   take_piece *take, struct firn_error *err)
{
    struct words pieces = {0};
    enum firn_status status = flag_words(&pieces, value, err);
    for (size_t i = 0; i < pieces.n && status == FIRN_OK; i++) {
        const char *rest, *app = split_app(args, pieces.at[i], &rest);
        status = take(args, app, rest, err);
    }
    words_release(&pieces);
    return status;
}

static enum firn_status add_cost(struct sim_restarts *costs, const char *app,
                                 const char *rest, struct firn_error *err)
{
    struct firn_restart_cost cost = {app, 0};
    FIRN_TRY(duration_parse(rest, &cost.cost_s, err));
    vec_add(costs, cost);
    return FIRN_OK;
}

static enum firn_status take_restart(struct sim_args *args, const char *app,
                                     const char *rest, struct firn_error *err)
{
    if (app != NULL && strcmp(app, "all") != 0)
        return add_cost(&args->restarts, app, rest, err);
    FIRN_TRY(duration_parse(rest, &args->options.restart_s, err));
    args->options.restart_is_all = app != NULL;
    return FIRN_OK;
}

static enum firn_status take_prepared(struct sim_args *args, const char *app,
                                      const char *rest, struct firn_error *err)
{
    double most;
    if (app != NULL)
        return add_cost(&args->prepared, app, rest, err);
    if (!str_double(rest, &most) || !(most >= 1) || most > 1000 ||
        most != floor(most))
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is neither a number of jobs from 1 to 1000 nor "
                         "APP=TIME",
                         rest);
    args->options.prepares = (int)most;
    return FIRN_OK;
}

static enum firn_status take_end(struct sim_args *args, const char *app,
                                 const char *rest, struct firn_error *err)
{
    return app != NULL
               ? add_cost(&args->ends, app, rest, err)
               : firn_fail(err, FIRN_EINVAL, "'%s' is not APP=TIME", rest);
}

/* --restart-cost: "30", "bert=60", "all=10" or several of them; `at` is the
 * struct sim_args. */
static enum firn_status set_restart(void *at, const char *value,
                                    struct firn_error *err)
{
    return each_piece(at, value, take_restart, err);
}

/* --prepare: "1,bert=0.5s": how many jobs at a time, and what is left of a
 * start by application. */
static enum firn_status set_prepare(void *at, const char *value,
                                    struct firn_error *err)
{
    return each_piece(at, value, take_prepared, err);
}

/* --quiet-ends: "bert=0.5s", or several of them. */
static enum firn_status set_ends(void *at, const char *value,
                                 struct firn_error *err)
{
    return each_piece(at, value, take_end, err);
}

/* "2s", "2s/13s" or "2s/13s/1.1": pause, time to prepare, slowdown. */
static enum firn_status read_resize(const char *text, struct firn_cost *out,
                                    struct firn_error *err)
{
    char pieces[3][40] = {"", "", ""};
    const char *from = text;
    *out = (struct firn_cost){0};
    for (int i = 0; i < 3 && from != NULL; i++) {
        const char *slash = strchr(from, '/');
        size_t n = slash != NULL ? (size_t)(slash - from) : strlen(from);
        if (n == 0 || n >= sizeof pieces[i] || (i == 2 && slash != NULL))
            return firn_fail(err, FIRN_EINVAL,
                             "'%s' is not PAUSE[/PREPARE[/SLOWDOWN]]", text);
        memcpy(pieces[i], from, n);
        from = slash != NULL ? slash + 1 : NULL;
    }
    FIRN_TRY(duration_parse(pieces[0], &out->pause_s, err));
    if (pieces[1][0] != '\0')
        FIRN_TRY(duration_parse(pieces[1], &out->prepare_s, err));
    if (pieces[2][0] == '\0')
        return FIRN_OK;
    if (!str_double(pieces[2], &out->slowdown) || !(out->slowdown >= 1) ||
        out->slowdown > 1000)
        return firn_fail(err, FIRN_EINVAL,
                         "'%s': the slowdown while preparing is not from 1 to "
                         "1000",
                         text);
    return FIRN_OK;
}

static enum firn_status take_resize(struct sim_args *args, const char *app,
                                    const char *rest, struct firn_error *err)
{
    struct firn_resize_cost cost = {.app = app};
    if (app == NULL && strcmp(rest, "measured") == 0)
        return FIRN_OK;
    FIRN_TRY(read_resize(rest, &cost.cost, err));
    if (app != NULL && strcmp(app, "all") != 0) {
        vec_add(&args->resizes, cost);
        return FIRN_OK;
    }
    args->options.resize_s = cost.cost.pause_s;
    args->options.resize_prepare_s = cost.cost.prepare_s;
    args->options.resize_slowdown = cost.cost.slowdown;
    args->options.resize_is_all = app != NULL;
    return FIRN_OK;
}

/* --resize-cost: running jobs are resized without a stop. "measured", "2s",
 * "2s/13s/1.1", "bert=2s", "all=1s" or several of them. */
static enum firn_status set_resize(void *at, const char *value,
                                   struct firn_error *err)
{
    struct sim_args *args = at;
    if (!args->options.resizes)
        args->options.resize_s = -1; /* as measured only */
    args->options.resizes = true;
    return each_piece(args, value, take_resize, err);
}

/* --pair-slowdown: "APP+OTHER=1.3". */
static enum firn_status set_pairs(void *at, const char *value,
                                  struct firn_error *err)
{
    struct sim_args *args = at;
    struct words pieces = {0};
    enum firn_status status = flag_words(&pieces, value, err);
    for (size_t i = 0; i < pieces.n && status == FIRN_OK; i++) {
        const char *plus = strchr(pieces.at[i], '+');
        const char *equals = strrchr(pieces.at[i], '=');
        struct firn_pair_slowdown pair;
        if (plus == NULL || equals == NULL || equals < plus ||
            !str_double(equals + 1, &pair.slowdown) || !(pair.slowdown >= 1) ||
            pair.slowdown > 1e6) {
            status = firn_fail(err, FIRN_EINVAL,
                               "'%s' is not APP+OTHER=SLOWDOWN, with a "
                               "slowdown of 1 at least",
                               pieces.at[i]);
            break;
        }
        words_add(&args->apps, pieces.at[i], (size_t)(plus - pieces.at[i]));
        words_add(&args->apps, plus + 1, (size_t)(equals - plus - 1));
        pair.app = args->apps.at[args->apps.n - 2];
        pair.other = args->apps.at[args->apps.n - 1];
        vec_add(&args->pairs, pair);
    }
    words_release(&pieces);
    return status;
}

/* --trace: a list separated by commas, unless a file of that whole name
 * exists. */
static enum firn_status set_trace(void *at, const char *value,
                                  struct firn_error *err)
{
    if (access(value, F_OK) == 0)
        return flag_word(at, value, err);
    return flag_words(at, value, err);
}

static enum firn_status set_replay(void *at, const char *value,
                                   struct firn_error *err)
{
    struct sim_args *args = at;
    args->is_replay = true;
    return flag_word(&args->replays, value, err);
}

static enum firn_status set_slowdown(void *at, const char *value,
                                     struct firn_error *err)
{
    struct firn_sim_options *options = at;
    const bool is_all = strncmp(value, "all=", 4) == 0;
    double number;
    FIRN_TRY(flag_double(&number, is_all ? value + 4 : value, err));
    if (number < 1)
        return firn_fail(err, FIRN_EINVAL, "%s is below 1 (no slowdown)",
                         value);
    options->share_slowdown = number;
    options->slows_all = is_all;
    return FIRN_OK;
}

static enum firn_status set_scaling(void *at, const char *value,
                                    struct firn_error *err)
{
    double number;
    FIRN_TRY(flag_double(&number, value, err));
    if (number < 0 || number > 4)
        return firn_fail(err, FIRN_EINVAL, "%s is not from 0 to 4", value);
    *(double *)at = number;
    return FIRN_OK;
}

/* --noise: "throughput=0.5,report=0.02"; `at` is a struct firn_sim_noise. */
static enum firn_status set_noise(void *at, const char *value,
                                  struct firn_error *err)
{
    static const struct {
        const char *name;
        size_t at;
    } parts[] = {
        {"throughput=", offsetof(struct firn_sim_noise, throughput)},
        {"sharing=", offsetof(struct firn_sim_noise, sharing)},
        {"transfer=", offsetof(struct firn_sim_noise, transfer)},
        {"report=", offsetof(struct firn_sim_noise, report)},
        {"iterations=", offsetof(struct firn_sim_noise, iterations)},
    };
    enum { NPARTS = sizeof parts / sizeof *parts };
    struct words pieces = {0};
    enum firn_status status = flag_words(&pieces, value, err);
    for (size_t i = 0; i < pieces.n && status == FIRN_OK; i++) {
        size_t k = 0, n = 0;
        double size = -1;
        while (k < NPARTS && (n = strlen(parts[k].name),
                              strncmp(pieces.at[i], parts[k].name, n) != 0))
            k++;
        if (k == NPARTS || !str_double(pieces.at[i] + n, &size) || size < 0 ||
            size > 10)
            status = firn_fail(err, FIRN_EINVAL,
                               "'%s' is not PART=X, with PART throughput, "
                               "sharing, transfer, report or iterations and X "
                               "from 0 to 10",
                               pieces.at[i]);
        else
            *(double *)(void *)((char *)at + parts[k].at) = size;
    }
    words_release(&pieces);
    return status;
}

#define OPTION(member) offsetof(struct sim_args, options.member)

/* --profiles: "data" means the directory $FIRN_DATA. FIRN_DATA alone changes
 * nothing: results must not depend on the environment. */
static enum firn_status set_profiles(void *at, const char *text,
                                     struct firn_error *err)
{
    const char *data = getenv("FIRN_DATA");
    bool is_data = strcmp(text, "data") == 0;
    if (is_data && (data == NULL || *data == '\0'))
        return firn_fail(err, FIRN_EINVAL,
                         "'data' is the directory $FIRN_DATA, but FIRN_DATA is "
                         "not set");
    *(const char **)at = is_data ? data : text;
    return FIRN_OK;
}

static char compat_help[256]; /* written by fill_compat_help() */

static void fill_compat_help(void)
{
    struct firn_buf text = {0};
    size_t n;
    const struct firn_world_def *const *worlds = firn_compats(&n);
    buf_puts(&text, "use the rules of a published simulator: ");
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s",
                   i == 0       ? ""
                   : i + 1 == n ? " or "
                                : ", ",
                   firn_compat_name(worlds[i]));
    buf_printf(&text,
               "%s, see docs/fidelity.md; its tables are read from --profiles "
               "or $FIRN_DATA",
               n == 0 ? "none is built in" : "");
    str_copy(compat_help, sizeof compat_help, text.at);
    buf_release(&text);
}

static enum firn_status set_freeze(void *at, const char *text,
                                   struct firn_error *err)
{
    const char *name;
    for (int i = 0;
         (name = firn_sim_freeze_name((enum firn_sim_freeze)i)) != NULL; i++)
        if (strcmp(name, text) == 0) {
            *(enum firn_sim_freeze *)at = (enum firn_sim_freeze)i;
            return FIRN_OK;
        }
    return firn_fail(err, FIRN_EINVAL,
                     "'%.40s' is not policy, off, freezeout, "
                     "tuned-freezeout or penalty",
                     text);
}

static enum firn_status set_forecast(void *at, const char *text,
                                     struct firn_error *err)
{
    const char *name;
    for (int i = 0;
         (name = firn_sim_forecast_name((enum firn_sim_forecast)i)) != NULL;
         i++)
        if (strcmp(name, text) == 0) {
            *(enum firn_sim_forecast *)at = (enum firn_sim_forecast)i;
            return FIRN_OK;
        }
    return firn_fail(err, FIRN_EINVAL,
                     "'%.40s' is not fit, tables, pollux or data", text);
}

static enum firn_status set_format(void *at, const char *text,
                                   struct firn_error *err)
{
    static const char *const names[] = {
        [FIRN_SIM_TABLE] = "table",
        [FIRN_SIM_JSON] = "json",
        [FIRN_SIM_CSV] = "csv",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], text) == 0) {
            *(enum firn_sim_format *)at = (enum firn_sim_format)i;
            return FIRN_OK;
        }
    return firn_fail(err, FIRN_EINVAL,
                     "unknown format '%.40s'; use table, json or csv", text);
}

static enum firn_status set_compat(void *at, const char *text,
                                   struct firn_error *err)
{
    const struct firn_world_def *world = firn_compat_find(text, err);
    *(const struct firn_world_def **)at = world;
    return world != NULL ? FIRN_OK : FIRN_ENOENT;
}

/* --elastic: "2..16", or "8" for 1..8; `at` is a struct firn_sim_options. */
static enum firn_status set_elastic(void *at, const char *text,
                                    struct firn_error *err)
{
    struct firn_sim_options *options = at;
    const char *dots = strstr(text, "..");
    char low[16] = "1";
    double min, max;
    if (dots != NULL && (size_t)(dots - text) < sizeof low)
        snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    if (!str_double(low, &min) || !str_double(dots ? dots + 2 : text, &max) ||
        min < 1 || max < min || max > 1e6 || min != (int)min || max != (int)max)
        return firn_fail(err, FIRN_EINVAL,
                         "'%.40s' is not MIN..MAX with whole numbers of GPUs "
                         "from 1 on",
                         text);
    options->elastic_min = (int)min;
    options->elastic_max = (int)max;
    return FIRN_OK;
}

static const struct flag table[] = {
    {"trace", 't', "FILE",
     "trace of jobs; separate several by commas or repeat the option; "
     "FILE#GROUP selects one group (virtual cluster)",
     set_trace, offsetof(struct sim_args, traces)},
    {"cluster", 'c', "CLUSTER",
     "cluster to simulate: a preset of 'firn cluster list', a spec such as "
     "24x8:v100,2x4:a100@80 (nodes x GPUs : type @ GiB), or a YAML file",
     flag_text, offsetof(struct sim_args, cluster_text)},
    {"policy", 'p', "NAMES",
     "scheduling policies, separated by commas; 'all' selects every policy, "
     "./mine.so the one in a shared object",
     flag_words, offsetof(struct sim_args, policies)},
    {"set", 's', "P.OPTION=V",
     "set an option of policy P, see 'firn policies P'; may be repeated",
     flag_word, offsetof(struct sim_args, settings)},
    {"seed", 0, "N",
     "seed of all random numbers: failures, noise, randomised policies "
     "(default: 1)",
     flag_seed, OPTION(seed)},
    {"jobs", 'j', "N",
     "simulations to run in parallel (default: number of processors)",
     flag_count, offsetof(struct sim_args, width)},
    {"output", 'o', "FORMAT",
     "output format: table, json or csv (default: table)", set_format,
     offsetof(struct sim_args, format)},
    {"out", 0, "DIR",
     "write DIR/TRACE--POLICY.jobs.csv, .events.tsv and .timeline.csv for "
     "each run",
     flag_text, offsetof(struct sim_args, out_dir)},
    {"report", 0, "FILE", "write a page about the runs, as 'firn report' does",
     flag_text, offsetof(struct sim_args, report_path)},
    {"timeline-step", 0, "TIME",
     "time between two rows of the timeline (default: 500 to 1000 rows)",
     flag_duration, OPTION(timeline_s)},
    {"strict", 0, NULL, "fail on the first invalid row of a trace", flag_yes,
     OPTION(strict)},
    {"scaling", 0, "X",
     "speed of a job on n GPUs that requested m: (n/m)^X (default: 1)",
     set_scaling, OPTION(scaling)},
    {"share-slowdown", 0, "X",
     "factor by which a step takes longer on shared GPUs, for pairs of "
     "applications that were not measured; all=X for every pair (default: 1.5)",
     set_slowdown, offsetof(struct sim_args, options)},
    {"profiles", 0, "SOURCE",
     "measured rates and durations: builtin, a directory of profiles or of "
     "measured tables, data for the directory $FIRN_DATA, or none (default: "
     "none, durations are those of the trace)",
     set_profiles, OPTION(profiles)},
    {"freeze", 0, "RULE",
     "freeze front layers by rule off, freezeout, tuned-freezeout or penalty; "
     "policy leaves it to the policy (default: policy)",
     set_freeze, OPTION(freeze)},
    {"forecast", 0, "MODEL",
     "model of step times that policies see: fit, tables (the tables that "
     "jobs run by), pollux (Pollux's formula fitted to these tables) or data "
     "(data parallelism only) (default: fit)",
     set_forecast, OPTION(forecast)},
    {"transfer-key", 0, NULL,
     "forecast merges of fine-tuning jobs by their true epochs instead of an "
     "estimate from reports: for comparison only",
     flag_yes, OPTION(transfer_key)},
    {"compat", 0, "NAME", compat_help, set_compat, OPTION(world)},
    {"elastic", 0, "MIN..MAX",
     "let every job run on MIN to MAX GPUs; N alone means 1..N", set_elastic,
     offsetof(struct sim_args, options)},
    {"share", 0, NULL, "let every job share its GPUs with another job",
     flag_yes, OPTION(shares)},
    {"shares", 0, "FILE",
     "users and projects with their shares and quotas (docs/shares.md); the "
     "user of a job is its group; with --out their GPU-hours are written",
     flag_text, OPTION(accounts)},
    {"ask", 0, NULL,
     "language models without a number of GPUs ask for the fewest that hold "
     "them on the fastest type, and get exactly these",
     flag_yes, OPTION(asks_gpus)},
    {"noise", 0, "PARTS",
     "relative error of reports and predictions: throughput=X,sharing=X,"
     "transfer=X,report=X,iterations=X (0.1 is 10 %); see docs/profiles.md",
     set_noise, OPTION(noise)},
    {"pair-slowdown", 0, "PAIRS",
     "step time of application APP beside OTHER on the same GPUs over that "
     "alone, without profiles: APP+OTHER=X; separate several by commas; other "
     "pairs go by --share-slowdown",
     set_pairs, 0},
    {"restart-cost", 0, "COST",
     "time without progress after a restart: TIME for jobs that name no cost, "
     "APP=TIME for one application, all=TIME for every job; separate several "
     "by commas (default: 30s)",
     set_restart, 0},
    {"resize-cost", 0, "COST",
     "resize running jobs without a stop (docs/resize.md), where they share no "
     "GPU: 'measured' (as their profiles have it, others restart), TIME for "
     "jobs whose profile has none, APP=TIME, all=TIME; TIME is "
     "PAUSE[/PREPARE[/SLOWDOWN]]; separate several by commas (default: every "
     "change of GPUs is a restart)",
     set_resize, 0},
    {"handover", 0, "TIME",
     "time that a running job takes to let GPUs go (to write its checkpoint), "
     "after the end of its mini-batch if it has a profile; the next job on "
     "them waits (default: 0)",
     flag_duration, OPTION(handover_s)},
    {"ahead", 0, "TIME",
     "time of each start that an engine spends before the GPUs of the job are "
     "free, where the policy plans it (ymir): 0 to 30s (default: 0, as the "
     "local and the Slurm engine)",
     flag_duration, OPTION(ahead_s)},
    {"charge-first-start", 0, NULL,
     "charge the restart cost for the first start too", flag_yes,
     OPTION(charges_first_start)},
    {"quiet-starts", 0, NULL,
     "on shared GPUs, a job that starts slows the others down from its first "
     "step on, not before",
     flag_yes, OPTION(quiet_starts)},
    {"prepare", 0, "N,APP=TIME,...",
     "start the processes of N waiting jobs before their GPUs are free; TIME "
     "is what is left of a start then; jobs of other applications are not "
     "prepared",
     set_prepare, 0},
    {"quiet-ends", 0, "APP=TIME,...",
     "on shared GPUs, a job is not slowed down in the last TIME of its work, "
     "and slows no other one down (it saves its model)",
     set_ends, 0},
    {"interval", 0, "TIME",
     "schedule only at multiples of TIME (default: at every event)",
     flag_duration, OPTION(interval_s)},
    {"quantum", 0, "TIME", "round completion times up to multiples of TIME",
     flag_duration, OPTION(quantum_s)},
    {"failures", 0, "FILE",
     "node failures to replay: lines of time_s,node,down|up", flag_text,
     OPTION(failures)},
    {"mtbf", 0, "TIME",
     "mean time between failures of a node; failures are drawn at random",
     flag_duration, OPTION(mtbf_s)},
    {"mttr", 0, "TIME", "mean time to repair a node (default: 1h)",
     flag_duration, OPTION(mttr_s)},
    {"checkpoint-interval", 0, "TIME",
     "time between checkpoints; a node failure loses the work since the last "
     "one (default: nothing is lost)",
     flag_duration, OPTION(checkpoint_s)},
    {"replay", 0, "LOG",
     "check event logs (LOG and all operands) instead of simulating",
     set_replay, 0},
    {"explain", 0, "JOB",
     "print the history of a job (name, unique prefix of a name, or id); may "
     "be repeated; with --replay it is read from the logs",
     flag_word, offsetof(struct sim_args, explains)},
    {"quiet", 'q', NULL, "no progress bar, no warnings about skipped rows",
     flag_yes, offsetof(struct sim_args, is_quiet)},
    {0},
};

static const struct flags_page page = {
    .command = "sim",
    .usage = "--trace FILE --cluster CLUSTER --policy NAMES [options]\n"
             "--replay LOG... [--explain JOB]",
    .about = "Simulates every trace under every policy, in parallel processes, "
             "and prints one row per simulation. The same input gives the same "
             "output, byte for byte, except for cpu_s (processor time) in "
             "JSON.",
    .table = table,
    .more = "TIME is in seconds, or has a unit: 90, 90s, 15m, 2h, 1d. Ctrl-C "
            "prints the finished simulations. Exit status: 0 success, 1 a "
            "simulation failed, 2 usage error, 130 interrupted.",
};

static const struct firn_world_def *world_of(const struct sim_args *args)
{
    return args->options.world ? args->options.world : &world_honest;
}

static void add_once(struct words *words, const char *text)
{
    for (size_t i = 0; i < words->n; i++)
        if (strcmp(words->at[i], text) == 0)
            return;
    words_add(words, text, strlen(text));
}

/* All policies that the simulated rules know; firn's own rules know all. */
static void add_all(const struct firn_world_def *world, struct words *out)
{
    size_t n;
    const struct firn_policy_def *const *defs = firn_policies(&n);
    const struct world_policy *own = world->policies;
    for (; own != NULL && own->name != NULL; own++)
        add_once(out, own->name);
    for (size_t i = 0; world->policies == NULL && i < n; i++)
        add_once(out, defs[i]->name);
}

/* Replaces 'all', rejects unknown names, drops repeated ones. */
static int check_policies(struct sim_args *args)
{
    struct words known = {0};
    int rc = -1;
    for (size_t i = 0; i < args->policies.n && rc < 0; i++) {
        struct firn_error err = {0};
        const struct world_policy *as;
        const char *name = args->policies.at[i];
        const struct firn_policy_def *def = NULL;
        if (strchr(name, '/') != NULL &&
            (def = firn_policy_load(name, &err)) != NULL)
            name = def->name;
        if (err.status != FIRN_OK)
            rc = flags_wrong(&page, "--policy: %s", err.text);
        else if (strcmp(name, "all") == 0)
            add_all(world_of(args), &known);
        else if (!(def = world_policy_find(world_of(args), name, &as, &err)))
            rc = flags_wrong(&page, "%s", err.text);
        else
            add_once(&known, as ? as->name : def->name);
    }
    words_release(&args->policies);
    args->policies = known;
    return rc;
}

/* Tries "policy.option=value" on a scratch state of the policy. */
static int check_setting(const struct sim_args *args, const char *text)
{
    char name[64], option[64];
    struct firn_error err = {0};
    const char *dot = strchr(text, '.');
    const char *equals = dot ? strchr(dot, '=') : NULL;
    if (!equals || (size_t)(dot - text) >= sizeof name ||
        (size_t)(equals - dot) >= sizeof option)
        return flags_wrong(&page, "--set: '%s' is not policy.option=value",
                           text);
    snprintf(name, sizeof name, "%.*s", (int)(dot - text), text);
    snprintf(option, sizeof option, "%.*s", (int)(equals - dot - 1), dot + 1);
    const struct world_policy *as;
    const struct firn_policy_def *policy =
        world_policy_find(world_of(args), name, &as, &err);
    if (!policy)
        return flags_wrong(&page, "--set: %s", err.text);
    void *state = mem_new(1, policy->state_size);
    firn_options_default(policy->options, state);
    enum firn_status status = firn_option_set(
        policy->options, state, policy->name, option, equals + 1, &err);
    mem_free(state);
    if (status != FIRN_OK)
        return flags_wrong(&page, "--set: %s", err.text);
    bool is_run = false;
    for (size_t i = 0; i < args->policies.n; i++)
        is_run |= strcmp(args->policies.at[i], policy->name) == 0;
    if (!is_run && !args->is_quiet)
        fprintf(stderr,
                "firn sim: --set %s has no effect: policy %s is not "
                "simulated\n",
                text, policy->name);
    return -1;
}

static int check_options(const struct sim_args *args)
{
    const struct firn_sim_options *o = &args->options;
    if (args->traces.n == 0)
        return flags_wrong(&page, "no trace given: use --trace FILE");
    if (!args->cluster_text)
        return flags_wrong(&page, "no cluster given: use --cluster CLUSTER");
    if (args->policies.n == 0)
        return flags_wrong(&page, "no policy given: use --policy NAMES");
    if (o->mtbf_s > 0 && !(o->mttr_s > 0))
        return flags_wrong(&page, "--mtbf needs --mttr above 0");
    if ((o->prepares > 0) != (args->prepared.n > 0))
        return flags_wrong(&page,
                           "--prepare needs a number of jobs and APP=TIME "
                           "for each application: 1,bert=0.5s");
    if (o->failures && o->mtbf_s > 0)
        return flags_wrong(&page, "--failures and --mtbf exclude each other");
    if (o->freeze > FIRN_SIM_FREEZE_OFF &&
        (o->profiles == NULL || strcmp(o->profiles, "none") == 0))
        return flags_wrong(&page, "--freeze needs --profiles SOURCE");
    if (o->timeline_s > 0 && !args->out_dir)
        return flags_wrong(&page, "--timeline-step needs --out DIR");
    for (size_t i = 0; i < args->traces.n; i++)
        if (strlen(args->traces.at[i]) >=
            sizeof((struct firn_sim_result *)0)->trace)
            return flags_wrong(&page, "--trace: the name is too long: %.60s...",
                               args->traces.at[i]);
    return -1;
}

/* --compat reads the tables of the published simulator from --profiles, else
 * from $FIRN_DATA. */
static int check_world(struct sim_args *args)
{
    const char *data = getenv("FIRN_DATA");
    if (args->options.world == NULL || args->options.profiles != NULL)
        return -1;
    if (data == NULL || *data == '\0')
        return flags_wrong(
            &page,
            "--compat %s needs the tables of that simulator: give "
            "--profiles DIR or set FIRN_DATA",
            args->options.world->name);
    args->options.profiles = data;
    return -1;
}

static int check(struct sim_args *args)
{
    struct firn_error err = {0};
    int rc = check_options(args);
    if (rc < 0)
        rc = check_world(args);
    if (rc < 0)
        rc = check_policies(args);
    for (size_t i = 0; i < args->settings.n && rc < 0; i++)
        rc = check_setting(args, args->settings.at[i]);
    if (rc < 0 && firn_cluster_open(&args->cluster, args->cluster_text, &err) !=
                      FIRN_OK) {
        fprintf(stderr, "firn sim: %s\n", err.text);
        return 1;
    }
    args->options.cluster = &args->cluster;
    args->options.settings = (const char *const *)args->settings.at;
    args->options.nsettings = args->settings.n;
    args->options.restarts = args->restarts.at;
    args->options.nrestarts = args->restarts.n;
    args->options.resize_costs = args->resizes.at;
    args->options.nresize_costs = args->resizes.n;
    args->options.pairs = args->pairs.at;
    args->options.npairs = args->pairs.n;
    args->options.prepared = args->prepared.at;
    args->options.nprepared = args->prepared.n;
    args->options.ends = args->ends.at;
    args->options.nends = args->ends.n;
    return rc;
}

int simargs_read(struct sim_args *out, int argc, char **argv)
{
    fill_compat_help();
    long nprocessors = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (struct sim_args){
        .options = firn_sim_defaults(),
        .width = nprocessors > 0 ? (int)nprocessors : 1,
        .format = FIRN_SIM_TABLE,
    };
    int rc = flags_parse(&page, out, &argc, argv);
    if (rc >= 0)
        return rc;
    if (out->explains.n > 0 && out->format == FIRN_SIM_CSV)
        return flags_wrong(&page,
                           "--explain needs -o table or -o json, not csv");
    if (out->is_replay) {
        for (int i = 1; i < argc; i++)
            words_add(&out->replays, argv[i], strlen(argv[i]));
        return -1;
    }
    if (argc > 1)
        return flags_wrong(&page,
                           "unexpected argument '%s'; name a trace by --trace",
                           argv[1]);
    return check(out);
}

void simargs_release(struct sim_args *args)
{
    words_release(&args->traces);
    words_release(&args->policies);
    words_release(&args->settings);
    words_release(&args->replays);
    words_release(&args->apps);
    words_release(&args->explains);
    vec_release(&args->restarts);
    vec_release(&args->prepared);
    vec_release(&args->ends);
    vec_release(&args->resizes);
    vec_release(&args->pairs);
    firn_cluster_release(&args->cluster);
}
