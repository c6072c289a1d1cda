/* livenodes.h - nodes as the daemon tells of them, as a table.
 */
#ifndef CLI_LIVENODES_H
#define CLI_LIVENODES_H
#include <firn/bytes.h>
#include <jansson.h>

/* Of GET /v1/nodes: a line for each. OUTSIDE are GPUs that somebody uses
 * without firn. */
void live_nodes_table(const json_t *answer, struct firn_buf *out);
/* GPUs in all, and those that nobody has. */
void live_nodes_sum(const json_t *answer, double *ngpus, double *nfree);

#endif
