/* cmd_profile.c - `firn profile`: performance models and measured tables.
 *
 *     firn profile list                            lists the profiles
 *     firn profile show APP                        prints one profile
 *     firn profile eval --fit A.csv --test B.csv   fits to A, predicts B
 *     firn profile fit A.csv                       prints fitted parameters
 *
 * Each application of a table is fitted separately. Invalid rows, and
 * applications that only the test table has, are reported on standard error and
 * skipped. Without --test the rows are split at random into two halves: one is
 * fitted, the other is predicted. --points writes each tested row, measured and
 * predicted, for plots.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/profile_page.h"
#include "cli/profile_show.h"
#include "cli/profile_table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct args {
    const char *fit, *test, *layers, *points;
    uint64_t seed;
    bool is_json;
};

static int failed(const struct firn_error *err)
{
    fprintf(stderr, "firn profile: %s\n", err->text);
    return 1;
}

static enum firn_status read_table(const struct args *args, const char *path,
                                   struct profile_table *out,
                                   struct firn_error *err)
{
    struct profile_layers *layers = mem_new(1, sizeof *layers);
    enum firn_status status =
        profile_layers_read(layers, args->layers, path, err);
    if (status == FIRN_OK)
        status = profile_table_read(out, path, layers, err);
    mem_free(layers);
    if (status != FIRN_OK)
        return status;
    long shown = out->nbad < TABLE_BAD_SHOWN ? out->nbad : TABLE_BAD_SHOWN;
    for (long i = 0; i < shown; i++)
        fprintf(stderr, "firn profile: %s\n", out->bad[i]);
    if (out->nbad > shown)
        fprintf(stderr, "firn profile: %s: %ld more bad rows\n", path,
                out->nbad - shown);
    if (out->nrows == 0)
        return firn_fail(err, FIRN_EDATA, "%s: no valid row", path);
    return FIRN_OK;
}

/* Sets the same number of layers in both tables, if one only counts frozen
 * layers. */
static void count_layers(struct profile_table *a, struct profile_table *b)
{
    int most =
        a->most_frozen > b->most_frozen ? a->most_frozen : b->most_frozen;
    if (!a->counts_layers && !b->counts_layers)
        return;
    fprintf(stderr,
            "firn profile: %s: no table of layer weights; each frozen layer "
            "counts 1/%d (see --layers)\n",
            a->path, most + 1);
    profile_table_count_layers(a, most);
    profile_table_count_layers(b, most);
}

/* --- evaluation --- */

/* The tested rows of all applications, measured and predicted. */
struct pool {
    double *measured, *predicted;
    size_t n;
};

struct eval {
    struct profile_results results;
    struct pool pool[EVALUATE_QUANTITIES];
    struct firn_buf points;
};

static void add_point(struct eval *ev, const struct profile_result *a,
                      const struct evaluate_row *row, enum evaluate_quantity q)
{
    double measured = evaluate_measured(row, q);
    double predicted = evaluate_predict(&a->models, row, q);
    if (isnan(measured) || isnan(predicted))
        return;
    struct pool *pool = &ev->pool[q];
    pool->measured[pool->n] = measured;
    pool->predicted[pool->n++] = predicted;
    struct firn_buf *out = &ev->points;
    buf_csv_string(out, a->app);
    buf_printf(out, ",%s,%d,%d,", evaluate_quantity_name(q), row->shape.nodes,
               row->shape.gpus);
    buf_double(out, row->shape.batch_per_gpu);
    buf_putc(out, ',');
    buf_double(out, row->shape.theta);
    buf_putc(out, ',');
    buf_double(out, measured);
    buf_putc(out, ',');
    buf_double(out, predicted);
    buf_putc(out, '\n');
}

/* Sets the title of an application: its name in the table, else the directory
 * of a placements.csv, else the file name. */
static void title(struct profile_result *a, const char *app, const char *path)
{
    const char *end = path + strlen(path), *at = end;
    if (*app != '\0')
        at = app, end = app + strlen(app);
    else {
        while (at > path && at[-1] != '/')
            at--;
        if (strcmp(at, "placements.csv") == 0 && at > path + 1) {
            end = --at;
            while (at > path && at[-1] != '/')
                at--;
        } else if (end - at > 4 && strcmp(end - 4, ".csv") == 0)
            end -= 4;
    }
    snprintf(a->app, sizeof a->app, "%.*s", (int)(end - at), at);
}

