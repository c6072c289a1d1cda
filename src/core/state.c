/* state.c - jobs come, hold GPUs, report, and go.
 *
 * Invariants:
 * (1) a job is RUNNING exactly when held.nparts > 0, and then its GPUs are
 *     taken in `map`, and noted in `holders` if it shares them; nothing else is
 *     taken there between rounds;
 * (2) served_gpu_s and held_s are exact up to since_s, and grow linearly from
 *     there while the job runs;
 * (3) when the policy ranks, each living job that is not gated is in the ladder
 *     on the side its state says, under the key the policy gave last;
 * (4) ids only grow, so the list is by id with appends alone;
 * (5) a job whose GPUs are of one type for life accepts that type alone from
 *     the moment it first holds some;
 * (6) a job whose trainer cannot resize is a gang of the GPUs it asked for;
 * (7) a gated job waits, and is neither in the ladder nor in a view;
 * (8) accounts are charged exactly for the GPUs that jobs hold in the map.
 */
#include "core/state.h"
#include "core/accept.h"
#include <math.h>
#include <string.h>

void state_init(struct state *state, const struct firn_cluster *cluster,
                const struct firn_policy_def *policy, void *policy_state)
{
    *state = (struct state){
        .cluster = *cluster, .policy = policy, .policy_state = policy_state};
    size_t n = (size_t)cluster->nnodes;
    state->cluster.nodes = mem_new(n, sizeof *cluster->nodes);
    memcpy(state->cluster.nodes, cluster->nodes, n * sizeof *cluster->nodes);
    freemap_init(&state->map, &state->cluster);
    state->holders.map = &state->map;
    ladder_init(&state->ladder, policy);
}

void state_release(struct state *state)
{
    while (state->first != NULL)
        state_end(state, &state->first->job, state->first->job.since_s);
    for (size_t i = 0; i < state->by_slot.n; i++) {
        mem_free(state->by_slot.at[i]->job.held.parts);
        mem_free(state->by_slot.at[i]->name);
        mem_free(state->by_slot.at[i]->barred);
        mem_free(state->by_slot.at[i]);
    }
    vec_release(&state->by_slot);
    vec_release(&state->free_slots);
    vec_release(&state->by_id);
    holders_release(&state->holders);
    freemap_release(&state->map);
    ladder_release(&state->ladder);
    heap_release(&state->rank_ends);
    vec_release(&state->line);
    vec_release(&state->gatings);
    map_release(&state->names);
    mem_free(state->cluster.nodes);
}

/* Asks the policy for the job's rank and files the job under it. */
static void rank_in(struct state *state, struct firn_job *job, double now_s)
{
    if (state->policy->rank == NULL || state_record(job)->gated != GATE_OPEN)
        return;
    struct firn_rank rank =
        state->policy->rank(state->policy_state, job, now_s);
    if (isnan(rank.key))
        FIRN_BUG("policy %s ranks a job with NaN", state->policy->name);
    bool runs = job->state == FIRN_JOB_RUNNING;
    ladder_add(&state->ladder, job, rank.key, now_s, runs);
    if (isfinite(rank.until_s))
        heap_set(&state->rank_ends, job->slot, rank.until_s, (uint64_t)job->id);
}

static void rank_out(struct state *state, struct firn_job *job)
{
    if (state->policy->rank == NULL || state_record(job)->gated != GATE_OPEN)
        return;
    ladder_remove(&state->ladder, job);
    heap_remove(&state->rank_ends, job->slot);
}

static struct state_job *new_job(struct state *state)
{
    if (state->free_slots.n > 0)
        return state->by_slot.at[state->free_slots.at[--state->free_slots.n]];
    struct state_job *sj = mem_new(1, sizeof *sj);
    sj->job.slot = (int)state->by_slot.n;
    vec_add(&state->by_slot, sj);
    return sj;
}

static const char *intern(struct state *state, const char *text)
{
    return *text ? map_name(&state->names, map_add(&state->names, text)) : "";
}

