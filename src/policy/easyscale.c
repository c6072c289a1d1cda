/* easyscale.c - elastic threads: fixed training, whatever GPUs there are.
 *
 * A job has maxP elastic threads (spec.threads) and runs on any GPUs, laid out
 * by policy/threadplan.c; its batch and its results never change (Li et al.,
 * EasyScale, SC 2023, 3.4 and 5.3). A round has four parts:
 *
 *   fall back   a job that was given more GPUs and became slower returns them,
 *               and asks for none for a while
 *   guarantee   jobs that hold nothing start with minP (gpus_min) GPUs, those
 *               with higher priority first, then in order of submission. If
 *               there are none free they are taken back from jobs that have
 *               more than their own minP, and, for a job with a higher
 *               priority, from any job with a lower one. A job whose minP is 0
 *               (spec.best_effort) starts on free GPUs only
 *   grow        each running job proposes, for each GPU type, one more GPU;
 *               the proposals with the highest speed-up per GPU are accepted
 *               first, then those with more GPUs (Algorithm 1), as long as
 *               there are GPUs
 *   place       jobs whose GPUs by type are the same stay where they are
 *
 * Algorithm 1 as printed never drops a proposal that cannot be met, and would
 * not end; here each is dropped when it has been looked at, and likewise a job
 * that cannot start is passed over (skip=0 is the FIFO mode in which 5.2
 * compares it with YARN's scheduler). A job proposes
 * again when it runs on what it was given last: its speed there is what the
 * next proposal is measured by.
 *
 * A GPU that is taken back is the one whose loss slows its job least, of those
 * with the lowest priority. The job then waits for as many GPUs of the same
 * type for `timeout` seconds (easyscale_return.c), and goes on with the rest if
 * there are none. That is scale-in: only a job with fewer than gpus_min GPUs
 * left must stop, and it starts again by itself.
 *
 * `types=one` is determinism level D1: a job stays on one GPU type for life,
 * the one it first started on; `mixed` is D2, for jobs that accept several.
 * A job that says itself that it keeps to one type (spec.one_type) is D1 under
 * `mixed` as well: once it has GPUs its type_mask is their type.
 *
 * Several executors on one GPU (MC_i = m C_i I_i) are a part of the layout: as
 * many as make the step shortest, of the numbers that the job's profile has for
 * that GPU type and mini-batch and that fit into its memory. The artifact's
 * table has them for one model on one GPU type (docs/models/waste.md).
 *
 * firn's own options, all off by default, because the paper has none of them:
 *
 *   several     a proposal may be of several GPUs, up to twice as many as
 *               before. With one at a time 4 threads never leave 2 GPUs: three
 *               take as long, and waste a third
 *   again       Algorithm 1 is repeated within a round until no job gains:
 *               each change costs a restart, and so a job pays for one only
 *   worth       a running job asks only for what gains its restart back
 *   release     GPUs that a layout leaves idle are given back
 *   gain=0.25   GPUs go back if less than a quarter of the promised gain is
 *               seen, not only if the job became slower
 *   timeout=0   a job that lost GPUs goes on with the rest at once
 *
 * Invariants: (1) a job has at least gpus_min GPUs, or none; it has none only
 * if it could not start, waits for GPUs that were taken back, has minP 0, or a
 * job with a higher priority took them; (2) the counts of all jobs add up to at
 * most what is up, by type; (3) what a round remembers does not change the plan
 * of the same round.
 *
 * Cost: O(jobs log jobs) a round, O(jobs) for each GPU taken back, and for
 * each pass of Algorithm 1 the layouts of the proposals.
 */
#include "policy/easyscale.h"
#include "base/keep.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { REST_ROUNDS = 10 }; /* intervals without proposals after a fall-back */

static const char *const kinds[] = {"one", "mixed", NULL};

