/* round.c - events in, steps out; the loop body that simulator and daemon
 * share.
 *
 * Invariants:
 * (1) a refused plan changes nothing: check comes before the first step;
 * (2) GPUs are let go before any are taken, so applying never holds one
 *     twice, however jobs trade places;
 * (3) the engine hears of a step before state changes, so `step->job` is the
 *     job as it was;
 * (4) the gate (core/gate.h) comes before the policy: a job that loses its GPUs
 *     to shares or quotas has lost them before the policy's view is made;
 * (5) a job that core moves (core/consolidate.h) keeps its number and type of
 *     GPUs, and the policy decides again behind the move;
 * (6) no report asks for a decision but that of a last step on shared GPUs: a
 *     job that waits may start beside the end of that one.
 *
 * Cost: what the policy does, plus O(changes).
 */
#include "core/round.h"
#include "core/check.h"
#include "core/consolidate.h"
#include "core/diff.h"
#include "core/gate.h"
#include "core/spare.h"
#include "core/takers.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct round {
    struct round_config config;
    void *policy_state;
    struct state state;
    struct firn_plan plan;
    struct arena scratch;
    struct gate gate;
    bool is_due;
    double policy_wake_s;
    long rounds, steps;
};

/* "fifo.skip=1" for policy fifo: sets it. Those of others: passed over. */
static enum firn_status apply_setting(const struct firn_policy_def *policy,
                                      void *policy_state, const char *setting,
                                      struct firn_error *err)
{
    size_t n = strlen(policy->name);
    if (strncmp(setting, policy->name, n) != 0 || setting[n] != '.')
        return FIRN_OK;
    const char *name = setting + n + 1, *equals = strchr(name, '=');
    char option[FIRN_NAME_MAX];
    if (equals == NULL || equals == name ||
        (size_t)(equals - name) >= sizeof option)
        return firn_fail(err, FIRN_EINVAL,
                         "setting '%.80s' is not policy.option=value", setting);
    snprintf(option, sizeof option, "%.*s", (int)(equals - name), name);
    return firn_option_set(policy->options, policy_state, policy->name, option,
                           equals + 1, err);
}

