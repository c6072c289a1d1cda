/* firn_worth.c - what each way of a seat is worth to the policy firn.
 *
 * With x the GPU-seconds that are left of a job in its most efficient way and e
 * its rate there for each GPU, a way of rate r is worth
 *
 *     x^-alpha  x  m^-narrow  x  r / e  x  lasting                        (1)
 *
 * r / e is the GPUs' worth of work that the way does: GPUs minus what is lost
 * by running on many. alpha says how much more a GPU counts for a short job:
 * with 1 the sum is greatest where the sum of x_i falls fastest relative to
 * each x_i, as in shortest remaining time first, which is optimal where speed
 * is in proportion to GPUs; with 0 it is plain throughput. Jobs that lose by
 * many GPUs should share them (heSRPT, Berg et al., 2020), hence between.
 *
 * m is the most GPUs' worth of work that the job can do in a second, 1 at
 * least. A GPU-second that is taken from a job now is missing at its end, where
 * it will have as many GPUs as it can use if the others have ended by then: it
 * ends later by 1 / m of the second. So a job that can use four GPUs loses more
 * by one that is taken from it than a job that can use 32, which catches up;
 * full, the argument gives `narrow` 1, and where all GPUs are taken to the end
 * 0. (Geometric means over 22 tuning workloads of the mean JCT and of the 99th
 * percentile, over those with alpha 0.35 and without `narrow`: alpha 0.35 and
 * `narrow` 0.35 0.993 and 1.00; 0.3 and 0.35 0.993 and 0.98; 0.3 and 0.5 0.992
 * and 1.00; 0.25 and 0.35 0.998 and 0.98. With resizes without a stop alpha 0.3
 * is better than 0.35 by 0.3 %. EasyScale's jobs in other orders with prepared
 * starts have 0.98 and 0.96, SJF-BSBF's testbed 1.04 and 1.06. To count an
 * equal share of the GPUs, or three of them, as the most for m: 0.996 and
 * 0.993. To leave out ways on many GPUs below 0.3, 0.5 or 0.7 of the best rate
 * for each GPU makes no difference. The number of jobs with more work left in
 * place of x^-alpha, as heSRPT has it: 0.995 and 0.98.)
 *
 * A job that can run on one number of GPUs only has nothing to share: for it
 * the order is that of the least rest, and x^-alpha x m^-narrow in (1) is
 *
 *     x0^-alpha  x  m0^-narrow  x  (x / x0)^-alpha-rigid                  (2)
 *
 * x0 and m0 being the geometric means of x and m over these jobs, so that in
 * the mean they count as much as jobs of several sizes. (With alpha 0.35 for
 * both, a long gang of 8 GPUs went before a short job of one: 11 traces of 300
 * rigid jobs at load 1, seeds 101 to 118, have mean JCTs of 4262, 4257, 4253
 * and 4252 s for `alpha-rigid` 0.35, 0.5, 0.7 and 1, and 4270 s under srtf.)
 *
 * `lasting` is what a restart leaves of it: over the time H until the job ends,
 * (3) at most, a way that costs c seconds of restart does H / (H + c) of its
 * work; what a job holds counts 1 + `keep` c / (H + c), because a change
 * that does not pay for itself will not be the last one. The GPU-seconds of a
 * restart are also taken from the jobs that wait: with q waiting jobs for each
 * running one, 1 at most, `keep` is 1 + `keep-queue` q times as much. Jobs of
 * one size are left out of this: they lose GPUs to shorter jobs only, not by
 * every change of the shares. (On tuning traces, mean JCT over that without it
 * for `keep-queue` 1, 3 and 6: 240 jobs with frozen layers 1.00, 0.97, 0.96;
 * Pollux 1.01, 0.99, 1.03; Sia 1.01, 1.01, 1.01; SJF-BSBF's testbed 0.99,
 * 0.98, 0.98. `keep` 6 for all instead: 0.96, 1.01, 1.02, 0.95, and 1.01 and
 * 1.02 on 120 jobs, where nearly no job waits.) The first start of a
 * job is paid whenever it begins: it is part of x, where a duration that a user
 * told has it already, and e is the rate with it. So it makes ways on many GPUs
 * worth less, where it wastes more, but no job worth less than another. (Before
 * that, short jobs were put behind long ones: twelve PyTorch jobs of 9 to 17 s
 * that take 8 s to start took 101 s in the mean on a GPU where sjf-ffs
 * took 43.)
 *
 * Where the engine says which waiting jobs have processes already, what is left
 * of their start counts (firn_costs.saved_s), else the engine's mean: a job
 * that is prepared needs its GPUs for less time and goes before one that is
 * not. (Eight queues of twelve C trainers on one virtual GPU, starts of 6 to
 * 12 s, two of them prepared: 0.965 of the mean JCT of sjf-ffs, geometric mean;
 * before, of five of these, 0.999.)
 *
 * A share of the GPUs lasts until other jobs have come or ended. With g the
 * seconds from one arrival to the next, by the latest ONE_LATELY, and N the
 * GPUs of the cluster,
 *
 *     H <= min(`horizon`, `horizon-jobs` x g x max(N / 64, 1))            (3)
 *
 * where the right side is 60 s at least. The factor N / 64: a larger cluster
 * has more arrivals, and one job feels as many of them as before. So a job does
 * not grow into GPUs that the next jobs will need, and grows when no more come.
 * The shares of one job last shorter than those of another, those of long jobs
 * being the first that shorter ones take. With s starts of a job so far and h
 * the seconds for which it has had GPUs, its H is no more than
 *
 *     (`horizon-past` x (3) + h) / (`horizon-past` + s)                   (4)
 *
 * or 60 s: the mean of its shares, with a few of (3). (Without (4) a job of
 * 5000 s was moved four times in 16 s, each time for a gain that would have
 * paid in ten minutes. Over 22 tuning workloads, mean JCT and 99th percentile
 * over those without (4), for `horizon-past` 1, 2, 3 and 5: 1.004
 * and 1.00, 1.000 and 1.00, 1.001 and 0.99, 1.000 and 1.00; but of the GPU time
 * restarts take with 5 7.1 instead of 9.5 % on Sia's Philly jobs, 9.1 instead
 * of 11.5 % on its new ones, and 5.6 instead of 6.5 % on Pollux's. With resizes
 * without a stop, 5: 0.998 and 0.99; without told run times, five workloads:
 * 0.987 and 1.00.)
 *
 * (Mean JCT and 99th percentile over those with a fixed horizon of 1200 s,
 * geometric means over 20 tuning workloads of 4 to 64 GPUs, for `horizon-jobs`
 * 6, 10 and 15: 0.994 and 0.97, 0.990 and 0.97, 0.998 and 0.99; with 0 and a
 * `horizon` of 2400 s 1.004 and 1.01. Without told run times, nine of these
 * workloads: 1.015 and 0.99, 1.009 and 0.99, 1.006 and 0.97; with 0 and 1200 s
 * 0.997 and 0.99.)
 *
 * A resize without a stop costs its pause, and growing also the time for which
 * the GPUs that come in addition are prepared, `grow` times: they do nothing
 * until then, and are the first that the job gives back. (By `grow`, of the GPU
 * time that tuning traces lost with a pause of 0.53 s behind 17 s of preparing:
 * Sia's Philly jobs 3.8, 3.3 and 2.9 % for 1, 2 and 3.5, its Saturn jobs 3.4,
 * 3.2 and 2.6 %, SJF-BSBF's 3.4, 3.0 and 2.4 %, Pollux's 2.4, 2.0 and 1.9 %;
 * mean JCT over 32 workloads 1.002 and 1.003 of that for 1, 99th percentile
 * 1.004 and 0.996. 3.5 is the least of 1, 1.5 to 4 with which all of these lose
 * less than 3 %.) To
 * be stopped costs such a job a restart as it does others, c seconds instead of
 * the p of a pause. So every way that needs no stop is worth, in addition,
 *
 *     what is held, without `lasting`  x  `keep` (c - p) / (H + c)        (5)
 *
 * (Without (5) only the pause spoke against a stop, and jobs that can be
 * resized were stopped far more often than others: with resizes of 3.41 s over
 * 22 tuning workloads (5) makes the mean JCT 0.990 and the 99th percentile 0.98
 * times as large, on SJF-BSBF's testbed 0.87 and 0.84 with 17 instead of 25 %
 * of the GPU time lost.)
 *
 * A step of priority multiplies (1) by `weight`.
 *
 * A job may be restarted `restarts` / 2 times at once and as often again in
 * each hour since its first start; with more it keeps what it holds for a
 * while. What is spared of a restart, because it is prepared or because the job
 * is resized without a stop, allows up to twice as many: without this, jobs
 * with prepared starts used up their allowance for next to nothing and then
 * kept all GPUs for minutes while short ones waited, which cost 1.4 % of the
 * mean JCT on EasyScale's jobs. (Before, `restarts` in the first hour: on
 * SJF-BSBF's testbed, where short jobs come every 30 s, long jobs had used them
 * up after minutes and kept one or two of 16 GPUs until the hour was over.) So
 * does one whose restarts would take more than the share `lost` of the time it
 * has had GPUs.
 */
