/* adaptdlapp.c - measured step times and training curves, looked up.
 *
 * Placements of up to four nodes were all measured and are interpolated in the
 * batch. From five nodes on the artifact interpolates on a Delaunay
 * tessellation of a degenerate lattice: several are right, they differ by up
 * to a tenth, and which one comes out depends on the library. Its own answers
 * are therefore read from a file. Such a file has up to seventy thousand rows
 * and a run asks for a hundred, so the text is kept as it is and searched by
 * halves; only the row found is turned into numbers.
 *
 * Invariants:
 * (1) a measured batch or placement returns the measurement itself;
 * (2) P(e) rises with e, P(0) = 0;
 * (3) a batch beyond the measured ones has the statistics of the nearest.
 *
 * Cost: O(log rows) a lookup; reading an application takes about 2 ms.
 */
#include "compat/adaptdlapp.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rounding may make a quotient of whole numbers a little too large. */
static const double SLACK = 1e-8;

enum {
    FAR_NODES = 5,      /* from here on placements were not measured */
    FAR_NODES_MAX = 16, /* larger numbers of nodes count as 16 */
};

/* ---- places ---- */

bool adlplace_add(struct adlplace *place, int gpus)
{
    if (place->nodes == ADLPLACE_NODES)
        return false;
    place->at[place->nodes++] = gpus;
    place->gpus += gpus;
    return true;
}

struct adlplace adlplace_packed(int gpus, int per_node)
{
    struct adlplace place = {0};
    while (place.gpus < gpus) {
        int left = gpus - place.gpus;
        if (!adlplace_add(&place, left < per_node ? left : per_node))
            break;
    }
    return place;
}

bool adlplace_equal(const struct adlplace *a, const struct adlplace *b)
{
    return a->nodes == b->nodes &&
           memcmp(a->at, b->at, (size_t)a->nodes * sizeof *a->at) == 0;
}

/* ---- step times ---- */

/* Mapped, so that only the pages a search touches are read. */
static enum firn_status map_text(struct firn_bytes *out, const char *path,
                                 struct firn_error *err)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return firn_fail(err, FIRN_ENOENT, "%s: cannot be opened", path);
    size_t n = fstat(fd, &about) == 0 ? (size_t)about.st_size : 0;
    void *at =
        n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return firn_fail(err, FIRN_EIO, "%s: cannot be read", path);
    *out = (struct firn_bytes){at, n};
    return FIRN_OK;
}

static void measure_limits(struct adlsteps *steps)
{
    steps->b_min = INFINITY;
    for (size_t i = 0; i < steps->table.nrows; i++) {
        const struct steptable_row *row = &steps->table.rows[i];
        if (row->place[0] == '\0')
            continue;
        steps->b_min = fmin(steps->b_min, row->batch);
        steps->b_max = fmax(steps->b_max, row->batch);
        if (row->gpus == 1) {
            steps->one_b = fmax(steps->one_b, row->batch);
            steps->one_s = fmax(steps->one_s, row->step_s);
        }
    }
}

enum firn_status adlsteps_open(struct adlsteps *out, const char *placements,
                               const char *scalability, const char *far,
                               struct firn_error *err)
{
    struct adlsteps steps = {0};
    enum firn_status status = steptable_read(&steps.table, placements, err);
    if (status == FIRN_OK)
        status = steptable_read(&steps.table, scalability, err);
    if (status == FIRN_OK && far != NULL)
        status = map_text(&steps.far, far, err);
    if (status == FIRN_OK && steps.table.nrows == 0)
        status = firn_fail(err, FIRN_EINVAL, "%s: has no rows", placements);
    if (status != FIRN_OK) {
        adlsteps_release(&steps);
        return status;
    }
    steptable_ready(&steps.table);
    measure_limits(&steps);
    *out = steps;
    return FIRN_OK;
}

void adlsteps_release(struct adlsteps *steps)
{
    steptable_release(&steps->table);
    if (steps->far.n > 0)
        munmap((void *)(uintptr_t)steps->far.at, steps->far.n);
    *steps = (struct adlsteps){0};
}

/* Reads the whole number at `at` and moves past the comma after it. */
static long take_long(const char **at)
{
    long value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        value = value * 10 + (**at - '0');
    *at += **at == ',';
    return value;
}

/* A row's key (n, r, b) against the one sought: -1, 0, 1. */
static int compare_row(const char **at, const long key[3])
{
    for (int i = 0; i < 3; i++) {
        long value = take_long(at);
        if (value != key[i])
            return value < key[i] ? -1 : 1;
    }
    return 0;
}

