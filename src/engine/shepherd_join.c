/* shepherd_join.c - a supervisor's part of a resize without a stop.
 *
 * The engine writes `launch-K` and `resize` (engine/resizefile.h) and sends
 * SIGHUP. The supervisor gives the order on the board (wire/join.h), starts the
 * joiners as further workers and waits for the board's word: it alone ends
 * PREPARING for a lost or late joiner or a stop; the trainers decide the
 * switch. When the processes that are not needed any more are gone, it writes
 * `resized`, and the engine frees their GPUs.
 *
 * Workers that share no memory, below srun, get the order by files, and their
 * own supervisors end them (shepherd_far.c); the board here is then a mirror.
 *
 * Invariants
 *   1. A joiner counts as a worker of the attempt from the commit on: before
 *      it, how it ends changes nothing for the attempt; after it, it is like
 *      any other. A leaver counts no more from the commit on.
 *   2. Joiners inherit the job's lock and have the attempt's mark: the fence,
 *      the search for processes and the kill of a supervisor cover both sets.
 *   3. There is at most one resize, and `resized` is written once for each.
 *
 * Cost: nothing without a resize; during one the board is read every 5 ms.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/str.h"
#include "engine/resizefile.h"
#include "engine/shepherdwork.h"
#include "wire/join.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double switch_limit_s = 20;

struct joining {
    struct resize resize;
    struct launchfile launch;
    uint64_t order; /* on the board */
    size_t first;   /* of the joiners among the workers */
    double began_s, until_s;
    double prepare_s;           /* from the order until the switch */
    enum firn_join_phase phase; /* that was last acted upon */
    double kill_s;              /* when what is left of them is killed */
};

void shepherd_join_open(struct shepherd *s)
{
    size_t n = s->launch.workers.n;
    if (s->board == NULL)
        s->board_fd = -1;
    if (n > FIRN_JOIN_PROCS)
        return;
    if (s->kind == SHEPHERD_SLURM)
        shepherd_far_open(s);
    else if (s->board == NULL) /* prepared workers have it already */
        s->board_fd = firn_join_board_make(&s->board);
    if (s->board_fd < 0)
        return; /* such a job is resized by restarts */
    if (s->kind == SHEPHERD_LOCAL)
        snprintf(s->join, sizeof s->join, "FIRN_JOIN=/proc/self/fd/%d",
                 s->board_fd);
    mem_free(s->ranks);
    s->ranks = mem_new(n, sizeof *s->ranks);
    s->nranks = n;
    for (size_t i = 0; i < n; i++)
        s->ranks[i] = i;
}

static void forget(struct shepherd *s)
{
    resize_release(&s->joining->resize);
    launchfile_release(&s->joining->launch);
    mem_free(s->joining);
    s->joining = NULL;
}

void shepherd_join_close(struct shepherd *s)
{
    if (s->joining != NULL)
        forget(s);
    firn_join_board_close(s->board);
    s->board = NULL;
    mem_free(s->ranks);
    s->ranks = NULL;
    shepherd_far_close(s);
}

/* --- the end of a resize -------------------------------------------------- */

static void answer(struct shepherd *s, const struct resized *resized)
{
    failpoint("shepherd.resized.before");
    (void)resized_put(s->folder, resized, NULL); /* else the engine restarts */
    failpoint("shepherd.resized.after");
}

/* Joiners become workers, old ones that are not needed become leavers: (1). */
static void promote(struct shepherd *s)
{
    struct joining *j = s->joining;
    size_t n = j->resize.from.n, next = 0;
    size_t *ranks = mem_new(n, sizeof *ranks);
    for (size_t i = 0; i < s->nranks; i++)
        s->workers[s->ranks[i]].is_leaver = true;
    for (size_t i = 0; i < n; i++) {
        int from = j->resize.from.at[i];
        ranks[i] = from >= 0 ? s->ranks[from] : j->first + next++;
        s->workers[ranks[i]].is_leaver = false;
        s->workers[ranks[i]].is_joiner = false;
    }
    mem_free(s->ranks);
    s->ranks = ranks;
    s->nranks = n;
}

