/* maxmin_ties.h - which of several tied menus stay behind; for maxmin.c only.
 *
 * A level at which only some of the tied menus can rise becomes a slot: a
 * number of places, and the members that may take one. Who takes it is left
 * open, since it decides how far the others get later. The cheapest
 * assignment of members to places is kept at all times; its cost tells
 * whether a rise fits. See maxmin_ties.c.
 */
#ifndef MATH_MAXMIN_TIES_H
#define MATH_MAXMIN_TIES_H
#include "base/heap.h"
#include "math/menus.h"
#include <stdbool.h>
#include <stdint.h>

enum { TIES_SLOTS = 32 };

/* Dearer than any capacity: the cost of rising above the top of a menu. */
#define TIES_NEVER ((int64_t)1 << 40)

/* The cheapest move of one member from a place of one slot to another. */
struct ties_arc {
    int64_t cost;
    size_t member;
};

/* Slot 0 is "above all levels so far"; it has room for all. */
struct ties {
    const struct frontier *front;
    int64_t spent, capacity; /* spent: menus that are no members, too */
    int64_t work;            /* steps left */
    bool *fixed;             /* [menu]: decided */
    size_t *position;        /* [menu]: decided, or now, in the frontier */
    size_t nmembers;
    size_t *menu;   /* [member] */
    int64_t *above; /* [member]: its cost in slot 0 */
    int64_t *here;  /* [member]: its cost where it waits */
    int *where;     /* [member]: slot */
    size_t *place;  /* [member][slot]: frontier position, or none */
    size_t *member; /* [menu]: member, or none */
    int nslots;     /* slots 1 .. nslots are open */
    struct heap up[TIES_SLOTS + 1]; /* menus by the cost of arc u -> 0 */
    struct ties_arc arc[TIES_SLOTS + 1][TIES_SLOTS + 1];
    bool fresh[TIES_SLOTS + 1]; /* is row arc[u] up to date? */
};

/* `fixed` and `position` are the caller's and have one place for each menu. */
void ties_init(struct ties *ties, const struct frontier *front,
               struct arena *scratch);

/* Frees the heaps; the rest is the arena's. */
void ties_release(struct ties *ties);

bool ties_has(const struct ties *ties, size_t menu);

/* Opens the first slot: tied[0..n) stand at positions of one value and can
 * rise, the first `nrise` of them do, the others wait. The caller has chosen
 * the cheapest rises, as many as fit: 0 < nrise < n. */
void ties_start(struct ties *ties, const size_t *tied, size_t n, size_t nrise);

/* With slots open. The menus tied[0..n) stand at positions of one value. Finds
 * the fewest that must stay there, makes them wait in a slot or fixes them, and
 * moves the positions of the others up by one, for some past the end of their
 * menu: those wait in a slot and are done. Afterwards spent <= capacity. */
void ties_level(struct ties *ties, const size_t *tied, size_t n);

/* Decides everything as it stands. */
void ties_settle(struct ties *ties);

#endif
