/* farfile.h - the files by which supervisors on several hosts resize an
 * attempt.
 *
 *     epoch-N/far-order    the order, and whether it is given up; written by
 * the supervisor of the batch step epoch-N/far-join     where old process 0
 * listens and how far the order is; written by the supervisor of that process
 *     epoch-N/far-ready-K  the last order that worker K is ready for; written
 *                          by its supervisor
 *
 * As all files that cross hosts (engine/attemptfiles.h) they are made before
 * anyone reads them and overwritten, never renamed. A reader may come in the
 * middle of a write: the first line has the length and a hash of the rest, and
 * what does not fit is UNKNOWN, to be read again.
 */
#ifndef ENGINE_FARFILE_H
#define ENGINE_FARFILE_H
#include "engine/attemptfiles.h"
#include "wire/join.h"

struct far_order {
    uint64_t number;                     /* of the resize; 0: there was none */
    struct firn_join_order order;        /* processes by rank, */
    int32_t old_worker[FIRN_JOIN_PROCS]; /* and the worker of each: before */
    int32_t new_worker[FIRN_JOIN_PROCS]; /* and after */
    uint64_t last_done; /* the last order before it that was DONE */
    int32_t given_up;   /* 1 + enum firn_join_event; 0: it is not */
    bool is_lost;       /* a joiner has ended */
    char why[FIRN_JOIN_WHY];
};

struct far_join {
    uint64_t number;       /* of the order; 0: there was none */
    int32_t phase;         /* enum firn_join_phase */
    bool can;              /* the trainer takes orders */
    int32_t port;          /* where old process 0 listens; 0: not yet, */
    char at[FIRN_JOIN_AT]; /* at this address */
    struct firn_join_result result;
};

enum firn_status far_order_put(int folder, const struct far_order *order);
enum attempt_found far_order_get(int folder, struct far_order *out);
enum firn_status far_join_put(int folder, const struct far_join *join);
enum attempt_found far_join_get(int folder, struct far_join *out);
enum firn_status far_ready_put(int folder, size_t worker, uint64_t number);
enum attempt_found far_ready_get(int folder, size_t worker, uint64_t *number);

#endif