/* Follows the board's word, once for each phase. */
static void follow(struct shepherd *s)
{
    struct joining *j = s->joining;
    if (s->kind == SHEPHERD_SLURM)
        shepherd_far_follow(s);
    enum firn_join_phase phase =
        firn_join_phase_of(atomic_load(&s->board->word));
    if (phase == j->phase)
        return;
    if (j->phase == FIRN_JOIN_PREPARING) {
        double pause_s = phase == FIRN_JOIN_DONE ? s->board->result.pause_s : 0;
        double since_s = clock_elapsed_s() - j->began_s - pause_s;
        j->prepare_s = since_s > 0 ? since_s : 0;
    }
    j->phase = phase;
    if (phase == FIRN_JOIN_DONE)
        promote(s);
    if (phase == FIRN_JOIN_DONE || phase == FIRN_JOIN_FAILED)
        j->kill_s = clock_elapsed_s() +
                    (phase == FIRN_JOIN_DONE ? s->launch.grace_s : 0);
}

void shepherd_join_follow(struct shepherd *s)
{
    if (s->joining != NULL)
        follow(s);
}

/* Ends the processes that are not needed any more; true: all are gone. */
static bool clear(struct shepherd *s)
{
    bool is_clear = true;
    bool kills = clock_elapsed_s() >= s->joining->kill_s;
    for (size_t i = 0; i < s->nworkers; i++) {
        const struct worker *worker = &s->workers[i];
        if (worker->is_over || !(worker->is_leaver || worker->is_joiner))
            continue;
        is_clear = false;
        if (kills && worker->pid > 0 && s->kind == SHEPHERD_LOCAL)
            /* each leads a process group */
            kill(-worker->pid, SIGKILL);
    }
    return is_clear;
}

static void finish(struct shepherd *s)
{
    struct joining *j = s->joining;
    struct firn_join_row row;
    const struct firn_join_result *r = &s->board->result;
    struct resized resized = {.number = j->resize.number,
                              .is_done = j->phase == FIRN_JOIN_DONE,
                              .pause_s = r->pause_s,
                              .prepare_s = j->prepare_s,
                              .step = r->step};
    str_copy(resized.why, sizeof resized.why, r->why);
    if (resized.is_done) {
        shepherd_spare_learn(s, &j->launch);
        shepherd_say(s,
                     "resized to %zu process%s before step %llu; training "
                     "paused for %.1f ms",
                     s->nranks, s->nranks == 1 ? "" : "es",
                     (unsigned long long)r->step, 1e3 * r->pause_s);
    } else
        shepherd_say(s, "not resized: %s", resized.why);
    (void)firn_join_move(s->board, j->order, j->phase, FIRN_JOIN_ON_CLEARED,
                         &row);
    answer(s, &resized);
    forget(s);
}

/* --- the beginning -------------------------------------------------------- */

static const char *variable_of(const struct launchfile *launch,
                               const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < launch->common.n; i++)
        if (strncmp(launch->common.at[i], name, n) == 0)
            return launch->common.at[i] + n;
    return NULL;
}

static bool read_layout(struct shepherd *s, struct joining *j)
{
    char name[48];
    struct firn_buf text = {0};
    snprintf(name, sizeof name, "launch-%lld", (long long)j->resize.number);
    bool is_good =
        attempt_get(s->folder, name, &text) == ATTEMPT_PRESENT &&
        launchfile_read(&j->launch, (struct firn_bytes){text.at, text.n},
                        NULL) == FIRN_OK &&
        j->launch.attempt == s->launch.attempt &&
        j->launch.workers.n == j->resize.from.n;
    mem_free(text.at);
    return is_good;
}

/* "NODE/ALLOCATION" of a worker of a launch file. */
static void place_of(const struct launchfile *launch, size_t rank, char *out,
                     size_t size)
{
    const struct launch_worker *own = &launch->workers.at[rank];
    const char *node = "", *pilot = "";
    for (size_t i = 0; i < own->n; i++) {
        const char *variable = launch->own.at[own->first + i];
        if (strncmp(variable, "FIRN_NODE=", 10) == 0)
            node = variable + 10;
        if (strncmp(variable, "FIRN_PILOT=", 11) == 0)
            pilot = variable + 11;
    }
    snprintf(out, size, "%.60s/%.30s", node, pilot);
}

