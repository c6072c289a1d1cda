/* pairing.c - the shortest job first, on free GPUs or beside a running job.
 *
 * Luo et al., Scheduling Deep Learning Jobs in Multi-Tenant GPU Clusters via
 * Wise Resource Sharing, Algorithms 1 and 2. Waiting jobs are served by the
 * time they are forecast to need on the GPUs they asked for. Each one:
 *
 *   1. enough free GPUs: it gets them, on the fewest nodes; 2. else the hosts -
 *   jobs with GPUs that they hold alone - are scored
 *      each as if it were the only one, with the new job run in as many passes
 *      as are best there: of 1, 2, 4, ... down to a sample a pass, those whose
 *      memory fits, the fastest. The best hosts are taken until their GPUs
 *      suffice. The paper leaves the free GPUs for others then: a gang is as
 *      fast as its slowest part; only what the hosts lack is topped up;
 *   3. else it waits, and longer jobs have their turn.
 *
 * Two jobs at most are on a GPU. A gang beside several hosts goes at the worst
 * of its slowdowns and in passes that fit all of them. The paper judges single
 * pairs only. With `judges_gangs` hosts that were fine each by itself are
 * scored again with the gang's slowdown and passes; if one fails, those that
 * slow the new job most are left out and the choice is made anew.
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
 * that has to look for some; it asks what a host does to it once.
 */
#include "policy/pairing.h"
#include "policy/pairing_hosts.h"
#include <firn/offer.h>
#include <stdlib.h>
#include <string.h>

enum {
    NOTES = 16, /* waiting jobs that get a note, each round */
    AGAIN = 16, /* choices made anew for a slow host */
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
    struct pairing_hosts hosts;
    struct pick *picks;
    struct pick *scored; /* hosts of one job and type */
    size_t scored_cap;
    unsigned char *verdicts; /* on each host, the same */
};

/* A host chosen for a job. */
struct pick {
    struct pairing_host *host;
    double score;
    struct pairing_pair pair;
    const struct firn_offer *way; /* of the new job beside it */
};

/* What was found about a host for the job in turn. */
enum verdict { UNKNOWN, SCORED, BAD };

/* What a job finds of one type. */
struct choice {
    firn_type_id type;
    const struct firn_offer *ways; /* by passes */
    size_t nways;
    const struct firn_offer *fastest; /* of them, alone */
    double fits_gib; /* it is known to fit beside a job of this memory */
    const struct firn_offer *way; /* in passes that fit all that were picked */
    double work_s, wait_s;
    struct pick *picks; /* best first */
    int npicks, gpus;   /* and the GPUs they have */
    int wanted;         /* that it needs */
    size_t nscored;     /* hosts that were found good each by itself */
    int mem, slow;      /* hosts refused: no memory, no gain */
    int above;          /* hosts left out as too slow beside others */
};

/* ---- one job: which hosts ---- */

/* Algorithm 2: the fastest way that fits beside a job of this memory. */
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

/* Inserts it among the best hosts, best first; drops hosts that are not
 * needed. */
static void insert(struct choice *choice, const struct pick *pick)
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
        if (without < choice->wanted)
            break;
        choice->gpus = without;
        choice->npicks--;
    }
}

/* The same beside a host. Most hosts leave room enough for the fastest way,
 * and what fits beside one fits beside another that needs less. */
static const struct firn_offer *fitting_beside(const struct round *round,
                                               struct choice *choice,
                                               struct pairing_host *host)
{
    if (isnan(choice->fastest->mem_gib))
        return choice->fastest;
    double gib = pairing_hosts_gib(&round->hosts, host);
    if (gib <= choice->fits_gib)
        return choice->fastest;
    const struct firn_offer *way = fitting(round, choice, gib);
    if (way == choice->fastest)
        choice->fits_gib = gib;
    return way;
}

static double worst_of(const struct choice *choice)
{
    return choice->picks[choice->npicks - 1].score;
}

/* Takes it if it is among the best and slows the job less than `below`. */
static void take(struct choice *choice, const struct pick *pick, double below)
{
    if (pick->pair.time.new_xi >= below)
        choice->above++;
    else if (choice->gpus < choice->wanted || pick->score <= worst_of(choice))
        insert(choice, pick);
}

/* The slowdowns of the job and the host, the job run in that way; false: ways
 * make no difference to these two. */
static bool slowdowns_in(const struct round *round, const struct firn_job *job,
                         const struct firn_way *way, struct pairing_host *host,
                         struct firn_pairtime *time)
{
    const struct firn_way *theirs = pairing_hosts_way(&round->hosts, host);
    double new_xi =
        firn_view_slowdown_in(round->view, job, way, host->job, theirs);
    if (new_xi == 0)
        return false;
    double xi = firn_view_slowdown_in(round->view, host->job, theirs, job, way);
    if (xi == 0)
        xi = firn_view_slowdown(round->view, host->job, job);
    xi /= host->slow;
    time->new_xi = new_xi;
    time->running_xi = xi < 1 ? 1 : xi;
    return true;
}

