/* simargs.c - what `firn sim` was asked to do, checked.
 *
 * A wrong name or value on the command line is a wrong use (status 2); a
 * cluster that cannot be read is a failure (status 1).
 */
#include "cli/simargs.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/output.h"
#include "sim/world.h"
#include <firn/compat.h>
#include <firn/policy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "30", "bert=60" or several of them, at the start of struct sim_args. */
static enum firn_status set_restart(void *at, const char *value,
                                    struct firn_error *err)
{
    struct sim_args *args = at;
    struct words pieces = {0};
    enum firn_status status = flag_words(&pieces, value, err);
    for (size_t i = 0; i < pieces.n && status == FIRN_OK; i++) {
        char *equals = strrchr(pieces.at[i], '=');
        double cost_s = 0;
        status =
            duration_parse(equals ? equals + 1 : pieces.at[i], &cost_s, err);
        if (status != FIRN_OK)
            break;
        if (!equals) {
            args->options.restart_s = cost_s;
            continue;
        }
        words_add(&args->apps, pieces.at[i], (size_t)(equals - pieces.at[i]));
        struct firn_restart_cost cost = {args->apps.at[args->apps.n - 1],
                                         cost_s};
        vec_add(&args->restarts, cost);
    }
    words_release(&pieces);
    return status;
}

/* A file whose own name has a comma is taken whole. */
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
    double number;
    FIRN_TRY(flag_double(&number, value, err));
    if (number < 1)
        return firn_fail(err, FIRN_EINVAL, "%s is below 1", value);
    *(double *)at = number;
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

/* "throughput=0.5,report=0.02" into a struct firn_sim_noise. */
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
                               "'%s' is not throughput, sharing, transfer, "
                               "report or iterations and a number from 0 to "
                               "10 behind '='",
                               pieces.at[i]);
        else
            *(double *)(void *)((char *)at + parts[k].at) = size;
    }
    words_release(&pieces);
    return status;
}

#define OPTION(member) offsetof(struct sim_args, options.member)

/* "data" stands for the folder of the published tables. It is not the default
 * wherever the variable is set: durations would depend on the environment. */
static enum firn_status set_profiles(void *at, const char *text,
                                     struct firn_error *err)
{
    const char *data = getenv("FIRN_DATA");
    bool is_data = strcmp(text, "data") == 0;
    if (is_data && (data == NULL || *data == '\0'))
        return firn_fail(err, FIRN_EINVAL,
                         "'data' is the folder FIRN_DATA names, which is not "
                         "set");
    *(const char **)at = is_data ? data : text;
    return FIRN_OK;
}

static char compat_help[256]; /* filled by name_worlds() */

static void name_worlds(void)
{
    struct firn_buf text = {0};
    size_t n;
    const struct world_def *const *worlds = firn_compats(&n);
    buf_puts(&text, "by the rules of a published simulator: ");
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s",
                   i == 0       ? ""
                   : i + 1 == n ? " or "
                                : ", ",
                   firn_compat_name(worlds[i]));
    buf_printf(&text,
               "%s (docs/fidelity.md); its tables are in --profiles or "
               "$FIRN_DATA",
               n == 0 ? "none is known" : "");
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

static enum firn_status set_compat(void *at, const char *text,
                                   struct firn_error *err)
{
    const struct world_def *world = firn_compat_find(text, err);
    *(const struct world_def **)at = world;
    return world != NULL ? FIRN_OK : FIRN_ENOENT;
}

/* "2..16" or "8" for 1..8, into a struct firn_sim_options. */
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
                         "'%.40s' is not MIN..MAX in whole GPUs, 1 or more",
                         text);
    options->elastic_min = (int)min;
    options->elastic_max = (int)max;
    return FIRN_OK;
}

