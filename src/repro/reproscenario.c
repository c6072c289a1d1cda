/* reproscenario.c - a scenario file: a table or figure of a paper.
 *
 * libcyaml fills the fields that the schema names; the other fields are
 * computed here from the complete file.
 */
#include "repro/reproscenario.h"
#include "base/str.h"
#include "base/yamltext.h"
#include "repro/repromemory.h"
#include <stddef.h>
#include <string.h>

enum {
    TEXT_MAX = 4000,
    LIST_MAX = 200,
    SEEDS_MAX = 100,
    REPEATS_MAX = 20,
    MUST = CYAML_FLAG_POINTER,
    MAY = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
};

#define TEXT(key, must, type, field) \
    CYAML_FIELD_STRING_PTR(key, must, struct type, field, 0, TEXT_MAX)

static const cyaml_schema_value_t word = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, TEXT_MAX),
};

static const cyaml_schema_field_t option_fields[] = {
    TEXT("profiles", MAY, repro_options, profiles),
    TEXT("restart-cost", MAY, repro_options, restart_cost),
    TEXT("resize-cost", MAY, repro_options, resize_cost),
    TEXT("handover", MAY, repro_options, handover),
    TEXT("ahead", MAY, repro_options, ahead),
    TEXT("interval", MAY, repro_options, interval),
    TEXT("quantum", MAY, repro_options, quantum),
    TEXT("share", MAY, repro_options, share),
    TEXT("ask", MAY, repro_options, ask),
    TEXT("freeze", MAY, repro_options, freeze),
    TEXT("noise", MAY, repro_options, noise),
    TEXT("elastic", MAY, repro_options, elastic),
    TEXT("scaling", MAY, repro_options, scaling),
    TEXT("share-slowdown", MAY, repro_options, share_slowdown),
    TEXT("charge-first-start", MAY, repro_options, charge_first_start),
    TEXT("forecast", MAY, repro_options, forecast),
    TEXT("transfer-key", MAY, repro_options, transfer_key),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t policy_fields[] = {
    TEXT("label", MUST, repro_policy, label),
    TEXT("policy", MAY, repro_policy, policy),
    TEXT("compat", MAY, repro_policy, compat),
    TEXT("model", MAY, repro_policy, model),
    TEXT("missing", MAY, repro_policy, missing),
    TEXT("variant", MAY, repro_policy, variant),
    CYAML_FIELD_SEQUENCE("set", MAY, struct repro_policy, set, &word, 0,
                         LIST_MAX),
    CYAML_FIELD_MAPPING_PTR("options", MAY, struct repro_policy, options,
                            option_fields),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t point_fields[] = {
    TEXT("at", MUST, repro_point, at),
    TEXT("use", MAY, repro_point, use),
    TEXT("missing", MAY, repro_point, missing),
    TEXT("cluster", MAY, repro_point, cluster),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t policy_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct repro_policy, policy_fields),
};

static const cyaml_schema_value_t point_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct repro_point, point_fields),
};

