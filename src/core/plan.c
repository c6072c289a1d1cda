/* plan.c - a transaction over free GPUs, with marks.
 *
 * The plan works on a map of free GPUs: its own empty one, or state's live one
 * after keep_all. Each entry says what one job has from then on; making it
 * gives back what the job had in the plan before and takes the new GPUs.
 *
 * Invariants:
 * (1) undoing entries in reverse order restores the map exactly, so a closed
 *     plan leaves both maps as they were and none is ever copied;
 * (2) an entry that names GPUs the map cannot give is recorded with in_map
 *     false and takes nothing: the plan stays usable, and core/check.c refuses
 *     it later with a sentence;
 * (3) latest[slot] points at the newest entry of the job in that slot.
 *
 * A job may have nodes that are barred to it (firn_job.barred): the cluster's
 * own scheduler would not start it there. While it is placed their free GPUs
 * are out of the map, so no policy has to know. A policy that names the GPUs
 * itself (firn_plan_place) gives the job nothing where it names a barred node:
 * the job waits, with a note.
 *
 * Cost: O(parts) per entry, nothing per job that is not mentioned; O(nodes) to
 * place a job with barred nodes.
 */
#include "core/plan.h"
#include "base/str.h"
#include "core/place.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void plan_init(struct firn_plan *plan, struct state *state, place_rule *place)
{
    *plan =
        (struct firn_plan){.state = state, .place = place ? place : place_take};
    freemap_init(&plan->empty, &state->cluster);
}

void plan_release(struct firn_plan *plan)
{
    freemap_release(&plan->empty);
    vec_release(&plan->entries);
    vec_release(&plan->latest);
    vec_release(&plan->notes);
}

void plan_node(struct firn_plan *plan, firn_node_id node)
{
    freemap_node_changed(&plan->empty, node);
}

void plan_open(struct firn_plan *plan, const struct firn_view *view)
{
    plan->view = view;
    plan->map = &plan->empty;
    plan->keeps_all = false;
    plan->entries.n = 0;
    plan->notes.n = 0;
    vec_reserve(&plan->latest, plan->state->by_slot.n);
}

void firn_plan_keep_all(struct firn_plan *plan)
{
    if (plan->entries.n > 0)
        FIRN_BUG("firn_plan_keep_all must come first");
    plan->keeps_all = true;
    plan->map = &plan->state->map;
}

const struct plan_entry *plan_entry_of(const struct firn_plan *plan,
                                       const struct firn_job *job)
{
    int latest = plan->latest.at[job->slot];
    return latest > 0 ? &plan->entries.at[latest - 1] : NULL;
}

const struct firn_alloc *firn_plan_of(const struct firn_plan *plan,
                                      const struct firn_job *job)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    const struct plan_entry *entry = plan_entry_of(plan, job);
    if (entry != NULL)
        return entry->kind == PLAN_HOLD ? &entry->alloc : &nothing;
    return plan->keeps_all ? &job->held : &nothing;
}

/* What the job has taken in the map before an entry, or NULL for nothing. */
static const struct firn_alloc *taken(const struct firn_plan *plan,
                                      const struct firn_job *job, int latest)
{
    if (latest > 0) {
        const struct plan_entry *entry = &plan->entries.at[latest - 1];
        return entry->in_map ? &entry->alloc : NULL;
    }
    return plan->keeps_all && job->held.nparts > 0 ? &job->held : NULL;
}

static void give_back(struct firn_plan *plan, const struct firn_job *job)
{
    const struct firn_alloc *had = taken(plan, job, plan->latest.at[job->slot]);
    if (had != NULL)
        freemap_give(plan->map, had);
}

/* The inverse of give_back. */
static void take_again(struct firn_plan *plan, const struct firn_job *job)
{
    const struct firn_alloc *had = taken(plan, job, plan->latest.at[job->slot]);
    if (had != NULL)
        freemap_take(plan->map, had);
}

/* Records an entry whose GPUs are already as it says in the map, with these of
 * the policy's tunes. */
static void record_tuned(struct firn_plan *plan, struct plan_entry entry,
                         unsigned tunes)
{
    int *latest = &plan->latest.at[entry.job->slot];
    if (entry.kind == PLAN_HOLD)
        entry.alloc.tunes =
            firn_job_tunes(entry.job, plan->state->policy->tunes & tunes);
    entry.previous = *latest - 1;
    vec_add(&plan->entries, entry);
    *latest = (int)plan->entries.n;
}

