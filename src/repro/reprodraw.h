/* reprodraw.h - draws rows of traces with a given share of large jobs.
 *
 * For papers that state the share of large jobs in their workload: the rows are
 * drawn from published traces and are not changed.
 */
#ifndef REPRO_DRAW_H
#define REPRO_DRAW_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* `words` are N,SEED,SHARE,COLUMN and files. Draws N rows without replacement,
 * a SHARE of them with a value above 4 in COLUMN; they are written in the order
 * of the files. FIRN_EINVAL if there are too few rows or headers differ. */
enum firn_status draw_make(const struct words *words, struct firn_buf *out,
                           struct firn_error *err);

#endif
