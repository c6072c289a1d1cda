/* livenodes.h - the nodes of firnd as a table.
 */
#ifndef CLI_LIVENODES_H
#define CLI_LIVENODES_H
#include <firn/bytes.h>
#include <jansson.h>

/* Formats the answer of GET /v1/nodes. OUTSIDE is the number of GPUs in use by
 * foreign processes. */
void live_nodes_table(const json_t *answer, struct firn_buf *out);
/* Sums of GPUs and of free GPUs. */
void live_nodes_sum(const json_t *answer, double *ngpus, double *nfree);

#endif
