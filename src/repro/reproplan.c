/* reproplan.c - turns scenarios into command lines of `firn sim`.
 *
 * (1) Synthetic traces (reprotrace.h) are written before the first run, once
 * per cluster. (2) Command lines with --compat have no settings and options of
 * a policy: the published simulators do not know them. (3) A scenario whose
 * files are not there is skipped; that is not an error. (4) Policies and points
 * that a scenario calls `missing` are not run. (5) A planted policy has none of
 * the settings of the policy that it replaces, only the options of the
 * simulation; in a planted book only cells that a claim compares are run, once.
 */
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/simfiles.h"
#include "repro/repromemory.h"
#include "repro/reprorun.h"
#include "repro/reprotrace.h"
#include "sim/world.h"
#include <firn/compat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- command lines ------------------------------------------------------- */

/* One cell while its command lines are built. */
struct draft {
    struct repro_book *book;
    struct repro_part *part;
    enum repro_rules rules;
    const struct repro_policy *policy;
    const struct repro_point *point; /* NULL without a sweep */
    const char *cluster, *name;      /* name of the policy in these rules */
    int repeat;
};

static void add(struct words *argv, const char *text)
{
    words_add(argv, text, strlen(text));
}

static void add_option(struct words *argv, const char *name, const char *value)
{
    struct firn_buf flag = {0};
    bool is_flag = false;
    for (int i = 0; option_name(i) != NULL; i++)
        if (strcmp(option_name(i), name) == 0)
            is_flag = option_is_flag(i);
    buf_printf(&flag, "--%s", name);
    if (!is_flag || strcmp(value, "yes") == 0)
        add(argv, flag.at);
    if (!is_flag)
        add(argv, value);
    buf_release(&flag);
}

static void add_options(struct words *argv, const struct repro_options *from)
{
    for (int i = 0; from != NULL && option_name(i) != NULL; i++)
        if (option_value(from, i) != NULL)
            add_option(argv, option_name(i), option_value(from, i));
}

static bool varies(const struct draft *draft, const char *what)
{
    const struct repro_sweep *sweep = draft->part->scenario->sweep;
    return sweep != NULL && strcmp(sweep->of, what) == 0;
}

/* Appends the options and settings of the scenario and of its policy. */
static void add_own(struct words *argv, const struct draft *draft)
{
    const struct repro_scenario *it = draft->part->scenario;
    const struct repro_policy *policy = draft->policy;
    bool has_settings = draft->rules != REPRO_PLANTED; /* (5) */
    struct firn_buf text = {0};
    add_options(argv, it->options);
    add_options(argv, policy->options);
    for (unsigned i = 0; has_settings && i < policy->set_count; i++) {
        buf_clear(&text);
        buf_printf(&text, "%s.%s", draft->name, policy->set[i]);
        add_option(argv, "set", text.at);
    }
    buf_release(&text);
}

/* Index of the run with this command line; takes over `argv`. */
static size_t run_of(struct repro_book *book, struct words *argv, int repeat,
                     const char *name)
{
    struct firn_buf key = {0};
    buf_printf(&key, "%d", repeat);
    for (size_t i = 0; i < argv->n; i++)
        buf_printf(&key, "\n%s", argv->at[i]);
    size_t at = (size_t)map_add(&book->lines, key.at);
    buf_release(&key);
    if (at < book->runs.n) {
        words_release(argv);
        return at;
    }
    struct repro_run run = {.argv = *argv, .repeat = repeat, .name = name};
    vec_add(&book->runs, run);
    return at;
}

/* The value of the varied option. */
static const char *use_of(const struct draft *draft)
{
    bool is_mute = draft->book->is_mute && varies(draft, "noise");
    return is_mute ? draft->part->scenario->sweep->points[0].use
                   : draft->point->use;
}

static void add_run(const struct draft *draft, const char *trace, int seed,
                    struct repro_cell *cell)
{
    const struct repro_scenario *it = draft->part->scenario;
    struct words argv = {0};
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    if (draft->policy->model != NULL) {
        add(&argv, "memory"); /* repromemory.h instead of a simulation */
        add(&argv, draft->rules == REPRO_PLANTED ? memory_planted()
                                                 : draft->policy->model);
        add(&argv, trace);
        vec_add(cell, run_of(draft->book, &argv, draft->repeat, it->name));
        return;
    }
    add(&argv, "sim");
    add(&argv, "--quiet");
    add_option(&argv, "trace", trace);
    add_option(&argv, "cluster", draft->cluster);
    add_option(&argv, "policy", draft->name);
    add_option(&argv, "seed", number);
    if (draft->rules != REPRO_COMPAT) {
        add_own(&argv, draft);
    } else { /* (2) */
        add_option(&argv, "compat", it->compat->world);
        add_options(&argv, it->compat->options);
    }
    if (draft->point != NULL && !varies(draft, "trace") &&
        !varies(draft, "cluster") &&
        (draft->rules == REPRO_HONEST || !varies(draft, "set")))
        add_option(&argv, it->sweep->of, use_of(draft));
    vec_add(cell, run_of(draft->book, &argv, draft->repeat, it->name));
}

