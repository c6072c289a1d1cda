/* reproscenario.h - a scenario file: a table or figure of a paper.
 *
 * A scenario has a workload, a cluster, policies with settings, at most one
 * varied parameter, and the numbers and claims of the paper. papers/README.md
 * describes the file. Texts are kept as they are in the file; numbers and
 * references to other parts of the file are checked and resolved by
 * scenario_parse().
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

/* Options of `firn sim`; NULL: not in the file. */
struct repro_options {
    char *profiles, *restart_cost, *resize_cost, *handover, *ahead, *interval,
        *quantum, *share, *freeze, *noise, *elastic, *scaling, *share_slowdown,
        *charge_first_start, *forecast, *transfer_key, *ask;
};

struct repro_policy {
    char *label;   /* its name in the paper; unique */
    char *policy;  /* its name in firn; NULL: only with --compat */
    char *compat;  /* its name with --compat; NULL: only firn's rules */
    char *model;   /* predictor of repromemory.h instead of `policy` */
    char *missing; /* why it cannot be run, instead of all three */
    char *variant; /* label of the policy whose firn variant this is, or NULL */
    char **set;    /* "option=value" of `policy` */
    unsigned set_count;
    struct repro_options *options; /* in addition to the scenario's, or NULL */
    int variant_at;                /* index of the variant of this one; or -1 */
};

struct repro_point {
    char *at;      /* its name in the paper: "0.5", "240" */
    char *use;     /* value of the varied parameter */
    char *missing; /* instead of `use`: why it cannot be run */
    char *cluster; /* NULL: the scenario's */
};

struct repro_sweep {
    char *of;   /* an option of `firn sim`, or trace, cluster or set */
    char *axis; /* title of the axis */
    struct repro_point *points;
    unsigned points_count;
};

/* A number of the paper, in the scenario's unit. */
struct repro_number {
    char *of, *at, *metric, *value;
    int policy, point, metric_at;
    double number;
};

enum repro_kind {
    REPRO_TIMES,   /* `over` / `of` is the paper's number */
    REPRO_LESS,    /* 1 - `of` / `over` is the paper's number */
    REPRO_AT_MOST, /* `of` / `over` is at most the paper's number */
    REPRO_BELOW,   /* `of` is at most the paper's number, in its unit */
    REPRO_NKINDS,
};

struct repro_claim {
    char *of, *over, *at, *over_at, *metric, *times, *less, *at_most, *below,
        *reach, *by, *beyond, *acts;
    bool is_compat; /* by: compat; judged by the published simulator's rules */
    enum repro_kind kind;
    double paper; /* times, less, at_most or below */
    double share; /* of the paper's effect that must be reached */
    double least; /* `acts`: the sweep must change `of` by this share; or 0 */
    int of_policy, over_policy;
    int point, over_point; /* -1: the worst point */
    int metric_at;
    int beyond_at; /* metric whose figure divides this one; or -1 */
};

struct repro_compat {
    char *world, *cluster;
    char **traces;
    unsigned traces_count;
    struct repro_options *options;
};

struct repro_scenario {
    char *name, *paper, *shows, *claimed, *unit, *cluster, *seeds, *repeats;
    char *note;   /* differences from the paper */
    char *found;  /* why claims do not hold */
    char *chosen; /* the workloads that the options of variants were chosen on;
                   * must be there if a policy is a variant */
    char **metrics, **traces;
    unsigned metrics_count, traces_count;
    struct repro_options *options;
    struct repro_policy *policies;
    unsigned policies_count;
    struct repro_sweep *sweep; /* NULL: no parameter is varied */
    struct repro_compat *compat;
    struct repro_number *numbers;
    unsigned numbers_count;
    struct repro_claim *claims;
    unsigned claims_count;

    struct metric metric[REPRO_METRICS_MAX]; /* one for each of `metrics` */
    double unit_s;                           /* seconds in a unit */
    int nseeds, nrepeats;
    int npoints; /* 1 without a sweep */
};

/* `where` is the file name in messages. FIRN_EINVAL with file and line. */
enum firn_status scenario_parse(struct repro_scenario **out,
                                struct firn_bytes text, const char *where,
                                struct firn_error *err);
void scenario_free(struct repro_scenario *scenario);

/* Option i of struct repro_options: its name in `firn sim` (NULL after the
 * last), whether it takes no value, and its value. */
const char *option_name(int i);
bool option_is_flag(int i);
const char *option_value(const struct repro_options *values, int i);

#endif
