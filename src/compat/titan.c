/* titan.c - TitanSched, the simulator behind Titan and Ymir.
 *
 * Fine-tuning jobs on nodes of four V100, under srtf, tiresias, optimus and
 * themis. Written from what that simulator does, not from the papers; it gives
 * the authors' own results for these four on every workload they published,
 * and comes near them for their own policy, here called ymir (titanmerge.c).
 * The quirks, by name:
 *
 *   rounds         only every 300 s (themis: 60 s) running jobs advance,
 *                  finished ones leave, new ones arrive and the policy
 *                  decides; a GPU that is freed idles until then
 *   charged-time   a round's progress is exact, but its time is rounded to
 *                  whole seconds, half to even; a job completes at its
 *                  submission plus what it waited and was charged
 *   near-enough    a tenth of a sample short of the end is done
 *   every-start    each start and resize, the first too, costs the time to
 *                  load the application plus a checkpoint (--restart-cost)
 *   restart-served that cost counts as GPU service, but not as run time
 *   one-pass-more  predictions count one accumulation pass that is not made,
 *                  so they are up to twice the truth; in whole seconds
 *   last-bit       targets are read with an error in the last bit; one that is
 *                  read too high is never met, and its job trains 10 epochs
 *   tetrahedra     beyond four nodes step times come from a Delaunay mesh over
 *                  a lattice, whose cells it cuts arbitrarily
 *   consolidate    starts are placed by size, largest first, and put off when
 *                  they would touch more nodes than they need
 *   list-order     jobs with equal keys come in the order in which they joined
 *                  the artifact's lists, not by id
 *   no-preemption  srtf orders the waiting jobs and leaves the others alone
 *   wrong-job      optimus asks the LAST job of its list for the gain and the
 *                  limit of whichever job got a GPU
 *   twice-running  themis divides the GPUs by twice the running jobs
 *   filtered-run   themis lets only the worst 0.8 compete; a running job that
 *                  is cut keeps its GPUs although they were counted as free,
 *                  so that a winner may find no room
 *
 *   free-rider     of two jobs that ymir merges only one is trained, and both
 *                  are done when it is
 *
 * Their places: engine and placement here, policies in titanpolicy.c and
 * titanmerge.c, step times and predictions in titanspeed.c, targets in
 * titanwork.c.
 *
 * Left out: the artifact's pollux, random failures and estimation errors, A100
 * nodes.
 *
 * Invariants:
 * (1) deciding changes nothing but scratch: settled() keeps it;
 * (2) `waiting` and `running` are the artifact's lists, in its order;
 * (3) round_s is the boundary to which all running tasks have come;
 * (4) given = useful + overhead, summed round by round.
 */
#include "compat/titan.h"
#include "base/str.h"
#include "compat/refuse.h"
#include "core/accept.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 16 };

static const char artifact[] = "the imitated part of TitanSched";

/* ---- arrivals and rounds ---- */

/* Takes an id out of a list, in order. */
static void leave(int *ids, size_t *n, int id)
{
    size_t to = 0;
    for (size_t i = 0; i < *n; i++)
        if (ids[i] != id)
            ids[to++] = ids[i];
    *n = to;
}

static void close_titan(void *state)
{
    struct titan *t = state;
    firn_trace_close(t->world.trace);
    titanspeed_release(&t->speed);
    titanwork_release(&t->work);
    vec_release(&t->tasks);
    vec_release(&t->waiting);
    vec_release(&t->running);
    vec_release(&t->events);
    vec_release(&t->line);
}

/* Makes a task of the arrival that was read, and completes its spec. */
static enum firn_status make_task(struct titan *t, struct firn_error *err)
{
    struct firn_job_spec *spec = &t->spec;
    struct titan_task task = {.gpus = spec->gpus,
                              .submit_s = spec->submit_s,
                              .since_s = spec->submit_s};
    FIRN_TRY(titanspeed_kind(&t->speed, t->world.options->profiles, spec->app,
                             spec->batch, &task.kind, err));
    const struct titanspeed_pace *alone =
        &t->speed.kinds.at[task.kind].packed[spec->gpus];
    task.work = titanwork_samples(&t->work, spec->line);
    if (!(task.work > 0))
        return firn_fail(err, FIRN_EDATA, "line %ld: job '%.40s' has no work",
                         spec->line, spec->name);
    task.duration_s = task.work / alone->samples * alone->iter_s;
    vec_add(&t->tasks, task);
    spec->duration_s = task.duration_s;
    spec->is_nominal = false;
    bool is_elastic = t->world.policy->quirks & TITAN_ELASTIC;
    spec->gpus_min = is_elastic ? 1 : spec->gpus;
    spec->gpus_max = is_elastic ? TITAN_GPUS_MAX : spec->gpus;
    return FIRN_OK;
}