static bool take_double(const char **at, double *out)
{
    char text[40];
    size_t n = strcspn(*at, ",\r\n");
    if (n >= sizeof text)
        return false;
    memcpy(text, *at, n);
    text[n] = '\0';
    *at += n + ((*at)[n] == ',');
    return str_double(text, out);
}

/* The row of (n, r, b) in the text; false when there is none. */
static bool find_far(struct firn_bytes far, const long key[3],
                     struct adltime *out)
{
    char line[96];
    const char *newline = memchr(far.at, '\n', far.n);
    if (newline == NULL)
        return false;
    size_t low = (size_t)(newline - far.at) + 1, high = far.n;
    while (low < high) { /* both at starts of lines, or the end */
        size_t from = low + (high - low) / 2, to;
        while (from > low && far.at[from - 1] != '\n')
            from--;
        for (to = from; to < high && far.at[to] != '\n';)
            to++;
        if (to - from >= sizeof line)
            return false;
        memcpy(line, far.at + from, to - from);
        line[to - from] = '\0';
        const char *at = line;
        int order = compare_row(&at, key);
        if (order == 0)
            return take_double(&at, &out->step_s) &&
                   take_double(&at, &out->sync_s);
        if (order < 0)
            low = to + 1;
        else
            high = from;
    }
    return false;
}

struct adltime adlsteps_at(const struct adlsteps *steps,
                           const struct adlplace *place, int b)
{
    struct adltime time;
    int nodes = place->nodes;
    if (nodes >= FAR_NODES && steps->far.n > 0) {
        nodes = nodes < FAR_NODES_MAX ? nodes : FAR_NODES_MAX;
        if (find_far(steps->far, (long[]){nodes, place->gpus, b}, &time))
            return time;
    }
    struct steptable_time at =
        steptable_at(&steps->table, place->at, place->nodes, b);
    return (struct adltime){at.step_s, at.sync_s};
}

double adltime_iteration(struct adltime time, int s)
{
    return time.step_s + s * (time.step_s - time.sync_s);
}

/* Is `digits` a rotation of the place? */
static bool is_rotation(const char *digits, const struct adlplace *place)
{
    int n = place->nodes;
    if (strlen(digits) != (size_t)n)
        return false;
    for (int from = 0; from < n; from++) {
        int same = 0;
        while (same < n && digits[same] - '0' == place->at[(from + same) % n])
            same++;
        if (same == n)
            return true;
    }
    return false;
}

double adlsteps_b_max_at(const struct adlsteps *steps,
                         const struct adlplace *place)
{
    double here = 0, beyond = 0, as_many = 0;
    for (size_t i = 0; i < steps->table.nrows; i++) {
        const struct steptable_row *row = &steps->table.rows[i];
        if (row->gpus == place->gpus)
            as_many = fmax(as_many, row->batch);
        if (row->place[0] == '\0' && row->nodes >= place->nodes &&
            row->gpus >= place->gpus)
            beyond = fmax(beyond, row->batch);
        if (row->gpus == place->gpus && is_rotation(row->place, place))
            here = fmax(here, row->batch);
    }
    double most = here > 0 ? here : beyond > 0 ? beyond : steps->b_max;
    return as_many > 0 ? fmin(most, as_many) : most;
}

/* ---- training ---- */

/* Column j of all epochs. */
static enum firn_status take_file(struct adlapp *app, size_t j,
                                  const struct sheet *in, const char *path,
                                  struct firn_error *err)
{
    int progress = sheet_column(in, "progress");
    int sqr = sheet_column(in, "grad_sqr"), var = sheet_column(in, "grad_var");
    int iteration = sheet_column(in, "iteration");
    if (app->epochs == 0) { /* the first file */
        size_t n = in->nrows * app->nbatches;
        app->epochs = (int)in->nrows;
        app->progress = mem_new(in->nrows + 1, sizeof *app->progress);
        for (size_t e = 1; e <= in->nrows; e++)
            app->progress[e] = INFINITY;
        app->grad_sqr = mem_new(n, sizeof *app->grad_sqr);
        app->grad_var = mem_new(n, sizeof *app->grad_var);
        app->iteration = mem_new(n, sizeof *app->iteration);
    }
    if (in->nrows != (size_t)app->epochs || in->nrows == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: %zu epochs, another file has %d", path, in->nrows,
                         app->epochs);
    for (size_t e = 0; e < in->nrows; e++) {
        size_t at = e * app->nbatches + j;
        double done = sheet_number(in, e, progress);
        app->grad_sqr[at] = sheet_number(in, e, sqr);
        app->grad_var[at] = sheet_number(in, e, var);
        app->iteration[at] = sheet_number(in, e, iteration);
        if (!isfinite(done) || !isfinite(app->grad_sqr[at]) ||
            !isfinite(app->grad_var[at]) || !isfinite(app->iteration[at]))
            return firn_fail(err, FIRN_EINVAL,
                             "%s: row %zu: a number is missing", path, e + 1);
        app->progress[e + 1] = fmin(app->progress[e + 1], done);
    }
    return FIRN_OK;
}

