/* pollux.c - the most goodput, shared so that no job is left far behind.
 *
 * Each job has a speedup over its fair share: how much faster it would train
 * on n nodes with r GPUs, its batch re-tuned for the most goodput, than on one
 * node with F = (GPUs / jobs, rounded up). Each round looks for the allocation
 * with the largest generalised mean of
 *
 *     u_j = speedup_j(n, r) x (nodes / GPUs) x (1 if job j stays as it is,
 *           else max(T_j - R_j x delta, 0) / (T_j + delta)) + 0.001
 *
 * with power p = -1, where T_j is the job's age, R_j how often it has been
 * restarted and delta what a restart costs (Qiao et al., Pollux, OSDI 2021,
 * section 4.2; the offset and the factor nodes / GPUs are the artifact's). A
 * job may at most double the most GPUs it has held, as nothing is known beyond
 * that, and jobs over several nodes do not share a node: they would slow each
 * other down on the network.
 *
 * The paper searches with a genetic algorithm on two objectives and takes the
 * best of the first. Here math/allot.h searches for that one alone; in a
 * hundredth of the time its fitness is mostly higher and at worst half a
 * percent lower (bench/shares.c, tests/math/test_allot.c). The paper's
 * scheduler sleeps between rounds; this one also decides when jobs or nodes
 * come and go. A speedup without a forecast is taken as r / F. A job that the
 * factor would leave nothing keeps a millionth, so that it gets GPUs that no
 * other job wants.
 *
 * Pollux was made for one type of GPU. With several, a job's GPUs are all of
 * one type, and speedups refer to the job's reference type. Gangs get what
 * they ask for or nothing. Left out: changing the size of the cluster (4.2.3).
 *
 * Invariants: (1) the plan depends on the view and the options alone; (2) of a
 * queue of more than QUEUE_MIN jobs only those are considered that could get
 * GPUs (firn_view_foremost); (3) of equal jobs that have not begun the older
 * has at least as many GPUs (policy/peers.h): the search takes either. Cost:
 * about 2 ms for 30 jobs on 16 nodes and 30 ms for 100 on 64, and the forecasts
 * that the search asks for.
 */
#include "math/allot.h"
#include "policy/peers.h"
#include <firn/policy.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_MIN = 1000 };

struct pollux {
    double interval_s, p, restart_s;
    int effort, work;
    bool avoids;
};

static const struct firn_option options[] = {
    FIRN_NUMBER(struct pollux, interval_s, "interval", "60", 1, 1e9,
                "seconds until the next decision, if no event comes before"),
    FIRN_NUMBER(struct pollux, p, "p", "-1", -10, 1,
                "power of the mean over jobs: lower is fairer, 1 is the sum"),
    FIRN_NUMBER(struct pollux, restart_s, "restart", "30", 0, 1e9,
                "assumed cost of a restart in seconds"),
    FIRN_BOOL(struct pollux, avoids, "avoid-interference", "yes",
              "no node has two jobs that span several nodes"),
    FIRN_INT(struct pollux, effort, "effort", "16", 0, 10000,
             "the search ends after this many tries a job without success"),
    FIRN_INT(struct pollux, work, "work", "1000", 1, 1e6,
             "limit on the allocations tried for each job in one round"),
    {0},
};

struct task {
    const struct firn_job *job;
    double served_gpu_s;
    double base; /* rate on the fair share; NaN: not known */
};

struct round {
    const struct pollux *pollux;
    const struct firn_view *view;
    struct task *task;
    struct allot_row *row;
    int njobs, fair; /* GPUs each */
    double scale;    /* nodes / GPUs, of those that are up */
    struct allot_problem problem;
};

/* ---- the problem ---- */

