/* profile_page.c - fitted models and their errors as text and JSON.
 *
 * Parameters have the names and units of the headers of the models; one list
 * serves both formats.
 */
#include "cli/profile_page.h"
#include "base/buf.h"
#include "base/table.h"
#include <math.h>
#include <stdio.h>

enum { NAMES = 48 };

/* Parameters of one model by name. */
struct listed {
    char name[NAMES][32];
    double value[NAMES];
    int n;
};

static void add(struct listed *l, const char *name, double value)
{
    if (l->n == NAMES)
        return;
    snprintf(l->name[l->n], sizeof l->name[0], "%s", name);
    l->value[l->n++] = value;
}

static void add_law(struct listed *l, const char *name,
                    const struct firn_sync_law *law)
{
    char text[32];
    snprintf(text, sizeof text, "%s_alpha_s", name);
    add(l, text, law->alpha_s);
    snprintf(text, sizeof text, "%s_beta_s", name);
    add(l, text, law->beta_s);
    snprintf(text, sizeof text, "%s_crowd_s", name);
    add(l, text, law->crowd_s);
}

static void list_steps(const struct firn_itertime *m, struct listed *l)
{
    add(l, "alpha_s", m->alpha_s);
    add(l, "beta_s", m->beta_s);
    add(l, "curve_s", m->curve_s);
    add(l, "floor_s", m->floor_s);
    add(l, "crowd", m->crowd);
    add(l, "phi", m->phi);
    add(l, "phi_fixed", m->phi_fixed);
    add(l, "gamma", m->gamma);
    add_law(l, "local", &m->local);
    add_law(l, "pair", &m->pair);
    add_law(l, "far", &m->far);
    add(l, "flop_alpha_s", m->flop_alpha_s);
    add(l, "flop_beta", m->flop_beta);
    add(l, "flop_gamma", m->flop_gamma);
    add(l, "sync_alpha_s", m->sync_alpha_s);
    add(l, "sync_beta", m->sync_beta);
}

static void list_numbered(struct listed *l, const char *name, const double *at,
                          size_t n)
{
    char text[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%s%zu", name, i);
        add(l, text, at[i]);
    }
}

static void list_model(const struct evaluate_models *m,
                       enum evaluate_quantity q, struct listed *l)
{
    l->n = 0;
    switch (q) {
    case EVALUATE_ITERATION:
        list_steps(&m->step, l);
        break;
    case EVALUATE_BACKWARD:
        list_numbered(l, "c", m->backward.coef, FIRN_BACKWARD_TERMS);
        list_numbered(l, "level_by", m->backward.level_by, m->backward.nlevels);
        list_numbered(l, "batch_by", m->backward.batch_by,
                      m->backward.nbatches);
        break;
    case EVALUATE_MEMORY:
        list_numbered(l, "c", m->memory.coef,
                      m->memory.form == FIRN_USAGE_PRODUCT ? 6 : 4);
        break;
    case EVALUATE_UTILISATION:
        list_numbered(l, "c", m->util.coef,
                      m->util.form == FIRN_USAGE_PRODUCT ? 6 : 4);
        break;
    case EVALUATE_COMPUTE:
    case EVALUATE_QUANTITIES:
        break;
    }
}

void profile_page_errors(const struct profile_results *r, struct firn_buf *out)
{
    struct table t;
    table_init(&t, "llrrrrr");
    table_cell(&t, "application");
    table_cell(&t, "quantity");
    table_cell(&t, "rows");
    table_cell(&t, "mean %");
    table_cell(&t, "median %");
    table_cell(&t, "max %");
    table_cell(&t, "R2");
    for (size_t i = 0; i <= r->n; i++)
        for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
            const struct evaluate_error *e =
                i < r->n ? &r->at[i].error[q] : &r->error[q];
            if (e->n == 0 || (i == r->n && r->n < 2))
                continue;
            table_cell(&t, i < r->n ? r->at[i].app : "all");
            table_cell(&t, evaluate_quantity_name((enum evaluate_quantity)q));
            table_cellf(&t, "%zu", e->n);
            table_cellf(&t, "%.2f", 100 * e->mean);
            table_cellf(&t, "%.2f", 100 * e->median);
            table_cellf(&t, "%.2f", 100 * e->max);
            table_cellf(&t, "%.4f", e->r2);
        }
    table_print(&t, out);
    table_release(&t);
}

