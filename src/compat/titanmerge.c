/* titanmerge.c - TitanSched's own policy, the first form of Ymir.
 *
 * Every 120 s the 32 jobs with the shortest predicted time on one GPU (as many
 * as there are GPUs) are given 1, 2, 3, 4, 8, 12, ... 32 GPUs each, so that the
 * sum of max(R(a), 120) / max(R(fair), 120) is smallest, R being the predicted
 * time and fair = max(1, GPUs / jobs); a job left out costs 10^4, more than any
 * allocation. A running job that is left out stops; a job with another number
 * of GPUs than before restarts. Restart costs are not weighed.
 *
 * With `merge` two waiting jobs of different datasets that have made no
 * progress may become one: batch B_A + B_B, A the one whose dataset is listed
 * first. With P the work, w = (P_A + P_B + min(P_A, P_B)) / (2 P) speaks for a
 * pair; one below 1.1 is dropped. Pairs are listed in the order in which their
 * jobs came to wait. Quirks:
 *
 *   free-rider   P = P_A: the pair does only A's work, and B is done with it
 *   last-waiting the cost of a pair on a GPUs is R(a) / (w R_pair(fair)) with
 *                R(a), and the most GPUs, of the job that waits last, which
 *                may be one that this very round has stopped; both times at
 *                least 120
 *   rising-bar   once the pairs listed have n >= 10 variables, a pair's own
 *                idleness and each number of GPUs being one, the next must have
 *                w >= log10(n) + 0.1: those that come early keep out others
 *   equal-stay   B is given the completion time of A, counted from its own
 *                submission
 *   no-temporal  pairs one after the other are listed by the artifact at a
 *                cost at which they are never chosen; here they are left out
 *
 * The artifact asks Gurobi; here the sum is exact without pairs (math/sumrow.h)
 * and within a bound with them (math/pairs.h). Equal sums may be met by other
 * choices than Gurobi's, which also stops within 10^-4 of a sum that idle pairs
 * make large: without pairs mean completion times are within 0.8 % of the
 * authors', with pairs within 1.3 %, and there are 23, 9, 67 and 30 of them on
 * the four workloads of load 1, as many as theirs.
 *
 * Invariant: deciding changes nothing but what titan.h says is this round's.
 */
#include "base/fmath.h"
#include "compat/titan.h"
#include "math/pairs.h"
#include "math/sumrow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTS = 11 }; /* 1, 2, 3, 4, 8, ... 32 */

static const double floor_s = 120;
static const double idle_cost = 1000; /* any number above all others */

struct rules {
    bool merge;
};

static const struct firn_option options[] = {
    {.name = "merge",
     .type = FIRN_OPTION_BOOL,
     .fallback = "no",
     .help = "waiting jobs are merged in pairs, as the artifact does it",
     .offset = offsetof(struct rules, merge)},
    {0},
};

/* A task in the round's order. */
struct seat {
    struct titan_task *task;
    int id;
    double key;
    size_t at; /* its place in the artifact's lists, waiting ones first */
    bool may_merge;
    int gpus;
};

struct couple {
    int a, b; /* seats */
    int kind;
    double weight;
    int gpus; /* given; 0: not chosen */
};

struct round {
    struct titan *t;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct seat *seats;
    size_t n, nserved; /* the first of them are considered */
    int fair;
    const struct titan_task *last; /* last-waiting; or NULL */
    struct couple *couples;
    size_t ncouples;
    size_t nlisted; /* rising-bar: variables the artifact has for them */
    size_t *start;  /* of the menus alone, then together */
    int *cost;
    double *value;
};

