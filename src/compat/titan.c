/* titan.c - TitanSched, the simulator behind Titan and Ymir.
 *
 * Fine-tuning jobs on nodes of four V100; srtf, tiresias, optimus and themis
 * as that simulator has them. Written from what it does, not from the papers;
 * it equals all of its published results for these four. The quirks, by name:
 *
 *   rounds        it looks up only every 300 s (themis: 60): running jobs go
 *                 on, those that are done leave, new ones come in, then the
 *                 policy is asked; a freed GPU idles until then     next()
 *   charged-time  a round's progress is exact but its time is rounded to
 *                 whole seconds, half to even; a job's completion is its
 *                 submission plus what it was charged           go_round()
 *   near-enough   a tenth of a sample short of the end is done  go_round()
 *   every-start   each start and resize costs the application's load time
 *                 plus the checkpoint (--restart-cost, 30 s), the first start
 *                 too                                              start()
 *   one-pass-more predictions count an accumulation pass that is not made, so
 *                 they are up to twice the truth; whole seconds   expected_s()
 *   last-bit      targets are read by a parser that may be a bit too high in
 *                 the last place; a target that is its curve's own best is
 *                 then never met and the job trains for 10 epochs  is_high()
 *   tetrahedra    beyond four nodes step times come from a Delaunay mesh of
 *                 a lattice, where the cut of each cell is up to chance;
 *                 `cuts` says which one chance chose                  far_s()
 *   consolidate   who starts is placed by size, largest first; a job is put
 *                 off when it would touch more nodes than it needs
 *                                               start_all(), consolidate()
 *   no-preemption srtf orders the waiting jobs only          decide_srtf()
 *   restart-served tiresias and themis count the restart as service, the
 *                 run time does not                             go_round()
 *   list-order    equal submissions are served in the order in which jobs
 *                 joined the artifact's lists                   keep_lists()
 *   wrong-job     optimus asks the LAST job of its list for the gain, and for
 *                 the limit, of whoever got a GPU         decide_optimus()
 *   twice-running themis shares GPUs among twice the running jobs     rho()
 *   filtered-run  themis keeps the worst 0.8 of those who compete; a running
 *                 job that is cut keeps its GPUs although they were counted
 *                 as free, so a winner may find no room    decide_themis()
 *
 * The published tables have the curves' metrics in six digits: a metric that
 * agrees with a target in these is taken to be it, and is_high() decides.
 * Left out: the artifact's own policy and pollux, failures drawn at random,
 * errors of estimation, A100 nodes.
 *
 * The policies here belong to this engine. They read its tasks through
 * view->forecaster and leave in them what this round has decided; settled()
 * makes that good once the round has been applied.
 *
 * Invariants:
 * (1) deciding twice on one view decides the same;
 * (2) `waiting` and `running` are the artifact's lists, in its order;
 * (3) round_s is the boundary to which all running tasks have come;
 * (4) given = useful + overhead, summed round by round.
 *
 * Cost: O(jobs log jobs) a round; optimus O(GPUs x jobs).
 */
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "core/accept.h"
#include "model/sheet.h"
#include "sim/world.h"
#include "trace/row.h"
#include <firn/policy.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODE_GPUS = 4,
    NODES_MAX = 16,
    GPUS_MAX = 32, /* a job never has more, nor is more predicted */
    EPOCHS_MAX = 10,
    NEAR_NODES = 4, /* every placement up to here was measured */
    FAR_FIRST = NEAR_NODES * NODE_GPUS + 1,
    GRID = 10000, /* place of a row known by nodes and GPUs only */
    ELASTIC = 1,  /* world_policy.quirks: jobs take 1 to GPUS_MAX GPUs */
};

static const char artifact[] = "the imitated part of TitanSched";

/* ---- what was measured ---- */

/* One row: place is the GPUs on each node as digits, or grid_place(). */
struct cell {
    int place, batch;
    double step_s, sync_s;
};

struct model {
    const char *name;
    bool is_read;
    int batch_min, batch_max; /* on one GPU */
    double load_s;
    VEC(struct cell) cells; /* by place, then batch */
};

static const char *const model_names[] = {"roberta-base", "roberta-large",
                                          "vit", "vit-large"};
enum { NMODELS = sizeof model_names / sizeof *model_names };

/* Beyond four nodes a point lies in a prism: three columns (nodes, GPUs), each
 * at two measured batches. A mesh cuts a prism into three tetrahedra by the
 * order in which columns change from the lower batch to the upper one. All
 * six orders are equally Delaunay; these are the mesh's, one digit for each of
 * 17 to 32 GPUs. Batches not listed have order 0 throughout. */
static const struct {
    const char *model;
    int batch;
    const char *orders;
} cuts[] = {
    {"vit", 192, "4043100010001110"},
    {"vit", 384, "1000110033331110"},
    {"vit", 576, "2010111033330000"},
    {"vit-large", 192, "3343000000101110"},
    {"vit-large", 384, "3000110033331110"},
    {"vit-large", 576, "4033111000101110"},
    {"roberta-base", 64, "4320000000000000"},
    {"roberta-base", 128, "2000011040000000"},
    {"roberta-base", 192, "0000100033300000"},
    {"roberta-large", 64, "3333100000000000"},
    {"roberta-large", 128, "4000000020000000"},
    {"roberta-large", 192, "3333100043200000"},
};

static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static int grid_place(int nodes, int gpus)
{
    return GRID + 100 * nodes + gpus;
}

