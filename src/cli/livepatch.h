/* livepatch.h - a command that changes one thing: PATCH with a JSON body.
 */
#ifndef CLI_LIVEPATCH_H
#define CLI_LIVEPATCH_H
#include "cli/live.h"

/* Sends PATCH before NAME with `body`, which is given away, and prints what
 * `print` writes of the answer. Returns the exit status. */
int live_patch(struct live *live, const char *before, const char *name,
               json_t *body, live_printer *print);

#endif
