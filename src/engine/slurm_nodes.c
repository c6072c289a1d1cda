/* slurm_nodes.c - scontrol's answer: nodes down, nodes up, foreign GPUs.
 *
 * A GPU that Slurm counts as used and that no attempt of ours holds is foreign.
 * Where Slurm says which GPUs are used (slots), those; where it only counts, as
 * many of those that we do not hold: first the ones reported before, then from
 * the last GPU down.
 *
 * Queue and nodes are two questions, and an attempt may begin or end between
 * them. So an answer about nodes is evaluated with a queue that was asked for
 * afterwards: jobs pending there held none of the used GPUs. And a GPU is
 * reported as taken only when two answers in a row show it. While an orphan
 * whose GPUs are unknown is in the queue, nothing new is reported; but an
 * orphan that stays (Slurm may show it COMPLETING for hours) counts as foreign.
 *
 * A node that is missing from the answer is down. A node whose state Slurm does
 * not know (for a moment after a restart of the controller, all of them) keeps
 * its state for a while.
 */
#include "base/str.h"
#include "engine/slurmwork.h"
#include <stdio.h>
#include <string.h>

enum { BOARDS = 16 };
static const double unclear_s = 30; /* after that an unclear node is down */
static const double orphan_settles =
    5; /* times slurm_settle_s(): the wait for orphans */

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

/* The node is out but its processes live and can leave: drained, reserved, or
 * to be rebooted when empty. */
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

/* With a reservation in slurm.options, only reserved nodes are usable. */
static bool is_usable(const struct slurm *slurm, const struct slurm_node *node)
{
    return has_reservation(slurm) ? node->is_reserved : node->is_usable;
}

/* Slurm does not know the state: the controller was just started, or the node
 * has not answered yet. */
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
        str_copy(host->why, sizeof host->why, "Slurm does not list this node");
    else if (node->is_usable)
        str_copy(host->why, sizeof host->why,
                 "the node is not in the reservation");
    else
        snprintf(host->why, sizeof host->why, "%.60s%s%.120s", node->state,
                 node->why[0] != '\0' ? ": " : "", node->why);
    if (is_up == host->is_up && (is_up || is_leaving == host->is_drained))
        return;
    host->is_up = is_up;
    host->is_drained = is_leaving;
    if (is_up)
        slurm_bars_node(slurm, id);
    slurm_report(slurm,
                 (struct firn_event){.kind = is_up ? FIRN_EVENT_NODE_UP
                                                   : FIRN_EVENT_NODE_DOWN,
                                     .node = id,
                                     .is_drained = is_leaving});
}

/* --- foreign GPUs --------------------------------------------------------- */

static void add_held(const struct firn_alloc *held, firn_node_id id,
                     uint64_t ours[BOARDS])
{
    for (int i = 0; i < held->nparts; i++)
        if (held->parts[i].node == id && held->parts[i].board < BOARDS)
            ours[held->parts[i].board] |= held->parts[i].gpus;
}

bool slurm_is_waiting(const struct slurm *slurm, const struct slurmjob *job)
{
    return job->base.phase == FIRN_PHASE_STARTING && !job->has_pid &&
           job->is_seen && job->state == SLURM_PENDING &&
           slurm_now_s(slurm) >= job->base.began_s + slurm_settle_s(slurm);
}

/* The GPUs of our attempts. `is_sure`: the queue is the later answer. */
static void find_ours(const struct slurm *slurm, firn_node_id id, bool is_sure,
                      uint64_t ours[BOARDS])
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        if (!is_sure || !slurm_is_waiting(slurm, slurm_at(slurm, i)))
            add_held(&slurm->roster.jobs.at[i]->held, id, ours);
    for (size_t i = 0; i < slurm->releases.n; i++)
        add_held(&slurm->releases.at[i].held, id, ours);
    slurm_returns_add(slurm, id, ours);
}

static int count(const uint64_t bits[BOARDS])
{
    int n = 0;
    for (int b = 0; b < BOARDS; b++)
        n += __builtin_popcountll(bits[b]);
    return n;
}

/* Chooses `nforeign` GPUs that are not ours. */
static void pick(const struct slurm_host *host, int nforeign,
                 const uint64_t ours[BOARDS], uint64_t out[BOARDS])
{
    for (int pass = 0; pass < 2; pass++)
        for (int gpu = host->ngpus - 1; gpu >= 0 && nforeign > 0; gpu--) {
            int b = gpu / FIRN_BOARD_GPUS;
            uint64_t bit = (uint64_t)1 << gpu % FIRN_BOARD_GPUS;
            bool was_reported = (host->taken[b] & bit) != 0;
            if ((ours[b] & bit) != 0 || (out[b] & bit) != 0 ||
                was_reported != (pass == 0))
                continue;
            out[b] |= bit;
            nforeign--;
        }
}

static void report(struct slurm *slurm, firn_node_id id, int board,
                   uint64_t gpus)
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
        report(slurm, id, b, taken);
    }
}

void slurm_nodes_first(struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->hosts.n; i++) {
        uint64_t ours[BOARDS] = {0};
        find_ours(slurm, (firn_node_id)i, false, ours);
        for (int b = 0; b < BOARDS; b++)
            report(slurm, (firn_node_id)i, b,
                   slurm->hosts.at[i].seen[b] & ~ours[b]);
    }
}

/* The queue has an orphan whose GPUs are unknown. */
static bool has_unknown_orphan(const struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->orphans.n; i++) {
        const struct slurm_tag *tag = &slurm->orphans.at[i].tag;
        bool is_known =
            slurm_now_s(slurm) >= slurm->orphans.at[i].since_s +
                                      orphan_settles * slurm_settle_s(slurm);
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
    bool is_blind = has_unknown_orphan(slurm);
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

/* An answer that was not evaluated yet stays: otherwise a slow queue would
 * never be later than the last one. */
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
        slurm_nodes_use(slurm, 0); /* no job of ours is in the queue */
    else
        slurm_poll_soon(slurm);
}