static const cyaml_schema_field_t sweep_fields[] = {
    TEXT("of", MUST, repro_sweep, of),
    TEXT("axis", MUST, repro_sweep, axis),
    CYAML_FIELD_SEQUENCE("points", MUST, struct repro_sweep, points,
                         &point_entry, 1, LIST_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t number_fields[] = {
    TEXT("of", MUST, repro_number, of),
    TEXT("at", MAY, repro_number, at),
    TEXT("metric", MAY, repro_number, metric),
    TEXT("value", MUST, repro_number, value),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t claim_fields[] = {
    TEXT("of", MUST, repro_claim, of),
    TEXT("over", MAY, repro_claim, over),
    TEXT("at", MAY, repro_claim, at),
    TEXT("over-at", MAY, repro_claim, over_at),
    TEXT("metric", MAY, repro_claim, metric),
    TEXT("times", MAY, repro_claim, times),
    TEXT("less", MAY, repro_claim, less),
    TEXT("at-most", MAY, repro_claim, at_most),
    TEXT("below", MAY, repro_claim, below),
    TEXT("reach", MAY, repro_claim, reach),
    TEXT("by", MAY, repro_claim, by),
    TEXT("beyond", MAY, repro_claim, beyond),
    TEXT("acts", MAY, repro_claim, acts),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t compat_fields[] = {
    TEXT("world", MUST, repro_compat, world),
    TEXT("cluster", MAY, repro_compat, cluster),
    CYAML_FIELD_SEQUENCE("traces", MAY, struct repro_compat, traces, &word, 0,
                         LIST_MAX),
    CYAML_FIELD_MAPPING_PTR("options", MAY, struct repro_compat, options,
                            option_fields),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t number_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct repro_number, number_fields),
};

static const cyaml_schema_value_t claim_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct repro_claim, claim_fields),
};

static const cyaml_schema_field_t top_fields[] = {
    TEXT("name", MUST, repro_scenario, name),
    TEXT("paper", MUST, repro_scenario, paper),
    TEXT("shows", MUST, repro_scenario, shows),
    TEXT("claimed", MAY, repro_scenario, claimed),
    TEXT("note", MAY, repro_scenario, note),
    TEXT("found", MAY, repro_scenario, found),
    TEXT("chosen", MAY, repro_scenario, chosen),
    TEXT("unit", MAY, repro_scenario, unit),
    TEXT("cluster", MUST, repro_scenario, cluster),
    TEXT("seeds", MAY, repro_scenario, seeds),
    TEXT("repeats", MAY, repro_scenario, repeats),
    CYAML_FIELD_SEQUENCE("metrics", MUST, struct repro_scenario, metrics, &word,
                         1, REPRO_METRICS_MAX),
    CYAML_FIELD_SEQUENCE("traces", MAY, struct repro_scenario, traces, &word, 0,
                         LIST_MAX),
    CYAML_FIELD_MAPPING_PTR("options", MAY, struct repro_scenario, options,
                            option_fields),
    CYAML_FIELD_SEQUENCE("policies", MUST, struct repro_scenario, policies,
                         &policy_entry, 1, LIST_MAX),
    CYAML_FIELD_MAPPING_PTR("sweep", MAY, struct repro_scenario, sweep,
                            sweep_fields),
    CYAML_FIELD_MAPPING_PTR("compat", MAY, struct repro_scenario, compat,
                            compat_fields),
    CYAML_FIELD_SEQUENCE("numbers", MAY, struct repro_scenario, numbers,
                         &number_entry, 0, LIST_MAX),
    CYAML_FIELD_SEQUENCE("claims", MAY, struct repro_scenario, claims,
                         &claim_entry, 0, LIST_MAX),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t top = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct repro_scenario, top_fields),
};

/* --- options ------------------------------------------------------------- */

#define OPTION(name, field, is_flag)                         \
    {                                                        \
        name, offsetof(struct repro_options, field), is_flag \
    }
static const struct {
    const char *name;
    size_t offset;
    bool is_flag;
} options[] = {
    OPTION("profiles", profiles, false),
    OPTION("restart-cost", restart_cost, false),
    OPTION("resize-cost", resize_cost, false),
    OPTION("handover", handover, false),
    OPTION("ahead", ahead, false),
    OPTION("interval", interval, false),
    OPTION("quantum", quantum, false),
    OPTION("share", share, true),
    OPTION("ask", ask, true),
    OPTION("freeze", freeze, false),
    OPTION("noise", noise, false),
    OPTION("elastic", elastic, false),
    OPTION("scaling", scaling, false),
    OPTION("share-slowdown", share_slowdown, false),
    OPTION("charge-first-start", charge_first_start, true),
    OPTION("forecast", forecast, false),
    OPTION("transfer-key", transfer_key, true),
};

enum { NOPTIONS = sizeof options / sizeof *options };

const char *option_name(int i)
{
    return i < NOPTIONS ? options[i].name : NULL;
}

bool option_is_flag(int i)
{
    return options[i].is_flag;
}

const char *option_value(const struct repro_options *values, int i)
{
    const char *value;
    memcpy(&value, (const char *)values + options[i].offset, sizeof value);
    return value;
}

/* --- numbers and references ---------------------------------------------- */

struct reading {
    struct repro_scenario *it;
    const struct yaml_words *words;
    const char *where;
    struct firn_error *err;
};

