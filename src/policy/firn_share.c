/* firn_share.c - two jobs on the same GPUs, under the policy firn.
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
 * Host and guest are roles of one round: on the GPU both jobs are equal, and
 * the assignment names other hosts after each event. Four rules keep jobs from
 * changing places with their roles.
 *
 * Staying: jobs that can go on where they are, whatever their role was, are
 * placed before jobs that come.
 *
 * Giving way: a job that waits takes the place of a running one only if that
 * pays for the restart. Let the new job need d seconds with its start, and let
 * the running one have a place again after T seconds: when as many of the
 * others have ended as jobs wait that are worth more than it, the new one
 * included. All of these then start one free place earlier, T seconds in sum,
 * and the running job goes on T seconds and a restart later: nothing is won by
 * that. But the place that the new job leaves after d seconds is one more, and
 * those behind it, the running job being the last, start T - d seconds earlier
 * in sum. So the sum of all completion times falls by
 *
 *     T - d  -  restart                                                   (3)
 *
 * Where more jobs wait than places come free, T is what the running job itself
 * has left: the two only change places then, the new one starts that much
 * earlier and the running one ends d and a restart later. (Before, T was
 * infinite there, and a job was stopped at its first step in one of eight
 * queues of twelve C trainers: 19.4 s in the mean, now 15.9 s.)
 *
 * Exchange: a job that would go on elsewhere because another one comes to its
 * place exchanges places with it.
 *
 * Parting: one of two jobs on the same GPUs goes to free GPUs, or to another
 * host, if (2) is less there by `keep` restarts besides its own.
 *
 * (60 jobs of one GPU and 3 to 300 s on four GPUs at load 2, starts of 8 s that
 * are charged, pairs 1.1 to 1.6 times slower, twelve seeds not used for any
 * choice: 79.3 s in the mean and 61 restarts a run before; 75.4 s and 7
 * restarts by staying; 74.5 s and none with giving way and exchange; 74.4 s and
 * one with parting; sjf-ffs 75.3 s, sjf-bsbf 75.4 s. 120 jobs of up to four
 * hours, the row "one gpu" of bench/one_policy.py: 1430, 1421, 1427 and
 * 1408 s.)
 *
 * Invariants:
 * (1) at most two jobs on a GPU;
 * (2) a job that the assignment placed loses nothing here but by a guest, or if
 *     it has not begun: then it may wait for a running job that by (3) keeps
 *     its place.
 *
 * Cost: O(waiting x hosts x choices), of `GUESTS` that wait at most (`MOMENTS`
 * times that for the foremost ones), and O(jobs) for each job that would lose
 * its place.
 */
#include "policy/firn.h"
#include <stdlib.h>

enum { GUESTS = 200, PASSES_MAX = 8, MOMENTS = 16 };

static const double SOON_S = 1e-3;
static const double NEARLY = 0.95; /* of the greatest gain */

/* ---- pairs ---- */

/* A job beside a host. */
struct stay {
    struct one_seat *host;
    double lost_s; /* by both jobs */
    int choice, passes;
    bool is_held;
    struct one_seat *later; /* beside whose end it could start, and in how */
    double later_s;         /* many seconds */
};

/* Speeds beside each other over those alone. */
struct paces {
    double guest, host;
};

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

/* The fewest passes in which the job fits beside the host; ONE_NONE: in none.
 */
