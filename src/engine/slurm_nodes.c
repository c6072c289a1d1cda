/* slurm_nodes.c - what scontrol says of the nodes: out, back, used by others.
 *
 * GPUs that Slurm counts as used and that no epoch of ours holds are others'.
 * Where Slurm tells which ones (slots), these; where it only counts, as many of
 * those that we do not hold, the ones that were said before first, then the
 * last. Queue and nodes are two questions, and an epoch may end between them:
 * GPUs are said to be taken when two answers in a row show it. It may begin,
 * too: GPUs that an epoch waits for are others' once the queue, asked after
 * they were found in use, still has it waiting. While a Slurm job of ours is
 * about whose GPUs nobody remembers (of before a restart, on its way out),
 * nothing new is said at all; but one that does not go (Slurm may have it
 * COMPLETING for hours) is as good as somebody else's.
 *
 * A node that is missing from the answer is out. One of which Slurm does not
 * know what it is like (after a restart of the controller all are like that for
 * a moment) is as it was, for a while.
 */
#include "base/str.h"
#include "engine/slurmwork.h"
#include <stdio.h>
#include <string.h>

enum { BOARDS = 16 };
static const double unclear_s = 30;   /* longer than that a node is out */
static const double dark_settles = 5; /* so long strays are waited for */

static const struct slurm_node *
find(const struct slurm *l, const struct slurm_nodes *nodes, const char *name)
{
    for (size_t i = 0; i < nodes->at.n; i++)
        if (strcmp(nodes->at.at[i].name, name) == 0)
            return slurm_is_mine(l, &nodes->at.at[i]) ? &nodes->at.at[i] : NULL;
    return NULL;
}

/* --- up and down ---------------------------------------------------------- */

/* Its processes live, and have time to leave: it is drained, or reserved for
 * others, or to be booted when it is empty. */
static bool is_drained(const struct slurm_node *node)
{
    static const char *const dead[] = {
        "NOT_RESPONDING", "FAIL",          "POWERED_DOWN",
        "POWERING_",      "REBOOT_ISSUED", "UNKNOWN",
        "FUTURE",         "INVAL",         "ERROR"};
    if (node == NULL || strncmp(node->state, "DOWN", 4) == 0 ||
        strpbrk(node->state, "*~#%^") != NULL)
        return false;
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++)
        if (strstr(node->state, dead[i]) != NULL)
            return false;
    return true;
}

static bool has_reservation(const struct slurm *l)
{
    return strstr(l->options, "--reservation") != NULL;
}

/* With a reservation of our own, only what is reserved is ours to use. */
static bool is_usable(const struct slurm *l, const struct slurm_node *node)
{
    return has_reservation(l) ? node->is_reserved : node->is_usable;
}

/* Slurm itself does not know: a controller that was just started, or a node
 * that was asked and did not answer yet. */
static bool is_unclear(const struct slurm *l, const struct slurm_node *node)
{
    static const char *const clear[] = {"DOWN",    "DRAIN", "FAIL",  "MAINT",
                                        "POWER",   "INVAL", "ERROR", "REBOOT",
                                        "BLOCKED", "FUTURE"};
    if (node != NULL && node->is_usable && has_reservation(l))
        return l->has_looked; /* a new controller finds reservations late */
    if (node == NULL || node->is_usable || node->is_reserved ||
        (!has_reservation(l) && strstr(node->state, "RESERV") != NULL))
        return false;
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++)
        if (strstr(node->state, clear[i]) != NULL)
            return false;
    return strstr(node->state, "UNKNOWN") != NULL ||
           strstr(node->state, "NOT_RESPONDING") != NULL ||
           strchr(node->state, '*') != NULL;
}