static const struct flag table[] = {
    {"trace", 't', "FILE",
     "jobs to run; several after commas or by repeating; "
     "FILE#GROUP for one group of a file",
     set_trace, offsetof(struct sim_args, traces)},
    {"cluster", 'c', "CLUSTER",
     "a name of 'firn cluster list', a spec such as "
     "24x8:v100,2x4:a100@80, or a YAML file",
     flag_text, offsetof(struct sim_args, cluster_text)},
    {"policy", 'p', "NAMES",
     "policies, after commas; 'all' for every one; ./mine.so: of a file",
     flag_words, offsetof(struct sim_args, policies)},
    {"set", 's', "P.OPTION=V", "an option of a policy; may be repeated",
     flag_word, offsetof(struct sim_args, settings)},
    {"seed", 0, "N", "for failures, and policies that draw (1)", flag_seed,
     OPTION(seed)},
    {"jobs", 'j', "N", "processes at a time; as many as processors by default",
     flag_count, offsetof(struct sim_args, width)},
    {"output", 'o', "FORMAT", "table, json or csv", flag_text,
     offsetof(struct sim_args, format_name)},
    {"out", 0, "DIR",
     "writes DIR/TRACE--POLICY.jobs.csv, .events.tsv and "
     ".timeline.csv",
     flag_text, offsetof(struct sim_args, out_dir)},
    {"timeline-step", 0, "TIME",
     "time between two rows of a timeline; chosen "
     "to give 500 to 1000 rows by default",
     flag_duration, OPTION(timeline_s)},
    {"strict", 0, NULL, "a bad row of a trace stops the run", flag_yes,
     OPTION(strict)},
    {"scaling", 0, "X", "a job on n GPUs instead of m goes (n/m)^X as fast (1)",
     set_scaling, OPTION(scaling)},
    {"share-slowdown", 0, "X",
     "a step on shared GPUs takes X times as long (1.5)", set_slowdown,
     OPTION(share_slowdown)},
    {"profiles", 0, "WHAT",
     "measured rates and durations: builtin, a folder of profiles or of "
     "measured tables, data for the folder $FIRN_DATA, or none (none)",
     set_profiles, OPTION(profiles)},
    {"freeze", 0, "RULE",
     "jobs freeze front layers by off, freezeout, tuned-freezeout or penalty, "
     "whatever the policy, or as the policy has it (policy)",
     set_freeze, OPTION(freeze)},
    {"forecast", 0, "WHAT",
     "step times are foretold by fit, tables (those that jobs run by), pollux "
     "(its law fitted to these) or data (as if each GPU had a whole copy) "
     "(fit)",
     set_forecast, OPTION(forecast)},
    {"compat", 0, "NAME", compat_help, set_compat, OPTION(world)},
    {"elastic", 0, "MIN..MAX", "every job may run on that many GPUs",
     set_elastic, offsetof(struct sim_args, options)},
    {"share", 0, NULL, "every job accepts to share its GPUs", flag_yes,
     OPTION(shares)},
    {"noise", 0, "PARTS",
     "how wrong reports and forecasts are: throughput=X,sharing=X,transfer=X,"
     "report=X,iterations=X, each up to the share X off",
     set_noise, OPTION(noise)},
    {"restart-cost", 0, "COST",
     "time without progress after a change of GPUs: "
     "TIME (30s), or APP=TIME for one application; several after commas",
     set_restart, 0},
    {"charge-first-start", 0, NULL, "the first start costs a restart too",
     flag_yes, OPTION(charges_first_start)},
    {"interval", 0, "TIME", "decide only at its multiples, not at each event",
     flag_duration, OPTION(interval_s)},
    {"quantum", 0, "TIME", "round completions up to its multiples",
     flag_duration, OPTION(quantum_s)},
    {"failures", 0, "FILE", "node failures: lines time_s,node,down|up",
     flag_text, OPTION(failures)},
    {"mtbf", 0, "TIME",
     "mean time between failures of a node, drawn from the "
     "seed",
     flag_duration, OPTION(mtbf_s)},
    {"mttr", 0, "TIME", "mean time to repair of a node (1h)", flag_duration,
     OPTION(mttr_s)},
    {"checkpoint-interval", 0, "TIME",
     "a failure loses the work since the "
     "last multiple of so much running; nothing by default",
     flag_duration, OPTION(checkpoint_s)},
    {"replay", 0, "LOG",
     "checks event logs (this one and the operands) "
     "instead of running anything",
     set_replay, 0},
    {"explain", 0, "JOB",
     "tells the life of a job (a name, the beginning of one, or an id); may be "
     "repeated; with --replay from logs, else behind the results",
     flag_word, offsetof(struct sim_args, explains)},
    {"quiet", 'q', NULL, "no progress bar, no words on skipped rows", flag_yes,
     offsetof(struct sim_args, is_quiet)},
    {0},
};

static const struct flags_page page = {
    .command = "sim",
    .usage = "--trace FILE --cluster CLUSTER --policy NAMES [options]\n"
             "--replay LOG... [--explain JOB]",
    .about = "Runs every trace under every policy, in parallel, and prints one "
             "row for each.\nThe same input gives the same output, byte for "
             "byte (but for cpu_s in JSON).",
    .table = table,
    .more = "TIME is in seconds, or with s, m, h or d behind it. Ctrl-C prints "
            "what is\nfinished. The exit status is 0, 1 when a run failed, 2 "
            "for a wrong use, 130\nwhen interrupted.",
};