/* Algorithm 2 where the slowdowns depend on the way: of those that fit, the
 * least of the shared and the sequential time; the smaller sub-batch of two
 * with the same. A rule that does not search takes the largest sub-batch. */
static enum verdict search_ways(struct round *round, const struct firn_job *job,
                                struct choice *choice, struct pick *pick)
{
    const struct pairing_rule *rule = round->rule;
    double gib = pairing_hosts_gib(&round->hosts, pick->host), best = INFINITY;
    pick->way = NULL;
    for (size_t i = 0; i < choice->nways; i++) {
        const struct firn_offer *way = &choice->ways[i];
        struct pairing_pair pair = pick->pair;
        if ((pick->way != NULL && !rule->searches) ||
            !firn_offer_fits(round->view, choice->type, way->mem_gib, gib))
            continue;
        pair.time.new_s = choice->work_s / way->rate;
        slowdowns_in(round, job, &way->way, pick->host, &pair.time);
        double time_s = fmin(firn_pairtime_shared(&pair.time),
                             firn_pairtime_in_turn(&pair.time));
        if (pick->way != NULL && !(time_s <= best))
            continue;
        best = time_s;
        pick->way = way;
        pick->pair = pair;
    }
    if (pick->way != NULL)
        pick->score = rule->score(rule, &pick->pair);
    choice->mem += pick->way == NULL;
    choice->slow += pick->way != NULL && isnan(pick->score);
    return pick->way != NULL && !isnan(pick->score) ? SCORED : BAD;
}

/* Scores a host that could be among the best. What it does to the job is asked
 * first, what the job does to it only if that leaves it a chance, and memory
 * last: most hosts are out after the first. With slowdowns that do not depend
 * on the way, the fastest way is Algorithm 2's (firn/pairtime.h). */
static enum verdict judge(struct round *round, const struct firn_job *job,
                          struct choice *choice, struct pairing_host *host,
                          struct pick *pick)
{
    const struct pairing_rule *rule = round->rule;
    const struct firn_offer *way = choice->fastest;
    struct firn_pairtime *time = &pick->pair.time;
    pick->host = host;
    pick->pair = (struct pairing_pair){
        .time = {choice->work_s / way->rate, host->left_s, 1, 1},
        .wait_s = choice->wait_s,
        .place = host->place};
    if (slowdowns_in(round, job, &way->way, host, time))
        return search_ways(round, job, choice, pick);
    time->new_xi = firn_view_slowdown(round->view, job, host->job);
    pick->score = rule->score(rule, &pick->pair);
    if (choice->gpus >= choice->wanted && pick->score > worst_of(choice))
        return UNKNOWN;
    if (!isnan(pick->score)) {
        double xi =
            firn_view_slowdown(round->view, host->job, job) / host->slow;
        time->running_xi = xi < 1 ? 1 : xi;
        pick->score = rule->score(rule, &pick->pair);
    }
    if (!isnan(pick->score))
        way = fitting_beside(round, choice, host);
    if (way != NULL && way != choice->fastest) {
        time->new_s = choice->work_s / way->rate;
        pick->score = rule->score(rule, &pick->pair);
    }
    pick->way = way;
    choice->mem += way == NULL;
    choice->slow += way != NULL && isnan(pick->score);
    return way != NULL && !isnan(pick->score) ? SCORED : BAD;
}

static void keep_scored(struct round *round, size_t at, const struct pick *pick)
{
    if (at == round->scored_cap) {
        size_t cap = at > 0 ? 2 * at : 64;
        struct pick *scored =
            firn_view_alloc(round->view, cap * sizeof *scored);
        if (at > 0)
            memcpy(scored, round->scored, at * sizeof *scored);
        round->scored = scored;
        round->scored_cap = cap;
    }
    round->scored[at] = *pick;
}

/* The best hosts that slow the job less than `below`. Those that were scored
 * before for the same job are not asked again. */
static void pick_best(struct round *round, const struct firn_job *job,
                      struct choice *choice, double below)
{
    struct pairing_hosts *hosts = &round->hosts;
    struct pick pick;
    choice->npicks = choice->gpus = choice->above = 0;
    for (size_t i = 0; i < choice->nscored; i++)
        take(choice, &round->scored[i], below);
    for (size_t h = 0; h < hosts->n; h++) {
        struct pairing_host *host = &hosts->at[h];
        if (round->verdicts[h] != UNKNOWN || host->type != choice->type ||
            host->room == 0)
            continue;
        enum verdict verdict = judge(round, job, choice, host, &pick);
        round->verdicts[h] = (unsigned char)verdict;
        if (verdict != SCORED)
            continue;
        keep_scored(round, choice->nscored++, &pick);
        take(choice, &pick, below);
    }
}

/* The way for all hosts that were picked: the most passes of any, which fit
 * beside each. With `judges_gangs` the hosts are scored again with this way and
 * the worst slowdown; false: one of them fails. */
