/* liveterm.h - attaches to the terminal of a job (cli/pty.h) by its number.
 */
#ifndef CLI_LIVETERM_H
#define CLI_LIVETERM_H
#include "cli/live.h"

/* Waits until the job runs, prints each new state on standard error, attaches
 * to its terminal, and returns the exit status: that of the job's command; 0 if
 * the user detached; 1 after an error message; 130 if interrupted. `name` is a
 * number, a name or a prefix. */
int live_attach(struct live *live, const char *name);

#endif
