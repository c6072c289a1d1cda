/* join.c - old and new processes meet, state moves, all switch or none does.
 *
 * The bridge is a group of the old processes (by their old ranks) and behind
 * them the joiners (by their new ones), for the moment of the switch only. Its
 * old process 0 is the source of all that is the same in every process; it
 * writes pieces into one half of the bridge's memory while joiners read the
 * other, so n bytes cost two copies and n / half meetings.
 *
 * A trainer may do all that does not need the last step while it still trains:
 * its processes call firn_join_meet() and firn_join_form() in a thread of their
 * own as soon as there is an order (firn_join_pending()), joiners before they
 * are ready. The switch then finds the bridge and the new group, with all their
 * memory mapped.
 *
 * Invariants
 *   1. Nothing of the old group is changed before firn_join_agree() has said
 *      that the switch is committed.
 *   2. The commit is a collective call of the old group: either all of its
 *      processes pass it with the same answer, or the group is broken and the
 *      job resumes from its last checkpoint.
 *   3. The board's word becomes DONE only after the commit, by old process 0.
 *   4. Joiners learn the answer over the bridge; a joiner that does not hear it
 *      ends, and the new group then breaks like any group that lost a process.
 *   5. Waits before the switch end when the order is given up; they have no
 *      other limit, since the supervisor has one for the phase.
 *
 * Where processes share no memory (a far board: train/join_far.c) the same
 * calls go over TCP: the bridge has one process of each host, and joiners call
 * old process 0 as soon as they are ready instead of waiting for the board's
 * word. A trainer that prepares beside its training has the bridge and the new
 * group before the switch there too; the switch then begins with a byte over
 * the bridge, since only process 0's board says when.
 *
 * Cost: a load from memory at each boundary without an order.
 */
#include "wire/join.h"
#include "train/joinwork.h"
#include <errno.h>
#include <firn/join.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME = 512,
    BRIDGE_LEAST = 1 << 16, /* bytes of its memory */
    BRIDGE_MOST = 1 << 25
};
static const double ready_nap_s = 0.0005;
static const double no_limit_s = 1e6;

/* --- opened and closed ---------------------------------------------------- */

static const char *word_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

enum firn_status firn_join_open(struct firn_join **out, struct firn_error *err)
{
    const char *path = word_of("FIRN_JOIN"),
               *order = word_of("FIRN_JOIN_ORDER");
    const char *rank = word_of("RANK");
    struct firn_join_board *board = NULL;
    *out = NULL;
    if (path == NULL && order == NULL)
        return FIRN_OK;
    enum firn_status status =
        firn_join_board_open(&board, path != NULL ? path : "", err);
    if (status != FIRN_OK)
        return order != NULL ? status : FIRN_OK;
    struct firn_join *j = calloc(1, sizeof *j);
    if (j == NULL) {
        firn_join_board_close(board);
        return firn_fail(err, FIRN_ENOMEM, "no memory");
    }
    *j = (struct firn_join){.board = board, .is_new = order != NULL};
    if (order != NULL)
        j->number = strtoull(order, NULL, 10);
    j->listener = -1;
    j->old_rank = -1;
    j->new_rank =
        order != NULL && rank != NULL ? (int)strtol(rank, NULL, 10) : -1;
    *out = j;
    return FIRN_OK;
}

static void hang_up(struct firn_join *j)
{
    firn_group_close(j->bridge);
    j->bridge = NULL;
}

void firn_join_close(struct firn_join *join)
{
    if (join == NULL)
        return;
    hang_up(join);
    firn_join_far_close(join);
    firn_join_board_close(join->board);
    free(join);
}

bool firn_join_is_new(const struct firn_join *join)
{
    return join != NULL && join->is_new;
}

void firn_join_able(struct firn_join *join)
{
    if (join != NULL)
        atomic_store(&join->board->can, 1);
}

void firn_join_prepares(struct firn_join *join)
{
    if (join != NULL)
        atomic_store(&join->board->prepares, FIRN_JOIN_BY_TRAINER);
}

bool firn_join_shares_memory(const struct firn_join *join)
{
    return !firn_join_is_far(join);
}

void firn_join_local(const struct firn_join *join, int *rank, int *nprocs)
{
    *rank = join->new_rank;
    *nprocs = join->order.nnew;
    if (firn_join_is_far(join) && join->new_rank >= 0)
        firn_join_far_place(&join->order, join->new_rank, rank, nprocs);
}

/* --- before the switch ---------------------------------------------------- */

