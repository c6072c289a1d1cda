/* reprometric.c - finds a number of a result by its name.
 */
#include "repro/reprometric.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/summary.h"
#include <math.h>
#include <string.h>

static double number_at(const void *from, size_t offset)
{
    double value;
    memcpy(&value, (const char *)from + offset, sizeof value);
    return value;
}

static double read_number(const struct metric *metric,
                          const struct repro_result *result)
{
    return number_at(&result->sim, metric->offset);
}

static double read_count(const struct metric *metric,
                         const struct repro_result *result)
{
    long value;
    memcpy(&value, (const char *)&result->sim + metric->offset, sizeof value);
    return (double)value;
}

/* --- of several numbers -------------------------------------------------- */

/* Mean JCT over size classes [from, to). */
static double mean_of(const struct firn_sim_result *result, int from, int to)
{
    double sum_s = 0, jobs = 0;
    for (int i = from; i < to; i++) {
        const struct firn_sim_class *class = &result->classes[i];
        if (class->jobs == 0)
            continue;
        sum_s += class->jct_mean_s * (double)class->jobs;
        jobs += (double)class->jobs;
    }
    return jobs > 0 ? sum_s / jobs : NAN;
}

/* Quotient; NaN if n is 0. */
static double ratio(double of, long n)
{
    return n > 0 ? of / (double)n : NAN;
}

#define MADE(name, value)                                 \
    static double name(const struct metric *metric,       \
                       const struct repro_result *result) \
    {                                                     \
        const struct firn_sim_result *sim = &result->sim; \
        (void)metric;                                     \
        (void)sim;                                        \
        return value;                                     \
    }

MADE(read_small, mean_of(sim, 0, 2))
MADE(read_large, mean_of(sim, 2, FIRN_CLASSES))
MADE(read_p40, sim->jct_p40_s)
MADE(read_p80, sim->jct_p80_s)
MADE(read_low40, sim->jct_low40_s)
MADE(read_round, ratio(sim->decide_cpu_s, sim->rounds))
MADE(read_samples, sim->samples_s_mean)
MADE(read_together, ratio((double)sim->together_jobs, sim->jobs))
MADE(read_after, ratio((double)sim->after_jobs, sim->jobs))
MADE(read_error_mean, result->error.n > 0 ? result->error.mean : (double)NAN)
MADE(read_error_max, result->error.n > 0 ? result->error.max : (double)NAN)

static const struct {
    const char *name;
    double (*read)(const struct metric *metric,
                   const struct repro_result *result);
} made[] = {
    {"jct_small_s", read_small},   {"jct_large_s", read_large},
    {"round_cpu_s", read_round},   {"together_share", read_together},
    {"after_share", read_after},   {"error_mean", read_error_mean},
    {"error_max", read_error_max}, {"samples_rate", read_samples},
    {"jct_p40_s", read_p40},       {"jct_p80_s", read_p80},
    {"jct_low40_s", read_low40},
};

enum { NMADE = sizeof made / sizeof *made };

/* --- of a group ---------------------------------------------------------- */

static const struct firn_sim_group *
group_of(const struct metric *metric, const struct firn_sim_result *result)
{
    for (int i = 0; i < result->ngroups; i++)
        if (strcmp(result->groups[i].name, metric->group) == 0)
            return &result->groups[i];
    return NULL;
}

static double read_group(const struct metric *metric,
                         const struct repro_result *result)
{
    const struct firn_sim_group *group = group_of(metric, &result->sim);
    return group != NULL ? number_at(group, metric->offset) : NAN;
}

static double read_group_jobs(const struct metric *metric,
                              const struct repro_result *result)
{
    const struct firn_sim_group *group = group_of(metric, &result->sim);
    return group != NULL ? (double)group->jobs : 0;
}

