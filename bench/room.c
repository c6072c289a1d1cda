/* room.c - how much shorter could completion times be: the policy firn beside a
 * search that knows the future.
 *
 *   room CLUSTER RESTART_S TRACE...
 *
 * Each trace is simulated under firn with the built-in profiles, and searched:
 * every job has a rank and a preferred way (type and number of GPUs). At each
 * arrival and end the jobs get their ways, lowest rank first, or the fastest
 * smaller ones that there is room for; GPUs that are left go to jobs that are
 * faster with them. Simulated annealing (Kirkpatrick et al., Science 1983)
 * changes ranks and ways TRIES times. The search knows all arrivals and run
 * times, stops jobs at will and places GPUs anywhere. A change of ways costs
 * RESTART_S in both, and the search pays again for a restart that it cuts
 * short.
 *
 * The result is no bound: there may be a better schedule that was not found. It
 * says what is left to a policy that must guess the future. Jobs are alone on
 * GPUs of one type, and rates are those forecast at submission, so it is for
 * jobs that neither share GPUs nor change their speed: language models, gangs.
 *
 * The twelve traces of the row "frenzy open" of one_policy.py, seeds 1 to 12:
 *
 *   CLUSTER=1x2:a100@40,1x1:a100@40,1x4:a800@80,2x2:a100-80
 *   firn trace gen --jobs 60 --models new --load 4 --duration-max 4h \
 *       --seed 1 -c $CLUSTER >1.csv
 *   room $CLUSTER 30 1.csv ...
 *
 * (Mean completion time of the search over that of firn: 0.978; with restarts
 * that cost nothing in both 0.981.)
 *
 * Cost: O(arrivals x jobs that are there x ways) a try; 60 jobs take 15 s.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "base/vec.h"
#include <firn/offer.h>
#include <firn/policy.h>
#include <firn/sim.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 400000, JOBS_MOST = 200, NO_WAY = -1 };
static const double TINY = 1e-9;

struct way {
    int type, gpus;
    double rate;
};

struct task {
    double submit_s, work_s; /* alone at rate 1 */
    VEC(struct way) ways;
    double rank; /* lowest first */
    int prefers; /* way */
    /* Of one try. */
    double left_s, pays_s;
    int has, had;
    bool has_begun;
};

struct room {
    VEC(struct task) tasks; /* by submission */
    int capacity[FIRN_TYPES_MAX];
    double restart_s;
    int *queue; /* of tasks that are there, by rank */
    int nqueue;
};

/* --- what the jobs of a trace could do ------------------------------------ */

static struct room *observed; /* by the policy below, which has no argument */

static void add_way(struct task *task, const struct firn_offer *offer)
{
    for (size_t i = 0; i < task->ways.n; i++) {
        struct way *way = &task->ways.at[i];
        if (way->type == offer->way.type && way->gpus == offer->way.gpus) {
            way->rate = fmax(way->rate, offer->rate);
            return;
        }
    }
    vec_add(&task->ways,
            ((struct way){offer->way.type, offer->way.gpus, offer->rate}));
}

static double cost_of(const struct way *way)
{
    return way->gpus / way->rate;
}

/* Notes the ways of new jobs, and lets all wait. */
static enum firn_status look(void *state, const struct firn_view *view,
                             struct firn_plan *plan)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    (void)state, (void)plan;
    for (size_t i = observed->tasks.n; i < view->njobs; i++) {
        struct task task = {.submit_s = jobs[i]->spec.submit_s,
                            .work_s = jobs[i]->spec.duration_s};
        size_t n;
        const struct firn_offer *offers = firn_offers(
            view, jobs[i],
            FIRN_OFFER_TYPES | FIRN_OFFER_PARALLEL | FIRN_OFFER_ELASTIC |
                FIRN_OFFER_BATCH | FIRN_OFFER_FREEZE | FIRN_OFFER_THREADS,
            &n);
        for (size_t k = 0; k < n; k++)
            add_way(&task, &offers[k]);
        for (size_t k = 1; k < task.ways.n; k++)
            if (cost_of(&task.ways.at[k]) <
                cost_of(&task.ways.at[task.prefers]))
                task.prefers = (int)k;
        if (task.ways.n > 0)
            task.rank = task.work_s * cost_of(&task.ways.at[task.prefers]);
        vec_add(&observed->tasks, task);
    }
    return FIRN_OK;
}

static const struct firn_policy_def looker = {.size = sizeof looker,
                                              .name = "looker",
                                              .summary = "looks",
                                              .paper = "none",
                                              .decide = look};

/* --- one try -------------------------------------------------------------- */

