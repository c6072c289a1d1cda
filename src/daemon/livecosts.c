/* livecosts.c - measured costs of starts, stops and resizes.
 *
 * One mean for each application and kind of cost, and one over all jobs for
 * applications that were not measured yet: nearly all of a start is loading
 * libraries and building a model, which is alike for jobs of one site. The
 * first FEW measurements count equally, later ones 1 / FEW each, so that a cost
 * that has changed is known after a few.
 *
 * Invariants: (1) every measurement counts for its application and for all;
 * (2) an application beyond NAMES counts for all only.
 * Cost: a look into a hash table.
 */
#include "daemon/livecosts.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/told.h"
#include <math.h>
#include <string.h>

enum { NAMES = 4096, FEW = 4, NAME_MOST = 256 };

struct mean {
    double value;
    int n; /* measurements, FEW at most */
};

struct app_costs {
    struct mean at[LIVECOSTS];
    struct told told; /* never that of other applications */
};

struct livecosts {
    struct map names;
    VEC(struct app_costs) apps; /* by number in `names` */
    struct app_costs all;
};

struct livecosts *livecosts_new(void)
{
    return mem_new(1, sizeof(struct livecosts));
}

void livecosts_free(struct livecosts *costs)
{
    if (costs == NULL)
        return;
    map_release(&costs->names);
    vec_release(&costs->apps);
    mem_free(costs);
}

static void take(struct mean *mean, double value)
{
    if (mean->n < FEW)
        mean->n++;
    mean->value += (value - mean->value) / mean->n;
}

/* Made if there is none; NULL: there are too many. */
static struct app_costs *make_app(struct livecosts *costs, const char *app)
{
    int number = map_find(&costs->names, app);
    if (number < 0 && costs->names.n >= NAMES)
        return NULL;
    if (number < 0) {
        struct app_costs none = {0};
        number = map_add(&costs->names, app);
        vec_add(&costs->apps, none);
    }
    return &costs->apps.at[number];
}

void livecosts_add(struct livecosts *costs, const char *app,
                   enum livecost which, double value)
{
    if (!isfinite(value) || value < 0)
        return;
    struct app_costs *mine = make_app(costs, app);
    if (mine != NULL)
        take(&mine->at[which], value);
    take(&costs->all.at[which], value); /* (1) */
}

double livecosts_mean(const struct livecosts *costs, const char *app,
                      enum livecost which)
{
    int number = map_find(&costs->names, app);
    const struct mean *mean = &costs->all.at[which];
    if (number >= 0 && costs->apps.at[number].at[which].n > 0)
        mean = &costs->apps.at[number].at[which];
    return mean->n > 0 ? mean->value : -1;
}

double livecosts_own_mean(const struct livecosts *costs, const char *app,
                          enum livecost which)
{
    int number = map_find(&costs->names, app);
    return number >= 0 && costs->apps.at[number].at[which].n > 0
               ? costs->apps.at[number].at[which].value
               : -1;
}

double livecosts_all_mean(const struct livecosts *costs, enum livecost which)
{
    const struct mean *mean = &costs->all.at[which];
    return mean->n > 0 ? mean->value : -1;
}

void livecosts_ended(struct livecosts *costs, const char *app, double told_s,
                     double took_s)
{
    struct app_costs *mine = make_app(costs, app);
    if (mine != NULL)
        told_add(&mine->told, told_s, took_s);
}

double livecosts_start_s(const struct livecosts *costs, const char *app)
{
    double start_s = livecosts_mean(costs, app, LIVECOST_START);
    return start_s < 0
               ? -1
               : start_s + fmax(livecosts_mean(costs, app, LIVECOST_FIRST), 0);
}

double livecosts_around_s(const struct livecosts *costs, const char *app)
{
    return fmax(livecosts_start_s(costs, app), 0) +
           fmax(livecosts_mean(costs, app, LIVECOST_END), 0);
}

/* The least share of a duration that is training, whatever was measured. */
static const double TRAINING_LEAST = 0.1;

double livecosts_training_s(const struct livecosts *costs, const char *app,
                            double told_s)
{
    static const struct told nothing;
    int number = map_find(&costs->names, app);
    double around_s = livecosts_around_s(costs, app);
    const struct told *told =
        number >= 0 ? &costs->apps.at[number].told : &nothing;
    return fmax(told_training_s(told, told_s, around_s),
                TRAINING_LEAST * told_s);
}