static int passes_beside(const struct one_round *round,
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

/* Does the host have room for one more job on each of its GPUs? */
static bool is_open(const struct one_round *round, const struct one_seat *host)
{
    if (!host->is_placed || host->with != NULL || host->chosen == ONE_NONE ||
        !host->job->spec.may_share || host->choices[host->chosen].is_mixed)
        return false;
    const struct firn_alloc *has = firn_plan_of(round->plan, host->job);
    return has->is_shared &&
           firn_plan_room(round->plan, host->job, 2) >= has->ngpus; /* (1) */
}

/* Seconds for which it trains alone. */
static double trains_s(const struct one_seat *seat, const struct one_choice *as)
{
    return fmax(seat->left_s / fmax(as->rate, 1e-12) - seat->idle_s, 0);
}

/* Seconds until the last step of the host, alone. */
static double ends_s(const struct one_round *round, const struct one_seat *host)
{
    return trains_s(host, &host->choices[host->chosen]) +
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

/* Are all GPUs of `part` among those of `whole`? */
static bool lies_in(const struct firn_alloc *part,
                    const struct firn_alloc *whole)
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

/* Does the job hold GPUs that the host has now, and no others? It stays on them
 * without a restart, as a guest or because the host took them from it. */
static bool is_there(const struct one_round *round, const struct one_seat *seat,
                     const struct one_seat *host)
{
    return seat->job->held.is_shared &&
           lies_in(&seat->job->held, firn_plan_of(round->plan, host->job));
}

/* The pace of the guest and of the host; false: they must not come together. */
static bool find_paces(const struct one_round *round,
                       const struct one_seat *seat, const struct one_seat *host,
                       struct paces *out)
{
    double mine = firn_view_slowdown(round->view, seat->job, host->job);
    double other = firn_view_slowdown(round->view, host->job, seat->job);
    if (!(mine >= 1) || !(other >= 1))
        return false;
    *out = (struct paces){1 / mine, 1 / other};
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
    struct paces paces;
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
                         .work_s = trains_s(seat, &seat->choices[c]),
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
                       int c, double in_s, struct stay *best)
{
    const struct one_choice *choice = &m->seat->choices[c];
    if ((best->later == NULL || in_s < best->later_s) &&
        passes_beside(round, m->seat, choice, m->host) != ONE_NONE) {
        best->later = m->host;
        best->later_s = in_s;
    }
}

static void try_choice(const struct one_round *round, const struct match *m,
                       int c, struct stay *best)
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
    int passes = passes_beside(round, seat, &seat->choices[c], host);
    if (passes != ONE_NONE)
        *best = (struct stay){.host = host,
                              .lost_s = lost_s,
                              .choice = c,
                              .passes = passes,
                              .is_held = is_held,
                              .later = best->later,
                              .later_s = best->later_s};
}

static void try_host(const struct one_round *round, struct one_seat *seat,
                     struct one_seat *host, struct stay *best)
{
    const struct one_choice *theirs = &host->choices[host->chosen];
    struct match m = {.seat = seat,
                      .host = host,
                      .paces = {1, 1},
                      .was_here = is_there(round, seat, host)};
    m.share =
        (double)theirs->gpus / round->view->cluster->types[theirs->type].ngpus;
    m.waits_s = ends_s(round, host) - one_starts_s(round, seat, m.was_here);
    if (host->next != seat && host->next != NULL && !host->next->is_placed)
        m.promised = host->next;
    m.is_free = m.waits_s <= SOON_S && m.promised == NULL;
    if (!m.is_free && !find_paces(round, seat, host, &m.paces))
        return;
    for (int c = 0; c < seat->n; c++) {
        const struct one_choice *choice = &seat->choices[c];
        if (choice->type == theirs->type && choice->gpus <= theirs->gpus &&
            !choice->is_mixed && choice->how.tensor <= 1)
            try_choice(round, &m, c, best);
    }
}

static bool stay(const struct one_round *round, struct one_seat *seat,
                 const struct stay *best)
{
    struct one_choice *choice = &seat->choices[best->choice];
    struct firn_how how = one_how(round, seat, choice);
    if (best->is_held && firn_plan_keep(round->plan, seat->job))
        return true;
    how.passes = best->passes;
    struct firn_want want = {.gpus = choice->gpus,
                             .types = (uint32_t)1 << choice->type,
                             .one_type = true,
                             .shared = true,
                             .crowd = 2,
                             .how = &how};
    if (!firn_plan_join(round->plan, seat->job, &best->host->job, 1, &want))
        return false;
    firn_plan_tune(round->plan, seat->job, choice->tunes);
    return true;
}

struct guest {
    struct one_seat *seat;
    double key;
};

static int foremost(const void *a, const void *b)
{
    const struct guest *x = a, *y = b;
    int order = firn_cmp(y->key, x->key);
    return order != 0 ? order : firn_cmp(x->seat->job->id, y->seat->job->id);
}

/* The most that a GPU is worth to a job that has none of its own. One that is a
 * guest already would lose a restart. */
static double guest_key(const struct one_seat *seat)
{
    double most = 0;
    for (int c = 0; c < seat->n; c++) {
        const struct one_choice *choice = &seat->choices[c];
        double value = choice->value;
        if (seat->is_guest)
            value = seat->weight * choice->rate *
                    one_lasting(seat, seat->cost_s, seat->left_s, choice->rate,
                                true);
        most = fmax(most, value / choice->gpus);
    }
    return most;
}

static size_t list_guests(const struct one_round *round, struct guest *guests)
{
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++) {
        struct one_seat *seat = &round->seats[i];
        if (seat->is_placed || seat->with != NULL || seat->waits ||
            !seat->job->spec.may_share || seat->n == 0)
            continue;
        guests[n++] = (struct guest){seat, guest_key(seat)};
    }
    if (n > 1)
        qsort(guests, n, sizeof *guests, foremost);
    return n < GUESTS ? n : GUESTS;
}

