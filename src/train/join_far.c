/* join_far.c - a resize of processes that share no memory.
 *
 * They are on several hosts, or on one host in several allocations, which may
 * have a /dev/shm each. So the bridge is a group over TCP with a host for each
 * process. Its address is found in two ways, both without a port that was
 * agreed upon before: old process 0 opens a socket as soon as it sees the
 * order, writes its address on its board, and the supervisors carry it to the
 * other boards (engine/shepherd_far.c); and over the bridge new process 0 tells
 * all where the new group meets. Every connection begins with the handshake of
 * train/groupauth.h under the attempt's key.
 *
 * A joiner calls as soon as it is ready. Its call waits in the socket's queue
 * until the switch: then nothing has to travel from board to board, and the
 * pause is that of the handshakes and the bytes.
 *
 * In the new group, neighbours by rank that have the same place share memory.
 *
 * Invariants
 *   1. All processes of the bridge make the same collective calls, also when
 * one of them has no socket to offer: its port is then 0, and all fail.
 *   2. The memory of old processes is only read.
 *
 * Cost: n bytes are sent once to each process of the bridge.
 */
#include "train/joinwork.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };
static const double look_s = 0.001;
static const double order_limit_s = 20; /* for the order to be on the board */

/* Where new process 0 listens. */
struct meeting {
    int32_t port; /* 0: it cannot */
    char at[FIRN_JOIN_AT];
};

/* This host's address, as its launcher says; else its name. */
static void own_address(char out[FIRN_JOIN_AT])
{
    const char *text = getenv("FIRN_HOST");
    memset(out, 0, FIRN_JOIN_AT);
    if (text != NULL && text[0] != '\0')
        snprintf(out, FIRN_JOIN_AT, "%s", text);
    else if (gethostname(out, FIRN_JOIN_AT - 1) != 0)
        snprintf(out, FIRN_JOIN_AT, "localhost");
}

/* A socket at a free port; 0: there is none. */
static int open_socket(const char *address, int *listener)
{
    char own[GRP_ADDRESS];
    *listener = firn_grp_listen(address, 0);
    if (*listener < 0)
        *listener = firn_grp_listen(NULL, 0);
    int port = *listener >= 0 ? firn_grp_end_of(*listener, false, own) : 0;
    return port > 0 ? port : 0;
}

/* --- the bridge ----------------------------------------------------------- */

void firn_join_far_close(struct firn_join *j)
{
    if (j->listener >= 0)
        close(j->listener);
    j->listener = -1;
}

void firn_join_far_offer(struct firn_join *j, uint64_t number)
{
    if (j->offered == number)
        return;
    j->offered = number;
    firn_join_far_close(j);
    own_address(j->board->at);
    int port = open_socket(j->board->at, &j->listener);
    atomic_store(&j->board->at_port, number << 16 | (uint64_t)port);
}

enum firn_status firn_join_far_await(struct firn_join *j,
                                     bool (*is_given_up)(void *arg),
                                     struct firn_error *err)
{
    double until_s = firn_grp_now_s() + order_limit_s;
    for (;;) {
        uint64_t at = atomic_load(&j->board->at_port);
        uint64_t number = firn_join_number(atomic_load(&j->board->word));
        if (number == j->number && at >> 16 == j->number)
            return (at & 65535) != 0
                       ? FIRN_OK
                       : firn_fail(err, FIRN_EIO,
                                   "process 0 cannot listen for joiners");
        if (j->is_new ? is_given_up(j) : number > j->number)
            return firn_fail(err, FIRN_EIO, "the resize was given up");
        if (!j->is_new && firn_grp_now_s() > until_s)
            return firn_fail(err, FIRN_EIO,
                             "order %llu to resize did not come for %g s",
                             (unsigned long long)j->number, order_limit_s);
        firn_grp_nap(look_s);
    }
}

void firn_join_far_bridge(struct firn_join *j, struct firn_group_config *c,
                          struct grp_watch *watch)
{
    c->local_rank = 0;
    c->local_nprocs = 1;
    memcpy(j->at, j->board->at, sizeof j->at);
    j->at[sizeof j->at - 1] = '\0';
    c->address = j->at;
    c->port = (int)(atomic_load(&j->board->at_port) & 65535);
    if (c->rank != 0 || j->listener < 0)
        return;
    watch->listener = 1 + j->listener;
    j->listener = -1;
}

enum firn_status firn_join_far_pour(struct firn_join *j, void *data,
                                    size_t nbytes, bool takes,
                                    struct firn_error *err)
{
    bool is_own = takes || j->bridge->rank == 0;
    size_t room = nbytes < PIECE ? nbytes : PIECE;
    unsigned char *aside = is_own ? NULL : malloc(room + 1); /* (2) */
    enum firn_status status = FIRN_OK;
    if (!is_own && aside == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory");
    for (size_t done = 0; done < nbytes && status == FIRN_OK; done += room) {
        size_t n = nbytes - done < room ? nbytes - done : room;
        void *at = is_own ? (unsigned char *)data + done : aside;
        status = firn_group_bcast(j->bridge, at, n, 0, err);
    }
    free(aside);
    return status;
}

/* --- the new group -------------------------------------------------------- */

void firn_join_far_place(const struct firn_join_order *order, int rank,
                         int *local, int *nlocal)
{
    int first = rank, end = rank;
    while (first > 0 && order->place[first - 1] == order->place[rank])
        first--;
    while (end < order->nnew && order->place[end] == order->place[rank])
        end++;
    *local = rank - first;
    *nlocal = end - first;
}

enum firn_status firn_join_far_group(struct firn_join *j,
                                     struct firn_group_config *c,
                                     struct grp_watch *watch,
                                     struct firn_error *err)
{
    struct meeting meeting = {0};
    int root = j->order.from[0] >= 0 ? j->order.from[0] : j->order.nold;
    if (j->new_rank == 0) {
        int listener = -1;
        own_address(meeting.at);
        meeting.port = open_socket(meeting.at, &listener);
        watch->listener = 1 + listener;
    }
    enum firn_status status = /* (1) */
        firn_group_bcast(j->bridge, &meeting, sizeof meeting, root, err);
    if (status == FIRN_OK && meeting.port == 0)
        status = firn_fail(err, FIRN_EIO,
                           "the new process 0 cannot listen for the others");
    if (status != FIRN_OK) {
        if (watch->listener > 0)
            close(watch->listener - 1);
        return status;
    }
    memcpy(j->at, meeting.at, sizeof j->at);
    j->at[sizeof j->at - 1] = '\0';
    c->address = j->at;
    c->port = meeting.port;
    if (j->new_rank >= 0)
        firn_join_far_place(&j->order, j->new_rank, &c->local_rank,
                            &c->local_nprocs);
    return FIRN_OK;
}
