/* join.h - a resize without a stop, as one process of the job sees it.
 *
 * firn_train (firn/train.h) and the PyTorch layer do all of this by themselves;
 * this header is for bindings and for trainers with a loop of their own.
 *
 * Between two steps every process of the group calls, in this order:
 *
 *     process 0        n = firn_join_due()      is there a resize to be made?
 *                      ... n goes to all processes with the step's message ...
 *     all              firn_join_meet(n)        old and new processes meet
 *     all              firn_join_send(), firn_join_share()       state moves
 *     all              firn_join_form()         the new group
 *     all              firn_join_agree()        all switch, or none does
 *
 * A process that was started to join calls firn_join_ready() once it has loaded
 * and built everything, which returns when the switch begins; then the same
 * calls from firn_join_meet() on. Whatever fails, in any process, every process
 * of the old group still calls firn_join_agree(): if the switch is given up,
 * the old group is as it was.
 *
 * Processes of one host share memory; where the supervisor says that they do
 * not (processes on several hosts, or in several allocations of one), the same
 * calls go over TCP. docs/resize.md has the phases and faults.
 */
#ifndef FIRN_JOIN_H
#define FIRN_JOIN_H
#include <firn/group.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_join;

/* By the environment: FIRN_JOIN, the board of the attempt, and FIRN_JOIN_ORDER
 * in a process that was started to join. *out is NULL without FIRN_JOIN, or
 * when the board cannot be opened in a process that does not join: the job is
 * then resized by a restart. */
FIRN_API enum firn_status firn_join_open(struct firn_join **out,
                                         struct firn_error *err);
FIRN_API void firn_join_close(struct firn_join *join);

/* Was this process started to join a running group, and has not joined yet? */
FIRN_API bool firn_join_is_new(const struct firn_join *join);
/* Do all processes share memory? If not, the calls below go over TCP. */
FIRN_API bool firn_join_shares_memory(const struct firn_join *join);
/* Tells the supervisor that this program takes such orders. */
FIRN_API void firn_join_able(struct firn_join *join);

/* --- before the switch, for trainers that prepare beside their training ------
 *
 * Each process of the running group, as soon as firn_join_pending() has an
 * order, calls firn_join_meet() and firn_join_form() in a thread of its own,
 * then firn_join_prepared(); a joiner calls the first two before
 * firn_join_ready(). At the switch all call firn_join_switch() in their place,
 * firn_join_max() for the troubles, and firn_join_agree(). When the order is
 * given up, the waits of the threads end with FIRN_EIO: firn_join_drop(). */

/* Tells the supervisor that the switch has to wait for all old processes to
 * prepare. */
FIRN_API void firn_join_prepares(struct firn_join *join);
/* The number of the order that is being prepared; 0: none. One load. */
FIRN_API uint64_t firn_join_pending(struct firn_join *join);
/* An old process has all that it needs for the switch. */
FIRN_API void firn_join_prepared(struct firn_join *join);
/* The switch begins: from here its time limit holds, and the pause counts. */
FIRN_API void firn_join_switch(struct firn_join *join);
/* The largest value of all old and new processes; collective. */
FIRN_API enum firn_status firn_join_max(struct firn_join *join, int64_t *value,
                                        struct firn_error *err);
/* Ends the meeting of an order that was given up. */
FIRN_API void firn_join_drop(struct firn_join *join);

/* Process 0, between two steps: the number of the order whose joiners are all
 * ready, which is then under way: firn_join_meet() and firn_join_agree() must
 * follow. 0: there is none. Costs one load from memory. */
FIRN_API uint64_t firn_join_due(struct firn_join *join);
/* A joiner: all is loaded and built. Returns when the switch begins; FIRN_EIO:
 * the resize was given up, and this process has nothing to do. */
FIRN_API enum firn_status firn_join_ready(struct firn_join *join,
                                          struct firn_error *err);

/* Old and new processes meet. `group` is the config of the running group (its
 * name, key and, of an old process, rank and number of processes); `nbytes`
 * about what firn_join_send() will send, the same in all processes. */
FIRN_API enum firn_status firn_join_meet(struct firn_join *join, uint64_t order,
                                         const struct firn_group_config *group,
                                         size_t nbytes, struct firn_error *err);
/* After firn_join_meet(): the rank in the new group, -1 for a leaver; its
 * number of processes; the new rank of each of `nthreads` threads (false: the
 * order does not fit). */
