/* profile_table.c - reads a measured table into rows by application.
 *
 * Comma-separated text without quotes. A row with an invalid number is reported
 * by its line and skipped; a file without a required column is an error.
 */
#include "cli/profile_table.h"
#include "base/lines.h"
#include "base/str.h"
#include "base/vec.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 64 };

struct reader {
    struct lines *lines;
    char *head; /* the header line, cut at its commas */
    char *names[COLUMNS], *cells[COLUMNS];
    int nnames, ncells;
};

static int split(char *line, char **out)
{
    int n = 0;
    while (line != NULL && n < COLUMNS) {
        char *end = strchr(line, ',');
        if (end != NULL)
            *end++ = '\0';
        out[n++] = str_trim(line);
        line = end;
    }
    return n;
}

static void reader_close(struct reader *r)
{
    lines_close(r->lines);
    mem_free(r->head);
}

static enum firn_status reader_open(struct reader *r, const char *path,
                                    struct firn_error *err)
{
    *r = (struct reader){0};
    FIRN_TRY(lines_open(&r->lines, path, err));
    const char *line = lines_next(r->lines);
    if (line == NULL || lines_bad(r->lines)) {
        reader_close(r);
        return firn_fail(err, FIRN_EDATA, "%s: the file has no header", path);
    }
    r->head = mem_strdup(line);
    r->nnames = split(r->head, r->names);
    return FIRN_OK;
}

/* Reads the next non-empty line; false at the end. */
static bool reader_next(struct reader *r)
{
    for (;;) {
        char *line = lines_next(r->lines);
        if (line == NULL)
            return false;
        if (*str_trim(line) == '\0' && !lines_bad(r->lines))
            continue;
        r->ncells = split(line, r->cells);
        return true;
    }
}

static bool has(const struct reader *r, const char *column)
{
    for (int i = 0; i < r->nnames; i++)
        if (strcmp(r->names[i], column) == 0)
            return true;
    return false;
}

static const char *text(const struct reader *r, const char *column)
{
    for (int i = 0; i < r->nnames && i < r->ncells; i++)
        if (strcmp(r->names[i], column) == 0)
            return r->cells[i];
    return "";
}

/* Error message about the current line, or empty. */
struct fault {
    bool is_bad;
    char text[160];
};

/* A cell as a number times `scale`; NaN if empty, which is an error if the cell
 * is `needed`. */
static double number(const struct reader *r, const char *column, double scale,
                     bool needed, struct fault *fault)
{
    const char *cell = text(r, column);
    double x;
    if (str_double(cell, &x))
        return x * scale;
    if ((needed || *cell != '\0') && !fault->is_bad) {
        fault->is_bad = true;
        snprintf(fault->text, sizeof fault->text, "%s is '%.40s', not a number",
                 column, cell);
    }
    return (double)NAN;
}

static enum firn_status need(const struct reader *r, const char *path,
                             const char *const *columns, struct firn_error *err)
{
    for (; *columns != NULL; columns++)
        if (!has(r, *columns))
            return firn_fail(err, FIRN_EDATA, "%s: no column '%s'", path,
                             *columns);
    return FIRN_OK;
}

/* --- layer tables --- */

/* The last component of a path. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Name of the directory of a file; "" if the path has none. */
static void folder_of(const char *path, char *out, size_t size)
{
    size_t n = (size_t)(base_of(path) - path);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", n > 0 ? (int)n - 1 : 0, path);
    str_copy(out, size, base_of(folder));
}

/* Looks for layer_info.csv in the directory of the table and its parent. */
static bool find_layers(const char *table_path, char *out, size_t size)
{
    static const char *const places[] = {"", "../"};
    int n = (int)(base_of(table_path) - table_path);
    for (int i = 0; i < 2; i++) {
        snprintf(out, size, "%.*s%slayer_info.csv", n, table_path, places[i]);
        FILE *file = fopen(out, "rb");
        if (file != NULL) {
            fclose(file);
            return true;
        }
    }
    return false;
}