static const struct firn_option table[] = {
    FIRN_CHOICE(struct easyscale, types, "types", "mixed", kinds,
                "GPU types of one job at a time: one (D1) or several (D2)"),
    FIRN_NUMBER(struct easyscale, waste, "waste", "0.3", 0, 1,
                "the most of its GPUs' capability that a layout may waste"),
    FIRN_INT(struct easyscale, top, "top", "3", 1, THREADPLAN_MOST,
             "proposals that a job makes at a time"),
    FIRN_NUMBER(struct easyscale, gain, "gain", "0", 0, 1,
                "share of a predicted gain that must be seen, else the GPUs go "
                "back; 0: only if the job is slower than before"),
    FIRN_NUMBER(struct easyscale, timeout_s, "timeout", "10", 0, 1e9,
                "seconds that a job waits for GPUs like those taken back from "
                "it, before it goes on with the rest"),
    FIRN_NUMBER(struct easyscale, interval_s, "interval", "60", 1, 1e9,
                "seconds until GPUs are offered again, if nothing happens "
                "before"),
    FIRN_NUMBER(struct easyscale, restart_s, "restart", "20", 0, 1e9,
                "with worth=1: seconds that a change costs a job that names "
                "no cost"),
    FIRN_BOOL(struct easyscale, skip, "skip", "1",
              "jobs pass one of the same priority that cannot start"),
    FIRN_BOOL(struct easyscale, several, "several", "0",
              "a job may propose several more GPUs at once, not only one"),
    FIRN_BOOL(struct easyscale, again, "again", "0",
              "proposals are made again in the same round, until no job gains"),
    FIRN_BOOL(struct easyscale, worth, "worth", "0",
              "a running job asks only for GPUs that gain its restart back"),
    FIRN_BOOL(struct easyscale, releases, "release", "0",
              "a job gives back GPUs that its layout does not need"),
    {0},
};

/* ---- seats ---- */

static int by_priority(const struct firn_job *a, const struct firn_job *b,
                       const struct firn_view *view, const void *arg)
{
    (void)view;
    (void)arg;
    return (a->spec.priority < b->spec.priority) -
           (a->spec.priority > b->spec.priority);
}

static void es_count(const struct firn_view *view,
                     const struct firn_alloc *alloc, int *counts)
{
    for (int i = 0; i < alloc->nparts; i++)
        counts[view->cluster->nodes[alloc->parts[i].node].type] +=
            __builtin_popcountll(alloc->parts[i].gpus);
}

/* The types that a job may use now. */
static uint32_t types_of(const struct es_round *round,
                         const struct es_seat *seat)
{
    const struct firn_job *job = seat->job;
    if (round->es->types == ES_MIXED)
        return job->type_mask;
    if (job->held.nparts > 0)
        return (uint32_t)1
               << round->view->cluster->nodes[job->held.parts[0].node].type;
    if (seat->past != NULL && seat->past->type > 0)
        return (uint32_t)1 << (seat->past->type - 1);
    return job->type_mask;
}

/* Its capabilities, asked for when they are first needed. */
const struct threadplan *es_plan(const struct es_round *round,
                                 struct es_seat *seat)
{
    if (!seat->is_planned)
        threadplan_init(&seat->plan, round->view, seat->job,
                        types_of(round, seat));
    seat->is_planned = true;
    return &seat->plan;
}

/* Puts what was kept over a restart under the slots that jobs have now. */
static void take_up(struct easyscale *es, const struct firn_job *const *jobs,
                    size_t n)
{
    for (size_t i = 0, k = 0; i < n && k < es->kept.n; i++) {
        size_t slot = (size_t)jobs[i]->slot;
        while (k < es->kept.n && es->kept.at[k].id < jobs[i]->id + 1)
            k++;
        if (k == es->kept.n || es->kept.at[k].id != jobs[i]->id + 1)
            continue;
        vec_reserve(&es->past, slot + 1);
        if (es->past.at[slot].id != jobs[i]->id + 1)
            es->past.at[slot] = es->kept.at[k];
    }
    vec_release(&es->kept);
}