/* The name, and behind it the key: texts that no other job has. */
static void copy_texts(struct state_job *sj, const struct firn_job_spec *spec)
{
    const char *key = spec->merge_key != NULL ? spec->merge_key : "";
    size_t n = strlen(spec->name) + 1, nkey = key[0] ? strlen(key) + 1 : 0;
    if (n + nkey > sj->name_cap) {
        sj->name = mem_grow(sj->name, 0, 2 * (n + nkey), 1);
        sj->name_cap = 2 * (n + nkey);
    }
    sj->job.spec.name = memcpy(sj->name, spec->name, n);
    sj->job.spec.merge_key = nkey > 0 ? memcpy(sj->name + n, key, nkey) : "";
}

/* A fresh job in a slot whose memory may be used again. */
static void fill_job(struct state *state, struct state_job *sj, firn_job_id id,
                     const struct firn_job_spec *spec, double now_s)
{
    struct firn_job *job = &sj->job;
    struct firn_alloc held = FIRN_ALLOC_NONE;
    held.parts = job->held.parts;
    *job = (struct firn_job){.id = id, .slot = job->slot, .spec = *spec};
    job->held = held;
    copy_texts(sj, spec);
    job->spec.app = intern(state, spec->app);
    job->spec.group = intern(state, spec->group);
    job->spec.types = intern(state, spec->types);
    job->spec.config = intern(state, spec->config != NULL ? spec->config : "");
    job->spec.user = intern(state, spec->user != NULL ? spec->user : "");
    job->spec.project =
        intern(state, spec->project != NULL ? spec->project : "");
    sj->gated = sj->noted = GATE_OPEN;
    sj->member =
        state->accounts != NULL ? accounts_of(state->accounts, spec) : -1;
    job->since_s = now_s;
    job->first_start_s = NAN;
    job->resumes_s = now_s;
}

/* It does not take just any GPUs; a job of one type never does, so that (5)
 * changes nothing here. */
static bool is_choosy(const struct state *state, const struct firn_job *job)
{
    uint32_t all = (uint32_t)(((uint64_t)1 << state->cluster.ntypes) - 1);
    bool keeps_one = job->spec.one_type && state->cluster.ntypes > 1;
    return keeps_one || (job->type_mask & all) != all || job->barred != NULL;
}

enum firn_status state_submit(struct state *state, firn_job_id id,
                              const struct firn_job_spec *spec, double now_s,
                              struct firn_error *err)
{
    struct job_accept accept = {.resizes =
                                    state->policy->does & FIRN_DOES_RESIZE};
    char why[JOB_WHY_MAX];
    struct firn_job_spec as = *spec;
    if ((as.cannot & FIRN_CAN_RESIZE) && as.gpus > 0) /* (6) */
        as.gpus_min = as.gpus_max = as.gpus;
    if (!job_accept(&as, &state->cluster, &accept, why))
        return firn_fail(err, FIRN_EINVAL, "job '%.80s' %s", spec->name, why);
    if (id < 0 || (size_t)id < state->by_id.n)
        return firn_fail(err, FIRN_EINVAL, "job '%.80s': id %d is not new",
                         spec->name, id);
    struct state_job *sj = new_job(state);
    fill_job(state, sj, id, &as, now_s);
    sj->job.type_mask = accept.types;
    vec_reserve(&state->by_id, (size_t)id + 1);
    state->by_id.n = (size_t)id + 1;
    state->by_id.at[id] = sj;
    sj->before = state->last;
    sj->after = NULL;
    *(state->last ? &state->last->after : &state->first) = sj;
    state->last = sj;
    state->nwaiting++;
    state->nchoosy += is_choosy(state, &sj->job);
    state->ndeadlines += sj->job.spec.deadline_s > 0;
    state->none_node += sj->job.spec.one_node;
    rank_in(state, &sj->job, now_s);
    return FIRN_OK;
}

const struct firn_job *state_sharer(const struct state *state,
                                    const struct firn_alloc *gpus,
                                    firn_job_id after)
{
    return holders_next(&state->holders, gpus, after);
}

void state_bar(struct state *state, struct firn_job *job, const uint64_t *nodes)
{
    struct state_job *sj = state->by_slot.at[job->slot];
    size_t words = ((size_t)state->cluster.nnodes + 63) / 64;
    state->nchoosy -= is_choosy(state, job);
    if (nodes != NULL && sj->barred == NULL)
        sj->barred = mem_new(words, sizeof *sj->barred);
    if (nodes != NULL)
        memcpy(sj->barred, nodes, words * sizeof *sj->barred);
    job->barred = nodes != NULL ? sj->barred : NULL;
    state->nchoosy += is_choosy(state, job);
}

