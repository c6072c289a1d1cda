/* pairing.c - the shortest job first, its GPUs its own or another's.
 *
 * Luo et al., Scheduling Deep Learning Jobs in Multi-Tenant GPU Clusters via
 * Wise Resource Sharing, Algorithms 1 and 2. Waiting jobs are served by the
 * time they are forecast to need on the GPUs they asked for. Each one:
 *
 *   1. enough free GPUs: it gets them, on the fewest nodes;
 *   2. else the hosts - jobs with GPUs that nobody else is on - are scored
 *      each as if it were the only one, with the new job run in as many passes
 *      as are best there: of 1, 2, 4, ... down to a sample a pass, those whose
 *      memory fits, the fastest. The best hosts are taken until their GPUs
 *      suffice. The paper leaves the free GPUs for others then: a gang is as
 *      fast as its slowest part; only what the hosts lack is topped up;
 *   3. else it waits, and longer jobs have their turn.
 *
 * Two jobs at most are on a GPU. A gang beside several hosts goes at the worst
 * of its slowdowns and in passes that fit all of them. So hosts that were fine
 * each by itself are scored again with that; if one fails, those that slow the
 * new job most are left out and the choice is made anew (the paper stops at
 * single pairs).
 *
 * A host that shares some of its GPUs already is slowed as it is: its time left
 * is that at its present rate, and only what the new job adds to the slowdown
 * is charged. Hosts and free GPUs for one job are of one GPU type.
 *
 * A job must accept sharing to be host or guest; it then holds half-shares from
 * the start, so that others may join.
 *
 * Invariants: (1) a running job is never touched; (2) two jobs at most are on a
 * GPU; (3) nothing depends on the order of hosts: ties go to the lower id.
 *
 * Cost: O(waiting log waiting + running) a round, and O(hosts) for each job
 * that has to look for some; it asks a host's slowdowns only if it could be
 * among the best even without any.
 */
#include "policy/pairing.h"
#include <firn/offer.h>
#include <stdlib.h>
#include <string.h>

enum {
    CROWD = 2,  /* the paper's C */
    NOTES = 16, /* waiting jobs that are told why, each round */
    AGAIN = 16, /* choices made anew for a slow host */
    AHEAD = 16, /* hosts fetched before they are looked at */
};

/* A job that holds GPUs. */
struct host {
    const struct firn_job *job;
    firn_type_id type;
    int frees;      /* GPUs that are free when it ends */
    int room;       /* GPUs that it is alone on, and another may join */
    double left_s;  /* as it goes now */
    double slow;    /* how much slower than alone that is */
    double place;   /* its first GPU, counted from the cluster's first */
    double mem_gib; /* below 0: not asked yet */
};

/* A waiting job. */
struct turn {
    const struct firn_job *job;
    double left_s;
};

struct round {
    const struct firn_view *view;
    struct firn_plan *plan;
    const struct pairing_rule *rule;
    struct turn *queue; /* shortest first */
    size_t nserved;     /* of them */
    struct host *hosts; /* NULL: not looked yet */
    size_t nhosts;
    int open[FIRN_TYPES_MAX]; /* GPUs on which one more may come, by type */
    struct pick *picks;
};

/* A host chosen for a job. */
struct pick {
    struct host *host;
    double score;
    struct pairing_pair pair;
};

/* What a job finds of one type. */
struct choice {
    firn_type_id type;
    const struct firn_offer *ways; /* by passes */
    size_t nways;
    const struct firn_offer *way; /* in passes that fit all that were picked */
    double wait_s;
    struct pick *picks; /* best first */
    int npicks, gpus;   /* and the GPUs they have */
    int mem, slow;      /* hosts refused: no memory, no gain */
};

/* ---- hosts ---- */

static bool is_one_type(const struct firn_view *view,
                        const struct firn_alloc *alloc)
{
    const struct firn_node *nodes = view->cluster->nodes;
    for (int i = 1; i < alloc->nparts; i++)
        if (nodes[alloc->parts[i].node].type !=
            nodes[alloc->parts[0].node].type)
            return false;
    return true;
}

