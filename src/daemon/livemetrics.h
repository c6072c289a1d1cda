/* livemetrics.h - the metrics of firnd as OpenMetrics text.
 *
 * All names are in livemetrics.def and in docs/metrics.md, which a test keeps
 * in step. A counter's name gets "_total" in the text, a histogram's "_bucket",
 * "_sum" and "_count".
 */
#ifndef DAEMON_LIVEMETRICS_H
#define DAEMON_LIVEMETRICS_H
#include <firn/bytes.h>
#include <stddef.h>

enum metric {
#define METRIC(id, type, name, label, help) METRIC_##id,
#include "daemon/livemetrics.def"
#undef METRIC
    METRIC_N
};

/* The values of labels. Jobs go by enum live_state, pending ones by enum
 * live_reason, steps by enum
 * firn_step_kind, stops by enum live_cause without its first, ends by enum
 * firn_end, refusals by enum http_refusal, the disk by enum room. */
enum metric_gpu {
    METRIC_GPU_FREE,
    METRIC_GPU_HELD,
    METRIC_GPU_OUTSIDE,
    METRIC_GPU_DRAINED,
    METRIC_GPU_DOWN
};
enum metric_node { METRIC_NODE_UP, METRIC_NODE_DRAINED, METRIC_NODE_DOWN };
enum metric_submit {
    METRIC_SUBMIT_NEW,
    METRIC_SUBMIT_AGAIN,
    METRIC_SUBMIT_REFUSED
};
enum metric_report {
    METRIC_REPORT_TAKEN,
    METRIC_REPORT_STALE,
    METRIC_REPORT_REFUSED
};
enum metric_restart {
    METRIC_RESTART_RESIZE,
    METRIC_RESTART_PREEMPT,
    METRIC_RESTART_FAILURE,
    METRIC_RESTART_MEMORY,
    METRIC_RESTART_LOST
};
enum metric_undo {
    METRIC_UNDO_SHARE,
    METRIC_UNDO_RESIZE,
    METRIC_UNDO_TRANSFER
};

struct metrics;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

/* `label` is an index as above; 0 where there are none. */
void metrics_add(struct metrics *metrics, enum metric id, int label, double by);
void metrics_set(struct metrics *metrics, enum metric id, int label,
                 double value);
/* Of a metric whose label has no fixed values: a series for that value, and
 * none. A series is there until the metric is cleared. */
void metrics_row(struct metrics *metrics, enum metric id, const char *value,
                 double number);
/* The same of a metric of single GPUs, which has three labels. */
struct metric_gpu_name {
    const char *node, *type;
    int gpu;
};
void metrics_gpu_row(struct metrics *metrics, enum metric id,
                     const struct metric_gpu_name *name, double number);
void metrics_clear(struct metrics *metrics, enum metric id);
/* Adds to a histogram; a value that is not finite is left out. */
void metrics_observe(struct metrics *metrics, enum metric id, double value);
/* Counts an answered request in firn_http_requests. The texts must be
 * constants.
 */
void metrics_http(struct metrics *metrics, const char *method,
                  const char *route, int status);

double metrics_get(const struct metrics *metrics, enum metric id, int label);
/* Appends all metrics, up to "# EOF". */
void metrics_write(const struct metrics *metrics, struct firn_buf *out);
/* The name of a metric, and of firn_http_requests for METRIC_N. */
const char *metrics_name(enum metric id);

#endif
