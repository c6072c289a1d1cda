/* repropage.h - results of scenarios as text and as JSON.
 */
#ifndef REPRO_PAGE_H
#define REPRO_PAGE_H
#include "repro/reprojudge.h"
#include <firn/bytes.h>

/* Tables, and "N of M claims hold" as the last line. */
void page_text(const struct repro_book *book, struct firn_buf *out);
/* {"scenarios":[...],"claims":M,"held":N,"skipped":K} */
void page_json(const struct repro_book *book, struct firn_buf *out);

/* Parts that page and report share. All append to `out`. */

/* "icefrog over Pollux+ at 2, makespan_s" */
void claim_text(const struct repro_scenario *it,
                const struct repro_claim *claim, struct firn_buf *out);
/* "1.51x", "12.0 %"; "-" for NaN */
void figure_text(const struct repro_claim *claim, double figure,
                 struct firn_buf *out);
/* A value in the scenario's unit with about four digits; "-" for NaN. */
void value_text(const struct repro_scenario *it, int metric, double value,
                struct firn_buf *out);
/* "jct_mean_s", or "jct_mean_s [h]" if the scenario has another unit. */
void metric_text(const struct repro_scenario *it, int metric,
                 struct firn_buf *out);
/* The number in the paper, in the scenario's unit; NaN if there is none. */
double paper_number(const struct repro_scenario *it, int policy, int point,
                    int metric);
/* Is a policy also run by the rules of a published simulator? */
bool has_compat(const struct repro_part *part);
/* Is there neither a result nor a number of the paper? */
bool is_blank(const struct repro_part *part, int policy, int point, int metric);
/* The reasons why cells have no number, each once, as lines with the prefix
 * `before`. */
void reasons_text(const struct repro_book *book, const struct repro_part *part,
                  const char *before, struct firn_buf *out);
/* "N of M claims hold; K skipped; L not reproducible" */
void tally_text(struct repro_tally tally, struct firn_buf *out);

#endif
