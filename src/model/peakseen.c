/* peakseen.c - predicted memory corrected by what was seen.
 *
 * firn/peakseen.h has the equations. The bounds keep one absurd report (a
 * trainer that reports bytes for MiB) from refusing a model for ever: a peak
 * counts for twice the prediction at most, and eight right ones later its share
 * is a third.
 */
#include <firn/peakseen.h>

#include <math.h>

static const double LEAST = FIRN_PEAK_RATIO_LEAST, MOST = FIRN_PEAK_RATIO_MOST;
static const double BEYOND = 1.02, RAISE = 1.1;
enum { WINDOW = 8, COUNT_MAX = 1000000 };

double firn_peak_ratio(const struct firn_peak_seen *seen)
{
    double mean = seen->n > 0 ? seen->mean : 1;
    return fmin(fmax(fmax(mean, seen->floor), LEAST), MOST);
}

void firn_peak_saw(struct firn_peak_seen *seen, double predicted, double peak)
{
    if (!(predicted > 0) || !(peak > 0) || !isfinite(peak / predicted))
        return;
    double x = fmin(fmax(peak / predicted, LEAST), MOST);
    double mean = seen->n > 0 ? seen->mean : 1;
    int n = seen->n + 1; /* with the prediction itself */
    seen->mean = mean + (x - mean) / (n + 1 < WINDOW ? n + 1 : WINDOW);
    seen->n = seen->n < COUNT_MAX ? seen->n + 1 : COUNT_MAX;
}

void firn_peak_ran_out(struct firn_peak_seen *seen, double high, double had)
{
    double floor = RAISE * firn_peak_ratio(seen);
    if (high > 0 && had > 0)
        floor = fmax(floor, BEYOND * had / high);
    seen->floor = fmin(fmax(seen->floor, floor), MOST);
    seen->failures += seen->failures < COUNT_MAX;
}