static void record(struct firn_plan *plan, struct plan_entry entry)
{
    record_tuned(plan, entry, UINT_MAX);
}

bool firn_plan_keep(struct firn_plan *plan, const struct firn_job *job)
{
    if (job->held.nparts == 0)
        return false;
    if (plan->keeps_all && plan_entry_of(plan, job) == NULL)
        return true;
    give_back(plan, job);
    if (!freemap_can_take(plan->map, &job->held)) {
        take_again(plan, job);
        return false;
    }
    freemap_take(plan->map, &job->held);
    record(plan, (struct plan_entry){.job = job,
                                     .kind = PLAN_HOLD,
                                     .alloc = job->held,
                                     .in_map = true});
    return true;
}

/* --- barred nodes --------------------------------------------------------- */

static bool is_barred(const struct firn_plan *plan, const struct firn_job *job,
                      const struct firn_alloc *alloc)
{
    for (int i = 0; job->barred != NULL && i < alloc->nparts; i++) {
        firn_node_id node = alloc->parts[i].node;
        if (node >= 0 && node < plan->map->cluster->nnodes &&
            firn_job_is_barred(job, node))
            return true;
    }
    return false;
}

/* Takes the free GPUs of nodes that are barred to the job out of the map, while
 * it is placed; they are in `out`. O(nodes). */
static void hide_barred(struct firn_plan *plan, const struct firn_job *job,
                        struct firn_alloc *out)
{
    const struct firn_cluster *cluster = plan->map->cluster;
    *out = (struct firn_alloc)FIRN_ALLOC_NONE;
    if (job->barred == NULL)
        return;
    size_t nboards = (size_t)plan->map->first_board[cluster->nnodes];
    out->parts = arena_alloc(plan->view->scratch, nboards * sizeof *out->parts);
    for (firn_node_id n = 0; n < cluster->nnodes; n++)
        for (int b = plan->map->first_board[n];
             cluster->nodes[n].is_up && firn_job_is_barred(job, n) &&
             b < plan->map->first_board[n + 1];
             b++) {
            uint64_t gpus = plan->map->free[b];
            if (gpus == 0)
                continue;
            out->parts[out->nparts++] =
                (struct firn_part){n, b - plan->map->first_board[n], gpus};
            out->ngpus += __builtin_popcountll(gpus);
        }
    freemap_block(plan->map, out);
}

static bool place_for(struct firn_plan *plan, const struct firn_job *job,
                      const struct firn_want *want, uint32_t types,
                      struct firn_alloc *out)
{
    struct firn_alloc hidden;
    hide_barred(plan, job, &hidden);
    bool has_room =
        plan->place(plan->map, want, types, plan->view->scratch, out);
    if (hidden.nparts > 0)
        freemap_unblock(plan->map, &hidden);
    return has_room;
}

bool firn_plan_give(struct firn_plan *plan, const struct firn_job *job,
                    int gpus)
{
    return firn_plan_give_want(plan, job, &(struct firn_want){.gpus = gpus});
}

static const struct firn_how as_submitted = FIRN_HOW_AS_SUBMITTED;

static const struct firn_how *how_of(const struct firn_want *want)
{
    return want->how != NULL ? want->how : &as_submitted;
}

/* Is what the job holds now just what is wanted? */
static bool holds_wanted(const struct firn_plan *plan,
                         const struct firn_job *job,
                         const struct firn_want *want)
{
    if (job->held.ngpus != want->gpus || job->held.is_shared != want->shared ||
        !firn_how_equal(&job->held.how, how_of(want)))
        return false;
    const struct firn_node *nodes = plan->state->cluster.nodes;
    int counts[FIRN_TYPES_MAX] = {0};
    for (int i = 0; i < job->held.nparts; i++) {
        firn_type_id type = nodes[job->held.parts[i].node].type;
        if (want->types != 0 && (want->types >> type & 1) == 0)
            return false;
        counts[type] += __builtin_popcountll(job->held.parts[i].gpus);
    }
    int types = 0;
    for (int t = 0; t < plan->state->cluster.ntypes; t++) {
        types += counts[t] > 0;
        if (want->counts != NULL && want->counts[t] != counts[t])
            return false;
    }
    if (want->one_node && firn_alloc_nodes(&job->held) > 1)
        return false;
    return !want->one_type || types == 1;
}

