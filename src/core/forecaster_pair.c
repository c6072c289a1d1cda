/* forecaster_pair.c - how much slower two jobs go on the same GPUs.
 *
 * The profile's measurement of a pair counts as one observation; those made
 * while jobs shared (forecast alone / reported) are averaged with it, by pair
 * of applications, in a pair table of firn/sharing.h in which old news fade:
 *
 *     xi = (measured + weight x mean) / (1 + weight)
 *
 * A pair that was never measured: in a simulation its slowdown is a constant
 * that is given (priors.share_slowdown), and stands for the measurement. Live
 * it is estimated from what was seen of other pairs of the two applications
 * (firn_pairs_xi), with the constant to begin with.
 *
 * A profile may have a table of slowdowns by GPU type and by the samples that
 * the two have in a pass. It is complete where it exists, so in a simulation
 * its rows hold as they are for a question that names the ways. Live they come
 * from other machines: a row is multiplied by what was seen of the pair over
 * what its profile has for it, and is never below 1; a bad pair stays bad in
 * every way.
 *
 * Pairs that were parted as bad ones stay bad. Both, what was measured and what
 * is bad, can be saved as text and loaded again.
 *
 * Applications with a profile go by its number, others by name, PAIR_NAMES of
 * them; what comes later is not learned. Jobs that name no application are of
 * one kind. Cost: O(1), and O(bad pairs) where there are any.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "core/outlook.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIR_NAMES = 256, BAD_MAX = 4096 };
static const double LOADED_MOST = 1e3; /* weight of a line of a state file */

static size_t nprofiles(const struct forecaster *f)
{
    return f->priors.known != NULL ? f->priors.known->profiles.n : 0;
}

void pairs_release(struct forecaster *f)
{
    mem_free(f->pairs_storage);
    mem_free(f->class_of);
    map_release(&f->pair_names);
    vec_release(&f->bad);
}

/* As pair_number(), but -1 for an application that has none yet. */
static int number_of(const struct forecaster *f, const char *app)
{
    if (f->priors.known != NULL) {
        struct known_app found = known_find(f->priors.known, app, UINT32_MAX);
        if (found.profile != NULL)
            return (int)found.which;
    }
    int name = map_find(&f->pair_names, app);
    return name >= 0 ? (int)nprofiles(f) + name : -1;
}

int pair_number(struct forecaster *f, const char *app)
{
    int number = number_of(f, app);
    if (number >= 0 || f->pair_names.n >= PAIR_NAMES)
        return number;
    return (int)nprofiles(f) + map_add(&f->pair_names, app);
}

static void add_weighted(struct forecaster *f, int a, int b, double slower,
                         double weight)
{
    size_t n = nprofiles(f) + (f->priors.is_recorded ? 0 : PAIR_NAMES);
    if (a < 0 || b < 0 || !(slower > 0) || (size_t)a >= n || (size_t)b >= n)
        return;
    if (f->pairs_storage == NULL) {
        f->pairs_storage =
            mem_new(FIRN_PAIRS_DOUBLES(n, 1), sizeof *f->pairs_storage);
        f->class_of = mem_new(n, sizeof *f->class_of);
        firn_pairs_init(&f->pairs, f->pairs_storage, n, f->class_of, 1,
                        f->priors.share_slowdown);
    }
    firn_pairs_add(&f->pairs, (size_t)a, (size_t)b, slower, weight, NULL);
}

void pair_add(struct forecaster *f, int a, int b, double slower)
{
    add_weighted(f, a, b, slower, 1);
}

/* --- bad pairs ----------------------------------------------------------- */

/* By application, or by itself. */
static int bad_key(int number, struct forecaster_job job)
{
    return job.job->spec.app[0] != '\0' && number >= 0 ? number
                                                       : -1 - job.key.id;
}

