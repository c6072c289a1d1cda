/* sim.c - the simulator's loop: engine, round, metrics, files.
 *
 *   until = when a decision or a wake-up is due
 *   the engine has an event until then: take it in
 *   else: time is `until`; decide if it is time
 *
 * All events of one instant are taken in before the decision of that instant,
 * because a decision is due at a time and the engine is asked for everything
 * up to it first. The daemon's loop is the same with another engine.
 *
 * It ends when no job is left and none will come. If jobs are left and nothing
 * can ever happen again, that is a failure with a sentence, not a hang.
 */
#include "sim/eventlog.h"
#include "sim/jobscsv.h"
#include "sim/metrics.h"
#include "sim/usagecsv.h"
#include "sim/world.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "core/accounts.h"
#include "core/round.h"
#include "policy/policy_load.h"
#include <firn/version.h>
#include <math.h>
#include <string.h>

enum {
    PROGRESS_EVERY = 4096, /* events between two looks at the clock */
    VAIN_MAX = 10000,      /* changes of each node in a row, for nothing */
    IDLE_MAX = 1000,       /* decisions in a row that change nothing */
};

struct sim {
    const struct firn_sim_options *options;
    const struct firn_world_def *def;
    struct world *world; /* the engine's state begins with it */
    struct round *round;
    struct metrics metrics;
    struct eventlog *log;
    struct jobscsv *jobs;
    struct timeline *timeline;
    struct accounts *accounts; /* NULL: none */
    double due_s; /* the next decision; infinity when none is due */
    double decide_cpu_s;
    long events;
    long vain;        /* node changes since a job last came or went */
    long idle_rounds; /* decisions since anything changed: a job or a plan */
};

_Static_assert(offsetof(struct firn_sim_options, size) == 0,
               "options of every version begin with their size");

/* A program that was compiled with older headers has shorter options. */
void firn_sim_options_init(struct firn_sim_options *options, size_t size)
{
    const struct firn_sim_options full = {.size = size,
                                          .seed = 1,
                                          .scaling = 1,
                                          .share_slowdown = 1.5,
                                          .restart_s = 30,
                                          .mttr_s = 3600};
    memset(options, 0, size);
    memcpy(options, &full, size < sizeof full ? size : sizeof full);
}

/* ---- called by the round ---- */

/* The truth behind a job's last report; NULL when the report was exact. */
static const struct firn_report *true_report(const struct sim *sim,
                                             const struct firn_job *job)
{
    return sim->def->truth_of ? sim->def->truth_of(sim->world, job) : NULL;
}

/* The log has the truth, core the report. */
static void log_step(struct sim *sim, const struct firn_step *step)
{
    struct firn_job job;
    struct firn_step true_step = *step;
    const struct firn_report *told =
        step->kind == FIRN_STEP_STOP ? true_report(sim, step->job) : NULL;
    if (told != NULL) {
        job = *step->job;
        job.done_s = told->done_s;
        job.rate = told->rate;
        job.resumes_s = told->resumes_s;
        true_step.job = &job;
    }
    eventlog_step(sim->log, &true_step);
}

static void on_step(void *arg, const struct firn_step *step)
{
    struct sim *sim = arg;
    log_step(sim, step);
    metrics_step(&sim->metrics, step);
}

/* Seconds that it held GPUs which had not been handed over. */
static double waited_s(const struct sim *sim, const struct firn_job *job)
{
    return sim->def->waited_s ? sim->def->waited_s(sim->world, job) : 0;
}

static void on_end(void *arg, const struct firn_job *job, const char *how,
                   double now_s, double finished_s)
{
    struct sim *sim = arg;
    eventlog_end(sim->log, job, now_s, how, finished_s);
    if (strcmp(how, "done") == 0)
        jobscsv_add(sim->jobs, job, finished_s,
                    metrics_done(&sim->metrics, job, now_s, finished_s,
                                 waited_s(sim, job)));
    if (strcmp(how, "reject") == 0)
        sim->metrics.rejected++;
}

static void on_changed(void *arg, const struct state *state, double now_s)
{
    struct sim *sim = arg;
    metrics_changed(&sim->metrics, state, now_s);
}

static void on_note(void *arg, const struct firn_job *job, double now_s)
{
    struct sim *sim = arg;
    eventlog_note(sim->log, job, now_s);
}

/* ---- the loop ---- */

