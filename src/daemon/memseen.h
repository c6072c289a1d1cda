/* memseen.h - predicted memory over what was seen, by model and mode.
 *
 * A mode is the precision, what is trained (all, or adapters of a kind) and the
 * checkpointing of activations. firn/peakseen.h has the arithmetic.
 */
#ifndef DAEMON_MEMSEEN_H
#define DAEMON_MEMSEEN_H
#include <firn/bytes.h>
#include <firn/job.h>
#include <firn/peakseen.h>

struct memseen;

struct memseen *memseen_new(void);
void memseen_free(struct memseen *seen);

/* What is known of jobs like it; zeroed: nothing. */
struct firn_peak_seen memseen_get(const struct memseen *seen,
                                  const struct firn_job_spec *spec);
/* 0: nothing is known. */
double memseen_ratio(const struct memseen *seen,
                     const struct firn_job_spec *spec);
/* Replaces what is known. Of more than 256 models and modes the one that was
 * replaced longest ago is forgotten. */
void memseen_put(struct memseen *seen, const struct firn_job_spec *spec,
                 const struct firn_peak_seen *now);

/* A line for each; loading adds to what there is and leaves out lines that it
 * does not understand. */
void memseen_save(const struct memseen *seen, struct firn_buf *out);
void memseen_load(struct memseen *seen, const char *text);

#endif
