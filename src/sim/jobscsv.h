/* jobscsv.h - one line of CSV for each job that finished.
 *
 * In order of completion, streamed. Times in seconds of the trace, with all
 * their digits; an empty field where there is nothing to say. All functions
 * but the first do nothing for NULL.
 */
#ifndef SIM_JOBSCSV_H
#define SIM_JOBSCSV_H
#include <firn/job.h>

struct jobscsv;

/* FIRN_EIO when the file cannot be made. It appears when it is closed. */
enum firn_status jobscsv_open(struct jobscsv **out, const char *path,
                              struct firn_error *err);
/* `job` ended at `end_s`; it may still hold its GPUs. `rho` may be NaN. */
void jobscsv_add(struct jobscsv *csv, const struct firn_job *job, double end_s,
                 double rho);
/* FIRN_EIO when a write failed; frees it in any case. */
enum firn_status jobscsv_close(struct jobscsv *csv, struct firn_error *err);

#endif