static int by_key(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    int c = firn_cmp(x->key, y->key);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

static void list(struct round *r, const int *ids, size_t n, bool waits)
{
    for (size_t i = 0; i < n; i++) {
        struct titan_task *task = &r->t->tasks.at[ids[i]];
        r->seats[r->n] = (struct seat){
            .task = task,
            .id = ids[i],
            .key = titan_expected_s(r->t, task, 1),
            .at = r->n,
            .may_merge = waits && task->guest == 0 && task->done == 0,
        };
        r->n++;
    }
}

/* ---- menus ---- */

/* Lists the counts up to `most`; returns how many. */
static int counts_of(int most, int counts[COUNTS])
{
    int n = 0;
    for (int gpus = 1; gpus <= most && gpus <= TITAN_GPUS_MAX;
         gpus += gpus < 4 ? 1 : 4)
        counts[n++] = gpus;
    return n;
}

static int most_of(const struct round *r, const struct titan_task *task)
{
    return r->t->speed.kinds.at[task->kind].gpus_max;
}

/* No time counts as less than a round. */
static double time_of(const struct round *r, const struct titan_task *task,
                      int gpus)
{
    return fmax(titan_expected_s(r->t, task, gpus), floor_s);
}

/* On the fair share, or the most that it can use. */
static double fair_of(const struct round *r, const struct titan_task *task)
{
    int most = most_of(r, task);
    return time_of(r, task, r->fair < most ? r->fair : most);
}

/* Entries of one menu behind `at`; where the next begins. */
static size_t list_alone(const struct round *r, const struct seat *seat,
                         size_t at)
{
    int counts[COUNTS], n = counts_of(most_of(r, seat->task), counts);
    double fair_s = fair_of(r, seat->task);
    for (int i = 0; i < n; i++, at++) {
        r->cost[at] = counts[i];
        r->value[at] = idle_cost - time_of(r, seat->task, counts[i]) / fair_s;
    }
    return at;
}

/* last-waiting */
static size_t list_together(const struct round *r, const struct couple *c,
                            size_t at)
{
    int counts[COUNTS], n = counts_of(most_of(r, r->last), counts);
    struct titan_task both = *r->seats[c->a].task; /* free-rider */
    both.kind = c->kind;
    double fair_s = fair_of(r, &both);
    for (int i = 0; i < n; i++, at++) {
        double share = time_of(r, r->last, counts[i]) / fair_s;
        r->cost[at] = counts[i];
        r->value[at] = 2 * idle_cost - share / c->weight;
    }
    return at;
}

static void list_menus(struct round *r)
{
    size_t menus = r->nserved + r->ncouples, at = 0;
    r->start = firn_view_alloc(r->view, (menus + 2) * sizeof *r->start);
    r->cost = firn_view_alloc(r->view, (menus + 1) * COUNTS * sizeof *r->cost);
    r->value =
        firn_view_alloc(r->view, (menus + 1) * COUNTS * sizeof *r->value);
    for (size_t i = 0; i < r->nserved; i++)
        r->start[i + 1] = at = list_alone(r, &r->seats[i], at);
    for (size_t k = 0; k < r->ncouples; k++)
        r->start[r->nserved + k + 1] = at =
            list_together(r, &r->couples[k], at);
}

/* ---- couples ---- */

static int set_of(const struct round *r, const struct seat *seat)
{
    return r->t->work.goals.at[seat->task->job->spec.line].set;
}

static void try_couple(struct round *r, int i, int k)
{
    int a = i, b = k;
    if (set_of(r, &r->seats[a]) > set_of(r, &r->seats[b])) {
        a = k;
        b = i;
    }
    const struct firn_job *x = r->seats[a].task->job;
    const struct firn_job *y = r->seats[b].task->job;
    double work_a = r->seats[a].task->work, work_b = r->seats[b].task->work;
    double weight = (work_a + work_b + fmin(work_a, work_b)) / (2 * work_a);
    double n = (double)r->nlisted;
    size_t name = strcspn(x->spec.app, "@") + 1; /* "model@" */
    struct couple c = {.a = a, .b = b, .weight = weight};
    struct firn_error err = {0};
    if (set_of(r, &r->seats[a]) == set_of(r, &r->seats[b]) ||
        strncmp(x->spec.app, y->spec.app, name) != 0 || weight < 1.1 ||
        (n >= 10 && weight < fm_log(n) / fm_log(10) + 0.1))
        return;
    if (titanspeed_kind(&r->t->speed, r->t->world.options->profiles,
                        x->spec.app, x->spec.batch + y->spec.batch, &c.kind,
                        &err) != FIRN_OK)
        return;
    int counts[COUNTS];
    r->nlisted += 1 + (size_t)counts_of(most_of(r, r->last), counts);
    r->couples[r->ncouples++] = c;
}

static int by_place(const void *a, const void *b)
{
    const struct seat *x = *(struct seat *const *)a;
    const struct seat *y = *(struct seat *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

static void list_couples(struct round *r)
{
    size_t n = 0;
    struct seat **single =
        firn_view_alloc(r->view, (r->nserved + 1) * sizeof(struct seat *));
    for (size_t i = 0; i < r->nserved; i++)
        if (r->seats[i].may_merge)
            single[n++] = &r->seats[i];
    if (n < 2)
        return;
    qsort(single, n, sizeof *single, by_place);
    r->couples = firn_view_alloc(r->view, (n * n + 1) * sizeof *r->couples);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            try_couple(r, (int)(single[i] - r->seats),
                       (int)(single[k] - r->seats));
}

/* ---- deciding ---- */

static void solve_alone(struct round *r)
{
    size_t *entry = firn_view_alloc(r->view, (r->nserved + 1) * sizeof *entry);
    struct menus menus = {r->nserved, r->start, r->cost, r->value,
                          r->view->gpus_up};
    struct sumrow_result result;
    struct firn_error err = {0};
    if (r->nserved == 0)
        return;
    if (sumrow_solve(&menus, entry, &result, r->view->scratch, &err) != FIRN_OK)
        FIRN_BUG("%s", err.text);
    for (size_t i = 0; i < r->nserved; i++)
        r->seats[i].gpus = r->cost[entry[i]];
}

static void solve_pairs(struct round *r)
{
    size_t n = r->nserved, k = r->ncouples;
    int *first = firn_view_alloc(r->view, (2 * k + 1) * sizeof *first);
    struct pairs_choice *choice =
        firn_view_alloc(r->view, (n + 1) * sizeof *choice);
    struct pairs_result result;
    struct firn_error err = {0};
    for (size_t i = 0; i < k; i++) {
        first[i] = r->couples[i].a;
        first[k + i] = r->couples[i].b;
    }
    struct pairs_problem problem = {
        .alone = {.n = n,
                  .start = r->start,
                  .cost = r->cost,
                  .value = r->value},
        .together = {.n = k,
                     .start = r->start + n,
                     .cost = r->cost,
                     .value = r->value},
        .first = first,
        .second = first + k,
        .capacity = r->view->gpus_up,
        .tolerance = 1e-9,
        .rounds = 200,
    };
    if (pairs_solve(&problem, choice, &result, r->view->scratch, &err) !=
        FIRN_OK)
        FIRN_BUG("%s", err.text);
    for (size_t i = 0; i < n; i++) {
        if (choice[i].entry == SIZE_MAX)
            continue;
        if (choice[i].pair == PAIRS_NONE) {
            r->seats[i].gpus = r->cost[choice[i].entry];
            continue;
        }
        struct couple *c = &r->couples[choice[i].pair];
        struct seat *a = &r->seats[c->a], *b = &r->seats[c->b];
        c->gpus = r->cost[choice[i].entry];
        a->gpus = b->gpus = 0;
        a->task->takes = b->id + 1;
        a->task->merged_kind = c->kind;
        b->task->joins = a->id + 1;
    }
}

/* ---- planning ---- */

static const struct firn_job *guest_of(const struct round *r,
                                       const struct titan_task *task)
{
    int guest = task->takes ? task->takes : task->guest;
    return guest ? r->t->tasks.at[guest - 1].job : NULL;
}

static void start(struct round *r, const struct seat *seat)
{
    const struct firn_job *guest = guest_of(r, seat->task);
    struct firn_want want = {.gpus = seat->gpus, .shared = guest != NULL};
    size_t mark = firn_plan_mark(r->plan);
    if (firn_plan_give_want(r->plan, seat->task->job, &want) &&
        (guest == NULL || firn_plan_merge(r->plan, guest, seat->task->job)))
        return;
    firn_plan_undo(r->plan, mark);
    firn_plan_note(r->plan, seat->task->job, "no %d GPUs on %d nodes",
                   seat->gpus,
                   (seat->gpus + TITAN_NODE_GPUS - 1) / TITAN_NODE_GPUS);
}

struct starts {
    struct seat *at;
    size_t n;
};

static void add_start(struct starts *starts, struct seat seat, int gpus)
{
    seat.gpus = gpus;
    seat.key = -gpus;
    seat.at = starts->n;
    starts->at[starts->n++] = seat;
}

/* A job whose number of GPUs changed stops, and starts anew with the others. */
static void change(struct round *r, const struct seat *seat,
                   struct starts *starts)
{
    vec_add(&r->t->line, seat->id);
    if (seat->gpus == seat->task->held)
        return;
    if (seat->task->held > 0) {
        const struct firn_job *guest = guest_of(r, seat->task);
        firn_plan_drop(r->plan, seat->task->job);
        firn_plan_note(r->plan, seat->task->job, "gave way at a round");
        if (guest != NULL)
            firn_plan_drop(r->plan, guest);
    }
    if (seat->gpus > 0)
        add_start(starts, *seat, seat->gpus);
}

/* Plans all stops, beginning with the jobs not considered, then the starts,
 * largest first, pairs after single jobs: consolidate, list-order. */
static void plan_all(struct round *r)
{
    struct starts starts = {
        firn_view_alloc(r->view, (r->n + 1) * sizeof *starts.at), 0};
    r->t->line.n = 0;
    for (size_t i = r->nserved; i < r->n; i++)
        change(r, &r->seats[i], &starts);
    for (size_t i = 0; i < r->nserved; i++)
        if (r->seats[i].task->takes == 0 && r->seats[i].task->joins == 0)
            change(r, &r->seats[i], &starts);
    for (size_t k = 0; k < r->ncouples; k++) {
        const struct couple *c = &r->couples[k];
        if (c->gpus == 0)
            continue;
        vec_add(&r->t->line, r->seats[c->a].id);
        vec_add(&r->t->line, r->seats[c->b].id);
        add_start(&starts, r->seats[c->a], c->gpus);
    }
    if (starts.n > 1)
        qsort(starts.at, starts.n, sizeof *starts.at, by_key);
    for (size_t i = 0; i < starts.n; i++)
        start(r, &starts.at[i]);
}

/* last-waiting: the last of the waiting jobs and of those that stop because
 * they are not considered. */
static const struct titan_task *last_of(const struct round *r)
{
    const struct titan *t = r->t;
    for (size_t i = r->n; i > r->nserved; i--)
        if (r->seats[i - 1].task->held > 0)
            return r->seats[i - 1].task;
    return t->waiting.n > 0 ? &t->tasks.at[t->waiting.at[t->waiting.n - 1]]
                            : NULL;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    const struct rules *rules = state;
    struct titan *t = view->forecaster;
    struct round r = {.t = t, .view = view, .plan = plan};
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        struct titan_task *task = &t->tasks.at[jobs[i]->id];
        task->job = jobs[i];
        task->has_changed = task->renews = false;
        task->takes = task->joins = 0;
        task->deserves_gpu_s = task->deserved_gpu_s;
    }
    firn_plan_keep_all(plan);
    r.seats = firn_view_alloc(view, (view->njobs + 1) * sizeof *r.seats);
    list(&r, t->waiting.at, t->waiting.n, true);
    list(&r, t->running.at, t->running.n, false);
    if (r.n > 1)
        qsort(r.seats, r.n, sizeof *r.seats, by_key);
    r.nserved = r.n < (size_t)view->gpus_up ? r.n : (size_t)view->gpus_up;
    r.last = last_of(&r);
    if (r.n > 0)
        r.fair = view->gpus_up / (int)r.n;
    r.fair = r.fair < 1 ? 1 : r.fair > TITAN_GPUS_MAX ? TITAN_GPUS_MAX : r.fair;
    if (rules->merge && r.last != NULL)
        list_couples(&r);
    list_menus(&r);
    if (r.ncouples > 0)
        solve_pairs(&r);
    else
        solve_alone(&r);
    plan_all(&r);
    return FIRN_OK;
}

const struct firn_policy_def titan_ymir = {
    .size = sizeof(struct firn_policy_def),
    .name = "ymir",
    .summary = "the artifact's titan: smallest sum of slowdowns",
    .does =
        FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE | FIRN_DOES_MERGE,
    .options = options,
    .state_size = sizeof(struct rules),
    .decide = decide,
    .wake_s = titan_wake_s,
};
