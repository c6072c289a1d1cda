/* livewords.h - formats the answers of why, eta and plan.
 */
#ifndef CLI_LIVEWORDS_H
#define CLI_LIVEWORDS_H
#include <firn/bytes.h>
#include <jansson.h>

void live_why_page(const json_t *answer, struct firn_buf *out);
void live_eta_page(const json_t *answer, struct firn_buf *out);
void live_plan_page(const json_t *answer, struct firn_buf *out);

#endif