/* After an event has been taken in: what files and sums make of it. */
static void record(struct sim *sim, const struct firn_event *event)
{
    const struct firn_job *job = state_job(round_state(sim->round), event->job);
    switch (event->kind) {
    case FIRN_EVENT_SUBMIT:
        sim->vain = sim->idle_rounds = 0;
        eventlog_submit(sim->log, job, event->at_s);
        metrics_submitted(&sim->metrics, job);
        break;
    case FIRN_EVENT_REPORT:
        if (sim->world->anew[0] != '\0')
            eventlog_anew(sim->log, job, event->at_s, sim->world->anew);
        sim->world->anew[0] = '\0';
        if (job->state == FIRN_JOB_RUNNING) {
            const struct firn_report *told = true_report(sim, job);
            eventlog_report(sim->log, job, event->at_s,
                            told ? told : &event->report);
        }
        metrics_report(&sim->metrics, job, event->report.resumes_s,
                       event->at_s);
        break;
    case FIRN_EVENT_NODE_DOWN:
        sim->vain++;
        sim->metrics.failures++;
        eventlog_node(sim->log, event->node, false, event->at_s);
        break;
    case FIRN_EVENT_NODE_UP:
        sim->vain++;
        eventlog_node(sim->log, event->node, true, event->at_s);
        break;
    case FIRN_EVENT_DONE:
        sim->vain = sim->idle_rounds = 0;
        break;
    default:
        break;
    }
}

/* A node event that changes nothing (a file may say "down" twice). */
static bool is_idle(const struct sim *sim, const struct firn_event *event)
{
    bool is_up = event->kind == FIRN_EVENT_NODE_UP;
    if (!is_up && event->kind != FIRN_EVENT_NODE_DOWN)
        return false;
    return round_state(sim->round)->cluster.nodes[event->node].is_up == is_up;
}

static double decide_s(const struct sim *sim, double now_s)
{
    return sim->world->cadence.decide_s(&sim->world->cadence, now_s);
}

static enum firn_status take_in(struct sim *sim, const struct firn_event *event,
                                struct firn_error *err)
{
    if (is_idle(sim, event))
        return FIRN_OK;
    bool is_submit = event->kind == FIRN_EVENT_SUBMIT;
    if (is_submit) /* before the sums move on to the new number of jobs */
        metrics_arriving(&sim->metrics, event->at_s);
    FIRN_TRY(round_event(sim->round, event, err));
    record(sim, event);
    if (round_is_due(sim->round) && isinf(sim->due_s))
        sim->due_s = decide_s(sim, event->at_s);
    return FIRN_OK;
}

static enum firn_status look_up(struct sim *sim, struct firn_error *err)
{
    const struct firn_sim_options *options = sim->options;
    if (options->progress != NULL)
        options->progress(options->progress_arg,
                          firn_trace_progress(sim->world->trace));
    if (options->stop != NULL && *options->stop)
        return firn_fail(err, FIRN_EINTR, "interrupted");
    return FIRN_OK;
}

/* Nodes changed very often since a job last came or ended. */
static bool is_in_vain(const struct sim *sim)
{
    return sim->vain / VAIN_MAX > sim->options->cluster->nnodes;
}

/* Jobs are left, and neither events nor wake-ups can come. */
static enum firn_status stalled(const struct sim *sim, struct firn_error *err)
{
    const struct state *state = round_state(sim->round);
    return firn_fail(err, FIRN_ESTALLED,
                     "policy %s leaves %zu jobs unfinished at %g s with "
                     "nothing left to happen%s",
                     sim->options->policy, state->nwaiting + state->nrunning,
                     sim->world->now_s,
                     is_in_vain(sim) ? " but node failures" : "");
}

/* Jobs wait, none runs or will come, and the policy was asked again and again
 * without starting one: it wakes up at intervals for ever. */
static bool is_at_a_loss(const struct sim *sim)
{
    const struct state *state = round_state(sim->round);
    return sim->idle_rounds >= IDLE_MAX && state->nwaiting > 0 &&
           state->nrunning == 0 && sim->world->is_drained;
}

/* Only drawn failures, which never end, are still to come; or failures are so
 * frequent that the jobs will hardly ever end. */
