/* firn.c - one policy with the freedoms of all: numbers and types of GPUs,
 * batches, frozen layers, elastic threads, partners, plans.
 *
 * The published schedulers of this folder each use one freedom of a training
 * job. This one puts all of them on one menu (firn/offer.h) and decides for all
 * jobs at once. The objective is the mean completion time, under bounds that no
 * job may exceed.
 *
 * Objective. Let x be the GPU-seconds left of a job in its most efficient way,
 * and r / e the GPUs' worth of work that a way does in a second (firn_worth.c).
 * At every event the policy takes the choice for each job that maximises
 *
 *     sum over jobs of   x^-alpha  x  m^-narrow  x  (r / e)  x  lasting
 *
 * such that no type has more GPUs than it has. The argument: were alpha 1, a
 * unit of work done would count by 1 / x, the share of the job's rest that it
 * is; for speeds in proportion to GPUs the greatest sum then serves the least
 * rest first, which is optimal (SRPT). Speeds of training are concave: the
 * second half of a big share does less than the first half of a small one, and
 * the optimal shares are proportional to a power of the rank (heSRPT, Berg et
 * al., SIGMETRICS 2020). A power of x between 0 and 1 has both properties:
 * short jobs before long ones, and no job alone. m is the most GPUs' worth of
 * work that the job can do in a second: one that can use few GPUs cannot catch
 * up later. Jobs of one size have another power (firn_worth.c). `lasting` is
 * the part of the horizon that a restart leaves, and a bonus for what is held:
 * most changes that look better by less than a restart are undone by the next
 * event.
 *
 * What it knows of the work left: the option `knows` (firn_past.c).
 *
 * Options were chosen on the tuning traces of bench/one_policy.py, 17
 * workloads, by the geometric mean of the mean JCT over the best other
 * policy's: alpha 0.25, 0.35, 0.5: 0.924, 0.916, 0.924; keep 1, 2, 3: 0.919,
 * 0.916, 0.915. `narrow` and with it alpha 0.3, `horizon` and `horizon-jobs`
 * were chosen later (firn_worth.c),
 * `share-min` on jobs of one GPU (firn_pair.c). docs/policies.md has what each
 * freedom gains and the results on other traces.
 *
 * Bounds, each an option:
 *   wait      no job waits longer than `wait` times its wait under first come,
 *             first served (firn_due.c); a big gang has a reservation by that,
 *             and others use its GPUs until then
 *   restarts  no job is restarted more often in an hour, half of it at once;
 *             twice as often where restarts cost it nothing
 *   lost      no job loses a larger share of its time to restarts
 *
 * Parts: firn.h has the list.
 *
 * Invariants:
 * (1) a decision is a function of the view and of what was observed before: the
 *     same view gives the same plan, and a scheduler that was restarted plans
 *     as before;
 * (2) of equal jobs that have not begun the older is served first;
 * (3) what a job's trainer cannot do is on no menu (firn/can.h).
 *
 * Left out: sharing inside the assignment. It is decided afterwards on what is
 * left (firn_share.c), as are most ways on several GPU types (firn_rest.c).
 * Half-shares as units of the assignment were tried and are worse: unpaired
 * halves strand GPUs.
 *
 * Cost: a forecast for each entry of each menu, and the solver.
 */
#include "policy/firn.h"
#include "base/keep.h"
#include "policy/merger.h"
#include <stdint.h>

static const char *const knows_names[] = {"forecast", "progress", "history",
                                          "service", NULL};

