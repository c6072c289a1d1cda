/* reprosvg.h - plots a sweep as SVG, one line per policy.
 */
#ifndef REPRO_SVG_H
#define REPRO_SVG_H
#include "repro/reprorun.h"
#include <firn/bytes.h>

/* Plots the first metric over the sweep by firn's own rules, and the paper's
 * numbers as dashed lines. If a point's name is not a number, the points are
 * equally spaced. Returns false, and appends nothing, without numbers. */
bool svg_plot(const struct repro_book *book, const struct repro_part *part,
              struct firn_buf *out);

#endif
