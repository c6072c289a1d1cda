/* joinboard.c - the memory that a supervisor shares with its trainers.
 *
 * The memory is anonymous (memfd): nothing is left behind by a kill, and only
 * processes that inherit the descriptor reach it. All sizes are fixed, and the
 * reader checks an order before it uses it, since a program may write anything
 * there.
 *
 * Invariants
 *   1. `order` is written while the word is IDLE, DONE or FAILED, by the
 *      supervisor alone; `result` while it is SWITCHING, by process 0 alone.
 *   2. The word changes by compare-and-swap only, and orders only rise.
 */
#define _GNU_SOURCE
#include "wire/join.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t board_magic = 0x33647261626e726a; /* "jrnbard3" */

static struct firn_join_board *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct firn_join_board),
                    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

int firn_join_board_make(struct firn_join_board **out)
{
    int fd = memfd_create("firn-join", 0);
    if (fd < 0)
        return -1;
    struct firn_join_board *board =
        ftruncate(fd, (off_t)sizeof *board) == 0 ? map(fd) : NULL;
    if (board == NULL) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    board->magic = board_magic;
    *out = board;
    return fd;
}

enum firn_status firn_join_board_open(struct firn_join_board **out,
                                      const char *path, struct firn_error *err)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return firn_fail(err, FIRN_ENOENT, "%s: %s", path, strerror(errno));
    bool has_size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                    st.st_size == (off_t)sizeof **out;
    struct firn_join_board *board = has_size ? map(fd) : NULL;
    close(fd);
    if (board != NULL && board->magic != board_magic) {
        firn_join_board_close(board);
        board = NULL;
    }
    if (board == NULL)
        return firn_fail(err, FIRN_ENOENT, "%s is not a board of resizes",
                         path);
    *out = board;
    return FIRN_OK;
}

void firn_join_board_close(struct firn_join_board *board)
{
    if (board != NULL)
        munmap(board, sizeof *board);
}

bool firn_join_move(struct firn_join_board *board, uint64_t number,
                    enum firn_join_phase phase, enum firn_join_event event,
                    struct firn_join_row *out)
{
    struct firn_join_row row;
    uint64_t word = firn_join_word(number, phase);
    if (!firn_join_next(phase, event, &row) ||
        !atomic_compare_exchange_strong(&board->word, &word,
                                        firn_join_word(number, row.next)))
        return false;
    *out = row;
    return true;
}

bool firn_join_is_valid(const struct firn_join_order *order)
{
    bool seen[FIRN_JOIN_PROCS] = {false};
    if (order->nold < 1 || order->nold > FIRN_JOIN_PROCS || order->nnew < 1 ||
        order->nnew > FIRN_JOIN_PROCS ||
        memchr(order->layout, '\0', sizeof order->layout) == NULL ||
        !(order->limit_s > 0 && order->limit_s < 1e6))
        return false;
    for (int i = 0; i < order->nnew; i++) {
        int from = order->from[i];
        if (from < -1 || from >= order->nold || (from >= 0 && seen[from]))
            return false;
        if (from >= 0)
            seen[from] = true;
    }
    return true;
}

bool firn_join_give_as(struct firn_join_board *board,
                       const struct firn_join_order *order, uint64_t number)
{
    struct firn_join_row row;
    uint64_t word = atomic_load(&board->word);
    if (firn_join_phase_of(word) != FIRN_JOIN_IDLE ||
        number <= firn_join_number(word) || !firn_join_is_valid(order) ||
        !firn_join_next(FIRN_JOIN_IDLE, FIRN_JOIN_ON_ORDER, &row))
        return false;
    board->order = *order;
    memset(&board->result, 0, sizeof board->result);
    return atomic_compare_exchange_strong(&board->word, &word,
                                          firn_join_word(number, row.next));
}

uint64_t firn_join_give(struct firn_join_board *board,
                        const struct firn_join_order *order)
{
    uint64_t number = firn_join_number(atomic_load(&board->word)) + 1;
    return firn_join_give_as(board, order, number) ? number : 0;
}

bool firn_join_all_ready(const struct firn_join_board *board, uint64_t number)
{
    for (int i = 0; i < board->order.nnew && i < FIRN_JOIN_PROCS; i++)
        if (board->order.from[i] < 0 &&
            atomic_load(&board->ready[i]) != number + 1)
            return false;
    bool prepares = atomic_load(&board->prepares) != 0;
    for (int i = 0; prepares && i < board->order.nold && i < FIRN_JOIN_PROCS;
         i++)
        if (atomic_load(&board->set[i]) != number + 1)
            return false;
    return true;
}

bool firn_join_owners(const struct firn_join_order *order, int nthreads,
                      int *owner)
{
    const char *at = order->layout;
    if (nthreads < order->nnew)
        return false;
    for (int v = 0; v < nthreads; v++) {
        char *end = NULL;
        long rank = (long)((int64_t)v * order->nnew / nthreads);
        if (order->layout[0] != '\0') {
            rank = strtol(at, &end, 10);
            bool is_last = v == nthreads - 1;
            if (end == at || rank < 0 || rank >= order->nnew ||
                *end != (is_last ? '\0' : ','))
                return false;
            at = end + 1;
        }
        owner[v] = (int)rank;
    }
    return true;
}