static bool waits_for_ever(const struct sim *sim)
{
    const struct state *state = round_state(sim->round);
    if (is_in_vain(sim))
        return true;
    if (is_at_a_loss(sim) && isinf(sim->world->node_change_s))
        return true;
    return sim->world->fails_for_ever && state->nwaiting > 0 &&
           sim->world->is_drained && state->nrunning == 0 &&
           state->map.up_gpus == state->cluster.ngpus &&
           (is_at_a_loss(sim) ||
            (isinf(round_wake_s(sim->round)) && isinf(sim->due_s)));
}

static enum firn_status decide(struct sim *sim, struct firn_error *err)
{
    round_tick(sim->round, sim->world->now_s);
    if (isinf(sim->due_s) && round_is_due(sim->round))
        sim->due_s = decide_s(sim, sim->world->now_s);
    if (sim->due_s > sim->world->now_s)
        return FIRN_OK;
    sim->due_s = INFINITY;
    long steps = round_steps(sim->round);
    bool is_timed = sim->options->times_rounds;
    double begin_s = is_timed ? clock_cpu_s() : 0;
    FIRN_TRY(round_decide(sim->round, sim->world->now_s, err));
    sim->decide_cpu_s += is_timed ? clock_cpu_s() - begin_s : 0;
    sim->idle_rounds =
        round_steps(sim->round) == steps ? sim->idle_rounds + 1 : 0;
    return FIRN_OK;
}

static enum firn_status run(struct sim *sim, struct firn_error *err)
{
    struct firn_event event;
    struct firn_error failed = {0};
    for (;;) {
        const struct state *state = round_state(sim->round);
        double wake_s = round_wake_s(sim->round);
        double until_s = wake_s < sim->due_s ? wake_s : sim->due_s;
        if (sim->def->engine->next(sim->world, until_s, &event, &failed)) {
            FIRN_TRY(take_in(sim, &event, err));
            if (++sim->events % PROGRESS_EVERY == 0)
                FIRN_TRY(look_up(sim, err));
        } else if (failed.status != FIRN_OK) {
            return firn_fail(err, failed.status, "%s", failed.text);
        } else if (isfinite(until_s)) {
            FIRN_TRY(decide(sim, err));
        } else {
            return state->nwaiting > 0 ? stalled(sim, err) : FIRN_OK;
        }
        if (state->nwaiting + state->nrunning == 0 && sim->world->is_drained)
            return FIRN_OK;
        if (waits_for_ever(sim))
            return stalled(sim, err);
    }
}

/* ---- setting up ---- */

static enum firn_status check_options(const struct firn_sim_options *options,
                                      struct firn_error *err)
{
    const struct {
        const char *name;
        double value, min;
    } numbers[] = {
        {"scaling", options->scaling, 0},
        {"share slowdown", options->share_slowdown, 1},
        {"noise on throughput", options->noise.throughput, 0},
        {"noise on sharing", options->noise.sharing, 0},
        {"noise on transfer", options->noise.transfer, 0},
        {"noise on reports", options->noise.report, 0},
        {"noise on iterations", options->noise.iterations, 0},
        {"restart cost", options->restart_s, 0},
        {"resize cost", options->resize_s, -1},
        {"time to prepare a resize", options->resize_prepare_s, 0},
        {"slowdown of a resize", options->resize_slowdown, 0},
        {"interval", options->interval_s, 0},
        {"quantum", options->quantum_s, 0},
        {"time to hand GPUs over", options->handover_s, 0},
        {"time prepared ahead", options->ahead_s, 0},
        {"number of prepared jobs", options->prepares, 0},
        {"mtbf", options->mtbf_s, 0},
        {"mttr", options->mttr_s, 0},
        {"checkpoint interval", options->checkpoint_s, 0},
        {"timeline step", options->timeline_s, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].value) || numbers[i].value < numbers[i].min)
            return firn_fail(err, FIRN_EINVAL, "%s is %g; it must be >= %g",
                             numbers[i].name, numbers[i].value, numbers[i].min);
    if (options->ahead_s > FIRN_SIM_AHEAD_MAX_S)
        return firn_fail(err, FIRN_EINVAL,
                         "time prepared ahead is %g s; at most %g s are "
                         "possible: loading weights needs the GPUs",
                         options->ahead_s, FIRN_SIM_AHEAD_MAX_S);
    if (options->mtbf_s > 0 && options->mttr_s <= 0)
        return firn_fail(err, FIRN_EINVAL, "failures need a time to repair");
    if (options->failures != NULL && options->mtbf_s > 0)
        return firn_fail(err, FIRN_EINVAL,
                         "failures come from a file or are drawn, not both");
    return FIRN_OK;
}