#include "base/fmath.h"
#include "policy/firn.h"

static const double tiny = 1e-12;
static const double least_s = 60; /* of the horizon */
static const double least_work_s = 1e-3;

double one_lasting(const struct one_seat *seat, double cost_s, double left_s,
                   double rate, bool is_held)
{
    double ends_s = fmin(left_s / fmax(rate, tiny), seat->horizon_s);
    if (is_held)
        return 1 + seat->keep * cost_s / (ends_s + cost_s + 1e-9);
    return cost_s > 0 ? ends_s / (ends_s + cost_s) : 1;
}

/* Are several numbers of GPUs on its menu? */
static bool has_several(const struct one_seat *seat)
{
    for (int i = 1; i < seat->n; i++)
        if (seat->choices[i].gpus != seat->choices[0].gpus)
            return true;
    return false;
}

/* Can it run on one number of GPUs only? */
static bool is_rigid(const struct one_seat *seat)
{
    return seat->n > 0 && seat->with == NULL && !has_several(seat);
}

/* What a restart, and what a change without a stop, costs the job in training;
 * and the seconds of its first start, if that is to come. */
static void set_costs(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_job *job = seat->job;
    int wanted_s = round->one->rules.ahead_s, can_s = round->view->ahead_s;
    int ahead_s = wanted_s < can_s ? wanted_s : can_s;
    struct firn_costs costs = firn_view_costs(round->view, job);
    double start_s =
        job->starts > 0 ? firn_cost_lost_s(&costs.restart) : costs.first_s;
    double known_s = wanted_s > 0 ? costs.saved_s : 0; /* however long it is */
    double saved_s = costs.is_saved_known ? known_s : ahead_s;
    seat->whole_s = costs.first_s;
    seat->end_s = costs.end_s;
    seat->idle_s = costs.idle_s;
    seat->nprepared = costs.nprepared;
    seat->start_s =
        fmax(costs.first_s - (costs.is_saved_known ? saved_s : 0), 0);
    seat->cost_s = fmax(start_s - saved_s, 0);
    seat->first_s = job->starts > 0 ? 0 : seat->cost_s;
    seat->change_s = seat->cost_s;
    seat->full_s = firn_cost_lost_s(&costs.restart);
    seat->is_supple = costs.can_resize && has_several(seat);
    if (costs.can_resize && job->held.nparts > 0 && !job->held.is_shared &&
        seat->with == NULL) {
        seat->change_s = firn_cost_lost_s(&costs.resize);
        seat->prepare_s = round->one->rules.grow * costs.resize.prepare_s;
    }
}

