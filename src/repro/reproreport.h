/* reproreport.h - writes the results as Markdown with plots.
 */
#ifndef REPRO_REPORT_H
#define REPRO_REPORT_H
#include "repro/reprojudge.h"

/* Writes `path` and, for each sweep, NAME.svg in the directory named like
 * `path` without its extension (docs/results.md, docs/results/). FIRN_EIO. */
enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err);

#endif
