/* progress.h - a bar on standard error, if that is a terminal.
 *
 * In a pipe or a file nothing is ever written.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include <stdbool.h>
#include <stddef.h>

struct progress {
    bool is_on, is_drawn;
    double began_s, drawn_s;
};

/* `is_quiet` keeps it off everywhere. */
void progress_begin(struct progress *progress, bool is_quiet);
/* How far all is, 0..1, how many of the runs have ended, and what runs now.
 * Drawn at most ten times a second. */
void progress_draw(struct progress *progress, double share, size_t nended,
                   size_t n, const char *now);
/* Leaves the line empty: before anything else is written to the terminal. */
void progress_wipe(struct progress *progress);

#endif
