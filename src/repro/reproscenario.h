/* reproscenario.h - a table or figure of a paper, as a file says it.
 *
 * A scenario names a workload, a cluster, policies with their settings, at
 * most one thing that is varied, the paper's own numbers and the paper's
 * claims. papers/README.md is the manual of the file. The texts are as they
 * stand there; what has to be a number or a name of something else in the
 * file is checked and found when it is read.
 *
 *     struct repro_scenario *it;
 *     FIRN_TRY(scenario_parse(&it, text, "a.yaml", err));
 *     ...
 *     scenario_free(it);
 */
#ifndef REPRO_SCENARIO_H
#define REPRO_SCENARIO_H
#include "repro/reprometric.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

enum { REPRO_METRICS_MAX = 8 };

/* `note` tells what differs from the paper; `found` why claims do not hold. */

/* Options of `firn sim`, each NULL where the file does not say. */
struct repro_options {
    char *profiles, *restart_cost, *interval, *quantum, *share, *freeze, *noise,
        *elastic, *scaling, *share_slowdown, *charge_first_start, *forecast;
};

struct repro_policy {
    char *label;   /* what the paper calls it; unique */
    char *policy;  /* firn's; NULL: run by the artifact's rules only */
    char *compat;  /* the artifact's; NULL: not run by its rules */
    char *model;   /* of cli/repromemory.h, instead of `policy`; or NULL */
    char *missing; /* why it cannot be run, instead of all three; or NULL */
    char **set;    /* "option=value" of `policy` */
    unsigned set_count;
    struct repro_options *options; /* NULL: those of the scenario only */
};

struct repro_point {
    char *at;      /* how the paper calls it: "0.5", "240" */
    char *use;     /* what the varied option is then */
    char *missing; /* instead of `use`: why it cannot be had; or NULL */
    char *cluster; /* instead of the scenario's; NULL: that */
};

struct repro_sweep {
    char *of;   /* an option's name, or trace, cluster or set */
    char *axis; /* what varies, for people */
    struct repro_point *points;
    unsigned points_count;
};

/* What the paper prints, in the scenario's unit. */
struct repro_number {
    char *of, *at, *metric, *value;
    int policy, point, metric_at;
    double number;
};

enum repro_kind {
    REPRO_TIMES,   /* `over` takes that many times as much as `of` */
    REPRO_LESS,    /* `of` takes that share less than `over` */
    REPRO_AT_MOST, /* `of` takes at most that many times as much as `over` */
    REPRO_BELOW,   /* `of` takes at most so much, in the scenario's unit */
    REPRO_NKINDS,
};

struct repro_claim {
    char *of, *over, *at, *over_at, *metric, *times, *less, *at_most, *below,
        *reach, *by, *beyond;
    bool is_compat; /* by: compat; the artifact's rules decide */
    enum repro_kind kind;
    double paper; /* times, less, at_most or below */
    double share; /* of it that must be reached */
    int of_policy, over_policy;
    int point, over_point; /* -1: the worst of all points */
    int metric_at;
    int beyond_at; /* a metric whose figure this one is divided by; or -1 */
};

struct repro_compat {
    char *world, *cluster;
    char **traces;
    unsigned traces_count;
    struct repro_options *options;
};

struct repro_scenario {
    char *name, *paper, *shows, *claimed, *note, *found, *unit, *cluster,
        *seeds;
    char **metrics, **traces;
    unsigned metrics_count, traces_count;
    struct repro_options *options;
    struct repro_policy *policies;
    unsigned policies_count;
    struct repro_sweep *sweep; /* NULL: nothing is varied */
    struct repro_compat *compat;
    struct repro_number *numbers;
    unsigned numbers_count;
    struct repro_claim *claims;
    unsigned claims_count;

    struct metric metric[REPRO_METRICS_MAX]; /* one for each of `metrics` */
    double unit_s;                           /* seconds in a unit */
    int nseeds, npoints;                     /* npoints: 1 without a sweep */
};

/* `where` is the file's name in sentences. FIRN_EINVAL with file and line. */
enum firn_status scenario_parse(struct repro_scenario **out,
                                struct firn_bytes text, const char *where,
                                struct firn_error *err);
void scenario_free(struct repro_scenario *scenario);

/* The names of the options of struct repro_options as `firn sim` has them,
 * NULL behind the last; `share` and the like take no value. */
const char *option_name(int i);
bool option_is_flag(int i);
const char *option_value(const struct repro_options *said, int i);

#endif