/* The way it runs in this plan. */
static struct firn_way way_of(const struct round *round,
                              const struct firn_job *job)
{
    const struct firn_alloc *alloc = firn_plan_of(round->plan, job);
    firn_node_id node = alloc->parts[0].node;
    return (struct firn_way){.gpus = alloc->ngpus,
                             .nodes = firn_alloc_nodes(alloc),
                             .type = round->view->cluster->nodes[node].type,
                             .tunes = alloc->tunes,
                             .passes = alloc->how.passes};
}

/* Enters it, with the GPUs it is alone on, unless they are none or it has
 * several types. */
static void add_host(struct round *round, const struct firn_job *job, int room,
                     double left_s, double slow)
{
    const struct firn_alloc *alloc = firn_plan_of(round->plan, job);
    const struct firn_part *first = alloc->parts;
    int frees = alloc->is_shared ? room : alloc->ngpus;
    if (frees == 0 || !(left_s > 0) || !is_one_type(round->view, alloc))
        return;
    round->hosts[round->nhosts++] = (struct host){
        .job = job,
        .type = round->view->cluster->nodes[first->node].type,
        .frees = frees,
        .room = room,
        .left_s = left_s,
        .slow = slow,
        .place = (double)first->node * FIRN_NODE_GPUS_MAX +
                 first->board * FIRN_BOARD_GPUS + __builtin_ctzll(first->gpus),
        .mem_gib = -1,
    };
    round->open[round->hosts[round->nhosts - 1].type] += room;
}

/* How much slower it goes than alone; 1 when that is not known. */
static double slow_of(const struct round *round, const struct firn_job *job)
{
    struct firn_way way = way_of(round, job);
    double slow = firn_view_rate(round->view, job, &way) / job->rate;
    return slow > 1 && isfinite(slow) ? slow : 1;
}

/* Work left of a job, in reference seconds. */
static double work_s(const struct round *round, const struct firn_job *job)
{
    double done_s = firn_job_done_s(job, round->view->now_s);
    return job->spec.duration_s - done_s;
}

/* One that got GPUs of its own in this round. */
static void add_started(struct round *round, const struct firn_job *job)
{
    struct firn_way way = way_of(round, job);
    double rate = firn_view_rate(round->view, job, &way);
    int room = firn_plan_room(round->plan, job, CROWD);
    add_host(round, job, room, work_s(round, job) / (rate > 0 ? rate : 1), 1);
}

static void add_running(struct round *round, const struct firn_job *job)
{
    bool is_shared = job->held.is_shared;
    int room = is_shared ? firn_plan_room(round->plan, job, CROWD) : 0;
    if (is_shared && room == 0)
        return;
    bool is_slowed = is_shared && room < job->held.ngpus;
    add_host(round, job, room, firn_job_left_s(job, round->view->now_s),
             is_slowed ? slow_of(round, job) : 1);
}

/* Ten thousand jobs are not in any cache. */
static void look_ahead(const struct firn_job *job)
{
    __builtin_prefetch(&job->spec.duration_s);
    __builtin_prefetch(&job->held);
    __builtin_prefetch(&job->resumes_s);
}

static void find_hosts(struct round *round)
{
    const struct firn_view *view = round->view;
    const struct firn_job *const *jobs = firn_view_running(view);
    round->hosts =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *round->hosts);
    for (size_t i = 0; i < view->nrunning; i++) {
        if (i + AHEAD < view->nrunning)
            look_ahead(jobs[i + AHEAD]);
        add_running(round, jobs[i]);
    }
    for (size_t i = 0; i < round->nserved; i++)
        if (firn_plan_of(round->plan, round->queue[i].job)->nparts > 0)
            add_started(round, round->queue[i].job);
}

