/* icefrog.h - the inside of IceFrog's policy.
 *
 * icefrog.c has the idea, the options and the round. icefrog_menu.c makes the
 * jobs' menus and values, iceshare.c divides the GPUs, icefrog_share.c pairs
 * jobs that share a GPU, icefrog_place.c finds places.
 *
 * What trainers tune is part of a policy's declaration, so batch scaling
 * (Fig. 10c) cannot be an option: icefrog_batch.c declares a second policy
 * with the same options and functions.
 */
#ifndef POLICY_ICEFROG_H
#define POLICY_ICEFROG_H
#include "base/map.h"
#include "base/vec.h"
#include "policy/iceshare.h"
#include "policy/rounds.h"
#include <firn/policy.h>

enum icefrog_idle { ICEFROG_ZERO, ICEFROG_WAIT };
enum icefrog_objective { ICEFROG_ICESHARE, ICEFROG_FITNESS };

/* Two applications, by number, that went badly together; a <= b. */
struct icefrog_pair {
    int a, b;
};

/* The state of the policy. */
struct icefrog {
    /* options */
    double interval_s, restart_s, lambda, evict, weight, efficiency, behind;
    bool sharing, packs_unknown, charges, gathers, between;
    int idle, objective, group;

    bool batch; /* trainers tune their batch too; set by init */

    struct rounds rounds;
    struct map apps;
    VEC(struct icefrog_pair) bad; /* in order */
};

/* Details of a choice of GPUs. */
struct ice_detail {
    int gpus;
    struct firn_how how; /* how its model is spread over them */
    double rate;         /* reference seconds a second, as forecast */
    bool is_held;        /* the job runs this way now */
    bool is_moved;       /* as many GPUs as now, but brought together */
    double use;          /* work of a GPU this way / at its best */
    bool is_waste;       /* only for GPUs that are left over */
    double value;        /* its value if it were no waste */
};

#define ICE_NONE ((size_t)-1)

/* A job in a round. */
struct ice_seat {
    const struct firn_job *job;
    struct iceshare_choice *choices; /* [0]: nothing; units are half GPUs */
    struct ice_detail *details;      /* of each choice */
    size_t n, chosen;
    double left;           /* reference seconds */
    double nothing;        /* value of no GPU at all, < 0 */
    bool shares;           /* it may have half a GPU */
    int app;               /* number of its application; < 0: its own */
    struct firn_load load; /* on one GPU */
    size_t sharer;  /* seat of the job that shares its GPU now, or ICE_NONE */
    size_t partner; /* seat of the job that is to share it, or ICE_NONE */
    bool is_placed;
};

struct ice_round {
    struct icefrog *ice;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct ice_seat *seats; /* by id */
    size_t n;
    int capacity[FIRN_TYPES_MAX]; /* half GPUs, by type */
    int fair;                     /* GPUs each */
    double wait_s;                /* until the next round */
    double turn_s; /* for which jobs wait on average; see icefrog_menu.c */
    bool is_round; /* false: between rounds, only waiting jobs have seats */
};

/* The one type of all GPUs it holds, or -1. */
firn_type_id ice_type_held(const struct ice_round *round,
                           const struct firn_job *job);

static inline bool ice_is_half(const struct ice_seat *seat)
{
    return seat->choices[seat->chosen].units == 1;
}

static inline firn_type_id ice_type(const struct ice_seat *seat)
{
    return seat->choices[seat->chosen].pool;
}

static inline int ice_gpus(const struct ice_seat *seat)
{
    return seat->details[seat->chosen].gpus;
}

/* The choices of all seats, and what they are worth. After ice_meet(). */
void ice_menus(struct ice_round *round);

/* Finds the jobs that share a GPU now and those that may; remembers pairs that
 * go badly. Before the menus. */
void ice_meet(struct ice_round *round);

/* Jobs that fit with no other job of the round cannot choose half a GPU. */
void ice_bar_lone(struct ice_round *round);

/* Pairs the jobs that chose half a GPU. Jobs left without a partner have
 * nothing; the busiest half of them, or all when `is_last`, can no longer
 * choose it. Returns the number left. */
size_t ice_pair(struct ice_round *round, bool is_last);

/* It can no longer make this choice: nothing is better. */
static inline void ice_bar(struct ice_seat *seat, size_t c)
{
    seat->choices[c].value = seat->nothing - 1;
}

/* It can no longer choose half a GPU. */
static inline void ice_bar_half(struct ice_seat *seat)
{
    for (size_t c = 1; c < seat->n; c++)
        if (seat->choices[c].units == 1)
            ice_bar(seat, c);
}

/* Writes the plan from what is chosen. */
void ice_place(struct ice_round *round);

/* For struct firn_policy_def; the state is a struct icefrog. */
extern const struct firn_option icefrog_options[];
enum firn_status icefrog_decide(void *state, const struct firn_view *view,
                                struct firn_plan *plan);
double icefrog_wake_s(const void *state, const struct firn_view *view);
void icefrog_fini(void *state);
void icefrog_save(const void *state, struct firn_buf *out);
enum firn_status icefrog_load(void *state, struct firn_bytes in,
                              struct firn_error *err);

#endif