/* Lets the seat run beside the host of `best`; false: there is none, or no
 * room. */
static bool join(const struct one_round *round, struct one_seat *seat,
                 const struct stay *best)
{
    if (best->host == NULL || !stay(round, seat, best))
        return false;
    seat->chosen = best->choice;
    seat->is_placed = true;
    seat->beside = best->host->job;
    return true;
}

/* Looks for a host; `stays`: only where the job is. */
static bool seek(const struct one_round *round, struct one_seat *seat,
                 bool stays)
{
    struct stay best = {0};
    for (size_t k = 0; k < round->n; k++) {
        struct one_seat *host = &round->seats[k];
        if (host != seat && is_open(round, host) &&
            (!stays || is_there(round, seat, host)))
            try_host(round, seat, host, &best);
    }
    if ((!stays || best.is_held) && join(round, seat, &best))
        return true;
    if (best.later != NULL && !stays) {
        best.later->next = seat;
        round->one->tail_s =
            fmin(round->one->tail_s, round->view->now_s + best.later_s);
    }
    return false;
}

/* ---- who gives way ---- */

/* When a place on GPUs of a type becomes free. */
struct opening {
    const struct one_seat *seat;
    double at_s;
};

/* The guests of a round, foremost first, and the ends of the jobs with GPUs. */
struct hall {
    struct guest *guests;
    size_t nguests;
    struct opening *openings; /* by time */
    size_t nopenings;
};

static int by_time(const void *a, const void *b)
{
    const struct opening *x = a, *y = b;
    int order = firn_cmp(x->at_s, y->at_s);
    return order != 0 ? order : firn_cmp(x->seat->job->id, y->seat->job->id);
}

static void list_openings(const struct one_round *round, struct hall *hall)
{
    hall->openings =
        firn_view_alloc(round->view, (round->n + 1) * sizeof *hall->openings);
    for (size_t i = 0; i < round->n; i++) {
        const struct one_seat *seat = &round->seats[i];
        if (seat->is_placed && seat->chosen != ONE_NONE)
            hall->openings[hall->nopenings++] =
                (struct opening){seat, ends_s(round, seat)};
    }
    if (hall->nopenings > 1)
        qsort(hall->openings, hall->nopenings, sizeof *hall->openings, by_time);
}

/* Seconds until `old` has its turn again if `new` gets its place: as many
 * places of the type are free then as jobs wait that are worth more than `key`.
 */
static double again_s(const struct hall *hall, const struct one_seat *old,
                      const struct one_seat *new, double key, firn_type_id type)
{
    size_t nbefore = 0;
    for (size_t i = 0; i < hall->nguests && hall->guests[i].key > key; i++) {
        const struct one_seat *seat = hall->guests[i].seat;
        nbefore += !seat->is_placed && seat != old && seat != new;
    }
    for (size_t i = 0; i < hall->nopenings; i++) {
        const struct one_seat *seat = hall->openings[i].seat;
        if (seat == old || seat == new || !seat->is_placed ||
            seat->choices[seat->chosen].type != type)
            continue;
        if (nbefore-- == 0)
            return hall->openings[i].at_s;
    }
    return INFINITY;
}

/* The choice of as many GPUs of the type as the job holds; or ONE_NONE. */
static int choice_there(const struct one_seat *seat)
{
    for (int c = 0; c < seat->n; c++)
        if (seat->choices[c].gpus == seat->job->held.ngpus &&
            seat->choices[c].type == seat->held_type)
            return c;
    return ONE_NONE;
}

/* Seconds until the last step of a job that goes on where it is, alone. */
static double goes_on_s(const struct one_round *round,
                        const struct one_seat *seat)
{
    int there = choice_there(seat);
    return there == ONE_NONE ? INFINITY
                             : trains_s(seat, &seat->choices[there]) +
                                   one_starts_s(round, seat, true);
}

/* Is it worth a restart of `old` that `new` has its place, by (3)? */
static bool pays(const struct one_round *round, const struct hall *hall,
                 const struct one_seat *old, const struct one_seat *new,
                 const struct one_choice *choice)
{
    double key = guest_key(old);
    if (new->is_due || new->job->spec.priority > old->job->spec.priority)
        return true;
    if (!(guest_key(new) > key))
        return false;
    double new_s = trains_s(new, choice) + one_starts_s(round, new, false);
    double again =
        fmin(again_s(hall, old, new, key, choice->type), goes_on_s(round, old));
    return again - new_s > old->cost_s;
}

