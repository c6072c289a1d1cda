/* reprometric.c - numbers of a result by name.
 */
#include "cli/reprometric.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/summary.h"
#include <math.h>
#include <string.h>

static double read_number(const struct firn_sim_result *result, size_t offset)
{
    double value;
    memcpy(&value, (const char *)result + offset, sizeof value);
    return value;
}

static double read_count(const struct firn_sim_result *result, size_t offset)
{
    long value;
    memcpy(&value, (const char *)result + offset, sizeof value);
    return (double)value;
}

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

static double read_small(const struct firn_sim_result *result, size_t offset)
{
    (void)offset;
    return mean_of(result, 0, 2);
}

static double read_large(const struct firn_sim_result *result, size_t offset)
{
    (void)offset;
    return mean_of(result, 2, FIRN_CLASSES);
}

static double read_round(const struct firn_sim_result *result, size_t offset)
{
    (void)offset;
    return result->rounds > 0 ? result->cpu_s / (double)result->rounds : NAN;
}

static const struct {
    const char *name;
    double (*read)(const struct firn_sim_result *result, size_t offset);
} made[] = {
    {"jct_small_s", read_small},
    {"jct_large_s", read_large},
    {"round_cpu_s", read_round},
};

enum { NMADE = sizeof made / sizeof *made };

static bool is_time(const char *name)
{
    size_t n = strlen(name);
    return n > 2 && strcmp(name + n - 2, "_s") == 0 &&
           strncmp(name, "gpu_s", 5) != 0;
}

static bool is_more_good(const char *name)
{
    return strcmp(name, "gpu_alloc_ratio") == 0 ||
           strcmp(name, "gpu_util_ratio") == 0;
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
        *out = (struct metric){is_number ? read_number : read_count,
                               fields[i].offset, is_time(name),
                               is_more_good(name)};
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
    firn_fail(err, FIRN_EINVAL, "no metric '%s'%s%s%s", name,
              best >= 0 ? "; did you mean '" : "",
              best >= 0 ? names.at[best] : "", best >= 0 ? "'?" : "");
    vec_release(&names);
    return FIRN_EINVAL;
}

enum firn_status metric_find(struct metric *out, const char *name,
                             struct firn_error *err)
{
    for (size_t i = 0; i < NMADE; i++)
        if (strcmp(made[i].name, name) == 0) {
            *out = (struct metric){made[i].read, 0, true, false};
            return FIRN_OK;
        }
    return find_field(out, name) ? FIRN_OK : unknown(name, err);
}

double metric_of(const struct metric *metric,
                 const struct firn_sim_result *result)
{
    return metric->read(result, metric->offset);
}