bool firn_plan_give_want(struct firn_plan *plan, const struct firn_job *job,
                         const struct firn_want *want)
{
    struct firn_want both = *want;
    both.one_type = want->one_type || job->spec.one_type;
    both.one_node = want->one_node || job->spec.one_node;
    if (holds_wanted(plan, job, &both) && firn_plan_keep(plan, job))
        return true;
    give_back(plan, job);
    struct plan_entry entry = {.job = job, .kind = PLAN_HOLD, .in_map = true};
    if (!place_for(plan, job, &both, job->type_mask, &entry.alloc)) {
        take_again(plan, job);
        return false;
    }
    entry.alloc.how = *how_of(want);
    record(plan, entry);
    return true;
}

static struct firn_alloc copy_alloc(struct firn_plan *plan,
                                    const struct firn_alloc *alloc)
{
    struct firn_alloc copy = *alloc;
    size_t bytes =
        (size_t)(alloc->nparts > 0 ? alloc->nparts : 0) * sizeof *copy.parts;
    copy.parts = arena_alloc(plan->view->scratch, bytes);
    if (bytes > 0)
        memcpy(copy.parts, alloc->parts, bytes);
    return copy;
}

/* The types of the GPUs that the job may have beside those of an allocation
 * of one type, of the types given. */
static uint32_t types_beside(const struct firn_plan *plan,
                             const struct firn_job *job,
                             const struct firn_alloc *alloc, uint32_t types)
{
    if (!job->spec.one_type || alloc->nparts == 0)
        return types;
    firn_node_id node = alloc->parts[0].node;
    return types & (uint32_t)1 << plan->state->cluster.nodes[node].type;
}

bool firn_plan_share(struct firn_plan *plan, const struct firn_job *job,
                     const struct firn_job *host)
{
    const struct firn_alloc *shared = firn_plan_of(plan, host);
    if (job == host || shared->nparts == 0 || !shared->is_shared ||
        is_barred(plan, job, shared) ||
        (job->spec.one_node && firn_alloc_nodes(shared) > 1))
        return false;
    uint32_t types = types_beside(plan, job, shared, job->type_mask);
    for (int i = 0; i < shared->nparts; i++) {
        firn_node_id node = shared->parts[i].node;
        if ((types >> plan->state->cluster.nodes[node].type & 1) == 0)
            return false;
    }
    struct plan_entry entry = {.job = job,
                               .kind = PLAN_HOLD,
                               .alloc = copy_alloc(plan, shared),
                               .in_map = true};
    entry.alloc.how = as_submitted;
    give_back(plan, job);
    if (!freemap_can_take(plan->map, &entry.alloc)) {
        take_again(plan, job);
        return false;
    }
    freemap_take(plan->map, &entry.alloc);
    record(plan, entry);
    return true;
}

/* Those of a part's GPUs on which there would be `crowd` jobs at most with one
 * more. */
static uint64_t open_gpus(const struct firn_plan *plan,
                          const struct firn_part *part, int crowd)
{
    int board = plan->map->first_board[part->node] + part->board;
    const uint8_t *sharers =
        plan->map->sharers + (size_t)board * FIRN_BOARD_GPUS;
    uint64_t open = part->gpus;
    for (uint64_t left = part->gpus; left != 0; left &= left - 1)
        if (sharers[__builtin_ctzll(left)] >= crowd)
            open &= ~(left & -left);
    return open;
}

static int crowd_of(const struct firn_plan *plan, int crowd)
{
    int most = plan->state->cluster.jobs_per_gpu;
    return crowd > 0 && crowd < most ? crowd : most;
}

int firn_plan_room(const struct firn_plan *plan, const struct firn_job *host,
                   int crowd)
{
    const struct firn_alloc *of = firn_plan_of(plan, host);
    int room = 0;
    for (int i = 0; of->is_shared && i < of->nparts; i++)
        room += __builtin_popcountll(
            open_gpus(plan, &of->parts[i], crowd_of(plan, crowd)));
    return room;
}

/* Adds up to `most` GPUs of a part to `to`, whose parts are in order and have
 * room; how many they were. Those it has already do not count again. */
static int add_part(struct firn_alloc *to, const struct firn_part *part,
                    int most)
{
    int at = 0, was = to->ngpus;
    while (at < to->nparts && (to->parts[at].node < part->node ||
                               (to->parts[at].node == part->node &&
                                to->parts[at].board < part->board)))
        at++;
    if (at == to->nparts || to->parts[at].node != part->node ||
        to->parts[at].board != part->board) {
        memmove(&to->parts[at + 1], &to->parts[at],
                (size_t)(to->nparts - at) * sizeof *to->parts);
        to->parts[at] = (struct firn_part){part->node, part->board, 0};
        to->nparts++;
    }
    uint64_t left = part->gpus & ~to->parts[at].gpus;
    for (; left != 0 && most > 0; left &= left - 1, most--, to->ngpus++)
        to->parts[at].gpus |= left & -left;
    return to->ngpus - was;
}