static double memory_of(const struct round *round, struct host *host)
{
    if (host->mem_gib < 0) {
        struct firn_way way = way_of(round, host->job);
        host->mem_gib = firn_view_load(round->view, host->job, &way).mem_gib;
    }
    return host->mem_gib;
}

/* ---- one job: which hosts ---- */

/* Algorithm 2: the fastest way that fits beside so much memory. */
static const struct firn_offer *fitting(const struct round *round,
                                        const struct choice *choice,
                                        double other_gib)
{
    const struct firn_offer *best = NULL;
    for (size_t i = 0; i < choice->nways; i++) {
        const struct firn_offer *way = &choice->ways[i];
        if ((best == NULL || way->rate > best->rate) &&
            firn_offer_fits(round->view, choice->type, way->mem_gib, other_gib))
            best = way;
    }
    return best;
}

/* Puts it in among the best first; drops those that are not needed. */
static void insert(struct choice *choice, const struct pick *pick, int wanted)
{
    int at = choice->npicks;
    for (; at > 0; at--) {
        const struct pick *before = &choice->picks[at - 1];
        if (before->score < pick->score ||
            (before->score == pick->score &&
             before->host->job->id < pick->host->job->id))
            break;
        choice->picks[at] = *before;
    }
    choice->picks[at] = *pick;
    choice->npicks++;
    choice->gpus += pick->host->room;
    while (choice->npicks > 1) {
        int without =
            choice->gpus - choice->picks[choice->npicks - 1].host->room;
        if (without < wanted)
            break;
        choice->gpus = without;
        choice->npicks--;
    }
}

/* Scores a host that could be among the best; `below` is the slowdown of the
 * job that is too much. */
static void consider(struct round *round, const struct firn_job *job,
                     struct choice *choice, struct host *host, double below)
{
    int wanted = job->spec.gpus;
    double work = work_s(round, job);
    struct pick pick = {
        .host = host,
        .pair = {.time = {work / choice->way->rate, host->left_s, 1, 1},
                 .wait_s = choice->wait_s,
                 .place = host->place},
    };
    bool is_enough = choice->gpus >= wanted;
    if (is_enough && !(round->rule->score(round->rule, &pick.pair) <=
                       choice->picks[choice->npicks - 1].score))
        return;
    const struct firn_offer *way = choice->way;
    if (!isnan(way->mem_gib))
        way = fitting(round, choice, memory_of(round, host));
    if (way == NULL) {
        choice->mem++;
        return;
    }
    pick.pair.time.new_s = work / way->rate;
    pick.pair.time.new_xi = firn_view_slowdown(round->view, job, host->job);
    double xi = firn_view_slowdown(round->view, host->job, job) / host->slow;
    pick.pair.time.running_xi = xi < 1 ? 1 : xi;
    pick.score = round->rule->score(round->rule, &pick.pair);
    if (isnan(pick.score) || pick.pair.time.new_xi >= below)
        choice->slow++;
    else if (!is_enough ||
             pick.score <= choice->picks[choice->npicks - 1].score)
        insert(choice, &pick, wanted);
}

/* All together: the way that fits all, and the worst slowdown. */
static bool stands_together(const struct round *round,
                            const struct firn_job *job, struct choice *choice,
                            double *worst)
{
    double most_gib = 0;
    *worst = 1;
    for (int i = 0; i < choice->npicks; i++) {
        double gib = choice->picks[i].host->mem_gib;
        most_gib = gib > most_gib ? gib : most_gib;
        if (choice->picks[i].pair.time.new_xi > *worst)
            *worst = choice->picks[i].pair.time.new_xi;
    }
    const struct firn_offer *way = fitting(round, choice, most_gib);
    for (int i = 0; i < choice->npicks; i++) {
        struct pairing_pair pair = choice->picks[i].pair;
        pair.time.new_s = work_s(round, job) / way->rate;
        if (pair.time.new_xi < *worst)
            pair.time.new_xi = *worst;
        if (isnan(round->rule->score(round->rule, &pair)))
            return false;
    }
    choice->way = way;
    return true;
}