static void unplace(const struct one_round *round, struct one_seat *seat)
{
    firn_plan_drop(round->plan, seat->job);
    seat->is_placed = false;
    seat->chosen = ONE_NONE;
    seat->beside = NULL;
}

/* Lets a job that waits have the place of a guest that is worth less. */
static void displace(const struct one_round *round, const struct hall *hall,
                     const struct guest *new)
{
    for (size_t i = hall->nguests; i-- > 0;) {
        struct one_seat *old = hall->guests[i].seat;
        if (hall->guests[i].key >= new->key)
            return;
        if (!old->is_placed || old->job->held.nparts == 0 ||
            !pays(round, hall, old, new->seat, &old->choices[old->chosen]))
            continue;
        struct one_seat was = *old;
        size_t mark = firn_plan_mark(round->plan);
        unplace(round, old);
        if (seek(round, new->seat, false))
            return;
        firn_plan_undo(round->plan, mark);
        *old = was;
    }
}

/* ---- places that are exchanged ---- */

static const struct firn_alloc *plan_of(const struct one_round *round,
                                        const struct one_seat *seat)
{
    return firn_plan_of(round->plan, seat->job);
}

/* Does the job lose its place and go on elsewhere on as many GPUs, or stop? */
static bool is_moved(const struct one_round *round, const struct one_seat *seat)
{
    const struct firn_alloc *held = &seat->job->held;
    const struct firn_alloc *has = plan_of(round, seat);
    return held->nparts > 0 && held->is_shared && seat->with == NULL &&
           seat->parted == NULL &&
           (!seat->is_placed ||
            (has->ngpus == held->ngpus && !lies_in(held, has)));
}

/* The job that comes to the place that another one loses; or NULL. */
static struct one_seat *successor(const struct one_round *round,
                                  const struct one_seat *seat)
{
    const struct firn_alloc *held = &seat->job->held;
    for (size_t i = 0; i < round->n; i++) {
        struct one_seat *next = &round->seats[i];
        const struct firn_alloc *has = plan_of(round, next);
        if (next != seat && next->is_placed && next->with == NULL &&
            next->chosen != ONE_NONE && has->is_shared &&
            next->job->spec.may_share && has->ngpus == held->ngpus &&
            lies_in(held, has) && !lies_in(&next->job->held, has))
            return next;
    }
    return NULL;
}

/* May the job go on as it runs beside those that the plan has on its GPUs? */
static bool can_go_on(const struct one_round *round,
                      const struct one_seat *seat)
{
    const struct firn_alloc *held = &seat->job->held;
    for (size_t i = 0; i < round->n; i++) {
        const struct one_seat *other = &round->seats[i];
        struct paces paces;
        if (other == seat || !other->is_placed ||
            !firn_alloc_overlaps(held, plan_of(round, other)))
            continue;
        int passes =
            passes_beside(round, seat, &seat->choices[seat->chosen], other);
        if (passes == ONE_NONE || passes > held->how.passes ||
            !find_paces(round, seat, other, &paces))
            return false;
    }
    return true;
}

/* Gives the job its place again, and `next` what the job had instead. */
static bool exchange(const struct one_round *round, struct one_seat *seat,
                     struct one_seat *next)
{
    bool was_placed = seat->is_placed;
    int chosen = next->chosen;
    unplace(round, next);
    if (was_placed)
        unplace(round, seat);
    seat->chosen = choice_there(seat);
    seat->is_placed =
        seat->chosen != ONE_NONE && firn_plan_keep(round->plan, seat->job);
    if (!seat->is_placed || !can_go_on(round, seat))
        return false;
    if (seek(round, next, false) || !was_placed)
        return true;
    next->chosen = chosen;
    next->is_placed = one_give(round, next);
    return next->is_placed;
}

/* False: the job is where it should be, or cannot be put back. */
static bool put_back(const struct one_round *round, const struct hall *hall,
                     struct one_seat *seat)
{
    struct one_seat *next =
        is_moved(round, seat) ? successor(round, seat) : NULL;
    if (next == NULL ||
        (!seat->is_placed &&
         pays(round, hall, seat, next, &next->choices[next->chosen])))
        return false;
    struct one_seat was = *seat, next_was = *next;
    size_t mark = firn_plan_mark(round->plan);
    if (exchange(round, seat, next))
        return true;
    firn_plan_undo(round->plan, mark);
    *seat = was;
    *next = next_was;
    return false;
}

