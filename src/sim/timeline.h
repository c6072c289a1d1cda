/* timeline.h - the state of the cluster over time, as CSV.
 *
 * A row at each multiple of the step, with the values that held then: the
 * last ones that came at or before it. With step 0 the step adapts: it begins
 * at a second and doubles whenever there would be more than TIMELINE_ROWS rows.
 * All functions but the first do nothing for NULL.
 */
#ifndef SIM_TIMELINE_H
#define SIM_TIMELINE_H
#include <firn/status.h>

enum {
    TIMELINE_ROWS = 1000,         /* at most, when the step adapts */
    TIMELINE_ROWS_MAX = 10000000, /* at most, when it does not */
};

struct timeline;

struct timeline_values {
    long running, waiting; /* jobs */
    long gpus_up, gpus_held, gpus_progressing;
    long gpus_free_fragmented; /* free, on nodes that are partly used */
};

/* step_s >= 0. FIRN_EIO when the file cannot be made; it appears when it is
 * closed. */
enum firn_status timeline_open(struct timeline **out, const char *path,
                               double step_s, struct firn_error *err);
/* From `at_s` on these values hold; `at_s` never goes back. */
void timeline_add(struct timeline *timeline, double at_s,
                  const struct timeline_values *values);
/* FIRN_EIO when a write failed, FIRN_EINVAL when the step made more than
 * TIMELINE_ROWS_MAX rows: then the file has the first ones. Frees it in any
 * case. */
enum firn_status timeline_close(struct timeline *timeline,
                                struct firn_error *err);

#endif
