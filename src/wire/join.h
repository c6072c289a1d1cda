/* join.h - a resize without a stop: its phases, and the board that has them.
 *
 * The supervisor of an attempt and its training processes share a small piece
 * of memory, the board. The supervisor writes an order there (the new number of
 * processes and which of them are old ones), starts the processes that join,
 * and waits; the processes that join say there that they are ready; process 0
 * of the running group reads it between two steps and leads the switch. One
 * word of the board holds the order's number and its phase, and only
 * compare-and-swap changes it, so supervisor and process 0 cannot disagree
 * about who was first.
 *
 * Where the processes are on several hosts, or in several allocations of one
 * host, each has a board of its own, a far one: its processes meet over TCP.
 * That of process 0 decides; the supervisors carry orders, readiness and the
 * end from board to board (engine/shepherd_far.c).
 *
 * The table of phases and events is a pure function, firn_join_next().
 * docs/resize.md tells the whole story.
 */
#ifndef WIRE_JOIN_H
#define WIRE_JOIN_H
#include <firn/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the table ------------------------------------------------------------ */

/* phase, what holds in it */
#define FIRN_JOIN_PHASE_MAP(X)                                              \
    X(IDLE, "no resize is under way")                                       \
    X(PREPARING, "joiners start and load; training goes on untouched")      \
    X(SWITCHING, "between two steps: state moves, the new group is formed") \
    X(DONE, "the new layout trains; leavers exit")                          \
    X(FAILED, "the old layout trains on; joiners exit")                     \
    X(BROKEN, "the attempt ends: its job resumes from its last checkpoint")

enum firn_join_phase {
#define X(code, words) FIRN_JOIN_##code,
    FIRN_JOIN_PHASE_MAP(X)
#undef X
        FIRN_JOIN_NPHASES
};

/* event, in words */
#define FIRN_JOIN_EVENT_MAP(X)                                         \
    X(ORDER, "the engine orders another layout")                       \
    X(READY, "all joiners are ready, and a step has ended")            \
    X(JOINER_LOST, "a joiner dies or fails")                           \
    X(LATE, "the phase lasts longer than its limit")                   \
    X(WITHDRAWN, "the attempt is asked to stop, or training ends")     \
    X(REFUSED, "a process cannot take or give its state")              \
    X(COMMIT, "all processes of the old group agree that all have it") \
    X(MEMBER_LOST, "a process of the group that trains dies")          \
    X(CLEARED, "the processes that are not needed any more are gone")

enum firn_join_event {
#define X(code, words) FIRN_JOIN_ON_##code,
    FIRN_JOIN_EVENT_MAP(X)
#undef X
        FIRN_JOIN_NEVENTS
};

/* What is to be done, in this order: bits. */
enum firn_join_act {
    FIRN_JOIN_DO_START = 1,    /* the supervisor starts the joiners */
    FIRN_JOIN_DO_MOVE = 2,     /* all processes form the bridge */
    FIRN_JOIN_DO_KEEP = 4,     /* the old group trains on */
    FIRN_JOIN_DO_SWAP = 8,     /* the new group trains on */
    FIRN_JOIN_DO_END_NEW = 16, /* joiners are ended */
    FIRN_JOIN_DO_END_OLD = 32, /* leavers have their grace, then are ended */
    FIRN_JOIN_DO_TELL = 64,    /* the engine is told how it went */
    FIRN_JOIN_DO_RESUME = 128, /* the attempt ends and the job resumes */
    FIRN_JOIN_DO_ALL = 255
};

struct firn_join_row {
    enum firn_join_phase next;
    unsigned acts;
};

/* False: the event cannot happen in that phase; nothing is to be done. */
bool firn_join_next(enum firn_join_phase phase, enum firn_join_event event,
                    struct firn_join_row *out);
const char *firn_join_phase_words(enum firn_join_phase phase);
const char *firn_join_event_words(enum firn_join_event event);

/* --- the board ------------------------------------------------------------ */

enum {
    FIRN_JOIN_PROCS = 256,
    FIRN_JOIN_LAYOUT = 8192,
    FIRN_JOIN_WHY = 200,
    FIRN_JOIN_AT = 64
};

/* Written by the supervisor before the word becomes PREPARING, and not changed
 * until the next order. */