/* Fails because of `text`, the value of `key`. */
static enum firn_status wrong(const struct reading *r, const char *key,
                              const char *text, const char *why)
{
    return firn_fail(r->err, FIRN_EINVAL, "%s: line %ld: '%s' is '%s': %s",
                     r->where, yaml_line(r->words, text), key, text, why);
}

static enum firn_status find_policy(const struct reading *r, const char *key,
                                    const char *label, int *out)
{
    for (unsigned i = 0; i < r->it->policies_count; i++)
        if (strcmp(r->it->policies[i].label, label) == 0) {
            *out = (int)i;
            return FIRN_OK;
        }
    return wrong(r, key, label, "no policy of that label");
}

/* Sets the index of the point; -1 if the claim names none. */
static enum firn_status find_point(const struct reading *r, const char *key,
                                   const char *at, int *out)
{
    const struct repro_sweep *sweep = r->it->sweep;
    *out = sweep != NULL ? -1 : 0;
    if (at == NULL)
        return FIRN_OK;
    for (unsigned i = 0; sweep != NULL && i < sweep->points_count; i++)
        if (strcmp(sweep->points[i].at, at) == 0) {
            *out = (int)i;
            return FIRN_OK;
        }
    return wrong(r, key, at, "no point of the sweep");
}

static enum firn_status find_metric(const struct reading *r, const char *name,
                                    int *out)
{
    *out = 0;
    for (unsigned i = 0; name != NULL && i < r->it->metrics_count; i++)
        if (strcmp(r->it->metrics[i], name) == 0) {
            *out = (int)i;
            return FIRN_OK;
        }
    return name == NULL ? FIRN_OK
                        : wrong(r, "metric", name, "not among 'metrics'");
}

static enum firn_status read_number(const struct reading *r, const char *key,
                                    const char *text, double min, double *out)
{
    if (!str_double(text, out) || *out < min)
        return wrong(r, key, text, "not a number in range");
    return FIRN_OK;
}

/* Sets kind and number of a claim, which has exactly one of the kinds. */
static enum firn_status read_kind(const struct reading *r,
                                  struct repro_claim *claim)
{
    const char *paper[] = {claim->times, claim->less, claim->at_most,
                           claim->below};
    static const char *const keys[] = {"times", "less", "at-most", "below"};
    int n = 0;
    for (int i = 0; i < REPRO_NKINDS; i++) {
        if (paper[i] == NULL)
            continue;
        claim->kind = (enum repro_kind)i;
        FIRN_TRY(read_number(r, keys[i], paper[i], 0, &claim->paper));
        n++;
    }
    if (n != 1)
        return wrong(r, "of", claim->of,
                     "a claim has one of times, less, at-most and below");
    return FIRN_OK;
}

static enum firn_status read_acts(const struct reading *r,
                                  struct repro_claim *claim)
{
    if (claim->acts == NULL)
        return FIRN_OK;
    if (r->it->sweep == NULL)
        return wrong(r, "acts", claim->acts, "the scenario has no sweep");
    FIRN_TRY(read_number(r, "acts", claim->acts, 0, &claim->least));
    if (claim->least == 0)
        return wrong(r, "acts", claim->acts, "not a number above 0");
    return FIRN_OK;
}

static enum firn_status read_claim(const struct reading *r,
                                   struct repro_claim *claim)
{
    FIRN_TRY(find_policy(r, "of", claim->of, &claim->of_policy));
    claim->over_policy = claim->of_policy;
    if (claim->over != NULL)
        FIRN_TRY(find_policy(r, "over", claim->over, &claim->over_policy));
    FIRN_TRY(find_point(r, "at", claim->at, &claim->point));
    claim->over_point = claim->point;
    if (claim->over_at != NULL)
        FIRN_TRY(find_point(r, "over-at", claim->over_at, &claim->over_point));
    FIRN_TRY(find_metric(r, claim->metric, &claim->metric_at));
    claim->beyond_at = -1;
    if (claim->beyond != NULL)
        FIRN_TRY(find_metric(r, claim->beyond, &claim->beyond_at));
    if (claim->beyond != NULL && claim->times == NULL)
        return wrong(r, "beyond", claim->beyond, "only with 'times'");
    FIRN_TRY(read_kind(r, claim));
    FIRN_TRY(read_acts(r, claim));
    claim->is_compat = claim->by != NULL && strcmp(claim->by, "compat") == 0;
    if (claim->is_compat && r->it->compat == NULL)
        return wrong(r, "by", claim->by, "the scenario has no 'compat'");
    if (claim->by != NULL && !claim->is_compat)
        return wrong(r, "by", claim->by, "the only value is 'compat'");
    claim->share = 0.8;
    if (claim->reach != NULL)
        return read_number(r, "reach", claim->reach, 0, &claim->share);
    return FIRN_OK;
}

