/* optimus.c - each GPU goes where it saves the most time.
 *
 * Every job first gets the fewest GPUs it can run on, in order of submission,
 * while there are any. Then, as long as GPUs are left, one more goes to the
 * job whose remaining time it shortens most,
 *
 *   gain = left(r) - left(r + 1)
 *
 * with left(r) the forecast of its remaining time on r GPUs that stand as
 * close together as can be. A job that would not gain gets no more in this
 * round (Peng et al., Optimus, EuroSys 2018, section 4.1; as in the Pollux
 * authors' "Optimus+Oracle", total batches are fixed). Jobs whose number of
 * GPUs is unchanged stay where they are; the others are placed anew, those
 * with few GPUs first.
 *
 * With `sharing`, what the IceFrog authors call Optimus + GPU sharing: when no
 * GPU is left for a job of one GPU, it joins another on one, if both allow it
 * and neither is slowed beyond `slowdown`. It then leaves as soon as there is
 * a GPU for itself.
 *
 * Left out: parameter servers beside workers (all-reduce has none), and the
 * fit of convergence curves and speeds, which the forecast does.
 *
 * Invariants:
 * (1) a job is served before a later one gets its first GPU;
 * (2) the sum of counts, guests not counted, is at most the GPUs that are up;
 * (3) equal gains: the lower id.
 *
 * Cost: O((jobs + GPUs) log jobs) a round, and a forecast for each GPU given;
 * O(guests x hosts) to find the host of each guest.
 */
#include <firn/policy.h>

struct optimus {
    double interval_s;
    bool sharing;
    double slowdown;
};

static const struct firn_option options[] = {
    FIRN_NUMBER(
        struct optimus, interval_s, "interval", "60", 1, 1e9,
        "seconds until GPUs are divided anew, if nothing happens before"),
    FIRN_BOOL(struct optimus, sharing, "sharing", "off",
              "jobs that find no GPU join one that runs on a single GPU"),
    FIRN_NUMBER(struct optimus, slowdown, "slowdown", "1.12", 1, 100,
                "step time on a shared GPU / alone up to which two jobs share"),
    {0},
};

/* A job and what it is to get. */
struct seat {
    const struct firn_job *job;
    int gpus, most;
    double left_s, next_s; /* forecast on `gpus`, and on one more */
    double gain;           /* what one more saves */
    struct seat *host;     /* the job that it joins, or NULL */
    bool has_guest, is_placed;
};

struct round {
    const struct optimus *options;
    const struct firn_view *view;
    struct seat *seats; /* by id */
    size_t n;
    struct seat **heap; /* those that gain, the largest gain first */
    size_t nheap;
    int left; /* GPUs */
};

static double left_s(const struct round *round, const struct seat *seat,
                     int gpus)
{
    struct firn_way way = {.gpus = gpus, .type = FIRN_ANY_TYPE};
    return firn_view_left_s(round->view, seat->job, &way);
}

/* Seconds that one more GPU saves; 0 where nothing is gained or known. */
static void look_ahead(const struct round *round, struct seat *seat)
{
    seat->gain = 0;
    if (seat->gpus >= seat->most)
        return;
    seat->next_s = left_s(round, seat, seat->gpus + 1);
    double gain = seat->left_s - seat->next_s;
    if (gain > 0) /* false for NaN */
        seat->gain = gain;
}

/* ---- sharing ---- */

static bool may_pair(const struct round *round, const struct seat *a,
                     const struct seat *b)
{
    double most = round->options->slowdown;
    return firn_view_slowdown(round->view, a->job, b->job) <= most &&
           firn_view_slowdown(round->view, b->job, a->job) <= most;
}

static bool is_small(const struct seat *seat)
{
    return seat->job->spec.may_share && seat->job->spec.gpus_min == 1;
}

/* Finds a job to join among those before it: the one it is with already, else
 * the first. */
static void find_host(const struct round *round, struct seat *guest)
{
    if (!round->options->sharing || !is_small(guest))
        return;
    for (struct seat *host = round->seats; host < guest; host++) {
        if (host->gpus != 1 || host->host != NULL || host->has_guest ||
            !is_small(host) || !may_pair(round, guest, host))
            continue;
        bool is_together =
            guest->job->held.nparts > 0 &&
            firn_alloc_equal(&guest->job->held, &host->job->held);
        if (guest->host == NULL || is_together)
            guest->host = host;
        if (is_together)
            break;
    }
    if (guest->host == NULL)
        return;
    guest->host->has_guest = true;
    guest->gpus = 1;
}

/* ---- how many each ---- */

static void serve_each(struct round *round)
{
    const struct firn_job *const *jobs = firn_view_jobs(round->view);
    for (size_t i = 0; i < round->n; i++) { /* (1) */
        struct seat *seat = &round->seats[i];
        int least = jobs[i]->spec.gpus_min;
        seat->job = jobs[i];
        if (least > round->left) {
            find_host(round, seat);
            continue;
        }
        seat->gpus = least;
        round->left -= least;
    }
}

/* A larger gain, or an earlier job: (3). */
static bool before(const struct seat *a, const struct seat *b)
{
    return a->gain != b->gain ? a->gain > b->gain : a < b;
}

static void sift_down(struct round *round, size_t at)
{
    struct seat **heap = round->heap, *seat = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < round->nheap && before(heap[child + 1], heap[child]))
            child++;
        if (child >= round->nheap || !before(heap[child], seat))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = seat;
}