struct firn_join_order {
    int32_t nold, nnew;             /* processes before and after */
    int32_t from[FIRN_JOIN_PROCS];  /* by new rank: the old one; -1: joins */
    char layout[FIRN_JOIN_LAYOUT];  /* "0,0,1": the new rank of each thread;
                                       "": even */
    double limit_s;                 /* of the switch */
    int32_t place[FIRN_JOIN_PROCS]; /* on a far board, by new rank: neighbours
                                       with the same number share memory */
};

/* Written by process 0 of the old group before the word becomes DONE or
 * FAILED. */
struct firn_join_result {
    double pause_s;   /* from the end of a step until training goes on */
    double prepare_s; /* from the order until all joiners were ready */
    uint64_t step;    /* the first step of the new layout */
    char why[FIRN_JOIN_WHY];
};

/* Does the switch wait until all old processes are `set`? */
enum firn_join_prepares {
    FIRN_JOIN_BY_NONE,       /* no */
    FIRN_JOIN_BY_SUPERVISOR, /* far: when the order is on all boards */
    FIRN_JOIN_BY_TRAINER     /* when they have prepared beside the training */
};

struct firn_join_board {
    uint64_t magic;
    _Atomic uint64_t word;     /* 256 * order + phase */
    _Atomic uint64_t can;      /* 1: the trainer takes orders to resize */
    _Atomic uint64_t prepares; /* enum firn_join_prepares */
    struct firn_join_order order;
    _Atomic uint64_t ready[FIRN_JOIN_PROCS];   /* by new rank: 1 + the order */
    _Atomic uint64_t set[FIRN_JOIN_PROCS];     /* by old rank: the same */
    _Atomic int64_t pid[FIRN_JOIN_PROCS];      /* of those that joined, */
    _Atomic uint64_t started[FIRN_JOIN_PROCS]; /* by new rank */
    struct firn_join_result result;

    /* A far board. */
    _Atomic uint64_t is_far;
    _Atomic uint64_t lost;    /* 1 + the order of which a joiner has ended */
    _Atomic uint64_t at_port; /* 65536 * order + where its process 0 listens, */
    char at[FIRN_JOIN_AT];    /* at this address, written before the port */
};

static inline uint64_t firn_join_word(uint64_t order,
                                      enum firn_join_phase phase)
{
    return order << 8 | (uint64_t)phase;
}

static inline uint64_t firn_join_number(uint64_t word)
{
    return word >> 8;
}

static inline enum firn_join_phase firn_join_phase_of(uint64_t word)
{
    return (enum firn_join_phase)(word & 255);
}

/* A board in anonymous memory: a descriptor without close-on-exec, which the
 * processes of the attempt inherit; -1 with errno. */
int firn_join_board_make(struct firn_join_board **out);
/* The board at a path ("/proc/self/fd/9"): FIRN_ENOENT if it is none. */
enum firn_status firn_join_board_open(struct firn_join_board **out,
                                      const char *path, struct firn_error *err);
void firn_join_board_close(struct firn_join_board *board);

/* Moves the word of order `number` from `phase` by the table. False: the word
 * was another one, or the event cannot happen; `out` is then not written. */
bool firn_join_move(struct firn_join_board *board, uint64_t number,
                    enum firn_join_phase phase, enum firn_join_event event,
                    struct firn_join_row *out);
/* Writes an order and begins PREPARING; its number, or 0: one is under way, or
 * the order is not valid. */
uint64_t firn_join_give(struct firn_join_board *board,
                        const struct firn_join_order *order);
/* The same under a number that the caller has chosen, above those before. */
bool firn_join_give_as(struct firn_join_board *board,
                       const struct firn_join_order *order, uint64_t number);
/* Are all joiners of the order ready, and the old processes, if they prepare?
 */
bool firn_join_all_ready(const struct firn_join_board *board, uint64_t number);
/* Has every new rank a place: old ranks once at most, nnew and nold in range?
 */
bool firn_join_is_valid(const struct firn_join_order *order);
/* The owner of each of `nthreads` threads by the order's layout; false: the
 * layout does not fit. */
bool firn_join_owners(const struct firn_join_order *order, int nthreads,
                      int *owner);

#endif