/* When so many GPUs of a type are free: the ends that come first, kept as
 * those hosts are that are best. */
static double wait_s(const struct round *round, firn_type_id type, int wanted)
{
    struct pick *ends = round->picks;
    int n = 0, gpus = firn_plan_free_of(round->plan, type);
    if (gpus >= wanted)
        return 0;
    for (size_t h = 0; h < round->nhosts; h++) {
        struct host *host = &round->hosts[h];
        int at = n;
        if (host->type != type || host->frees == 0 ||
            (gpus >= wanted && host->left_s >= ends[n - 1].score))
            continue;
        for (; at > 0 && ends[at - 1].score > host->left_s; at--)
            ends[at] = ends[at - 1];
        ends[at] = (struct pick){.host = host, .score = host->left_s};
        gpus += host->frees;
        for (n++; n > 1 && gpus - ends[n - 1].host->frees >= wanted; n--)
            gpus -= ends[n - 1].host->frees;
    }
    return gpus >= wanted ? ends[n - 1].score : INFINITY;
}

/* The best hosts of one type; false when they and the free GPUs are too few. */
static bool choose(struct round *round, const struct firn_job *job,
                   firn_type_id type, struct choice *choice)
{
    double below = INFINITY;
    *choice = (struct choice){.type = type, .picks = round->picks};
    int free = firn_plan_free_of(round->plan, type);
    if (free + round->open[type] < job->spec.gpus)
        return false;
    choice->wait_s =
        round->rule->reads_wait ? wait_s(round, type, job->spec.gpus) : 0;
    choice->ways = firn_offer_passes(round->view, job, type, &choice->nways);
    const struct firn_offer *fastest = fitting(round, choice, 0);
    for (int i = 0; i < AGAIN && fastest != NULL; i++) {
        choice->way = fastest;
        choice->npicks = choice->gpus = choice->mem = choice->slow = 0;
        for (size_t h = 0; h < round->nhosts; h++)
            if (round->hosts[h].type == type && round->hosts[h].room > 0)
                consider(round, job, choice, &round->hosts[h], below);
        if (choice->gpus + free < job->spec.gpus)
            return false;
        if (stands_together(round, job, choice, &below))
            return true;
    }
    return false;
}

/* ---- one job: a place ---- */

static bool start(struct round *round, const struct firn_job *job)
{
    struct firn_want want = {.gpus = job->spec.gpus,
                             .shared = job->spec.may_share};
    if (firn_plan_free(round->plan) < want.gpus ||
        !firn_plan_give_want(round->plan, job, &want))
        return false;
    if (round->hosts != NULL)
        add_started(round, job);
    return true;
}

static bool join(struct round *round, const struct firn_job *job,
                 const struct choice *choice)
{
    const struct firn_job **hosts = firn_view_alloc(
        round->view, (size_t)(choice->npicks + 1) * sizeof(struct firn_job *));
    struct firn_want want = {.gpus = job->spec.gpus,
                             .types = (uint32_t)1 << choice->type,
                             .crowd = CROWD,
                             .how.passes = choice->way->way.passes};
    double slow = 1;
    for (int i = 0; i < choice->npicks; i++) {
        hosts[i] = choice->picks[i].host->job;
        slow = fmax(slow, choice->picks[i].pair.time.new_xi);
    }
    if (!firn_plan_join(round->plan, job, hosts, choice->npicks, &want))
        return false;
    for (int i = 0; i < choice->npicks; i++) {
        struct host *host = choice->picks[i].host;
        round->open[host->type] -= host->room;
        host->room = firn_plan_room(round->plan, host->job, CROWD);
        host->frees = host->room;
        if (choice->picks[i].pair.time.running_xi > 1) {
            host->left_s *= choice->picks[i].pair.time.running_xi;
            host->slow *= choice->picks[i].pair.time.running_xi;
        }
        round->open[host->type] += host->room;
    }
    add_host(round, job, firn_plan_room(round->plan, job, CROWD),
             slow * work_s(round, job) / choice->way->rate, slow);
    return true;
}