static void see_state(struct slurm *l, firn_node_id id,
                      const struct slurm_node *node)
{
    struct slurm_host *host = &l->hosts.at[id];
    bool is_up = node != NULL && is_usable(l, node);
    bool is_leaving = !is_up && is_drained(node);
    if (!is_unclear(l, node)) {
        host->unclear_s = 0;
    } else if (host->is_up) {
        double now_s = slurm_now_s(l);
        host->unclear_s = host->unclear_s > 0 ? host->unclear_s : now_s;
        if (now_s < host->unclear_s + unclear_s)
            return;
    }
    if (is_up)
        host->why[0] = '\0';
    else if (node == NULL)
        str_copy(host->why, sizeof host->why, "Slurm does not have it");
    else if (node->is_usable)
        str_copy(host->why, sizeof host->why, "it is in no reservation");
    else
        snprintf(host->why, sizeof host->why, "%.60s%s%.120s", node->state,
                 node->why[0] != '\0' ? ": " : "", node->why);
    if (is_up == host->is_up && (is_up || is_leaving == host->is_drained))
        return;
    host->is_up = is_up;
    host->is_drained = is_leaving;
    slurm_tell(l, (struct firn_event){.kind = is_up ? FIRN_EVENT_NODE_UP
                                                    : FIRN_EVENT_NODE_DOWN,
                                      .node = id,
                                      .is_drained = is_leaving});
}

/* --- others' GPUs --------------------------------------------------------- */

static void add_held(const struct firn_alloc *held, firn_node_id id,
                     uint64_t ours[BOARDS])
{
    for (int i = 0; i < held->nparts; i++)
        if (held->parts[i].node == id && held->parts[i].board < BOARDS)
            ours[held->parts[i].board] |= held->parts[i].gpus;
}

/* It waits in Slurm, and that for a while: by what is known, which may be old.
 */
static bool is_waiting(const struct slurm *l, const struct slurmjob *job)
{
    return job->base.phase == FIRN_PHASE_STARTING && !job->has_pid &&
           job->is_seen && job->state == SLURM_PENDING &&
           slurm_now_s(l) >= job->base.began_s + slurm_settle_s(l);
}

/* What is used of its GPUs is used by others. */
static bool is_kept_out(const struct slurm *l, const struct slurmjob *job)
{
    return is_waiting(l, job) && job->contested_s > 0 &&
           job->seen_s >= job->contested_s;
}

typedef bool without(const struct slurm *l, const struct slurmjob *job);

static void find_ours(const struct slurm *l, firn_node_id id,
                      without *is_without, uint64_t ours[BOARDS])
{
    for (size_t i = 0; i < l->roster.jobs.n; i++)
        if (!is_without(l, slurm_at(l, i)))
            add_held(&l->roster.jobs.at[i]->held, id, ours);
    for (size_t i = 0; i < l->rests.n; i++)
        add_held(&l->rests.at[i].held, id, ours);
}

static int count(const uint64_t bits[BOARDS])
{
    int n = 0;
    for (int b = 0; b < BOARDS; b++)
        n += __builtin_popcountll(bits[b]);
    return n;
}

/* As many as are used beyond ours. */
static void pick(const struct slurm_host *host, int nothers,
                 const uint64_t ours[BOARDS], uint64_t out[BOARDS])
{
    for (int pass = 0; pass < 2; pass++)
        for (int gpu = host->ngpus - 1; gpu >= 0 && nothers > 0; gpu--) {
            int b = gpu / FIRN_BOARD_GPUS;
            uint64_t bit = (uint64_t)1 << gpu % FIRN_BOARD_GPUS;
            bool was_said = (host->taken[b] & bit) != 0;
            if ((ours[b] & bit) != 0 || (out[b] & bit) != 0 ||
                was_said != (pass == 0))
                continue;
            out[b] |= bit;
            nothers--;
        }
}

static void tell(struct slurm *l, firn_node_id id, int board, uint64_t gpus)
{
    struct slurm_host *host = &l->hosts.at[id];
    if (gpus == host->taken[board])
        return;
    host->taken[board] = gpus;
    slurm_tell(l, (struct firn_event){.kind = FIRN_EVENT_TAKEN,
                                      .node = id,
                                      .taken = {id, board, gpus}});
}

bool slurm_is_taken(const struct slurm *l, const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if (part->board < BOARDS &&
            (l->hosts.at[part->node].taken[part->board] & part->gpus) != 0)
            return true;
    }
    return false;
}

