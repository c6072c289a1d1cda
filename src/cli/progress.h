/* progress.h - a progress bar on standard error, only on a terminal.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include <stdbool.h>
#include <stddef.h>

struct progress {
    bool is_on, is_drawn;
    double began_s, drawn_s;
};

/* `is_quiet`: no bar at all. */
void progress_begin(struct progress *progress, bool is_quiet);
/* Draws the total progress (0..1), the number of finished runs and the name of
 * a current one, at most ten times a second. */
void progress_draw(struct progress *progress, double share, size_t nended,
                   size_t n, const char *now);
/* Clears the line; call it before other output to the terminal. */
void progress_wipe(struct progress *progress);

#endif