static void eval_app(struct eval *ev, const char *app, const char *path,
                     const struct evaluate_row *fit, size_t nfit,
                     const struct evaluate_row *test, size_t ntest)
{
    struct profile_result *a = &ev->results.at[ev->results.n++];
    title(a, app, path);
    a->nfitted = nfit;
    a->ntested = ntest;
    evaluate_fit(&a->models, fit, nfit);
    for (int i = 0; i < EVALUATE_QUANTITIES; i++) {
        enum evaluate_quantity q = (enum evaluate_quantity)i;
        bool is_there = false;
        a->error[q] = evaluate_rows(&a->models, test, ntest, q);
        for (size_t j = 0; j < ntest; j++) {
            is_there = is_there || !isnan(evaluate_measured(&test[j], q));
            add_point(ev, a, &test[j], q);
        }
        if (is_there && !a->models.has[q])
            fprintf(stderr, "firn profile: %s: %s is not fitted: %s\n", a->app,
                    evaluate_quantity_name(q), a->models.why[q].text);
    }
}

static void eval_init(struct eval *ev, size_t napps, size_t nrows)
{
    *ev = (struct eval){0};
    ev->results.at = mem_new(napps, sizeof *ev->results.at);
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        ev->pool[q].measured = mem_new(nrows, sizeof(double));
        ev->pool[q].predicted = mem_new(nrows, sizeof(double));
    }
    buf_puts(&ev->points, "app,quantity,nodes,gpus,batch,theta,measured,"
                          "predicted\n");
}

static void eval_release(struct eval *ev)
{
    mem_free(ev->results.at);
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        mem_free(ev->pool[q].measured);
        mem_free(ev->pool[q].predicted);
    }
    buf_release(&ev->points);
}

static void eval_tables(struct eval *ev, const struct profile_table *a,
                        const struct profile_table *b)
{
    for (size_t i = 0; i < a->apps.n; i++) {
        size_t nfit, ntest;
        const char *app = a->apps.at[i];
        struct evaluate_row *fit = profile_table_of(a, app, &nfit);
        struct evaluate_row *test = profile_table_of(b, app, &ntest);
        if (ntest > 0)
            eval_app(ev, app, a->path, fit, nfit, test, ntest);
        mem_free(fit);
        mem_free(test);
    }
    for (size_t i = 0; i < b->apps.n; i++) {
        size_t nfit;
        mem_free(profile_table_of(a, b->apps.at[i], &nfit));
        if (nfit == 0)
            fprintf(stderr,
                    "firn profile: '%s' is only in %s and cannot be fitted\n",
                    b->apps.at[i], b->path);
    }
}

/* Without a test table: fits and tests all rows, or (`is_split`) fits a random
 * half and tests the other. */
static void eval_one_table(struct eval *ev, const struct profile_table *a,
                           bool is_split, uint64_t seed)
{
    for (size_t i = 0; i < a->apps.n; i++) {
        size_t n;
        const char *app = a->apps.at[i];
        struct evaluate_row *rows = profile_table_of(a, app, &n);
        size_t half = is_split ? evaluate_halve(rows, n, seed) : 0;
        eval_app(ev, app, a->path, rows, is_split ? half : n, rows + half,
                 n - half);
        mem_free(rows);
    }
}

static int finish(struct eval *ev, const struct args *args,
                  void page(const struct profile_results *, struct firn_buf *))
{
    struct firn_error err = {0};
    struct firn_buf out = {0};
    size_t tested = 0;
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        struct pool *p = &ev->pool[q];
        ev->results.error[q] = evaluate_error(p->predicted, p->measured, p->n);
        tested += p->n;
    }
    ev->results.fit = args->fit;
    ev->results.test = args->test != NULL ? args->test : args->fit;
    page(&ev->results, &out);
    int rc = output_write("profile", &out);
    buf_release(&out);
    if (args->points != NULL &&
        output_file(args->points, &ev->points, &err) != FIRN_OK)
        rc = failed(&err);
    if (tested == 0) {
        fprintf(stderr,
                "firn profile: no application could be fitted and tested\n");
        rc = 1;
    }
    return rc;
}