/* Processes that share no memory and meet before the switch. */
static bool is_prepared_far(const struct firn_join *j)
{
    return firn_join_is_far(j) &&
           atomic_load(&j->board->prepares) == FIRN_JOIN_BY_TRAINER;
}

/* Collective over a bridge that was there before the switch: it begins. */
static enum firn_status hear_begin(struct firn_join *j, struct firn_error *err)
{
    unsigned char byte = 0;
    return firn_group_bcast(j->bridge, &byte, sizeof byte, 0, err);
}

uint64_t firn_join_pending(struct firn_join *join)
{
    struct firn_join *j = join;
    uint64_t word = j != NULL ? atomic_load(&j->board->word) : 0;
    uint64_t number = firn_join_number(word);
    if (firn_join_phase_of(word) != FIRN_JOIN_PREPARING)
        return 0;
    if (j->seen != number) {
        j->seen = number;
        j->ordered_s = firn_grp_now_s();
    }
    return number;
}

uint64_t firn_join_due(struct firn_join *join)
{
    struct firn_join *j = join;
    struct firn_join_row row;
    uint64_t number = firn_join_pending(j);
    if (number != 0 && firn_join_is_far(j) && !is_prepared_far(j))
        firn_join_far_offer(j, number); /* else firn_join_meet() does it */
    if (number == 0)
        return 0; /* `number` stays: a thread may prepare for another order */
    if (!firn_join_all_ready(j->board, number) ||
        !firn_join_move(j->board, number, FIRN_JOIN_PREPARING,
                        FIRN_JOIN_ON_READY, &row))
        return 0;
    j->ready_s = firn_grp_now_s();
    return number;
}

enum firn_status firn_join_ready(struct firn_join *join, struct firn_error *err)
{
    struct firn_join *j = join;
    if (!firn_join_is_new(j) || j->new_rank < 0 ||
        j->new_rank >= FIRN_JOIN_PROCS)
        return firn_fail(err, FIRN_EINVAL, "this process joins no group");
    int64_t pid = (int64_t)getpid();
    atomic_store(&j->board->pid[j->new_rank], pid);
    atomic_store(&j->board->started[j->new_rank], firn_grp_started(pid));
    atomic_store(&j->board->ready[j->new_rank], j->number + 1);
    if (firn_join_is_far(j)) /* else firn_join_meet() waits for the switch */
        return j->bridge != NULL ? hear_begin(j, err) : FIRN_OK;
    for (;;) {
        uint64_t word = atomic_load(&j->board->word);
        if (word == firn_join_word(j->number, FIRN_JOIN_SWITCHING))
            return FIRN_OK;
        if (word != firn_join_word(j->number, FIRN_JOIN_PREPARING))
            return firn_fail(err, FIRN_EIO,
                             "the resize was given up before process %d could "
                             "join",
                             j->new_rank);
        firn_grp_nap(ready_nap_s);
    }
}

/* --- the bridge ----------------------------------------------------------- */

/* The place of this process: its new rank, and its rank in the bridge. */
static int place(struct firn_join *j, const struct firn_group_config *group,
                 int *nbridge)
{
    int njoiners = 0, at = -1;
    j->old_rank = j->is_new ? -1 : group->rank;
    if (!j->is_new)
        j->new_rank = -1;
    for (int i = 0; i < j->order.nnew; i++) {
        if (j->order.from[i] < 0 && j->is_new && i == j->new_rank)
            at = j->order.nold + njoiners;
        njoiners += j->order.from[i] < 0;
        if (!j->is_new && j->order.from[i] == group->rank)
            j->new_rank = i;
    }
    *nbridge = j->order.nold + njoiners;
    return j->is_new ? at : group->rank;
}

/* Elements of a gradient of the bridge, so that its memory suits nbytes. */
static size_t elements(size_t nbytes, int nbridge)
{
    size_t room = nbytes < BRIDGE_LEAST  ? BRIDGE_LEAST
                  : nbytes > BRIDGE_MOST ? BRIDGE_MOST
                                         : nbytes;
    return room / sizeof(float) / ((size_t)nbridge + 1) + 1;
}

/* A joiner that said that it is ready has ended since. */
static bool is_joiner_lost(void *arg)
{
    const struct firn_join *j = arg;
    if (firn_join_is_far(j))
        return atomic_load(&j->board->lost) == j->number + 1;
    for (int i = 0; i < j->order.nnew; i++)
        if (j->order.from[i] < 0 &&
            firn_grp_is_gone(atomic_load(&j->board->pid[i]),
                             atomic_load(&j->board->started[i])))
            return true;
    return false;
}