static bool stands_together(const struct round *round, struct choice *choice,
                            double *worst)
{
    const struct firn_offer *way = choice->picks[0].way;
    *worst = 1;
    for (int i = 0; i < choice->npicks; i++) {
        if (choice->picks[i].way > way)
            way = choice->picks[i].way;
        if (choice->picks[i].pair.time.new_xi > *worst)
            *worst = choice->picks[i].pair.time.new_xi;
    }
    for (int i = 0; i < choice->npicks && round->rule->judges_gangs; i++) {
        struct pairing_pair pair = choice->picks[i].pair;
        pair.time.new_s = choice->work_s / way->rate;
        if (pair.time.new_xi < *worst)
            pair.time.new_xi = *worst;
        if (isnan(round->rule->score(round->rule, &pair)))
            return false;
    }
    choice->way = way;
    return true;
}

/* When that number of GPUs of a type will be free: the earliest ends, kept in
 * order as the best hosts are. */
static double wait_s(const struct round *round, firn_type_id type, int wanted)
{
    struct pick *ends = round->picks;
    int n = 0, gpus = firn_plan_free_of(round->plan, type);
    if (gpus >= wanted)
        return 0;
    for (size_t h = 0; h < round->hosts.n; h++) {
        struct pairing_host *host = &round->hosts.at[h];
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
    *choice = (struct choice){
        .type = type, .picks = round->picks, .wanted = job->spec.gpus};
    int free = firn_plan_free_of(round->plan, type);
    if (free + round->hosts.open[type] < job->spec.gpus)
        return false;
    choice->wait_s =
        round->rule->reads_wait ? wait_s(round, type, job->spec.gpus) : 0;
    choice->ways = firn_offer_passes(round->view, job, type, &choice->nways);
    choice->work_s = pairing_hosts_work_s(&round->hosts, job);
    choice->fastest = fitting(round, choice, 0);
    memset(round->verdicts, UNKNOWN, round->hosts.n);
    for (int i = 0; i < AGAIN && choice->fastest != NULL; i++) {
        pick_best(round, job, choice, below);
        if (choice->gpus + free < job->spec.gpus)
            return false;
        if (stands_together(round, choice, &below))
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
    if (round->hosts.at != NULL)
        pairing_hosts_started(&round->hosts, job);
    return true;
}

static bool join(struct round *round, const struct firn_job *job,
                 const struct choice *choice)
{
    const struct firn_job **hosts = firn_view_alloc(
        round->view, (size_t)(choice->npicks + 1) * sizeof(struct firn_job *));
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.passes = choice->way->way.passes;
    struct firn_want want = {.gpus = job->spec.gpus,
                             .types = (uint32_t)1 << choice->type,
                             .crowd = PAIRING_CROWD,
                             .how = &how};
    double slow = 1;
    for (int i = 0; i < choice->npicks; i++) {
        hosts[i] = choice->picks[i].host->job;
        slow = fmax(slow, choice->picks[i].pair.time.new_xi);
    }
    if (!firn_plan_join(round->plan, job, hosts, choice->npicks, &want))
        return false;
    for (int i = 0; i < choice->npicks; i++)
        pairing_hosts_taken(&round->hosts, choice->picks[i].host,
                            choice->picks[i].pair.time.running_xi);
    pairing_hosts_joined(&round->hosts, job,
                         slow * choice->work_s / choice->way->rate, slow);
    return true;
}

static void explain(const struct round *round, const struct firn_job *job,
                    const struct choice *seen)
{
    int gpus = job->spec.gpus, free = firn_plan_free(round->plan), open = 0;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        open += round->hosts.open[t];
    if (!job->spec.may_share)
        firn_plan_note(round->plan, job,
                       "needs %d GPUs, %d free; does not accept sharing", gpus,
                       free);
    else
        firn_plan_note(round->plan, job,
                       "%d GPUs, %d free, %d to share; hosts: %d mem, %d slow",
                       gpus, free, open, seen->mem, seen->slow);
}

/* Puts the job beside hosts. Of several types the one whose worst host is
 * best. */
static bool pair(struct round *round, const struct firn_job *job,
                 struct choice *seen)
{
    struct choice best = {.npicks = 0};
    struct pick *spare = round->picks + job->spec.gpus + 1;
    bool is_found = false;
    if (round->hosts.at == NULL) {
        /* Those that run, and those that started in this round. */
        pairing_hosts_find(&round->hosts);
        round->verdicts = firn_view_alloc(round->view, round->view->njobs + 1);
        for (size_t i = 0; i < round->nserved; i++)
            if (firn_plan_of(round->plan, round->queue[i].job)->nparts > 0)
                pairing_hosts_started(&round->hosts, round->queue[i].job);
    }
    for (int t = 0; t < round->view->cluster->ntypes; t++) {
        struct choice now;
        if (!(job->type_mask >> t & 1))
            continue;
        bool is_enough = choose(round, job, t, &now);
        seen->mem += now.mem;
        seen->slow += now.slow + now.above;
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
    if (firn_plan_free(round->plan) > 0 || round->hosts.at == NULL)
        return false;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        if (round->hosts.open[t] > 0)
            return false;
    return true;
}

void pairing_decide(const struct firn_view *view, struct firn_plan *plan,
                    const struct pairing_rule *rule)
{
    struct round round = {.view = view,
                          .plan = plan,
                          .rule = rule,
                          .hosts = {.view = view, .plan = plan, .rule = rule}};
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
