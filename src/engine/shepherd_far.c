/* shepherd_far.c - a resize of workers that share no memory with each other.
 *
 * Below srun each worker has a supervisor of its own and a board of its own
 * (wire/join.h). One board decides: that of the process that is process 0 when
 * the order is given. The supervisors carry what the others need by the files
 * of engine/farfile.h:
 *
 *     batch step         far-order    the order; given up
 *     process 0's        far-join     its address, then its phase and result
 *     every worker's     far-ready-K  the order and the address are on its
 *                                     board; of a joiner: and it is ready
 *
 * so the switch begins only when every process has on its own board all that it
 * needs, and the pause does not depend on how fast files travel. A trainer that
 * prepares beside its training (PyTorch) opens its connections before that, and
 * its supervisor waits until its board says that it has.
 *
 * Invariants
 *   1. Only the supervisor of old process 0 moves that board's word, besides
 * its trainer; the words of other boards follow it.
 *   2. A worker becomes a leaver, or a joiner a worker, when its supervisor
 * reads DONE; before that its end counts as the table of wire/join.h says.
 *   3. A joiner whose order failed is killed by its own supervisor.
 *   4. When all workers that train have ended, nothing moves that board any
 *      more: the batch step writes the order's failure for the joiners.
 *
 * Cost: without an order one more file is read a second; during one the files
 * are read every 5 ms.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/str.h"
#include "engine/farfile.h"
#include "engine/shepherdwork.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 5 };

/* --- boards --------------------------------------------------------------- */

static void make_board(struct shepherd *s)
{
    s->board_fd = firn_join_board_make(&s->board);
    if (s->board_fd < 0)
        return; /* such a job is resized by restarts */
    atomic_store(&s->board->is_far, 1);
    atomic_store(&s->board->prepares, FIRN_JOIN_BY_SUPERVISOR);
    snprintf(s->join, sizeof s->join, "FIRN_JOIN=/proc/self/fd/%d",
             s->board_fd);
}

void shepherd_far_open(struct shepherd *s)
{
    struct far_order none = {0};
    if (s->kind == SHEPHERD_TASK) {
        make_board(s);
        s->far = mem_new(1, sizeof *s->far);
        s->rank = s->order > 0 ? -1 : (int)s->worker;
        return;
    }
    /* The batch step's own board only mirrors the one that decides. */
    s->board_fd = firn_join_board_make(&s->board);
    struct far_join nothing = {0};
    bool is_good = s->board_fd >= 0 &&
                   far_order_put(s->folder, &none) == FIRN_OK &&
                   far_join_put(s->folder, &nothing) == FIRN_OK;
    if (is_good)
        s->far = mem_new(1, sizeof *s->far);
}

void shepherd_far_close(struct shepherd *s)
{
    mem_free(s->far);
    s->far = NULL;
}

/* --- a task's part -------------------------------------------------------- */

/* The board of process 0: what the others have said, and the supervisor. */
static void hear(struct shepherd *s)
{
    const struct far_order *far = s->far;
    struct firn_join_row row;
    uint64_t number = far->number, ready = 0;
    for (int r = 0; r < far->order.nold; r++)
        if (far_ready_get(s->folder, (size_t)far->old_worker[r], &ready) ==
                ATTEMPT_PRESENT &&
            ready == number)
            atomic_store(&s->board->set[r], number + 1);
    for (int r = 0; r < far->order.nnew; r++)
        if (far->order.from[r] < 0 &&
            far_ready_get(s->folder, (size_t)far->new_worker[r], &ready) ==
                ATTEMPT_PRESENT &&
            ready == number)
            atomic_store(&s->board->ready[r], number + 1);
    if (far->is_lost)
        atomic_store(&s->board->lost, number + 1);
    if (far->given_up > 0 &&
        firn_join_move(s->board, number, FIRN_JOIN_PREPARING,
                       (enum firn_join_event)(far->given_up - 1), &row))
        str_copy(s->board->result.why, sizeof s->board->result.why, far->why);
}