/* The order was given up before the switch: (5). */
static bool is_given_up(void *arg)
{
    const struct firn_join *j = arg;
    uint64_t word = atomic_load(&j->board->word);
    return word != firn_join_word(j->number, FIRN_JOIN_PREPARING) &&
           word != firn_join_word(j->number, FIRN_JOIN_SWITCHING);
}

/* Before the switch, or the order failed there. Where all old processes leave,
 * it may be done, and cleared, while joiners still form their group. */
static bool is_before_switch(const struct firn_join *j)
{
    uint64_t word = atomic_load(&j->board->word);
    return word == firn_join_word(j->number, FIRN_JOIN_PREPARING) ||
           word == firn_join_word(j->number, FIRN_JOIN_FAILED);
}

/* What ends a wait for the processes of the order. */
static struct grp_watch watch_of(struct firn_join *j, bool is_early)
{
    return is_early ? (struct grp_watch){is_given_up, j,
                                         "the resize was given up", 0}
                    : (struct grp_watch){is_joiner_lost, j,
                                         "a process ended before it came", 0};
}

enum firn_status firn_join_meet(struct firn_join *join, uint64_t order,
                                const struct firn_group_config *group,
                                size_t nbytes, struct firn_error *err)
{
    struct firn_join *j = join;
    char name[NAME];
    int nbridge = 0;
    j->began_s = firn_grp_now_s();
    j->number = order;
    if (is_prepared_far(j) && !j->is_new && group->rank == 0)
        firn_join_far_offer(j, order);
    if (firn_join_is_far(j))
        FIRN_TRY(firn_join_far_await(j, is_given_up, err));
    if (!j->is_new && is_given_up(j)) /* before this process began: (5) */
        return firn_fail(err, FIRN_EIO, "the resize was given up");
    j->order = j->board->order;
    if (!firn_join_is_valid(&j->order) ||
        (!j->is_new && j->order.nold != group->nprocs))
        return firn_fail(err, FIRN_EINVAL,
                         "order %llu to resize is not valid for %d processes",
                         (unsigned long long)order, group->nprocs);
    int rank = place(j, group, &nbridge);
    snprintf(name, sizeof name, "%.400s.bridge-%llu", group->name,
             (unsigned long long)order);
    struct firn_group_config c = {.name = name,
                                  .rank = rank,
                                  .nprocs = nbridge,
                                  .nthreads = nbridge,
                                  .nelements = elements(nbytes, nbridge),
                                  .timeout_s = j->order.limit_s,
                                  .key = group->key};
    bool is_early = is_before_switch(j);
    j->turn = 0;
    struct grp_watch watch = watch_of(j, is_early);
    if (is_early)
        c.timeout_s = no_limit_s;
    if (firn_join_is_far(j))
        firn_join_far_bridge(j, &c, &watch);
    FIRN_TRY(firn_grp_open(&j->bridge, &c, &watch, err));
    if (firn_join_is_far(j) && !is_prepared_far(j)) {
        j->bridge->timeout_s = j->order.limit_s; /* the switch has begun */
    } else if (is_early) {
        j->bridge->watch = watch;
        firn_grp_touch(j->bridge);
    }
    return FIRN_OK;
}

void firn_join_prepared(struct firn_join *join)
{
    int rank = join->old_rank;
    if (!join->is_new && rank >= 0 && rank < FIRN_JOIN_PROCS)
        atomic_store(&join->board->set[rank], join->number + 1);
}

void firn_join_switch(struct firn_join *join)
{
    join->began_s = firn_grp_now_s();
    if (join->bridge == NULL)
        return;
    join->bridge->watch = (struct grp_watch){0};
    join->bridge->timeout_s = join->order.limit_s;
    struct firn_error why;
    if (is_prepared_far(join) && !join->is_new)
        (void)hear_begin(join, &why); /* its failure is that of the next call */
}

enum firn_status firn_join_max(struct firn_join *join, int64_t *value,
                               struct firn_error *err)
{
    return join->bridge != NULL
               ? firn_group_max(join->bridge, value, err)
               : firn_fail(err, FIRN_EIO, "there is no meeting");
}

void firn_join_drop(struct firn_join *join)
{
    hang_up(join);
}

int firn_join_rank(const struct firn_join *join)
{
    return join->new_rank;
}

