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
 * waits until that share of the cluster is held: the paper's switch by load,
 * with the load of now in place of its forecast.
 *
 * Lucid measures jobs for some minutes on a few nodes set apart and learns the
 * scores with a decision tree. Here a score is the utilisation the engine
 * expects, against two thresholds: on Lucid's 66 measured jobs 0.25 and 0.60
 * give 53 their published class, the most that two thresholds can. A job of
 * which nothing is known is medium, and its memory fits. Run times are given
 * (`estimates=oracle`) or learnt: the mean of the work of finished jobs of the
 * same application, else group, else of all; before the first has finished all
 * are taken to be equally long. The paper's boosted trees are left out.
 *
 * In firn a host must hold its GPUs as half-shares before another job can join,
 * so jobs that accept sharing get half-shares from the start.
 *
 * Invariants: (1) a running job is never touched; (2) two jobs at most are on a
 * GPU, and they hold the same GPUs. Cost: O(waiting + running log running) a
 * round with a queue, and O(log waiting) for each job looked at; that ends when
 * no job can start any more.
 */
#include "policy/lucid.h"
#include <stdlib.h>
#include <string.h>

enum { NOTES = 16 }; /* waiting jobs that get a note, each round */

static const char *const estimates[] = {"oracle", "history", NULL};

static const struct firn_option options[] = {
    FIRN_CHOICE(struct lucid, estimates, "estimates", "oracle", estimates,
                "run times as given, or learnt from finished jobs"),
    FIRN_BOOL(struct lucid, pack, "pack", "1",
              "put two jobs on the same GPUs at all"),
    FIRN_INT(struct lucid, limit, "limit", "2", 0, 4,
             "the most that the sharing scores of a pair (tiny 0, medium 1, "
             "jumbo 2) may add up to"),
    FIRN_NUMBER(struct lucid, tiny_below, "tiny-below", "0.25", 0, 1,
                "a job that keeps a GPU less busy is tiny"),
    FIRN_NUMBER(struct lucid, jumbo_above, "jumbo-above", "0.6", 0, 1,
                "a job that keeps a GPU busier is jumbo"),
    FIRN_NUMBER(struct lucid, memory, "memory", "1", 0, 1,
                "share of a GPU's memory that a pair may take"),
    FIRN_NUMBER(struct lucid, longer, "longer", "2", 0, 1e9,
                "the longest that a guest may be estimated to run / its host"),
    FIRN_NUMBER(
        struct lucid, slowdown, "slowdown", "1.5", 1, 1e9,
        "the most that a step of either may take beside the other / alone"),
    FIRN_NUMBER(struct lucid, busy, "busy", "0", 0, 1,
                "pack only while this share of the GPUs is held"),
    FIRN_BOOL(struct lucid, skip, "skip", "1",
              "jobs pass one that does not fit"),
    FIRN_BOOL(struct lucid, one_node, "one-node", "1",
              "a job that fits on a node waits for one that can hold it"),
    {0},
};

/* ---- one round ---- */

/* A job that may be joined: it holds half-shares on one node, alone. */
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
    size_t nhosts; /* of both, not taken */
    int *biggest;  /* GPUs of the largest node up, by type; NULL: not looked */
    struct {
        uint32_t types;
        int gpus;
    } full[2]; /* no such node, or not enough of them, is free; by one_node */
};

/* ---- the queue: a heap, since rarely more than its front is wanted ---- */

struct turn {
    const struct firn_job *job;
    double priority;
};

struct queue {
    struct turn *at;
    size_t n;
    int least;      /* fewest GPUs that a waiting job wants */
    uint32_t types; /* that all accept; 0 when they differ */
    bool shares;    /* a waiting job accepts half-shares */
};

static bool before(const struct turn *x, const struct turn *y)
{
    if (x->priority != y->priority)
        return x->priority < y->priority;
    return x->job->id < y->job->id;
}

static void sink(struct queue *queue, size_t i)
{
    struct turn turn = queue->at[i];
    for (size_t child; (child = 2 * i + 1) < queue->n; i = child) {
        if (child + 1 < queue->n &&
            before(&queue->at[child + 1], &queue->at[child]))
            child++;
        if (before(&turn, &queue->at[child]))
            break;
        queue->at[i] = queue->at[child];
    }
    queue->at[i] = turn;
}

static const struct firn_job *take_first(struct queue *queue)
{
    const struct firn_job *job = queue->at[0].job;
    queue->at[0] = queue->at[--queue->n];
    if (queue->n > 0)
        sink(queue, 0);
    return job;
}