/* What the board of process 0 says now. */
static struct far_join own_join(const struct shepherd *s)
{
    const struct firn_join_board *board = s->board;
    struct far_join join = {0};
    uint64_t word = atomic_load(&board->word);
    uint64_t at = atomic_load(&board->at_port);
    join.can = atomic_load(&board->can) != 0;
    join.number = firn_join_number(word);
    join.phase = (int32_t)firn_join_phase_of(word);
    if (join.number > 0 && at >> 16 == join.number) {
        join.port = (int32_t)(at & 65535);
        memcpy(join.at, board->at, sizeof join.at);
    }
    if (join.phase == FIRN_JOIN_DONE || join.phase == FIRN_JOIN_FAILED)
        join.result = board->result;
    return join;
}

static bool is_over(const struct far_join *join)
{
    return join->phase == FIRN_JOIN_DONE || join->phase == FIRN_JOIN_FAILED;
}

/* Its part of a finished order: (2), (3). True: it goes on as before. */
static void settle(struct shepherd *s, const struct far_join *join)
{
    int rank = -1;
    for (int r = 0; r < s->far->order.nnew; r++) {
        int from = s->far->order.from[r];
        if (from >= 0 ? from == s->rank
                      : s->order == join->number &&
                            s->far->new_worker[r] == (int32_t)s->worker)
            rank = r;
    }
    bool is_done = join->phase == FIRN_JOIN_DONE;
    bool was_joiner = s->rank < 0;
    if (is_done)
        s->rank = rank;
    if (is_done && rank < 0)
        s->leaves_s = clock_elapsed_s() + s->launch.grace_s;
    if (!is_done && was_joiner && s->order == join->number)
        s->leaves_s = clock_elapsed_s();
    s->far_seen = join->number;
    atomic_store(&s->board->word, firn_join_word(join->number, FIRN_JOIN_IDLE));
}

/* Writes what the board says, if that has changed. */
static void publish(struct shepherd *s)
{
    struct far_join join = own_join(s);
    if (join.number == s->told.number && is_over(&s->told))
        return; /* how it ended stays until the next order */
    if (join.number == s->told.number && join.phase == s->told.phase &&
        join.port == s->told.port && join.can == s->told.can)
        return;
    if (far_join_put(s->folder, &join) != FIRN_OK)
        return; /* the next turn tries again */
    s->told = join;
    if (is_over(&join) && join.number > s->far_seen)
        settle(s, &join);
}

/* An old process: the order and the address are on its board and, where the
 * trainer prepares beside its training, it has. */
static bool is_set(const struct shepherd *s)
{
    uint64_t number = s->far->number;
    if (atomic_load(&s->board->at_port) >> 16 != number)
        return false;
    return atomic_load(&s->board->prepares) != FIRN_JOIN_BY_TRAINER ||
           atomic_load(&s->board->set[s->rank]) == number + 1;
}

/* The board of another process: the address, readiness, the end. */
static void echo(struct shepherd *s)
{
    struct far_join join;
    uint64_t number = s->far->number;
    if (far_join_get(s->folder, &join) != ATTEMPT_PRESENT ||
        join.number != number)
        return;
    if (join.port > 0 && atomic_load(&s->board->at_port) >> 16 != number) {
        memcpy(s->board->at, join.at, sizeof join.at);
        atomic_store(&s->board->at_port, number << 16 | (uint64_t)join.port);
    }
    bool is_ready = s->rank >= 0 && is_set(s);
    if (s->rank < 0 && s->order == number) {
        for (int r = 0; r < s->far->order.nnew; r++)
            is_ready =
                is_ready || (s->far->new_worker[r] == (int32_t)s->worker &&
                             atomic_load(&s->board->ready[r]) == number + 1);
    }
    if (is_ready && s->readied < number &&
        far_ready_put(s->folder, s->worker, number) == FIRN_OK)
        s->readied = number;
    if (is_over(&join))
        settle(s, &join);
}

/* The next order is here before this supervisor has read how the last one
 * ended: it was DONE, or the next order names an earlier one. */
static void settle_late(struct shepherd *s, uint64_t last_done)
{
    struct far_join join = {.number = s->far->number,
                            .phase = last_done == s->far->number
                                         ? FIRN_JOIN_DONE
                                         : FIRN_JOIN_FAILED};
    settle(s, &join);
}

bool shepherd_far_is_due(const struct shepherd *s)
{
    return s->leaves_s > 0 && clock_elapsed_s() >= s->leaves_s;
}