static const struct firn_option options[] = {
    FIRN_NUMBER(struct one, rules.alpha, "alpha", "0.3", 0, 4,
                "how much more a GPU counts for jobs with less work left"),
    FIRN_NUMBER(struct one, rules.alpha_rigid, "alpha-rigid", "1", 0, 4,
                "the same for jobs that run on one number of GPUs only"),
    FIRN_NUMBER(struct one, rules.narrow, "narrow", "0.35", 0, 4,
                "how much more a GPU counts for jobs that can use few"),
    FIRN_NUMBER(struct one, rules.horizon_s, "horizon", "2400", 1, 1e9,
                "the most seconds over which a restart must pay"),
    FIRN_NUMBER(struct one, rules.horizon_jobs, "horizon-jobs", "10", 0, 1e9,
                "and the most arrivals of jobs on 64 GPUs; 0: any number"),
    FIRN_NUMBER(struct one, rules.horizon_past, "horizon-past", "5", 0, 1e9,
                "how many times these count beside the shares that a job has "
                "had so far; 0: theirs do not count"),
    FIRN_NUMBER(struct one, rules.keep, "keep", "3", 0, 100,
                "restarts that a change must save besides its own"),
    FIRN_NUMBER(struct one, rules.keep_queue, "keep-queue", "3", 0, 100,
                "how many times more if a job waits for each one that runs"),
    FIRN_NUMBER(struct one, rules.grow, "grow", "3.5", 0, 100,
                "how many times the seconds count for which GPUs that a "
                "running job gets in addition are prepared"),
    FIRN_NUMBER(struct one, rules.weight, "weight", "2", 1, 1e3,
                "how much more a job counts for each step of priority"),
    FIRN_INT(struct one, rules.ahead_s, "ahead", "30", 0, 30,
             "seconds of each restart that are prepared before the GPUs are "
             "free, as far as the engine can"),
    FIRN_CHOICE(struct one, rules.knows, "knows", "forecast", knows_names,
                "work left by forecasts, by the progress that jobs report, by "
                "ended jobs, or by what a job has had"),
    FIRN_BOOL(struct one, rules.resize, "resize", "yes",
              "jobs may run on other numbers of GPUs than they asked for"),
    FIRN_BOOL(struct one, rules.batch, "batch", "yes", "trainers tune batches"),
    FIRN_BOOL(struct one, rules.freeze, "freeze", "yes",
              "trainers freeze front layers"),
    FIRN_BOOL(struct one, rules.threads, "threads", "yes",
              "elastic threads where they are faster"),
    FIRN_BOOL(struct one, rules.mixed, "mixed", "yes",
              "elastic threads over several GPU types"),
    FIRN_NUMBER(struct one, rules.mix_min, "mix-min", "1.05", 1, 100,
                "the least speed-up by GPUs of another type"),
    FIRN_NUMBER(struct one, rules.spread_min, "spread-min", "1.01", 0, 100,
                "the least speed-up by more nodes than a job needs; 0: jobs "
                "are on as few as can be"),
    FIRN_BOOL(struct one, rules.share, "share", "yes",
              "two jobs may share GPUs"),
    FIRN_BOOL(struct one, rules.unknown, "unknown", "no",
              "jobs of unknown memory share too"),
    FIRN_NUMBER(struct one, rules.slow_most, "slowdown", "1.2", 1, 100,
                "the most that a shared GPU may slow down either job, where "
                "that was measured and the host could have fewer GPUs"),
    FIRN_NUMBER(struct one, rules.share_min, "share-min", "0.5", 0, 100,
                "how much a second that the host loses counts against the "
                "seconds that all others gain"),
    FIRN_BOOL(struct one, rules.merge, "merge", "yes",
              "fine-tuning jobs may be trained together or after each other"),
    FIRN_NUMBER(struct one, rules.gather_s, "gather", "300", 0, 1e6,
                "the most seconds that a fine-tuning job waits for a partner"),
    FIRN_NUMBER(struct one, rules.gather_min, "gather-min", "0.5", 0, 1e6,
                "seconds that waiting a second for partners must save"),
    FIRN_NUMBER(struct one, rules.pair_min, "pair-min", "1.2", 0, 100,
                "the least TranWt of a pair"),
    FIRN_BOOL(struct one, rules.weights, "weights", "yes",
              "new fine-tuning jobs may begin with the weights of ended ones"),
    FIRN_NUMBER(struct one, rules.after_min, "after-min", "2", 1, 100,
                "the least saving of work, in times, by weights of a task that "
                "were never measured"),
    FIRN_NUMBER(struct one, rules.after_known, "after-known", "1.1", 1, 100,
                "the same where a job of the task has ended so"),
    FIRN_NUMBER(struct one, rules.after_gain, "after-gain", "0.95", 0, 1,
                "a job waits for weights that bring its end below this share "
                "of the time it needs now"),
    FIRN_NUMBER(struct one, rules.wait_times, "wait", "3", 0, 1e6,
                "a job waits at most this many times its wait under first "
                "come, first served; 0: no bound"),
    FIRN_NUMBER(struct one, rules.wait_least_s, "wait-least", "10800", 0, 1e9,
                "seconds that a job may wait whatever `wait` says"),
    FIRN_NUMBER(struct one, rules.turn, "turn", "0.1", 1e-3, 1e3,
                "a job that has waited so long keeps its GPUs for this share "
                "of its wait"),
    FIRN_NUMBER(struct one, rules.due_share, "due-share", "0.5", 0, 1,
                "share of the GPUs of a type that all jobs which have waited "
                "so long may have together"),
    FIRN_NUMBER(struct one, rules.restarts, "restarts", "30", 0, 1e6,
                "the most restarts of a job in an hour; 0: no bound"),
    FIRN_NUMBER(struct one, rules.lost, "lost", "0", 0, 1,
                "the most of its time with GPUs that restarts may take; 0: no "
                "bound"),
    FIRN_INT(struct one, rules.effort, "effort", "400", 1, 1e9,
             "jobs up to which every event divides all GPUs anew"),
    {0},
};