FIRN_API int firn_join_rank(const struct firn_join *join);
FIRN_API int firn_join_nprocs(const struct firn_join *join);
/* Do processes join? If not, nothing need be sent to them. */
FIRN_API bool firn_join_has_joiners(const struct firn_join *join);
/* The rank among, and the number of, the processes of the new layout that share
 * this one's memory. */
FIRN_API void firn_join_local(const struct firn_join *join, int *rank,
                              int *nprocs);
FIRN_API bool firn_join_layout(const struct firn_join *join, int nthreads,
                               int *owner);

/* Bytes of the old process 0 to all joiners; the memory of old processes is not
 * changed. Does nothing where no process joins. */
FIRN_API enum firn_status firn_join_send(struct firn_join *join, void *data,
                                         size_t nbytes, struct firn_error *err);
/* `nbytes` of every old process (joiners: 0), one behind the other, to all
 * processes; *all is freed with firn_group_free(). */
FIRN_API enum firn_status firn_join_share(struct firn_join *join,
                                          const void *data, size_t nbytes,
                                          void **all, size_t *nall,
                                          struct firn_error *err);
/* The new group; *out is NULL in a leaver. Of `group` its name, key, threads,
 * elements, order of sums and time-out are taken. `trouble`: why this process
 * cannot go on (all processes then learn that one cannot); NULL: it can. */
FIRN_API enum firn_status firn_join_form(struct firn_join *join,
                                         const struct firn_group_config *group,
                                         const char *trouble,
                                         struct firn_group **out,
                                         struct firn_error *err);
/* The commit point. `old` is the running group, NULL in a joiner and in a
 * process that is the only one of its group. `trouble`
 * NULL: this process has done its part; else why not. *committed: the new group
 * is the one that trains. FIRN_EIO: a process of the old group is gone. Ends
 * the meeting. */
FIRN_API enum firn_status firn_join_agree(struct firn_join *join,
                                          struct firn_group *old,
                                          const char *trouble, uint64_t step,
                                          bool *committed,
                                          struct firn_error *err);
/* The number of the order whose switch is under way, in any process; 0: none.
 * Where processes share no memory, only process 0 knows. */
FIRN_API uint64_t firn_join_under_way(const struct firn_join *join);
/* The order is given up, since there is no next step or it could not be
 * prepared: process 0 instead of the calls of the switch, or any process before
 * the switch. */
FIRN_API void firn_join_withdraw(struct firn_join *join, uint64_t order,
                                 const char *why);

/* --- the supervisor's side, for launchers of their own ---------------------
 *
 * The board is memory without a name; processes of the job inherit its
 * descriptor and have FIRN_JOIN=/proc/self/fd/N. Joiners also have
 * FIRN_JOIN_ORDER, and RANK and WORLD_SIZE of the new layout. */
struct firn_join_board;
enum firn_join_state {
    FIRN_JOIN_STATE_IDLE,
    FIRN_JOIN_STATE_PREPARING,
    FIRN_JOIN_STATE_SWITCHING,
    FIRN_JOIN_STATE_DONE,   /* leavers exit with status 0 */
    FIRN_JOIN_STATE_FAILED, /* the old layout trains on; end the joiners */
};
struct firn_join_told {
    int state;                 /* enum firn_join_state */
    int can;                   /* 1: the trainer takes orders */
    double pause_s, prepare_s; /* of the last order that is over */
    uint64_t step;
    char why[200];
};
FIRN_API enum firn_status firn_join_board_new(struct firn_join_board **out,
                                              int *fd, struct firn_error *err);
FIRN_API void firn_join_board_free(struct firn_join_board *board);
/* The number of the new order; 0: one is under way, or it is not valid.
 * from[new rank] is the old rank, -1: joins; `layout` "": even. */
FIRN_API uint64_t firn_join_board_order(struct firn_join_board *board, int nold,
                                        int nnew, const int *from,
                                        const char *layout, double limit_s);
FIRN_API struct firn_join_told
firn_join_board_told(const struct firn_join_board *board);
/* A joiner ended or is late: false if the switch has begun. */
FIRN_API bool firn_join_board_give_up(struct firn_join_board *board,
                                      uint64_t order);
/* After DONE or FAILED, once the processes that are not needed are gone. */
FIRN_API bool firn_join_board_clear(struct firn_join_board *board,
                                    uint64_t order);

FIRN_C_END

#endif