static struct task *at(struct room *room, int place)
{
    return &room->tasks.at[room->queue[place]];
}

static bool fits(const struct way *way, const int *free)
{
    return way->gpus <= free[way->type];
}

static void set_way(struct task *task, int way, int *free)
{
    if (task->has != NO_WAY)
        free[task->ways.at[task->has].type] += task->ways.at[task->has].gpus;
    if (way != NO_WAY)
        free[task->ways.at[way].type] -= task->ways.at[way].gpus;
    task->has = way;
}

/* The fastest way that fits in place of the one it has, on `most` GPUs at most;
 * NO_WAY: none is faster. */
static int faster(const struct task *task, const int *free, int most)
{
    int room[FIRN_TYPES_MAX], best = NO_WAY;
    double rate = task->has != NO_WAY ? task->ways.at[task->has].rate : 0;
    memcpy(room, free, sizeof room);
    if (task->has != NO_WAY)
        room[task->ways.at[task->has].type] += task->ways.at[task->has].gpus;
    for (size_t k = 0; k < task->ways.n; k++) {
        const struct way *way = &task->ways.at[k];
        if (way->gpus <= most && fits(way, room) && way->rate > rate) {
            rate = way->rate;
            best = (int)k;
        }
    }
    return best;
}

static void divide(struct room *room)
{
    int free[FIRN_TYPES_MAX];
    memcpy(free, room->capacity, sizeof free);
    for (int i = 0; i < room->nqueue; i++)
        at(room, i)->has = NO_WAY;
    for (int i = 0; i < room->nqueue; i++) {
        struct task *task = at(room, i);
        const struct way *wanted = &task->ways.at[task->prefers];
        set_way(task,
                fits(wanted, free) ? task->prefers
                                   : faster(task, free, wanted->gpus),
                free);
    }
    for (int i = 0; i < room->nqueue; i++) {
        int way = faster(at(room, i), free, INT_MAX);
        if (way != NO_WAY)
            set_way(at(room, i), way, free);
    }
    for (int i = 0; i < room->nqueue; i++) {
        struct task *task = at(room, i);
        if (task->has != NO_WAY && task->has != task->had) {
            task->pays_s = task->has_begun ? room->restart_s : 0;
            task->has_begun = true;
        }
        task->had = task->has;
    }
}

static double ends_in_s(const struct task *task)
{
    return task->has == NO_WAY
               ? (double)INFINITY
               : task->pays_s + task->left_s / task->ways.at[task->has].rate;
}

static void enter(struct room *room, int which)
{
    struct task *task = &room->tasks.at[which];
    int place = room->nqueue++;
    task->left_s = task->work_s;
    task->pays_s = 0;
    task->had = NO_WAY;
    task->has_begun = false;
    for (; place > 0 && at(room, place - 1)->rank > task->rank; place--)
        room->queue[place] = room->queue[place - 1];
    room->queue[place] = which;
}

/* Time passes; the sum of the completion times of those that end. */
static double pass(struct room *room, double now_s, double for_s)
{
    double sum_s = 0;
    int n = 0;
    for (int i = 0; i < room->nqueue; i++) {
        struct task *task = at(room, i);
        bool is_over = ends_in_s(task) <= for_s + TINY;
        double paid_s = fmin(task->pays_s, for_s);
        if (task->has != NO_WAY) {
            task->pays_s -= paid_s;
            task->left_s -= (for_s - paid_s) * task->ways.at[task->has].rate;
        }
        if (is_over)
            sum_s += now_s + for_s - task->submit_s;
        else
            room->queue[n++] = room->queue[i];
    }
    room->nqueue = n;
    return sum_s;
}

static double mean_jct_s(struct room *room)
{
    int n = (int)room->tasks.n, next = 0;
    double now_s = room->tasks.at[0].submit_s, sum_s = 0;
    room->nqueue = 0;
    while (next < n || room->nqueue > 0) {
        while (next < n && room->tasks.at[next].submit_s <= now_s + TINY)
            enter(room, next++);
        double for_s =
            next < n ? room->tasks.at[next].submit_s - now_s : (double)INFINITY;
        divide(room);
        for (int i = 0; i < room->nqueue; i++)
            for_s = fmin(for_s, ends_in_s(at(room, i)));
        sum_s += pass(room, now_s, for_s);
        now_s += for_s;
    }
    return sum_s / n;
}

/* --- the search ----------------------------------------------------------- */

