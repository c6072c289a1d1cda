/* themis.c - leases of GPUs, offered first to the jobs that fare worst.
 *
 * Finish-time fairness is rho = T_shared / T_independent: how long a job takes
 * from submission to end in this cluster, over how long it would take alone
 * with its share of it (Mahajan et al., Themis, NSDI 2020, section 3). GPUs
 * are leased. Jobs whose lease has ended and jobs that wait compete for what
 * is free, each with the rho it would come to if it got nothing for one lease
 * more:
 *
 *   rho = (age + lease + left) / (alone * contention)
 *
 * left: predicted seconds to the end on the GPUs it asked for; alone: the same
 * for the whole job; contention: GPUs asked for by all jobs over GPUs there
 * are, at least 1. Only the share 1 - f of them with the largest rho is made
 * an offer (section 5). Among these the GPUs go where they cut rho most, as a
 * share of it and for each GPU:
 *
 *   bid = lease / ((age + left) * gpus)
 *
 * which is what the paper's product of the bidders' values asks for when each
 * step is small. What they leave goes to the others, the worst rho first, so
 * that no GPU idles while a job fits on it. f = 0 is all efficiency, f near 1
 * all fairness. A bid falls with age, so of equal jobs the youngest would start
 * first: their places in line are exchanged (policy/peers.h).
 *
 * Left out: the auction's hidden payments, which make it pay to bid the truth.
 * Here the scheduler makes the bids itself, so no bid can be false. Bids for
 * fewer GPUs than asked for are left out too: jobs are gangs, and one that is
 * larger than what is free or ends its lease at the same moment has to wait for
 * a better one (the paper's jobs would take a part). Contention is that of this
 * moment and not the mean over a job's life, which a policy does not see.
 *
 * Invariants:
 * (1) a job keeps its GPUs until a lease of its own ends;
 * (2) at the end of a lease a job that is outbid stops only if its GPUs are
 *     taken;
 * (3) leases of a job follow each other from the moment it started; one that
 * ends while no job waits is renewed.
 *
 * Cost: O(jobs log jobs) a round, and one try to place for each job that fits
 * by count.
 */
#include "base/keep.h"
#include "policy/peers.h"
#include <firn/policy.h>
#include <firn/progress.h>
#include <stdlib.h>

struct themis {
    double lease_s, filter, interval_s;
    double last_s;    /* this auction */
    double before_s;  /* leases that ended since then are over */
    bool leaves_some; /* jobs waited after this auction */
};

static const struct firn_option options[] = {
    FIRN_NUMBER(
        struct themis, lease_s, "lease", "600", 1, 1e9,
        "seconds for which a job has its GPUs before it must bid again"),
    FIRN_NUMBER(struct themis, filter, "filter", "0.8", 0, 1,
                "share of the waiting jobs, those nearest to their fair share, "
                "without offer"),
    FIRN_NUMBER(struct themis, interval_s, "interval", "0", 0, 1e9,
                "seconds between two auctions; 0: whenever there are GPUs"),
    {0},
};

struct bidder {
    const struct firn_job *job;
    double rho, bid;
    bool wins;
};

/* Seconds to the end on the GPUs it asked for. */
static double left_s(const struct firn_view *view, const struct firn_job *job)
{
    struct firn_way way = {.gpus = job->spec.gpus, .type = FIRN_ANY_TYPE};
    double left = firn_view_left_s(view, job, &way);
    bool is_known = left >= 0 && left < INFINITY;
    return is_known ? left : firn_job_left_s(job, view->now_s);
}

static struct bidder bid(const struct themis *themis,
                         const struct firn_view *view,
                         const struct firn_job *job, double contention)
{
    double left = left_s(view, job);
    double alone = firn_job_done_s(job, view->now_s) + left;
    double soon_s = view->now_s - job->spec.submit_s + left;
    double rho = firn_fairness_rho(soon_s + themis->lease_s,
                                   firn_fairness_alone(alone, contention));
    return (struct bidder){.job = job,
                           .rho = rho >= 0 ? rho : 0,
                           .bid = themis->lease_s /
                                  (fmax(soon_s, 1e-9) * job->spec.gpus)};
}