int es_minimum(const struct firn_job *job)
{
    return job->spec.best_effort ? 0 : job->spec.gpus_min;
}

/* GPUs beyond its minimum. */
static int surplus_of(const struct es_seat *seat)
{
    int more = seat->has.gpus - es_minimum(seat->job);
    return more > 0 ? more : 0;
}

static void sit_down(struct es_round *round)
{
    const struct firn_view *view = round->view;
    const struct firn_job **jobs = firn_view_sorted(view, by_priority, NULL);
    struct easyscale *es = round->es;
    if (es->kept.n > 0)
        take_up(es, firn_view_jobs(view), view->njobs);
    for (int t = 0; t < round->ntypes; t++) {
        round->free[t] = firn_plan_free_of(round->plan, t);
        round->nfree += round->free[t];
    }
    for (size_t i = 0; i < view->njobs; i++) {
        const struct firn_job *job = jobs[i];
        size_t slot = (size_t)job->slot;
        if (job->held
                .is_shared) /* placed by another policy: it stays as it is */
            continue;
        struct es_seat *seat = &round->seats[round->n++];
        seat->job = job;
        if (slot < es->past.cap && es->past.at[slot].id == job->id + 1)
            seat->past = &es->past.at[slot];
        es_count(view, &job->held, seat->has.counts);
        seat->has.gpus = job->held.ngpus;
        es_sit_parked(round, seat);
        round->surplus += surplus_of(seat);
    }
}

/* Moves GPUs of a type between a job and the free ones; `more` may be
 * negative. */
void es_move(struct es_round *round, struct es_seat *seat, int type, int more)
{
    int before = surplus_of(seat);
    seat->has.counts[type] += more;
    seat->has.gpus += more;
    round->free[type] -= more;
    round->nfree -= more;
    round->surplus += surplus_of(seat) - before;
    seat->is_changed = true;
}

/* Changes the GPUs that it is to have to these. */
void es_set(struct es_round *round, struct es_seat *seat, const int *counts)
{
    for (int t = 0; t < round->ntypes; t++)
        if (counts[t] != seat->has.counts[t])
            es_move(round, seat, t, counts[t] - seat->has.counts[t]);
}

/* ---- fall back ---- */

/* The job runs on the GPUs it was given last, and has reported its speed
 * there. */
static bool is_judged(const struct es_round *round, const struct es_seat *seat)
{
    const struct es_past *past = seat->past;
    const struct firn_job *job = seat->job;
    return past != NULL && past->from_rate > 0 && job->rate > 0 &&
           job->resumes_s >= past->at_s && past->at_s < round->view->now_s &&
           memcmp(past->to, seat->has.counts, sizeof past->to) == 0;
}

static void fall_back(struct es_round *round)
{
    const struct easyscale *es = round->es;
    for (size_t i = 0; i < round->n; i++) {
        struct es_seat *seat = &round->seats[i];
        struct es_past *past = seat->past;
        int back[FIRN_TYPES_MAX] = {0}, gpus = 0;
        if (!is_judged(round, seat))
            continue;
        double gain = past->to_rate > past->from_rate
                          ? past->to_rate - past->from_rate
                          : 0;
        if (seat->job->rate >= past->from_rate + es->gain * gain)
            continue;
        for (int t = 0; t < round->ntypes; t++) {
            int held = seat->has.counts[t];
            back[t] = past->from[t] < held ? past->from[t] : held;
            gpus += back[t];
        }
        if (gpus < seat->job->spec.gpus_min || gpus == 0)
            continue;
        es_set(round, seat, back);
        seat->is_falling = true;
        past->rests_until_s = round->view->now_s + REST_ROUNDS * es->interval_s;
    }
}

/* ---- grow ---- */

/* It runs on the GPUs that it was given last; or need not. */
static bool has_settled(const struct es_round *round,
                        const struct es_seat *seat)
{
    const struct firn_job *job = seat->job;
    return round->es->again || (job->held.nparts > 0 && !seat->is_changed &&
                                job->resumes_s <= round->view->now_s);
}