static double search(struct room *room)
{
    struct rng rng;
    rng_seed(&rng, 1);
    double now_s = mean_jct_s(room), best_s = now_s, from_s = now_s;
    for (long i = 0; i < TRIES; i++) {
        double heat_s = 0.01 * from_s * (double)(TRIES - i) / TRIES;
        size_t n = room->tasks.n;
        struct task *a = &room->tasks.at[rng_below(&rng, n)];
        struct task *b = &room->tasks.at[rng_below(&rng, n)];
        double a_rank = a->rank, b_rank = b->rank, kind = rng_unit(&rng);
        int prefers = a->prefers;
        if (kind < 0.4) {
            a->rank *= exp(4 * (rng_unit(&rng) - 0.5));
        } else if (kind < 0.7) {
            a->rank = b_rank;
            b->rank = a_rank;
        } else {
            a->prefers = (int)rng_below(&rng, a->ways.n);
        }
        double jct_s = mean_jct_s(room);
        if (jct_s <= now_s || rng_unit(&rng) < exp((now_s - jct_s) / heat_s)) {
            now_s = jct_s;
            best_s = fmin(best_s, jct_s);
        } else {
            b->rank = b_rank;
            a->rank = a_rank;
            a->prefers = prefers;
        }
    }
    return best_s;
}

static enum firn_status simulate(const char *trace,
                                 const struct firn_cluster *cluster,
                                 double restart_s,
                                 const struct firn_policy_def *policy,
                                 double *jct_s, struct firn_error *err)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result = {0};
    options.trace = trace;
    options.cluster = cluster;
    options.policy = "firn";
    options.policy_def = policy;
    options.profiles = "builtin";
    options.restart_s = restart_s;
    enum firn_status status = firn_sim_run(&options, &result, err);
    *jct_s = result.jct_mean_s;
    return policy != NULL && status == FIRN_ESTALLED ? FIRN_OK : status;
}

/* False: `err` says why. */
static bool read_tasks(struct room *room, const char *trace,
                       const struct firn_cluster *cluster,
                       struct firn_error *err)
{
    double unused_s;
    observed = room;
    for (int i = 0; i < cluster->nnodes; i++)
        room->capacity[cluster->nodes[i].type] += cluster->nodes[i].ngpus;
    if (simulate(trace, cluster, 0, &looker, &unused_s, err) != FIRN_OK)
        return false;
    for (size_t i = 0; i < room->tasks.n; i++)
        if (room->tasks.at[i].ways.n == 0) {
            firn_fail(err, FIRN_EINVAL, "%s: job %zu has no profile", trace, i);
            return false;
        }
    if (room->tasks.n == 0 || room->tasks.n > JOBS_MOST) {
        firn_fail(err, FIRN_EINVAL,
                  "%s has %zu jobs: the search is for 1 to %d of them", trace,
                  room->tasks.n, JOBS_MOST);
        return false;
    }
    room->queue = mem_new(room->tasks.n + 1, sizeof *room->queue);
    return true;
}

static void close_room(struct room *room)
{
    for (size_t i = 0; i < room->tasks.n; i++)
        vec_release(&room->tasks.at[i].ways);
    vec_release(&room->tasks);
    mem_free(room->queue);
}

/* NaN: it is no time. */
static double seconds_of(const char *text)
{
    char *end;
    double time_s = strtod(text, &end);
    return end != text && *end == '\0' && time_s >= 0 ? time_s : (double)NAN;
}

int main(int argc, char **argv)
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    double sums_s[2] = {0};
    double restart_s = argc > 3 ? seconds_of(argv[2]) : (double)NAN;
    if (isnan(restart_s)) {
        fprintf(stderr, "usage: room CLUSTER RESTART_S TRACE...\n");
        return 2;
    }
    if (firn_cluster_open(&cluster, argv[1], &err) != FIRN_OK) {
        fprintf(stderr, "room: %s\n", err.text);
        return 2;
    }
    printf("trace,firn_s,search_s,ratio\n");
    for (int i = 3; i < argc; i++) {
        struct room room = {.restart_s = restart_s};
        double firn_s = 0;
        if (!read_tasks(&room, argv[i], &cluster, &err) ||
            simulate(argv[i], &cluster, room.restart_s, NULL, &firn_s, &err) !=
                FIRN_OK) {
            fprintf(stderr, "room: %s\n", err.text);
            return 1;
        }
        double search_s = search(&room);
        printf("%s,%.1f,%.1f,%.3f\n", argv[i], firn_s, search_s,
               search_s / firn_s);
        fflush(stdout);
        sums_s[0] += firn_s;
        sums_s[1] += search_s;
        close_room(&room);
    }
    printf("mean,%.1f,%.1f,%.3f\n", sums_s[0] / (argc - 3),
           sums_s[1] / (argc - 3), sums_s[1] / sums_s[0]);
    firn_cluster_release(&cluster);
    return 0;
}
