/* slurm_nodes.c - what scontrol says of the nodes: out, back, used by others.
 *
 * GPUs that Slurm counts as used and that no attempt of ours holds are others'.
 * Where Slurm tells which ones (slots), these; where it only counts, as many of
 * those that we do not hold, the ones that were said before first, then the
 * last. Queue and nodes are two questions, and an attempt may begin or end
 * between them. So an answer about nodes is laid beside a queue that was asked
 * for after it: who waits there had none of the GPUs that were used. And GPUs
 * are said to be taken when two answers in a row show it. While a Slurm job of
 * ours is about whose GPUs nobody remembers (of before a restart, on its way
 * out), nothing new is said at all; but one that does not go (Slurm may have it
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
static const double dark_settles = 5; /* so long orphans are waited for */

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at != '\0';) {
        size_t size = strcspn(at, ",");
        if (size == n && strncmp(at, name, n) == 0)
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

bool slurm_is_in_partition(const struct slurm *slurm,
                           const struct slurm_node *node)
{
    return is_listed(node->partitions, slurm->partition);
}

bool slurm_is_mine(const struct slurm *slurm, const struct slurm_node *node)
{
    return node->ngpus > 0 && slurm_is_in_partition(slurm, node);
}

static const struct slurm_node *find(const struct slurm *slurm,
                                     const struct slurm_nodes *nodes,
                                     const char *name)
{
    for (size_t i = 0; i < nodes->at.n; i++)
        if (strcmp(nodes->at.at[i].name, name) == 0)
            return slurm_is_mine(slurm, &nodes->at.at[i]) ? &nodes->at.at[i]
                                                          : NULL;
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

static bool has_reservation(const struct slurm *slurm)
{
    return strstr(slurm->options, "--reservation") != NULL;
}

/* With a reservation of our own, only what is reserved is ours to use. */
static bool is_usable(const struct slurm *slurm, const struct slurm_node *node)
{
    return has_reservation(slurm) ? node->is_reserved : node->is_usable;
}

/* Slurm itself does not know: a controller that was just started, or a node
 * that was asked and did not answer yet. */
static bool is_unclear(const struct slurm *slurm, const struct slurm_node *node)
{
    static const char *const clear[] = {"DOWN",    "DRAIN", "FAIL",  "MAINT",
                                        "POWER",   "INVAL", "ERROR", "REBOOT",
                                        "BLOCKED", "FUTURE"};
    if (node != NULL && node->is_usable && has_reservation(slurm))
        return slurm->has_looked; /* a new controller finds reservations late */
    if (node == NULL || node->is_usable || node->is_reserved ||
        (!has_reservation(slurm) && strstr(node->state, "RESERV") != NULL))
        return false;
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++)
        if (strstr(node->state, clear[i]) != NULL)
            return false;
    return strstr(node->state, "UNKNOWN") != NULL ||
           strstr(node->state, "NOT_RESPONDING") != NULL ||
           strchr(node->state, '*') != NULL;
}

static void see_state(struct slurm *slurm, firn_node_id id,
                      const struct slurm_node *node)
{
    struct slurm_host *host = &slurm->hosts.at[id];
    bool is_up = node != NULL && is_usable(slurm, node);
    bool is_leaving = !is_up && is_drained(node);
    if (!is_unclear(slurm, node)) {
        host->unclear_s = 0;
    } else if (host->is_up) {
        double now_s = slurm_now_s(slurm);
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
    slurm_report(slurm,
                 (struct firn_event){.kind = is_up ? FIRN_EVENT_NODE_UP
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

/* It waits in Slurm, and that for a while: what was used of its GPUs before the
 * queue was asked for is used by others. */
bool slurm_is_waiting(const struct slurm *slurm, const struct slurmjob *job)
{
    return job->base.phase == FIRN_PHASE_STARTING && !job->has_pid &&
           job->is_seen && job->state == SLURM_PENDING &&
           slurm_now_s(slurm) >= job->base.began_s + slurm_settle_s(slurm);
}

/* `is_sure`: the queue is the later answer. */
static void find_ours(const struct slurm *slurm, firn_node_id id, bool is_sure,
                      uint64_t ours[BOARDS])
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        if (!is_sure || !slurm_is_waiting(slurm, slurm_at(slurm, i)))
            add_held(&slurm->roster.jobs.at[i]->held, id, ours);
    for (size_t i = 0; i < slurm->releases.n; i++)
        add_held(&slurm->releases.at[i].held, id, ours);
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

static void tell(struct slurm *slurm, firn_node_id id, int board, uint64_t gpus)
{
    struct slurm_host *host = &slurm->hosts.at[id];
    if (gpus == host->taken[board])
        return;
    host->taken[board] = gpus;
    slurm_report(slurm, (struct firn_event){.kind = FIRN_EVENT_TAKEN,
                                            .node = id,
                                            .taken = {id, board, gpus}});
}

bool slurm_is_taken(const struct slurm *slurm, const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if (part->board < BOARDS &&
            (slurm->hosts.at[part->node].taken[part->board] & part->gpus) != 0)
            return true;
    }
    return false;
}

static void see_used(struct slurm *slurm, firn_node_id id, bool is_sure)
{
    struct slurm_host *host = &slurm->hosts.at[id];
    uint64_t ours[BOARDS] = {0}, now[BOARDS] = {0};
    find_ours(slurm, id, is_sure, ours);
    if (host->naming == SLURM_SLOTS && host->has_indices)
        for (int b = 0; b < BOARDS; b++)
            now[b] = host->used[b] & ~ours[b];
    else
        pick(host, host->nused - count(ours), ours, now);
    for (int b = 0; b < BOARDS; b++) {
        uint64_t taken = (host->taken[b] | host->seen[b]) & now[b];
        host->seen[b] = now[b];
        tell(slurm, id, b, taken);
    }
}

void slurm_nodes_first(struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        uint64_t ours[BOARDS] = {0};
        find_ours(slurm, (firn_node_id)i, false, ours);
        for (int b = 0; b < BOARDS; b++)
            tell(slurm, (firn_node_id)i, b,
                 slurm->hosts.at[i].seen[b] & ~ours[b]);
    }
}

/* A Slurm job of ours is about, and nobody remembers which GPUs it has. */
static bool is_dark(const struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->orphans.n; i++) {
        const struct slurm_tag *tag = &slurm->orphans.at[i].tag;
        bool is_known =
            slurm_now_s(slurm) >=
            slurm->orphans.at[i].since_s + dark_settles * slurm_settle_s(slurm);
        for (size_t k = 0; k < slurm->releases.n; k++)
            is_known =
                is_known || (slurm->releases.at[k].tag.job == tag->job &&
                             slurm->releases.at[k].tag.attempt == tag->attempt);
        if (!is_known)
            return true;
    }
    return false;
}

bool slurm_nodes_use(struct slurm *slurm, double asked_s)
{
    bool is_sure = asked_s >= slurm->used_s;
    if (!(slurm->used_s > 0) || (!is_sure && asked_s > 0))
        return false;
    slurm->used_s = 0;
    bool is_blind = is_dark(slurm);
    for (size_t i = 0; i < slurm->hosts.n; i++)
        if (slurm->hosts.at[i].is_there && !is_blind)
            see_used(slurm, (firn_node_id)i, is_sure);
    return is_sure;
}

static void keep_used(struct slurm_host *host, const struct slurm_node *node)
{
    host->is_there = node != NULL;
    if (node == NULL)
        return;
    for (int b = 0; b < BOARDS; b++)
        host->used[b] = node->used[b];
    host->nused = node->nused;
    host->has_indices = node->has_indices;
}

/* An answer that nobody looked at yet stays: a slow queue would never be asked
 * for after the last one. */
void slurm_nodes_take(struct slurm *slurm, const struct slurm_nodes *nodes)
{
    bool is_new = !(slurm->used_s > 0);
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        const struct slurm_node *node =
            find(slurm, nodes, slurm->hosts.at[i].name);
        see_state(slurm, (firn_node_id)i, node);
        if (is_new)
            keep_used(&slurm->hosts.at[i], node);
    }
    if (is_new)
        slurm->used_s = slurm_now_s(slurm);
    if (slurm->cell == 0)
        slurm_nodes_use(slurm, 0); /* nothing of ours is in the queue */
    else
        slurm_poll_soon(slurm);
}
