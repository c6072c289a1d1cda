/* frozentable.c - measured tables of frozen layers, held out share by share.
 *
 * The models are fitted to one application at a time, as `firn profile eval`
 * does; with a frozen share all rows of it are held out, whatever their batch,
 * so that no row of the same share tells what it costs.
 */
#include "lib/frozentable.h"
#include "lib/csv.h"
#include "math/stats.h"
#include <firn/itertime.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

bool table_load(struct table *t, const char *path)
{
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL)
        return false;
    double base_s = 0;
    t->n = 0;
    while (t->n < TABLE_ROWS && csv_next(csv)) {
        struct firn_backward_obs *o = &t->obs[t->n];
        *o =
            (struct firn_backward_obs){csv_number(csv, "batch"),
                                       csv_number(csv, "layers"),
                                       csv_number(csv, "frozen"),
                                       csv_number(csv, "flops_unfrozen_ratio"),
                                       csv_number(csv, "params_unfrozen_ratio"),
                                       0,
                                       csv_number(csv, "bwd_ms") / 1e3};
        if (!(o->nfrozen > 0)) /* the first row of its batch */
            base_s = o->bwd_s;
        o->base_s = base_s;
        t->visit[t->n] = csv_number(csv, "visit");
        t->iter_s[t->n] = csv_number(csv, "iter_ms") / 1e3;
        snprintf(t->app[t->n++], TABLE_NAME, "%s", csv_text(csv, "model"));
    }
    csv_close(csv);
    return true;
}

/* The step model, fitted to whole iterations as a scheduler sees them. */
static struct firn_step_obs step_of(const struct table *t, size_t i)
{
    const struct firn_backward_obs *o = &t->obs[i];
    return (struct firn_step_obs){
        {1, 1, 1, o->batch, 1, o->theta, o->omega}, t->iter_s[i], (double)NAN};
}

/* Fits an application without one frozen share, predicts that share. */
static void hold_out(const struct table *t, const char *app, double share,
                     struct score *out)
{
    static struct firn_backward_obs fit[TABLE_ROWS];
    static struct firn_step_obs steps[TABLE_ROWS];
    struct firn_itertime_fit how = {.form = FIRN_FORM_FULL};
    struct firn_itertime step;
    struct firn_backward m;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->app[i], app) == 0 &&
            fabs(t->obs[i].nfrozen / t->obs[i].nlayers - share) > 1e-9) {
            steps[n] = step_of(t, i);
            fit[n++] = t->obs[i];
        }
    firn_itertime_default(&step);
    if (!out->is_bare)
        assert_int_equal(firn_itertime_refit(&step, steps, n, &how, NULL),
                         FIRN_OK);
    assert_int_equal(firn_backward_fit(&m, fit, n, NULL), FIRN_OK);
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->app[i], app) != 0 ||
            fabs(t->obs[i].nfrozen / t->obs[i].nlayers - share) > 1e-9)
            continue;
        out->row[out->n] = i;
        out->predicted[out->n] = firn_backward_at(&m, &t->obs[i]).bwd_s;
        struct firn_shape shape = step_of(t, i).shape;
        out->steps[out->n] = firn_itertime_backward(&step, &shape);
        out->measured[out->n++] = t->obs[i].bwd_s;
    }
}

/* Whether row i is the first of its application with this frozen share, and
 * neither the smallest nor the largest share. */
static bool starts_share(const struct table *t, size_t i)
{
    bool first = true, larger = false;
    for (size_t j = 0; j < t->n; j++) {
        if (strcmp(t->app[j], t->app[i]) != 0)
            continue;
        if (j < i && fabs(t->obs[j].nfrozen - t->obs[i].nfrozen) < 1e-9)
            first = false;
        larger = larger || t->obs[j].nfrozen > t->obs[i].nfrozen;
    }
    return first && larger && t->obs[i].nfrozen > 0;
}

void table_hold_out(const struct table *t, struct score *all)
{
    all->n = 0;
    for (size_t i = 0, first = 0; i < t->n; i++) {
        if (starts_share(t, i))
            hold_out(t, t->app[i], t->obs[i].nfrozen / t->obs[i].nlayers, all);
        if (i + 1 < t->n && strcmp(t->app[i], t->app[i + 1]) == 0)
            continue;
        if (!all->is_bare)
            print_message("  %-14s %5.1f %%\n", t->app[i],
                          100 * stats_mape(all->predicted + first,
                                           all->measured + first,
                                           all->n - first));
        first = all->n;
    }
}
