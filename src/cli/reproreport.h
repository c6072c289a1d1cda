/* reproreport.h - the results as a page of Markdown with pictures.
 */
#ifndef CLI_REPROREPORT_H
#define CLI_REPROREPORT_H
#include "cli/reprojudge.h"

/* Writes `path` and, for sweeps, NAME.svg into the folder of the same name
 * without its ending (docs/results.md, docs/results/). FIRN_EIO. */
enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err);

#endif
