/* cmd_whatif.c - `firn whatif`: firnd's job history under other policies.
 *
 * Fetches the history as a trace and the nodes as a cluster from firnd and
 * passes both to `firn sim`. The simulation runs in this process, not in firnd.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livetrace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    struct live_args live;
    const char *policy, *trace, *report;
};

static const struct flag table[] = {
    {"policy", 'p', "P,Q,...",
     "scheduling policies to simulate, separated by commas", flag_text,
     offsetof(struct args, policy)},
    {"trace", 't', "last-TIME",
     "jobs to replay: last-7d, last-12h, ... or all (default: all)", flag_text,
     offsetof(struct args, trace)},
    {"report", 0, "FILE", "also write a page about the runs, as 'firn report'",
     flag_text, offsetof(struct args, report)},
    LIVE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "whatif",
    .usage = "[options] --policy P[,Q...]",
    .about =
        "Replays the job history of firnd on its nodes under other "
        "scheduling policies and prints the table of 'firn sim'. Each job "
        "needs the GPU time that it needed before. Starts, resizes and shared "
        "GPUs cost what firnd has measured.\nThe simulation assumes "
        "that every job can be preempted.",
    .table = table,
};

/* Parses "last-7d" as seconds and "all" as 0. False: neither. */
static bool read_span(const char *text, double *last_s)
{
    struct firn_error err;
    *last_s = 0;
    if (text == NULL || strcmp(text, "all") == 0)
        return true;
    return strncmp(text, "last-", 5) == 0 &&
           duration_parse(text + 5, last_s, &err) == FIRN_OK && *last_s > 0;
}

/* Appends the nodes of firnd as a spec: "1x4:v100@32,1x8:a100@80". */
static enum firn_status put_cluster(struct live *live, struct firn_buf *out,
                                    struct firn_error *err)
{
    json_t *answer = NULL;
    FIRN_TRY(client_get(live->client, "/v1/nodes", &answer, err));
    const json_t *nodes = answer_list(answer, "nodes");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        double gpus = answer_number(node, "gpus", 0);
        double mem_gib = answer_number(node, "mem_gib", 0);
        if (!(gpus >= 1))
            continue;
        buf_printf(out, "%s1x%.0f:%s", out->n > 0 ? "," : "", gpus,
                   answer_text(node, "type"));
        if (mem_gib >= 1)
            buf_printf(out, "@%.0f", mem_gib);
    }
    json_decref(answer);
    if (out->n == 0)
        return firn_fail(err, FIRN_EDATA, "firnd has no GPUs");
    return FIRN_OK;
}

/* What firnd has measured, as values of options of `firn sim`. */
struct measured {
    struct firn_buf pairs, resizes, prepared, ends; /* empty: nothing */
    bool has_starts;
};

static void put_app(struct measured *out, const json_t *app)
{
    const char *name = answer_text(app, "app");
    double pause_s = answer_number(app, "pause_s", -1);
    out->has_starts = out->has_starts || answer_number(app, "start_s", 0) > 0;
    if (*name == '\0' || strpbrk(name, ",=+") != NULL)
        return;
    if (answer_number(app, "waits_for_gpus", 0) > 0)
        buf_printf(&out->prepared, "%s=%.6f,", name,
                   answer_number(app, "prepared_start_s", 0) +
                       answer_number(app, "first_steps_s", 0));
    if (answer_number(app, "end_s", 0) > 0)
        buf_printf(&out->ends, "%s%s=%.6f", out->ends.n > 0 ? "," : "", name,
                   answer_number(app, "end_s", 0));
    if (pause_s < 0)
        return;
    buf_printf(&out->resizes, "%s%s=%.6f/%.6f", out->resizes.n > 0 ? "," : "",
               name, pause_s, answer_number(app, "prepare_s", 0));
    if (answer_number(app, "slowdown", 0) >= 1)
        buf_printf(&out->resizes, "/%.6f", answer_number(app, "slowdown", 1));
}

static void put_pair(struct measured *out, const json_t *pair)
{
    const char *app = answer_text(pair, "app");
    const char *other = answer_text(pair, "other");
    double slowdown = answer_number(pair, "slowdown", 0);
    if (*app == '\0' || *other == '\0' || strpbrk(app, ",=+") != NULL ||
        strpbrk(other, ",=+") != NULL || !(slowdown >= 1))
        return;
    buf_printf(&out->pairs, "%s%s+%s=%.6f", out->pairs.n > 0 ? "," : "", app,
               other, slowdown);
}

