/* firn_pair.c - what two jobs on the same GPUs gain, under the policy firn.
 *
 * A job to which the assignment gave no GPU may run beside one that has some,
 * in as many passes as its memory needs there (SJF-BSBF, Wang et al.). It may
 * come now or later, or so that it trains when the host does no more. Let the
 * last step of the host be at H' if it comes now, else at H, and let the GPUs
 * be free for the next job from F on if it comes now, else from F' on. So a
 * pair gains, in seconds of completion time, with n more jobs that wait for
 * these GPUs,
 *
 *     (n + 1) (F' - F)  -  share-min (H' - H)                             (1)
 *
 * with share-min 1; less than 1 counts jobs that are still to come. Both jobs
 * are run to their ends for that: each trains from the end of its start on,
 * alone at first, and beside the other one at 1 / h and 1 / g of its speed. If
 * both train now, for T seconds together, F' - F is T (1/g + 1/h - 1) and
 * H' - H is T (1 - 1/h).
 *
 * For the n behind, the next job must also be able to train at F and F'. It
 * has a place when the first of the two lets its GPUs go, some time behind its
 * last step. Its start begins then, or earlier in an engine that prepares jobs:
 * one at a time for these GPUs, from when the guest has left. So a guest that
 * is prepared and waits keeps the next one from being prepared, and if starts
 * are longer than trainings it comes although it slows the host down. (20 jobs
 * with 8 s of start, 5 s of training and 1.3 or 4.4 s behind their last step,
 * on one GPU that one of them keeps busy, seeds 101 to 130, mean completion
 * time over that of sjf-ffs: with one job prepared 1.039 when only pairs that
 * train counted, and 0.958; with none 0.926 and 0.900; with two, where the next
 * one is being prepared, 0.947 and 0.941; with starts of 20 s 1.195 and 0.992.
 * With time slices, each job of any pair 1.7, 1.85 or 2 times slower, as on an
 * H200: 0.986, 0.980 and 0.956. bench/starts.py.)
 *
 * (1) changes without any event: the host's start passes, the guest's
 * preparation goes on, the next one's could begin. So the foremost guest comes
 * when (1) is `NEARLY` as great as it will ever be before it trains behind the
 * host, by `MOMENTS` samples of that time; the policy wakes then. (Before, it
 * came with the first event that found (1) above 0, so that a forecast was
 * wrong by 30 to 40 % when an event fell otherwise than foreseen. Eight queues
 * of bench/foretold.py, seeds 31 to 38, mean of `firn plan` 4.7 % before
 * and 3.1 % now, completion time 25.9 s and 25.6 s; at the very greatest of
 * (1), which a small error moves along a plateau, 4.1 % and 25.8 s. On queues
 * like the above, seeds 1 to 30, over sjf-ffs, 0.971 before, 0.970 now, and
 * 0.987 at the first moment at which (1) is above 0.)
 *
 * A guest that is already there also gains the restart that it would lose,
 * without preparation, for that would take the place of another. Where (1) is
 * above 0 the guest may come. Of several hosts it goes to the one where both
 * lose least,
 *
 *     what H' and its own last step are later than alone  +  restart      (2)
 *
 * which is mostly the one that ends first. (Before, gains and losses were
 * weighed by 1 / work left, and pairs above `slowdown` never came together: 120
 * jobs of one GPU on four GPUs, each pair 1.3 times slower, took 3809 s in the
 * mean; now 2564 s, under sjf-ffs 2677 s. With the first host instead of (2):
 * 3005 s.)
 *
 * A guest that is being started needs memory, but does not train yet. Where
 * starts are measured it may come, whatever the slowdowns, if the host ends
 * before it trains; the policy wakes when that is so. The foremost guest that
 * fits there has the end of the host that it can come to first: one behind it
 * whose start takes longer does not take the place before (its processes are
 * there, and those of the other are not), and comes beside the host only if (1)
 * is more than what the foremost and those behind lose, (n + 1) times the
 * seconds by which the foremost then trains later. (Before, any guest came for
 * which (1) was above 0, also a job of 18 s when one of 5 s had its processes
 * there. Which of many guests that was hung on fractions of a second, and so
 * did all forecasts; on the tuning queues of the above, seeds 1 to 30 and
 * slices of 1.85, the mean is 0.992 of that, and the longest queue is at 1.005
 * of sjf-ffs instead of 1.067.)
 *
 * `slowdown` bounds pairs that were measured, where the host could do with
 * fewer GPUs: two jobs on half of the GPUs each are mostly better than a slow
 * pair. A pair like none that was seen is tried where the guess promises a
 * gain, for without that it would stay unknown.
 *
 * Cost: O(choices) for a job and a host, `MOMENTS` times that for a guest that
 * the others wait for.
 */