/* Reads up to the next arrival that can run; false when the trace is over or
 * cannot be read (err). */
static bool fetch(struct titan *t, struct firn_error *err)
{
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    while (firn_trace_next(t->world.trace, &t->spec, err)) {
        bool fits =
            job_accept(&t->spec, t->world.options->cluster, &accept, why);
        if (fits && t->spec.gpus > TITAN_GPUS_MAX) {
            fits = false;
            snprintf(why, sizeof why,
                     "wants %d GPUs, TitanSched's jobs have at most %d",
                     t->spec.gpus, TITAN_GPUS_MAX);
        }
        if (fits) {
            t->has_spec = true;
            return true;
        }
        if (firn_trace_refuse(t->world.trace, &t->spec, why, err) != FIRN_OK)
            return false;
    }
    t->is_over = t->world.is_drained = true;
    return false;
}

static enum firn_status open_titan(void *state, struct firn_error *err)
{
    struct titan *t = state;
    const struct firn_sim_options *options = t->world.options;
    struct firn_trace_options reading = {.strict = options->strict,
                                         .trusts_order = t->world.trusts_order};
    t->world.cadence = cadence_every(t->world.policy->interval_s, 0, true);
    FIRN_TRY(firn_trace_open(&t->world.trace, options->trace, &reading, err));
    FIRN_TRY(titanwork_read(&t->work, options->profiles, options->trace, err));
    struct firn_error failed = {0};
    if (fetch(t, &failed))
        return FIRN_OK;
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    const struct firn_trace_report *report = firn_trace_report(t->world.trace);
    return firn_fail(err, FIRN_EINVAL,
                     "%s: not one job that can run; %ld bad rows%s%s",
                     options->trace, report->bad,
                     report->bad ? ", the first: " : "", report->first_bad[0]);
}

static void tell(struct titan *t, int id, struct firn_event event)
{
    event.at_s = t->world.now_s;
    event.job = id;
    vec_add(&t->events, event);
}

/* One round of a running task: charged-time, restart-served. True when it is
 * done: near-enough. */
static bool go_round(struct titan *t, struct titan_task *task,
                     double *finished_s)
{
    double round_s = t->world.cadence.interval_s;
    double burnt_s = fmin(task->restart_s, round_s);
    double left = task->work - task->done;
    const struct titanspeed_pace *pace = &task->pace;
    double some = (round_s - burnt_s) / pace->iter_s * pace->samples;
    some = fmin(some, left);
    double used_s = some / pace->samples * pace->iter_s;
    double charged_s = rint(used_s); /* half to even */
    task->restart_s -= burnt_s;
    task->stay_s += burnt_s;
    task->served_gpu_s += burnt_s * task->held;
    task->done += some;
    *finished_s = task->stay_s + charged_s + task->submit_s;
    task->served_gpu_s += charged_s * task->held;
    task->stay_s += charged_s;
    task->run_s += charged_s;
    int held = task->held * (task->guest > 0 ? 2 : 1); /* by both */
    t->world.spent.given += round_s * held;
    t->world.spent.useful += used_s * held;
    t->world.spent.overhead += (round_s - used_s) * held; /* (4) */
    return fabs(task->done - task->work) <= 0.1;
}

/* Advances all running tasks to the next boundary: (3). */
static void go_on(struct titan *t)
{
    const double limit_gpu_s = 14400; /* of the upper queue */
    size_t kept = 0;
    t->round_s = t->world.now_s;
    for (size_t i = 0; i < t->running.n; i++) {
        int id = t->running.at[i];
        struct titan_task *task = &t->tasks.at[id];
        double finished_s;
        if (go_round(t, task, &finished_s)) {
            tell(t, id,
                 (struct firn_event){.kind = FIRN_EVENT_DONE,
                                     .finished_s = finished_s});
            if (task->guest > 0) { /* free-rider: ends after as long a stay */
                double submit_s = t->tasks.at[task->guest - 1].submit_s;
                tell(t, task->guest - 1,
                     (struct firn_event){.kind = FIRN_EVENT_DONE,
                                         .finished_s =
                                             submit_s +
                                             (finished_s - task->submit_s)});
            }
            continue;
        }
        if (task->queue == 0 && task->served_gpu_s >= limit_gpu_s) {
            task->queue = 1;
            task->fell = ++t->falls;
        }
        t->running.at[kept++] = id;
    }
    t->running.n = kept;
}