/* It is expected to gain back what a restart costs. */
static bool is_worth(const struct es_round *round, const struct es_seat *seat,
                     const struct proposal *proposal)
{
    const struct firn_job *job = seat->job;
    double cost_s = firn_view_change_s(round->view, job, round->es->restart_s);
    struct firn_way now = {.gpus = seat->has.gpus,
                           .tunes = FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS,
                           .counts = seat->has.counts};
    if (!round->es->worth || seat->is_changed || job->held.nparts == 0)
        return true;
    double left_s = firn_view_left_s(round->view, job, &now);
    double rate = threadplan_rate(&seat->plan, &seat->has);
    double saved_s = left_s * (1 - rate / proposal->rate);
    return !(saved_s <= cost_s); /* NaN: not known */
}

static int propose(struct es_round *round, struct es_seat *seat,
                   struct proposal *out)
{
    const struct easyscale *es = round->es;
    const struct firn_job *job = seat->job;
    struct threadplan_limits limits = {
        .free = round->free,
        .gpus_min = job->spec.gpus_min,
        .gpus_max = firn_view_gpus_max(round->view, job, FIRN_TUNE_THREADS),
        .waste_max = es->waste,
        .top = es->top,
        .several = es->several,
        .trims = es->releases,
    };
    bool rests = seat->past && round->view->now_s < seat->past->rests_until_s;
    int n = 0, left = 0;
    if (seat->has.gpus == 0 || seat->is_falling || seat->is_parked || rests ||
        job->spec.gpus_min == job->spec.gpus_max || !has_settled(round, seat))
        return 0;
    if (threadplan_layout(es_plan(round, seat), seat->has.counts, &seat->has))
        n = threadplan_propose(&seat->plan, &seat->has, &limits, out);
    for (int i = 0; i < n; i++) {
        out[i].of = seat;
        if (is_worth(round, seat, &out[i]))
            out[left++] = out[i];
    }
    return left;
}

/* Higher speed-up per GPU, then more GPUs, then the earlier seat. */
static int by_gain(const void *a, const void *b)
{
    const struct proposal *p = *(struct proposal *const *)a;
    const struct proposal *q = *(struct proposal *const *)b;
    if (p->gain != q->gain)
        return p->gain > q->gain ? -1 : 1;
    if (p->more != q->more)
        return p->more > q->more ? -1 : 1;
    const struct es_seat *s = p->of, *t = q->of;
    if (s != t)
        return s < t ? -1 : 1;
    return (p->type > q->type) - (p->type < q->type);
}

static bool fits(const struct es_round *round, const struct proposal *proposal)
{
    const struct es_seat *seat = proposal->of;
    for (int t = 0; t < round->ntypes; t++)
        if (proposal->layout.counts[t] - seat->has.counts[t] > round->free[t])
            return false;
    return true;
}

/* Algorithm 1, once: a job has one proposal accepted at most. */
static bool accept(struct es_round *round, struct proposal **sorted, size_t n)
{
    bool any = false;
    bool *done = firn_view_alloc(round->view, (round->n + 1) * sizeof *done);
    qsort(sorted, n, sizeof(struct proposal *), by_gain);
    for (size_t i = 0; i < n && round->nfree > 0; i++) {
        struct es_seat *seat = sorted[i]->of;
        bool *is_done = &done[seat - round->seats];
        if (*is_done || !fits(round, sorted[i]))
            continue;
        es_set(round, seat, sorted[i]->layout.counts);
        seat->rate = sorted[i]->rate;
        seat->has_grown = true;
        *is_done = any = true;
    }
    return any;
}