/* Does the engine know what the policy has to know? */
static enum firn_status check_needs(const struct firn_policy_def *policy,
                                    const struct firn_engine_def *engine,
                                    struct firn_error *err)
{
    static const struct {
        unsigned need;
        const char *words;
    } facts[] = {{FIRN_NEED_DURATION, "run times of jobs"},
                 {FIRN_NEED_TYPES, "speeds of GPU types"},
                 {FIRN_NEED_FORECAST, "speeds of jobs on other GPUs"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (policy->needs & ~engine->gives & facts[i].need)
            return firn_fail(err, FIRN_EINVAL,
                             "policy %s needs the %s, which engine %s does "
                             "not know",
                             policy->name, facts[i].words, engine->name);
    return FIRN_OK;
}

static enum firn_status start_policy(struct round *round,
                                     struct firn_error *err)
{
    const struct firn_policy_def *policy = round->config.policy;
    FIRN_TRY(check_needs(policy, round->config.engine, err));
    firn_options_default(policy->options, round->policy_state);
    for (size_t i = 0; i < round->config.nsettings; i++)
        FIRN_TRY(apply_setting(policy, round->policy_state,
                               round->config.settings[i], err));
    return policy->init ? policy->init(round->policy_state, err) : FIRN_OK;
}

enum firn_status round_new(struct round **out,
                           const struct round_config *config,
                           struct firn_error *err)
{
    struct round *round = mem_new(1, sizeof *round);
    round->config = *config;
    round->policy_state = mem_new(1, config->policy->state_size);
    round->policy_wake_s = round->gate.wake_s = INFINITY;
    enum firn_status status = start_policy(round, err);
    if (status != FIRN_OK) {
        mem_free(round->policy_state);
        mem_free(round);
        return status;
    }
    state_init(&round->state, config->cluster, config->policy,
               round->policy_state);
    round->state.accounts = config->accounts;
    plan_init(&round->plan, &round->state, config->place);
    *out = round;
    return FIRN_OK;
}

void round_free(struct round *round)
{
    if (round == NULL)
        return;
    if (round->config.policy->fini)
        round->config.policy->fini(round->policy_state);
    plan_release(&round->plan);
    state_release(&round->state);
    arena_release(&round->scratch);
    mem_free(round->policy_state);
    mem_free(round);
}

static void tell_changed(struct round *round, double now_s)
{
    const struct round_watch *watch = &round->config.watch;
    if (watch->changed)
        watch->changed(watch->arg, &round->state, now_s);
}

static void end_job(struct round *round, struct firn_job *job, const char *how,
                    double now_s, double finished_s)
{
    const struct round_watch *watch = &round->config.watch;
    if (watch->end)
        watch->end(watch->arg, job, how, now_s, finished_s);
    state_end(&round->state, job, now_s);
}

/* Tells engine and watcher of a step, before it happens: (3). */
static enum firn_status announce(struct round *round,
                                 const struct firn_step *step,
                                 struct firn_error *err)
{
    const struct round_watch *watch = &round->config.watch;
    FIRN_TRY(
        round->config.engine->apply(round->config.engine_state, step, err));
    if (watch->step)
        watch->step(watch->arg, step);
    round->steps++;
    return FIRN_OK;
}

static enum firn_status settled(struct round *round, struct firn_error *err)
{
    const struct firn_engine_def *engine = round->config.engine;
    return engine->settled ? engine->settled(round->config.engine_state, err)
                           : FIRN_OK;
}

/* A node is lost: its jobs stop and wait again. */
static enum firn_status node_down(struct round *round,
                                  const struct firn_event *event,
                                  struct firn_error *err)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    for (struct state_job *sj = round->state.first; sj; sj = sj->after) {
        bool is_hit = false;
        for (int i = 0; i < sj->job.held.nparts && !is_hit; i++)
            is_hit = sj->job.held.parts[i].node == event->node;
        if (!is_hit)
            continue;
        struct firn_step step = {.kind = FIRN_STEP_STOP,
                                 .job = &sj->job,
                                 .to = &nothing,
                                 .at_s = event->at_s,
                                 .is_loss = true,
                                 .cause = FIRN_CAUSE_NODE,
                                 .for_job = FIRN_NO_JOB};
        FIRN_TRY(announce(round, &step, err));
        state_drop(&round->state, &sj->job, event->at_s);
    }
    return FIRN_OK;
}

static enum firn_status node_event(struct round *round,
                                   const struct firn_event *event,
                                   struct firn_error *err)
{
    firn_node_id node = event->node;
    bool is_up = event->kind == FIRN_EVENT_NODE_UP;
    if (node < 0 || node >= round->state.cluster.nnodes)
        return firn_fail(err, FIRN_EINVAL, "there is no node %d", node);
    if (round->state.cluster.nodes[node].is_up == is_up)
        return FIRN_OK;
    if (!is_up)
        FIRN_TRY(node_down(round, event, err));
    state_node(&round->state, node, is_up);
    plan_node(&round->plan, node);
    return FIRN_OK;
}

static enum firn_status job_event(struct round *round,
                                  const struct firn_event *event,
                                  struct firn_error *err)
{
    struct firn_job *job = state_job(&round->state, event->job);
    if (job == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "event for job %d, which is not there", event->job);
    if (event->kind == FIRN_EVENT_REPORT) {
        bool had_work = job->done_s < job->spec.duration_s;
        state_report(&round->state, job, &event->report, event->at_s);
        if (had_work && !(job->done_s < job->spec.duration_s) &&
            job->held.is_shared && round->state.nwaiting > 0)
            round->is_due = true; /* (6) */
        return FIRN_OK;
    }
    bool is_done = event->kind == FIRN_EVENT_DONE;
    end_job(round, job, is_done ? "done" : "fail", event->at_s,
            event->finished_s > 0 ? event->finished_s : event->at_s);
    return FIRN_OK;
}

enum firn_status round_event(struct round *round,
                             const struct firn_event *event,
                             struct firn_error *err)
{
    const struct firn_policy_def *policy = round->config.policy;
    switch (event->kind) {
    case FIRN_EVENT_SUBMIT:
        FIRN_TRY(state_submit(&round->state, event->job, event->spec,
                              event->at_s, err));
        if (event->belief > 0)
            state_believe(&round->state, state_job(&round->state, event->job),
                          event->belief, event->at_s);
        break;
    case FIRN_EVENT_DONE:
    case FIRN_EVENT_FAIL:
    case FIRN_EVENT_REPORT:
        FIRN_TRY(job_event(round, event, err));
        break;
    case FIRN_EVENT_NODE_UP:
    case FIRN_EVENT_NODE_DOWN:
        FIRN_TRY(node_event(round, event, err));
        break;
    case FIRN_EVENT_TIMER:
        break;
    case FIRN_EVENT_PHASE:
    case FIRN_EVENT_LEFT:
    case FIRN_EVENT_TAKEN:
    case FIRN_EVENT_INBOX:
    case FIRN_EVENT_BARS:
    case FIRN_EVENT_RESIZED:
    case FIRN_EVENT_TIMES:
    case FIRN_EVENT_PREPARED:
        return firn_fail(err, FIRN_EINVAL,
                         "a live engine's event of job %d is not for the round",
                         event->job);
    }
    if (policy->observe)
        policy->observe(round->policy_state, event);
    if (event->kind == FIRN_EVENT_REPORT)
        return FIRN_OK;
    round->is_due = true;
    tell_changed(round, event->at_s);
    /* A job that comes waits: there was no step. */
    return event->kind == FIRN_EVENT_SUBMIT ? FIRN_OK : settled(round, err);
}

/* ---- what was there before ---- */

enum firn_status round_restore(struct round *round, const struct round_job *job,
                               double now_s, struct firn_error *err)
{
    struct state *state = &round->state;
    if (!freemap_can_take(&state->map, job->held))
        return firn_fail(err, FIRN_EINVAL,
                         "job '%.80s' held GPUs that are not free",
                         job->spec->name);
    FIRN_TRY(state_submit(state, job->id, job->spec, now_s, err));
    state_restore(state, state_job(state, job->id), &job->past, job->held,
                  now_s);
    round->is_due = true;
    tell_changed(round, now_s);
    return FIRN_OK;
}

void round_withdraw(struct round *round, firn_job_id id, double now_s)
{
    struct firn_job *job = state_job(&round->state, id);
    if (job == NULL)
        FIRN_BUG("job %d is withdrawn and not there", id);
    state_end(&round->state, job, now_s);
    round->is_due = true;
    tell_changed(round, now_s);
}

void round_merged(struct round *round, firn_job_id id, firn_job_id with)
{
    struct firn_job *job = state_job(&round->state, id);
    if (job == NULL || job->held.nparts == 0)
        FIRN_BUG("job %d is merged and holds nothing", id);
    job->held.how.merged_with = with;
}

void round_starts(struct round *round, firn_job_id id, double resumes_s,
                  double now_s)
{
    struct firn_job *job = state_job(&round->state, id);
    if (job == NULL || job->held.nparts == 0)
        FIRN_BUG("job %d holds no GPUs to start on", id);
    struct firn_report as = {job->done_s, job->rate, resumes_s};
    state_report(&round->state, job, &as, now_s);
}

void round_correct(struct round *round, firn_job_id id, double duration_s,
                   double now_s)
{
    struct firn_job *job = state_job(&round->state, id);
    if (job == NULL || !(duration_s > 0))
        FIRN_BUG("job %d cannot have a duration of %g s", id, duration_s);
    state_correct(&round->state, job, duration_s, now_s);
    round->is_due = true;
}

void round_bar(struct round *round, firn_job_id id, const uint64_t *nodes)
{
    struct firn_job *job = state_job(&round->state, id);
    size_t words = ((size_t)round->state.cluster.nnodes + 63) / 64;
    if (job == NULL)
        FIRN_BUG("nodes are barred to job %d, which is not there", id);
    bool is_same = nodes == NULL || job->barred == NULL
                       ? nodes == job->barred
                       : memcmp(nodes, job->barred, words * sizeof *nodes) == 0;
    if (is_same)
        return;
    state_bar(&round->state, job, nodes);
    round->is_due = true;
}

bool round_block(struct round *round, const struct firn_alloc *alloc)
{
    if (alloc->is_shared || !freemap_can_take(&round->state.map, alloc))
        return false;
    freemap_block(&round->state.map, alloc);
    freemap_block(&round->plan.empty, alloc);
    round->is_due = true;
    return true;
}

void round_unblock(struct round *round, const struct firn_alloc *alloc)
{
    freemap_unblock(&round->state.map, alloc);
    freemap_unblock(&round->plan.empty, alloc);
    round->is_due = true;
}

void round_tick(struct round *round, double now_s)
{
    if (state_rank_expired(&round->state, now_s))
        round->is_due = true;
    if (round->policy_wake_s <= now_s) {
        round->policy_wake_s = INFINITY;
        round->is_due = true;
    }
    if (round->gate.wake_s <= now_s) {
        round->gate.wake_s = INFINITY;
        round->is_due = true;
    }
}

void round_ask(struct round *round)
{
    round->is_due = true;
}

bool round_is_due(const struct round *round)
{
    return round->is_due;
}

double round_wake_s(const struct round *round)
{
    double rank_s = state_rank_end_s(&round->state);
    double wake_s =
        rank_s < round->policy_wake_s ? rank_s : round->policy_wake_s;
    return wake_s < round->gate.wake_s ? wake_s : round->gate.wake_s;
}

static int ahead_of(const struct round *round)
{
    const struct firn_engine_def *engine = round->config.engine;
    return engine->ahead_s != NULL ? engine->ahead_s(round->config.engine_state)
                                   : 0;
}

struct firn_view round_view(struct round *round, double now_s)
{
    const struct state *state = &round->state;
    return (struct firn_view){.now_s = now_s,
                              .cluster = &state->cluster,
                              .njobs = state->nwaiting - state->ngated +
                                       state->nrunning,
                              .nwaiting = state->nwaiting - state->ngated,
                              .nrunning = state->nrunning,
                              .gpus_up = state->map.up_gpus,
                              .gpus_free = state->map.free_gpus,
                              .ahead_s = ahead_of(round),
                              .seed = round->config.seed,
                              .scratch = &round->scratch,
                              .state = state,
                              .forecast = round->config.engine->forecast,
                              .forecaster = round->config.forecaster != NULL
                                                ? round->config.forecaster
                                                : round->config.engine_state};
}

static void keep_notes(struct round *round, double now_s)
{
    const struct round_watch *watch = &round->config.watch;
    for (size_t i = 0; i < round->plan.notes.n; i++) {
        const struct plan_note *note = &round->plan.notes.at[i];
        struct firn_job *job = state_job(&round->state, note->job);
        if (job == NULL || strcmp(job->note, note->text) == 0)
            continue;
        memcpy(job->note, note->text, sizeof job->note);
        if (watch->note)
            watch->note(watch->arg, job, now_s);
    }
}

static enum firn_status apply(struct round *round, const struct diff *diff,
                              double now_s, struct firn_error *err)
{
    struct state *state = &round->state;
    if (round->config.names_takers)
        takers_find(diff, &round->scratch);
    for (size_t i = 0; i < diff->nsteps; i++)
        FIRN_TRY(announce(round, &diff->steps[i], err));
    for (size_t i = 0; i < diff->nsteps; i++) /* (2) */
        if (diff->steps[i].kind != FIRN_STEP_START)
            state_drop(state, state_job(state, diff->steps[i].job->id), now_s);
    for (size_t i = 0; i < diff->nsteps; i++)
        if (diff->steps[i].kind != FIRN_STEP_STOP)
            state_hold(state, state_job(state, diff->steps[i].job->id),
                       diff->steps[i].to, now_s);
    for (size_t i = 0; i < diff->nrejects; i++) {
        struct firn_job *job = state_job(state, diff->rejects[i]->job->id);
        snprintf(job->note, sizeof job->note, "%s", diff->rejects[i]->reason);
        end_job(round, job, "reject", now_s, now_s);
    }
    keep_notes(round, now_s);
    FIRN_TRY(settled(round, err));
    if (diff->nsteps + diff->nrejects > 0)
        tell_changed(round, now_s);
    return FIRN_OK;
}

/* A decision on its way. */
struct decision {
    struct round *round;
    struct firn_view view;
    struct diff diff;
    enum firn_status status;
    struct firn_error *err;
};

/* Asks the policy and checks its plan; changes nothing that a view shows. */
static void think(void *arg)
{
    struct decision *d = arg;
    struct round *round = d->round;
    const struct firn_policy_def *policy = round->config.policy;
    plan_open(&round->plan, &d->view);
    d->status = policy->decide(round->policy_state, &d->view, &round->plan);
    if (d->status == FIRN_OK && !round->config.is_literal)
        spare_stops(&round->plan);
    plan_close(&round->plan);
    if (d->status != FIRN_OK)
        firn_fail(d->err, d->status, "policy %s failed: %s", policy->name,
                  firn_status_text(d->status));
    if (d->status == FIRN_OK) {
        diff_plan(&round->plan, &d->diff);
        d->status = check_plan(&round->plan, &d->diff, d->err);
    }
    plan_clear(&round->plan);
}

/* Jobs that are kept back get the reason as their note, once. */
static int by_number(const void *a, const void *b)
{
    firn_job_id x = *(const firn_job_id *)a, y = *(const firn_job_id *)b;
    return (x > y) - (x < y);
}

static void note_gated(struct round *round, double now_s)
{
    const struct round_watch *watch = &round->config.watch;
    struct state *state = &round->state;
    if (state->gatings.n > 1)
        qsort(state->gatings.at, state->gatings.n, sizeof *state->gatings.at,
              by_number);
    for (size_t i = 0; i < state->gatings.n; i++) {
        const struct firn_job *job = state_job(state, state->gatings.at[i]);
        struct state_job *sj = job != NULL ? state_record(job) : NULL;
        if (sj == NULL || sj->gated == sj->noted)
            continue;
        sj->noted = sj->gated;
        char text[256];
        gate_text(&round->state, &sj->job, now_s, text, sizeof text);
        snprintf(sj->job.note, sizeof sj->job.note, "%.63s", text);
        if (watch->note)
            watch->note(watch->arg, &sj->job, now_s);
    }
    state->gatings.n = 0;
}

/* Shares, quotas and deadlines: (4). */
static enum firn_status divide(struct round *round, double now_s,
                               struct firn_error *err)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    struct state *state = &round->state;
    struct gate_stop *stops = NULL;
    size_t n = gate_divide(&round->gate, state, now_s, &round->scratch, &stops);
    for (size_t i = 0; i < n; i++) {
        struct firn_step step = {.kind = FIRN_STEP_STOP,
                                 .job = stops[i].job,
                                 .to = &nothing,
                                 .at_s = now_s,
                                 .cause = stops[i].cause,
                                 .for_job = stops[i].for_job};
        FIRN_TRY(announce(round, &step, err));
        state_drop(state, stops[i].job, now_s);
        state_gate(state, stops[i].job, stops[i].why, now_s);
    }
    if (n > 0)
        tell_changed(round, now_s);
    note_gated(round, now_s);
    return FIRN_OK;
}