/* --- traces -------------------------------------------------------------- */

/* Writes a synthetic trace for the cluster unless it exists; sets its path. (1)
 */
static enum firn_status write_synthetic(const struct draft *draft,
                                        const char *name, struct firn_buf *path,
                                        struct firn_error *err)
{
    struct repro_book *book = draft->book;
    struct firn_buf key = {0};
    if (book->scratch.n == 0)
        FIRN_TRY(simfiles_scratch(&book->scratch, err));
    buf_printf(&key, "%s %s", draft->cluster, name);
    size_t before = book->made.n;
    int at = map_add(&book->made, key.at);
    buf_release(&key);
    buf_clear(path);
    buf_printf(path, "%s/made-%d.csv", book->scratch.at, at);
    if (book->made.n == before)
        return FIRN_OK;
    return trace_make(name, draft->cluster, path->at, err);
}

/* Sets the path of a trace; a file that is not there skips the scenario. (3) */
static enum firn_status find_trace(const struct draft *draft, const char *name,
                                   struct firn_buf *path,
                                   struct firn_error *err)
{
    struct firn_error why = {0};
    enum firn_status status = trace_is_made(name)
                                  ? write_synthetic(draft, name, path, &why)
                                  : trace_path(name, path, &why);
    if (status == FIRN_OK)
        return FIRN_OK;
    if (status != FIRN_ENOENT)
        return firn_fail(err, status, "%s: %s", draft->part->scenario->name,
                         why.text);
    snprintf(draft->part->skip, sizeof draft->part->skip, "%.190s", why.text);
    return FIRN_OK;
}

/* The traces of a cell: each pattern of the scenario, spread. */
struct spread {
    struct words *patterns;
    unsigned n;
};

static void spread_traces(const struct draft *draft, struct spread *out)
{
    const struct repro_scenario *it = draft->part->scenario;
    const struct repro_compat *compat = it->compat;
    bool has_own = draft->rules == REPRO_COMPAT && compat->traces_count > 0;
    char **names = has_own ? compat->traces : it->traces;
    bool is_point = draft->point != NULL && varies(draft, "trace");
    out->n = is_point ? 1 : has_own ? compat->traces_count : it->traces_count;
    out->patterns = mem_new(out->n, sizeof *out->patterns);
    for (unsigned i = 0; i < out->n; i++)
        trace_spread(is_point ? draft->point->use : names[i],
                     &out->patterns[i]);
}

static void spread_release(struct spread *spread)
{
    for (unsigned i = 0; i < spread->n; i++)
        words_release(&spread->patterns[i]);
    mem_free(spread->patterns);
}

/* Number of draws; FIRN_EINVAL if patterns have different numbers of traces. */
static enum firn_status count_draws(const struct draft *draft,
                                    const struct spread *spread, int *out,
                                    struct firn_error *err)
{
    const struct repro_scenario *it = draft->part->scenario;
    size_t n = spread->patterns[0].n;
    for (unsigned i = 1; i < spread->n; i++)
        if (spread->patterns[i].n != n)
            return firn_fail(err, FIRN_EINVAL,
                             "%s: '%s' is %zu traces, but '%s' is %zu: a draw "
                             "has one of each",
                             it->name, it->traces[0], n, it->traces[i],
                             spread->patterns[i].n);
    *out = (int)n * it->nseeds;
    if (draft->book->draws_max > 0 && *out > draft->book->draws_max)
        *out = draft->book->draws_max;
    return FIRN_OK;
}

/* --- the plan ------------------------------------------------------------ */

/* Do the rules have this policy? If not, sets the reason in the cell. */
static bool is_known(const struct draft *draft, struct repro_cell *cell)
{
    const struct repro_scenario *it = draft->part->scenario;
    const struct firn_world_def *world = &world_honest;
    const struct world_policy *as;
    struct firn_error err = {0};
    if (draft->rules == REPRO_COMPAT)
        world = firn_compat_find(it->compat->world, &err);
    if (world != NULL &&
        world_policy_find(world, draft->name, &as, &err) != NULL)
        return true;
    cell->is_missing = true;
    snprintf(cell->why, sizeof cell->why, "%.150s", err.text);
    return false;
}

/* Adds the runs of a cell, by draw and pattern. */
static enum firn_status add_runs(struct draft *draft, struct repro_cell *cell,
                                 const struct spread *spread,
                                 struct firn_error *err)
{
    struct repro_part *part = draft->part;
    int nseeds = part->scenario->nseeds;
    struct firn_buf path = {0};
    enum firn_status status = count_draws(draft, spread, &cell->ndraws, err);
    cell->npatterns = (int)spread->n;
    for (int i = 0; i < cell->ndraws && status == FIRN_OK; i++)
        for (unsigned k = 0; k < spread->n && status == FIRN_OK; k++) {
            const char *name = spread->patterns[k].at[i / nseeds];
            part->is_drawn |= trace_is_drawn(name) || nseeds > 1;
            status = find_trace(draft, name, &path, err);
            if (part->skip[0] != '\0')
                goto out;
            if (status == FIRN_OK)
                add_run(draft, path.at, i % nseeds + 1, cell);
        }
out:
    buf_release(&path);
    return status;
}

