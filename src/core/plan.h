/* plan.h - the inside of a plan: what core does with it after the policy.
 *
 * A plan lives as long as the round object and is opened and closed once a
 * round, so its arrays are allocated once.
 */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H
#include "core/place.h"
#include "core/state.h"
#include <firn/plan.h>

enum plan_kind {
    PLAN_HOLD,   /* holds `alloc` */
    PLAN_NONE,   /* holds nothing */
    PLAN_REJECT, /* ends unrun; `reason` says why */
};

/* One instruction of a policy for one job. The latest one counts. */
struct plan_entry {
    const struct firn_job *job;
    enum plan_kind kind;
    struct firn_alloc alloc;
    bool in_map;  /* `alloc` is taken in the plan's map */
    int previous; /* earlier entry for the same job, -1 for none */
    const char *reason;
};

struct plan_note {
    firn_job_id job;
    char text[64];
};

struct firn_plan {
    struct state *state;
    place_rule *place;
    const struct firn_view *view;
    struct freemap empty; /* as if nothing ran: for plans that start empty */
    struct freemap *map;  /* `empty`, or state's own after keep_all */
    bool keeps_all;
    VEC(struct plan_entry) entries;
    VEC(int) latest; /* by slot: 1 + index of the latest entry, 0: none */
    VEC(struct plan_note) notes;
};

/* `place` chooses GPUs for firn_plan_give(); NULL: place_take(). */
void plan_init(struct firn_plan *plan, struct state *state, place_rule *place);
void plan_release(struct firn_plan *plan);
/* A node went up or down. Only between rounds. */
void plan_node(struct firn_plan *plan, firn_node_id node);

void plan_open(struct firn_plan *plan, const struct firn_view *view);
/* Puts the maps back as they were; the entries stay to be read. */
void plan_close(struct firn_plan *plan);
/* Forgets the entries. */
void plan_clear(struct firn_plan *plan);

/* The latest entry for a job, or NULL when it was not mentioned. */
const struct plan_entry *plan_entry_of(const struct firn_plan *plan,
                                       const struct firn_job *job);

#endif