/* Moves a job out of the way of one that needs a node, if that pays: (5). */
static enum firn_status consolidate(struct round *round, double now_s,
                                    bool *is_moved, struct firn_error *err)
{
    struct consolidation move;
    place_rule *place = round->plan.place;
    *is_moved =
        !round->config.is_literal &&
        consolidate_find(&round->state, place, now_s, &round->scratch, &move);
    if (!*is_moved)
        return FIRN_OK;
    struct firn_step step = {.kind = FIRN_STEP_MOVE,
                             .job = move.job,
                             .to = &move.to,
                             .at_s = now_s,
                             .cause = FIRN_CAUSE_ROOM,
                             .for_job = FIRN_NO_JOB};
    FIRN_TRY(announce(round, &step, err));
    state_drop(&round->state, move.job, now_s);
    state_hold(&round->state, move.job, &move.to, now_s);
    tell_changed(round, now_s);
    return FIRN_OK;
}

static enum firn_status decide_once(struct round *round, double now_s,
                                    struct firn_error *err)
{
    const struct round_watch *watch = &round->config.watch;
    struct decision d = {
        .round = round, .view = round_view(round, now_s), .err = err};
    if (watch->run)
        watch->run(watch->arg, think, &d);
    else
        think(&d);
    FIRN_TRY(d.status); /* (1) */
    return apply(round, &d.diff, now_s, err);
}

