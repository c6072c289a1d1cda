/* titanpolicy.c - srtf, tiresias, optimus and themis as TitanSched has them.
 *
 * All four share one way of starting jobs: the jobs that may start are found
 * by counting GPUs, and only then are they placed, largest first, each on as
 * few nodes as it needs or not at all (consolidate). Where the papers and the
 * artifact differ, the artifact is followed; titan.c lists the quirks.
 *
 * Cost: O(jobs log jobs) a round; optimus O(GPUs x jobs).
 */
#include "compat/titan.h"
#include <firn/policy.h>

#include <math.h>
#include <stdlib.h>

/* ---- deciding ---- */

/* A task in an order: by key, then tie, then as it was found. */
struct turn {
    struct titan_task *task;
    double key, tie;
    size_t at;
    int gpus;
};

static int by_key(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int c = firn_cmp(x->key, y->key);
    c = c ? c : firn_cmp(x->tie, y->tie);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

static void sort_turns(struct turn *turns, size_t n)
{
    if (n > 1)
        qsort(turns, n, sizeof *turns, by_key);
}

/* The state of one decision: the artifact's lists, and the plan so far. */
struct meeting {
    struct titan *t;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct turn *turns; /* room for every job */
    size_t n;
    struct turn *starts;
    size_t nstarts;
    int room; /* GPUs, by counting */
};

static void invite(struct meeting *m, const int *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct titan_task *task = &m->t->tasks.at[ids[i]];
        m->turns[m->n] =
            (struct turn){.task = task, .at = m->n, .gpus = task->gpus};
        m->n++;
    }
}

static struct meeting meet(const struct firn_view *view, struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    size_t bytes = (view->njobs + 1) * sizeof(struct turn);
    struct meeting m = {.t = view->forecaster,
                        .view = view,
                        .plan = plan,
                        .turns = firn_view_alloc(view, bytes),
                        .starts = firn_view_alloc(view, bytes),
                        .room = view->gpus_free};
    for (size_t i = 0; i < view->njobs; i++) {
        struct titan_task *task = &m.t->tasks.at[jobs[i]->id];
        task->job = jobs[i];
        task->has_changed = task->renews = false;
        task->deserves_gpu_s = task->deserved_gpu_s;
    }
    firn_plan_keep_all(plan);
    return m;
}

double titan_expected_s(const struct titan *t, const struct titan_task *task,
                        int n)
{
    const struct titanspeed_pace *pace =
        &t->speed.kinds.at[task->kind].expects[n];
    return rint((task->work - task->done) / pace->samples * pace->iter_s);
}

static void stop_task(struct meeting *m, const struct turn *turn)
{
    firn_plan_drop(m->plan, turn->task->job);
    firn_plan_note(m->plan, turn->task->job, "gave way at a round");
}

static void start_task(struct meeting *m, const struct turn *turn)
{
    m->starts[m->nstarts] = *turn;
    m->starts[m->nstarts].key = -turn->gpus;
    m->starts[m->nstarts].tie = 0;
    m->starts[m->nstarts].at = m->nstarts;
    m->nstarts++;
}

/* consolidate: starts by size, and notes the order of the lists to come. */
static enum firn_status start_all(struct meeting *m)
{
    m->t->line.n = 0;
    for (size_t i = 0; i < m->n; i++)
        vec_add(&m->t->line, m->turns[i].task->job->id);
    sort_turns(m->starts, m->nstarts);
    for (size_t i = 0; i < m->nstarts; i++) {
        const struct turn *turn = &m->starts[i];
        if (!firn_plan_give(m->plan, turn->task->job, turn->gpus))
            firn_plan_note(
                m->plan, turn->task->job, "no %d GPUs on %d nodes", turn->gpus,
                (turn->gpus + TITAN_NODE_GPUS - 1) / TITAN_NODE_GPUS);
    }
    return FIRN_OK;
}

