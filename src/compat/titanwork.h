/* titanwork.h - how much work a TitanSched job is.
 *
 * Private to the titan world. A job trains until its curve meets the target of
 * its row; the work is the samples of an epoch times that epoch.
 */
#ifndef COMPAT_TITANWORK_H
#define COMPAT_TITANWORK_H
#include "base/map.h"
#include "base/vec.h"
#include <firn/status.h>
#include <stdbool.h>

/* The columns of a row that are not in firn_job_spec. */
struct titanwork_goal {
    int set, curve; /* -1: no such row */
    double metric;
    bool is_high; /* as the artifact reads it: last-bit */
};

struct titanwork_point {
    double epoch, metric;
    int next; /* of the same curve; -1: the last */
};

struct titanwork {
    struct map sets;     /* "food101" */
    struct map apps;     /* "vit@food101" */
    struct map curves;   /* "vit@food101,4e-4,1": rate and gradient steps */
    VEC(double) samples; /* of an epoch, by set */
    VEC(struct titanwork_point) points;
    VEC(int) heads;                   /* by curve: its last point */
    VEC(struct titanwork_goal) goals; /* by line of the workload */
};

/* Reads the tables in FOLDER/ymir and the goals of a workload. FIRN_EINVAL
 * with file and line, and the known applications, for an unknown one. Release
 * it even after a failure. */
enum firn_status titanwork_read(struct titanwork *work, const char *folder,
                                const char *trace, struct firn_error *err);

/* Samples of the job in that line; 0 when the line holds none. */
double titanwork_samples(const struct titanwork *work, long line);

void titanwork_release(struct titanwork *work);

#endif