/* Up to want->gpus GPUs of the hosts that are not full; false when a host may
 * not be joined. */
static bool gather(const struct firn_plan *plan, const struct firn_job *job,
                   const struct firn_job *const *hosts, int nhosts,
                   const struct firn_want *want, struct firn_alloc *out)
{
    const struct firn_node *nodes = plan->state->cluster.nodes;
    uint32_t types = job->type_mask & (want->types ? want->types : UINT32_MAX);
    int crowd = crowd_of(plan, want->crowd), left = want->gpus;
    for (int h = 0; h < nhosts && left > 0; h++) {
        const struct firn_alloc *of = firn_plan_of(plan, hosts[h]);
        if (hosts[h] == job || of->nparts == 0 || !of->is_shared)
            return false;
        for (int i = 0; i < of->nparts && left > 0; i++) {
            struct firn_part part = of->parts[i];
            part.gpus = open_gpus(plan, &part, crowd);
            if (part.gpus != 0 && ((types >> nodes[part.node].type & 1) == 0 ||
                                   firn_job_is_barred(job, part.node)))
                return false;
            if (part.gpus != 0)
                left -= add_part(out, &part, left);
            types = types_beside(plan, job, out, types);
        }
    }
    return true;
}

/* Takes the GPUs of the hosts and free ones in the map; false, and no change,
 * when it cannot. */
static bool take_joined(struct firn_plan *plan, const struct firn_job *job,
                        const struct firn_job *const *hosts, int nhosts,
                        const struct firn_want *want, struct firn_alloc *out)
{
    struct firn_want rest = *want;
    struct firn_alloc more = FIRN_ALLOC_NONE;
    *out = (struct firn_alloc){.is_shared = true, .how = *how_of(want)};
    out->parts = arena_alloc(plan->view->scratch,
                             ((size_t)want->gpus + 1) * sizeof *out->parts);
    if (!gather(plan, job, hosts, nhosts, want, out) ||
        !freemap_can_take(plan->map, out))
        return false;
    freemap_take(plan->map, out);
    uint32_t types = types_beside(plan, job, out, job->type_mask);
    rest.gpus -= out->ngpus;
    rest.shared = true;
    rest.one_type = want->one_type || job->spec.one_type;
    if (rest.gpus > 0 && !place_for(plan, job, &rest, types, &more)) {
        freemap_give(plan->map, out);
        return false;
    }
    for (int i = 0; i < more.nparts; i++)
        add_part(out, &more.parts[i], more.ngpus);
    if (job->spec.one_node && firn_alloc_nodes(out) > 1) {
        freemap_give(plan->map, out);
        return false;
    }
    return true;
}

bool firn_plan_join(struct firn_plan *plan, const struct firn_job *job,
                    const struct firn_job *const *hosts, int nhosts,
                    const struct firn_want *want)
{
    struct plan_entry entry = {.job = job, .kind = PLAN_HOLD, .in_map = true};
    if (want->gpus < 1)
        return false;
    give_back(plan, job);
    if (!take_joined(plan, job, hosts, nhosts, want, &entry.alloc)) {
        take_again(plan, job);
        return false;
    }
    record(plan, entry);
    return true;
}

/* Records that `job` runs as before, but merged with that other. */
static void mark_merged(struct firn_plan *plan, const struct firn_job *job,
                        const struct firn_job *with)
{
    struct firn_alloc alloc = *firn_plan_of(plan, job);
    alloc.how.merged_with = with->id;
    firn_plan_place(plan, job, &alloc);
}

bool firn_plan_merge(struct firn_plan *plan, const struct firn_job *job,
                     const struct firn_job *host)
{
    if (!firn_job_may_merge(job, host) || !firn_plan_share(plan, job, host))
        return false;
    mark_merged(plan, job, host);
    mark_merged(plan, host, job);
    return true;
}

/* Each board at most once, so that taking and giving back are inverse. */
static bool in_order(const struct firn_alloc *alloc)
{
    for (int i = 1; i < alloc->nparts; i++) {
        const struct firn_part *a = &alloc->parts[i - 1];
        const struct firn_part *b = &alloc->parts[i];
        if (a->node > b->node || (a->node == b->node && a->board >= b->board))
            return false;
    }
    return true;
}

