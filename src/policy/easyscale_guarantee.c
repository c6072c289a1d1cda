/* easyscale_guarantee.c - minP for every job, by taking GPUs back.
 *
 * Jobs that hold nothing come in order of priority, then of submission. Each
 * tries to get gpus_min GPUs, of the fastest type that has them: first free
 * ones; then those of jobs of no higher priority that have more than their own
 * minimum; then, if its priority is higher, those of any job with a lower one.
 * GPUs are taken one at a time where the loss is least. A job that loses some
 * waits for others like them (easyscale_return.c), or is laid out anew; with
 * release=1 it gives up what it then does not need. A job whose minP is 0 may
 * lose all of its GPUs to a job with a minimum, and starts on free ones only.
 *
 * Types are mixed at the start only where the free GPUs make a layout that
 * wastes little, or where no type could ever hold the job. Where types may not
 * be mixed, the latter is rejected. A job that keeps to one type
 * (spec.one_type) starts on one, and core sees to it that there is one that
 * could hold it.
 *
 * Cost: O(jobs types) for each job that starts, and for each GPU taken back.
 */
#include "policy/easyscale.h"

enum { NOTES = 16 }; /* waiting jobs that get a note, each round */

/* Its GPUs are all of one type. */
static bool is_of_one_type(const struct es_round *round,
                           const struct es_seat *seat)
{
    return round->es->types == ES_ONE || seat->job->spec.one_type;
}

/* The GPUs that a job may take. */
enum source {
    FREE,    /* free ones only */
    SURPLUS, /* jobs with more than their minimum, of no higher priority */
    LOWER,   /* and any job of lower priority */
};

static int takeable(const struct es_seat *victim, const struct es_seat *seat,
                    enum source source)
{
    int mine = seat->job->spec.priority, theirs = victim->job->spec.priority;
    if (source == FREE || theirs > mine || victim == seat)
        return 0;
    if (source == LOWER && theirs < mine)
        return victim->has.gpus;
    int more = victim->has.gpus - es_minimum(victim->job);
    return more > 0 ? more : 0;
}

/* Counts GPUs of these types that can be had, up to `need`. */
static int available(const struct es_round *round, const struct es_seat *seat,
                     uint32_t types, enum source source, int need)
{
    int sum = 0;
    for (int t = 0; t < round->ntypes; t++)
        sum += types >> t & 1 ? round->free[t] : 0;
    if (source == FREE)
        return sum;
    for (size_t i = 0; i < round->n && sum < need; i++) {
        const struct es_seat *victim = &round->seats[i];
        int here = 0, most = takeable(victim, seat, source);
        for (int t = 0; t < round->ntypes && most > 0; t++)
            here += types >> t & 1 ? victim->has.counts[t] : 0;
        sum += here < most ? here : most;
    }
    return sum;
}

/* How much slower a job is without one of its GPUs of that type; 1: it must
 * stop. */
static double loss(const struct es_round *round, struct es_seat *victim,
                   int type)
{
    const struct threadplan *plan = es_plan(round, victim);
    struct layout now, less = victim->has;
    if (victim->has.gpus <= victim->job->spec.gpus_min)
        return 1;
    less.counts[type]--;
    if (!threadplan_layout(plan, victim->has.counts, &now) ||
        !threadplan_layout(plan, less.counts, &less))
        return 1;
    return 1 - less.perf / now.perf;
}

/* Frees one GPU of these types: of the lowest priority, then with the least
 * loss, then of the latest job. A job left with too few stops. */
static void take_one(struct es_round *round, const struct es_seat *seat,
                     uint32_t types, enum source source)
{
    struct es_seat *from = NULL;
    int from_type = 0;
    double least = 0;
    for (size_t i = round->n; i-- > 0;) {
        struct es_seat *victim = &round->seats[i];
        if (takeable(victim, seat, source) == 0)
            continue;
        if (from && victim->job->spec.priority > from->job->spec.priority)
            break;
        for (int t = 0; t < round->ntypes; t++) {
            if (!(types >> t & 1) || victim->has.counts[t] == 0)
                continue;
            double here = loss(round, victim, t);
            if (from == NULL || here < least) {
                from = victim;
                from_type = t;
                least = here;
            }
        }
    }
    if (from == NULL)
        FIRN_BUG("no GPU can be taken for job %d", seat->job->id);
    es_move(round, from, from_type, -1);
    from->lost[from_type]++;
    from->has_lost = true;
    if (from->has.gpus < from->job->spec.gpus_min) {
        const int none[FIRN_TYPES_MAX] = {0};
        es_set(round, from, none);
    }
}

/* Gives the job its minimum on these types, of which there are enough: on the
 * fastest first. */
