/* icefrog_menu.c - what a job may be given, and what that is worth to it.
 *
 * The menu is core's (firn/offer.h): numbers of GPUs of each type, and ways to
 * spread a model over them where its application has any (DDP, SDP, PP, HP),
 * with the effective progress expected there. Jobs that share have half a GPU
 * in it as well. The values are (16) and (17), or Pollux's fitness: see
 * icefrog.c. The rest of this page is about options that are off by default.
 *
 * `idle=wait`: what no GPU is worth. A job that has best_s seconds to go at
 * best and gets its GPUs wait_s later has the share best_s / (best_s + wait_s)
 * of what is left to it. Two questions decide whether that is any good:
 * - How long does it wait? Not one interval: that is true only if GPUs are free
 *   at the next round. With the interval, half a GPU at lambda = 0.9 would be
 *   worse than waiting for every job with more than 45 minutes left, and no
 *   GPU would be shared just when there are many jobs. wait_s is the mean
 *   wait of all jobs there are, if each has all GPUs for itself in turn, those
 *   with the least work w first: over n jobs and M GPUs
 *
 *       turn_s = 1/n  sum over i of (w_1 + ... + w_(i-1)) / M
 *
 *   and at least the time until the next round. It is the same for all jobs,
 *   so the value rises with best_s, and the shortest are served first: in the
 *   order that turn_s assumes. A wait of each job's own, of the work before it
 *   in that order, would serve the longest first, which contradicts it.
 * - Is its age counted? In (16) it is. Here it is not: a job that has waited
 *   for long would lose little by waiting on, and of equal jobs the oldest
 *   would be served last.
 * With twelve nodes of four H200 and 400 jobs of one GPU that lose up to 10 %
 * beside each other, mean JCT is 47, 44 and 49 min on three draws; 57, 56 and
 * 66 when wait_s was the interval, 46, 44 and 50 with `idle=zero`, 48, 45 and
 * 51 under sjf-ffs.
 *
 * `efficiency`: the more GPUs a job has, the less each of them does. The
 * paper's users name a sensible range (Table VI); traces often allow
 * everything. A way is weighed against the next smaller one that is no waste:
 * it saves the job some seconds, and takes W GPU-seconds more, which on M GPUs
 * delay the jobs behind it by W / M seconds each: the jobs with more work left,
 * and `behind` M for those still to come. Where that is more than is saved, or
 * a GPU does less than `efficiency` of what it does at best, the way is waste:
 * no part of (17), and given only from what is left over. The smallest way
 * never is. So few GPUs are no waste where many jobs are, and many for one that
 * is alone or has the most work of all.
 *
 * `charge`: every way that a job does not have now costs it a restart in (16).
 * `gather`: a job that runs scattered over nodes has the rate it has there, and
 * is moved to one node when that pays for the restart.
 */
#include "base/fmath.h"
#include "policy/icefrog.h"
#include <firn/offer.h>
#include <stdlib.h>

/* What other GPUs cost a job that keeps running. */
static double other_gpus_s(const struct ice_round *round,
                           const struct firn_job *job)
{
    return firn_view_change_s(round->view, job, round->ice->restart_s);
}

/* What starting it again costs a job that stops. */
static double restart_s(const struct ice_round *round,
                        const struct firn_job *job)
{
    return job->spec.restart_s >= 0 ? job->spec.restart_s
                                    : round->ice->restart_s;
}

firn_type_id ice_type_held(const struct ice_round *round,
                           const struct firn_job *job)
{
    const struct firn_node *nodes = round->view->cluster->nodes;
    firn_type_id type = -1;
    for (int i = 0; i < job->held.nparts; i++) {
        firn_type_id here = nodes[job->held.parts[i].node].type;
        if (i > 0 && here != type)
            return -1;
        type = here;
    }
    return type;
}

static void add_choice(struct ice_seat *seat, firn_type_id type, int units,
                       struct ice_detail detail)
{
    detail.use = 1;
    seat->choices[seat->n] = (struct iceshare_choice){type, units, 0};
    seat->details[seat->n++] = detail;
}