static int worst_first(const void *a, const void *b)
{
    const struct bidder *x = a, *y = b;
    int c = firn_cmp(y->rho, x->rho);
    return c ? c : (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

static int highest_first(const void *a, const void *b)
{
    const struct bidder *x = a, *y = b;
    int c = firn_cmp(y->bid, x->bid);
    return c ? c : worst_first(a, b);
}

/* Whole leases of this job that are over at a time. */
static double leases(const struct themis *themis, const struct firn_job *job,
                     double at_s)
{
    return floor((at_s - job->since_s) / themis->lease_s + 1e-9);
}

/* Has a lease ended since the auction before this one? (3) */
static bool is_over(const struct themis *themis, const struct firn_job *job)
{
    double before_s = fmax(themis->before_s, job->since_s);
    return leases(themis, job, themis->last_s) > leases(themis, job, before_s);
}

/* Exchanges the places of equal jobs so that the older ones come first. */
static struct bidder *put_older_first(const struct firn_view *view,
                                      const struct bidder *line, size_t n)
{
    struct peer *peers = firn_view_alloc(view, (n + 1) * sizeof *peers);
    struct bidder *sorted = firn_view_alloc(view, (n + 1) * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        peers[i] = (struct peer){.job = line[i].job, .gets = -(double)i};
    const size_t *from = peers_settle(view, peers, n);
    for (size_t i = 0; i < n; i++)
        sorted[from[i]] = line[i];
    return sorted;
}

/* Waiting jobs, and running ones whose lease is over: the offered first, by
 * bid, then the others by rho. */
static struct bidder *line_up(const struct themis *themis,
                              const struct firn_view *view, size_t *n,
                              size_t *noffered)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    struct bidder *line =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *line);
    double asked = 0;
    for (size_t i = 0; i < view->njobs; i++)
        asked += jobs[i]->spec.gpus;
    double contention = fmax(asked / view->gpus_up, 1);
    *n = 0;
    for (size_t i = 0; i < view->njobs; i++)
        if (jobs[i]->state == FIRN_JOB_WAITING || is_over(themis, jobs[i]))
            line[(*n)++] = bid(themis, view, jobs[i], contention);
    *noffered = (size_t)ceil((1 - themis->filter) * (double)*n - 1e-9);
    if (*noffered == 0 && *n > 0)
        *noffered = 1;
    if (*n > 1) {
        qsort(line, *n, sizeof *line, worst_first);
        qsort(line, *noffered, sizeof *line, highest_first);
        line = put_older_first(view, line, *n);
    }
    return line;
}

/* Finds the jobs that would have room, each after those before it. Changes
 * nothing. */
static void auction(struct firn_plan *plan, struct bidder *line, size_t n)
{
    size_t mark = firn_plan_mark(plan);
    for (size_t i = 0; i < n; i++)
        if (line[i].job->state == FIRN_JOB_RUNNING)
            firn_plan_drop(plan, line[i].job);
    for (size_t i = 0; i < n && firn_plan_free(plan) > 0; i++)
        line[i].wins =
            line[i].job->spec.gpus <= firn_plan_free(plan) &&
            firn_plan_give(plan, line[i].job, line[i].job->spec.gpus);
    firn_plan_undo(plan, mark);
}

/* Running winners stay, the other winners are placed around them; losers
 * continue if their GPUs are still free: (2). */
static void settle(struct firn_plan *plan, const struct bidder *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i].job->state == FIRN_JOB_RUNNING && !line[i].wins)
            firn_plan_drop(plan, line[i].job);
    for (size_t i = 0; i < n; i++)
        if (line[i].job->state == FIRN_JOB_WAITING && line[i].wins)
            firn_plan_give(plan, line[i].job, line[i].job->spec.gpus);
    for (size_t i = 0; i < n; i++)
        if (line[i].job->state == FIRN_JOB_RUNNING && !line[i].wins)
            firn_plan_keep(plan, line[i].job);
}

static bool is_time(const struct themis *themis, double now_s)
{
    double times = now_s / fmax(themis->interval_s, 1e-9);
    return themis->interval_s == 0 || fabs(times - round(times)) < 1e-6;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct themis *themis = state;
    size_t n = 0, noffered = 0;
    firn_plan_keep_all(plan);
    if (view->gpus_up == 0 || !is_time(themis, view->now_s))
        return FIRN_OK;
    if (view->now_s > themis->last_s) { /* the same answer when asked twice */
        themis->before_s = themis->leaves_some ? themis->last_s : view->now_s;
        themis->last_s = view->now_s;
    }
    themis->leaves_some = false;
    if (view->nwaiting == 0)
        return FIRN_OK;
    struct bidder *line = line_up(themis, view, &n, &noffered);
    auction(plan, line, n);
    settle(plan, line, n);
    for (size_t i = 0; i < n; i++) {
        if (firn_plan_of(plan, line[i].job)->nparts > 0)
            continue;
        themis->leaves_some = true;
        firn_plan_note(plan, line[i].job, "no lease: %s",
                       i < noffered
                           ? "outbid by other jobs, or no room"
                           : "other jobs are further from their fair share");
    }
    return FIRN_OK;
}

/* The next end of a lease, while a job waits for it. When nothing runs, an
 * auction can change only after an event. */
static double wake_s(const void *state, const struct firn_view *view)
{
    const struct themis *themis = state;
    double wake_s = INFINITY, now_s = view->now_s;
    bool is_idle = view->nrunning == 0 && is_time(themis, now_s);
    if (view->nwaiting == 0 || is_idle)
        return INFINITY;
    if (themis->interval_s > 0)
        return (floor(now_s / themis->interval_s + 1e-6) + 1) *
               themis->interval_s;
    const struct firn_job *const *jobs = firn_view_running(view);
    for (size_t i = 0; i < view->nrunning; i++) {
        double end_s = jobs[i]->since_s +
                       (leases(themis, jobs[i], now_s) + 1) * themis->lease_s;
        wake_s = fmin(wake_s, end_s);
    }
    return wake_s;
}

static void save(const void *state, struct firn_buf *out)
{
    const struct themis *themis = state;
    keep_begin(out, "policy themis", 1);
    keep_double(out, themis->last_s);
    keep_double(out, themis->before_s);
    keep_int(out, themis->leaves_some);
}

static enum firn_status load(void *state, struct firn_bytes in,
                             struct firn_error *err)
{
    struct themis *themis = state;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy themis", 1, err));
    double last_s = keep_read_double(&keep);
    double before_s = keep_read_double(&keep);
    bool leaves_some = keep_read_int(&keep, 0, 1);
    FIRN_TRY(keep_close(&keep, err));
    themis->last_s = last_s;
    themis->before_s = before_s;
    themis->leaves_some = leaves_some;
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_themis = {
    .size = sizeof(struct firn_policy_def),
    .name = "themis",
    .summary = "leases, offered first to jobs far from their fair share",
    .paper = "Mahajan et al., Themis, NSDI 2020",
    .needs = FIRN_NEED_DURATION,
    .does = FIRN_DOES_PREEMPT,
    .options = options,
    .state_size = sizeof(struct themis),
    .decide = decide,
    .wake_s = wake_s,
    .ages = true,
    .save = save,
    .load = load,
};