double one_cost_s(const struct one_seat *seat, const struct one_choice *choice)
{
    const struct firn_how *held = &seat->job->held.how;
    bool is_same = held->parallel == choice->how.parallel &&
                   held->stages == choice->how.stages &&
                   held->tensor == choice->how.tensor;
    if (!is_same)
        return seat->cost_s;
    double more = choice->gpus - seat->job->held.ngpus;
    return more > 0 ? seat->change_s + seat->prepare_s * more / choice->gpus
                    : seat->change_s;
}

double one_starts_s(const struct one_round *round, const struct one_seat *seat,
                    bool is_held)
{
    const struct firn_job *job = seat->job;
    double trains_s = fmin(job->since_s + seat->start_s, job->resumes_s);
    return is_held ? fmax(trains_s - round->view->now_s, 0) : seat->start_s;
}

/* x of (1). A user's duration has the start in it, what is left of a job that
 * was seen has not. Of a job that runs, only what is left of its start counts,
 * or it would be stopped at its first step for another whose processes are
 * there. One in shared use is kept by (3) of firn_share.c instead.
 * (To count only what is left of that one, too: 20 busy C trainers on one GPU,
 * seeds 31 to 38 and 41 to 48 of bench/foretold.py, mean completion time 1.008
 * and 0.994 of that without, error of `firn eta` 4.8 and 5.2 %, without 4.8 and
 * 4.3 %.) */