static enum firn_status read_paper(const struct reading *r,
                                   struct repro_number *number)
{
    FIRN_TRY(find_policy(r, "of", number->of, &number->policy));
    FIRN_TRY(find_point(r, "at", number->at, &number->point));
    if (number->point < 0)
        return wrong(r, "value", number->value,
                     "'at' is missing: the scenario has a sweep");
    FIRN_TRY(find_metric(r, number->metric, &number->metric_at));
    return read_number(r, "value", number->value, 0, &number->number);
}

static enum firn_status read_unit(const struct reading *r)
{
    static const struct {
        const char *name;
        double s;
    } units[] = {{"s", 1}, {"ms", 1e-3}, {"min", 60}, {"h", 3600}};
    r->it->unit_s = 1;
    if (r->it->unit == NULL)
        return FIRN_OK;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, r->it->unit) == 0) {
            r->it->unit_s = units[i].s;
            return FIRN_OK;
        }
    return wrong(r, "unit", r->it->unit, "not ms, s, min or h");
}

/* A policy has either `missing`, or `model`, or `policy` and/or `compat`. */
static enum firn_status check_policy(const struct reading *r,
                                     const struct repro_policy *policy)
{
    bool is_run = policy->policy != NULL || policy->compat != NULL;
    int n = is_run + (policy->model != NULL) + (policy->missing != NULL);
    if (n != 1)
        return wrong(r, "label", policy->label,
                     "needs 'policy' or 'compat', or 'model', or 'missing'");
    if (policy->compat != NULL && r->it->compat == NULL)
        return wrong(r, "compat", policy->compat,
                     "the scenario has no 'compat'");
    for (int i = 0; policy->model != NULL; i++) {
        if (memory_predictor(i) == NULL)
            return wrong(r, "model", policy->model, "unknown memory model");
        if (strcmp(memory_predictor(i), policy->model) == 0)
            break;
    }
    return FIRN_OK;
}

/* Sets `variant_at` of the policy that this one is a variant of. */
static enum firn_status find_variant(const struct reading *r, unsigned at)
{
    const struct repro_policy *policy = &r->it->policies[at];
    int of;
    if (policy->variant == NULL)
        return FIRN_OK;
    FIRN_TRY(find_policy(r, "variant", policy->variant, &of));
    if (r->it->policies[of].variant != NULL)
        return wrong(r, "variant", policy->variant, "is a variant itself");
    if (r->it->policies[of].variant_at >= 0)
        return wrong(r, "variant", policy->variant, "has another variant");
    if (r->it->chosen == NULL)
        return wrong(r, "variant", policy->variant,
                     "there is no 'chosen': the workloads that its options "
                     "were chosen on");
    r->it->policies[of].variant_at = (int)at;
    return FIRN_OK;
}

static enum firn_status check_policies(const struct reading *r)
{
    for (unsigned i = 0; i < r->it->policies_count; i++)
        r->it->policies[i].variant_at = -1;
    for (unsigned i = 0; i < r->it->policies_count; i++) {
        const struct repro_policy *policy = &r->it->policies[i];
        FIRN_TRY(check_policy(r, policy));
        for (unsigned j = 0; j < i; j++)
            if (strcmp(r->it->policies[j].label, policy->label) == 0)
                return wrong(r, "label", policy->label, "given twice");
    }
    for (unsigned i = 0; i < r->it->policies_count; i++)
        FIRN_TRY(find_variant(r, i));
    return FIRN_OK;
}