/* ---- jobs ---- */

bool one_is_fresh(const struct one_round *round, const struct firn_job *job)
{
    return job->held.nparts == 0 &&
           firn_job_done_s(job, round->view->now_s) <= 0;
}

const struct firn_job *one_job(const struct one_round *round, firn_job_id id)
{
    size_t low = 0, high = round->njobs;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (round->jobs[mid]->id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < round->njobs && round->jobs[low]->id == id ? round->jobs[low]
                                                            : NULL;
}

/* The job that it is being trained together with, or NULL. */
static const struct firn_job *partner(const struct one_round *round,
                                      const struct firn_job *job)
{
    firn_job_id with =
        job->held.nparts > 0 ? job->held.how.merged_with : FIRN_NO_JOB;
    const struct firn_job *other =
        with != FIRN_NO_JOB ? one_job(round, with) : NULL;
    return other != NULL && other->held.how.merged_with == job->id ? other
                                                                   : NULL;
}

/* Why two that are trained together are parted; NULL: they are not. The same
 * whichever of them is asked about. */
static const char *harm_of(const struct one_round *round,
                           const struct firn_job *job,
                           const struct firn_job *with)
{
    return job->id < with->id ? merger_harm(round->view, job, with, true)
                              : merger_harm(round->view, with, job, true);
}

/* The job that shares the GPUs of a seat. */
static void find_neighbour(const struct one_round *round, struct one_seat *seat)
{
    const struct firn_job *job = seat->job;
    if (!job->held.is_shared || seat->with != NULL)
        return;
    for (size_t i = 0; i < round->njobs; i++) {
        const struct firn_job *other = round->jobs[i];
        if (other == job || other->held.nparts == 0 || !other->held.is_shared ||
            !firn_alloc_overlaps(&job->held, &other->held))
            continue;
        seat->beside = other;
        seat->is_guest =
            other->since_s < job->since_s ||
            (other->since_s == job->since_s && other->id < job->id);
    }
}

static void seat_all(struct one_round *round)
{
    const struct firn_view *view = round->view;
    round->seats =
        firn_view_alloc(view, (round->njobs + 1) * sizeof(struct one_seat));
    for (size_t i = 0; i < round->njobs; i++) {
        const struct firn_job *job = round->jobs[i];
        const struct firn_job *with = partner(round, job);
        const char *harm = with != NULL ? harm_of(round, job, with) : NULL;
        if (harm != NULL)
            with = NULL;
        if (with != NULL && with->id < job->id)
            continue;
        struct one_seat *seat = &round->seats[round->n++];
        *seat = (struct one_seat){.job = job,
                                  .with = with,
                                  .parted = harm,
                                  .gain = 1,
                                  .chosen = ONE_NONE,
                                  .pinned = ONE_NONE,
                                  .after = FIRN_NO_JOB,
                                  .left_s = one_left_s(round, job)};
        if (with != NULL)
            seat->left_with_s = one_left_s(round, with);
        if (job->held.nparts > 0 && harm == NULL)
            find_neighbour(round, seat);
    }
}

/* ---- the decision ---- */

/* Enters the jobs that came since the last decision; the plan is empty. */
static void meet_new(struct one_round *round, bool is_first)
{
    struct one *one = round->one;
    const struct firn_job *const *waiting = firn_view_waiting(round->view);
    size_t n = round->view->nwaiting;
    round->waiting = waiting;
    if (is_first) { /* also those that run */
        waiting = firn_view_jobs(round->view);
        n = round->view->njobs;
    }
    one->gathers = false;
    for (size_t i = 0; i < n; i++) {
        one_meet(one, waiting[i]);
        one->gathers = one->gathers || waiting[i]->spec.may_merge;
    }
    one_queue_jobs(one, round->view, round->plan);
    one_meet_late(one, round->waiting, round->view->nwaiting,
                  round->view->now_s);
}

void one_decide(struct one_round *round)
{
    struct one *one = round->one;
    const struct firn_view *view = round->view;
    bool is_first = !one->rounds.has_begun;
    round->is_again = !is_first && view->now_s == one->rounds.last_s;
    if (!rounds_begin(&one->rounds, view->now_s,
                      one->rounds.last_s + one_gap_s(one, view))) {
        firn_plan_keep_all(round->plan);
        return;
    }
    meet_new(round, is_first);
    if (!round->is_again) {
        one->was_tight = one->is_tight;
        one->was_calm = one->is_calm;
    }
    if (one_is_many(one, view)) {
        one_window(round);
    } else {
        round->jobs = firn_view_jobs(view);
        round->njobs = view->njobs;
    }
    seat_all(round);
    one_survey(one, view->cluster);
    one_match(round);
    for (size_t i = 0; i < round->n; i++) {
        one_menu(round, &round->seats[i]);
        one_hold_back(round, &round->seats[i]);
    }
    one_worth(round);
    one->tail_s = INFINITY;
    one_assign(round);
    one_mix(round);
    one_share(round);
    one_explain(round);
    one_loosen(round);
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct one_round round = {.one = state, .view = view, .plan = plan};
    one_decide(&round);
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct one *one = state;
    bool gathers = one->gathers && one->rules.gather_s > 0;
    double every_s = gathers              ? 20
                     : view->nwaiting > 0 ? 60
                                          : 300,
           gap_s = one_gap_s(one, view);
    if (view->njobs == 0)
        return INFINITY;
    return gap_s > 0 ? one->rounds.last_s + gap_s
                     : fmin(view->now_s + every_s, one->tail_s);
}

static enum firn_status init(void *state, struct firn_error *err)
{
    struct one *one = state;
    (void)err;
    one->window_from = one->window_to = one->met_last = FIRN_NO_JOB;
    one->tail_s = INFINITY;
    for (int i = 0; i < ONE_TASKS; i++)
        one->ended[i] = FIRN_NO_JOB;
    return FIRN_OK;
}

static void fini(void *state)
{
    struct one *one = state;
    one_past_free(one);
    vec_release(&one->queue.ends);
}

/* ---- over a restart ---- */

static void save(const void *state, struct firn_buf *out)
{
    const struct one *one = state;
    keep_begin(out, "policy firn", 4);
    rounds_save(&one->rounds, out);
    keep_int(out, one->window_from);
    keep_int(out, one->window_to);
    keep_int(out, one->was_tight);
    keep_int(out, one->is_tight);
    keep_int(out, one->was_calm);
    keep_int(out, one->is_calm);
    keep_int(out, one->is_filling);
    one_past_save(one, out);
    one_queue_save(&one->queue, out);
}

static enum firn_status load(void *state, struct firn_bytes in,
                             struct firn_error *err)
{
    struct one *one = state;
    struct one *fresh = mem_new(1, sizeof *fresh);
    struct keep keep;
    enum firn_status status = keep_open(&keep, in, "policy firn", 4, err);
    if (status == FIRN_OK) {
        init(fresh, err);
        fresh->rules = one->rules;
        fresh->has_missed = true;
        fresh->rounds = rounds_load(&keep);
        fresh->window_from = (int)keep_read_int(&keep, FIRN_NO_JOB, INT32_MAX);
        fresh->window_to = (int)keep_read_int(&keep, FIRN_NO_JOB, INT32_MAX);
        fresh->was_tight = keep_read_int(&keep, 0, 1);
        fresh->is_tight = keep_read_int(&keep, 0, 1);
        fresh->was_calm = keep_read_int(&keep, 0, INT32_MAX);
        fresh->is_calm = keep_read_int(&keep, 0, INT32_MAX);
        fresh->is_filling = keep_read_int(&keep, 0, 1);
        one_past_load(fresh, &keep);
        one_queue_load(&fresh->queue, &keep);
        status = keep_close(&keep, err);
    }
    if (status == FIRN_OK) {
        struct one old = *one;
        *one = *fresh;
        *fresh = old;
    }
    fini(fresh);
    mem_free(fresh);
    return status;
}

const struct firn_policy_def firn_policy_firn = {
    .size = sizeof(struct firn_policy_def),
    .name = "firn",
    .summary = "every freedom at once: the most weighted work each moment",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_DURATION,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_SHARE | FIRN_DOES_MERGE | FIRN_DOES_REPLAN,
    .tunes = FIRN_TUNE_BATCH | FIRN_TUNE_FREEZE | FIRN_TUNE_THREADS,
    .options = options,
    .state_size = sizeof(struct one),
    .decide = decide,
    .obeys = FIRN_OBEYS_PRIORITY,
    .init = init,
    .fini = fini,
    .observe = one_observe,
    .wake_s = wake_s,
    .save = save,
    .load = load,
};