static const char *cluster_of(const struct draft *draft)
{
    const struct repro_scenario *it = draft->part->scenario;
    if (draft->point != NULL && varies(draft, "cluster"))
        return draft->point->use;
    if (draft->point != NULL && draft->point->cluster != NULL)
        return draft->point->cluster;
    if (draft->rules == REPRO_COMPAT && it->compat->cluster != NULL)
        return it->compat->cluster;
    return it->cluster;
}

static enum firn_status plan_cell(struct draft *draft, struct repro_cell *cell,
                                  struct firn_error *err)
{
    bool is_compat = draft->rules == REPRO_COMPAT;
    bool is_model = !is_compat && draft->policy->model != NULL;
    const char *missing = draft->policy->missing;
    if (missing == NULL && draft->point != NULL)
        missing = draft->point->missing;
    if (missing != NULL) { /* (4) */
        cell->is_absent = true;
        if (!is_compat)
            str_copy(cell->why, sizeof cell->why, missing);
        return FIRN_OK;
    }
    draft->name = is_compat ? draft->policy->compat : draft->policy->policy;
    if (draft->rules == REPRO_PLANTED && draft->name != NULL)
        draft->name = draft->book->plant;
    if (!is_model && (draft->name == NULL || !is_known(draft, cell)))
        return FIRN_OK;
    draft->cluster = cluster_of(draft);
    struct spread spread = {0};
    spread_traces(draft, &spread);
    enum firn_status status = add_runs(draft, cell, &spread, err);
    spread_release(&spread);
    return status;
}

/* Skips a scenario that needs tables of $FIRN_DATA if FIRN_DATA is not set. */
static void check_data(struct repro_part *part)
{
    const struct repro_scenario *it = part->scenario;
    const char *data = getenv("FIRN_DATA");
    bool wants = it->compat != NULL;
    if (it->options != NULL && it->options->profiles != NULL)
        wants |= strcmp(it->options->profiles, "data") == 0;
    if (wants && (data == NULL || *data == '\0'))
        str_copy(part->skip, sizeof part->skip, "FIRN_DATA is not set");
}

/* Does a claim compare this cell in a planted book? (5) */
static bool is_compared(const struct repro_scenario *it, enum repro_rules rules,
                        int policy, int point)
{
    for (unsigned i = 0; i < it->claims_count; i++) {
        const struct repro_claim *claim = &it->claims[i];
        bool is_self = claim->of_policy == claim->over_policy;
        bool is_of = claim->point < 0 || claim->point == point ||
                     (claim->least > 0 && point == 0);
        bool is_over = claim->over_point < 0 || claim->over_point == point;
        if (rules == REPRO_PLANTED && policy == claim->of_policy &&
            (is_of || (is_self && is_over)))
            return true;
        if (rules == REPRO_HONEST && policy == claim->over_policy && is_over &&
            !is_self)
            return true;
        if (rules == REPRO_COMPAT && policy == claim->over_policy)
            return true;
    }
    return false;
}

static bool is_planned(const struct repro_book *book,
                       const struct repro_scenario *it, enum repro_rules rules,
                       int policy, int point)
{
    if (book->plant == NULL)
        return rules != REPRO_PLANTED;
    return is_compared(it, rules, policy, point);
}

/* Adds the runs of one repeat. */
static enum firn_status plan_repeat(struct repro_book *book,
                                    struct repro_part *part, int repeat,
                                    struct firn_error *err)
{
    const struct repro_scenario *it = part->scenario;
    for (int rules = 0; rules < REPRO_NROWS; rules++) {
        for (int i = 0; i < (int)it->policies_count; i++) {
            for (int k = 0; k < it->npoints && part->skip[0] == '\0'; k++) {
                struct draft draft = {
                    .book = book,
                    .part = part,
                    .rules = (enum repro_rules)rules,
                    .policy = &it->policies[i],
                    .point = it->sweep != NULL ? &it->sweep->points[k] : NULL,
                    .repeat = repeat,
                };
                if (!is_planned(book, it, draft.rules, i, k))
                    continue;
                FIRN_TRY(
                    plan_cell(&draft, book_cell(part, draft.rules, i, k), err));
            }
        }
    }
    return FIRN_OK;
}

enum firn_status book_plan(struct repro_book *book, struct firn_error *err)
{
    for (size_t i = 0; i < book->parts.n; i++) {
        struct repro_part *part = &book->parts.at[i];
        check_data(part);
        const struct repro_sweep *sweep = part->scenario->sweep;
        if (book->is_mute && (!sweep || strcmp(sweep->of, "noise") != 0))
            str_copy(part->skip, sizeof part->skip, "it varies no noise");
        int nrepeats = book->plant != NULL ? 1 : part->scenario->nrepeats;
        for (int k = 0; k < nrepeats; k++)
            FIRN_TRY(plan_repeat(book, part, k, err));
    }
    return FIRN_OK;
}