static bool is_bad(const struct forecaster *f, int a, int b)
{
    for (size_t i = 0; i < f->bad.n; i++)
        if (f->bad.at[i].a == (a < b ? a : b) &&
            f->bad.at[i].b == (a < b ? b : a))
            return true;
    return false;
}

static void add_bad(struct forecaster *f, int a, int b)
{
    struct bad_pair bad = {a < b ? a : b, a < b ? b : a};
    if (f->bad.n < BAD_MAX && !is_bad(f, a, b))
        vec_add(&f->bad, bad);
}

void forecaster_part(struct forecaster *f, struct forecaster_job a,
                     struct forecaster_job b)
{
    add_bad(f, bad_key(pair_number(f, a.job->spec.app), a),
            bad_key(pair_number(f, b.job->spec.app), b));
}

static const char *name_of(const struct forecaster *f, int number)
{
    size_t n = nprofiles(f);
    return (size_t)number < n ? f->priors.known->profiles.at[number].app
                              : map_name(&f->pair_names, number - (int)n);
}

void forecaster_save_pairs(const struct forecaster *f, struct firn_buf *out)
{
    for (size_t i = 0; i < f->bad.n; i++)
        if (f->bad.at[i].a >= 0)
            buf_printf(out, "%s\t%s\n", name_of(f, f->bad.at[i].a),
                       name_of(f, f->bad.at[i].b));
}

void forecaster_load_pairs(struct forecaster *f, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    for (char *line; (line = lines_next(in)) != NULL;) {
        char *tab = strchr(line, '\t');
        if (tab == NULL)
            continue;
        *tab = '\0';
        int a = pair_number(f, line), b = pair_number(f, tab + 1);
        if (a >= 0 && b >= 0)
            add_bad(f, a, b);
    }
    lines_close(in);
}

void forecaster_each_pair(const struct forecaster *f, forecaster_pair *pair,
                          void *arg)
{
    size_t n = nprofiles(f) + f->pair_names.n;
    for (size_t a = 0; f->pairs_storage != NULL && a < n; a++)
        for (size_t b = 0; b < n && b < f->pairs.napps; b++) {
            size_t at = a * f->pairs.napps + b;
            if (a < f->pairs.napps && f->pairs.pair_weight[at] > 0)
                pair(arg, name_of(f, (int)a), name_of(f, (int)b),
                     fmax(f->pairs.pair_mean[at], 1));
        }
}

/* A line is: application, the other one, slowdown, weight. */
void forecaster_save_slowdowns(const struct forecaster *f, struct firn_buf *out)
{
    size_t n = nprofiles(f) + f->pair_names.n;
    for (size_t a = 0; f->pairs_storage != NULL && a < n; a++)
        for (size_t b = 0; b < n && b < f->pairs.napps; b++) {
            size_t at = a * f->pairs.napps + b;
            if (a < f->pairs.napps && f->pairs.pair_weight[at] > 0)
                buf_printf(out, "%s\t%s\t%.9g\t%.9g\n", name_of(f, (int)a),
                           name_of(f, (int)b), f->pairs.pair_mean[at],
                           f->pairs.pair_weight[at]);
        }
}

/* Splits a line at its tabs; false: it has not four fields. */
static bool split(char *line, char *fields[4])
{
    int n = 0;
    fields[n++] = line;
    for (char *c = line; *c != '\0'; c++)
        if (*c == '\t') {
            *c = '\0';
            if (n == 4)
                return false;
            fields[n++] = c + 1;
        }
    return n == 4;
}

void forecaster_load_slowdowns(struct forecaster *f, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    char *fields[4];
    for (char *line; (line = lines_next(in)) != NULL;) {
        if (!split(line, fields))
            continue;
        double weight = strtod(fields[3], NULL);
        double slower = strtod(fields[2], NULL);
        int a = pair_number(f, fields[0]), b = pair_number(f, fields[1]);
        if (slower >= 1 && slower < FORECASTER_BAD && weight > 0 &&
            weight < LOADED_MOST)
            add_weighted(f, a, b, slower, weight);
    }
    lines_close(in);
}