/* every-start */
static enum firn_status start(struct titan *t, struct titan_task *task,
                              const struct firn_step *step,
                              struct firn_error *err)
{
    task->pace = titanspeed_on(&t->speed, task->kind, step->to);
    if (!(task->pace.iter_s > 0))
        return firn_fail(err, FIRN_EDATA,
                         "ymir/profiles: no step time of %.40s on a placement "
                         "of %d GPUs",
                         step->job->spec.app, step->to->ngpus);
    if (task->held == 0)
        task->stay_s += step->at_s - task->since_s;
    task->held = step->to->ngpus;
    task->restart_s =
        t->world.options->restart_s + t->speed.kinds.at[task->kind].load_s;
    task->leased_s = step->at_s;
    double per_sample = task->duration_s / task->work;
    struct firn_report report = {.done_s = task->done * per_sample,
                                 .rate = task->pace.samples /
                                         task->pace.iter_s * per_sample,
                                 .resumes_s = step->at_s + task->restart_s};
    tell(t, step->job->id,
         (struct firn_event){.kind = FIRN_EVENT_REPORT, .report = report});
    return FIRN_OK;
}

/* Reports to core that a guest progresses as its host does. */
static void tell_guest(struct titan *t, const struct titan_task *guest,
                       const struct firn_step *step)
{
    const struct titan_task *host = &t->tasks.at[guest->host - 1];
    struct titanspeed_pace pace = titanspeed_on(
        &t->speed, host->guest ? host->kind : host->merged_kind, step->to);
    double share = host->done / host->work;
    struct firn_report report = {.done_s = share * guest->duration_s,
                                 .rate = pace.samples / pace.iter_s /
                                         host->work * guest->duration_s,
                                 .resumes_s = step->at_s};
    tell(t, step->job->id,
         (struct firn_event){.kind = FIRN_EVENT_REPORT, .report = report});
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct titan *t = state;
    struct titan_task *task = &t->tasks.at[step->job->id];
    t->world.now_s = t->round_s = step->at_s;
    task->has_changed = true;
    if (task->joins > 0) /* the merging that was decided */
        task->host = task->joins;
    if (task->takes > 0) {
        task->guest = task->takes;
        task->kind = task->merged_kind;
    }
    if (task->host > 0) {
        if (step->kind != FIRN_STEP_STOP)
            tell_guest(t, task, step);
        return FIRN_OK;
    }
    if (step->kind != FIRN_STEP_STOP)
        return start(t, task, step, err);
    task->held = 0;
    task->since_s = step->at_s;
    return FIRN_OK;
}

/* (2), list-order: a task that changed goes to the end of its list, in the
 * round's order. */
static void keep_lists(struct titan *t, int id, const struct titan_task *task)
{
    leave(t->waiting.at, &t->waiting.n, id);
    leave(t->running.at, &t->running.n, id);
    if (task->host > 0)
        return; /* its host is listed instead */
    if (task->held > 0)
        vec_add(&t->running, id);
    else
        vec_add(&t->waiting, id);
}

static enum firn_status settled(void *state, struct firn_error *err)
{
    struct titan *t = state;
    (void)err;
    for (size_t i = 0; i < t->line.n; i++) {
        struct titan_task *task = &t->tasks.at[t->line.at[i]];
        if (task->has_changed)
            keep_lists(t, t->line.at[i], task);
        else if (task->renews)
            task->leased_s += TITAN_LEASE_S;
        task->deserved_gpu_s = task->deserves_gpu_s;
        task->has_changed = task->renews = false;
        task->takes = task->joins = 0;
    }
    t->line.n = 0;
    return FIRN_OK;
}

static void take_arrival(struct titan *t, struct firn_event *out)
{
    firn_job_id id = (firn_job_id)t->tasks.n - 1;
    t->has_spec = false;
    vec_add(&t->waiting, id);
    *out = (struct firn_event){.kind = FIRN_EVENT_SUBMIT,
                               .at_s = t->world.now_s,
                               .job = id,
                               .spec = &t->spec};
}

/* rounds: a round comes before the arrivals of the same moment. */
static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    struct titan *t = state;
    for (;;) {
        if (t->next_event < t->events.n) {
            *out = t->events.at[t->next_event++];
            return true;
        }
        t->events.n = t->next_event = 0;
        if (!t->has_spec && !t->is_over && !fetch(t, err) &&
            err->status != FIRN_OK)
            return false;
        double round_s = t->running.n > 0
                             ? t->round_s + t->world.cadence.interval_s
                             : INFINITY;
        double submit_s = t->has_spec ? t->spec.submit_s : INFINITY;
        double first_s = fmin(round_s, submit_s);
        if (!(first_s <= until_s) || isinf(first_s)) {
            if (isfinite(until_s))
                t->world.now_s = fmax(t->world.now_s, until_s);
            return false;
        }
        t->world.now_s = fmax(t->world.now_s, first_s);
        if (round_s <= submit_s) {
            go_on(t);
            continue;
        }
        if (make_task(t, err) != FIRN_OK)
            return false;
        take_arrival(t, out);
        return true;
    }
}