/* A job that is back in its place loses it no more: this ends. */
static void put_all_back(const struct one_round *round, const struct hall *hall)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < round->n; i++)
            again = put_back(round, hall, &round->seats[i]) || again;
    }
}

/* ---- pairs that part ---- */

/* The job that shared the GPUs of a seat and still does; or NULL. */
static struct one_seat *neighbour(const struct one_round *round,
                                  const struct one_seat *seat)
{
    for (size_t i = 0; seat->beside != NULL && i < round->n; i++) {
        struct one_seat *other = &round->seats[i];
        if (other->job == seat->beside)
            return other->is_placed && other->chosen != ONE_NONE &&
                           firn_alloc_overlaps(plan_of(round, seat),
                                               plan_of(round, other))
                       ? other
                       : NULL;
    }
    return NULL;
}

/* Does the job stay where it is in the plan, and may it be moved? */
static bool may_part(const struct one_round *round, const struct one_seat *seat)
{
    const struct firn_alloc *held = &seat->job->held;
    return seat->is_placed && seat->with == NULL && seat->beside != NULL &&
           seat->chosen != ONE_NONE && !seat->is_settled && held->is_shared &&
           seat->pinned == ONE_NONE &&
           seat->choices[seat->chosen].gpus == held->ngpus &&
           !seat->choices[seat->chosen].is_mixed &&
           lies_in(held, plan_of(round, seat));
}

/* GPUs on which there is no other job. */
static bool give_own(const struct one_round *round, struct one_seat *seat,
                     int chosen)
{
    const struct one_choice *choice = &seat->choices[chosen];
    struct firn_how how = one_how(round, seat, choice);
    struct firn_want want = {.gpus = choice->gpus,
                             .types = (uint32_t)1 << choice->type,
                             .one_type = true,
                             .shared = true,
                             .crowd = 1,
                             .how = &how};
    if (firn_plan_free_of(round->plan, choice->type) < choice->gpus ||
        !firn_plan_join(round->plan, seat->job, NULL, 0, &want))
        return false;
    firn_plan_tune(round->plan, seat->job, choice->tunes);
    seat->chosen = chosen;
    seat->is_placed = true;
    return true;
}

/* Looks for a host other than `other` where less is lost. */
static bool seek_better(const struct one_round *round, struct one_seat *seat,
                        struct one_seat *other, double lost_s)
{
    struct stay best = {.host = other, .lost_s = lost_s};
    for (size_t k = 0; k < round->n; k++) {
        struct one_seat *host = &round->seats[k];
        if (host != seat && host != other && is_open(round, host))
            try_host(round, seat, host, &best);
    }
    return best.host != other && join(round, seat, &best);
}

/* Lets one of two on the same GPUs go elsewhere if that saves more than its
 * restart and `keep` others. */
static void part(const struct one_round *round, struct one_seat *seat)
{
    struct one_seat *other =
        may_part(round, seat) ? neighbour(round, seat) : NULL;
    struct paces paces;
    if (other == NULL || !find_paces(round, seat, other, &paces))
        return;
    double rate = seat->choices[seat->chosen].rate;
    double both_s =
        fmin(ends_s(round, other), seat->left_s / fmax(rate, 1e-12));
    double saved_s =
        (2 - paces.guest - paces.host) * both_s - seat->keep * seat->cost_s;
    if (!(saved_s > seat->cost_s))
        return;
    struct one_seat was = *seat;
    size_t mark = firn_plan_mark(round->plan);
    unplace(round, seat);
    if (give_own(round, seat, was.chosen) ||
        seek_better(round, seat, other, saved_s))
        return;
    firn_plan_undo(round->plan, mark);
    *seat = was;
}

void one_share(struct one_round *round)
{
    if (!round->one->rules.share)
        return;
    struct hall hall = {
        .guests = firn_view_alloc(round->view,
                                  (round->n + 1) * sizeof(struct guest))};
    struct guest *guests = hall.guests;
    size_t n = hall.nguests = list_guests(round, guests);
    round->nbehind = n > 0 ? (double)n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        if (guests[i].seat->job->held.nparts > 0)
            seek(round, guests[i].seat, true);
    for (size_t i = 0; i < n; i++)
        if (!guests[i].seat->is_placed)
            seek(round, guests[i].seat, false);
    list_openings(round, &hall);
    for (size_t i = 0; i < n; i++)
        if (!guests[i].seat->is_placed)
            displace(round, &hall, &guests[i]);
    put_all_back(round, &hall);
    for (size_t i = 0; i < round->n; i++)
        part(round, &round->seats[i]);
}
