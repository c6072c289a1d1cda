/* repropage.h - what came out of scenarios, for people and for programs.
 */
#ifndef REPRO_PAGE_H
#define REPRO_PAGE_H
#include "repro/reprojudge.h"
#include <firn/bytes.h>

/* Tables, and "N of M claims hold" at the end. */
void page_text(const struct repro_book *book, struct firn_buf *out);
/* {"scenarios":[...],"claims":M,"held":N,"skipped":K} */
void page_json(const struct repro_book *book, struct firn_buf *out);

/* Cells that both the page and the report have. */

/* What a claim compares: "icefrog over Pollux+ at 2, makespan_s". */
void claim_text(const struct repro_scenario *it,
                const struct repro_claim *claim, struct firn_buf *out);
/* "1.51x", "12.0 %"; "-" for NaN. */
void figure_text(const struct repro_claim *claim, double figure,
                 struct firn_buf *out);
/* A value in the scenario's unit, four digits or so; "-" for NaN. */
void value_text(const struct repro_scenario *it, int metric, double value,
                struct firn_buf *out);
/* "jct_mean_s [h]" where its unit is not that of its name. */
void metric_text(const struct repro_scenario *it, int metric,
                 struct firn_buf *out);
/* The paper's own number, in its unit; NaN for none. */
double paper_number(const struct repro_scenario *it, int policy, int point,
                    int metric);
/* Is any policy run by the artifact's rules too? */
bool has_compat(const struct repro_part *part);
/* Nothing to show: it cannot be had, and the paper prints no number of it. */
bool is_blank(const struct repro_part *part, int policy, int point, int metric);
/* Why cells have no number, each reason once, as lines with `before` ahead. */
void reasons_text(const struct repro_book *book, const struct repro_part *part,
                  const char *before, struct firn_buf *out);
/* "N of M claims hold; K skipped; L not reproducible" */
void tally_text(struct repro_tally tally, struct firn_buf *out);

#endif
