/* icefrog_place.c - places for the GPUs that were divided.
 *
 * A job that keeps its number of GPUs keeps these, and so does a pair on one
 * GPU. Then jobs that run scattered are brought together on one node where that
 * is free; if it is not they stay. The others follow, the largest first, on the
 * fewest nodes, best fit (Shockwave's rule, which the paper uses); at last the
 * guests of new pairs, each on the GPU of its host. Of a pair that may be
 * joined where it is, the first such job is the host and is not restarted.
 *
 * Invariant: of two that shared a GPU and no longer do, one leaves it.
 */
#include "policy/icefrog.h"
#include <stdlib.h>

/* It may stay, unless the job that shared its GPU keeps that GPU. */
static bool keep(struct ice_round *round, struct ice_seat *seat)
{
    const struct ice_seat *sharer =
        seat->sharer == ICE_NONE ? NULL : &round->seats[seat->sharer];
    if (sharer && sharer->is_placed && seat->partner != seat->sharer)
        return false;
    seat->is_placed = firn_plan_keep(round->plan, seat->job);
    return seat->is_placed;
}

static void keep_all(struct ice_round *round)
{
    for (size_t i = 0; i < round->n; i++) {
        struct ice_seat *seat = &round->seats[i];
        if (seat->chosen == 0)
            continue;
        if (ice_is_half(seat)) {
            /* Of a pair the first job that can be joined where it is stays
             * there. */
            bool is_first = seat->sharer == seat->partner ||
                            !round->seats[seat->partner].is_placed;
            if (is_first && seat->job->held.is_shared &&
                seat->job->held.ngpus == 1 &&
                ice_type_held(round, seat->job) == ice_type(seat))
                keep(round, seat);
        } else if (seat->details[seat->chosen].is_held)
            keep(round, seat);
    }
}

/* Brings jobs together on one node where there is room for it. */
static void move_all(struct ice_round *round)
{
    for (size_t i = 0; i < round->n; i++) {
        struct ice_seat *seat = &round->seats[i];
        struct firn_want want = {.gpus = ice_gpus(seat),
                                 .types = 1u << ice_type(seat),
                                 .one_type = true,
                                 .one_node = true,
                                 .how = &seat->details[seat->chosen].how};
        if (!seat->details[seat->chosen].is_moved)
            continue;
        seat->is_placed = firn_plan_give_want(round->plan, seat->job, &want);
        if (!seat->is_placed)
            keep(round, seat);
    }
}

static void place(struct ice_round *round, struct ice_seat *seat)
{
    struct firn_want want = {.gpus = ice_gpus(seat),
                             .types = 1u << ice_type(seat),
                             .one_type = true,
                             .shared = ice_gpus(seat) == 1 && seat->shares,
                             .how = &seat->details[seat->chosen].how};
    size_t mark = firn_plan_mark(round->plan);
    int free = firn_plan_free(round->plan);
    seat->is_placed = firn_plan_give_want(round->plan, seat->job, &want);
    if (seat->is_placed && firn_plan_free(round->plan) == free) {
        /* It would stay on the GPU that the other job keeps. */
        firn_plan_undo(round->plan, mark);
        want.shared = false;
        seat->is_placed = firn_plan_give_want(round->plan, seat->job, &want);
    }
    if (!seat->is_placed)
        firn_plan_note(round->plan, seat->job, "no room for its %d GPUs",
                       want.gpus);
}

static int by_size(const void *a, const void *b)
{
    const struct ice_seat *x = *(struct ice_seat *const *)a;
    const struct ice_seat *y = *(struct ice_seat *const *)b;
    if (ice_gpus(x) != ice_gpus(y))
        return ice_gpus(y) - ice_gpus(x);
    return (x > y) - (x < y);
}

/* Does the job join its partner, rather than be joined? */
static bool is_guest(const struct ice_round *round, const struct ice_seat *seat)
{
    if (!ice_is_half(seat))
        return false;
    const struct ice_seat *partner = &round->seats[seat->partner];
    return partner->is_placed || partner < seat;
}

void ice_place(struct ice_round *round)
{
    struct ice_seat **order = firn_view_alloc(
        round->view, (round->n + 1) * sizeof(struct ice_seat *));
    size_t n = 0;
    keep_all(round);
    move_all(round);
    for (size_t i = 0; i < round->n; i++)
        if (round->seats[i].chosen > 0 && !round->seats[i].is_placed)
            order[n++] = &round->seats[i];
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++)
        if (!is_guest(round, order[i]))
            place(round, order[i]);
    for (size_t i = 0; i < n; i++) {
        struct ice_seat *seat = order[i];
        if (seat->is_placed)
            continue;
        const struct ice_seat *host = &round->seats[seat->partner];
        if (ice_is_half(seat) &&
            !firn_plan_share(round->plan, seat->job, host->job))
            firn_plan_note(round->plan, seat->job,
                           "the job it was to share with has no GPU");
    }
}