/* A job that fits by counting starts or stays; any other waits. */
static void serve(struct meeting *m, struct turn *turn)
{
    bool runs = turn->task->held > 0;
    if (turn->gpus > m->room) {
        if (runs)
            stop_task(m, turn);
        else
            firn_plan_note(m->plan, turn->task->job, "wants %d GPUs, %d left",
                           turn->gpus, m->room);
        return;
    }
    m->room -= turn->gpus;
    turn->task->renews = runs;
    if (!runs)
        start_task(m, turn);
}

/* no-preemption */
static enum firn_status decide_srtf(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    for (size_t i = 0; i < m.n; i++) {
        m.turns[i].key =
            titan_expected_s(m.t, m.turns[i].task, m.turns[i].gpus);
        m.turns[i].tie = m.turns[i].task->submit_s;
    }
    sort_turns(m.turns, m.n);
    for (size_t i = 0; i < m.n; i++)
        serve(&m, &m.turns[i]);
    return start_all(&m);
}

/* Two queues; ties in the lower one go by the order of falling. */
static enum firn_status decide_tiresias(void *state,
                                        const struct firn_view *view,
                                        struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->running.at, m.t->running.n);
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    for (size_t i = 0; i < m.n; i++) {
        const struct titan_task *task = m.turns[i].task;
        m.turns[i].key = task->queue;
        m.turns[i].tie = task->submit_s;
        m.turns[i].at = (size_t)(task->queue ? task->fell : task->job->id);
    }
    sort_turns(m.turns, m.n);
    m.room = view->gpus_up;
    for (size_t i = 0; i < m.n; i++)
        serve(&m, &m.turns[i]);
    return start_all(&m);
}

/* One GPU each by submission, then one more to the largest gain while there is
 * one: wrong-job, `last` is asked for every gain but the first. */
static void share_out(const struct meeting *m, double *gains)
{
    const struct titan *t = m->t;
    const struct titan_task *last = m->turns[m->n - 1].task;
    int limit = t->speed.kinds.at[last->kind].gpus_max;
    int room = m->view->gpus_up;
    for (size_t i = 0; i < m->n; i++) {
        const struct titan_task *task = m->turns[i].task;
        m->turns[i].gpus = room > 0;
        gains[i] = room > 0 ? titan_expected_s(t, task, 1) -
                                  titan_expected_s(t, task, 2)
                            : 0;
        room -= room > 0;
    }
    for (; room > 0; room--) {
        size_t best = 0;
        for (size_t i = 1; i < m->n; i++)
            if (gains[i] > gains[best])
                best = i;
        if (!(gains[best] > 0))
            return;
        int gpus = ++m->turns[best].gpus;
        gains[best] = gpus + 1 > limit
                          ? 0
                          : titan_expected_s(t, last, gpus) -
                                titan_expected_s(t, last, gpus + 1);
    }
}

static enum firn_status decide_optimus(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    (void)state;
    invite(&m, m.t->running.at, m.t->running.n);
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    if (m.n == 0)
        return FIRN_OK;
    for (size_t i = 0; i < m.n; i++)
        m.turns[i].key = m.turns[i].task->submit_s;
    sort_turns(m.turns, m.n);
    share_out(&m, firn_view_alloc(view, m.n * sizeof(double)));
    for (size_t i = 0; i < m.n; i++) {
        const struct turn *turn = &m.turns[i];
        if (turn->gpus == turn->task->held)
            continue;
        if (turn->task->held > 0)
            stop_task(&m, turn);
        if (turn->gpus > 0)
            start_task(&m, turn);
    }
    return start_all(&m);
}

/* Finish-time fairness as the artifact reckons it: twice-running. */
static double rho(const struct meeting *m, const struct titan_task *task)
{
    const struct titan *t = m->t;
    double deserved = task->deserves_gpu_s, served = task->served_gpu_s;
    if (deserved == 0)
        return 1;
    double stay_s = task->stay_s;
    if (task->held == 0)
        stay_s += m->view->now_s - task->since_s;
    double share = m->view->gpus_up / (2 * (double)t->running.n + 1e-3);
    int alone = (int)fmax(1, floor(fmin(share, task->gpus)));
    double shared_s = stay_s + titan_expected_s(t, task, task->gpus) *
                                   (served / (deserved + 1e-3));
    double alone_s = task->run_s * (deserved / (served + 1e-3)) +
                     (stay_s - task->run_s) + titan_expected_s(t, task, alone);
    return shared_s / alone_s;
}