static double work_of(const struct one_round *round,
                      const struct one_seat *seat)
{
    const struct firn_job *job = seat->job;
    double rate = fmax(seat->best, tiny), left_s = seat->left_s / rate;
    double trains_s = fmax((seat->left_s - seat->idle_s) / rate, least_work_s);
    bool has_start = seat->idle_s > seat->end_s;
    if (has_start && job->starts == 0)
        return fmax(left_s + seat->first_s - seat->whole_s, trains_s);
    if (has_start && job->held.nparts > 0 && !job->held.is_shared)
        return trains_s + seat->end_s + one_starts_s(round, seat, true);
    return left_s + seat->first_s;
}

static double weight_of(const struct one_round *round,
                        const struct firn_job *job, double work, double best)
{
    const struct one_rules *rules = &round->one->rules;
    double weight = fm_pow(work, -rules->alpha) / fmax(best, tiny);
    return job->spec.priority == 0
               ? weight
               : weight * fm_pow(rules->weight, job->spec.priority);
}

/* May the job be restarted no more for now? */
static bool is_settled(const struct one_round *round,
                       const struct one_seat *seat)
{
    const struct one_rules *rules = &round->one->rules;
    const struct firn_job *job = seat->job;
    double now_s = round->view->now_s;
    if (job->held.nparts == 0 || seat->is_guest || seat->parted != NULL)
        return false;
    double hours = (now_s - job->first_start_s) / 3600;
    double spared = 1 - fmin(seat->change_s / fmax(seat->full_s, tiny), 1);
    if (rules->restarts > 0 &&
        job->starts - 1 >= rules->restarts * (1 + spared) * (1 + hours) / 2)
        return true;
    double held_s = job->held_s + now_s - job->since_s;
    return rules->lost > 0 && job->starts > 1 &&
           job->starts * seat->change_s > rules->lost * held_s;
}

/* Restarts that a change of the seat must save besides its own. */
static double keep_of(const struct one_round *round,
                      const struct one_seat *seat)
{
    const struct one_rules *rules = &round->one->rules;
    double running = (double)round->view->nrunning;
    double queue = (double)round->view->nwaiting / fmax(running, 1);
    if (is_rigid(seat))
        return rules->keep;
    return rules->keep * (1 + rules->keep_queue * fmin(queue, 1));
}

/* The time for which a share of the job's lasts, also by those it has had. */
static double horizon_of(const struct one_round *round,
                         const struct firn_job *job)
{
    double past = round->one->rules.horizon_past, held_s = job->held_s;
    if (past == 0 || job->starts == 0)
        return round->horizon_s;
    if (job->held.nparts > 0)
        held_s += round->view->now_s - job->since_s;
    double mean_s = (past * round->horizon_s + held_s) / (past + job->starts);
    return fmin(fmax(mean_s, least_s), round->horizon_s);
}

/* The most GPUs' worth of work that the seat does in a second; or its
 * partner. */
static double width_of(const struct one_seat *seat, bool of_partner)
{
    double most = 0, best = of_partner ? seat->best_with : seat->best;
    for (int i = 0; i < seat->n; i++)
        most = fmax(most, of_partner ? seat->choices[i].rate_with
                                     : seat->choices[i].rate);
    return fmax(most / fmax(best, tiny), 1);
}

