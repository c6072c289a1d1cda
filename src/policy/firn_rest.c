/* firn_rest.c - what the assignment of the policy firn leaves over.
 *
 * Several types: the menus have few of the ways in which elastic threads could
 * use several types at once (firn_menu.c). GPUs that the assignment leaves free
 * go to such jobs (EasyScale, Li et al., SC 2023): again and again to the job
 * that gains most for each GPU by more GPUs of one type, if it gets at least
 * `mix-min` times as fast and that pays for its restart.
 *
 * Shared GPUs: a job that got none may run beside one that did, in as many
 * passes as its memory needs there (SJF-BSBF, Wang et al.). Let the host run at
 * 1 / h and the guest at 1 / g of its speed alone, and let n more jobs wait for
 * these GPUs. In a second the host loses 1 - 1/h. What both do together is
 * 1/g + 1/h instead of 1, and by the difference the guest and all n behind it
 * end earlier than one after the other. So a pair gains, in seconds of
 * completion time for each second that it lasts,
 *
 *     (n + 1) (1/g + 1/h - 1)  -  share-min (1 - 1/h)                     (1)
 *
 * with share-min 1; less than 1 counts jobs that are still to come. A guest
 * that is already there also gains the restart that it would lose. Where (1) is
 * above 0 the guest may come. Of several hosts it goes to the one where both
 * lose least until one of them ends,
 *
 *     (2 - 1/g - 1/h) min(host's end, guest's work)  +  restart            (2)
 *
 * which is mostly the one that ends first. (Before, gains and losses were
 * weighed by 1 / work left, and pairs above `slowdown` never came together: 120
 * jobs of one GPU on four GPUs, each pair 1.3 times slower, took 3809 s in the
 * mean; now 2564 s, under sjf-ffs 2677 s. With the first host instead of (2):
 * 3005 s.)
 *
 * A guest that is being started needs memory, but does not train yet. Where
 * starts are measured it may come, whatever the slowdowns, if the host ends
 * before it trains; the policy wakes when that is so.
 *
 * `slowdown` bounds pairs that were measured, where the host could do with
 * fewer GPUs: two jobs on half of the GPUs each are mostly better than a slow
 * pair. A pair like none that was seen is tried where the guess promises a
 * gain, for without that it would stay unknown.
 *
 * Invariants: (1) at most two jobs on a GPU; (2) a job that is placed loses
 * nothing here but by a guest.
 * Cost: O(jobs x types x free GPUs) forecasts for types, O(waiting x hosts x
 * choices) for sharing, of `GUESTS` that wait at most.
 */
#include "policy/firn.h"
#include <stdlib.h>
#include <string.h>

enum { GROWTHS = 64, GUESTS = 200, PASSES_MAX = 8, FINE = 8 };

static const double SOON_S = 1e-3;

/* ---- several types ---- */

/* A job with more GPUs than it has in the plan. */
struct growth {
    struct one_seat *seat;
    double rate, gain;
    int gpus, counts[FIRN_TYPES_MAX];
};

static void count_types(const struct one_round *round,
                        const struct firn_alloc *alloc, int *counts)
{
    memset(counts, 0, FIRN_TYPES_MAX * sizeof *counts);
    for (int i = 0; i < alloc->nparts; i++)
        counts[round->view->cluster->nodes[alloc->parts[i].node].type] +=
            __builtin_popcountll(alloc->parts[i].gpus);
}

/* What the job gains for each of `more` GPUs of a type. */
static void try_growth(const struct one_round *round, struct one_seat *seat,
                       firn_type_id type, int more, struct growth *best)
{
    const struct firn_alloc *has = firn_plan_of(round->plan, seat->job);
    const struct one_choice *now = &seat->choices[seat->chosen];
    struct growth next = {.seat = seat, .gpus = has->ngpus + more};
    count_types(round, has, next.counts);
    next.counts[type] += more;
    struct firn_way way = {.gpus = next.gpus,
                           .type = type,
                           .tunes = FIRN_TUNE_THREADS |
                                    (now->tunes & FIRN_TUNE_FREEZE),
                           .counts = next.counts};
    next.rate = firn_view_rate(round->view, seat->job, &way) * seat->gain;
    if (!(next.rate > now->rate * round->one->rules.mix_min))
        return;
    double was = 1, is = 1;
    if (now->is_held) {
        was = one_lasting(round, seat->change_s, seat->left_s, now->rate, seat);
        is = one_lasting(round, seat->change_s, seat->left_s, next.rate, NULL);
    }
    next.gain = seat->weight * (next.rate * is - now->rate * was) / more;
    if (next.gain > best->gain)
        *best = next;
}