struct firn_job *state_job(const struct state *state, firn_job_id id)
{
    if (id < 0 || (size_t)id >= state->by_id.n)
        return NULL;
    return state->by_id.at[id] ? &state->by_id.at[id]->job : NULL;
}

/* Brings the counters of a running job up to now: (2). */
static void settle(struct firn_job *job, double now_s)
{
    if (job->state == FIRN_JOB_RUNNING) {
        job->done_s = firn_job_done_s(job, now_s);
        job->resumes_s = job->resumes_s > now_s ? job->resumes_s : now_s;
        job->held_s += now_s - job->since_s;
        job->served_gpu_s += job->held.ngpus * (now_s - job->since_s);
    }
    job->since_s = now_s;
}

/* Charges its accounts from now on for what it holds, or (-1) no longer. */
static void charge(struct state *state, const struct firn_job *job, int sign,
                   double now_s)
{
    int member = state_record(job)->member;
    if (state->accounts != NULL && member >= 0)
        accounts_hold(state->accounts, member,
                      sign * accounts_weight(&job->held), now_s);
}

static void let_go(struct state *state, struct firn_job *job, double now_s)
{
    settle(job, now_s);
    charge(state, job, -1, now_s);
    freemap_give(&state->map, &job->held);
    holders_remove(&state->holders, job);
    job->held.nparts = 0;
    job->held.ngpus = 0;
    job->rate = 0;
    job->state = FIRN_JOB_WAITING;
    state->nrunning--;
    state->nwaiting++;
}

void state_drop(struct state *state, struct firn_job *job, double now_s)
{
    if (job->state != FIRN_JOB_RUNNING)
        FIRN_BUG("job %d is stopped but does not run", job->id);
    rank_out(state, job);
    let_go(state, job, now_s);
    rank_in(state, job, now_s);
}

static void copy_alloc(struct state_job *sj, const struct firn_alloc *alloc)
{
    struct firn_alloc *held = &sj->job.held;
    if (alloc->nparts > sj->parts_cap) {
        held->parts = mem_grow(held->parts, 0, (size_t)alloc->nparts,
                               sizeof *held->parts);
        sj->parts_cap = alloc->nparts;
    }
    memcpy(held->parts, alloc->parts,
           (size_t)alloc->nparts * sizeof *held->parts);
    held->nparts = alloc->nparts;
    held->ngpus = alloc->ngpus;
    held->is_shared = alloc->is_shared;
    held->tunes = alloc->tunes;
    held->how = alloc->how;
}

void state_hold(struct state *state, struct firn_job *job,
                const struct firn_alloc *alloc, double now_s)
{
    if (job->state != FIRN_JOB_WAITING || alloc->nparts == 0 ||
        state_record(job)->gated != GATE_OPEN)
        FIRN_BUG("job %d cannot be given GPUs", job->id);
    rank_out(state, job);
    settle(job, now_s);
    copy_alloc(state->by_slot.at[job->slot], alloc);
    freemap_take(&state->map, &job->held);
    holders_add(&state->holders, job);
    charge(state, job, 1, now_s);
    if (job->spec.one_type) /* (5) */
        job->type_mask = (uint32_t)1
                         << state->cluster.nodes[alloc->parts[0].node].type;
    job->state = FIRN_JOB_RUNNING;
    if (job->resumes_s < now_s) /* the time that it waited is no progress */
        job->resumes_s = now_s;
    if (job->starts++ == 0)
        job->first_start_s = now_s;
    if (alloc->ngpus > job->gpus_most)
        job->gpus_most = alloc->ngpus;
    job->note[0] = '\0';
    state->nwaiting--;
    state->nrunning++;
    rank_in(state, job, now_s);
}

