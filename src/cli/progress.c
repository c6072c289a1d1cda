/* progress.c - a progress bar on standard error, only on a terminal.
 *
 * The remaining time is extrapolated from the speed so far, after the first
 * second and 2 %.
 */
#include "cli/progress.h"
#include "base/clock.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, NAME_WIDTH = 28 };

void progress_begin(struct progress *progress, bool is_quiet)
{
    *progress = (struct progress){
        .is_on = !is_quiet && isatty(STDERR_FILENO),
        .began_s = clock_elapsed_s(),
    };
}

void progress_draw(struct progress *progress, double share, size_t nended,
                   size_t n, const char *now)
{
    double at_s = clock_elapsed_s(), spent_s = at_s - progress->began_s;
    if (!progress->is_on || at_s - progress->drawn_s < 0.1)
        return;
    int full = (int)(share * BAR_WIDTH);
    fprintf(stderr, "\r[");
    for (int i = 0; i < BAR_WIDTH; i++)
        fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%%  %zu of %zu done  %-.*s  ", (int)(100 * share),
            nended, n, NAME_WIDTH, now);
    double left_s = share > 0 ? spent_s * (1 - share) / share : 0;
    if (share > 0.02 && spent_s > 1)
        fprintf(stderr, left_s < 100 ? "%.0f s left" : "%.0f min left",
                left_s < 100 ? left_s : left_s / 60);
    fprintf(stderr, "\033[K");
    fflush(stderr);
    progress->is_drawn = true;
    progress->drawn_s = at_s;
}

void progress_wipe(struct progress *progress)
{
    if (progress->is_drawn)
        fprintf(stderr, "\r\033[K");
    progress->is_drawn = false;
}
