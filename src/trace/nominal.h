/* nominal.h - how much work an application is, for traces without durations.
 *
 * Pollux, Titan and EasyScale workloads name an application and leave its
 * duration to their simulators. nominal.def holds one number for each: the
 * seconds of one GPU of the named type that the work takes (EasyScale: that
 * one epoch takes), as the authors' own tables give it. A job's duration is
 * that number over its GPUs: perfect scaling, which is why such jobs carry
 * `is_nominal`.
 */
#ifndef TRACE_NOMINAL_H
#define TRACE_NOMINAL_H
#include "trace/row.h"

struct nominal {
    const char *format; /* which trace format the name belongs to */
    const char *app;
    const char *gpu;  /* type the seconds were measured on */
    double gpu_s;     /* GPU-seconds of all its work, or of one epoch */
    double restart_s; /* what a restart costs */
};

/* The entry of that application on that type of GPU; NULL for none. Case
 * counts in the application, not in the GPU. */
const struct nominal *nominal_find(const char *format, const char *app,
                                   const char *gpu);

/* Gives a job with its app and GPUs the duration of `times` that work and its
 * restart cost. For NULL work: false, saying that the application is not known
 * and which ones are. */
bool nominal_fill(const char *format, const struct nominal *work, double times,
                  struct firn_job_spec *spec, struct firn_error *err);

enum {
    NOMINAL_COLUMNS = 5,
    NOMINAL_GPUS_MAX = 64, /* the most replicas the authors' jobs may have */
};

/* The next row of a file whose five columns are name, submission, application,
 * GPUs and batch, in that order of wanting: an elastic job with its nominal
 * work on the GPUs it asked for. */
enum firn_row nominal_row(struct row *row, struct lines *in, const char *format,
                          const char *gpu, struct firn_job_spec *out,
                          struct firn_error *err);

#endif
