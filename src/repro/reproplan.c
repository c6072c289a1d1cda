/* reproplan.c - turns scenarios into command lines of `firn sim`.
 *
 * (1) Synthetic traces (reprotrace.h) are written before the first run, once
 * per cluster. (2) Command lines with --compat have no settings and options of
 * a policy: the published simulators do not know them. (3) A scenario whose
 * files are not there is skipped; that is not an error. (4) Policies and points
 * that a scenario calls `missing` are not run.
 */
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/simfiles.h"
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

static void add_own(struct words *argv, const struct draft *draft)
{
    const struct repro_scenario *it = draft->part->scenario;
    const struct repro_policy *policy = draft->policy;
    struct firn_buf text = {0};
    add_options(argv, it->options);
    add_options(argv, policy->options);
    for (unsigned i = 0; i < policy->set_count; i++) {
        buf_clear(&text);
        buf_printf(&text, "%s.%s", draft->name, policy->set[i]);
        add_option(argv, "set", text.at);
    }
    buf_release(&text);
}

/* Index of the run with this command line; takes over `argv`. */
static size_t run_of(struct repro_book *book, struct words *argv,
                     const char *name)
{
    for (size_t i = 0; i < book->runs.n; i++) {
        const struct words *other = &book->runs.at[i].argv;
        size_t k = 0;
        while (k < argv->n && k < other->n &&
               strcmp(argv->at[k], other->at[k]) == 0)
            k++;
        if (k == argv->n && k == other->n) {
            words_release(argv);
            return i;
        }
    }
    struct repro_run run = {.argv = *argv, .name = name};
    vec_add(&book->runs, run);
    return book->runs.n - 1;
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
        add(&argv, draft->policy->model);
        add(&argv, trace);
        vec_add(cell, run_of(draft->book, &argv, it->name));
        return;
    }
    add(&argv, "sim");
    add(&argv, "--quiet");
    add_option(&argv, "trace", trace);
    add_option(&argv, "cluster", draft->cluster);
    add_option(&argv, "policy", draft->name);
    add_option(&argv, "seed", number);
    if (draft->rules == REPRO_HONEST) {
        add_own(&argv, draft);
    } else { /* (2) */
        add_option(&argv, "compat", it->compat->world);
        add_options(&argv, it->compat->options);
    }
    bool is_honest = draft->rules == REPRO_HONEST;
    if (draft->point != NULL && !varies(draft, "trace") &&
        !varies(draft, "cluster") && (is_honest || !varies(draft, "set")))
        add_option(&argv, it->sweep->of, draft->point->use);
    vec_add(cell, run_of(draft->book, &argv, it->name));
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
    size_t i = 0;
    while (i < book->made.n && strcmp(book->made.at[i], key.at) != 0)
        i++;
    buf_clear(path);
    buf_printf(path, "%s/made-%zu.csv", book->scratch.at, i);
    enum firn_status status = FIRN_OK;
    if (i == book->made.n)
        status = trace_make(name, draft->cluster, path->at, err);
    if (i == book->made.n && status == FIRN_OK)
        add(&book->made, key.at);
    buf_release(&key);
    return status;
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

static void traces_of(const struct draft *draft, struct words *out)
{
    const struct repro_scenario *it = draft->part->scenario;
    const struct repro_compat *compat = it->compat;
    bool has_own = draft->rules == REPRO_COMPAT && compat->traces_count > 0;
    char **names = has_own ? compat->traces : it->traces;
    unsigned n = has_own ? compat->traces_count : it->traces_count;
    if (draft->point != NULL && varies(draft, "trace")) {
        trace_spread(draft->point->use, out);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        trace_spread(names[i], out);
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

static enum firn_status plan_cell(struct draft *draft, struct repro_cell *cell,
                                  struct firn_error *err)
{
    const struct repro_scenario *it = draft->part->scenario;
    bool is_honest = draft->rules == REPRO_HONEST;
    bool is_model = is_honest && draft->policy->model != NULL;
    const char *missing = draft->policy->missing;
    if (missing == NULL && draft->point != NULL)
        missing = draft->point->missing;
    if (missing != NULL) { /* (4) */
        cell->is_absent = true;
        if (is_honest)
            str_copy(cell->why, sizeof cell->why, missing);
        return FIRN_OK;
    }
    draft->name = is_honest ? draft->policy->policy : draft->policy->compat;
    if (!is_model && (draft->name == NULL || !is_known(draft, cell)))
        return FIRN_OK;
    draft->cluster = it->cluster;
    if (!is_honest && it->compat->cluster != NULL)
        draft->cluster = it->compat->cluster;
    if (draft->point != NULL && draft->point->cluster != NULL)
        draft->cluster = draft->point->cluster;
    if (draft->point != NULL && varies(draft, "cluster"))
        draft->cluster = draft->point->use;
    struct words traces = {0};
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    traces_of(draft, &traces);
    for (size_t i = 0; i < traces.n && status == FIRN_OK; i++) {
        status = find_trace(draft, traces.at[i], &path, err);
        if (draft->part->skip[0] != '\0')
            break;
        for (int k = 1; k <= it->nseeds && status == FIRN_OK; k++)
            add_run(draft, path.at, k, cell);
    }
    buf_release(&path);
    words_release(&traces);
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

static enum firn_status plan_part(struct repro_book *book,
                                  struct repro_part *part,
                                  struct firn_error *err)
{
    const struct repro_scenario *it = part->scenario;
    check_data(part);
    for (int rules = 0; rules < REPRO_NRULES; rules++) {
        for (int i = 0; i < (int)it->policies_count; i++) {
            for (int k = 0; k < it->npoints && part->skip[0] == '\0'; k++) {
                struct draft draft = {
                    .book = book,
                    .part = part,
                    .rules = (enum repro_rules)rules,
                    .policy = &it->policies[i],
                    .point = it->sweep != NULL ? &it->sweep->points[k] : NULL,
                };
                FIRN_TRY(
                    plan_cell(&draft, book_cell(part, draft.rules, i, k), err));
            }
        }
    }
    return FIRN_OK;
}

enum firn_status book_plan(struct repro_book *book, struct firn_error *err)
{
    for (size_t i = 0; i < book->parts.n; i++)
        FIRN_TRY(plan_part(book, &book->parts.at[i], err));
    return FIRN_OK;
}