/* Neighbours of the same node and allocation share memory. */
static void place_all(struct shepherd *s, struct joining *j,
                      struct firn_join_order *order, int *worker)
{
    char place[FIRN_JOIN_PROCS][sizeof s->workers->place];
    int next = (int)j->first;
    for (size_t i = 0; i < s->launch.workers.n; i++)
        if (s->workers[i].place[0] == '\0')
            place_of(&s->launch, i, s->workers[i].place,
                     sizeof s->workers[i].place);
    for (int i = 0; i < order->nnew; i++) {
        int from = order->from[i];
        worker[i] = from >= 0 ? (int)s->ranks[from] : next++;
        if (from >= 0)
            str_copy(place[i], sizeof place[i], s->workers[worker[i]].place);
        else
            place_of(&j->launch, (size_t)i, place[i], sizeof place[i]);
        order->place[i] = i;
        for (int k = 0; k < i; k++)
            if (strcmp(place[k], place[i]) == 0)
                order->place[i] = order->place[k];
    }
}

static bool give(struct shepherd *s, struct joining *j)
{
    struct firn_join_order order = {.nold = (int)s->nranks,
                                    .nnew = (int)j->resize.from.n,
                                    .limit_s = switch_limit_s};
    const char *layout = variable_of(&j->launch, "FIRN_LAYOUT=");
    if (j->resize.from.n > FIRN_JOIN_PROCS ||
        (layout != NULL && strlen(layout) >= sizeof order.layout))
        return false;
    if (layout != NULL)
        str_copy(order.layout, sizeof order.layout, layout);
    for (size_t i = 0; i < j->resize.from.n; i++)
        order.from[i] = j->resize.from.at[i];
    if (s->kind == SHEPHERD_SLURM) {
        /* To workers below srun; the number of the resize is that of the order.
         */
        int worker[FIRN_JOIN_PROCS] = {0};
        j->order = (uint64_t)j->resize.number;
        place_all(s, j, &order, worker);
        return shepherd_far_give(s, &order, j->order, worker);
    }
    j->order = firn_join_give(s->board, &order);
    return j->order > 0;
}

/* Starts the joiners; one that cannot be started is over at once. */
static void start_near(struct shepherd *s)
{
    struct joining *j = s->joining;
    char order[48], key[160];
    const char *secret = variable_of(&s->launch, "FIRN_GROUP_KEY=");
    snprintf(order, sizeof order, "FIRN_JOIN_ORDER=%llu",
             (unsigned long long)j->order);
    snprintf(key, sizeof key, "FIRN_GROUP_KEY=%s", secret ? secret : "");
    const char *extra[] = {order, key};
    for (size_t i = 0; i < j->resize.from.n; i++) {
        if (j->resize.from.at[i] >= 0)
            continue;
        s->workers = mem_grow(s->workers, s->nworkers, s->nworkers + 1,
                              sizeof *s->workers);
        s->workers[s->nworkers++] = (struct worker){.is_joiner = true};
        s->nleft++;
        s->start_joiner(s, s->nworkers - 1, &j->launch, i, extra, 2);
    }
}

/* The same by srun: as many workers more as join. */
static void start_far(struct shepherd *s)
{
    struct joining *j = s->joining;
    for (size_t i = 0; i < j->resize.from.n; i++) {
        if (j->resize.from.at[i] >= 0)
            continue;
        s->workers = mem_grow(s->workers, s->nworkers, s->nworkers + 1,
                              sizeof *s->workers);
        struct worker *worker = &s->workers[s->nworkers++];
        *worker = (struct worker){.is_joiner = true};
        place_of(&j->launch, i, worker->place, sizeof worker->place);
        (void)attempt_worker_reserve(s->folder, s->nworkers - 1, NULL);
        s->nleft++;
    }
    if (s->nworkers > j->first)
        s->start_steps(s, &j->launch, j->resize.number, j->first);
}

