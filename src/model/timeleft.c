/* timeleft.c - work left, time to accuracy, finish-time fairness.
 *
 * Equations (1), (16) and (17) of IceFrog. For an allocation of no GPUs the
 * printed (16) divides by zero; firn uses the share of waiting one interval and
 * then running at the best rate, which keeps plans comparable under load.
 *
 * rho is that of Themis (NSDI'20): the time in the shared cluster over the
 * time with an equal part of it. As in Shockwave, the equal part is not taken
 * at one moment but averaged over the job's life: contention is the mean of
 * GPUs asked for over GPUs there are.
 *
 * Cost: O(1), or O(n) where n values come in.
 */
#include <firn/progress.h>
#include <math.h>

double firn_progress_left(double max_epochs, double epoch_samples,
                          double done_samples)
{
    return fmax(max_epochs * epoch_samples - done_samples, 0);
}

double firn_progress_done(double samples, double psi)
{
    return samples * fmin(fmax(psi, 0), 1);
}

double firn_progress_tacc(double age_s, double left_samples,
                          double progress_samples_s)
{
    if (!(left_samples > 0))
        return age_s;
    if (!(progress_samples_s > 0))
        return (double)INFINITY;
    return age_s + left_samples / progress_samples_s;
}

double firn_progress_tacc_idle(double age_s, double interval_s,
                               double left_samples, double best_samples_s)
{
    if (!(left_samples > 0))
        return age_s;
    return firn_progress_tacc(age_s + interval_s, left_samples, best_samples_s);
}

void firn_progress_shares(double age_s, double left_samples,
                          const double *progress_samples_s, size_t n,
                          double *share)
{
    double best_s = (double)INFINITY;
    for (size_t i = 0; i < n; i++)
        best_s = fmin(best_s, firn_progress_tacc(age_s, left_samples,
                                                 progress_samples_s[i]));
    for (size_t i = 0; i < n; i++) {
        double t_s =
            firn_progress_tacc(age_s, left_samples, progress_samples_s[i]);
        if (!isfinite(t_s))
            share[i] = 0;
        else
            share[i] = t_s > 0 ? best_s / t_s : 1;
    }
}

double firn_fairness_alone(double alone_s, double contention)
{
    return alone_s * fmax(contention, 1);
}

double firn_fairness_rho(double shared_s, double independent_s)
{
    return independent_s > 0 ? shared_s / independent_s : (double)NAN;
}

void firn_contention_add(struct firn_contention *contention, double span_s,
                         double asked, double gpus)
{
    if (!(span_s > 0) || !(gpus > 0) || !(asked >= 0))
        return;
    contention->span_s += span_s;
    contention->area_s += span_s * asked / gpus;
}

double firn_contention_mean(const struct firn_contention *contention)
{
    if (!(contention->span_s > 0))
        return 1;
    return fmax(contention->area_s / contention->span_s, 1);
}

struct firn_fairness firn_fairness_of(const double *rho, size_t n)
{
    struct firn_fairness f = {0};
    size_t unfair = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(rho[i]))
            continue;
        f.worst = f.njobs == 0 ? rho[i] : fmax(f.worst, rho[i]);
        f.mean += rho[i];
        unfair += rho[i] > 1;
        f.njobs++;
    }
    if (f.njobs > 0) {
        f.mean /= (double)f.njobs;
        f.unfair_share = (double)unfair / (double)f.njobs;
    }
    return f;
}
