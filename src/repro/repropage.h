/* repropage.h - results of scenarios as text and as JSON.
 */
#ifndef REPRO_PAGE_H
#define REPRO_PAGE_H
#include "repro/reprojudge.h"
#include <firn/bytes.h>

/* Tables, and "N of M claims hold" as the last line. */
void page_text(const struct repro_book *book, struct firn_buf *out);
/* {"scenarios":[...],"claims":M,"held":N,"undecided":U,"skipped":K} */
void page_json(const struct repro_book *book, struct firn_buf *out);

/* Parts that page and report share. All append to `out`. */

/* "icefrog over Pollux+ at 2, makespan_s" */
void claim_text(const struct repro_scenario *it,
                const struct repro_claim *claim, struct firn_buf *out);
/* "1.51x", "12.0 %"; "-" for NaN */
void figure_text(const struct repro_claim *claim, double figure,
                 struct firn_buf *out);
/* "1.42 to 1.60", "10.1 to 13.9 %"; "one draw"; nothing for NaN */
void interval_text(const struct repro_claim *claim, struct repro_figure figure,
                   struct firn_buf *out);
/* "yes", "undecided", "no: short" */
void verdict_text(const struct repro_verdict *verdict, struct firn_buf *out);
/* "1.51x (1.42 to 1.60), yes": the claim with the variant of its policy; "-" if
 * the policy has none. */
void variant_text(const struct repro_book *book, const struct repro_part *part,
                  const struct repro_claim *claim, struct firn_buf *out);
/* Has a policy of a claim a variant? */
bool has_variant(const struct repro_part *part);
/* Lines "LABEL is POLICY with SETTINGS", one for each variant, with the prefix
 * `before`. */
void variants_text(const struct repro_part *part, const char *before,
                   struct firn_buf *out);
/* How the claims of a part were judged: number of draws, or that there is one
 * workload; empty if the part has no result. */
void draws_text(const struct repro_book *book, const struct repro_part *part,
                struct firn_buf *out);
/* Has a cell several draws, so that values have intervals? */
bool has_draws(const struct repro_part *part);
/* A value in the scenario's unit with about four digits; "-" for NaN. */
void value_text(const struct repro_scenario *it, int metric, double value,
                struct firn_buf *out);
/* "1.42 to 1.60" in the scenario's unit; nothing for one draw or NaN. */
void spread_text(const struct repro_scenario *it, int metric,
                 struct repro_figure figure, struct firn_buf *out);
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
/* "N of M claims hold; U undecided; K skipped; L not reproducible" */
void tally_text(struct repro_tally tally, struct firn_buf *out);

#endif