/* An older firnd knows no costs: that is no failure. */
static void fetch_measured(struct live *live, struct measured *out)
{
    json_t *answer = NULL;
    struct firn_error ignored = {0};
    if (client_get(live->client, "/v1/costs", &answer, &ignored) != FIRN_OK)
        return;
    const json_t *apps = answer_list(answer, "apps");
    const json_t *pairs = answer_list(answer, "pairs");
    double prepares = answer_number(answer, "prepares", 0);
    for (size_t i = 0; i < json_array_size(apps); i++)
        put_app(out, json_array_get(apps, i));
    for (size_t i = 0; i < json_array_size(pairs); i++)
        put_pair(out, json_array_get(pairs, i));
    if (!(prepares >= 1))
        buf_clear(&out->prepared);
    else if (out->prepared.n > 0) /* behind the applications */
        buf_printf(&out->prepared, "%.0f", prepares);
    json_decref(answer);
}

/* The options behind the first `argc`; returns how many words there are. */
static int add_measured(struct measured *measured, char **argv, int argc)
{
    static char charge[] = "--charge-first-start", quiet[] = "--quiet-starts",
                pairs[] = "--pair-slowdown", resizes[] = "--resize-cost",
                prepare[] = "--prepare", ends[] = "--quiet-ends";
    if (measured->has_starts) {
        argv[argc++] = charge;
        argv[argc++] = quiet;
    }
    if (measured->prepared.n > 0) {
        argv[argc++] = prepare;
        argv[argc++] = measured->prepared.at;
    }
    if (measured->ends.n > 0) {
        argv[argc++] = ends;
        argv[argc++] = measured->ends.at;
    }
    if (measured->pairs.n > 0) {
        argv[argc++] = pairs;
        argv[argc++] = measured->pairs.at;
    }
    if (measured->resizes.n > 0) {
        argv[argc++] = resizes;
        argv[argc++] = measured->resizes.at;
    }
    return argc;
}

static int simulate(struct live *live, const struct args *args, char *path,
                    char *cluster)
{
    char policy[256], report[4096];
    if (!str_copy(policy, sizeof policy, args->policy))
        return flags_wrong(&page, "--policy is too long");
    if (args->report != NULL && !str_copy(report, sizeof report, args->report))
        return flags_wrong(&page, "--report is too long");
    char sim[] = "sim", trace_flag[] = "--trace", cluster_flag[] = "--cluster",
         policy_flag[] = "--policy", out_flag[] = "-o", json[] = "json",
         plain[] = "table", report_flag[] = "--report";
    char *argv[24] = {sim,          trace_flag, path,
                      cluster_flag, cluster,    policy_flag,
                      policy,       out_flag,   live->is_json ? json : plain};
    int argc = 9;
    if (args->report != NULL) {
        argv[argc++] = report_flag;
        argv[argc++] = report;
    }
    struct measured measured = {0};
    fetch_measured(live, &measured);
    argc = add_measured(&measured, argv, argc);
    int rc = cmd_sim(argc, argv);
    buf_release(&measured.pairs);
    buf_release(&measured.resizes);
    buf_release(&measured.prepared);
    buf_release(&measured.ends);
    return rc;
}

static int whatif(struct live *live, const struct args *args, double last_s)
{
    const char *tmp = getenv("TMPDIR");
    struct firn_error err = {0};
    struct firn_buf folder = {0}, path = {0}, cluster = {0};
    size_t njobs = 0;
    int rc = 1;
    buf_printf(&folder, "%s/firn-whatif.XXXXXX",
               tmp != NULL && *tmp != '\0' ? tmp : "/tmp");
    if (mkdtemp(folder.at) == NULL) {
        firn_fail(&err, FIRN_EIO, "%s: %s", folder.at, strerror(errno));
        rc = live_failed(live, &err);
    } else {
        buf_printf(&path, "%s/history.csv", folder.at);
        if (put_cluster(live, &cluster, &err) == FIRN_OK &&
            live_trace_write(live, path.at, last_s, true, &njobs, &err) ==
                FIRN_OK &&
            njobs == 0)
            firn_fail(&err, FIRN_EDATA,
                      "no job submitted in this time has run");
        rc = err.status == FIRN_OK ? simulate(live, args, path.at, cluster.at)
                                   : live_failed(live, &err);
        unlink(path.at);
        rmdir(folder.at);
    }
    buf_release(&folder);
    buf_release(&path);
    buf_release(&cluster);
    return rc;
}

int cmd_whatif(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    double last_s;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (args.policy == NULL)
        return flags_wrong(&page, "no policy given: use --policy NAMES");
    if (!read_span(args.trace, &last_s))
        return flags_wrong(&page,
                           "--trace is '%s'; use last-TIME, e.g. last-7d, or "
                           "all",
                           args.trace);
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = whatif(&live, &args, last_s);
    live_close(&live);
    return rc;
}
