/* titanwork.c - TitanSched's training curves, and what a row's target costs.
 *
 * The artifact takes the first epoch whose metric is at least the target, and
 * 10 when there is none. Targets were written as the best of their own curve,
 * so equality decides, and the artifact reads the workload with a parser whose
 * last bit may be wrong: a target read one bit too high is never met
 * (last-bit, is_high()). The published curves have six digits: a metric that
 * agrees with the target in these is taken to be the target.
 *
 * Cost: O(rows) to read; O(points of the curve) a job.
 */
#include "compat/titanwork.h"
#include "base/buf.h"
#include "base/lines.h"
#include "compat/titansheet.h"
#include "trace/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EPOCHS_MAX = 10 };

static enum firn_status read_sizes(struct titanwork *work, const char *folder,
                                   struct firn_error *err)
{
    static const char name[] = "dataset_sizes.csv";
    struct sheet sheet = {0};
    double samples;
    FIRN_TRY(titansheet_read(&sheet, folder, name, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!titansheet_take(&sheet, i, "num_samples_as_used", 1, &samples))
            return titansheet_bad(&sheet, name, i, err);
        int set =
            map_add(&work->sets,
                    sheet_text(&sheet, i, sheet_column(&sheet, "dataset")));
        vec_reserve(&work->samples, (size_t)set + 1);
        work->samples.at[set] = samples;
    }
    sheet_release(&sheet);
    return FIRN_OK;
}

/* The metric of a data set's targets. */
static const char *metric_of(const char *set)
{
    if (strcmp(set, "mrpc") == 0 || strcmp(set, "qqp") == 0)
        return "eval_f1";
    return strcmp(set, "stsb") == 0 ? "eval_pearson" : "eval_accuracy";
}

static int curve_of(struct titanwork *work, const struct sheet *sheet,
                    size_t row)
{
    enum { MODEL, SET, RATE, STEPS, METRIC, NNAMES };
    static const char *const names[NNAMES] = {"model", "dataset", "lr",
                                              "grad_accum_steps", "metric"};
    const char *text[NNAMES];
    struct firn_buf key = {0};
    for (int i = 0; i < NNAMES; i++)
        text[i] = sheet_text(sheet, row, sheet_column(sheet, names[i]));
    if (strcmp(text[METRIC], metric_of(text[SET])) != 0 ||
        map_find(&work->sets, text[SET]) < 0)
        return -1;
    buf_printf(&key, "%s@%s", text[MODEL], text[SET]);
    map_add(&work->apps, key.at);
    buf_printf(&key, ",%s,%s", text[RATE], text[STEPS]);
    size_t known = work->curves.n;
    int curve = map_add(&work->curves, key.at);
    if (work->curves.n > known)
        vec_add(&work->heads, -1);
    buf_release(&key);
    return curve;
}

static enum firn_status read_curves(struct titanwork *work, const char *folder,
                                    struct firn_error *err)
{
    static const char name[] = "hpo_curves.csv";
    struct sheet sheet = {0};
    static const char *const needed[] = {"model", "dataset", "lr",
                                         "grad_accum_steps", "metric"};
    FIRN_TRY(titansheet_read(&sheet, folder, name, err));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (sheet_column(&sheet, needed[i]) < 0)
            return titansheet_bad(&sheet, name, 0, err);
    for (size_t i = 0; i < sheet.nrows; i++) {
        struct titanwork_point point;
        int curve = curve_of(work, &sheet, i);
        if (curve < 0)
            continue;
        if (!titansheet_take(&sheet, i, "epoch", 0, &point.epoch) ||
            !titansheet_take(&sheet, i, "value", -1e12, &point.metric))
            return titansheet_bad(&sheet, name, i, err);
        point.next = work->heads.at[curve];
        work->heads.at[curve] = (int)work->points.n;
        vec_add(&work->points, point);
    }
    sheet_release(&sheet);
    return FIRN_OK;
}

/* last-bit: the artifact's parser sums digits in a double and divides once by
 * a power of ten. Is what it reads above what is written? */