/* Gives out the GPUs that are left, one by one. */
static void grow(struct round *round)
{
    if (round->left == 0)
        return;
    for (size_t i = 0; i < round->n; i++) {
        struct seat *seat = &round->seats[i];
        if (seat->gpus == 0 || seat->host != NULL || seat->has_guest)
            continue;
        seat->most = firn_view_gpus_max(round->view, seat->job, 0);
        if (seat->gpus >= seat->most)
            continue;
        seat->left_s = left_s(round, seat, seat->gpus);
        look_ahead(round, seat);
        if (seat->gain > 0)
            round->heap[round->nheap++] = seat;
    }
    for (size_t i = round->nheap / 2; i-- > 0;)
        sift_down(round, i);
    while (round->left > 0 && round->nheap > 0) {
        struct seat *seat = round->heap[0];
        seat->gpus++;
        round->left--; /* (2) */
        seat->left_s = seat->next_s;
        look_ahead(round, seat);
        if (!(seat->gain > 0))
            round->heap[0] = round->heap[--round->nheap];
        if (round->nheap > 0)
            sift_down(round, 0);
    }
}

/* ---- where ---- */

/* May other jobs join it? Decided when it is placed and by what it is, not by
 * whether it has a guest, so that it need not be restarted when a guest comes
 * or goes. */
static bool is_open(const struct round *round, const struct seat *seat)
{
    return round->options->sharing && seat->gpus == 1 && is_small(seat);
}

/* Those with as many GPUs as before stay, unless that means sharing a GPU
 * without need. */
static void keep(const struct round *round, struct firn_plan *plan)
{
    for (size_t i = 0; i < round->n; i++) {
        struct seat *seat = &round->seats[i];
        const struct firn_alloc *held = &seat->job->held;
        if (seat->gpus == 0 || held->ngpus != seat->gpus ||
            seat->host != NULL || (seat->has_guest && !held->is_shared))
            continue;
        size_t mark = firn_plan_mark(plan);
        int free = firn_plan_free(plan);
        seat->is_placed = firn_plan_keep(plan, seat->job);
        if (seat->is_placed && firn_plan_free(plan) == free) {
            firn_plan_undo(plan, mark); /* the GPU of another job */
            seat->is_placed = false;
        }
    }
}

/* Gives it GPUs; fewer than planned where other jobs hold those of the one type
 * that it keeps to. */
static bool give(struct firn_plan *plan, struct seat *seat,
                 struct firn_want *want)
{
    bool may_shrink = seat->job->spec.one_type;
    while (!firn_plan_give_want(plan, seat->job, want)) {
        if (!may_shrink || want->gpus <= seat->job->spec.gpus_min)
            return false;
        want->gpus--;
    }
    return true;
}

static void place(const struct round *round, struct firn_plan *plan,
                  struct seat *seat)
{
    struct firn_want want = {.gpus = seat->gpus,
                             .shared = is_open(round, seat)};
    size_t mark = firn_plan_mark(plan);
    int free = firn_plan_free(plan);
    seat->is_placed = give(plan, seat, &want);
    if (seat->is_placed && firn_plan_free(plan) == free) {
        /* It would stay as a guest where it is: it gets a GPU of its own
         * instead. */
        firn_plan_undo(plan, mark);
        want.shared = false;
        seat->is_placed = firn_plan_give_want(plan, seat->job, &want);
    }
    if (!seat->is_placed)
        firn_plan_note(plan, seat->job, "no room for its %d GPUs", seat->gpus);
}

/* The others by rising count, ties by id; then the guests. */
static void place_all(const struct round *round, struct firn_plan *plan)
{
    int most = 0;
    for (size_t i = 0; i < round->n; i++)
        if (round->seats[i].gpus > most)
            most = round->seats[i].gpus;
    size_t *first =
        firn_view_alloc(round->view, ((size_t)most + 2) * sizeof *first);
    struct seat **sorted =
        firn_view_alloc(round->view, (round->n + 1) * sizeof(struct seat *));
    for (size_t i = 0; i < round->n; i++)
        first[round->seats[i].gpus + 1]++;
    for (int g = 1; g <= most; g++)
        first[g + 1] += first[g];
    for (size_t i = 0; i < round->n; i++)
        sorted[first[round->seats[i].gpus]++] = &round->seats[i];
    for (size_t i = 0; i < round->n; i++)
        if (sorted[i]->gpus > 0 && !sorted[i]->is_placed &&
            sorted[i]->host == NULL)
            place(round, plan, sorted[i]);
    for (size_t i = 0; i < round->n; i++) {
        struct seat *seat = &round->seats[i];
        if (seat->host != NULL &&
            !firn_plan_share(plan, seat->job, seat->host->job))
            firn_plan_note(plan, seat->job,
                           "the job it was to share with has no GPU");
    }
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct round round = {.options = state,
                          .view = view,
                          .n = view->njobs,
                          .left = view->gpus_up};
    round.seats = firn_view_alloc(view, (round.n + 1) * sizeof *round.seats);
    round.heap = firn_view_alloc(view, (round.n + 1) * sizeof(struct seat *));
    serve_each(&round);
    grow(&round);
    keep(&round, plan);
    place_all(&round, plan);
    for (size_t i = 0; i < round.n; i++)
        if (round.seats[i].gpus == 0)
            firn_plan_note(plan, round.seats[i].job,
                           "earlier jobs hold all GPUs");
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct optimus *optimus = state;
    return view->njobs > 0 ? view->now_s + optimus->interval_s : INFINITY;
}

const struct firn_policy_def firn_policy_optimus = {
    .size = sizeof(struct firn_policy_def),
    .name = "optimus",
    .summary = "each GPU to the job it saves the most time",
    .paper = "Peng et al., Optimus, EuroSys 2018",
    .needs = FIRN_NEED_FORECAST,
    .does =
        FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE | FIRN_DOES_SHARE,
    .options = options,
    .state_size = sizeof(struct optimus),
    .decide = decide,
    .wake_s = wake_s,
};