static bool may_mix(const struct one_round *round, const struct one_seat *seat)
{
    return seat->is_placed && seat->with == NULL && seat->beside == NULL &&
           seat->chosen != ONE_NONE && !seat->job->spec.one_type &&
           seat->job->spec.seq == 0 && !seat->is_settled &&
           seat->pinned == ONE_NONE &&
           !firn_plan_of(round->plan, seat->job)->is_shared;
}

static void best_growth(const struct one_round *round, struct one_seat *seat,
                        struct growth *best)
{
    const struct firn_view *view = round->view;
    int has = firn_plan_of(round->plan, seat->job)->ngpus;
    int most = firn_view_gpus_max(view, seat->job, FIRN_TUNE_THREADS);
    for (int t = 0; t < view->cluster->ntypes; t++) {
        int free = firn_plan_free_of(round->plan, t);
        if (free > most - has)
            free = most - has;
        if (!(seat->job->type_mask >> t & 1))
            continue;
        for (int more = 1; more <= free; more += more < FINE ? 1 : FINE)
            try_growth(round, seat, t, more, best);
        if (free > FINE && (free - FINE) % FINE != 0)
            try_growth(round, seat, t, free, best);
    }
}

static bool grow(const struct one_round *round, const struct growth *growth)
{
    struct one_seat *seat = growth->seat;
    struct one_choice next = seat->choices[seat->chosen];
    size_t mark = firn_plan_mark(round->plan);
    next.how.parallel = next.how.stages = next.how.tensor = 0;
    struct firn_how how = one_how(round, seat, &next);
    struct firn_want want = {
        .gpus = growth->gpus, .counts = growth->counts, .how = &how};
    firn_plan_drop(round->plan, seat->job);
    if (!firn_plan_give_want(round->plan, seat->job, &want)) {
        firn_plan_undo(round->plan, mark);
        return false;
    }
    next.tunes = FIRN_TUNE_THREADS | (next.tunes & FIRN_TUNE_FREEZE);
    firn_plan_tune(round->plan, seat->job, next.tunes);
    next.is_held = false;
    next.is_mixed = true;
    next.counts = NULL; /* nothing reads them from here on */
    next.rate = growth->rate;
    next.gpus = growth->gpus;
    seat->chosen = seat->n;
    *one_add(round, seat) = next;
    return true;
}

void one_mix(struct one_round *round)
{
    const struct one_rules *rules = &round->one->rules;
    if (!rules->mixed || !rules->threads || round->view->cluster->ntypes < 2)
        return;
    for (int i = 0; i < GROWTHS && firn_plan_free(round->plan) > 0; i++) {
        struct growth best = {0};
        for (size_t k = 0; k < round->n; k++)
            if (may_mix(round, &round->seats[k]))
                best_growth(round, &round->seats[k], &best);
        if (best.seat == NULL || !grow(round, &best))
            return;
    }
}

/* ---- shared GPUs ---- */

