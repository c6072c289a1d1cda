/* liveplans.h - the plans of a language model, as `firn plan` prints them.
 */
#ifndef CLI_LIVEPLANS_H
#define CLI_LIVEPLANS_H
#include <firn/bytes.h>
#include <jansson.h>

/* Appends a table of `plans` and one of `nearest` of the answer; nothing when
 * it has none. */
void live_plans_put(const json_t *answer, struct firn_buf *out);

#endif
