/* told.c - see told.h: the sums, and the line through them. */
#include "model/told.h"
#include <math.h>

static const double NOISE = 0.05, SHIFT = 0.4, SLOPE = 0.5, MEMORY = 20;

void told_add(struct told *told, double told_s, double took_s)
{
    if (!(told_s > 0) || !(took_s > 0) || !isfinite(told_s) ||
        !isfinite(took_s))
        return;
    double w = 1 / (NOISE * told_s * NOISE * told_s), y = took_s - told_s;
    double keep = 1 - 1 / MEMORY; /* (3) */
    told->w = keep * told->w + w;
    told->wd = keep * told->wd + w * told_s;
    told->wdd = keep * told->wdd + w * told_s * told_s;
    told->wy = keep * told->wy + w * y;
    told->wdy = keep * told->wdy + w * told_s * y;
}

double told_training_s(const struct told *told, double told_s, double around_s)
{
    double a = fmax(around_s, 0), least = SHIFT * a;
    double wx = told->wd - a * told->w;
    double wxx = fmax(told->wdd - 2 * a * told->wd + a * a * told->w, 0);
    double wxy = told->wdy - a * told->wy;
    double shifts = (least > 0 ? 1 / (least * least) : 0) + told->w;
    double slopes = 1 / (SLOPE * SLOPE) + wxx;
    double shift = 0, slope = wxy / slopes;
    if (least > 0) {
        double det = shifts * slopes - wx * wx;
        slope = fmax((wxy * shifts - told->wy * wx) / det, -1); /* (2) */
        shift = (told->wy - wx * slope) / shifts;
    }
    return shift + (1 + fmax(slope, -1)) * (told_s - a);
}

bool told_is_sound(const struct told *told)
{
    const double sums[] = {told->w, told->wd, told->wdd, told->wy, told->wdy};
    for (int i = 0; i < 5; i++)
        if (!isfinite(sums[i]))
            return false;
    return told->w >= 0 && told->wd >= 0 && told->wdd >= 0 &&
           told->wd * told->wd <= told->w * told->wdd * (1 + 1e-6);
}
