/* lucid.c - short jobs first, never preempted, packed in pairs when they wait.
 *
 * Priority is estimated run time x GPUs, the smallest first. A job gets GPUs
 * of its own if there are any. If not, it may be packed onto those of a
 * running job: "indolent", because pairs are formed only where little is lost
 * (Hu et al., Lucid, ASPLOS 2023, sections 3.2 to 3.4):
 *
 *   - each job has a sharing score from how busy it keeps a GPU: tiny 0,
 *     medium 1, jumbo 2; the two scores add up to `limit` (2) at most, so that
 *     a jumbo job goes only with a tiny one;
 *   - both ask for the same number of GPUs, on one node: pairs of distributed
 *     jobs would wait for each other;
 *   - at most two jobs a GPU, and their memory fits together;
 *   - the guest is not estimated to run much longer than its host (`longer`,
 *     the artifact's rule);
 *   - neither would go slower than `slowdown`, where that is known.
 *
 * Of several hosts the one that has run longest is taken. With `busy` packing
 * waits until so much of the cluster is held: the paper's switch by load, with
 * the load of now in place of its forecast.
 *
 * Lucid measures jobs for some minutes on a few nodes set apart and learns the
 * scores with a decision tree. Here a score is the utilisation the engine
 * expects, against two thresholds: on Lucid's 66 measured jobs 0.25 and 0.60
 * give 53 their published class, the most that two thresholds can. A job of
 * which nothing is known is medium, and its memory fits. Run times are told
 * (`estimates=oracle`) or learnt: the mean of the work of finished jobs of the
 * same application, else group, else of all; before the first has finished all
 * are taken to be equally long. The paper's boosted trees are left out.
 *
 * In firn a host must hold its GPUs as half-shares before anybody can join, so
 * jobs that accept sharing get half-shares from the start.
 *
 * Invariants: (1) a running job is never touched; (2) two jobs at most are on
 * a GPU, and they hold the same GPUs.
 * Cost: O(waiting log waiting + running log running) a round with a queue; a
 * job is compared with the hosts of its size.
 */
#include "base/map.h"
#include "base/vec.h"
#include <firn/policy.h>

#include <stdlib.h>
#include <string.h>

enum { NOTES = 64 }; /* waiting jobs that are told why, each round */

enum { ORACLE, HISTORY };
static const char *const estimates[] = {"oracle", "history", NULL};

/* Work of jobs that have finished. */
struct past {
    double sum_s;
    long n;
};

/* A job that has been submitted, by id. */
struct seen {
    int app, group;          /* in the maps */
    struct firn_report last; /* its last report */
};

struct lucid {
    int estimates;
    bool pack, skip, one_node;
    int limit;
    double tiny_below, jumbo_above;
    double memory, longer, slowdown, busy;

    /* With estimates=history only. */
    struct map apps, groups;
    VEC(struct past) by_app;
    VEC(struct past) by_group;
    struct past all;
    VEC(struct seen) seen;
};

#define OPTION(field) offsetof(struct lucid, field)

static const struct firn_option options[] = {
    {.name = "estimates",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "oracle",
     .choices = estimates,
     .help = "run times as told, or learnt from finished jobs",
     .offset = OPTION(estimates)},
    {.name = "pack",
     .type = FIRN_OPTION_BOOL,
     .fallback = "1",
     .help = "put two jobs on the same GPUs at all",
     .offset = OPTION(pack)},
    {.name = "limit",
     .type = FIRN_OPTION_INT,
     .fallback = "2",
     .min = 0,
     .max = 4,
     .help = "the most that the sharing scores of a pair (tiny 0, medium 1, "
             "jumbo 2) may add up to",
     .offset = OPTION(limit)},
    {.name = "tiny-below",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0.25",
     .min = 0,
     .max = 1,
     .help = "a job that keeps a GPU less busy is tiny",
     .offset = OPTION(tiny_below)},
    {.name = "jumbo-above",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0.6",
     .min = 0,
     .max = 1,
     .help = "a job that keeps a GPU busier is jumbo",
     .offset = OPTION(jumbo_above)},
    {.name = "memory",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "1",
     .min = 0,
     .max = 1,
     .help = "share of a GPU's memory that a pair may take",
     .offset = OPTION(memory)},
    {.name = "longer",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "2",
     .min = 0,
     .max = 1e9,
     .help = "a guest is estimated to run at most so many times as long as "
             "its host",
     .offset = OPTION(longer)},
    {.name = "slowdown",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "1.5",
     .min = 1,
     .max = 1e9,
     .help = "the most that a step of either may take beside the other / alone",
     .offset = OPTION(slowdown)},
    {.name = "busy",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .help = "pack only while at least this share of the GPUs is held",
     .offset = OPTION(busy)},
    {.name = "skip",
     .type = FIRN_OPTION_BOOL,
     .fallback = "1",
     .help = "let jobs behind pass one that does not fit",
     .offset = OPTION(skip)},
    {.name = "one-node",
     .type = FIRN_OPTION_BOOL,
     .fallback = "1",
     .help = "a job that fits on a node waits for one that can hold it",
     .offset = OPTION(one_node)},
    {0},
};