static const struct world_def *world_of(const struct sim_args *args)
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

/* All policies of the world; an honest one has every one there is. */
static void add_all(const struct world_def *world, struct words *out)
{
    size_t n;
    const struct firn_policy_def *const *defs = firn_policies(&n);
    const struct world_policy *own = world->policies;
    for (; own != NULL && own->name != NULL; own++)
        add_once(out, own->name);
    for (size_t i = 0; world->policies == NULL && i < n; i++)
        add_once(out, defs[i]->name);
}

/* Replaces 'all', refuses unknown names, drops repeated ones. */
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

static bool is_run(const struct sim_args *args, const char *policy)
{
    for (size_t i = 0; i < args->policies.n; i++)
        if (strcmp(args->policies.at[i], policy) == 0)
            return true;
    return false;
}

/* "policy.option=value": tried on a state of its own. */
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
    if (!is_run(args, policy->name) && !args->is_quiet)
        fprintf(stderr,
                "firn sim: --set %s: %s is not among the policies "
                "that run\n",
                text, policy->name);
    return -1;
}

static int check_options(const struct sim_args *args)
{
    const struct firn_sim_options *o = &args->options;
    if (args->traces.n == 0)
        return flags_wrong(&page, "--trace is missing");
    if (!args->cluster_text)
        return flags_wrong(&page, "--cluster is missing");
    if (args->policies.n == 0)
        return flags_wrong(&page, "--policy is missing");
    if (o->mtbf_s > 0 && !(o->mttr_s > 0))
        return flags_wrong(&page, "--mtbf needs a --mttr above 0");
    if (o->failures && o->mtbf_s > 0)
        return flags_wrong(&page, "--failures and --mtbf exclude each other");
    if (o->freeze > FIRN_SIM_FREEZE_OFF &&
        (o->profiles == NULL || strcmp(o->profiles, "none") == 0))
        return flags_wrong(&page, "--freeze needs --profiles");
    if (o->timeline_s > 0 && !args->out_dir)
        return flags_wrong(&page, "--timeline-step needs --out");
    for (size_t i = 0; i < args->traces.n; i++)
        if (strlen(args->traces.at[i]) >=
            sizeof((struct firn_sim_result *)0)->trace)
            return flags_wrong(&page, "--trace: the name is too long: %.60s...",
                               args->traces.at[i]);
    return -1;
}

/* The tables an artifact read are those of the folder FIRN_DATA names, unless
 * --profiles says otherwise. */
static int check_world(struct sim_args *args)
{
    const char *data = getenv("FIRN_DATA");
    if (args->options.world == NULL || args->options.profiles != NULL)
        return -1;
    if (data == NULL || *data == '\0')
        return flags_wrong(&page,
                           "--compat %s needs the folder of the tables it "
                           "read: --profiles FOLDER, or FIRN_DATA set",
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
    return rc;
}

int simargs_read(struct sim_args *out, int argc, char **argv)
{
    static const char *const formats[] = {
        [FIRN_SIM_TABLE] = "table",
        [FIRN_SIM_JSON] = "json",
        [FIRN_SIM_CSV] = "csv",
        NULL,
    };
    name_worlds();
    long nprocessors = sysconf(_SC_NPROCESSORS_ONLN);
    *out = (struct sim_args){
        .options = firn_sim_defaults(),
        .width = nprocessors > 0 ? (int)nprocessors : 1,
        .format_name = "table",
    };
    int rc = flags_parse(&page, out, &argc, argv);
    if (rc >= 0)
        return rc;
    int format = output_format(page.command, out->format_name, formats);
    if (format < 0)
        return 2;
    out->format = (enum firn_sim_format)format;
    if (out->explains.n > 0 && out->format == FIRN_SIM_CSV)
        return flags_wrong(&page, "--explain is a table or JSON, not CSV");
    if (out->is_replay) {
        for (int i = 1; i < argc; i++)
            words_add(&out->replays, argv[i], strlen(argv[i]));
        return -1;
    }
    if (argc > 1)
        return flags_wrong(&page,
                           "'%s' is no option; a trace is named by "
                           "--trace",
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
    firn_cluster_release(&args->cluster);
}