int firn_join_nprocs(const struct firn_join *join)
{
    return join->order.nnew;
}

bool firn_join_layout(const struct firn_join *join, int nthreads, int *owner)
{
    return firn_join_owners(&join->order, nthreads, owner);
}

/* Bytes of bridge process 0 to those that take them. Collective. */
static enum firn_status pour(struct firn_join *j, void *data, size_t nbytes,
                             bool takes, struct firn_error *err)
{
    struct firn_group *g = j->bridge;
    size_t half = g->data_bytes / 2;
    if (firn_join_is_far(j))
        return firn_join_far_pour(j, data, nbytes, takes, err);
    for (size_t done = 0; done < nbytes; done += half) {
        size_t n = nbytes - done < half ? nbytes - done : half;
        unsigned char *at = (unsigned char *)g->data + (j->turn++ & 1) * half;
        if (g->rank == 0)
            memcpy(at, (unsigned char *)data + done, n);
        FIRN_TRY(firn_grp_sound(g, err));
        FIRN_TRY(firn_grp_meet(g, 1, err));
        if (takes)
            memcpy((unsigned char *)data + done, at, n);
    }
    return FIRN_OK;
}

bool firn_join_has_joiners(const struct firn_join *join)
{
    return join->bridge->nprocs > join->order.nold;
}

enum firn_status firn_join_send(struct firn_join *join, void *data,
                                size_t nbytes, struct firn_error *err)
{
    return firn_join_has_joiners(join)
               ? pour(join, data, nbytes, join->is_new, err)
               : FIRN_OK;
}