static double now_s(void *state)
{
    return ((struct titan *)state)->world.now_s;
}

/* ---- placing ---- */

/* Takes `gpus` of a node, lowest first. */
static void take_some(struct freemap *map, firn_node_id node, int gpus,
                      struct firn_alloc *out)
{
    struct firn_part *part = &out->parts[out->nparts++];
    uint64_t left = map->free[map->first_board[node]];
    *part = (struct firn_part){.node = node};
    for (; gpus > 0; gpus--, left &= left - 1)
        part->gpus |= left & -left;
    struct firn_alloc one = {
        .parts = part, .nparts = 1, .is_shared = out->is_shared};
    freemap_take(map, &one);
}

/* How many GPUs each node gives: the emptiest nodes first, lower ids first
 * among equals. False when that is more nodes than needed. */
static bool spread(const struct freemap *map, int gpus, int taken[NODES_MAX])
{
    int nnodes = map->cluster->nnodes, used = 0, left = gpus;
    for (int most = TITAN_NODE_GPUS; most > 0 && left > 0; most--)
        for (int i = 0; i < nnodes && left > 0; i++) {
            if (map->node_free[i] != most)
                continue;
            taken[i] = most < left ? most : left;
            left -= taken[i];
            used++;
        }
    return left == 0 && TITAN_NODE_GPUS * (used - 1) < gpus;
}

/* consolidate: a job for one node goes where it leaves the least, another to
 * the emptiest nodes, as many as it needs and no more. */
static bool consolidate(struct freemap *map, const struct firn_want *want,
                        uint32_t accepts, struct arena *scratch,
                        struct firn_alloc *out)
{
    int taken[NODES_MAX] = {0};
    (void)accepts;
    if (want->gpus <= TITAN_NODE_GPUS) {
        firn_node_id node = freemap_best_fit(map, 0, want->gpus);
        if (node < 0)
            return false;
        taken[node] = want->gpus;
    } else if (!spread(map, want->gpus, taken)) {
        return false;
    }
    *out = (struct firn_alloc){
        .parts = arena_alloc(scratch, NODES_MAX * sizeof *out->parts),
        .ngpus = want->gpus,
        .is_shared = want->shared,
        .how = FIRN_HOW_AS_SUBMITTED};
    for (int i = 0; i < map->cluster->nnodes; i++)
        if (taken[i] > 0)
            take_some(map, i, taken[i], out);
    return true;
}

/* ---- accepted options ---- */

static enum firn_status suits(const struct firn_sim_options *options,
                              struct firn_error *err)
{
    const struct firn_cluster *cluster = options->cluster;
    bool is_known = cluster->ntypes == 1 &&
                    str_equal_nocase(cluster->types[0].name, "v100") &&
                    (cluster->nnodes == 8 || cluster->nnodes == 12 ||
                     cluster->nnodes == 16);
    for (int i = 0; i < cluster->nnodes && is_known; i++)
        is_known = cluster->nodes[i].ngpus == TITAN_NODE_GPUS &&
                   cluster->nodes[i].is_up;
    if (!is_known)
        return firn_fail(err, FIRN_EINVAL,
                         "%s never had a cluster '%.40s'; it had 8x4:v100, "
                         "12x4:v100 and 16x4:v100",
                         artifact, cluster->name);
    FIRN_TRY(refuse_options(artifact, options, REFUSE_BUT_RESTARTS, err));
    return refuse_no_tables(artifact, options, "ymir/", err);
}

static const struct firn_engine_def engine = {
    .name = "titan",
    .summary = "rounds over measured tables, as TitanSched has them",
    .gives = FIRN_NEED_DURATION,
    .state_size = sizeof(struct titan),
    .open = open_titan,
    .close = close_titan,
    .now_s = now_s,
    .apply = apply,
    .settled = settled,
    .next = next,
};

const struct firn_world_def compat_titan = {
    .name = "titan",
    .summary = "TitanSched: fine-tuning on 8, 12 or 16 nodes of 4 V100",
    .artifact = artifact,
    .engine = &engine,
    .policies = titan_policies,
    .place = consolidate,
    .suits = suits,
};