static void grow(struct es_round *round)
{
    size_t room = round->n * (size_t)round->es->top + 1;
    if (round->nfree == 0)
        return;
    struct proposal *made = firn_view_alloc(round->view, room * sizeof *made);
    struct proposal **sorted =
        firn_view_alloc(round->view, room * sizeof(struct proposal *));
    while (round->nfree > 0) {
        size_t n = 0;
        for (size_t i = 0; i < round->n; i++) {
            struct proposal some[THREADPLAN_MOST];
            int more = propose(round, &round->seats[i], some);
            for (int k = 0; k < more; k++, n++) {
                made[n] = some[k];
                sorted[n] = &made[n];
            }
        }
        if (!accept(round, sorted, n) || !round->es->again)
            return;
    }
}

/* ---- place and remember ---- */

static bool is_same(const struct es_round *round, const struct es_seat *seat)
{
    int held[FIRN_TYPES_MAX] = {0};
    es_count(round->view, &seat->job->held, held);
    return memcmp(held, seat->has.counts, sizeof held) == 0;
}

static void place(struct es_round *round)
{
    struct firn_plan *plan = round->plan;
    for (size_t i = 0; i < round->n; i++) {
        struct es_seat *seat = &round->seats[i];
        seat->is_changed = seat->is_changed && !is_same(round, seat);
        if (seat->is_rejected)
            firn_plan_reject(plan, seat->job,
                             "no GPU type could hold its GPUs");
        else if (seat->is_changed && seat->job->held.nparts > 0)
            firn_plan_drop(plan, seat->job);
    }
    for (size_t i = 0; i < round->n; i++) {
        struct es_seat *seat = &round->seats[i];
        struct firn_want want = {.gpus = seat->has.gpus,
                                 .counts = seat->has.counts};
        if (!seat->is_changed || seat->has.gpus == 0 || seat->is_parked)
            continue;
        if (!firn_plan_give_want(plan, seat->job, &want) &&
            seat->job->barred == NULL) /* it waits */
            FIRN_BUG("%d GPUs for job %d are not there", want.gpus,
                     seat->job->id);
    }
}

static void remember(struct es_round *round)
{
    struct easyscale *es = round->es;
    for (size_t i = 0; i < round->n; i++) {
        const struct es_seat *seat = &round->seats[i];
        const struct firn_job *job = seat->job;
        bool is_kept = seat->is_parked || seat->has_waited;
        bool is_given = seat->is_changed && seat->has.gpus > 0 &&
                        !seat->is_falling && !seat->is_parked;
        if (!is_given && !is_kept)
            continue;
        vec_reserve(&es->past, (size_t)job->slot + 1);
        struct es_past *past = &es->past.at[job->slot];
        if (past->id != job->id + 1)
            *past = (struct es_past){.id = job->id + 1};
        es_remember_parked(round, seat, past);
        if (!is_given)
            continue;
        for (int t = 0; t < round->ntypes && past->type == 0; t++)
            past->type = seat->has.counts[t] > 0 ? t + 1 : 0;
        if (!seat->has_grown || job->held.nparts == 0)
            continue;
        memset(past->from, 0, sizeof past->from);
        es_count(round->view, &job->held, past->from);
        memcpy(past->to, seat->has.counts, sizeof past->to);
        past->at_s = round->view->now_s;
        past->from_rate = job->rate;
        past->to_rate = seat->rate;
    }
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct es_round round = {.es = state,
                             .view = view,
                             .plan = plan,
                             .ntypes = view->cluster->ntypes};
    round.seats =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *round.seats);
    firn_plan_keep_all(plan);
    sit_down(&round);
    fall_back(&round);
    es_guarantee(&round);
    grow(&round);
    place(&round);
    remember(&round);
    round.es->wakes_s = es_next_timeout_s(round.es, view->now_s);
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct easyscale *es = state;
    double next_s = view->now_s + es->interval_s;
    if (es->wakes_s > view->now_s && es->wakes_s < next_s)
        next_s = es->wakes_s;
    return view->njobs > 0 ? next_s : INFINITY;
}

static void fini(void *state)
{
    struct easyscale *es = state;
    vec_release(&es->past);
    vec_release(&es->kept);
}

/* ---- over a restart ---- */