/* The world's own settings, then the user's. The caller frees them. */
static const char **all_settings(const struct world_policy *as,
                                 const struct firn_sim_options *options,
                                 size_t *n)
{
    size_t own = 0;
    while (as != NULL && as->settings != NULL && as->settings[own] != NULL)
        own++;
    *n = own + options->nsettings;
    const char **all = mem_new(*n + 1, sizeof *all);
    for (size_t i = 0; i < *n; i++)
        all[i] = i < own ? as->settings[i] : options->settings[i - own];
    return all;
}

static enum firn_status open_round(struct sim *sim, struct firn_error *err)
{
    const struct firn_sim_options *options = sim->options;
    struct firn_error missing = {0};
    const struct world_policy *as;
    const struct firn_policy_def *policy =
        world_policy_find(sim->def, options->policy, &as, &missing);
    if (options->policy_def != NULL && sim->def->policies != NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "%s has policies of its own: it runs none that is "
                         "given by pointer",
                         sim->def->artifact);
    if (options->policy_def != NULL)
        policy = options->policy_def;
    if (policy == NULL)
        return firn_fail(err, missing.status, "%s", missing.text);
    sim->world->policy = as;
    sim->world->resizes = policy->does & FIRN_DOES_RESIZE;
    sim->world->replans = policy->does & FIRN_DOES_REPLAN;
    if (options->accounts != NULL && sim->def->artifact != NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "%s has no users and projects: leave --shares out",
                         sim->def->artifact);
    if (options->accounts != NULL)
        FIRN_TRY(accounts_load(&sim->accounts, options->accounts, err));
    struct round_config config = {
        .cluster = options->cluster,
        .accounts = sim->accounts,
        .policy = policy,
        .seed = options->seed,
        .engine = sim->def->engine,
        .engine_state = sim->world,
        .place = sim->def->place,
        .is_literal = sim->def->artifact != NULL,
        .watch = {.arg = sim,
                  .step = on_step,
                  .end = on_end,
                  .changed = on_changed,
                  .note = on_note},
    };
    const char **settings = all_settings(as, options, &config.nsettings);
    config.settings = settings;
    enum firn_status status = round_new(&sim->round, &config, err);
    mem_free(settings);
    return status;
}

static enum firn_status open_sim(struct sim *sim, struct firn_error *err)
{
    const struct firn_sim_options *options = sim->options;
    if (sim->def->suits != NULL)
        FIRN_TRY(sim->def->suits(options, err));
    FIRN_TRY(open_round(sim, err));
    FIRN_TRY(sim->def->engine->open(sim->world, err));
    if (options->log_path != NULL)
        FIRN_TRY(eventlog_open(&sim->log, options->log_path, options, err));
    if (options->jobs_path != NULL)
        FIRN_TRY(jobscsv_open(&sim->jobs, options->jobs_path, err));
    if (options->timeline_path != NULL)
        FIRN_TRY(timeline_open(&sim->timeline, options->timeline_path,
                               options->timeline_s, err));
    metrics_init(&sim->metrics, options->cluster, options->scaling,
                 sim->timeline);
    return FIRN_OK;
}

static void collect(struct sim *sim, struct firn_sim_result *out)
{
    const struct firn_trace_report *report =
        firn_trace_report(sim->world->trace);
    const struct world_spent *spent = &sim->world->spent;
    metrics_result(&sim->metrics, out);
    out->decide_cpu_s = sim->decide_cpu_s;
    out->bad_rows = report->bad;
    out->ignored_rows = report->ignored;
    out->unsorted_rows = report->unsorted;
    out->nominal_jobs = sim->world->nominal_jobs;
    memcpy(out->first_bad, report->first_bad, sizeof out->first_bad);
    out->unprofiled_jobs = sim->world->unprofiled_jobs;
    memcpy(out->unprofiled, sim->world->unprofiled, sizeof out->unprofiled);
    out->unfrozen_jobs = sim->world->unfrozen_jobs;
    memcpy(out->unfrozen, sim->world->unfrozen, sizeof out->unfrozen);
    out->gpu_s_given = spent->given;
    out->gpu_s_useful = spent->useful;
    out->gpu_s_overhead = spent->overhead;
    out->gpu_s_lost = spent->lost;
    out->gpu_util_ratio =
        spent->given > 0 ? out->gpu_alloc_ratio * spent->useful / spent->given
                         : NAN;
    out->rounds = round_count(sim->round);
    out->steps = round_steps(sim->round);
    out->events = sim->events;
}