/* ---- how long jobs take ---- */

static double mean_s(const struct past *past)
{
    return past->sum_s / (double)past->n;
}

/* Run time on the GPUs asked for; 1 when nothing has been learnt. */
static double estimate_s(const struct lucid *lucid, const struct firn_job *job)
{
    if (lucid->estimates == ORACLE)
        return job->spec.duration_s;
    int app = *job->spec.app ? map_find(&lucid->apps, job->spec.app) : -1;
    if (app >= 0 && lucid->by_app.at[app].n > 0)
        return mean_s(&lucid->by_app.at[app]);
    int group = map_find(&lucid->groups, job->spec.group);
    if (group >= 0 && lucid->by_group.at[group].n > 0)
        return mean_s(&lucid->by_group.at[group]);
    return lucid->all.n > 0 ? mean_s(&lucid->all) : 1;
}

static void add(struct past *past, double work_s)
{
    past->sum_s += work_s;
    past->n++;
}

static void meet(struct lucid *lucid, const struct firn_event *event)
{
    size_t id = (size_t)event->job;
    struct seen seen = {map_add(&lucid->apps, event->spec->app),
                        map_add(&lucid->groups, event->spec->group),
                        {0, 0, 0}};
    vec_reserve(&lucid->by_app, lucid->apps.n);
    vec_reserve(&lucid->by_group, lucid->groups.n);
    vec_reserve(&lucid->seen, id + 1);
    lucid->seen.at[id] = seen;
    if (lucid->seen.n <= id)
        lucid->seen.n = id + 1;
}

/* The work it has done in all, going by its last report. */
static void learn(struct lucid *lucid, const struct firn_event *event)
{
    const struct seen *seen = &lucid->seen.at[event->job];
    const struct firn_report *last = &seen->last;
    double end_s = event->finished_s > 0 ? event->finished_s : event->at_s;
    double work_s = last->done_s + last->rate * (end_s - last->resumes_s);
    if (!(work_s > 0))
        return; /* it never told how fast it was */
    add(&lucid->by_app.at[seen->app], work_s);
    add(&lucid->by_group.at[seen->group], work_s);
    add(&lucid->all, work_s);
}

static void observe(void *state, const struct firn_event *event)
{
    struct lucid *lucid = state;
    if (lucid->estimates == ORACLE)
        return;
    if (event->kind == FIRN_EVENT_SUBMIT)
        meet(lucid, event);
    bool is_known = event->job >= 0 && (size_t)event->job < lucid->seen.n;
    if (event->kind == FIRN_EVENT_REPORT && is_known)
        lucid->seen.at[event->job].last = event->report;
    if (event->kind == FIRN_EVENT_DONE && is_known)
        learn(lucid, event);
}

static void fini(void *state)
{
    struct lucid *lucid = state;
    map_release(&lucid->apps);
    map_release(&lucid->groups);
    vec_release(&lucid->by_app);
    vec_release(&lucid->by_group);
    vec_release(&lucid->seen);
}

/* ---- one round ---- */

/* Who may be joined: holds half-shares on one node, alone. */
struct host {
    const struct firn_job *job;
    bool is_taken;
};

struct round {
    const struct lucid *lucid;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct host *running; /* by GPUs, then start; NULL: not looked yet */
    struct host *started; /* in this round */
    size_t nrunning, nstarted;
    int *biggest; /* GPUs of the largest node up, by type; NULL: not looked */
    struct {
        uint32_t types;
        int gpus;
    } full[2]; /* no such node, or not so many, is free; by one_node */
};

struct turn {
    const struct firn_job *job;
    double priority;
};

static int by_priority(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int order = firn_cmp(x->priority, y->priority);
    return order ? order : firn_cmp(x->job->id, y->job->id);
}