static void explain(const struct round *round, const struct firn_job *job,
                    const struct choice *seen)
{
    int gpus = job->spec.gpus, free = firn_plan_free(round->plan), open = 0;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        open += round->open[t];
    if (!job->spec.may_share)
        firn_plan_note(round->plan, job, "%d GPUs, %d free; it does not share",
                       gpus, free);
    else
        firn_plan_note(round->plan, job,
                       "%d GPUs, %d free, %d to share; hosts: %d mem, %d slow",
                       gpus, free, open, seen->mem, seen->slow);
}

/* Beside others. Of several types the one whose last host is the best. */
static bool pair(struct round *round, const struct firn_job *job,
                 struct choice *seen)
{
    struct choice best = {.npicks = 0};
    struct pick *spare = round->picks + job->spec.gpus + 1;
    bool is_found = false;
    if (round->hosts == NULL)
        find_hosts(round);
    for (int t = 0; t < round->view->cluster->ntypes; t++) {
        struct choice now;
        if (!(job->type_mask >> t & 1))
            continue;
        bool is_enough = choose(round, job, t, &now);
        seen->mem += now.mem;
        seen->slow += now.slow;
        if (!is_enough || now.npicks == 0 ||
            (is_found && !(now.picks[now.npicks - 1].score <
                           best.picks[best.npicks - 1].score)))
            continue;
        memcpy(spare, now.picks, (size_t)now.npicks * sizeof *spare);
        best = now;
        best.picks = spare;
        is_found = true;
    }
    return is_found && join(round, job, &best);
}

/* ---- the queue ---- */

static int by_left(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int order = firn_cmp(x->left_s, y->left_s);
    return order ? order : firn_cmp(x->job->id, y->job->id);
}

static struct turn *queue_of(const struct firn_view *view, int *most)
{
    const struct firn_job *const *jobs = firn_view_waiting(view);
    struct turn *queue = firn_view_alloc(view, view->nwaiting * sizeof *queue);
    for (size_t i = 0; i < view->nwaiting; i++) {
        struct firn_way way = {.gpus = jobs[i]->spec.gpus,
                               .type = FIRN_ANY_TYPE};
        double left_s = firn_view_left_s(view, jobs[i], &way);
        if (isnan(left_s))
            left_s = firn_job_left_s(jobs[i], view->now_s);
        queue[i] = (struct turn){jobs[i], left_s};
        *most = way.gpus > *most ? way.gpus : *most;
    }
    qsort(queue, view->nwaiting, sizeof *queue, by_left);
    return queue;
}

/* No GPU is free or to be shared. */
static bool is_full(const struct round *round)
{
    if (firn_plan_free(round->plan) > 0 || round->hosts == NULL)
        return false;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        if (round->open[t] > 0)
            return false;
    return true;
}

void pairing_decide(const struct firn_view *view, struct firn_plan *plan,
                    const struct pairing_rule *rule)
{
    struct round round = {.view = view, .plan = plan, .rule = rule};
    int most = 0, notes = 0;
    firn_plan_keep_all(plan); /* (1) */
    if (view->nwaiting == 0)
        return;
    round.queue = queue_of(view, &most);
    round.picks =
        firn_view_alloc(view, 2 * ((size_t)most + 2) * sizeof *round.picks);
    for (; round.nserved < view->nwaiting; round.nserved++) {
        const struct firn_job *job = round.queue[round.nserved].job;
        struct choice seen = {.mem = 0};
        if (start(&round, job) ||
            (job->spec.may_share && pair(&round, job, &seen)))
            continue;
        if (notes++ < NOTES)
            explain(&round, job, &seen);
        else if (is_full(&round))
            break;
    }
}