static void begin(struct shepherd *s, struct resize *resize)
{
    const char *why = NULL;
    struct joining *j = mem_new(1, sizeof *j);
    j->resize = *resize;
    j->first = s->nworkers;
    j->began_s = clock_elapsed_s();
    j->until_s = j->began_s + resize->prepare_s;
    j->phase = FIRN_JOIN_PREPARING;
    s->joining = j;
    bool can = s->board != NULL &&
               (s->kind == SHEPHERD_SLURM ? shepherd_far_can(s)
                                          : atomic_load(&s->board->can) != 0);
    if (!can)
        why = "its trainer takes no such order";
    else if (s->stage != STAGE_RUNNING || s->nleft < (int)s->nranks)
        why = "the attempt is about to end";
    else if (!read_layout(s, j) || !give(s, j))
        why = "the new layout cannot be given to its processes";
    if (why != NULL) {
        struct resized resized = {.number = resize->number};
        str_copy(resized.why, sizeof resized.why, why);
        answer(s, &resized);
        forget(s);
        return;
    }
    if (s->kind == SHEPHERD_SLURM)
        start_far(s);
    else
        start_near(s);
    failpoint("shepherd.joiners.after");
}

void shepherd_join_look(struct shepherd *s)
{
    struct resize resize;
    if (s->kind == SHEPHERD_TASK || s->joining != NULL || s->workers == NULL ||
        resize_get(s->folder, &resize) != ATTEMPT_PRESENT)
        return;
    if (resize.number <= s->resized) { /* (3) */
        resize_release(&resize);
        return;
    }
    s->resized = resize.number;
    begin(s, &resize);
}

/* --- while it lasts ------------------------------------------------------- */

static bool is_joiner_lost(struct shepherd *s)
{
    for (size_t i = s->joining->first; i < s->nworkers; i++)
        if (s->workers[i].is_over)
            return true;
    return false;
}

/* Do processes of the group that trains remain? */
static bool has_members(const struct shepherd *s)
{
    for (size_t i = 0; i < s->nranks; i++)
        if (!s->workers[s->ranks[i]].is_over)
            return true;
    return false;
}

/* Ends PREPARING if it came to nothing. */
static void give_up(struct shepherd *s, enum firn_join_event event,
                    const char *why)
{
    struct firn_join_row row;
    if (s->kind == SHEPHERD_SLURM) {
        shepherd_far_give_up(s, event, why);
        return;
    }
    if (!firn_join_move(s->board, s->joining->order, FIRN_JOIN_PREPARING, event,
                        &row))
        return; /* the switch has begun: the trainers decide */
    str_copy(s->board->result.why, sizeof s->board->result.why, why);
}

int shepherd_join_advance(struct shepherd *s)
{
    if (s->joining == NULL)
        return -1;
    struct joining *j = s->joining;
    if (j->phase == FIRN_JOIN_PREPARING && is_joiner_lost(s))
        give_up(s, FIRN_JOIN_ON_JOINER_LOST,
                "a process that was to join ended");
    else if (j->phase == FIRN_JOIN_PREPARING && clock_elapsed_s() >= j->until_s)
        give_up(s, FIRN_JOIN_ON_LATE,
                "the processes that were to join were not ready in time");
    else if (j->phase == FIRN_JOIN_PREPARING &&
             (s->stage != STAGE_RUNNING || !has_members(s)))
        give_up(s, FIRN_JOIN_ON_WITHDRAWN, "the attempt ends");
    else if (j->phase == FIRN_JOIN_SWITCHING && s->kind == SHEPHERD_SLURM &&
             is_joiner_lost(s))
        shepherd_far_give_up(s, FIRN_JOIN_ON_JOINER_LOST,
                             "a process that was to join ended");
    bool is_over = j->phase == FIRN_JOIN_DONE || j->phase == FIRN_JOIN_FAILED;
    if (s->kind == SHEPHERD_SLURM && !is_over && !has_members(s))
        shepherd_far_abandon(s);
    follow(s);
    if (j->phase == FIRN_JOIN_SWITCHING && !has_members(s))
        j->kill_s = 0;
    is_over = j->phase == FIRN_JOIN_DONE || j->phase == FIRN_JOIN_FAILED;
    if (is_over && clear(s))
        finish(s);
    return s->joining != NULL ? 5 : -1;
}