#include "policy/firn.h"

enum { PASSES_MAX = 8, MOMENTS = 16 };

static const double SOON_S = 1e-3;
static const double NEARLY = 0.95; /* of the greatest gain */

static double memory_of(const struct one_round *round,
                        const struct firn_job *job,
                        const struct one_choice *choice, int passes)
{
    struct firn_way way = {.gpus = choice->gpus,
                           .type = choice->type,
                           .tunes = choice->tunes,
                           .passes = passes};
    return firn_view_load(round->view, job, &way).mem_gib;
}

int one_passes_beside(const struct one_round *round,
                      const struct one_seat *seat,
                      const struct one_choice *choice,
                      const struct one_seat *host)
{
    const struct one_choice *theirs = &host->choices[host->chosen];
    double their_gib = memory_of(round, host->job, theirs, 0);
    int most = firn_job_can(seat->job, FIRN_CAN_PASSES) ? PASSES_MAX : 0;
    bool is_bold = round->one->rules.unknown;
    if (isnan(their_gib) && !is_bold)
        return ONE_NONE;
    for (int passes = 0; passes <= most; passes = passes > 0 ? 2 * passes : 2) {
        double gib = memory_of(round, seat->job, choice, passes);
        if (isnan(gib) && !is_bold)
            return ONE_NONE;
        if (firn_offer_fits(round->view, choice->type, gib, their_gib))
            return passes;
    }
    return ONE_NONE;
}

double one_trains_s(const struct one_seat *seat, const struct one_choice *as)
{
    return fmax(seat->left_s / fmax(as->rate, 1e-12) - seat->idle_s, 0);
}

double one_ends_s(const struct one_round *round, const struct one_seat *host)
{
    return one_trains_s(host, &host->choices[host->chosen]) +
           one_starts_s(round, host, host->job->held.nparts > 0);
}

/* Could it do with fewer GPUs? */
static bool can_shrink(const struct one_seat *host)
{
    for (int c = 0; c < host->n; c++)
        if (host->choices[c].gpus < host->choices[host->chosen].gpus)
            return true;
    return false;
}

/* Does the job go slower beside the other than `slowdown` allows, as far as
 * that was measured? */
static bool is_too_slow(const struct one_round *round, double pace,
                        const struct one_seat *seat,
                        const struct one_seat *other)
{
    return 1 / pace > round->one->rules.slow_most &&
           !firn_view_slowdown_is_guess(round->view, seat->job, other->job);
}

bool one_lies_in(const struct firn_alloc *part, const struct firn_alloc *whole)
{
    for (int i = 0; i < part->nparts; i++) {
        int k = 0;
        while (k < whole->nparts &&
               (whole->parts[k].node != part->parts[i].node ||
                whole->parts[k].board != part->parts[i].board))
            k++;
        if (k == whole->nparts ||
            (part->parts[i].gpus & ~whole->parts[k].gpus) != 0)
            return false;
    }
    return part->nparts > 0;
}

bool one_is_there(const struct one_round *round, const struct one_seat *seat,
                  const struct one_seat *host)
{
    return seat->job->held.is_shared &&
           one_lies_in(&seat->job->held, firn_plan_of(round->plan, host->job));
}

bool one_find_paces(const struct one_round *round, const struct one_seat *seat,
                    const struct one_seat *host, struct one_paces *out)
{
    double mine = firn_view_slowdown(round->view, seat->job, host->job);
    double other = firn_view_slowdown(round->view, host->job, seat->job);
    if (!(mine >= 1) || !(other >= 1))
        return false;
    *out = (struct one_paces){1 / mine, 1 / other};
    return !can_shrink(host) || (!is_too_slow(round, out->guest, seat, host) &&
                                 !is_too_slow(round, out->host, host, seat));
}

/* A job on GPUs that it shares: when it trains, in seconds from now. */
struct turn {
    double from_s, work_s; /* alone */
    double pace;           /* beside the other, over that alone */
    double last_s;         /* its last step */
    double end_s;          /* behind that */
};