/* Adds each job's equal share of GPU time since the last round. */
static void deserve(const struct meeting *m)
{
    double now = m->view->now_s;
    double last_s = now - m->t->world.cadence.interval_s;
    double share = m->view->gpus_up / ((double)m->view->njobs + 1e-3);
    for (size_t i = 0; i < m->n; i++) {
        struct titan_task *task = m->turns[i].task;
        double begin_s = fmax(fmax(last_s, 0), task->submit_s);
        task->deserves_gpu_s =
            task->deserved_gpu_s + fmin(share, task->gpus) * (now - begin_s);
    }
}

/* All waiting jobs, and the running ones whose lease is over: filtered-run. */
static enum firn_status decide_themis(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    struct meeting m = meet(view, plan);
    size_t n = 0;
    (void)state;
    invite(&m, m.t->waiting.at, m.t->waiting.n);
    invite(&m, m.t->running.at, m.t->running.n);
    deserve(&m);
    for (size_t i = 0; i < m.n; i++) {
        struct turn turn = m.turns[i];
        if (turn.task->held > 0 &&
            view->now_s - turn.task->leased_s < TITAN_LEASE_S) {
            turn.key = INFINITY; /* after all competing jobs */
        } else {
            turn.key = 1 / rho(&m, turn.task);
            m.room += turn.task->held;
            n++;
        }
        m.turns[i] = turn;
    }
    sort_turns(m.turns, m.n);
    size_t kept = (size_t)rint((double)n * 0.8);
    for (size_t i = 0; i < kept; i++)
        serve(&m, &m.turns[i]);
    for (size_t i = kept; i < n; i++)
        if (m.turns[i].task->held == 0)
            firn_plan_note(plan, m.turns[i].task->job,
                           "among the fairest fifth: rho %.3g",
                           1 / m.turns[i].key);
    return start_all(&m);
}

double titan_wake_s(const void *state, const struct firn_view *view)
{
    const struct titan *t = view->forecaster;
    (void)state;
    return view->njobs > 0 ? view->now_s + t->world.cadence.interval_s
                           : INFINITY;
}

static const struct firn_policy_def titan_srtf = {
    .size = sizeof(struct firn_policy_def),
    .name = "srtf",
    .summary = "shortest predicted time first, not preemptive",
    .decide = decide_srtf,
    .wake_s = titan_wake_s,
};

static const struct firn_policy_def titan_tiresias = {
    .size = sizeof(struct firn_policy_def),
    .name = "tiresias",
    .summary = "two queues by GPU service, 14400 GPU-seconds",
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_tiresias,
    .wake_s = titan_wake_s,
};

static const struct firn_policy_def titan_optimus = {
    .size = sizeof(struct firn_policy_def),
    .name = "optimus",
    .summary = "GPUs one by one to the largest predicted gain",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE,
    .decide = decide_optimus,
    .wake_s = titan_wake_s,
};

static const struct firn_policy_def titan_themis = {
    .size = sizeof(struct firn_policy_def),
    .name = "themis",
    .summary = "leases to the least fairly treated, 0.8 of them",
    .does = FIRN_DOES_PREEMPT,
    .decide = decide_themis,
    .wake_s = titan_wake_s,
};

const struct world_policy titan_policies[] = {
    {.name = "srtf", .def = &titan_srtf, .interval_s = 300},
    {.name = "tiresias", .def = &titan_tiresias, .interval_s = 300},
    {.name = "optimus",
     .def = &titan_optimus,
     .interval_s = 300,
     .quirks = TITAN_ELASTIC},
    {.name = "themis", .def = &titan_themis, .interval_s = 60},
    {.name = "ymir",
     .def = &titan_ymir,
     .interval_s = 120,
     .quirks = TITAN_ELASTIC},
    {0},
};