/* Beyond what is ours. */
static void find_others(const struct slurm *l, firn_node_id id,
                        const struct slurm_node *node, without *is_without,
                        uint64_t out[BOARDS])
{
    const struct slurm_host *host = &l->hosts.at[id];
    uint64_t ours[BOARDS] = {0};
    find_ours(l, id, is_without, ours);
    if (host->naming == SLURM_SLOTS && node->has_indices)
        for (int b = 0; b < BOARDS; b++)
            out[b] = node->used[b] & ~ours[b];
    else
        pick(host, node->nused - count(ours), ours, out);
}

/* Is one of these of the part, as far as Slurm tells which they are? */
static bool is_touched(const struct slurm *l, const struct firn_part *part,
                       const uint64_t gpus[BOARDS])
{
    return l->hosts.at[part->node].naming != SLURM_SLOTS ||
           (part->board < BOARDS && (gpus[part->board] & part->gpus) != 0);
}

/* Who waits for GPUs of this node that are used by whomever. */
static void contest(struct slurm *l, firn_node_id id,
                    const struct slurm_node *node)
{
    uint64_t now[BOARDS] = {0};
    find_others(l, id, node, is_waiting, now);
    for (size_t i = 0; count(now) > 0 && i < l->roster.jobs.n; i++) {
        struct slurmjob *job = slurm_at(l, i);
        const struct firn_alloc *held = &job->base.held;
        for (int k = 0; is_waiting(l, job) && k < held->nparts; k++)
            job->is_contested =
                job->is_contested || (held->parts[k].node == id &&
                                      is_touched(l, &held->parts[k], now));
    }
}

static void see_used(struct slurm *l, firn_node_id id,
                     const struct slurm_node *node)
{
    struct slurm_host *host = &l->hosts.at[id];
    uint64_t now[BOARDS] = {0};
    contest(l, id, node);
    find_others(l, id, node, is_kept_out, now);
    for (int b = 0; b < BOARDS; b++) {
        uint64_t taken = (host->taken[b] | host->seen[b]) & now[b];
        host->seen[b] = now[b];
        tell(l, id, b, taken);
    }
}

void slurm_nodes_first(struct slurm *l)
{
    for (size_t i = 0; i < l->hosts.n; i++) {
        uint64_t ours[BOARDS] = {0};
        find_ours(l, (firn_node_id)i, is_kept_out, ours);
        for (int b = 0; b < BOARDS; b++)
            tell(l, (firn_node_id)i, b, l->hosts.at[i].seen[b] & ~ours[b]);
    }
}

/* Others were faster: its GPUs are somebody else's to decide on again. */
static void give_up(struct slurm *l)
{
    for (size_t i = 0; i < l->roster.jobs.n; i++) {
        struct slurmjob *job = slurm_at(l, i);
        if (is_kept_out(l, job) && slurm_is_taken(l, &job->base.held))
            slurm_withdraw(l, job);
    }
}

/* A Slurm job of ours is about, and nobody remembers which GPUs it has. */
static bool is_dark(const struct slurm *l)
{
    for (size_t i = 0; i < l->strays.n; i++) {
        const struct slurm_tag *tag = &l->strays.at[i].tag;
        bool is_known = slurm_now_s(l) >= l->strays.at[i].since_s +
                                              dark_settles * slurm_settle_s(l);
        for (size_t k = 0; k < l->rests.n; k++)
            is_known = is_known || (l->rests.at[k].tag.job == tag->job &&
                                    l->rests.at[k].tag.epoch == tag->epoch);
        if (!is_known)
            return true;
    }
    return false;
}

void slurm_nodes_take(struct slurm *l, const struct slurm_nodes *nodes)
{
    bool is_blind = is_dark(l);
    for (size_t i = 0; i < l->roster.jobs.n; i++)
        slurm_at(l, i)->is_contested = false;
    for (size_t i = 0; i < l->hosts.n; i++) {
        const struct slurm_node *node = find(l, nodes, l->hosts.at[i].name);
        see_state(l, (firn_node_id)i, node);
        if (node != NULL && !is_blind)
            see_used(l, (firn_node_id)i, node);
    }
    give_up(l);
    for (size_t i = 0; i < l->roster.jobs.n; i++) {
        struct slurmjob *job = slurm_at(l, i);
        if (!job->is_contested)
            job->contested_s = 0;
        else if (!(job->contested_s > 0))
            job->contested_s = slurm_now_s(l);
    }
}