/* Kept are the type a job first started on, which it may not leave under
 * types=one, what was predicted when it was last given more GPUs, by which it
 * is judged, and which GPUs it waits for. All of it is by job id: core may give
 * a job another slot after a restart, so take_up() puts entries under slots in
 * the first round, and those of jobs that are gone are forgotten then. */

static void save_counts(struct firn_buf *out, const int *counts)
{
    int n = FIRN_TYPES_MAX;
    while (n > 0 && counts[n - 1] == 0)
        n--;
    keep_int(out, n);
    for (int t = 0; t < n; t++)
        keep_int(out, counts[t]);
}

static void save_past(struct firn_buf *out, const struct es_past *past)
{
    keep_int(out, past->id);
    keep_int(out, past->type);
    keep_double(out, past->at_s);
    save_counts(out, past->from);
    save_counts(out, past->to);
    keep_double(out, past->from_rate);
    keep_double(out, past->to_rate);
    keep_double(out, past->rests_until_s);
    save_counts(out, past->lost);
    save_counts(out, past->rest);
    keep_double(out, past->waits_until_s);
    keep_double(out, past->waited_s);
}

static void save(const void *state, struct firn_buf *out)
{
    const struct easyscale *es = state;
    long n = (long)es->kept.n;
    for (size_t i = 0; i < es->past.cap; i++)
        n += es->past.at[i].id > 0;
    keep_begin(out, "policy easyscale", 2);
    keep_int(out, n);
    for (size_t i = 0; i < es->past.cap; i++)
        if (es->past.at[i].id > 0)
            save_past(out, &es->past.at[i]);
    for (size_t i = 0; i < es->kept.n; i++)
        save_past(out, &es->kept.at[i]);
}

static void load_counts(struct keep *in, int *counts)
{
    long n = keep_read_int(in, 0, FIRN_TYPES_MAX);
    for (long t = 0; t < n; t++)
        counts[t] = (int)keep_read_int(in, 0, INT32_MAX);
}

static struct es_past load_past(struct keep *in)
{
    struct es_past past = {.id = (int)keep_read_int(in, 1, INT32_MAX)};
    past.type = (int)keep_read_int(in, 0, FIRN_TYPES_MAX);
    past.at_s = keep_read_double(in);
    load_counts(in, past.from);
    load_counts(in, past.to);
    past.from_rate = keep_read_double(in);
    past.to_rate = keep_read_double(in);
    past.rests_until_s = keep_read_double(in);
    load_counts(in, past.lost);
    load_counts(in, past.rest);
    past.waits_until_s = keep_read_double(in);
    past.waited_s = keep_read_double(in);
    return past;
}

static int by_id(const void *a, const void *b)
{
    const struct es_past *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum firn_status load(void *state, struct firn_bytes in,
                             struct firn_error *err)
{
    struct easyscale *es = state;
    struct easyscale fresh = {.past = {0}};
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy easyscale", 2, err));
    long n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++)
        vec_add(&fresh.kept, load_past(&keep));
    enum firn_status status = keep_close(&keep, err);
    if (status != FIRN_OK) {
        vec_release(&fresh.kept);
        return status;
    }
    if (fresh.kept.n > 1)
        qsort(fresh.kept.at, fresh.kept.n, sizeof *fresh.kept.at, by_id);
    vec_release(&es->past);
    vec_release(&es->kept);
    es->kept.at = fresh.kept.at;
    es->kept.n = fresh.kept.n;
    es->kept.cap = fresh.kept.cap;
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_easyscale = {
    .size = sizeof(struct firn_policy_def),
    .name = "easyscale",
    .summary = "elastic threads on any GPUs, more where they speed up most",
    .paper = "Li et al., EasyScale, SC 2023",
    .needs = FIRN_NEED_FORECAST,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_REJECT,
    .tunes = FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS,
    .options = table,
    .state_size = sizeof(struct easyscale),
    .decide = decide,
    .obeys = FIRN_OBEYS_PRIORITY,
    .wake_s = wake_s,
    .fini = fini,
    .save = save,
    .load = load,
};
