/* counted.c - see counted.h: the sums, and the line through them. */
#include "model/counted.h"
#include <math.h>

static const double NOISE = 0.05, SHIFT_S = 2, MEMORY = 20;

void counted_add(struct counted *counted, double iterations, double trained_s)
{
    if (!(iterations > 0) || !(trained_s > 0) || !isfinite(iterations) ||
        !isfinite(trained_s))
        return;
    double w = 1 / (NOISE * trained_s * NOISE * trained_s);
    double keep = 1 - 1 / MEMORY; /* (3) */
    counted->w = keep * counted->w + w;
    counted->wn = keep * counted->wn + w * iterations;
    counted->wnn = keep * counted->wnn + w * iterations * iterations;
    counted->wt = keep * counted->wt + w * trained_s;
    counted->wnt = keep * counted->wnt + w * iterations * trained_s;
}

double counted_training_s(const struct counted *counted, double iterations)
{
    if (!(counted->w > 0) || !(iterations > 0))
        return 0; /* (1) */
    double shifts = 1 / (SHIFT_S * SHIFT_S) + counted->w;
    double det = shifts * counted->wnn - counted->wn * counted->wn;
    double slope = (shifts * counted->wnt - counted->wn * counted->wt) / det;
    double shift = (counted->wt - counted->wn * slope) / shifts;
    if (!(slope > 0) || shift < 0) { /* (2) */
        slope = counted->wnt / counted->wnn;
        shift = 0;
    }
    return shift + slope * iterations;
}

bool counted_is_sound(const struct counted *counted)
{
    const double sums[] = {counted->w, counted->wn, counted->wnn, counted->wt,
                           counted->wnt};
    for (int i = 0; i < 5; i++)
        if (!isfinite(sums[i]) || !(sums[i] > 0))
            return false;
    return counted->wn * counted->wn <= counted->w * counted->wnn * (1 + 1e-6);
}