void state_restore(struct state *state, struct firn_job *job,
                   const struct state_past *past, const struct firn_alloc *held,
                   double now_s)
{
    if (held->nparts > 0)
        state_hold(state, job, held, now_s);
    rank_out(state, job);
    job->since_s = past->since_s;
    job->first_start_s = past->starts > 0 ? past->first_start_s : (double)NAN;
    job->held_s = past->held_s;
    job->served_gpu_s = past->served_gpu_s;
    job->starts = past->starts;
    job->gpus_most = past->gpus_most;
    job->done_s = past->report.done_s;
    job->rate = past->report.rate;
    job->resumes_s = past->report.resumes_s;
    rank_in(state, job, now_s);
}

void state_report(struct state *state, struct firn_job *job,
                  const struct firn_report *report, double now_s)
{
    bool is_ranked =
        state->policy->rank != NULL &&
        (job->state != FIRN_JOB_RUNNING || state->ladder.has_contest);
    if (is_ranked)
        rank_out(state, job);
    job->done_s = report->done_s;
    job->rate = report->rate;
    job->resumes_s = report->resumes_s;
    if (is_ranked)
        rank_in(state, job, now_s);
}

void state_correct(struct state *state, struct firn_job *job, double duration_s,
                   double now_s)
{
    bool is_ranked =
        state->policy->rank != NULL &&
        (job->state != FIRN_JOB_RUNNING || state->ladder.has_contest);
    if (is_ranked)
        rank_out(state, job);
    job->spec.duration_s = duration_s > job->done_s ? duration_s : job->done_s;
    if (is_ranked)
        rank_in(state, job, now_s);
}

void state_believe(struct state *state, struct firn_job *job, double belief,
                   double now_s)
{
    if (state->policy->rank != NULL)
        rank_out(state, job);
    job->belief = belief;
    if (state->policy->rank != NULL)
        rank_in(state, job, now_s);
}

void state_end(struct state *state, struct firn_job *job, double now_s)
{
    struct state_job *sj = state->by_slot.at[job->slot];
    rank_out(state, job);
    if (job->state == FIRN_JOB_RUNNING)
        let_go(state, job, now_s);
    state->nwaiting--;
    state->ngated -= sj->gated != GATE_OPEN;
    state->ndeadlines -= job->spec.deadline_s > 0;
    state->none_node -= job->spec.one_node;
    state->nchoosy -= is_choosy(state, job);
    job->state = FIRN_JOB_ENDED;
    *(sj->before ? &sj->before->after : &state->first) = sj->after;
    *(sj->after ? &sj->after->before : &state->last) = sj->before;
    state->by_id.at[job->id] = NULL;
    vec_add(&state->free_slots, job->slot);
}

void state_node(struct state *state, firn_node_id node, bool is_up)
{
    if (state->cluster.nodes[node].is_up == is_up)
        return;
    state->cluster.nodes[node].is_up = is_up;
    freemap_node_changed(&state->map, node);
}

void state_gate(struct state *state, struct firn_job *job, enum gate_why why,
                double now_s)
{
    struct state_job *sj = state_record(job);
    bool was_open = sj->gated == GATE_OPEN, is_open = why == GATE_OPEN;
    if (job->state != FIRN_JOB_WAITING)
        FIRN_BUG("job %d is kept from the policy but does not wait", job->id);
    if (was_open && !is_open) {
        rank_out(state, job);
        state->ngated++;
    }
    if (sj->gated != why)
        vec_add(&state->gatings, job->id);
    sj->gated = why;
    if (!was_open && is_open) {
        rank_in(state, job, now_s);
        state->ngated--;
    }
}

double state_rank_end_s(const struct state *state)
{
    const struct heap_item *top = heap_top(&state->rank_ends);
    return top ? top->key : INFINITY;
}

bool state_rank_expired(struct state *state, double now_s)
{
    bool any = false;
    const struct heap_item *top;
    while ((top = heap_top(&state->rank_ends)) != NULL && top->key <= now_s) {
        struct firn_job *job = &state->by_slot.at[top->item]->job;
        rank_out(state, job);
        rank_in(state, job, now_s);
        top = heap_top(&state->rank_ends);
        if (top != NULL && top->item == job->slot && top->key <= now_s)
            FIRN_BUG("policy %s gives a rank that has ended already",
                     state->policy->name);
        any = true;
    }
    return any;
}