enum firn_status adlapp_open(struct adlapp *out, const char *folder,
                             struct firn_error *err)
{
    struct adlapp app = {0};
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    app.nbatches = measured_batches(&app.batch, folder);
    if (app.nbatches == 0)
        status = firn_fail(err, FIRN_ENOENT, "%s: there is no validation-B.csv",
                           folder);
    for (size_t j = 0; j < app.nbatches && status == FIRN_OK; j++) {
        struct sheet in = {0};
        buf_clear(&path);
        buf_printf(&path, "%s/validation-%.0f.csv", folder, app.batch[j]);
        status = sheet_read(&in, path.at, err);
        if (status == FIRN_OK)
            status = take_file(&app, j, &in, path.at, err);
        sheet_release(&in);
    }
    buf_release(&path);
    if (status != FIRN_OK)
        adlapp_release(&app);
    else
        *out = app;
    return status;
}

void adlapp_release(struct adlapp *app)
{
    mem_free(app->batch);
    mem_free(app->progress);
    mem_free(app->grad_sqr);
    mem_free(app->grad_var);
    mem_free(app->iteration);
    *app = (struct adlapp){0};
}

/* Where a batch lies: between files `low` and `high`, `part` of the way. */
struct between {
    size_t low, high;
    double part;
};

static struct between locate(const struct adlapp *app, double batch)
{
    size_t last = app->nbatches - 1, i = 0;
    while (i < last && app->batch[i + 1] <= batch)
        i++;
    if (i == last || batch <= app->batch[i]) /* (3) */
        return (struct between){i, i, 0};
    return (struct between){i, i + 1,
                            (batch - app->batch[i]) /
                                (app->batch[i + 1] - app->batch[i])};
}

/* Row e of a column, between two files. */
static double blend(const struct adlapp *app, const double *column,
                    struct between at, int e)
{
    const double *row = column + (size_t)e * app->nbatches;
    if (at.low == at.high) /* (1) */
        return row[at.low];
    return (1 - at.part) * row[at.low] + at.part * row[at.high];
}

static int within(const struct adlapp *app, int e)
{
    return e < app->epochs ? e : app->epochs - 1;
}

struct firn_noise adlapp_noise(const struct adlapp *app, double batch, int e)
{
    struct between at = locate(app, batch);
    e = within(app, e);
    return (struct firn_noise){.grad_sqr = blend(app, app->grad_sqr, at, e),
                               .grad_var = blend(app, app->grad_var, at, e),
                               .batch0 = app->batch[0]};
}

double adlapp_iterations(const struct adlapp *app, double batch, int e)
{
    return blend(app, app->iteration, locate(app, batch), within(app, e));
}

double adlapp_gain(const struct adlapp *app, const struct firn_noise *noise,
                   double batch)
{
    double scale = batch / app->batch[0];
    double v = noise->grad_var, g = noise->grad_sqr;
    return (v + g) / (v / scale + g);
}

/* ---- batches ---- */

struct adlbatch adlbatch_cut(const struct adllimits *limits,
                             struct adlbatch batch, int gpus)
{
    int most = (int)(limits->total_max / (gpus * (batch.s + 1)));
    if (batch.b > most)
        batch.b = most;
    return batch;
}

struct adlbatch adlbatch_fixed(const struct adllimits *limits, double batch,
                               int gpus, bool always_two)
{
    double each = ceil(batch / gpus - SLACK);
    int s = (int)ceil(each / limits->b_max - SLACK) - 1;
    if (gpus == 1 && (always_two || batch > limits->b0) && s < 1)
        s = 1;
    int b = (int)ceil(each / (s + 1) - SLACK);
    return adlbatch_cut(limits, (struct adlbatch){b, s}, gpus);
}

double adlbatch_total(struct adlbatch batch, int gpus)
{
    return (double)gpus * batch.b * (batch.s + 1);
}