static enum firn_status check_sweep(const struct reading *r)
{
    const struct repro_sweep *sweep = r->it->sweep;
    r->it->npoints = 1;
    if (sweep == NULL)
        return FIRN_OK;
    r->it->npoints = (int)sweep->points_count;
    for (int i = 0; i < r->it->npoints; i++) {
        const struct repro_point *point = &sweep->points[i];
        if ((point->use == NULL) == (point->missing == NULL))
            return wrong(r, "at", point->at, "needs either 'use' or 'missing'");
    }
    static const char *const others[] = {"trace", "cluster", "set"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(sweep->of, others[i]) == 0)
            return FIRN_OK;
    for (int i = 0; i < NOPTIONS; i++)
        if (strcmp(sweep->of, options[i].name) == 0)
            return FIRN_OK;
    return wrong(r, "of", sweep->of,
                 "neither an option nor trace, cluster or set");
}

static enum firn_status read_all(const struct reading *r)
{
    struct repro_scenario *it = r->it;
    long nseeds = 1, nrepeats = 1;
    FIRN_TRY(read_unit(r));
    FIRN_TRY(check_policies(r));
    FIRN_TRY(check_sweep(r));
    for (unsigned i = 0; i < it->metrics_count; i++) {
        struct firn_error why = {0};
        if (metric_find(&it->metric[i], it->metrics[i], &why) != FIRN_OK)
            return wrong(r, "metrics", it->metrics[i], why.text);
    }
    if (it->seeds != NULL && !str_int(it->seeds, 1, SEEDS_MAX, &nseeds))
        return wrong(r, "seeds", it->seeds, "not a number from 1 to 100");
    if (it->repeats != NULL && !str_int(it->repeats, 1, REPEATS_MAX, &nrepeats))
        return wrong(r, "repeats", it->repeats, "not a number from 1 to 20");
    it->nseeds = (int)nseeds;
    it->nrepeats = (int)nrepeats;
    for (unsigned i = 0; i < it->numbers_count; i++)
        FIRN_TRY(read_paper(r, &it->numbers[i]));
    for (unsigned i = 0; i < it->claims_count; i++)
        FIRN_TRY(read_claim(r, &it->claims[i]));
    if (it->traces_count == 0 &&
        (it->sweep == NULL || strcmp(it->sweep->of, "trace") != 0))
        return wrong(r, "name", it->name, "the scenario has no traces");
    return FIRN_OK;
}

/* --- YAML ----------------------------------------------------------------- */

enum { DEPTH_MAX = 6 };

struct walk {
    struct yaml_words *words;
    int depth, ndocuments;
};

/* Returns why this event is not allowed in a scenario, or NULL. */
static const char *judge(void *arg, const yaml_event_t *event)
{
    struct walk *walk = arg;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        yaml_note(walk->words, event);
        return walk->depth == 0 ? "expected 'key: ...', not a single word"
                                : NULL;
    case YAML_SEQUENCE_START_EVENT:
        if (walk->depth == 0)
            return "expected 'key: ...', not a list";
        return ++walk->depth > DEPTH_MAX ? "nested too deeply" : NULL;
    case YAML_MAPPING_START_EVENT:
        return ++walk->depth > DEPTH_MAX ? "nested too deeply" : NULL;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        walk->depth--;
        return NULL;
    case YAML_ALIAS_EVENT:
        return "aliases are not used in scenario files";
    case YAML_DOCUMENT_START_EVENT:
        return ++walk->ndocuments > 1 ? "a second document" : NULL;
    default:
        return NULL;
    }
}

enum firn_status scenario_parse(struct repro_scenario **out,
                                struct firn_bytes text, const char *where,
                                struct firn_error *err)
{
    struct yaml_words words = {0};
    void *data = NULL;
    struct walk walk = {.words = &words};
    enum firn_status status = yaml_walk(text, where, judge, &walk, err);
    if (status == FIRN_OK && words.n == 0)
        status = firn_fail(err, FIRN_EINVAL, "%s: the file is empty", where);
    if (status == FIRN_OK)
        status = yaml_load(&data, &top, text, where, &words, err);
    if (status == FIRN_OK) {
        struct reading reading = {data, &words, where, err};
        status = read_all(&reading);
    }
    if (status == FIRN_OK)
        *out = data;
    else
        yaml_free(data, &top);
    yaml_words_release(&words);
    return status;
}

void scenario_free(struct repro_scenario *scenario)
{
    yaml_free(scenario, &top);
}