static struct turn *queue_of(const struct lucid *lucid,
                             const struct firn_view *view)
{
    const struct firn_job *const *waiting = firn_view_waiting(view);
    struct turn *queue = firn_view_alloc(view, view->nwaiting * sizeof *queue);
    for (size_t i = 0; i < view->nwaiting; i++)
        queue[i] = (struct turn){waiting[i], estimate_s(lucid, waiting[i]) *
                                                 waiting[i]->spec.gpus};
    qsort(queue, view->nwaiting, sizeof *queue, by_priority);
    return queue;
}

/* ---- GPUs of its own ---- */

/* Could one node that is up hold the job, were it free? */
static bool fits_node(struct round *round, const struct firn_job *job)
{
    const struct firn_cluster *cluster = round->view->cluster;
    if (round->biggest == NULL) {
        round->biggest =
            firn_view_alloc(round->view, FIRN_TYPES_MAX * sizeof(int));
        for (int i = 0; i < cluster->nnodes; i++) {
            const struct firn_node *node = &cluster->nodes[i];
            if (node->is_up && node->ngpus > round->biggest[node->type])
                round->biggest[node->type] = node->ngpus;
        }
    }
    for (int t = 0; t < cluster->ntypes; t++)
        if ((job->type_mask >> t & 1) && round->biggest[t] >= job->spec.gpus)
            return true;
    return false;
}

/* Tries to place it; what has failed for as few GPUs is not tried again. */
static bool place(struct round *round, const struct firn_job *job,
                  bool one_node)
{
    struct firn_want want = {.gpus = job->spec.gpus,
                             .one_node = one_node,
                             .shared = job->spec.may_share};
    bool is_known = round->full[one_node].types == job->type_mask;
    if (is_known && round->full[one_node].gpus <= want.gpus)
        return false;
    if (firn_plan_give_want(round->plan, job, &want))
        return true;
    round->full[one_node].types = job->type_mask;
    round->full[one_node].gpus = want.gpus;
    return false;
}

static bool start(struct round *round, const struct firn_job *job)
{
    bool is_placed = place(round, job, true);
    bool may_spread = !round->lucid->one_node || !fits_node(round, job);
    if (!is_placed && may_spread)
        is_placed = place(round, job, false);
    if (is_placed && job->spec.may_share)
        round->started[round->nstarted++] = (struct host){job, false};
    return is_placed;
}

/* ---- GPUs of another ---- */

static int compare_places(const struct host *x, const struct host *y)
{
    const struct firn_part *p = x->job->held.parts, *q = y->job->held.parts;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    if (p->board != q->board)
        return p->board < q->board ? -1 : 1;
    return (p->gpus > q->gpus) - (p->gpus < q->gpus);
}

static int by_place(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int order = compare_places(x, y);
    return order ? order : firn_cmp(x->job->id, y->job->id);
}

static int by_size_and_start(const void *a, const void *b)
{
    const struct firn_job *x = ((const struct host *)a)->job;
    const struct firn_job *y = ((const struct host *)b)->job;
    if (x->held.ngpus != y->held.ngpus)
        return x->held.ngpus - y->held.ngpus;
    int order = firn_cmp(x->since_s, y->since_s);
    return order ? order : firn_cmp(x->id, y->id);
}

/* Those that run alone on half-shares of one node: (2). Pairs hold the same
 * GPUs, so they are neighbours in the order of places. */
static void find_hosts(struct round *round)
{
    const struct firn_view *view = round->view;
    const struct firn_job *const *jobs = firn_view_running(view);
    struct host *all =
        firn_view_alloc(view, (view->nrunning + 1) * sizeof *all);
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < view->nrunning; i++)
        if (jobs[i]->held.is_shared && firn_alloc_nodes(&jobs[i]->held) == 1)
            all[n++].job = jobs[i];
    qsort(all, n, sizeof *all, by_place);
    for (size_t i = 0; i < n; i++) {
        bool is_pair = (i > 0 && compare_places(&all[i - 1], &all[i]) == 0) ||
                       (i + 1 < n && compare_places(&all[i], &all[i + 1]) == 0);
        if (!is_pair)
            all[kept++] = all[i];
    }
    qsort(all, kept, sizeof *all, by_size_and_start);
    round->running = all;
    round->nrunning = kept;
}

static int score(const struct lucid *lucid, struct firn_load load)
{
    if (load.util < lucid->tiny_below)
        return 0;
    return load.util > lucid->jumbo_above ? 2 : 1;
}

/* GiB on each GPU; 0 when nobody knows. */
static double memory_gib(const struct firn_job *job, struct firn_load load)
{
    return load.mem_gib > 0 ? load.mem_gib : job->spec.mem_gib;
}

/* Why hosts were refused, in this order. */
struct refused {
    int hosts, busy, memory, brief, slow;
};