static void weigh(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_job *job = seat->job, *with = seat->with;
    double narrow = round->one->rules.narrow;
    set_costs(round, seat);
    seat->keep = keep_of(round, seat);
    seat->horizon_s = horizon_of(round, job);
    seat->work = work_of(round, seat);
    seat->weight =
        weight_of(round, job, seat->work, seat->best) *
        fm_pow(width_of(seat, false), -narrow) /
        one_lasting(seat, seat->first_s, seat->left_s, seat->best, false);
    if (with != NULL)
        seat->weight_with =
            weight_of(round, with,
                      seat->left_with_s / fmax(seat->best_with, tiny),
                      seat->best_with) *
            fm_pow(width_of(seat, true), -narrow);
    seat->due_s = one_due_s(round, job);
    if (with != NULL)
        seat->due_s = fmin(seat->due_s, one_due_s(round, with));
    seat->is_due = seat->due_s <= round->view->now_s;
    seat->is_settled = is_settled(round, seat);
}

/* What not to be stopped is worth to a seat that can be resized without. */
static double staying(const struct one_seat *seat)
{
    double more_s = seat->cost_s - seat->change_s;
    for (int i = 0; i < seat->n && more_s > 0; i++) {
        const struct one_choice *choice = &seat->choices[i];
        double ends_s =
            fmin(seat->left_s / fmax(choice->rate, tiny), seat->horizon_s);
        if (choice->is_held)
            return seat->weight * choice->rate * seat->keep * more_s /
                   (ends_s + seat->cost_s);
    }
    return 0;
}

static void set_values(struct one_seat *seat)
{
    double stays = staying(seat);
    for (int i = 0; i < seat->n; i++) {
        struct one_choice *choice = &seat->choices[i];
        double cost_s = one_cost_s(seat, choice);
        choice->value = seat->weight * choice->rate *
                        one_lasting(seat, cost_s, seat->left_s, choice->rate,
                                    choice->is_held);
        if (seat->with != NULL)
            choice->value += seat->weight_with * choice->rate_with *
                             one_lasting(seat, cost_s, seat->left_with_s,
                                         choice->rate_with, choice->is_held);
        if (cost_s < seat->cost_s)
            choice->value += stays;
        if (seat->waits && !seat->is_due)
            choice->value = 0;
    }
}

/* Gives the jobs of one size the weight of (2). */
static void weigh_rigid(const struct one_round *round)
{
    const struct one_rules *rules = &round->one->rules;
    double works = 0, widths = 0, n = 0;
    for (size_t i = 0; i < round->n; i++)
        if (is_rigid(&round->seats[i])) {
            works += fm_log(round->seats[i].work);
            widths += fm_log(width_of(&round->seats[i], false));
            n++;
        }
    for (size_t i = 0; i < round->n; i++) {
        struct one_seat *seat = &round->seats[i];
        if (!is_rigid(seat))
            continue;
        seat->weight *=
            fm_pow(seat->work / fm_exp(works / n),
                   rules->alpha - rules->alpha_rigid) *
            fm_pow(width_of(seat, false) / fm_exp(widths / n), rules->narrow);
    }
}

/* The time for which a share of the GPUs lasts, by how often jobs come. */
static double common_horizon(const struct one_round *round)
{
    const struct one_rules *rules = &round->one->rules;
    double size = fmax(round->view->cluster->ngpus / 64.0, 1);
    double jobs = rules->horizon_jobs * size;
    if (jobs == 0)
        return rules->horizon_s;
    double gap_s = one_gap_of_late_s(round->one, round->view->now_s,
                                     rules->horizon_s / jobs);
    return fmin(fmax(jobs * gap_s, least_s), rules->horizon_s);
}

void one_worth(struct one_round *round)
{
    round->horizon_s = common_horizon(round);
    for (size_t i = 0; i < round->n; i++)
        weigh(round, &round->seats[i]);
    weigh_rigid(round);
    for (size_t i = 0; i < round->n; i++)
        set_values(&round->seats[i]);
}