static const struct {
    const char *name;
    size_t offset;
} grouped[] = {
    {"jct_mean_s", offsetof(struct firn_sim_group, jct_mean_s)},
    {"queue_mean_s", offsetof(struct firn_sim_group, queue_mean_s)},
    {"queue_max_s", offsetof(struct firn_sim_group, queue_max_s)},
    {"jobs", 0},
};

enum { NGROUPED = sizeof grouped / sizeof *grouped };

static enum firn_status find_grouped(struct metric *out, const char *name,
                                     const char *at, struct firn_error *err)
{
    size_t n = (size_t)(at - name), i = 0;
    while (i < NGROUPED && (strlen(grouped[i].name) != n ||
                            strncmp(grouped[i].name, name, n) != 0))
        i++;
    if (i == NGROUPED)
        return firn_fail(err, FIRN_EINVAL,
                         "unknown metric '%s'; a group has jct_mean_s, "
                         "queue_mean_s, queue_max_s and jobs",
                         name);
    struct metric metric = {.read = read_group, .offset = grouped[i].offset};
    metric.is_time = i + 1 < NGROUPED;
    if (!metric.is_time)
        metric.read = read_group_jobs;
    if (strcmp(at + 1, "-") != 0 &&
        !str_copy(metric.group, sizeof metric.group, at + 1))
        return firn_fail(err, FIRN_EINVAL, "the group's name is too long");
    *out = metric;
    return FIRN_OK;
}

/* --- by name ------------------------------------------------------------- */

static bool is_time(const char *name)
{
    size_t n = strlen(name);
    return n > 2 && strcmp(name + n - 2, "_s") == 0 &&
           strncmp(name, "gpu_s", 5) != 0;
}

static bool is_more_good(const char *name)
{
    return strcmp(name, "gpu_alloc_ratio") == 0 ||
           strcmp(name, "gpu_util_ratio") == 0 ||
           strcmp(name, "together_share") == 0 ||
           strcmp(name, "after_share") == 0 ||
           strcmp(name, "samples_rate") == 0;
}

static bool find_field(struct metric *out, const char *name)
{
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    for (size_t i = 0; i < n; i++) {
        bool is_number = fields[i].kind == SUMMARY_NUMBER;
        if (strcmp(fields[i].name, name) != 0 ||
            (!is_number && fields[i].kind != SUMMARY_COUNT))
            continue;
        *out = (struct metric){.read = is_number ? read_number : read_count,
                               .offset = fields[i].offset,
                               .is_time = is_time(name),
                               .is_more_good = is_more_good(name),
                               .is_measured = fields[i].is_measured};
        return true;
    }
    return false;
}

static enum firn_status unknown(const char *name, struct firn_error *err)
{
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    VEC(const char *) names = {0};
    for (size_t i = 0; i < n; i++)
        if (fields[i].kind == SUMMARY_NUMBER || fields[i].kind == SUMMARY_COUNT)
            vec_add(&names, fields[i].name);
    for (size_t i = 0; i < NMADE; i++)
        vec_add(&names, made[i].name);
    int best = str_nearest(name, names.at, names.n);
    firn_fail(err, FIRN_EINVAL, "unknown metric '%s'%s%s%s", name,
              best >= 0 ? "; did you mean '" : "",
              best >= 0 ? names.at[best] : "", best >= 0 ? "'?" : "");
    vec_release(&names);
    return FIRN_EINVAL;
}

enum firn_status metric_find(struct metric *out, const char *name,
                             struct firn_error *err)
{
    const char *at = strchr(name, '@');
    if (at != NULL)
        return find_grouped(out, name, at, err);
    for (size_t i = 0; i < NMADE; i++)
        if (strcmp(made[i].name, name) == 0) {
            *out = (struct metric){.read = made[i].read,
                                   .is_time = is_time(name),
                                   .is_more_good = is_more_good(name),
                                   .is_measured = made[i].read == read_round};
            return FIRN_OK;
        }
    return find_field(out, name) ? FIRN_OK : unknown(name, err);
}

double metric_of(const struct metric *metric, const struct repro_result *result)
{
    return metric->read(metric, result);
}