/* What it is run as now: at the rate of that number of GPUs, wherever they are;
 * with `gather` at the rate it has there, or moved together if that pays for
 * the restart. */
static struct ice_detail held_detail(const struct ice_round *round,
                                     const struct ice_seat *seat,
                                     const struct firn_offer *offer)
{
    const struct firn_job *job = seat->job;
    struct ice_detail detail = {.gpus = offer->way.gpus,
                                .how = job->held.how,
                                .rate = offer->rate,
                                .is_held = true};
    struct firn_way way = offer->way;
    way.nodes = firn_alloc_nodes(&job->held);
    if (way.nodes == 1 || !round->ice->gathers)
        return detail;
    double rate = firn_view_rate(round->view, job, &way);
    if (!(rate > 0))
        return detail;
    double moved_s = other_gpus_s(round, job) + seat->left / detail.rate;
    if (moved_s < seat->left / rate)
        return (struct ice_detail){.gpus = offer->way.gpus,
                                   .how = job->held.how,
                                   .rate = offer->rate,
                                   .is_moved = true};
    detail.rate = rate;
    return detail;
}

static void add_offer(const struct ice_round *round, struct ice_seat *seat,
                      const struct firn_offer *offer, firn_type_id held)
{
    const struct firn_way *way = &offer->way;
    const struct firn_alloc *now = &seat->job->held;
    bool is_held = held == way->type && now->ngpus == way->gpus &&
                   now->how.parallel == way->parallel &&
                   now->how.stages == way->stages;
    struct ice_detail detail = {.gpus = way->gpus,
                                .how = FIRN_HOW_AS_SUBMITTED,
                                .rate = offer->rate,
                                .is_held = is_held};
    detail.how.parallel = way->parallel;
    detail.how.stages = way->stages;
    if (way->gpus == 1 && seat->shares && round->is_round) {
        detail.rate *= round->ice->lambda;
        add_choice(seat, way->type, 1, detail);
        detail.rate = offer->rate;
        /* Of two jobs on one GPU the first stays when they part. */
        if (seat->sharer != ICE_NONE && &round->seats[seat->sharer] < seat)
            detail.is_held = false;
    } else if (is_held) {
        detail = held_detail(round, seat, offer);
    }
    add_choice(seat, way->type, 2 * way->gpus, detail);
}

/* Nothing is known of its speeds: as submitted, at rate 1. */
static void add_as_submitted(const struct ice_round *round,
                             struct ice_seat *seat, firn_type_id held)
{
    const struct firn_job *job = seat->job;
    for (int t = 0; t < round->view->cluster->ntypes; t++) {
        struct firn_offer offer = {.way = {.gpus = job->spec.gpus, .type = t},
                                   .rate = 1};
        if ((job->type_mask >> t & 1) &&
            isnan(firn_view_rate(round->view, job, &offer.way)))
            add_offer(round, seat, &offer, held);
    }
}

/* What a GPU of each type does at best, in `best`. */
static void best_use(const struct firn_offer *offers, size_t n, double *best)
{
    for (size_t i = 0; i < n; i++) {
        double use = offers[i].rate / offers[i].way.gpus;
        firn_type_id type = offers[i].way.type;
        best[type] = use > best[type] ? use : best[type];
    }
}