/* The last steps of two jobs on the same GPUs. */
static void run_both(struct turn *a, struct turn *b)
{
    struct turn *first = a->from_s <= b->from_s ? a : b;
    struct turn *second = first == a ? b : a;
    double alone_s = fmin(first->work_s, second->from_s - first->from_s);
    double rest_s = first->work_s - alone_s;
    double both_s = fmin(rest_s / first->pace, second->work_s / second->pace);
    if (!(rest_s > 0))
        both_s = 0;
    first->last_s = first->from_s + alone_s + both_s +
                    fmax(rest_s - both_s * first->pace, 0);
    second->last_s = second->from_s + both_s +
                     fmax(second->work_s - both_s * second->pace, 0);
}

/* A job and a host beside which it may run. */
struct match {
    struct one_seat *seat, *host;
    struct one_paces paces;
    double share;   /* that the host's GPUs are of all of their type */
    double waits_s; /* until it must start to train behind the host */
    bool was_here;  /* it holds GPUs of the host */
    const struct one_seat *promised; /* that has the place beside the host's
                                      * end, if it is another one; or NULL */
    bool is_free; /* else: it trains when the host does no more */
};

/* When the next job can train, if the first of two gives its place at `place_s`
 * and the engine can prepare one more from `start_s` on. 0: it is being
 * prepared, since the engine prepares several for these GPUs. */
static double next_s(const struct match *m, double place_s, double start_s)
{
    const struct one_seat *seat = m->seat;
    if (seat->nprepared == 0)
        return place_s + seat->whole_s;
    return seat->nprepared * m->share > 1
               ? 0
               : fmax(place_s, start_s + seat->whole_s);
}

/* (1); the guest has `part` of the host's GPUs. */
static double pair_gain(const struct one_round *round, const struct match *m,
                        const struct turn *guest, const struct turn *host,
                        double part, bool is_held)
{
    double host_s = host->from_s + host->work_s; /* alone */
    double after_s = fmax(host_s, guest->from_s) + guest->work_s;
    double place_s =
        fmin(host->last_s + host->end_s, guest->last_s + guest->end_s);
    double now_s = host->last_s + part * fmax(guest->last_s - host->last_s, 0);
    double later_s = host_s + part * (after_s - host_s);
    double gain =
        later_s - now_s - round->one->rules.share_min * (host->last_s - host_s);
    if (is_held)
        gain += m->seat->full_s;
    else {
        now_s = fmax(now_s, next_s(m, place_s, 0));
        later_s =
            fmax(later_s, next_s(m, host_s + host->end_s, fmax(m->waits_s, 0)));
    }
    return gain + round->nbehind * m->share * (later_s - now_s);
}

/* What the job that has the place beside the host's end loses if the guest
 * comes, in seconds until it trains, and with it those behind. */
static double push(const struct one_round *round, const struct match *m,
                   const struct turn *guest, const struct turn *host)
{
    double place_s =
        fmin(host->last_s + host->end_s, guest->last_s + guest->end_s);
    if (m->promised == NULL || m->was_here)
        return 0;
    double later_s =
        place_s + m->promised->start_s - host->from_s - host->work_s;
    return fmax(later_s, 0) * (1 + round->nbehind * m->share);
}

static struct turn turn_of(const struct one_round *round,
                           const struct one_seat *seat, int c, bool is_held,
                           double pace)
{
    return (struct turn){.from_s = one_starts_s(round, seat, is_held),
                         .work_s = one_trains_s(seat, &seat->choices[c]),
                         .pace = pace,
                         .end_s = seat->end_s};
}

/* What is left of it in `in_s` seconds. */
static void pass(struct turn *turn, double in_s)
{
    double trained_s = fmax(in_s - turn->from_s, 0);
    turn->from_s = fmax(turn->from_s - in_s, 0);
    turn->work_s = fmax(turn->work_s - trained_s, 0);
}

/* (1) if a guest that holds nothing comes in `in_s` seconds. One whose
 * processes are being started goes on with that. */
