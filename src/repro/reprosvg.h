/* reprosvg.h - a sweep as a picture: one line for each policy, in SVG.
 */
#ifndef REPRO_SVG_H
#define REPRO_SVG_H
#include "repro/reprorun.h"
#include <firn/bytes.h>

/* The scenario's first metric over its sweep, by firn's own rules; dashed,
 * what the paper prints. Where a point's name is no number the points stand
 * side by side. False, and nothing, when there is no number to draw. */
bool svg_plot(const struct repro_book *book, const struct repro_part *part,
              struct firn_buf *out);

#endif