int shepherd_far_turn(struct shepherd *s)
{
    if (s->kind != SHEPHERD_TASK || s->far == NULL || s->board == NULL ||
        s->board_fd < 0)
        return -1;
    struct far_order next;
    if (far_order_get(s->folder, &next) == ATTEMPT_PRESENT && next.number > 0) {
        if (next.number > s->far->number && s->far->number > s->far_seen)
            settle_late(s, next.last_done);
        *s->far = next;
    }
    bool is_new = s->far->number > s->far_seen;
    bool is_mine = s->rank >= 0 || s->order == s->far->number;
    if (is_new && !is_mine)
        s->far_seen = s->far->number; /* of others: this worker has left */
    is_new = is_new && is_mine;
    if (is_new &&
        firn_join_number(atomic_load(&s->board->word)) < s->far->number)
        (void)firn_join_give_as(s->board, &s->far->order, s->far->number);
    bool is_given =
        firn_join_number(atomic_load(&s->board->word)) == s->far->number;
    if (is_new && is_given && s->rank == 0) {
        hear(s);
        /* Process 0 is ready when it listens. */
        uint64_t number = s->far->number;
        if (s->readied < number && is_set(s) &&
            far_ready_put(s->folder, s->worker, number) == FIRN_OK)
            s->readied = number;
    } else if (is_new && is_given) {
        echo(s);
    }
    if (s->rank == 0)
        publish(s);
    return s->far->number > s->far_seen ? LOOK_MS : -1;
}

/* --- the batch step's part ------------------------------------------------ */

bool shepherd_far_can(struct shepherd *s)
{
    struct far_join join;
    return s->far != NULL &&
           far_join_get(s->folder, &join) == ATTEMPT_PRESENT && join.can;
}

bool shepherd_far_give(struct shepherd *s, const struct firn_join_order *order,
                       uint64_t number, const int *new_worker)
{
    memset(s->far, 0, sizeof *s->far);
    s->far->number = number;
    s->far->last_done = s->last_done;
    s->far->order = *order;
    for (size_t r = 0; r < s->nranks; r++)
        s->far->old_worker[r] = (int32_t)s->ranks[r];
    for (int r = 0; r < order->nnew; r++)
        s->far->new_worker[r] = new_worker[r];
    for (int r = 0; r < order->nnew; r++)
        if (order->from[r] < 0 &&
            far_ready_put(s->folder, (size_t)new_worker[r], 0) != FIRN_OK)
            return false;
    return firn_join_give_as(s->board, order, number) &&
           far_order_put(s->folder, s->far) == FIRN_OK;
}

void shepherd_far_give_up(struct shepherd *s, enum firn_join_event event,
                          const char *why)
{
    if (s->far->given_up > 0)
        return;
    s->far->given_up = 1 + (int32_t)event;
    s->far->is_lost = event == FIRN_JOIN_ON_JOINER_LOST;
    str_copy(s->far->why, sizeof s->far->why, why);
    (void)far_order_put(s->folder,
                        s->far); /* else the attempt ends by itself */
}

void shepherd_far_abandon(struct shepherd *s)
{
    struct far_join join = {0};
    if (far_join_get(s->folder, &join) == ATTEMPT_PRESENT &&
        join.number == s->far->number && is_over(&join))
        return;
    join =
        (struct far_join){.number = s->far->number, .phase = FIRN_JOIN_FAILED};
    str_copy(join.result.why, sizeof join.result.why, "the attempt ends");
    (void)far_join_put(s->folder, &join); /* else at the next turn */
}

void shepherd_far_follow(struct shepherd *s)
{
    struct far_join join;
    uint64_t word = atomic_load(&s->board->word);
    if (far_join_get(s->folder, &join) != ATTEMPT_PRESENT ||
        join.number != firn_join_number(word) ||
        join.phase == (int32_t)firn_join_phase_of(word) ||
        join.phase == FIRN_JOIN_IDLE)
        return;
    s->board->result = join.result;
    if (join.phase == FIRN_JOIN_DONE)
        s->last_done = join.number;
    atomic_store(&s->board->word,
                 firn_join_word(join.number, (enum firn_join_phase)join.phase));
}
