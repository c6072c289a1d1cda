/* recount.c - a result counted anew from a log's lines.
 *
 * Counts, the longest completion time and the makespan must agree exactly:
 * they come from single numbers of the log. Means, percentiles (which
 * interpolate) and GPU-seconds are sums that the run may have added in another
 * order, so they must agree to 1e-9 of their size.
 *
 * Not counted anew: fragmentation and fairness, which need the whole history
 * of the cluster, and rounds and events, of which a log has no trace. The
 * parts of the GPU-seconds given must add up.
 */
#include "sim/recount.h"
#include "sim/summary.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 1e-9;

void recount_submit(struct recount *count, double at_s)
{
    if (count->submitted++ == 0)
        count->first_submit_s = at_s;
}

void recount_pass(struct recount *count, double dt_s, int nbusy, int nup)
{
    if (count->submitted == 0)
        return;
    count->busy_gpu_s += dt_s * nbusy;
    count->up_gpu_s += dt_s * nup;
}

static int class_of(int gpus)
{
    if (gpus <= 1)
        return 0;
    return gpus <= 4 ? 1 : gpus <= 8 ? 2 : 3;
}

void recount_done(struct recount *count, int gpus, double finished_s,
                  double jct_s, double queue_s)
{
    int c = class_of(gpus);
    vec_add(&count->jct_s, jct_s);
    vec_add(&count->queue_s, queue_s);
    count->class_jobs[c]++;
    count->class_jct_s[c] += jct_s;
    count->last_done_s = fmax(count->last_done_s, finished_s);
    count->busy_end_gpu_s = count->busy_gpu_s;
    count->up_end_gpu_s = count->up_gpu_s;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean(const double *at, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += at[i];
    return n > 0 ? sum / (double)n : NAN;
}

static double percentile(const double *sorted, size_t n, double share)
{
    if (n == 0)
        return NAN;
    double rank = share * (double)(n - 1);
    size_t below = (size_t)rank;
    size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] +
           (sorted[above] - sorted[below]) * (rank - (double)below);
}

static void fill_times(struct recount *count, struct firn_sim_result *out)
{
    size_t n = count->jct_s.n;
    double *jct_s = count->jct_s.at, *queue_s = count->queue_s.at;
    out->jobs = (long)n;
    out->jct_mean_s = mean(jct_s, n);
    out->queue_mean_s = mean(queue_s, n);
    if (n > 0) {
        qsort(jct_s, n, sizeof *jct_s, ascending);
        qsort(queue_s, n, sizeof *queue_s, ascending);
    }
    out->jct_p50_s = percentile(jct_s, n, 0.50);
    out->jct_p90_s = percentile(jct_s, n, 0.90);
    out->jct_p99_s = percentile(jct_s, n, 0.99);
    out->jct_max_s = n > 0 ? jct_s[n - 1] : NAN;
    out->queue_p50_s = percentile(queue_s, n, 0.50);
    out->queue_p99_s = percentile(queue_s, n, 0.99);
    out->makespan_s = n > 0 ? count->last_done_s - count->first_submit_s : NAN;
}

static void fill(struct recount *count, struct firn_sim_result *out)
{
    fill_times(count, out);
    for (int c = 0; c < FIRN_CLASSES; c++) {
        long jobs = count->class_jobs[c];
        out->classes[c].jobs = jobs;
        out->classes[c].jct_mean_s =
            jobs > 0 ? count->class_jct_s[c] / (double)jobs : NAN;
    }
    out->rejected = count->rejected;
    out->unfinished =
        count->submitted - out->jobs - count->rejected - count->failed;
    out->restarts = count->restarts;
    out->steps = count->steps;
    out->failures = count->failures;
    out->gpu_s_given = count->gpu_s_given;
    out->gpu_alloc_ratio = count->busy_end_gpu_s / count->up_end_gpu_s;
}

static bool same(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    double size = fmax(fabs(a), fabs(b));
    return a == b || fabs(a - b) <= tolerance * size;
}

/* What is compared, and how closely. */
static const struct {
    const char *name;
    bool is_sum;
} compared[] = {
    {"jobs", false},           {"unfinished", false},
    {"rejected", false},       {"jct_mean_s", true},
    {"jct_p50_s", true},       {"jct_p90_s", true},
    {"jct_p99_s", true},       {"jct_max_s", false},
    {"jobs_gpus_1", false},    {"jct_mean_s_gpus_1", true},
    {"jobs_gpus_2-4", false},  {"jct_mean_s_gpus_2-4", true},
    {"jobs_gpus_5-8", false},  {"jct_mean_s_gpus_5-8", true},
    {"jobs_gpus_9+", false},   {"jct_mean_s_gpus_9+", true},
    {"queue_mean_s", true},    {"queue_p50_s", true},
    {"queue_p99_s", true},     {"makespan_s", false},
    {"gpu_alloc_ratio", true}, {"restarts", false},
    {"failures", false},       {"gpu_s_given", true},
    {"steps", false},
};

static double value_of(const char *name, const struct firn_sim_result *result)
{
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        const char *at = (const char *)result + fields[i].offset;
        return fields[i].kind == SUMMARY_COUNT ? (double)*(const long *)at
                                               : *(const double *)at;
    }
    FIRN_BUG("no field '%s' in the summary", name);
}

enum firn_status recount_compare(struct recount *count,
                                 const struct firn_sim_result *said,
                                 struct firn_error *err)
{
    struct firn_sim_result counted = {0};
    fill(count, &counted);
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
        double a = value_of(compared[i].name, said);
        double b = value_of(compared[i].name, &counted);
        if (!same(a, b, compared[i].is_sum ? TOLERANCE : 0))
            return firn_fail(err, FIRN_EINVAL,
                             "the summary says '%s' is %.17g, the lines say "
                             "%.17g",
                             compared[i].name, a, b);
    }
    double parts = said->gpu_s_useful + said->gpu_s_overhead + said->gpu_s_lost;
    if (!same(said->gpu_s_given, parts, TOLERANCE))
        return firn_fail(err, FIRN_EINVAL,
                         "gpu_s_given is %.17g, its parts add up to %.17g",
                         said->gpu_s_given, parts);
    return FIRN_OK;
}

void recount_release(struct recount *count)
{
    if (!count)
        return;
    vec_release(&count->jct_s);
    vec_release(&count->queue_s);
    *count = (struct recount){0};
}
