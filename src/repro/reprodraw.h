/* reprodraw.h - rows drawn from tables of jobs, so many of them large.
 *
 * For workloads whose authors say how many GPUs their jobs ask for: rows of
 * published traces of one format, as they are, in the paper's proportion.
 */
#ifndef REPRO_DRAW_H
#define REPRO_DRAW_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* `words` are N,SEED,SHARE,COLUMN and the files: N rows of all of them, SHARE
 * of which have more than 4 in that column, drawn without putting back, in the
 * order of the files. FIRN_EINVAL when there are too few of either kind or a
 * file has another header than the first. */
enum firn_status draw_make(const struct words *words, struct firn_buf *out,
                           struct firn_error *err);

#endif