void livecosts_of(const struct livecosts *costs, const char *app,
                  const struct firn_profile *profile, struct firn_costs *out)
{
    double start_s = livecosts_start_s(costs, app);
    double stop_s = livecosts_mean(costs, app, LIVECOST_STOP);
    if (stop_s < 0) /* none was seen: it takes at least as long as an end */
        stop_s = livecosts_mean(costs, app, LIVECOST_END);
    double pause_s = livecosts_mean(costs, app, LIVECOST_PAUSE);
    if (start_s >= 0) {
        out->restart = (struct firn_cost){.pause_s = start_s + fmax(stop_s, 0)};
        out->is_seen = true;
        out->first_s = start_s;
    }
    if (pause_s >= 0)
        out->resize = (struct firn_cost){
            pause_s, fmax(livecosts_mean(costs, app, LIVECOST_PREPARE), 0),
            fmax(livecosts_mean(costs, app, LIVECOST_SLOWDOWN), 0)};
    else if (profile != NULL && profile->resize.pause_s >= 0)
        out->resize = profile->resize;
    out->can_resize = out->resize.pause_s >= 0;
}

const char *livecosts_app(const struct livecosts *costs, size_t i)
{
    return i < costs->apps.n ? map_name(&costs->names, (int)i) : NULL;
}

/* --- over a restart of firnd ----------------------------------------------
 */

/* "APP<tab>mean n<tab>mean n..."; an application's name has no tab. */
void livecosts_save(const struct livecosts *costs, struct firn_buf *out)
{
    for (size_t i = 0; i < costs->apps.n; i++) {
        const char *app = map_name(&costs->names, (int)i);
        if (strpbrk(app, "\t\n") != NULL || strlen(app) >= NAME_MOST)
            continue;
        buf_puts(out, app);
        for (int k = 0; k < LIVECOSTS; k++)
            buf_printf(out, "\t%.9g\t%d", costs->apps.at[i].at[k].value,
                       costs->apps.at[i].at[k].n);
        buf_putc(out, '\n');
    }
}

/* The text up to the next tab; NULL behind the last. */
static const char *next_cell(const char **text, char *cell, size_t size)
{
    if (*text == NULL)
        return NULL;
    size_t n = strcspn(*text, "\t");
    if (n >= size)
        return NULL;
    memcpy(cell, *text, n);
    cell[n] = '\0';
    *text = (*text)[n] == '\t' ? *text + n + 1 : NULL;
    return cell;
}

static void load_line(struct livecosts *costs, const char *line)
{
    char app[NAME_MOST], cell[40];
    struct app_costs read = {0};
    if (next_cell(&line, app, sizeof app) == NULL)
        return;
    for (int k = 0; k < LIVECOSTS; k++) {
        double value, n;
        if (line == NULL && k >= LIVECOST_PREPARED)
            break; /* written by an older firnd */
        if (next_cell(&line, cell, sizeof cell) == NULL ||
            !str_double(cell, &value) ||
            next_cell(&line, cell, sizeof cell) == NULL ||
            !str_double(cell, &n) || !(value >= 0) || !(n >= 0) || n > FEW)
            return;
        read.at[k] = (struct mean){value, (int)n};
    }
    struct app_costs *mine = make_app(costs, app);
    if (mine != NULL)
        *mine = read;
    for (int k = 0; k < LIVECOSTS; k++)
        for (int i = 0; i < read.at[k].n; i++)
            take(&costs->all.at[k], read.at[k].value);
}

void livecosts_load(struct livecosts *costs, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    for (const char *line; (line = lines_next(in)) != NULL;)
        load_line(costs, line);
    lines_close(in);
}

/* "APP<tab>" and the five sums. */
void livecosts_save_told(const struct livecosts *costs, struct firn_buf *out)
{
    for (size_t i = 0; i < costs->apps.n; i++) {
        const char *app = map_name(&costs->names, (int)i);
        const struct told *told = &costs->apps.at[i].told;
        if (!(told->w > 0) || strpbrk(app, "\t\n") != NULL ||
            strlen(app) >= NAME_MOST)
            continue;
        buf_printf(out, "%s\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\n", app, told->w,
                   told->wd, told->wdd, told->wy, told->wdy);
    }
}

void livecosts_load_told(struct livecosts *costs, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    for (const char *line; (line = lines_next(in)) != NULL;) {
        char app[NAME_MOST], cell[40];
        double sums[5];
        int n = 0;
        if (next_cell(&line, app, sizeof app) == NULL)
            continue;
        while (n < 5 && next_cell(&line, cell, sizeof cell) != NULL &&
               str_double(cell, &sums[n]))
            n++;
        struct told read = {sums[0], sums[1], sums[2], sums[3], sums[4]};
        struct app_costs *mine = n == 5 ? make_app(costs, app) : NULL;
        if (mine != NULL && told_is_sound(&read))
            mine->told = read;
    }
    lines_close(in);
}