static void start_on(struct es_round *round, struct es_seat *seat,
                     uint32_t types, enum source source)
{
    int need = seat->job->spec.gpus_min;
    while (available(round, seat, types, FREE, need) < need)
        take_one(round, seat, types, source);
    while (need > 0 && types != 0) {
        int best = 0;
        for (int t = 0; t < round->ntypes; t++)
            if ((types >> t & 1) &&
                (!(types >> best & 1) ||
                 seat->plan.per_gpu[t] > seat->plan.per_gpu[best]))
                best = t;
        int some = round->free[best] < need ? round->free[best] : need;
        if (some > 0)
            es_move(round, seat, best, some);
        need -= some;
        types &= ~((uint32_t)1 << best);
    }
}

/* GPUs of a type, up or down. */
static bool can_ever(const struct es_round *round, const struct es_seat *seat)
{
    for (int t = 0; t < round->ntypes; t++)
        if ((seat->plan.types >> t & 1) &&
            round->view->cluster->types[t].ngpus >= seat->job->spec.gpus_min)
            return true;
    return false;
}

/* A mix of types is allowed: it wastes little, or no single type could hold the
 * job. */
static bool may_mix(const struct es_round *round, const struct es_seat *seat,
                    enum source source)
{
    struct layout layout = {0};
    int need = seat->job->spec.gpus_min;
    uint32_t types = seat->plan.types;
    if (is_of_one_type(round, seat) ||
        available(round, seat, types, source, need) < need)
        return false;
    if (!can_ever(round, seat))
        return true;
    if (source != FREE)
        return false;
    for (int t = 0, left = need; t < round->ntypes; t++) {
        int some = types >> t & 1 ? round->free[t] : 0;
        layout.counts[t] = some < left ? some : left;
        left -= layout.counts[t];
    }
    return threadplan_layout(&seat->plan, layout.counts, &layout) &&
           layout.waste <= round->es->waste;
}

static bool start(struct es_round *round, struct es_seat *seat)
{
    int need = seat->job->spec.gpus_min;
    int last = es_minimum(seat->job) > 0 ? LOWER : FREE;
    es_plan(round, seat);
    for (int source = FREE; source <= last; source++) {
        int best = -1;
        for (int t = 0; t < round->ntypes; t++)
            if ((seat->plan.types >> t & 1) &&
                (best < 0 ||
                 seat->plan.per_gpu[t] > seat->plan.per_gpu[best]) &&
                available(round, seat, (uint32_t)1 << t, (enum source)source,
                          need) >= need)
                best = t;
        if (best < 0 && !may_mix(round, seat, (enum source)source))
            continue;
        uint32_t types = best < 0 ? seat->plan.types : (uint32_t)1 << best;
        if (is_of_one_type(round, seat))
            seat->plan.types = types;
        start_on(round, seat, types, (enum source)source);
        return true;
    }
    return false;
}

/* There cannot be a GPU for it: a quick test before the search. */
static bool is_hopeless(const struct es_round *round,
                        const struct es_seat *seat)
{
    const struct firn_job *last =
        round->n > 0 ? round->seats[round->n - 1].job : NULL;
    if (es_minimum(seat->job) == 0)
        return seat->job->spec.gpus_min > round->nfree;
    return seat->job->spec.gpus_min > round->nfree + round->surplus &&
           last->spec.priority == seat->job->spec.priority;
}

static void note(struct es_round *round, const struct es_seat *seat,
                 bool is_blocked)
{
    if (is_blocked)
        firn_plan_note(round->plan, seat->job, "waits behind an earlier job");
    else
        firn_plan_note(round->plan, seat->job,
                       "needs %d GPUs%s: %d free, %d to take back",
                       seat->job->spec.gpus_min,
                       seat->job->spec.one_type ? " of one type" : "",
                       round->nfree, round->surplus);
}

void es_guarantee(struct es_round *round)
{
    const struct firn_job *blocker = NULL;
    int notes = 0;
    for (size_t i = 0; i < round->n; i++) {
        struct es_seat *seat = &round->seats[i];
        if (seat->is_parked)
            es_try_return(round, seat);
        if (seat->has.gpus > 0)
            continue;
        bool is_blocked =
            blocker && blocker->spec.priority == seat->job->spec.priority;
        if (!is_blocked && round->es->types == ES_ONE) {
            es_plan(round, seat);
            seat->is_rejected = !can_ever(round, seat);
            if (seat->is_rejected)
                continue;
        }
        if (!is_blocked && !is_hopeless(round, seat) && start(round, seat))
            continue;
        if (!round->es->skip && !is_blocked)
            blocker = seat->job;
        if (notes++ < NOTES)
            note(round, seat, is_blocked);
    }
    for (size_t i = 0; i < round->n; i++) {
        struct es_seat *seat = &round->seats[i];
        struct layout trimmed = seat->has;
        if (seat->has_lost)
            es_park(round, seat);
        if (!seat->is_changed || seat->has.gpus == 0 || seat->is_parked ||
            !round->es->releases)
            continue;
        threadplan_trim(es_plan(round, seat), &trimmed,
                        seat->job->spec.gpus_min);
        es_set(round, seat, trimmed.counts);
    }
}