static bool is_high(const char *text, double exact)
{
    double sum = 0, scale = 1;
    int digits = 0;
    bool has_point = false;
    for (const char *at = text; *at != '\0' && digits < 17; at++) {
        if (*at == '.') {
            has_point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return false;
        sum = 10 * sum + (*at - '0');
        scale *= has_point ? 10 : 1;
        digits++;
    }
    return sum / scale > exact;
}

/* Names the applications of the same model, or all when there are none. */
static enum firn_status no_app(const struct titanwork *work, const char *app,
                               struct firn_error *err)
{
    struct firn_buf known = {0};
    size_t same = strcspn(app, "@") + 1;
    for (int all = 0; all < 2 && known.n == 0; all++)
        for (size_t i = 0; i < work->apps.n; i++) {
            const char *name = map_name(&work->apps, (int)i);
            if (all || strncmp(name, app, same) == 0)
                buf_printf(&known, "%s%s", known.n > 0 ? ", " : "", name);
        }
    firn_fail(err, FIRN_EINVAL,
              "TitanSched has no application '%.40s'; known: %s", app,
              known.n > 0 ? known.at : "none");
    buf_release(&known);
    return FIRN_EINVAL;
}

/* Reads the goal of the present row. Rows that cannot be read are left to the
 * trace's reader, which reports them. */
static enum firn_status read_goal(struct titanwork *work, const struct row *row,
                                  struct titanwork_goal *out,
                                  struct firn_error *err)
{
    enum { APP, RATE, STEPS, METRIC };
    struct firn_buf key = {0};
    const char *app = row_text(row, APP);
    if (map_find(&work->apps, app) < 0)
        return no_app(work, app, err);
    buf_printf(&key, "%s,%s,%s", app, row_text(row, RATE),
               row_text(row, STEPS));
    out->set = map_find(&work->sets, strchr(app, '@') + 1);
    out->curve = map_find(&work->curves, key.at);
    buf_release(&key);
    if (out->curve < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "TitanSched never trained %.40s with 'target_lr' "
                         "%.20s and 'target_gradient_steps' %.20s",
                         app, row_text(row, RATE), row_text(row, STEPS));
    if (!row_number(row, METRIC, -1e9, 1e9, &out->metric, err))
        return err->status;
    out->is_high = is_high(row_text(row, METRIC), out->metric);
    return FIRN_OK;
}

static enum firn_status read_goals(struct titanwork *work, struct lines *in,
                                   struct firn_error *err)
{
    static const char *const columns[] = {"application", "target_lr",
                                          "target_gradient_steps",
                                          "target_metric", NULL};
    struct row row = {0};
    enum firn_row got;
    FIRN_TRY(row_open(&row, in, columns, 4, err));
    while ((got = row_next(&row, in, NULL)) != FIRN_ROW_END) {
        struct titanwork_goal goal = {.set = -1, .curve = -1};
        if (got == FIRN_ROW_JOB &&
            read_goal(work, &row, &goal, err) != FIRN_OK) {
            char line[32];
            snprintf(line, sizeof line, "line %ld", lines_number(in));
            return firn_fail_in(err, line);
        }
        vec_reserve(&work->goals, (size_t)lines_number(in) + 1);
        work->goals.at[lines_number(in)] = goal;
        work->goals.n = (size_t)lines_number(in) + 1;
    }
    return FIRN_OK;
}

enum firn_status titanwork_read(struct titanwork *work, const char *folder,
                                const char *trace, struct firn_error *err)
{
    struct lines *in;
    FIRN_TRY(read_sizes(work, folder, err));
    FIRN_TRY(read_curves(work, folder, err));
    FIRN_TRY(lines_open(&in, trace, err));
    enum firn_status status = read_goals(work, in, err);
    lines_close(in);
    return status == FIRN_OK ? FIRN_OK : firn_fail_in(err, trace);
}

double titanwork_samples(const struct titanwork *work, long line)
{
    if (line < 0 || (size_t)line >= work->goals.n ||
        work->goals.at[line].curve < 0)
        return 0;
    const struct titanwork_goal *goal = &work->goals.at[line];
    const double same = 5.5e-7; /* the tables have six digits */
    double epochs = INFINITY;   /* the first one that meets the goal */
    for (int i = work->heads.at[goal->curve]; i >= 0;
         i = work->points.at[i].next) {
        double over = work->points.at[i].metric - goal->metric;
        if (over > same || (over >= -same && !goal->is_high))
            epochs = fmin(epochs, work->points.at[i].epoch);
    }
    return work->samples.at[goal->set] * (isinf(epochs) ? EPOCHS_MAX : epochs);
}

void titanwork_release(struct titanwork *work)
{
    map_release(&work->sets);
    map_release(&work->apps);
    map_release(&work->curves);
    vec_release(&work->samples);
    vec_release(&work->points);
    vec_release(&work->heads);
    vec_release(&work->goals);
}