/* A job beside a host. */
struct stay {
    struct one_seat *host;
    double lost_s; /* by both jobs */
    int choice, passes;
    bool is_held;
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

/* Seconds until a job that holds its GPUs trains, or would if it came now. */
static double starts_s(const struct one_round *round,
                       const struct one_seat *seat, bool is_held)
{
    double since_s = is_held ? round->view->now_s - seat->job->since_s : 0;
    return fmax(seat->start_s - since_s, 0);
}

/* Seconds until the host ends, alone. */
static double ends_s(const struct one_round *round, const struct one_seat *host)
{
    double rate = host->choices[host->chosen].rate;
    return host->left_s / fmax(rate, 1e-12) +
           starts_s(round, host, host->job->held.nparts > 0);
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

/* Does the job hold GPUs that the host has now, and no others? It stays on them
 * without a restart, as a guest or because the host took them from it. */
static bool is_there(const struct one_round *round, const struct one_seat *seat,
                     const struct one_seat *host)
{
    const struct firn_alloc *held = &seat->job->held;
    const struct firn_alloc *theirs = firn_plan_of(round->plan, host->job);
    for (int i = 0; i < held->nparts; i++) {
        int k = 0;
        while (k < theirs->nparts &&
               (theirs->parts[k].node != held->parts[i].node ||
                theirs->parts[k].board != held->parts[i].board))
            k++;
        if (k == theirs->nparts ||
            (held->parts[i].gpus & ~theirs->parts[k].gpus) != 0)
            return false;
    }
    return held->nparts > 0 && held->is_shared;
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

/* (1), but for the restart; the guest has `part` of the host's GPUs. */
static double pair_gain(const struct one_round *round,
                        const struct paces *paces, double part, double behind)
{
    double loss = 1 - paces->host;
    return (part * paces->guest - loss) * (1 + behind) -
           loss * round->one->rules.share_min;
}

static void try_host(const struct one_round *round, struct one_seat *seat,
                     struct one_seat *host, struct stay *best)
{
    const struct one_choice *theirs = &host->choices[host->chosen];
    int gpus = round->view->cluster->types[theirs->type].ngpus;
    double behind = round->nbehind * theirs->gpus / gpus;
    double host_s = ends_s(round, host);
    bool was_here = is_there(round, seat, host);
    double waits_s = host_s - starts_s(round, seat, was_here);
    struct paces paces = {1, 1};
    if (waits_s > SOON_S && !find_paces(round, seat, host, &paces))
        return;
    for (int c = 0; c < seat->n; c++) {
        const struct one_choice *choice = &seat->choices[c];
        if (choice->type != theirs->type || choice->gpus > theirs->gpus ||
            choice->is_mixed || choice->how.tensor > 1)
            continue;
        bool is_held = was_here && seat->job->held.ngpus == choice->gpus;
        double part = (double)choice->gpus / theirs->gpus;
        double gain = pair_gain(round, &paces, part, behind) +
                      (is_held ? seat->cost_s / fmax(host_s, 1) : 0);
        double alone_s = seat->left_s / fmax(choice->rate, 1e-12);
        double lost_s = (2 - paces.guest - paces.host) * fmin(host_s, alone_s) +
                        (is_held ? 0 : seat->cost_s - seat->first_s);
        if (!(gain > 0) && seat->start_s > 0)
            round->one->tail_s =
                fmin(round->one->tail_s, round->view->now_s + waits_s);
        if (!(gain > 0) || (best->host != NULL && lost_s >= best->lost_s))
            continue;
        int passes = passes_beside(round, seat, choice, host);
        if (passes != ONE_NONE)
            *best = (struct stay){host, lost_s, c, passes, is_held};
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
static double guest_key(const struct one_round *round,
                        const struct one_seat *seat)
{
    double most = 0;
    for (int c = 0; c < seat->n; c++) {
        const struct one_choice *choice = &seat->choices[c];
        double value = choice->value;
        if (seat->is_guest)
            value = seat->weight * choice->rate *
                    one_lasting(round, seat->cost_s, seat->left_s, choice->rate,
                                seat);
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
        guests[n++] = (struct guest){seat, guest_key(round, seat)};
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
    return (!stays || best.is_held) && join(round, seat, &best);
}

void one_share(struct one_round *round)
{
    if (!round->one->rules.share)
        return;
    struct guest *guests =
        firn_view_alloc(round->view, (round->n + 1) * sizeof *guests);
    size_t n = list_guests(round, guests);
    round->nbehind = n > 0 ? (double)n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        if (guests[i].seat->job->held.nparts > 0)
            seek(round, guests[i].seat, true);
    for (size_t i = 0; i < n; i++)
        if (!guests[i].seat->is_placed)
            seek(round, guests[i].seat, false);
}