static int run(const struct args *args, bool is_fit,
               void page(const struct profile_results *, struct firn_buf *))
{
    struct profile_table a = {0}, b = {0};
    struct firn_error err = {0};
    struct eval ev;
    int rc = 0;
    if (read_table(args, args->fit, &a, &err) != FIRN_OK ||
        (args->test != NULL &&
         read_table(args, args->test, &b, &err) != FIRN_OK))
        rc = failed(&err);
    if (rc == 0) {
        count_layers(&a, &b);
        eval_init(&ev, a.apps.n, a.nrows + b.nrows);
        if (args->test != NULL)
            eval_tables(&ev, &a, &b);
        else
            eval_one_table(&ev, &a, !is_fit, args->seed);
        rc = finish(&ev, args, page);
        eval_release(&ev);
    }
    profile_table_release(&a);
    profile_table_release(&b);
    return rc;
}

/* --- eval --- */

static const struct flag eval_flags[] = {
    {"fit", 'f', "A.csv", "measured table to fit the models to", flag_text,
     offsetof(struct args, fit)},
    {"test", 't', "B.csv", "measured table to predict", flag_text,
     offsetof(struct args, test)},
    {"seed", 's', "N", "seed of the random split, without --test (default: 1)",
     flag_seed, offsetof(struct args, seed)},
    {"layers", 'l', "FILE[#APP]",
     "table of layer weights, for tables that only count frozen layers "
     "(default: layer_info.csv in the table's directory or its parent)",
     flag_text, offsetof(struct args, layers)},
    {"points", 'p', "FILE",
     "write every tested row, measured and predicted, as CSV", flag_text,
     offsetof(struct args, points)},
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page eval_page = {
    .command = "profile eval",
    .usage = "--fit A.csv --test B.csv [options]\n"
             "--fit A.csv [--seed N] [options]",
    .about = "Fits models to each application of table A, predicts table B and "
             "prints mean, median and largest absolute percentage error and "
             "R2 by quantity. Without --test a random half of A is fitted and "
             "the other half is predicted.\n\n"
             "Tables have the columns model,batch,layers,frozen,"
             "flops_unfrozen_ratio, params_unfrozen_ratio,iter_ms[,bwd_ms]"
             "[,peak_alloc_mib][,gpu_util_pct], or placement,local_bsz,"
             "step_time[,sync_time][,frozen_layer][,app].",
    .table = eval_flags,
};

static int run_eval(int argc, char **argv)
{
    struct args args = {.seed = 1};
    int rc = flags_parse(&eval_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&eval_page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    if (args.fit == NULL)
        return flags_wrong(&eval_page, "no table given: use --fit A.csv");
    return run(&args, false,
               args.is_json ? profile_page_errors_json : profile_page_errors);
}

/* --- fit --- */

static const struct flag fit_flags[] = {
    {"layers", 'l', "FILE[#APP]",
     "table of layer weights, for tables that only count frozen layers "
     "(default: layer_info.csv in the table's directory or its parent)",
     flag_text, offsetof(struct args, layers)},
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page fit_page = {
    .command = "profile fit",
    .usage = "[options] A.csv",
    .about = "Fits models to each application of a measured table and prints "
             "the parameters with the error on the fitted rows. The table "
             "omits parameters that are 0.",
    .table = fit_flags,
};

static int run_fit(int argc, char **argv)
{
    struct args args = {0};
    int rc = flags_parse(&fit_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&fit_page, argc, argv, 1, 1, "table");
    if (rc >= 0)
        return rc;
    args.fit = argv[1];
    return run(&args, true,
               args.is_json ? profile_page_models_json : profile_page_models);
}

static const struct flags_page profile_page = {
    .command = "profile",
    .usage = "list                            list the profiles\n"
             "show APP                        print one profile\n"
             "eval --fit A.csv --test B.csv   error of fitted models\n"
             "fit A.csv                       fitted parameters",
    .about = "Each subcommand has its own --help.",
};

int cmd_profile(int argc, char **argv)
{
    static const struct subcommand table[] = {{"list", profile_list},
                                              {"show", profile_show},
                                              {"eval", run_eval},
                                              {"fit", run_fit},
                                              {0}};
    return flags_subcommand(&profile_page, table, argc, argv);
}