static int less_served_first(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    if (x->served_gpu_s != y->served_gpu_s)
        return firn_cmp(x->served_gpu_s, y->served_gpu_s);
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

static double rate(const struct round *round, const struct firn_job *job,
                   int nodes, int gpus, firn_type_id type)
{
    struct firn_way way = {
        .gpus = gpus, .nodes = nodes, .type = type, .tunes = FIRN_TUNE_BATCH};
    return firn_view_rate(round->view, job, &way);
}

/* The fair share is on one node even where no node is so large; where the
 * forecast says that this cannot run, as few nodes as can be. */
static double base_rate(const struct round *round, const struct firn_job *job,
                        int most)
{
    bool one_type = round->view->cluster->ntypes == 1;
    firn_type_id type = one_type ? 0 : FIRN_ANY_TYPE;
    double base = rate(round, job, 1, round->fair, type);
    if (base == 0)
        base =
            rate(round, job, 0, round->fair < most ? round->fair : most, type);
    return base > 0 ? base : (double)NAN;
}

static double value(void *ctx, int row, int group, int cols, int sum)
{
    const struct round *round = ctx;
    const struct task *task = &round->task[row];
    double speedup =
        isnan(task->base)
            ? (double)NAN
            : rate(round, task->job, cols, sum, group) / task->base;
    if (isnan(speedup))
        speedup = (double)sum / round->fair;
    return speedup * round->scale;
}

static struct allot_cells cells_of(const struct round *round,
                                   const struct firn_alloc *held)
{
    struct allot_cell *cells =
        firn_view_alloc(round->view, (size_t)held->nparts * sizeof *cells);
    int n = 0;
    for (int i = 0; i < held->nparts && !held->is_shared; i++) {
        const struct firn_part *part = &held->parts[i];
        if (n == 0 || cells[n - 1].col != part->node)
            cells[n++].col = part->node;
        cells[n - 1].count += __builtin_popcountll(part->gpus);
    }
    return (struct allot_cells){cells, n};
}

/* The factor on a job's speedup if it is restarted now. */
static double change(const struct round *round, const struct firn_job *job)
{
    double age_s = round->view->now_s - job->spec.submit_s;
    double restart_s = round->pollux->restart_s;
    int restarts = job->starts > 1 ? job->starts - 1 : 0;
    double rest_s = age_s - restarts * restart_s;
    double share = age_s + restart_s > 0 ? rest_s / (age_s + restart_s) : 1;
    return share > 1e-6 ? share : 1e-6;
}

static void fill_row(struct round *round, int i)
{
    const struct firn_job *job = round->task[i].job;
    int most = firn_view_gpus_max(round->view, job, FIRN_TUNE_BATCH);
    round->task[i].base = base_rate(round, job, most);
    int grown = job->gpus_most > 0 ? 2 * job->gpus_most : 1;
    most = grown < most ? grown : most;
    round->row[i] = (struct allot_row){
        .least = job->spec.gpus_min,
        .most = most > job->spec.gpus_min ? most : job->spec.gpus_min,
        .groups = job->type_mask,
        .change = change(round, job),
        .now = cells_of(round, &job->held)};
}

static void fill_columns(struct round *round, const struct firn_plan *plan)
{
    const struct firn_cluster *cluster = round->view->cluster;
    size_t n = (size_t)cluster->nnodes;
    int *room = firn_view_alloc(round->view, n * sizeof *room);
    int *group = firn_view_alloc(round->view, n * sizeof *group);
    int up = 0;
    for (int i = 0; i < cluster->nnodes; i++) {
        for (int b = 0; b * FIRN_BOARD_GPUS < cluster->nodes[i].ngpus; b++)
            room[i] += __builtin_popcountll(firn_plan_free_on(plan, i, b));
        group[i] = cluster->nodes[i].type;
        up += cluster->nodes[i].is_up;
    }
    round->problem.cols = cluster->nnodes;
    round->problem.room = room;
    round->problem.group = group;
    round->scale = (double)up / round->view->gpus_up;
}

/* The same time and seed give the same numbers. */
static uint64_t seed_of(const struct firn_view *view)
{
    uint64_t bits;
    memcpy(&bits, &view->now_s, sizeof bits);
    return view->seed * 0x9e3779b97f4a7c15u ^ bits;
}

static void take_tasks(struct round *round)
{
    const struct firn_view *view = round->view;
    size_t n;
    const struct firn_job *const *jobs =
        firn_view_foremost(view, QUEUE_MIN, &n);
    round->njobs = (int)n;
    round->task = firn_view_alloc(view, n * sizeof *round->task);
    for (size_t i = 0; i < n; i++)
        round->task[i] = (struct task){
            .job = jobs[i],
            .served_gpu_s = firn_job_served_gpu_s(jobs[i], view->now_s)};
    qsort(round->task, n, sizeof *round->task, less_served_first);
}

static void fill_problem(struct round *round, const struct firn_plan *plan)
{
    const struct firn_view *view = round->view;
    take_tasks(round);
    size_t n = (size_t)round->njobs;
    round->fair = (view->gpus_up + round->njobs - 1) / round->njobs;
    round->row = firn_view_alloc(view, n * sizeof *round->row);
    round->problem =
        (struct allot_problem){.rows = round->njobs,
                               .row = round->row,
                               .value = value,
                               .ctx = round,
                               .power = round->pollux->p,
                               .offset = 1e-3,
                               .one_spread = round->pollux->avoids,
                               .seed = seed_of(view),
                               .effort = round->pollux->effort,
                               .max_work = (long)round->pollux->work * (long)n};
    fill_columns(round, plan);
    for (int i = 0; i < round->njobs; i++)
        fill_row(round, i);
}

/* ---- the plan ---- */

/* GPUs of each node that are given away, board by board. */
struct taken {
    uint64_t *board;
    int *first; /* board of each node */
};

/* Marks the GPUs that are not free in the empty plan. */
static struct taken taken_none(const struct firn_view *view,
                               const struct firn_plan *plan)
{
    const struct firn_cluster *cluster = view->cluster;
    struct taken taken = {0};
    int boards = 0;
    taken.first =
        firn_view_alloc(view, (size_t)cluster->nnodes * sizeof *taken.first);
    for (int i = 0; i < cluster->nnodes; i++) {
        taken.first[i] = boards;
        boards +=
            (cluster->nodes[i].ngpus + FIRN_BOARD_GPUS - 1) / FIRN_BOARD_GPUS;
    }
    taken.board = firn_view_alloc(view, (size_t)boards * sizeof *taken.board);
    for (int i = 0; i < cluster->nnodes; i++)
        for (int b = 0; b * FIRN_BOARD_GPUS < cluster->nodes[i].ngpus; b++)
            taken.board[taken.first[i] + b] = ~firn_plan_free_on(plan, i, b);
    return taken;
}

static bool stays(const struct round *round, int row, struct allot_cells to)
{
    struct allot_cells now = round->row[row].now;
    return now.n > 0 && now.n == to.n &&
           memcmp(now.at, to.at, (size_t)to.n * sizeof *to.at) == 0;
}

/* The first free GPUs of the node, as parts behind those of `alloc`. */
static void take_from(const struct round *round, struct taken *taken,
                      struct allot_cell cell, struct firn_alloc *alloc)
{
    int ngpus = round->view->cluster->nodes[cell.col].ngpus;
    for (int board = 0; cell.count > 0; board++) {
        uint64_t *used = &taken->board[taken->first[cell.col] + board];
        int here = ngpus - board * FIRN_BOARD_GPUS;
        uint64_t gpus = 0;
        for (int i = 0; i < FIRN_BOARD_GPUS && i < here && cell.count > 0; i++)
            if ((*used >> i & 1) == 0) {
                gpus |= (uint64_t)1 << i;
                cell.count--;
                alloc->ngpus++;
            }
        *used |= gpus;
        if (gpus != 0)
            alloc->parts[alloc->nparts++] =
                (struct firn_part){cell.col, board, gpus};
    }
}

static void place(const struct round *round, struct taken *taken, int row,
                  struct allot_cells to, struct firn_plan *plan)
{
    struct firn_alloc alloc = FIRN_ALLOC_NONE;
    size_t parts = 0;
    for (int i = 0; i < to.n; i++) {
        int ngpus = round->view->cluster->nodes[to.at[i].col].ngpus;
        parts += (size_t)(ngpus / FIRN_BOARD_GPUS + 1);
    }
    alloc.parts = firn_view_alloc(round->view, parts * sizeof *alloc.parts);
    for (int i = 0; i < to.n; i++)
        take_from(round, taken, to.at[i], &alloc);
    firn_plan_place(plan, round->task[row].job, &alloc);
}

static void write_plan(const struct round *round,
                       const struct allot_answer *answer,
                       struct firn_plan *plan)
{
    struct taken taken = taken_none(round->view, plan);
    for (int i = 0; i < round->njobs; i++) {
        if (!stays(round, i, answer->row[i]))
            continue;
        const struct firn_alloc *held = &round->task[i].job->held;
        firn_plan_keep(plan, round->task[i].job);
        for (int k = 0; k < held->nparts; k++)
            taken.board[taken.first[held->parts[k].node] +
                        held->parts[k].board] |= held->parts[k].gpus;
    }
    for (int i = 0; i < round->njobs; i++)
        if (answer->row[i].n > 0 && !stays(round, i, answer->row[i]))
            place(round, &taken, i, answer->row[i], plan);
}

/* (3) */
static void put_older_first(const struct round *round,
                            struct allot_answer *answer)
{
    size_t n = (size_t)round->njobs;
    struct peer *peers = firn_view_alloc(round->view, n * sizeof *peers);
    struct allot_cells *row = firn_view_alloc(round->view, n * sizeof *row);
    for (size_t i = 0; i < n; i++) {
        peers[i] =
            (struct peer){.job = round->task[i].job,
                          .kind = peers_kind((uint64_t)round->row[i].most,
                                             round->task[i].base)};
        for (int k = 0; k < answer->row[i].n; k++)
            peers[i].gets += answer->row[i].at[k].count;
    }
    const size_t *from = peers_settle(round->view, peers, n);
    for (size_t i = 0; i < n; i++)
        row[i] = answer->row[from[i]];
    answer->row = row;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct round round = {.pollux = state, .view = view};
    if (view->njobs == 0 || view->gpus_up == 0)
        return FIRN_OK;
    fill_problem(&round, plan);
    struct allot_answer answer = allot_run(&round.problem, view->scratch);
    put_older_first(&round, &answer);
    write_plan(&round, &answer, plan);
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct pollux *pollux = state;
    return view->nrunning > 0 ? view->now_s + pollux->interval_s : INFINITY;
}

const struct firn_policy_def firn_policy_pollux = {
    .size = sizeof(struct firn_policy_def),
    .name = "pollux",
    .summary = "most goodput, shared fairly; sizes and places jobs anew",
    .paper = "Qiao et al., Pollux, OSDI 2021",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE,
    .tunes = FIRN_TUNE_BATCH,
    .options = options,
    .state_size = sizeof(struct pollux),
    .decide = decide,
    .wake_s = wake_s,
};