static void fill_menu(const struct ice_round *round, struct ice_seat *seat)
{
    unsigned kinds = FIRN_OFFER_ELASTIC | FIRN_OFFER_FREEZE | FIRN_OFFER_TYPES |
                     FIRN_OFFER_PARALLEL |
                     (round->ice->batch ? FIRN_OFFER_BATCH : 0u);
    int least = 0;
    const struct firn_view *view = round->view;
    const struct firn_job *job = seat->job;
    double best[FIRN_TYPES_MAX] = {0};
    double left = firn_job_work_left_s(job, view->now_s);
    size_t n;
    const struct firn_offer *offers = firn_offers(view, job, kinds, &n);
    size_t most = n + 2 * (size_t)view->cluster->ntypes + 1;
    for (size_t i = 0; i < n; i++)
        most += offers[i].way.gpus == 1; /* and half of it */
    seat->choices = firn_view_alloc(view, most * sizeof *seat->choices);
    seat->details = firn_view_alloc(view, most * sizeof *seat->details);
    seat->left = left > 1e-6 ? left : 1e-6;
    firn_type_id held = ice_type_held(round, job);
    add_choice(seat, 0, 0, (struct ice_detail){0});
    best_use(offers, n, best);
    for (size_t i = 0; i < n; i++) {
        const struct firn_way *way = &offers[i].way;
        if (way->tensor > 0)
            break; /* the best of these stand above, by numbers of GPUs */
        if (i == 0 || way->type != offers[i - 1].way.type)
            least = way->gpus;
        add_offer(round, seat, &offers[i], held);
        if (way->gpus > least)
            seat->details[seat->n - 1].use =
                offers[i].rate / way->gpus / best[way->type];
    }
    if (n == 0)
        add_as_submitted(round, seat, held);
}

/* ---- values ---- */

/* Is the cost of a change counted? */
static bool is_charged(const struct ice_round *round,
                       const struct firn_job *job)
{
    return job->starts > 0 && round->ice->charges;
}

/* (16) */
static double finish_s(const struct ice_round *round,
                       const struct ice_seat *seat, size_t c)
{
    const struct firn_job *job = seat->job;
    const struct ice_detail *detail = &seat->details[c];
    double age_s = round->view->now_s - job->spec.submit_s;
    double cost_s = detail->is_held || !is_charged(round, job)
                        ? 0
                        : other_gpus_s(round, job);
    return age_s + cost_s + seat->left / detail->rate;
}

/* What waiting is worth: the seconds that the job needs at best, over these
 * and those that it waits. See above. */
static double wait_value(const struct ice_round *round,
                         const struct ice_seat *seat, double best_rate)
{
    double best_s = seat->left / best_rate;
    double wait_s = fmax(round->wait_s, round->turn_s);
    double again_s =
        is_charged(round, seat->job) ? restart_s(round, seat->job) : 0;
    return best_s / (best_s + wait_s + again_s);
}

static void set_shares(const struct ice_round *round, struct ice_seat *seat)
{
    double best_rate = 0, best_s = INFINITY;
    for (size_t c = 1; c < seat->n; c++) {
        double here_s = finish_s(round, seat, c);
        seat->choices[c].value = here_s;
        if (seat->details[c].is_waste)
            continue;
        best_s = fmin(best_s, here_s);
        best_rate = fmax(best_rate, seat->details[c].rate);
    }
    for (size_t c = 1; c < seat->n; c++)
        seat->choices[c].value = best_s / seat->choices[c].value; /* 17 */
    if (seat->n > 1 && round->ice->idle == ICEFROG_WAIT)
        seat->choices[0].value = wait_value(round, seat, best_rate);
}

/* Pollux's factor for a restart. */
static double change_factor(const struct ice_round *round,
                            const struct firn_job *job)
{
    double age_s = round->view->now_s - job->spec.submit_s;
    double each_s = other_gpus_s(round, job);
    double kept_s = age_s - (job->starts - 1) * each_s;
    if (job->starts == 0 || age_s + each_s <= 0)
        return 1;
    return kept_s > 0 ? kept_s / (age_s + each_s) : 1e-6;
}

static void set_fitness(const struct ice_round *round, struct ice_seat *seat)
{
    double base = 0, change = change_factor(round, seat->job);
    for (size_t c = 1; c < seat->n; c++)
        if (seat->choices[c].units > 1 &&
            (base == 0 || seat->details[c].gpus <= round->fair))
            base = seat->details[c].rate;
    for (size_t c = 1; c < seat->n; c++)
        seat->choices[c].value = seat->details[c].rate / base *
                                 (seat->details[c].is_held ? 1 : change);
}

