/* joinwork.h - a process's part of a resize, shared by join.c and join_far.c.
 */
#ifndef TRAIN_JOINWORK_H
#define TRAIN_JOINWORK_H
#include "train/groupwork.h"
#include "wire/join.h"
#include <firn/join.h>

struct firn_join {
    struct firn_join_board *board;
    uint64_t number; /* of the order: a joiner's own; else the present one */
    bool is_new;
    int new_rank; /* -1: leaves */
    int old_rank; /* -1: joins */
    struct firn_join_order order;
    struct firn_group *bridge;
    uint64_t turn; /* of the halves of its memory */
    uint64_t seen; /* the order that was noticed at `ordered_s` */
    double ordered_s, ready_s, began_s;

    /* Far: old process 0's socket, and the order for which it was opened. */
    int listener;
    uint64_t offered;
    char at[FIRN_JOIN_AT]; /* the address of the group that is opened */
};

/* --- join_far.c: the processes share no memory ---------------------------- */

static inline bool firn_join_is_far(const struct firn_join *j)
{
    return atomic_load(&j->board->is_far) != 0;
}

/* Old process 0, before the switch: opens a socket for the bridge and writes on
 * the board where it is. */
void firn_join_far_offer(struct firn_join *j, uint64_t number);
void firn_join_far_close(struct firn_join *j);
/* Waits until the order and the address of old process 0 are on the board. */
enum firn_status firn_join_far_await(struct firn_join *j,
                                     bool (*is_given_up)(void *arg),
                                     struct firn_error *err);
/* The bridge: a host for each process. */
void firn_join_far_bridge(struct firn_join *j, struct firn_group_config *c,
                          struct grp_watch *watch);
/* Bytes of old process 0 to all that take them. Collective over the bridge. */
enum firn_status firn_join_far_pour(struct firn_join *j, void *data,
                                    size_t nbytes, bool takes,
                                    struct firn_error *err);
/* Where new process 0 listens, and which processes share memory. Collective
 * over the bridge. */
enum firn_status firn_join_far_group(struct firn_join *j,
                                     struct firn_group_config *c,
                                     struct grp_watch *watch,
                                     struct firn_error *err);
/* The processes before and behind `rank` of the new layout that share its
 * memory: its place among them, and how many they are. */
void firn_join_far_place(const struct firn_join_order *order, int rank,
                         int *local, int *nlocal);

#endif