enum firn_status round_decide(struct round *round, double now_s,
                              struct firn_error *err)
{
    const struct firn_policy_def *policy = round->config.policy;
    bool is_gated = gate_is_used(&round->state) || round->state.ngated > 0;
    arena_reset(&round->scratch);
    round->is_due = false;
    round->rounds++;
    round->gate = (struct gate){.wake_s = INFINITY};
    if (is_gated)
        FIRN_TRY(divide(round, now_s, err));
    FIRN_TRY(decide_once(round, now_s, err));
    if (is_gated && gate_has_room(&round->gate, &round->state)) {
        FIRN_TRY(divide(round, now_s, err));
        FIRN_TRY(decide_once(round, now_s, err));
    }
    bool is_moved = false;
    FIRN_TRY(consolidate(round, now_s, &is_moved, err));
    if (is_moved)
        FIRN_TRY(decide_once(round, now_s, err));
    if (is_gated)
        round->gate.wake_s = gate_next_s(&round->state, now_s);
    if (policy->wake_s) {
        struct firn_view view = round_view(round, now_s);
        double wake_s = policy->wake_s(round->policy_state, &view);
        round->policy_wake_s = wake_s > now_s ? wake_s : INFINITY;
    }
    return FIRN_OK;
}

void round_save(const struct round *round, struct firn_buf *out)
{
    if (round->config.policy->save != NULL)
        round->config.policy->save(round->policy_state, out);
}

enum firn_status round_load(struct round *round, struct firn_bytes in,
                            struct firn_error *err)
{
    const struct firn_policy_def *policy = round->config.policy;
    return policy->load != NULL ? policy->load(round->policy_state, in, err)
                                : FIRN_OK;
}

const struct state *round_state(const struct round *round)
{
    return &round->state;
}

long round_count(const struct round *round)
{
    return round->rounds;
}

long round_steps(const struct round *round)
{
    return round->steps;
}