void firn_plan_place(struct firn_plan *plan, const struct firn_job *job,
                     const struct firn_alloc *alloc)
{
    struct plan_entry entry = {
        .job = job, .kind = PLAN_HOLD, .alloc = copy_alloc(plan, alloc)};
    if (is_barred(plan, job, alloc) && !firn_alloc_equal(alloc, &job->held)) {
        firn_plan_note(plan, job, "a node of the plan is barred to it");
        firn_plan_drop(plan, job);
        return;
    }
    if (job->spec.one_node && alloc->nparts > 1 && in_order(alloc) &&
        firn_alloc_nodes(alloc) > 1) { /* as if there were no room */
        firn_plan_drop(plan, job);
        firn_plan_note(plan, job, "its GPUs would be on several nodes");
        return;
    }
    give_back(plan, job);
    entry.in_map = in_order(&entry.alloc) &&
                   freemap_can_take(plan->map, &entry.alloc); /* (2) */
    if (entry.in_map)
        freemap_take(plan->map, &entry.alloc);
    record(plan, entry);
}

void firn_plan_tune(struct firn_plan *plan, const struct firn_job *job,
                    unsigned tunes)
{
    const struct firn_alloc *has = firn_plan_of(plan, job);
    int latest = plan->latest.at[job->slot];
    if (has->nparts == 0)
        FIRN_BUG("job %d has no GPUs to be tuned on", job->id);
    struct plan_entry entry = {.job = job,
                               .kind = PLAN_HOLD,
                               .alloc = *has,
                               .in_map = latest == 0 ||
                                         plan->entries.at[latest - 1].in_map};
    record_tuned(plan, entry, tunes);
}

void firn_plan_drop(struct firn_plan *plan, const struct firn_job *job)
{
    give_back(plan, job);
    record(plan, (struct plan_entry){.job = job, .kind = PLAN_NONE});
}

void firn_plan_reject(struct firn_plan *plan, const struct firn_job *job,
                      const char *reason)
{
    give_back(plan, job);
    record(plan, (struct plan_entry){
                     .job = job,
                     .kind = PLAN_REJECT,
                     .reason = arena_strdup(plan->view->scratch, reason)});
}

void firn_plan_note(struct firn_plan *plan, const struct firn_job *job,
                    const char *fmt, ...)
{
    struct plan_note note = {.job = job->id};
    va_list args;
    va_start(args, fmt);
    if (strcmp(fmt, "%s") == 0) /* ready: printf takes ten times as long */
        str_copy(note.text, sizeof note.text, va_arg(args, const char *));
    else
        vsnprintf(note.text, sizeof note.text, fmt, args);
    va_end(args);
    vec_add(&plan->notes, note);
}

size_t firn_plan_mark(const struct firn_plan *plan)
{
    return plan->entries.n;
}

/* Takes the newest entry back out of the map. */
static void unmake(struct firn_plan *plan, size_t index)
{
    const struct plan_entry *entry = &plan->entries.at[index];
    if (entry->in_map)
        freemap_give(plan->map, &entry->alloc);
    plan->latest.at[entry->job->slot] = entry->previous + 1;
    take_again(plan, entry->job);
}

void firn_plan_undo(struct firn_plan *plan, size_t mark)
{
    while (plan->entries.n > mark) {
        unmake(plan, plan->entries.n - 1);
        plan->entries.n--;
    }
}

void plan_close(struct firn_plan *plan)
{
    for (size_t i = plan->entries.n; i > 0; i--)
        unmake(plan, i - 1);
    for (size_t i = 0; i < plan->entries.n; i++)
        plan->latest.at[plan->entries.at[i].job->slot] = (int)i + 1; /* (3) */
}

void plan_clear(struct firn_plan *plan)
{
    for (size_t i = 0; i < plan->entries.n; i++)
        plan->latest.at[plan->entries.at[i].job->slot] = 0;
    plan->entries.n = 0;
}

int firn_plan_free(const struct firn_plan *plan)
{
    return plan->map->free_gpus;
}

int firn_plan_free_of(const struct firn_plan *plan, firn_type_id type)
{
    return plan->map->types[type].free;
}

uint64_t firn_plan_free_on(const struct firn_plan *plan, firn_node_id node,
                           int board)
{
    const struct freemap *map = plan->map;
    return map->cluster->nodes[node].is_up
               ? map->free[map->first_board[node] + board]
               : 0;
}