enum firn_status firn_join_share(struct firn_join *join, const void *data,
                                 size_t nbytes, void **all, size_t *nall,
                                 struct firn_error *err)
{
    struct firn_join *j = join;
    bool is_root = j->bridge->rank == 0;
    size_t *sizes = calloc((size_t)j->bridge->nprocs, sizeof *sizes);
    uint64_t total = 0;
    *all = NULL;
    if (sizes == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for contexts");
    enum firn_status status =
        firn_group_gather(j->bridge, data, nbytes, all, sizes, err);
    for (int i = 0; is_root && i < j->bridge->nprocs; i++)
        total += sizes[i];
    free(sizes);
    FIRN_TRY(status);
    FIRN_TRY(pour(j, &total, sizeof total, !is_root, err));
    if (!is_root)
        *all = calloc(1, (size_t)total + 1);
    if (*all == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for contexts");
    *nall = (size_t)total;
    status = pour(j, *all, *nall, !is_root, err);
    if (status != FIRN_OK) {
        firn_group_free(*all);
        *all = NULL;
    }
    return status;
}

/* All processes of the bridge learn whether one of them cannot go on: a process
 * that is gone is found here at once, and not by a time-out of the new group.
 */
static enum firn_status check_all(struct firn_join *j, const char *trouble,
                                  struct firn_error *err)
{
    int64_t failed = trouble != NULL;
    FIRN_TRY(firn_group_max(j->bridge, &failed, err));
    if (trouble != NULL)
        return firn_fail(err, FIRN_EIO, "%s", trouble);
    return failed == 0
               ? FIRN_OK
               : firn_fail(err, FIRN_EIO, "another process could not switch");
}

enum firn_status firn_join_form(struct firn_join *join,
                                const struct firn_group_config *group,
                                const char *trouble, struct firn_group **out,
                                struct firn_error *err)
{
    struct firn_join *j = join;
    char name[NAME];
    *out = NULL;
    if (j->bridge == NULL)
        return firn_fail(err, FIRN_EIO, "%s",
                         trouble != NULL ? trouble : "there is no meeting");
    struct firn_group_config c = *group;
    struct grp_watch watch = {0};
    FIRN_TRY(check_all(j, trouble, err));
    c.rank = j->new_rank;
    c.nprocs = j->order.nnew;
    c.local_rank = c.local_nprocs = 0;
    if (firn_join_is_far(j))
        FIRN_TRY(firn_join_far_group(j, &c, &watch, err));
    if (j->new_rank < 0)
        return FIRN_OK;
    int *owner = malloc((size_t)group->nthreads * sizeof *owner);
    if (owner == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for a layout");
    snprintf(name, sizeof name, "%.400s.joined-%llu", group->name,
             (unsigned long long)j->number);
    c.name = name;
    c.owner = owner;
    bool is_early =
        is_before_switch(j) && (!firn_join_is_far(j) || is_prepared_far(j));
    c.timeout_s =
        is_early ? no_limit_s : j->order.limit_s / 4; /* while it is opened */
    int listener = watch.listener;
    watch = watch_of(j, is_early);
    watch.listener = listener;
    bool fits = firn_join_owners(&j->order, group->nthreads, owner);
    if (!fits && listener > 0)
        close(listener - 1);
    enum firn_status status =
        fits ? firn_grp_open(out, &c, &watch, err)
             : firn_fail(err, FIRN_EINVAL,
                         "the new layout does not fit %d threads on %d "
                         "processes",
                         group->nthreads, j->order.nnew);
    free(owner);
    if (status == FIRN_OK && *out != NULL)
        (*out)->timeout_s = group->timeout_s > 0 ? group->timeout_s : 300;
    if (status == FIRN_OK && is_early)
        firn_grp_touch(*out);
    return status;
}

/* --- the commit ----------------------------------------------------------- */

/* Old process 0 writes down how it went. */
static void settle(struct firn_join *j, bool committed, const char *why,
                   uint64_t step)
{
    struct firn_join_result *r = &j->board->result;
    struct firn_join_row row;
    double now_s = firn_grp_now_s();
    r->pause_s = now_s - j->began_s;
    r->prepare_s = j->ordered_s > 0 ? j->ready_s - j->ordered_s : 0;
    r->step = step;
    snprintf(r->why, sizeof r->why, "%s",
             committed     ? ""
             : why != NULL ? why
                           : "another process could not do its part");
    (void)firn_join_move(j->board, j->number, FIRN_JOIN_SWITCHING,
                         committed ? FIRN_JOIN_ON_COMMIT : FIRN_JOIN_ON_REFUSED,
                         &row);
    j->seen = 0;
}

uint64_t firn_join_under_way(const struct firn_join *join)
{
    uint64_t word = join != NULL ? atomic_load(&join->board->word) : 0;
    return firn_join_phase_of(word) == FIRN_JOIN_SWITCHING
               ? firn_join_number(word)
               : 0;
}

void firn_join_withdraw(struct firn_join *join, uint64_t order, const char *why)
{
    struct firn_join_row row;
    uint64_t word = atomic_load(&join->board->word);
    if (word != firn_join_word(order, FIRN_JOIN_PREPARING) &&
        word != firn_join_word(order, FIRN_JOIN_SWITCHING))
        return; /* it is over, and its end has been told */
    snprintf(join->board->result.why, sizeof join->board->result.why, "%s",
             why);
    if (!firn_join_move(join->board, order, FIRN_JOIN_SWITCHING,
                        FIRN_JOIN_ON_WITHDRAWN, &row))
        (void)firn_join_move(join->board, order, FIRN_JOIN_PREPARING,
                             FIRN_JOIN_ON_WITHDRAWN, &row);
    join->seen = 0;
}

static enum firn_status hear(struct firn_join *j, const char *trouble,
                             bool *committed, struct firn_error *err)
{
    uint64_t answer = 0;
    enum firn_status status = trouble != NULL
                                  ? firn_fail(err, FIRN_EIO, "%s", trouble)
                                  : pour(j, &answer, sizeof answer, true, err);
    hang_up(j);
    *committed = status == FIRN_OK && answer == 1;
    if (status == FIRN_OK && !*committed)
        return firn_fail(err, FIRN_EIO, "the resize was given up");
    return status;
}

enum firn_status firn_join_agree(struct firn_join *join, struct firn_group *old,
                                 const char *trouble, uint64_t step,
                                 bool *committed, struct firn_error *err)
{
    struct firn_join *j = join;
    struct firn_error why = {0};
    int64_t failed = trouble != NULL;
    *committed = false;
    if (j->is_new) {
        enum firn_status status = hear(j, trouble, committed, err);
        j->is_new = !*committed; /* from now on it is one of the group */
        j->old_rank = j->new_rank;
        return status;
    }
    if (trouble != NULL) /* others may still wait for this process there */
        hang_up(j);
    enum firn_status status =
        old != NULL ? firn_group_max(old, &failed, err) : FIRN_OK; /* (2) */
    if (status == FIRN_OK) {
        uint64_t answer = failed == 0;
        *committed = failed == 0;
        if (j->old_rank == 0)
            settle(j, *committed, trouble, step);
        if (*committed && j->bridge != NULL) /* a joiner that died since is
                                                found by the new group */
            (void)pour(j, &answer, sizeof answer, false, &why);
    }
    hang_up(j);
    return status;
}
