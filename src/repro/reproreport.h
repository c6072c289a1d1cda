/* reproreport.h - writes the results as Markdown with plots.
 */
#ifndef REPRO_REPORT_H
#define REPRO_REPORT_H
#include "repro/reprojudge.h"

/* Writes `path`: the rules of the verdicts and one table per paper. Writes one
 * page per paper (PAPER.md) and one plot per sweep (NAME.svg) into the folder
 * named like `path` without its extension (docs/results.md, docs/results/).
 * FIRN_EIO. */
enum firn_status report_write(const struct repro_book *book, const char *path,
                              struct firn_error *err);

/* Writes `path`, one page of HTML that needs no other file: the verdicts, then
 * the charts and tables of `firn report` for the runs that book_keep_files()
 * kept. FIRN_EIO; FIRN_ENOENT: none was kept. */
enum firn_status report_write_html(const struct repro_book *book,
                                   const char *path, struct firn_error *err);

#endif
