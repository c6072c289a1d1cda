/* firn_share.c - who has a place on shared GPUs, under the policy firn.
 *
 * A job to which the assignment gave no GPU may run beside one that has some, a
 * host, where (1) of firn_pair.c is above 0, and goes to the host where (2) is
 * least. Those that wait are looked at in the order of what a GPU is worth to
 * them.
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
 * host, if (2) of firn_pair.c is less there by `keep` restarts besides its own.
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
 * Cost: O(waiting x hosts) pairs, of `GUESTS` that wait at most, and O(jobs)
 * for each job that would lose its place.
 */
#include "policy/firn.h"
#include <stdlib.h>

enum { GUESTS = 200 };

/* ---- guests ---- */

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

static bool stay(const struct one_round *round, struct one_seat *seat,
                 const struct one_stay *best)
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
                 const struct one_stay *best)
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
    struct one_stay best = {0};
    for (size_t k = 0; k < round->n; k++) {
        struct one_seat *host = &round->seats[k];
        if (host != seat && is_open(round, host) &&
            (!stays || one_is_there(round, seat, host)))
            one_try_host(round, seat, host, &best);
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
                (struct opening){seat, one_ends_s(round, seat)};
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
                             : one_trains_s(seat, &seat->choices[there]) +
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
    double new_s = one_trains_s(new, choice) + one_starts_s(round, new, false);
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
            (has->ngpus == held->ngpus && !one_lies_in(held, has)));
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
            one_lies_in(held, has) && !one_lies_in(&next->job->held, has))
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
        struct one_paces paces;
        if (other == seat || !other->is_placed ||
            !firn_alloc_overlaps(held, plan_of(round, other)))
            continue;
        int passes =
            one_passes_beside(round, seat, &seat->choices[seat->chosen], other);
        if (passes == ONE_NONE || passes > held->how.passes ||
            !one_find_paces(round, seat, other, &paces))
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
           one_lies_in(held, plan_of(round, seat));
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
    struct one_stay best = {.host = other, .lost_s = lost_s};
    for (size_t k = 0; k < round->n; k++) {
        struct one_seat *host = &round->seats[k];
        if (host != seat && host != other && is_open(round, host))
            one_try_host(round, seat, host, &best);
    }
    return best.host != other && join(round, seat, &best);
}

/* Lets one of two on the same GPUs go elsewhere if that saves more than its
 * restart and `keep` others. */
static void part(const struct one_round *round, struct one_seat *seat)
{
    struct one_seat *other =
        may_part(round, seat) ? neighbour(round, seat) : NULL;
    struct one_paces paces;
    if (other == NULL || !one_find_paces(round, seat, other, &paces))
        return;
    double rate = seat->choices[seat->chosen].rate;
    double both_s =
        fmin(one_ends_s(round, other), seat->left_s / fmax(rate, 1e-12));
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