static struct queue queue_of(const struct lucid *lucid,
                             const struct firn_view *view)
{
    const struct firn_job *const *jobs = firn_view_waiting(view);
    struct queue queue = {.n = view->nwaiting,
                          .least = jobs[0]->spec.gpus,
                          .types = jobs[0]->type_mask};
    queue.at = firn_view_alloc(view, queue.n * sizeof *queue.at);
    for (size_t i = 0; i < queue.n; i++) {
        int gpus = jobs[i]->spec.gpus;
        queue.at[i] =
            (struct turn){jobs[i], lucid_estimate_s(lucid, jobs[i]) * gpus};
        queue.least = gpus < queue.least ? gpus : queue.least;
        queue.types = jobs[i]->type_mask == queue.types ? queue.types : 0;
        queue.shares = queue.shares || jobs[i]->spec.may_share;
    }
    for (size_t i = queue.n / 2; i-- > 0;)
        sink(&queue, i);
    return queue;
}

/* ---- GPUs of its own ---- */

/* GPUs of the largest node that is up, of those types. */
static int biggest_node(struct round *round, uint32_t types)
{
    const struct firn_cluster *cluster = round->view->cluster;
    int most = 0;
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
        if ((types >> t & 1) && round->biggest[t] > most)
            most = round->biggest[t];
    return most;
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
    if (job->spec.one_type) /* other jobs might mix types */
        return false;
    round->full[one_node].types = job->type_mask;
    round->full[one_node].gpus = want.gpus;
    return false;
}

static bool start(struct round *round, const struct firn_job *job)
{
    bool is_placed = place(round, job, true);
    if (!is_placed && (!round->lucid->one_node ||
                       biggest_node(round, job->type_mask) < job->spec.gpus))
        is_placed = place(round, job, false);
    if (is_placed && job->spec.may_share) {
        round->started[round->nstarted++] = (struct host){job, false};
        round->nhosts++;
    }
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
    round->nhosts = kept + round->nstarted;
}

static int score(const struct lucid *lucid, struct firn_load load)
{
    if (load.util < lucid->tiny_below)
        return 0;
    return load.util > lucid->jumbo_above ? 2 : 1;
}

/* GiB on each GPU; 0 when not known. */
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
    struct firn_load a = firn_view_load(view, job, NULL);
    struct firn_load b = firn_view_load(view, host, NULL);
    const struct firn_alloc *gpus = firn_plan_of(round->plan, host);
    firn_type_id type = view->cluster->nodes[gpus->parts[0].node].type;
    double has_gib = view->cluster->types[type].mem_gib;
    double wants_gib = memory_gib(job, a) + memory_gib(host, b);
    bool busy = score(lucid, a) + score(lucid, b) > lucid->limit;
    bool full = has_gib > 0 && wants_gib > lucid->memory * has_gib;
    bool brief = lucid_estimate_s(lucid, job) >
                 lucid->longer * lucid_estimate_s(lucid, host);
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
            round->nhosts--;
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
        firn_plan_note(round->plan, job,
                       "needs %d GPUs, %d free; does not accept sharing", gpus,
                       free);
    else if (!is_packing(round))
        firn_plan_note(round->plan, job,
                       "needs %d GPUs, %d free; no pairs are made now", gpus,
                       free);
    else
        firn_plan_note(round->plan, job,
                       "%d GPUs, %d free; %d hosts: %d busy, %d mem, %d short, "
                       "%d slow",
                       gpus, free, r->hosts, r->busy, r->memory, r->brief,
                       r->slow);
}

/* No job in the queue can start. */
static bool is_over(struct round *round, const struct queue *queue)
{
    int free = firn_plan_free(round->plan);
    if (queue->shares && is_packing(round) && round->nhosts > 0)
        return false;
    if (free < queue->least)
        return true;
    bool no_node = queue->types != 0 && round->full[true].gpus > 0 &&
                   round->full[true].types == queue->types &&
                   round->full[true].gpus <= queue->least;
    return no_node && round->lucid->one_node &&
           free <= biggest_node(round, queue->types);
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct round round = {.lucid = state, .view = view, .plan = plan};
    firn_plan_keep_all(plan); /* (1) */
    if (view->nwaiting == 0)
        return FIRN_OK;
    struct queue queue = queue_of(round.lucid, view);
    round.started = firn_view_alloc(view, queue.n * sizeof(struct host));
    round.nhosts = 1; /* not looked yet */
    for (int notes = 0; queue.n > 0;) {
        const struct firn_job *job = take_first(&queue);
        struct refused refused = {0};
        if (start(&round, job) || (job->spec.may_share && is_packing(&round) &&
                                   pack(&round, job, &refused)))
            continue;
        if (notes++ < NOTES)
            explain(&round, job, &refused);
        else if (is_over(&round, &queue))
            break;
        if (!round.lucid->skip)
            break;
    }
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_lucid = {
    .size = sizeof(struct firn_policy_def),
    .name = "lucid",
    .summary = "short jobs first; those that wait are packed in pairs",
    .paper = "Hu et al., Lucid, ASPLOS 2023",
    .needs = FIRN_NEED_DURATION,
    .does = FIRN_DOES_SHARE,
    .options = options,
    .state_size = sizeof(struct lucid),
    .decide = decide,
    .obeys = FIRN_OBEYS_PRIORITY,
    .fini = lucid_fini,
    .save = lucid_save,
    .load = lucid_load,
    .observe = lucid_observe,
};