/* --- slowdowns ----------------------------------------------------------- */

/* What live jobs showed of a pair over what the profile says; 1 without
 * news. */
static double seen_over_told(struct forecaster *f, struct forecaster_job job,
                             struct forecaster_job other, int profile)
{
    double told = firn_profile_beside(&f->priors.known->profiles.at[profile],
                                      other.job->spec.app);
    return told > 0 ? forecaster_slowdown(f, job, other) / told : 1;
}

double forecaster_slowdown_in(struct forecaster *f, struct forecaster_job job,
                              const struct firn_way *way,
                              struct forecaster_job other,
                              const struct firn_way *other_way)
{
    int a = outlook_of(f, job.key, job.job)->pair_app;
    if (a < 0 || f->priors.known->profiles.at[a].nsharing == 0)
        return 0;
    struct outlook *theirs = outlook_of(f, other.key, other.job);
    double other_samples = outlook_samples(f, theirs, other.job, other_way);
    struct outlook *o = outlook_of(f, job.key, job.job);
    double samples = outlook_samples(f, o, job.job, way);
    struct firn_way as = outlook_plain(f, o, way);
    if (as.type < 0 || as.type >= f->priors.cluster->ntypes)
        return 0;
    double row =
        firn_profile_beside_at(&f->priors.known->profiles.at[a],
                               f->priors.cluster->types[as.type].name, samples,
                               other.job->spec.app, other_samples);
    if (!(row > 0) || f->priors.is_recorded)
        return row;
    if (forecaster_slowdown(f, job, other) == FORECASTER_BAD)
        return FORECASTER_BAD;
    return fmax(1, row * seen_over_told(f, job, other, a));
}

double forecaster_slowdown(struct forecaster *f, struct forecaster_job job,
                           struct forecaster_job other)
{
    const double constant = f->priors.share_slowdown;
    const char *app = job.job->spec.app, *beside = other.job->spec.app;
    int a = outlook_of(f, job.key, job.job)->pair_app;
    int b = outlook_of(f, other.key, other.job)->pair_app;
    double measured =
        a >= 0 ? firn_profile_beside(&f->priors.known->profiles.at[a], beside)
               : 0;
    if (f->priors.is_recorded) {
        if (a < 0)
            return constant;
        measured = measured > 0 ? measured : constant;
        if (b < 0)
            return measured;
    } else {
        a = number_of(f, app);
        b = number_of(f, beside);
        if (f->bad.n > 0 && is_bad(f, bad_key(a, job), bad_key(b, other)))
            return FORECASTER_BAD;
    }
    bool is_seen = a >= 0 && b >= 0 && f->pairs_storage != NULL;
    if (!(measured > 0))
        return is_seen ? firn_pairs_xi(&f->pairs, (size_t)a, (size_t)b).xi
                       : constant;
    if (!is_seen)
        return measured;
    size_t at = (size_t)a * f->pairs.napps + (size_t)b;
    double weight = f->pairs.pair_weight[at];
    return (measured + weight * f->pairs.pair_mean[at]) / (1 + weight);
}

bool forecaster_slowdown_is_guess(struct forecaster *f,
                                  struct forecaster_job job,
                                  struct forecaster_job other)
{
    if (f->priors.is_recorded)
        return false;
    int profile = outlook_of(f, job.key, job.job)->pair_app;
    if (profile >= 0 &&
        firn_profile_beside(&f->priors.known->profiles.at[profile],
                            other.job->spec.app) > 0)
        return false;
    int a = number_of(f, job.job->spec.app);
    int b = number_of(f, other.job->spec.app);
    return a < 0 || b < 0 || f->pairs_storage == NULL ||
           firn_pairs_xi(&f->pairs, (size_t)a, (size_t)b).extrapolated;
}