static void json_error(const struct evaluate_error *e, struct firn_buf *out)
{
    buf_printf(out, "{\"rows\":%zu,\"mean_ape_pct\":", e->n);
    buf_json_double(out, 100 * e->mean);
    buf_puts(out, ",\"median_ape_pct\":");
    buf_json_double(out, 100 * e->median);
    buf_puts(out, ",\"max_ape_pct\":");
    buf_json_double(out, 100 * e->max);
    buf_puts(out, ",\"r2\":");
    buf_json_double(out, e->r2);
    buf_putc(out, '}');
}

/* Appends "quantities":{"iteration":{...},...} for those with rows. */
static void json_errors(const struct evaluate_error *e, struct firn_buf *out)
{
    bool is_first = true;
    buf_puts(out, "\"quantities\":{");
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        if (e[q].n == 0)
            continue;
        if (!is_first)
            buf_putc(out, ',');
        is_first = false;
        buf_json_string(out, evaluate_quantity_name((enum evaluate_quantity)q));
        buf_putc(out, ':');
        json_error(&e[q], out);
    }
    buf_putc(out, '}');
}

static void json_begin(const struct profile_results *r, struct firn_buf *out)
{
    buf_puts(out, "{\"fit\":");
    buf_json_string(out, r->fit);
    buf_puts(out, ",\"test\":");
    buf_json_string(out, r->test);
    buf_puts(out, ",\"applications\":[");
}

static void json_app(const struct profile_result *a, struct firn_buf *out)
{
    buf_puts(out, "{\"app\":");
    buf_json_string(out, a->app);
    buf_printf(out, ",\"rows_fitted\":%zu,\"rows_tested\":%zu,", a->nfitted,
               a->ntested);
    json_errors(a->error, out);
}

void profile_page_errors_json(const struct profile_results *r,
                              struct firn_buf *out)
{
    json_begin(r, out);
    for (size_t i = 0; i < r->n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        json_app(&r->at[i], out);
        buf_putc(out, '}');
    }
    buf_puts(out, "],\"all\":{");
    json_errors(r->error, out);
    buf_puts(out, "}}\n");
}

static void print_model(const struct profile_result *a,
                        enum evaluate_quantity q, struct firn_buf *out)
{
    struct listed l;
    const struct evaluate_error *e = &a->error[q];
    list_model(&a->models, q, &l);
    if (!a->models.has[q] || l.n == 0)
        return;
    buf_printf(out,
               "%s, %s: %zu rows, mean error %.2f %%, max %.2f %%, R2 %.4f\n",
               a->app, evaluate_quantity_name(q), e->n, 100 * e->mean,
               100 * e->max, e->r2);
    for (int i = 0; i < l.n; i++)
        if (fabs(l.value[i]) > 0)
            buf_printf(out, "    %-16s %.6g\n", l.name[i], l.value[i]);
}

void profile_page_models(const struct profile_results *r, struct firn_buf *out)
{
    for (size_t i = 0; i < r->n; i++)
        for (int q = 0; q < EVALUATE_QUANTITIES; q++)
            print_model(&r->at[i], (enum evaluate_quantity)q, out);
}

static void json_models(const struct evaluate_models *m, struct firn_buf *out)
{
    bool is_first = true;
    buf_puts(out, ",\"models\":{");
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        struct listed l;
        list_model(m, (enum evaluate_quantity)q, &l);
        if (!m->has[q] || l.n == 0)
            continue;
        buf_puts(out, is_first ? "" : ",");
        is_first = false;
        buf_json_string(out, evaluate_quantity_name((enum evaluate_quantity)q));
        buf_puts(out, ":{");
        for (int i = 0; i < l.n; i++) {
            buf_puts(out, i > 0 ? "," : "");
            buf_json_string(out, l.name[i]);
            buf_putc(out, ':');
            buf_json_double(out, l.value[i]);
        }
        buf_putc(out, '}');
    }
    buf_putc(out, '}');
}

void profile_page_models_json(const struct profile_results *r,
                              struct firn_buf *out)
{
    json_begin(r, out);
    for (size_t i = 0; i < r->n; i++) {
        buf_puts(out, i > 0 ? "," : "");
        json_app(&r->at[i], out);
        json_models(&r->at[i].models, out);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}