static void set_values(const struct ice_round *round, struct ice_seat *seat)
{
    int priority = seat->job->spec.priority;
    if (round->ice->objective == ICEFROG_FITNESS)
        set_fitness(round, seat);
    else
        set_shares(round, seat);
    double weight = fm_pow(round->ice->weight, priority);
    weight = fmin(fmax(weight, 1e-6), 1e6);
    seat->nothing = -weight;
    for (size_t c = 0; c < seat->n && priority != 0; c++)
        seat->choices[c].value /= weight;
    if (!(seat->choices[0].value > 0))
        seat->choices[0].value = seat->nothing;
    for (size_t c = 1; c < seat->n; c++) {
        seat->details[c].value = seat->choices[c].value;
        if (seat->details[c].is_waste)
            ice_bar(seat, c);
    }
}

/* ---- work that is left ---- */

/* Reference GPU-seconds that a job has left. */
static double work_left(const struct ice_round *round,
                        const struct firn_job *job)
{
    double left_s = firn_job_work_left_s(job, round->view->now_s);
    return left_s > 0 ? left_s * job->spec.gpus : 0;
}

static int by_value(const void *a, const void *b)
{
    return firn_cmp(*(const double *)a, *(const double *)b);
}

/* The work of all jobs, those that run too, rising. */
static double *sort_works(const struct ice_round *round)
{
    const struct firn_view *view = round->view;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    double *works = firn_view_alloc(view, (view->njobs + 1) * sizeof *works);
    for (size_t i = 0; i < view->njobs; i++)
        works[i] = work_left(round, jobs[i]);
    qsort(works, view->njobs, sizeof *works, by_value);
    return works;
}

/* The mean time that these jobs wait if each has all GPUs to itself, those with
 * the least work first. */
static double mean_turn_s(const double *works, size_t n, int gpus)
{
    double before = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += before;
        before += works[i];
    }
    return n > 0 ? sum / (double)n / gpus : 0;
}

/* ---- waste ---- */

/* How many of n have more. */
static size_t count_above(const double *works, size_t n, double work)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (works[middle] <= work)
            low = middle + 1;
        else
            high = middle;
    }
    return n - low;
}

/* Are the GPUs of `way` worth more to others than to the job, which could have
 * the fewer ones of `less`? */
static bool is_waste(const struct ice_round *round, const struct ice_seat *seat,
                     const struct ice_detail *less,
                     const struct ice_detail *way, double behind)
{
    double less_s = seat->left / less->rate, way_s = seat->left / way->rate;
    double more_gpu_s = way->gpus * way_s - less->gpus * less_s;
    return way->use < round->ice->efficiency || !(way_s < less_s) ||
           less_s - way_s < more_gpu_s / round->view->gpus_up * behind;
}

/* Ways with as many GPUs waste none against each other: the fastest counts. */
static void mark_waste(const struct ice_round *round, struct ice_seat *seat,
                       double behind)
{
    const struct ice_detail *last = NULL;
    firn_type_id type = -1;
    for (size_t c = 1; c < seat->n; c++) {
        struct ice_detail *way = &seat->details[c];
        if (seat->choices[c].units == 1)
            continue;
        if (seat->choices[c].pool != type)
            last = NULL;
        type = seat->choices[c].pool;
        bool is_first = last == NULL;
        bool has_more = !is_first && way->gpus > last->gpus;
        way->is_waste = has_more && is_waste(round, seat, last, way, behind);
        if (is_first || (has_more ? !way->is_waste : way->rate > last->rate))
            last = way;
    }
}

void ice_menus(struct ice_round *round)
{
    const struct firn_view *view = round->view;
    bool weighs_waste = round->ice->efficiency > 0;
    const double *works = NULL;
    if (weighs_waste || round->ice->idle == ICEFROG_WAIT) {
        works = sort_works(round);
        round->turn_s = mean_turn_s(works, view->njobs, view->gpus_up);
    }
    for (size_t i = 0; i < round->n; i++) {
        struct ice_seat *seat = &round->seats[i];
        fill_menu(round, seat);
        if (weighs_waste)
            mark_waste(round, seat,
                       round->ice->behind * view->gpus_up +
                           (double)count_above(works, view->njobs,
                                               work_left(round, seat->job)));
        set_values(round, seat);
    }
}