static int by_place(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* The first row of that place with at least that batch, or the place's end. */
static size_t row_of(const struct model *model, int place, int batch)
{
    const struct cell key = {.place = place, .batch = batch};
    size_t low = 0, high = model->cells.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by_place(&model->cells.at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Seconds of a step and of its exchange; NaN when they are not known. */
struct times {
    double step_s, sync_s;
};
static const struct times unknown = {(double)NAN, (double)NAN};

/* The two rows of a place around a batch; false when there are none. */
static bool rows_around(const struct model *model, int place, int batch,
                        const struct cell **low, const struct cell **high)
{
    size_t first = row_of(model, place, 0), end = row_of(model, place + 1, 0);
    size_t at = row_of(model, place, batch);
    if (end - first < 2 || at == end || model->cells.at[first].batch > batch)
        return false;
    if (at == first)
        at++;
    *low = &model->cells.at[at - 1];
    *high = &model->cells.at[at];
    return true;
}

/* Up to four nodes: a line between two batches of the very placement. */
static struct times near_s(const struct model *model, int place, int batch)
{
    const struct cell *a, *b;
    if (!rows_around(model, place, batch, &a, &b))
        return unknown;
    double width = b->batch - a->batch, x = batch - a->batch;
    return (struct times){(b->step_s - a->step_s) / width * x + a->step_s,
                          (b->sync_s - a->sync_s) / width * x + a->sync_s};
}

/* A column of a prism and its share in the point. */
struct column {
    int place;
    double weight;
};

/* Nodes 6 and 8 were measured at multiples of four GPUs. A point on 5 or 7
 * nodes is half the full nodes below it and half the nodes above with the
 * GPUs opposite. */
static void find_prism(int nodes, int gpus, struct column out[3])
{
    bool is_odd = nodes % 2 != 0;
    int top = is_odd ? nodes + 1 : nodes, below = top - 2;
    int across = is_odd ? 2 * gpus - NODE_GPUS * below : gpus;
    int less = NODE_GPUS * top - (across > NODE_GPUS * (top - 1) ? 4 : 8);
    double half = is_odd ? 0.5 : 1, share = half * (across - less) / 4;
    out[0] = (struct column){
        below == NEAR_NODES ? 4444 : grid_place(below, NODE_GPUS * below),
        1 - half};
    out[1] = (struct column){grid_place(top, less), half - share};
    out[2] = (struct column){grid_place(top, less + 4), share};
}

/* How the mesh cuts the prism of so many GPUs at that total batch. */
static const int *cut_of(const struct model *model, int total, int gpus)
{
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        if (cuts[i].batch == total && strcmp(cuts[i].model, model->name) == 0)
            return orders[cuts[i].orders[gpus - FAR_FIRST] - '0'];
    return orders[0];
}

/* Five to eight nodes, 17 to 32 GPUs. */
static struct times far_s(const struct model *model, int total, int gpus,
                          int batch)
{
    struct column columns[3];
    struct times sum = {0, 0};
    double upper = -1; /* what is left to change to the upper batch */
    find_prism((gpus + NODE_GPUS - 1) / NODE_GPUS, gpus, columns);
    const int *order = cut_of(model, total, gpus);
    for (int i = 0; i < 3; i++) {
        const struct column *column = &columns[order[i]];
        const struct cell *a, *b;
        if (!rows_around(model, column->place, batch, &a, &b))
            return unknown;
        if (upper < 0)
            upper = (double)(batch - a->batch) / (b->batch - a->batch);
        double high = fmin(column->weight, upper);
        double low = column->weight - high;
        upper -= high;
        sum.step_s += high * b->step_s + low * a->step_s;
        sum.sync_s += high * b->sync_s + low * a->sync_s;
    }
    return sum;
}

/* ---- how fast a job goes ---- */

struct pace {
    double iter_s, samples; /* of one iteration */
};

/* How a total batch is split: samples on a GPU in a pass, and passes. */
struct split {
    int each, passes;
};

static struct split split_of(const struct model *model, int total, int gpus)
{
    struct split s;
    int local = (int)ceil((double)total / gpus - 1e-8);
    s.passes = (int)ceil((double)local / model->batch_max - 1e-8);
    if (gpus == 1 && total > model->batch_max && s.passes < 2)
        s.passes = 2;
    s.each = (int)ceil((double)local / s.passes - 1e-8);
    if (s.each > total / (gpus * s.passes))
        s.each = total / (gpus * s.passes);
    if (s.each < model->batch_min)
        s.each = model->batch_min;
    return s;
}

/* `place` is for up to four nodes; `more` passes are counted in the time. */
static struct pace pace_of(const struct model *model, int total, int gpus,
                           int place, int more)
{
    struct split s = split_of(model, total, gpus);
    struct times t = gpus < FAR_FIRST ? near_s(model, place, s.each)
                                      : far_s(model, total, gpus, s.each);
    return (struct pace){t.step_s +
                             (t.step_s - t.sync_s) * (s.passes - 1 + more),
                         (double)gpus * s.each * s.passes};
}

/* As few nodes as can be: 4, 4, ..., rest, the smallest rotation. */
static int packed_place(int gpus)
{
    int rest = gpus % NODE_GPUS, place = rest;
    for (int i = 0; i < gpus / NODE_GPUS; i++)
        place = 10 * place + NODE_GPUS;
    return place;
}

/* The digits of an allocation on up to four nodes: of all rotations of its
 * nodes the smallest. */
static int place_of(const struct firn_alloc *alloc)
{
    int best = -1, n = alloc->nparts;
    for (int first = 0; first < n; first++) {
        int place = 0;
        for (int i = 0; i < n; i++)
            place = 10 * place +
                    __builtin_popcountll(alloc->parts[(first + i) % n].gpus);
        if (best < 0 || place < best)
            best = place;
    }
    return best;
}

/* Jobs of one model and total batch. */
struct kind {
    int model, total;
    struct pace packed[GPUS_MAX + 1];  /* the truth on n packed GPUs */
    struct pace expects[GPUS_MAX + 1]; /* one-pass-more */
};

/* ---- the world ---- */

/* What a row asks for beyond firn_job_spec. */
struct goal {
    int curve; /* -1: no such row */
    double metric;
    bool is_high; /* as the artifact reads it: last-bit */
};

struct point {
    double epoch, metric;
    int next; /* of the same curve; -1: the last */
};

/* A job as the artifact keeps it. */
struct task {
    const struct firn_job *job;              /* while deciding */
    int kind, gpus;                          /* asked for */
    double submit_s, duration_s, work, done; /* samples */
    int held;                                /* GPUs */
    struct pace pace;
    double restart_s; /* still to be burnt */
    double since_s;   /* waits since then */
    double stay_s, run_s, served_gpu_s, deserved_gpu_s;
    double leased_s;
    int queue, fell; /* the queue, and the when-th it fell */

    /* What this round decided; settled() keeps it. */
    double deserves_gpu_s;
    bool renews, has_changed;
};

struct titan {
    struct world world; /* first */
    struct model models[NMODELS];
    VEC(struct kind) kinds;
    struct map sets, apps, curves; /* "food101", "vit@food101", and with
                                    * ",4e-4,1" behind it */
    VEC(double) samples;           /* by set */
    VEC(struct point) points;
    VEC(int) heads;         /* by curve: its last point */
    VEC(struct goal) goals; /* by line of the workload */

    struct firn_job_spec spec; /* the next arrival */
    bool has_spec, is_over;
    VEC(struct task) tasks; /* by id */
    VEC(int) waiting, running;
    VEC(struct firn_event) events;
    size_t next_event;
    double round_s;
    int falls;
    VEC(int) line; /* this round's order; empty: nothing was decided */
};

/* Takes an id out of a list, in order. */
static void leave(int *ids, size_t *n, int id)
{
    size_t to = 0;
    for (size_t i = 0; i < *n; i++)
        if (ids[i] != id)
            ids[to++] = ids[i];
    *n = to;
}

/* ---- reading ---- */

static enum firn_status read_table(const struct titan *t, const char *name,
                                   struct sheet *out, struct firn_error *err)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/ymir/%s", t->world.options->profiles, name);
    enum firn_status status = sheet_read(out, path.at, err);
    if (status == FIRN_ENOENT)
        firn_fail(err, FIRN_ENOENT,
                  "%.200s: not there; the folder of tables (--profiles) must "
                  "have TitanSched's in 'ymir'",
                  path.at);
    buf_release(&path);
    return status;
}

/* A number above `min` in a table. */
static bool take(const struct sheet *sheet, size_t row, const char *column,
                 double min, double *out)
{
    *out = sheet_number(sheet, row, sheet_column(sheet, column));
    return *out >= min && *out <= 1e12;
}

static enum firn_status bad_row(struct sheet *sheet, const char *name,
                                size_t row, struct firn_error *err)
{
    sheet_release(sheet);
    return firn_fail(err, FIRN_EINVAL,
                     "ymir/%s: row %zu: a number is missing or makes no sense",
                     name, row + 1);
}

static bool read_cell(const struct sheet *sheet, size_t row, struct cell *out)
{
    double place, nodes, gpus, batch;
    if (!take(sheet, row, "local_bsz", 1, &batch) ||
        !take(sheet, row, "step_time", 1e-12, &out->step_s) ||
        !take(sheet, row, "sync_time", 0, &out->sync_s) || batch > 1e6)
        return false;
    out->batch = (int)batch;
    if (sheet_column(sheet, "placement") >= 0) {
        out->place = take(sheet, row, "placement", 1, &place) && place < GRID
                         ? (int)place
                         : 0;
        return out->place > 0;
    }
    if (!take(sheet, row, "num_nodes", 1, &nodes) || nodes > 99 ||
        !take(sheet, row, "num_replicas", 1, &gpus) || gpus > 99)
        return false;
    out->place = grid_place((int)nodes, (int)gpus);
    return true;
}

static enum firn_status read_cells(struct titan *t, struct model *model,
                                   const char *what, struct firn_error *err)
{
    struct sheet sheet = {0};
    struct cell cell;
    char name[64];
    snprintf(name, sizeof name, "profiles/V100/%s_%s.csv", model->name, what);
    FIRN_TRY(read_table(t, name, &sheet, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!read_cell(&sheet, i, &cell))
            return bad_row(&sheet, name, i, err);
        vec_add(&model->cells, cell);
    }
    sheet_release(&sheet);
    return FIRN_OK;
}

static enum firn_status read_model(struct titan *t, struct model *model,
                                   struct firn_error *err)
{
    struct sheet sheet = {0};
    char name[64];
    double load_s;
    FIRN_TRY(read_cells(t, model, "placements", err));
    size_t n = model->cells.n;
    for (size_t i = 0; i < n; i++) {
        int batch = model->cells.at[i].batch;
        if (i == 0 || batch < model->batch_min)
            model->batch_min = batch;
        if (batch > model->batch_max)
            model->batch_max = batch;
    }
    FIRN_TRY(read_cells(t, model, "scalability", err));
    if (model->cells.n > 0)
        qsort(model->cells.at, model->cells.n, sizeof *model->cells.at,
              by_place);
    snprintf(name, sizeof name, "profiles/V100/%s_context_switch.csv",
             model->name);
    FIRN_TRY(read_table(t, name, &sheet, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!take(&sheet, i, "time_cost", 0, &load_s))
            return bad_row(&sheet, name, i, err);
        model->load_s = fmax(model->load_s, load_s);
    }
    sheet_release(&sheet);
    model->is_read = true;
    return FIRN_OK;
}

static enum firn_status read_sizes(struct titan *t, struct firn_error *err)
{
    static const char name[] = "dataset_sizes.csv";
    struct sheet sheet = {0};
    double samples;
    FIRN_TRY(read_table(t, name, &sheet, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!take(&sheet, i, "num_samples_as_used", 1, &samples))
            return bad_row(&sheet, name, i, err);
        int set = map_add(
            &t->sets, sheet_text(&sheet, i, sheet_column(&sheet, "dataset")));
        vec_reserve(&t->samples, (size_t)set + 1);
        t->samples.at[set] = samples;
    }
    sheet_release(&sheet);
    return FIRN_OK;
}

/* What a data set is judged by. */
static const char *metric_of(const char *set)
{
    if (strcmp(set, "mrpc") == 0 || strcmp(set, "qqp") == 0)
        return "eval_f1";
    return strcmp(set, "stsb") == 0 ? "eval_pearson" : "eval_accuracy";
}

static int curve_of(struct titan *t, const struct sheet *sheet, size_t row)
{
    enum { MODEL, SET, RATE, STEPS, METRIC, NNAMES };
    static const char *const names[NNAMES] = {"model", "dataset", "lr",
                                              "grad_accum_steps", "metric"};
    const char *text[NNAMES];
    struct firn_buf key = {0};
    for (int i = 0; i < NNAMES; i++)
        text[i] = sheet_text(sheet, row, sheet_column(sheet, names[i]));
    if (strcmp(text[METRIC], metric_of(text[SET])) != 0 ||
        map_find(&t->sets, text[SET]) < 0)
        return -1;
    buf_printf(&key, "%s@%s", text[MODEL], text[SET]);
    map_add(&t->apps, key.at);
    buf_printf(&key, ",%s,%s", text[RATE], text[STEPS]);
    size_t known = t->curves.n;
    int curve = map_add(&t->curves, key.at);
    if (t->curves.n > known)
        vec_add(&t->heads, -1);
    buf_release(&key);
    return curve;
}

static enum firn_status read_curves(struct titan *t, struct firn_error *err)
{
    static const char name[] = "hpo_curves.csv";
    struct sheet sheet = {0};
    static const char *const needed[] = {"model", "dataset", "lr",
                                         "grad_accum_steps", "metric"};
    FIRN_TRY(read_table(t, name, &sheet, err));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (sheet_column(&sheet, needed[i]) < 0)
            return bad_row(&sheet, name, 0, err);
    for (size_t i = 0; i < sheet.nrows; i++) {
        struct point point;
        int curve = curve_of(t, &sheet, i);
        if (curve < 0)
            continue;
        if (!take(&sheet, i, "epoch", 0, &point.epoch) ||
            !take(&sheet, i, "value", -1e12, &point.metric))
            return bad_row(&sheet, name, i, err);
        point.next = t->heads.at[curve];
        t->heads.at[curve] = (int)t->points.n;
        vec_add(&t->points, point);
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

static enum firn_status no_app(const struct titan *t, const char *app,
                               struct firn_error *err)
{
    struct firn_buf known = {0};
    for (size_t i = 0; i < t->apps.n; i++)
        buf_printf(&known, "%s%s", i > 0 ? ", " : "",
                   map_name(&t->apps, (int)i));
    firn_fail(err, FIRN_EINVAL,
              "TitanSched has no application '%.40s'; known: %s", app,
              known.n > 0 ? known.at : "none");
    buf_release(&known);
    return FIRN_EINVAL;
}

/* The goal of the row just read; rows that cannot be read are the trace's to
 * tell. */
static enum firn_status read_goal(struct titan *t, const struct row *row,
                                  struct goal *out, struct firn_error *err)
{
    enum { APP, RATE, STEPS, METRIC };
    struct firn_buf key = {0};
    const char *app = row_text(row, APP);
    if (map_find(&t->apps, app) < 0)
        return no_app(t, app, err);
    buf_printf(&key, "%s,%s,%s", app, row_text(row, RATE),
               row_text(row, STEPS));
    out->curve = map_find(&t->curves, key.at);
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

static enum firn_status read_goals(struct titan *t, struct lines *in,
                                   struct firn_error *err)
{
    static const char *const columns[] = {"application", "target_lr",
                                          "target_gradient_steps",
                                          "target_metric", NULL};
    struct row row = {0};
    enum firn_row got;
    FIRN_TRY(row_open(&row, in, columns, 4, err));
    while ((got = row_next(&row, in, NULL)) != FIRN_ROW_END) {
        struct goal goal = {.curve = -1};
        if (got == FIRN_ROW_JOB && read_goal(t, &row, &goal, err) != FIRN_OK) {
            char line[32];
            snprintf(line, sizeof line, "line %ld", lines_number(in));
            return firn_fail_in(err, line);
        }
        vec_reserve(&t->goals, (size_t)lines_number(in) + 1);
        t->goals.at[lines_number(in)] = goal;
        t->goals.n = (size_t)lines_number(in) + 1;
    }
    return FIRN_OK;
}

/* The first epoch that meets the goal. */
static double epochs_of(const struct titan *t, const struct goal *goal)
{
    const double same = 5.5e-7; /* the tables have six digits */
    double best = INFINITY;
    for (int i = t->heads.at[goal->curve]; i >= 0; i = t->points.at[i].next) {
        double over = t->points.at[i].metric - goal->metric;
        if (over > same || (over >= -same && !goal->is_high))
            best = fmin(best, t->points.at[i].epoch);
    }
    return isinf(best) ? EPOCHS_MAX : best;
}

static int model_of(const char *app)
{
    size_t n = strcspn(app, "@");
    for (int i = 0; i < NMODELS; i++)
        if (strlen(model_names[i]) == n && strncmp(model_names[i], app, n) == 0)
            return i;
    return -1;
}

/* The kind of a job, made when it is the first. */
static enum firn_status kind_of(struct titan *t,
                                const struct firn_job_spec *spec, int *out,
                                struct firn_error *err)
{
    int m = model_of(spec->app);
    if (m < 0)
        return no_app(t, spec->app, err);
    struct model *model = &t->models[m];
    for (size_t i = 0; i < t->kinds.n; i++) {
        *out = (int)i;
        if (t->kinds.at[i].model == m && t->kinds.at[i].total == spec->batch)
            return FIRN_OK;
    }
    if (!model->is_read)
        FIRN_TRY(read_model(t, model, err));
    struct kind kind = {.model = m, .total = spec->batch};
    for (int n = 1; n <= GPUS_MAX; n++) {
        int place = n < FAR_FIRST ? packed_place(n) : 0;
        kind.packed[n] = pace_of(model, spec->batch, n, place, 0);
        kind.expects[n] = pace_of(model, spec->batch, n, place, 1);
        if (!(kind.packed[n].iter_s > 0))
            return firn_fail(err, FIRN_EDATA,
                             "ymir/profiles/V100/%s: no step time for a batch "
                             "of %d on %d GPUs",
                             model->name, spec->batch, n);
    }
    vec_add(&t->kinds, kind);
    *out = (int)t->kinds.n - 1;
    return FIRN_OK;
}

static enum firn_status open_titan(void *state, struct firn_error *err)
{
    struct titan *t = state;
    const struct firn_sim_options *options = t->world.options;
    struct firn_trace_options reading = {.strict = options->strict,
                                         .trusts_order = t->world.trusts_order};
    struct lines *in;
    t->world.cadence = cadence_every(t->world.policy->interval_s, 0, true);
    for (int i = 0; i < NMODELS; i++)
        t->models[i].name = model_names[i];
    FIRN_TRY(read_sizes(t, err));
    FIRN_TRY(read_curves(t, err));
    FIRN_TRY(firn_trace_open(&t->world.trace, options->trace, &reading, err));
    FIRN_TRY(lines_open(&in, options->trace, err));
    enum firn_status status = read_goals(t, in, err);
    lines_close(in);
    return status == FIRN_OK ? FIRN_OK : firn_fail_in(err, options->trace);
}

static void close_titan(void *state)
{
    struct titan *t = state;
    firn_trace_close(t->world.trace);
    for (int i = 0; i < NMODELS; i++)
        vec_release(&t->models[i].cells);
    vec_release(&t->kinds);
    map_release(&t->sets);
    map_release(&t->apps);
    map_release(&t->curves);
    vec_release(&t->samples);
    vec_release(&t->points);
    vec_release(&t->heads);
    vec_release(&t->goals);
    vec_release(&t->tasks);
    vec_release(&t->waiting);
    vec_release(&t->running);
    vec_release(&t->events);
    vec_release(&t->line);
}

/* ---- jobs come, go on and go ---- */

/* Makes a task of the arrival that was read, and its spec whole. */
static enum firn_status make_task(struct titan *t, struct firn_error *err)
{
    struct firn_job_spec *spec = &t->spec;
    const struct goal *goal = &t->goals.at[spec->line];
    struct task task = {.gpus = spec->gpus,
                        .submit_s = spec->submit_s,
                        .since_s = spec->submit_s};
    FIRN_TRY(kind_of(t, spec, &task.kind, err));
    const struct pace *alone = &t->kinds.at[task.kind].packed[spec->gpus];
    int set = map_find(&t->sets, strchr(spec->app, '@') + 1);
    task.work = t->samples.at[set] * epochs_of(t, goal);
    task.duration_s = task.work / alone->samples * alone->iter_s;
    vec_add(&t->tasks, task);
    spec->duration_s = task.duration_s;
    spec->is_nominal = false;
    bool is_elastic = t->world.policy->quirks & ELASTIC;
    spec->gpus_min = is_elastic ? 1 : spec->gpus;
    spec->gpus_max = is_elastic ? GPUS_MAX : spec->gpus;
    return FIRN_OK;
}

/* Reads the next arrival that can run; false when the trace has failed (err)
 * or is over. */
static bool fetch(struct titan *t, struct firn_error *err)
{
    struct job_accept accept;
    char why[JOB_WHY_MAX];
    while (firn_trace_next(t->world.trace, &t->spec, err)) {
        bool fits =
            job_accept(&t->spec, t->world.options->cluster, &accept, why);
        if (fits && t->spec.gpus > GPUS_MAX) {
            fits = false;
            snprintf(why, sizeof why,
                     "wants %d GPUs, TitanSched's jobs have at most %d",
                     t->spec.gpus, GPUS_MAX);
        }
        if (fits) {
            t->has_spec = true;
            return true;
        }
        if (firn_trace_refuse(t->world.trace, &t->spec, why, err) != FIRN_OK)
            return false;
    }
    t->is_over = t->world.is_drained = true;
    return false;
}

static void tell(struct titan *t, int id, struct firn_event event)
{
    event.at_s = t->world.now_s;
    event.job = id;
    vec_add(&t->events, event);
}

/* One round of a running task; true when it is done. */
static bool go_round(struct titan *t, struct task *task, double *finished_s)
{
    double round_s = t->world.cadence.interval_s;
    double burnt_s = fmin(task->restart_s, round_s);
    double left = task->work - task->done;
    const struct pace *pace = &task->pace;
    double some = (round_s - burnt_s) / pace->iter_s * pace->samples;
    some = fmin(some, left);
    double used_s = some / pace->samples * pace->iter_s;
    double charged_s = rint(used_s); /* half to even */
    task->restart_s -= burnt_s;
    task->stay_s += burnt_s;
    task->served_gpu_s += burnt_s * task->held;
    task->done += some;
    *finished_s = task->stay_s + charged_s + task->submit_s;
    task->served_gpu_s += charged_s * task->held;
    task->stay_s += charged_s;
    task->run_s += charged_s;
    t->world.spent.given += round_s * task->held;
    t->world.spent.useful += used_s * task->held;
    t->world.spent.overhead += (round_s - used_s) * task->held; /* (4) */
    return fabs(task->done - task->work) <= 0.1;
}

/* All running tasks come to the next boundary: (3). */
static void go_on(struct titan *t)
{
    const double limit_gpu_s = 14400; /* of the upper queue */
    size_t kept = 0;
    t->round_s = t->world.now_s;
    for (size_t i = 0; i < t->running.n; i++) {
        int id = t->running.at[i];
        struct task *task = &t->tasks.at[id];
        double finished_s;
        if (go_round(t, task, &finished_s)) {
            tell(t, id,
                 (struct firn_event){.kind = FIRN_EVENT_DONE,
                                     .finished_s = finished_s});
            continue;
        }
        if (task->queue == 0 && task->served_gpu_s >= limit_gpu_s) {
            task->queue = 1;
            task->fell = ++t->falls;
        }
        t->running.at[kept++] = id;
    }
    t->running.n = kept;
}

static enum firn_status start(struct titan *t, struct task *task,
                              const struct firn_step *step,
                              struct firn_error *err)
{
    const struct kind *kind = &t->kinds.at[task->kind];
    const struct model *model = &t->models[kind->model];
    int gpus = step->to->ngpus;
    int place = gpus < FAR_FIRST ? place_of(step->to) : 0;
    task->pace = pace_of(model, kind->total, gpus, place, 0);
    if (!(task->pace.iter_s > 0))
        return firn_fail(err, FIRN_EDATA,
                         "ymir/profiles/V100/%s_placements.csv: no placement "
                         "%d for a batch of %d",
                         model->name, place, kind->total);
    if (task->held == 0)
        task->stay_s += step->at_s - task->since_s;
    task->held = gpus;
    task->restart_s = t->world.options->restart_s + model->load_s;
    task->leased_s = step->at_s;
    double per_sample = task->duration_s / task->work;
    struct firn_report report = {.done_s = task->done * per_sample,
                                 .rate = task->pace.samples /
                                         task->pace.iter_s * per_sample,
                                 .resumes_s = step->at_s + task->restart_s};
    tell(t, step->job->id,
         (struct firn_event){.kind = FIRN_EVENT_REPORT, .report = report});
    return FIRN_OK;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct titan *t = state;
    struct task *task = &t->tasks.at[step->job->id];
    t->world.now_s = t->round_s = step->at_s;
    task->has_changed = true;
    if (step->kind != FIRN_STEP_STOP)
        return start(t, task, step, err);
    task->held = 0;
    task->since_s = step->at_s;
    return FIRN_OK;
}

/* (2): who changed goes to the end of its list, in the round's order. */
static void keep_lists(struct titan *t, int id, const struct task *task)
{
    leave(t->waiting.at, &t->waiting.n, id);
    leave(t->running.at, &t->running.n, id);
    if (task->held > 0)
        vec_add(&t->running, id);
    else
        vec_add(&t->waiting, id);
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct titan *t = state;
    (void)err;
    for (size_t i = 0; i < t->line.n; i++) {
        struct task *task = &t->tasks.at[t->line.at[i]];
        if (task->has_changed)
            keep_lists(t, t->line.at[i], task);
        else if (task->renews)
            task->leased_s += 600;
        task->deserved_gpu_s = task->deserves_gpu_s;
        task->has_changed = task->renews = false;
    }
    t->line.n = 0;
    return FIRN_OK;
}

static void take_arrival(struct titan *t, struct firn_event *out)
{
    firn_job_id id = (firn_job_id)t->tasks.n - 1;
    t->has_spec = false;
    vec_add(&t->waiting, id);
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = t->world.now_s,
                               .job = id,
                               .spec = &t->spec};
}

/* Rounds come before the arrivals of their moment. */
static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct titan *t = state;
    for (;;) {
        if (t->next_event < t->events.n) {
            *out = t->events.at[t->next_event++];
            return true;
        }
        t->events.n = t->next_event = 0;
        if (!t->has_spec && !t->is_over && !fetch(t, err) &&
            err->status != FIRN_OK)
            return false;
        double round_s = t->running.n > 0
                             ? t->round_s + t->world.cadence.interval_s
                             : INFINITY;
        double submit_s = t->has_spec ? t->spec.submit_s : INFINITY;
        double first_s = fmin(round_s, submit_s);
        if (!(first_s <= until_s) || isinf(first_s)) {
            if (isfinite(until_s))
                t->world.now_s = fmax(t->world.now_s, until_s);
            return false;
        }
        t->world.now_s = fmax(t->world.now_s, first_s);
        if (round_s <= submit_s) {
            go_on(t);
            continue;
        }
        if (make_task(t, err) != FIRN_OK)
            return false;
        take_arrival(t, out);
        return true;
    }
}

static double now_s(void *state)
{
    return ((struct titan *)state)->world.now_s;
}

/* ---- placing ---- */

/* Takes `gpus` of a node, lowest first. */
static void take_some(struct freemap *map, firn_node_id node, int gpus,
                      struct firn_alloc *out)
{
    struct firn_part *part = &out->parts[out->nparts++];
    uint64_t left = map->free[map->first_board[node]];
    *part = (struct firn_part){.node = node};
    for (; gpus > 0; gpus--, left &= left - 1)
        part->gpus |= left & -left;
    struct firn_alloc one = {.parts = part, .nparts = 1};
    freemap_take(map, &one);
}

/* How many GPUs each node gives: the emptiest nodes first, lower ids first
 * among equals. False when that is more nodes than needed. */
static bool spread(const struct freemap *map, int gpus, int taken[NODES_MAX])
{
    int nnodes = map->cluster->nnodes, used = 0, left = gpus;
    for (int most = NODE_GPUS; most > 0 && left > 0; most--)
        for (int i = 0; i < nnodes && left > 0; i++) {
            if (map->node_free[i] != most)
                continue;
            taken[i] = most < left ? most : left;
            left -= taken[i];
            used++;
        }
    return left == 0 && NODE_GPUS * (used - 1) < gpus;
}

/* A job for one node goes where it leaves the least, another to the emptiest
 * nodes, as many as it needs and no more. */
static bool consolidate(struct freemap *map, const struct firn_want *want,
                        uint32_t accepts, struct arena *scratch,
                        struct firn_alloc *out)
{
    int taken[NODES_MAX] = {0};
    (void)accepts;
    if (want->gpus <= NODE_GPUS) {
        firn_node_id node = freemap_best_fit(map, 0, want->gpus);
        if (node < 0)
            return false;
        taken[node] = want->gpus;
    } else if (!spread(map, want->gpus, taken)) {
        return false;
    }
    *out = (struct firn_alloc){
        .parts = arena_alloc(scratch, NODES_MAX * sizeof *out->parts),
        .ngpus = want->gpus};
    for (int i = 0; i < map->cluster->nnodes; i++)
        if (taken[i] > 0)
            take_some(map, i, taken[i], out);
    return true;
}

/* ---- deciding ---- */

/* A task in an order: by key, then tie, then as it was found. */
struct turn {
    struct task *task;
    double key, tie;
    size_t at;
    int gpus;
};

static int by_key(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int c = firn_cmp(x->key, y->key);
    c = c ? c : firn_cmp(x->tie, y->tie);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

static void sort_turns(struct turn *turns, size_t n)
{
    if (n > 1)
        qsort(turns, n, sizeof *turns, by_key);
}

/* A round's picture: the artifact's lists, and what is decided. */
struct meeting {
    struct titan *t;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct turn *turns; /* room for every job */
    size_t n;
    struct turn *starts;
    size_t nstarts;
    int room; /* GPUs, by counting */
};

static void invite(struct meeting *m, const int *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct task *task = &m->t->tasks.at[ids[i]];
        m->turns[m->n] =
            (struct turn){.task = task, .at = m->n, .gpus = task->gpus};
        m->n++;
    }
}

static struct meeting meet(const struct firn_view *view, struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    size_t bytes = (view->njobs + 1) * sizeof(struct turn);
    struct meeting m = {.t = view->forecaster,
                        .view = view,
                        .plan = plan,
                        .turns = firn_view_alloc(view, bytes),
                        .starts = firn_view_alloc(view, bytes),
                        .room = view->gpus_free};
    for (size_t i = 0; i < view->njobs; i++) {
        struct task *task = &m.t->tasks.at[jobs[i]->id];
        task->job = jobs[i];
        task->has_changed = task->renews = false;
        task->deserves_gpu_s = task->deserved_gpu_s;
    }
    firn_plan_keep_all(plan);
    return m;
}

/* Predicted seconds to the end on n packed GPUs. */
static double expected_s(const struct titan *t, const struct task *task, int n)
{
    const struct pace *pace = &t->kinds.at[task->kind].expects[n];
    return rint((task->work - task->done) / pace->samples * pace->iter_s);
}

static void stop_task(struct meeting *m, const struct turn *turn)
{
    firn_plan_drop(m->plan, turn->task->job);
    firn_plan_note(m->plan, turn->task->job, "gave way at a round");
}

static void start_task(struct meeting *m, const struct turn *turn)
{
    m->starts[m->nstarts] = *turn;
    m->starts[m->nstarts].key = -turn->gpus;
    m->starts[m->nstarts].tie = 0;
    m->starts[m->nstarts].at = m->nstarts;
    m->nstarts++;
}

/* Starts by size, and notes the order of the lists to come. */
static enum firn_status start_all(struct meeting *m)
{
    m->t->line.n = 0;
    for (size_t i = 0; i < m->n; i++)
        vec_add(&m->t->line, m->turns[i].task->job->id);
    sort_turns(m->starts, m->nstarts);
    for (size_t i = 0; i < m->nstarts; i++) {
        const struct turn *turn = &m->starts[i];
        if (!firn_plan_give(m->plan, turn->task->job, turn->gpus))
            firn_plan_note(m->plan, turn->task->job, "no %d GPUs on %d nodes",
                           turn->gpus,
                           (turn->gpus + NODE_GPUS - 1) / NODE_GPUS);
    }
    return FIRN_OK;
}

/* Who fits by counting starts or stays, who does not waits. */
static void serve(struct meeting *m, struct turn *turn)
{
    bool runs = turn->task->held > 0;
    if (turn->gpus > m->room) {
        if (runs)
            stop_task(m, turn);
        else
            firn_plan_note(m->plan, turn->task->job, "wants %d GPUs, %d left",
                           turn->gpus, m->room);
        return;
    }
    m->room -= turn->gpus;
    turn->task->renews = runs;
    if (!runs)
        start_task(m, turn);
}

static enum firn_status decide_srtf(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    for (size_t i = 0; i < m.n; i++) {
        m.turns[i].key = expected_s(m.t, m.turns[i].task, m.turns[i].gpus);
        m.turns[i].tie = m.turns[i].task->submit_s;
    }
    sort_turns(m.turns, m.n);
    for (size_t i = 0; i < m.n; i++)
        serve(&m, &m.turns[i]);
    return start_all(&m);
}

/* Two queues; in the lower one ties are told apart by when they fell. */
static enum firn_status decide_tiresias(void *state,
                                        const struct firn_view *view,
                                        struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->running.at, m.t->running.n);
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    for (size_t i = 0; i < m.n; i++) {
        const struct task *task = m.turns[i].task;
        m.turns[i].key = task->queue;
        m.turns[i].tie = task->submit_s;
        m.turns[i].at = (size_t)(task->queue ? task->fell : task->job->id);
    }
    sort_turns(m.turns, m.n);
    m.room = view->gpus_up;
    for (size_t i = 0; i < m.n; i++)
        serve(&m, &m.turns[i]);
    return start_all(&m);
}

/* One GPU each by submission, then one more to the largest gain while there is
 * one: wrong-job, `last` is asked for every gain but the first. */
static void share_out(const struct meeting *m, double *gains)
{
    const struct titan *t = m->t;
    const struct task *last = m->turns[m->n - 1].task;
    const struct kind *kind = &t->kinds.at[last->kind];
    int limit = kind->total / t->models[kind->model].batch_min;
    int room = m->view->gpus_up;
    limit = limit < GPUS_MAX ? limit : GPUS_MAX;
    for (size_t i = 0; i < m->n; i++) {
        const struct task *task = m->turns[i].task;
        m->turns[i].gpus = room > 0;
        gains[i] =
            room > 0 ? expected_s(t, task, 1) - expected_s(t, task, 2) : 0;
        room -= room > 0;
    }
    for (; room > 0; room--) {
        size_t best = 0;
        for (size_t i = 1; i < m->n; i++)
            if (gains[i] > gains[best])
                best = i;
        if (!(gains[best] > 0))
            return;
        int gpus = ++m->turns[best].gpus;
        gains[best] = gpus + 1 > limit ? 0
                                       : expected_s(t, last, gpus) -
                                             expected_s(t, last, gpus + 1);
    }
}

static enum firn_status decide_optimus(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->running.at, m.t->running.n);
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    if (m.n == 0)
        return FIRN_OK;
    for (size_t i = 0; i < m.n; i++)
        m.turns[i].key = m.turns[i].task->submit_s;
    sort_turns(m.turns, m.n);
    share_out(&m, firn_view_alloc(view, m.n * sizeof(double)));
    for (size_t i = 0; i < m.n; i++) {
        const struct turn *turn = &m.turns[i];
        if (turn->gpus == turn->task->held)
            continue;
        if (turn->task->held > 0)
            stop_task(&m, turn);
        if (turn->gpus > 0)
            start_task(&m, turn);
    }
    return start_all(&m);
}

/* Finish-time fairness as the artifact reckons it. */
static double rho(const struct meeting *m, const struct task *task)
{
    const struct titan *t = m->t;
    double deserved = task->deserves_gpu_s, served = task->served_gpu_s;
    if (deserved == 0)
        return 1;
    double stay_s = task->stay_s;
    if (task->held == 0)
        stay_s += m->view->now_s - task->since_s;
    double share = m->view->gpus_up / (2 * (double)t->running.n + 1e-3);
    int alone = (int)fmax(1, floor(fmin(share, task->gpus)));
    double shared_s =
        stay_s + expected_s(t, task, task->gpus) * (served / (deserved + 1e-3));
    double alone_s = task->run_s * (deserved / (served + 1e-3)) +
                     (stay_s - task->run_s) + expected_s(t, task, alone);
    return shared_s / alone_s;
}

/* What each job would have had of an equal share since the last round. */
static void deserve(const struct meeting *m)
{
    double now = m->view->now_s;
    double last_s = now - m->t->world.cadence.interval_s;
    double share = m->view->gpus_up / ((double)m->view->njobs + 1e-3);
    for (size_t i = 0; i < m->n; i++) {
        struct task *task = m->turns[i].task;
        double begin_s = fmax(fmax(last_s, 0), task->submit_s);
        task->deserves_gpu_s =
            task->deserved_gpu_s + fmin(share, task->gpus) * (now - begin_s);
    }
}

/* All waiting jobs, and the running ones whose 600 s are over. */
static enum firn_status decide_themis(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    size_t n = 0;
    (void)state;
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    invite(&m, m.t->running.at, m.t->running.n);
    deserve(&m);
    for (size_t i = 0; i < m.n; i++) {
        struct turn turn = m.turns[i];
        if (turn.task->held > 0 && view->now_s - turn.task->leased_s < 600) {
            turn.key = INFINITY; /* behind all who compete */
        } else {
            turn.key = 1 / rho(&m, turn.task);
            m.room += turn.task->held;
            n++;
        }
        m.turns[i] = turn;
    }
    sort_turns(m.turns, m.n);
    size_t kept = (size_t)rint((double)n * 0.8);
    for (size_t i = 0; i < kept; i++)
        serve(&m, &m.turns[i]);
    for (size_t i = kept; i < n; i++)
        if (m.turns[i].task->held == 0)
            firn_plan_note(plan, m.turns[i].task->job,
                           "among the fairest fifth: rho %.3g",
                           1 / m.turns[i].key);
    return start_all(&m);
}

/* Every round, as long as there are jobs. */
static double wake_s(const void *state, const struct firn_view *view)
{
    const struct titan *t = view->forecaster;
    (void)state;
    return view->njobs > 0 ? view->now_s + t->world.cadence.interval_s
                           : INFINITY;
}

static const struct firn_policy_def titan_srtf = {
    .name = "srtf",
    .summary = "shortest predicted time first, not preemptive",
    .decide = decide_srtf,
    .wake_s = wake_s,
};

static const struct firn_policy_def titan_tiresias = {
    .name = "tiresias",
    .summary = "two queues by GPU service, 14400 GPU-seconds",
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_tiresias,
    .wake_s = wake_s,
};

static const struct firn_policy_def titan_optimus = {
    .name = "optimus",
    .summary = "GPUs one by one to the largest predicted gain",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE,
    .decide = decide_optimus,
    .wake_s = wake_s,
};

static const struct firn_policy_def titan_themis = {
    .name = "themis",
    .summary = "leases to the least fairly treated, 0.8 of them",
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_themis,
    .wake_s = wake_s,
};

static const struct world_policy policies[] = {
    {.name = "srtf", .def = &titan_srtf, .interval_s = 300},
    {.name = "tiresias", .def = &titan_tiresias, .interval_s = 300},
    {.name = "optimus",
     .def = &titan_optimus,
     .interval_s = 300,
     .quirks = ELASTIC},
    {.name = "themis", .def = &titan_themis, .interval_s = 60},
    {0},
};

/* ---- what the artifact never had ---- */

static enum firn_status check_cluster(const struct firn_cluster *cluster,
                                      struct firn_error *err)
{
    bool is_known = cluster->ntypes == 1 &&
                    str_equal_nocase(cluster->types[0].name, "v100") &&
                    (cluster->nnodes == 8 || cluster->nnodes == 12 ||
                     cluster->nnodes == 16);
    for (int i = 0; i < cluster->nnodes && is_known; i++)
        is_known =
            cluster->nodes[i].ngpus == NODE_GPUS && cluster->nodes[i].is_up;
    if (!is_known)
        return firn_fail(err, FIRN_EINVAL,
                         "%s never had a cluster '%.40s'; it had 8x4:v100, "
                         "12x4:v100 and 16x4:v100",
                         artifact, cluster->name);
    return FIRN_OK;
}

static enum firn_status suits(const struct firn_sim_options *options,
                              struct firn_error *err)
{
    const struct firn_sim_options usual = firn_sim_defaults();
    const struct firn_sim_noise *noise = &options->noise;
    const struct {
        const char *name;
        bool is_set;
    } never[] = {
        {"noise", noise->throughput > 0 || noise->sharing > 0 ||
                      noise->transfer > 0 || noise->report > 0},
        {"failures", options->failures != NULL || options->mtbf_s > 0},
        {"checkpoint intervals", options->checkpoint_s > 0},
        {"restart costs by application", options->nrestarts > 0},
        {"elastic bounds", options->elastic_max > 0},
        {"another interval or quantum",
         options->interval_s > 0 || options->quantum_s > 0},
        {"scaling by an exponent", options->scaling != usual.scaling},
        {"a slowdown of sharing",
         options->share_slowdown != usual.share_slowdown},
    };
    const char *folder = options->profiles;
    FIRN_TRY(check_cluster(options->cluster, err));
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (never[i].is_set)
            return firn_fail(err, FIRN_EINVAL, "%s never had %s", artifact,
                             never[i].name);
    if (folder == NULL || strcmp(folder, "none") == 0 ||
        strcmp(folder, "builtin") == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s goes by its measured tables: name the folder that "
                         "has them in 'ymir' (--profiles, or FIRN_DATA)",
                         artifact);
    return FIRN_OK;
}

static const struct firn_engine_def engine = {
    .name = "titan",
    .summary = "rounds over measured tables, as TitanSched has them",
    .gives = FIRN_NEED_DURATION,
    .state_size = sizeof(struct titan),
    .open = open_titan,
    .close = close_titan,
    .now_s = now_s,
    .apply = apply,
    .settled = settled,
    .next = next,
};

const struct world_def compat_titan = {
    .name = "titan",
    .summary = "TitanSched: fine-tuning on 8, 12 or 16 nodes of 4 V100",
    .artifact = artifact,
    .engine = &engine,
    .policies = policies,
    .place = consolidate,
    .suits = suits,
};