/* Closes the files; the first failure of all wins. */
static enum firn_status close_sim(struct sim *sim, enum firn_status status,
                                  const struct firn_sim_result *result,
                                  struct firn_error *err)
{
    bool ok = status == FIRN_OK;
    struct firn_error *into = ok ? err : NULL;
    enum firn_status closed[] = {
        eventlog_close(sim->log, ok ? result : NULL, into),
        jobscsv_close(sim->jobs, into),
        timeline_close(sim->timeline, into),
        ok ? usagecsv_write(sim->options, sim->accounts, sim->world->now_s,
                            into)
           : FIRN_OK,
    };
    for (size_t i = 0; i < sizeof closed / sizeof *closed && ok; i++)
        if (closed[i] != FIRN_OK && status == FIRN_OK)
            status = closed[i];
    round_free(sim->round);
    accounts_free(sim->accounts);
    sim->def->engine->close(sim->world);
    mem_free(sim->world);
    metrics_release(&sim->metrics);
    return status;
}

/* One run; `is_open`: it came as far as filling `out`. */
static enum firn_status attempt(const struct firn_sim_options *options,
                                bool trusts_order, bool *is_open,
                                struct firn_sim_result *out,
                                struct firn_error *err)
{
    struct firn_sim_result result = {.seed = options->seed,
                                     .restart_s = options->restart_s};
    struct sim sim = {.options = options, .due_s = INFINITY};
    str_copy(result.trace, sizeof result.trace, options->trace);
    str_copy(result.policy, sizeof result.policy, options->policy);
    str_copy(result.cluster, sizeof result.cluster, options->cluster->name);
    sim.def = options->world ? options->world : &world_honest;
    str_copy(result.world, sizeof result.world, sim.def->name);
    sim.world = mem_new(1, sim.def->engine->state_size);
    sim.world->node_change_s = INFINITY;
    sim.world->options = options;
    sim.world->trusts_order = trusts_order;
    enum firn_status status = open_sim(&sim, err);
    *is_open = status == FIRN_OK;
    if (*is_open) {
        status = run(&sim, err);
        collect(&sim, &result);
    }
    status = close_sim(&sim, status, &result, err);
    if (*is_open)
        *out = result;
    return status;
}

/* Completes the caller's options, which may be of an older kind, and the policy
 * that it gives by pointer. */
static enum firn_status take_options(struct firn_sim_options *out,
                                     struct firn_policy_def *policy,
                                     const struct firn_sim_options *given,
                                     struct firn_error *err)
{
    if (given->size < sizeof given->size)
        return firn_fail(err, FIRN_EINVAL,
                         "the options of the simulation have no size: start "
                         "from firn_sim_defaults()");
    if (given->size > sizeof *out)
        return firn_fail(err, FIRN_EINVAL,
                         "the program was built for a newer firn: its struct "
                         "firn_sim_options has %zu bytes, that of firn %s %zu",
                         given->size, firn_version(), sizeof *out);
    firn_sim_options_init(out, sizeof *out);
    memcpy(out, given, given->size);
    out->size = sizeof *out;
    if (out->policy_def != NULL) {
        FIRN_TRY(policy_adopt(policy, out->policy_def, err));
        out->policy_def = policy;
        out->policy = policy->name;
    }
    if (out->policy == NULL || out->trace == NULL || out->cluster == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "a simulation needs a trace, a cluster and a policy");
    return check_options(out, err);
}

/* Nearly all traces are in order, so the first attempt reads them once, as it
 * goes; a trace that turns out not to be is run again from the start. */
enum firn_status firn_sim_run(const struct firn_sim_options *given,
                              struct firn_sim_result *out,
                              struct firn_error *err)
{
    struct firn_sim_options options = {0};
    struct firn_policy_def policy = {0};
    double begin_cpu_s = clock_cpu_s();
    bool is_open = false;
    FIRN_TRY(take_options(&options, &policy, given, err));
    enum firn_status status =
        attempt(&options, !options.strict, &is_open, out, err);
    bool is_misled = status == FIRN_EDATA || (status != FIRN_OK && !is_open);
    if (is_misled && !options.strict)
        status = attempt(&options, false, &is_open, out, err);
    if (is_open)
        out->cpu_s = clock_cpu_s() - begin_cpu_s;
    return status;
}
