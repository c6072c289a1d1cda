/* dryrun_ahead.c - whose processes are there before their GPUs, in a simulated
 * future.
 *
 * An engine that prepares starts the processes of the next few jobs early
 * (loop_ahead.c), and a policy may take those jobs first. So what a future
 * holds depends on who is prepared in it, and who is prepared on what the
 * future holds. In a first future, jobs that are prepared stay so until they
 * start, and the policy knows of no others that are: it shows what the policy
 * makes of them. The order of its starts is what the engine is told next, and a
 * second future begins with that: behind each decision the first jobs of it
 * which still wait are prepared, and others no more, as the engine does it.
 *
 * The order does not depend on orders of before. (It did: a first future began
 * with the order that the engine was told of last, in which each job came first
 * because it was prepared, and was prepared because it came first. Such orders
 * lasted for seconds, then others came. Without that, and with the place that
 * other guests leave to the foremost one, see policy/firn_pair.c: five queues
 * of 20 C trainers whose users do not know how long they take, pairs 1.85 times
 * slower, had mean errors of 15.0 % for foretold ends under firn and of 29 %
 * for plans before, and have 5.5 and 6.3 % now.)
 *
 * Jobs that are not in the order are prepared in the order of their starts, as
 * far as what they cost goes; the policy does not know of it.
 *
 * (20 PyTorch jobs on an H200 whose starts are as long as their trainings, one
 * prepared: when futures had only the job that was prepared at their beginning,
 * for as long as it was then, a start moved all forecasts behind it by up to
 * 8 s, and the next one moved them back.)
 *
 * Invariants: (1) at most as many as the engine prepares; (2) none of them
 * holds GPUs; (3) an entry of the order counts for one start.
 * Cost: O(entries that are passed over), at each decision and start.
 */
#include "daemon/dryrunwork.h"
#include <math.h>
#include <string.h>

enum { WANTED = 64 };

static bool can_be(const struct dryrun *dry, const struct firn_job *job)
{
    firn_job_id id = desk_book_id(&dry->loop->desk, job->id);
    const struct live_job *live = book_job(dry->loop->book, id);
    return live != NULL ? desk_can_ahead(&dry->loop->desk, live)
                        : desk_app_waits(&dry->loop->desk, job->spec.app);
}

static struct dryrun_ready *find(const struct dryrun *dry, firn_job_id job)
{
    for (size_t i = 0; i < dry->ready.n; i++)
        if (dry->ready.at[i].job == job)
            return &dry->ready.at[i];
    return NULL;
}

double dryrun_ahead_s(const void *future, firn_job_id job)
{
    const struct dryrun *dry = future;
    const struct dryrun_ready *ready = find(dry, job);
    return ready != NULL ? fmax(dry->now_s - ready->since_s, 0) : 0;
}

/* --- the order ------------------------------------------------------------ */

void dryrun_ahead_expect(struct dryrun *dry, const struct dryrun_order *order)
{
    for (size_t i = 0; i < order->n; i++)
        vec_add(&dry->expected, order->at[i]);
}

void dryrun_ahead_keep(struct dryrun *dry, struct dryrun_order *order)
{
    if (order->n > 0)
        return;
    vec_release(order);
    *order = dry->order;
    dry->order = (struct dryrun_order){0};
}

static void skip_started(struct dryrun *dry)
{
    while (dry->nexpected < dry->expected.n &&
           dry->expected.at[dry->nexpected] == FIRN_NO_JOB)
        dry->nexpected++;
}

/* (3); false: it is not in the order. */
static bool strike(struct dryrun *dry, firn_job_id job)
{
    for (size_t i = dry->nexpected; i < dry->expected.n; i++)
        if (dry->expected.at[i] == job) {
            dry->expected.at[i] = FIRN_NO_JOB;
            skip_started(dry);
            return true;
        }
    return false;
}

/* --- who is prepared ------------------------------------------------------ */

/* Those that are prepared already go on, others begin now. */
static void want(struct dryrun *dry, struct dryrun_ready *wanted, size_t *n,
                 firn_job_id id)
{
    const struct dryrun_ready *ready = find(dry, id);
    for (size_t i = 0; i < *n; i++)
        if (wanted[i].job == id)
            return;
    wanted[(*n)++] =
        ready != NULL ? *ready : (struct dryrun_ready){id, dry->now_s};
}

static size_t want_ready(struct dryrun *dry, struct dryrun_ready *wanted,
                         size_t n, size_t most)
{
    for (size_t i = 0; n < most && i < dry->ready.n; i++)
        want(dry, wanted, &n, dry->ready.at[i].job);
    return n;
}

void dryrun_ahead_fill(struct dryrun *dry)
{
    const struct state *state = round_state(dry->round);
    struct dryrun_ready wanted[WANTED];
    size_t most = desk_prepares(&dry->loop->desk), n = 0;
    most = most < WANTED ? most : WANTED;
    if (dry->is_first)
        n = want_ready(dry, wanted, n, most);
    for (size_t i = dry->nexpected; n < most && i < dry->expected.n; i++) {
        firn_job_id id = dry->expected.at[i];
        const struct firn_job *job =
            id != FIRN_NO_JOB ? state_job(state, id) : NULL;
        if (job != NULL && job->held.nparts == 0 && can_be(dry, job))
            want(dry, wanted, &n, id);
    }
    n = want_ready(dry, wanted, n, most);
    dry->ready.n = 0;
    for (size_t i = 0; i < n; i++)
        vec_add(&dry->ready, wanted[i]);
}

void dryrun_ahead_open(struct dryrun *dry)
{
    const struct loop *loop = dry->loop;
    const struct state *state = round_state(dry->round);
    if (desk_prepares(&dry->loop->desk) == 0)
        return;
    dry->is_first = dry->expected.n == 0;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        firn_job_id id = desk_book_id(&loop->desk, sj->job.id);
        const struct track *track = desk_track(&loop->desk, id);
        if (track != NULL && track->early_s > 0 && sj->job.held.nparts == 0)
            vec_add(&dry->ready,
                    ((struct dryrun_ready){sj->job.id, track->early_s}));
    }
    dryrun_ahead_fill(dry);
}

double dryrun_ahead_starts(struct dryrun *dry, const struct firn_step *step)
{
    firn_job_id id = step->job->id;
    struct dryrun_ready *ready = find(dry, id);
    size_t most = desk_prepares(&dry->loop->desk);
    double since_s = ready != NULL ? ready->since_s : dry->now_s;
    vec_add(&dry->order, id);
    if (ready != NULL)
        *ready = dry->ready.at[--dry->ready.n]; /* (2) */
    bool is_expected = strike(dry, id);
    if (most == 0 || !can_be(dry, step->job) ||
        step->to->how.merged_with != FIRN_NO_JOB)
        return 0;
    if (!is_expected && ready == NULL)
        since_s = dry->early.n < most ? dry->began_s
                                      : dry->early.at[dry->early.n - most];
    vec_add(&dry->early, dry->now_s);
    return fmax(dry->now_s - since_s, 0);
}

void dryrun_ahead_close(struct dryrun *dry)
{
    vec_release(&dry->ready);
    vec_release(&dry->expected);
    vec_release(&dry->order);
    vec_release(&dry->early);
}