static void take_layers(struct reader *r, const char *app,
                        struct profile_layers *out)
{
    double acts[TABLE_LAYERS];
    bool is_flops = true;
    char first[64] = "";
    while (reader_next(r)) {
        struct fault fault = {0};
        double k = number(r, "frozen_layers", 1, true, &fault);
        double omega = number(r, "param_frac_left", 1, true, &fault);
        double theta = number(r, "flop_frac_left", 1, true, &fault);
        double act = number(r, "activation_frac_left", 1, true, &fault);
        if (*first == '\0')
            str_copy(first, sizeof first, text(r, "app"));
        const char *wanted = *app != '\0' ? app : first;
        if (fault.is_bad || strcmp(text(r, "app"), wanted) != 0 ||
            !(k >= 0 && k < TABLE_LAYERS))
            continue;
        for (; out->n <= (int)k; out->n++)
            out->theta[out->n] = out->omega[out->n] = acts[out->n] =
                (double)NAN;
        out->theta[(int)k] = theta;
        out->omega[(int)k] = omega;
        acts[(int)k] = act;
        is_flops = is_flops && theta >= 0 && theta <= 1;
    }
    if (!is_flops)
        memcpy(out->theta, acts, (size_t)out->n * sizeof *acts);
    out->is_known = out->n > 0;
}

enum firn_status profile_layers_read(struct profile_layers *out,
                                     const char *spec, const char *table_path,
                                     struct firn_error *err)
{
    static const char *const columns[] = {"app",
                                          "frozen_layers",
                                          "param_frac_left",
                                          "flop_frac_left",
                                          "activation_frac_left",
                                          NULL};
    char path[PATH_MAX], app[64];
    struct reader r;
    memset(out, 0, sizeof *out);
    folder_of(table_path, app, sizeof app);
    if (spec == NULL && !find_layers(table_path, path, sizeof path))
        return FIRN_OK;
    if (spec != NULL) {
        const char *mark = strrchr(spec, '#');
        int n = mark != NULL ? (int)(mark - spec) : (int)strlen(spec);
        snprintf(path, sizeof path, "%.*s", n, spec);
        str_copy(app, sizeof app, mark != NULL ? mark + 1 : "");
    }
    FIRN_TRY(reader_open(&r, path, err));
    enum firn_status status = need(&r, path, columns, err);
    if (status == FIRN_OK)
        take_layers(&r, app, out);
    reader_close(&r);
    if (status == FIRN_OK && spec != NULL && !out->is_known)
        return firn_fail(err, FIRN_EDATA, "%s: no layers of application '%s'",
                         path, app);
    return status;
}

/* --- rows --- */

static void take_h200(const struct reader *r, struct evaluate_row *row,
                      struct fault *fault)
{
    row->shape = (struct firn_shape){.nodes = 1, .gpus = 1, .accum_steps = 1};
    row->shape.batch_per_gpu = number(r, "batch", 1, true, fault);
    row->shape.theta = number(r, "flops_unfrozen_ratio", 1, true, fault);
    row->shape.omega = number(r, "params_unfrozen_ratio", 1, true, fault);
    row->nlayers = number(r, "layers", 1, true, fault);
    row->nfrozen = number(r, "frozen", 1, true, fault);
    row->iter_s = number(r, "iter_ms", 1e-3, true, fault);
    row->bwd_s = number(r, "bwd_ms", 1e-3, false, fault);
    row->mem_mib = number(r, "peak_alloc_mib", 1, false, fault);
    row->util_pct = number(r, "gpu_util_pct", 1, false, fault);
    row->sync_s = (double)NAN;
}

static bool take_placement(const char *digits, struct firn_shape *s)
{
    for (; *digits >= '1' && *digits <= '9'; digits++) {
        int k = *digits - '0';
        s->nodes++;
        s->gpus += k;
        if (k > s->gpus_on_fullest)
            s->gpus_on_fullest = k;
    }
    return *digits == '\0' && s->nodes > 0;
}

static void take_frozen(const struct reader *r, struct profile_table *t,
                        const struct profile_layers *layers,
                        struct evaluate_row *row, struct fault *fault)
{
    double k = number(r, "frozen_layer", 1, true, fault);
    if (fault->is_bad)
        return;
    if (!(k >= 0 && k < (layers->is_known ? layers->n : TABLE_LAYERS))) {
        fault->is_bad = true;
        snprintf(fault->text, sizeof fault->text,
                 "frozen_layer is %g, of which the layer table says nothing",
                 k);
        return;
    }
    row->nfrozen = k;
    if (layers->is_known) {
        row->shape.theta = layers->theta[(int)k];
        row->shape.omega = layers->omega[(int)k];
        return;
    }
    t->counts_layers = t->counts_layers || k > 0;
    t->most_frozen = (int)k > t->most_frozen ? (int)k : t->most_frozen;
}