static double gain_in(const struct one_round *round, const struct match *now,
                      int c, double in_s)
{
    const struct one_seat *seat = now->seat, *host = now->host;
    struct match m = *now;
    struct turn mine = turn_of(round, seat, c, false, m.paces.guest);
    struct turn theirs = turn_of(round, host, host->chosen,
                                 host->job->held.nparts > 0, m.paces.host);
    double part =
        (double)seat->choices[c].gpus / host->choices[host->chosen].gpus;
    pass(&theirs, in_s);
    if (mine.from_s < seat->whole_s)
        mine.from_s = fmax(mine.from_s - in_s, 0);
    m.waits_s = theirs.from_s + theirs.work_s - mine.from_s;
    run_both(&theirs, &mine);
    return pair_gain(round, &m, &mine, &theirs, part, false);
}

/* When a guest that the others wait for would come, in seconds: as soon as (1)
 * is nearly as great as it gets; the latest moment is that from which on it
 * trains behind the host. */
static double comes_s(const struct one_round *round, const struct match *m,
                      int c, double gain)
{
    double gains[MOMENTS] = {gain}, most = gain;
    for (int i = 1; i < MOMENTS && !m->was_here; i++) {
        gains[i] = gain_in(round, m, c, i * m->waits_s / MOMENTS);
        most = fmax(most, gains[i]);
    }
    if (!(most > SOON_S))
        return m->waits_s;
    int i = 0;
    while (!(gains[i] >= NEARLY * most))
        i++;
    return i * m->waits_s / MOMENTS;
}

/* It could come then, beside the host of `m`. */
static void note_later(const struct one_round *round, const struct match *m,
                       int c, double in_s, struct one_stay *best)
{
    const struct one_choice *choice = &m->seat->choices[c];
    if ((best->later == NULL || in_s < best->later_s) &&
        one_passes_beside(round, m->seat, choice, m->host) != ONE_NONE) {
        best->later = m->host;
        best->later_s = in_s;
    }
}

static void try_choice(const struct one_round *round, const struct match *m,
                       int c, struct one_stay *best)
{
    struct one_seat *seat = m->seat, *host = m->host;
    int gpus = seat->choices[c].gpus;
    bool is_held = m->was_here && seat->job->held.ngpus == gpus;
    struct turn theirs = turn_of(round, host, host->chosen,
                                 host->job->held.nparts > 0, m->paces.host);
    struct turn mine = turn_of(round, seat, c, m->was_here, m->paces.guest);
    run_both(&theirs, &mine);
    double part = (double)gpus / host->choices[host->chosen].gpus;
    double lost_s = theirs.last_s - theirs.from_s - theirs.work_s +
                    mine.last_s - mine.from_s - mine.work_s +
                    (is_held ? 0 : seat->cost_s - seat->first_s);
    double gain = pair_gain(round, m, &mine, &theirs, part, is_held);
    bool may_come = m->is_free || gain > push(round, m, &mine, &theirs);
    if (!m->is_free && seat->start_s > 0 && m->promised == NULL) {
        double in_s = comes_s(round, m, c, gain);
        may_come = !(in_s > 0);
        if (!may_come)
            note_later(round, m, c, in_s, best);
    }
    if (!may_come || (best->host != NULL && lost_s >= best->lost_s))
        return;
    int passes = one_passes_beside(round, seat, &seat->choices[c], host);
    if (passes != ONE_NONE)
        *best = (struct one_stay){.host = host,
                                  .lost_s = lost_s,
                                  .choice = c,
                                  .passes = passes,
                                  .is_held = is_held,
                                  .later = best->later,
                                  .later_s = best->later_s};
}

void one_try_host(const struct one_round *round, struct one_seat *seat,
                  struct one_seat *host, struct one_stay *best)
{
    const struct one_choice *theirs = &host->choices[host->chosen];
    struct match m = {.seat = seat,
                      .host = host,
                      .paces = {1, 1},
                      .was_here = one_is_there(round, seat, host)};
    m.share =
        (double)theirs->gpus / round->view->cluster->types[theirs->type].ngpus;
    m.waits_s = one_ends_s(round, host) - one_starts_s(round, seat, m.was_here);
    if (host->next != seat && host->next != NULL && !host->next->is_placed)
        m.promised = host->next;
    m.is_free = m.waits_s <= SOON_S && m.promised == NULL;
    if (!m.is_free && !one_find_paces(round, seat, host, &m.paces))
        return;
    for (int c = 0; c < seat->n; c++) {
        const struct one_choice *choice = &seat->choices[c];
        if (choice->type == theirs->type && choice->gpus <= theirs->gpus &&
            !choice->is_mixed && choice->how.tensor <= 1)
            try_choice(round, &m, c, best);
    }
}