static bool suits(const struct round *round, const struct firn_job *job,
                  const struct firn_job *host, struct refused *refused)
{
    const struct lucid *lucid = round->lucid;
    const struct firn_view *view = round->view;
    struct firn_load a = firn_view_load(view, job);
    struct firn_load b = firn_view_load(view, host);
    const struct firn_alloc *gpus = firn_plan_of(round->plan, host);
    firn_type_id type = view->cluster->nodes[gpus->parts[0].node].type;
    double has_gib = view->cluster->types[type].mem_gib;
    double wants_gib = memory_gib(job, a) + memory_gib(host, b);
    bool busy = score(lucid, a) + score(lucid, b) > lucid->limit;
    bool full = has_gib > 0 && wants_gib > lucid->memory * has_gib;
    bool brief =
        estimate_s(lucid, job) > lucid->longer * estimate_s(lucid, host);
    bool slow = firn_view_slowdown(view, job, host) > lucid->slowdown ||
                firn_view_slowdown(view, host, job) > lucid->slowdown;
    refused->hosts++;
    refused->busy += busy;
    refused->memory += !busy && full;
    refused->brief += !busy && !full && brief;
    refused->slow += !busy && !full && !brief && slow;
    return !busy && !full && !brief && !slow;
}

/* Joins the first of n hosts that suits. */
static bool join(struct round *round, const struct firn_job *job,
                 struct host *hosts, size_t n, struct refused *refused)
{
    for (size_t i = 0; i < n; i++) {
        const struct firn_alloc *gpus = firn_plan_of(round->plan, hosts[i].job);
        if (hosts[i].is_taken || gpus->ngpus != job->spec.gpus ||
            firn_alloc_nodes(gpus) != 1)
            continue;
        if (suits(round, job, hosts[i].job, refused) &&
            firn_plan_share(round->plan, job, hosts[i].job)) {
            hosts[i].is_taken = true;
            return true;
        }
    }
    return false;
}

/* The first running host of that many GPUs or more. */
static size_t first_of_size(const struct round *round, int gpus)
{
    size_t low = 0, high = round->nrunning;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (round->running[middle].job->held.ngpus < gpus)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool pack(struct round *round, const struct firn_job *job,
                 struct refused *refused)
{
    if (round->running == NULL)
        find_hosts(round);
    size_t from = first_of_size(round, job->spec.gpus);
    size_t to = first_of_size(round, job->spec.gpus + 1);
    return join(round, job, round->running + from, to - from, refused) ||
           join(round, job, round->started, round->nstarted, refused);
}

static bool is_packing(const struct round *round)
{
    double up = round->view->gpus_up, free = firn_plan_free(round->plan);
    return round->lucid->pack && up - free >= round->lucid->busy * up;
}

static void explain(const struct round *round, const struct firn_job *job,
                    const struct refused *r)
{
    int gpus = job->spec.gpus, free = firn_plan_free(round->plan);
    if (!job->spec.may_share)
        firn_plan_note(round->plan, job, "%d GPUs, %d free; it does not share",
                       gpus, free);
    else if (!is_packing(round))
        firn_plan_note(round->plan, job, "%d GPUs, %d free; no packing now",
                       gpus, free);
    else
        firn_plan_note(round->plan, job,
                       "%d GPUs, %d free; %d hosts: %d busy, %d mem, %d short, "
                       "%d slow",
                       gpus, free, r->hosts, r->busy, r->memory, r->brief,
                       r->slow);
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct round round = {.lucid = state, .view = view, .plan = plan};
    firn_plan_keep_all(plan); /* (1) */
    if (view->nwaiting == 0)
        return FIRN_OK;
    struct turn *queue = queue_of(round.lucid, view);
    round.started = firn_view_alloc(view, view->nwaiting * sizeof(struct host));
    int notes = 0;
    for (size_t i = 0; i < view->nwaiting; i++) {
        const struct firn_job *job = queue[i].job;
        struct refused refused = {0};
        if (start(&round, job) || (job->spec.may_share && is_packing(&round) &&
                                   pack(&round, job, &refused)))
            continue;
        if (notes++ < NOTES)
            explain(&round, job, &refused);
        if (!round.lucid->skip)
            break;
    }
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_lucid = {
    .name = "lucid",
    .summary = "short jobs first; those that wait are packed in pairs",
    .paper = "Hu et al., Lucid, ASPLOS 2023",
    .needs = FIRN_NEED_DURATION,
    .does = FIRN_DOES_SHARE,
    .options = options,
    .state_size = sizeof(struct lucid),
    .decide = decide,
    .fini = fini,
    .observe = observe,
};