static void take_icefrog(const struct reader *r, struct profile_table *t,
                         const struct profile_layers *layers,
                         struct evaluate_row *row, struct fault *fault)
{
    row->shape = (struct firn_shape){.accum_steps = 1, .theta = 1, .omega = 1};
    if (!take_placement(text(r, "placement"), &row->shape)) {
        fault->is_bad = true;
        snprintf(fault->text, sizeof fault->text,
                 "placement is '%.40s', not a digit for each node",
                 text(r, "placement"));
    }
    row->shape.batch_per_gpu = number(r, "local_bsz", 1, true, fault);
    row->iter_s = number(r, "step_time", 1, true, fault);
    row->sync_s = number(r, "sync_time", 1, false, fault);
    row->bwd_s = row->mem_mib = row->util_pct = (double)NAN;
    row->nlayers = row->nfrozen = (double)NAN;
    if (has(r, "frozen_layer"))
        take_frozen(r, t, layers, row, fault);
}

static int app_index(struct profile_table *t, const char *name)
{
    for (size_t i = 0; i < t->apps.n; i++)
        if (strcmp(t->apps.at[i], name) == 0)
            return (int)i;
    words_add(&t->apps, name, strlen(name));
    return (int)t->apps.n - 1;
}

static void take_row(struct reader *r, struct profile_table *t, bool is_h200,
                     const struct profile_layers *layers)
{
    struct table_row row = {.line = lines_number(r->lines)};
    struct fault fault = {0};
    if (is_h200)
        take_h200(r, &row.row, &fault);
    else
        take_icefrog(r, t, layers, &row.row, &fault);
    const char *why = fault.is_bad          ? fault.text
                      : lines_bad(r->lines) ? "the line is no text"
                                            : evaluate_row_fault(&row.row);
    if (why != NULL) {
        if (t->nbad < TABLE_BAD_SHOWN)
            snprintf(t->bad[t->nbad], sizeof t->bad[0], "%.100s: line %ld: %s",
                     t->path, row.line, why);
        t->nbad++;
        return;
    }
    row.app = app_index(t, text(r, is_h200 ? "model" : "app"));
    if (t->nrows == t->cap) {
        size_t cap = t->cap > 0 ? 2 * t->cap : 64;
        t->rows = mem_grow(t->rows, t->cap, cap, sizeof *t->rows);
        t->cap = cap;
    }
    t->rows[t->nrows++] = row;
}

enum firn_status profile_table_read(struct profile_table *out, const char *path,
                                    const struct profile_layers *layers,
                                    struct firn_error *err)
{
    static const char *const h200[] = {"model",
                                       "batch",
                                       "layers",
                                       "frozen",
                                       "flops_unfrozen_ratio",
                                       "params_unfrozen_ratio",
                                       "iter_ms",
                                       NULL};
    static const char *const icefrog[] = {"placement", "local_bsz", "step_time",
                                          NULL};
    struct reader r;
    *out = (struct profile_table){.path = path};
    FIRN_TRY(reader_open(&r, path, err));
    bool is_h200 = has(&r, "iter_ms"), is_icefrog = has(&r, "placement");
    enum firn_status status =
        is_h200      ? need(&r, path, h200, err)
        : is_icefrog ? need(&r, path, icefrog, err)
                     : firn_fail(err, FIRN_EDATA,
                                 "%s: neither 'iter_ms' nor 'placement' is a "
                                 "column: no table of a format that is known",
                                 path);
    while (status == FIRN_OK && reader_next(&r))
        take_row(&r, out, is_h200, layers);
    if (status == FIRN_OK && lines_failed(r.lines))
        status = firn_fail(err, FIRN_EIO, "cannot read %s to its end", path);
    reader_close(&r);
    return status;
}

void profile_table_release(struct profile_table *table)
{
    words_release(&table->apps);
    mem_free(table->rows);
    table->rows = NULL;
}

void profile_table_count_layers(struct profile_table *table, int most_frozen)
{
    for (size_t i = 0; i < table->nrows; i++) {
        struct evaluate_row *row = &table->rows[i].row;
        if (!isnan(row->nlayers) || isnan(row->nfrozen))
            continue;
        row->shape.theta = 1 - row->nfrozen / (1.0 + most_frozen);
        row->shape.omega = row->shape.theta;
    }
}

struct evaluate_row *profile_table_of(const struct profile_table *table,
                                      const char *app, size_t *n)
{
    struct evaluate_row *rows = mem_new(table->nrows, sizeof *rows);
    *n = 0;
    for (size_t i = 0; i < table->nrows; i++)
        if (strcmp(table->apps.at[table->rows[i].app], app) == 0)
            rows[(*n)++] = table->rows[i].row;
    return rows;
}
