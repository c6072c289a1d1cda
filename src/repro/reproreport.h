/* reproreport.h - the results as a page of Markdown with pictures.
 */
#ifndef REPRO_REPORT_H
#define REPRO_REPORT_H
#include "repro/reprojudge.h"

/* Writes `path` and, for sweeps, NAME.svg into the folder of the same name
 * without its ending (docs/results.md, docs/results/). FIRN_EIO. */
enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err);

#endif
