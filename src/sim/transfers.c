/* transfers.c - epochs alone, together and after; and the time they take.
 *
 * Ymir (section 4) merges two fine-tuning tasks A and B of one foundation model
 * in two ways. With E epochs alone, D samples of an epoch, M total batch:
 *
 * Together (spatial): one training over both datasets with the batch M_A + M_B.
 * An iteration of T seconds takes D_A / (D_A + D_B) of its samples from A, and
 * A is done after J_A epochs of both, so that in A's reference seconds
 *
 *     rate_A = (M_A + M_B) / T x D_A / (D_A + D_B) / (M_A / Tref) x E_A / J_A
 *
 * Until the first is done that is the work of the paper's eq. (4), epochs x
 * (D_A + D_B). Each is done when its own target is met; from then on the other
 * goes on alone, and has the same share of its work left as of its J.
 *
 * After (temporal): B begins with the weights of A and needs J epochs instead
 * of E_B for the rest of its life: rate alone x E_B / J.
 *
 * A forecast answers with the fitted step times and the epochs that are
 * expected (sim/taskfeed.c: Ymir's estimator, fed by reports), times a factor
 * for each job and partner where the simulation has noise on transfer. A job
 * that is merged now has left what its finished epochs leave of the expected
 * ones, not what the truth leaves. core/forecaster_merge.c works out what
 * follows from them.
 *
 * Left out: the learning rate and batch that the joint curves were made with
 * (not published), two jobs of one dataset, and more than two.
 *
 * Cost: a task is found in O(tasks); everything else is O(1).
 */
#include "sim/transfers.h"
#include "core/forecaster_merge.h"
#include "sim/noise.h"
#include "sim/simengine.h"
#include "sim/simforecast.h"
#include "sim/taskfeed.h"
#include <firn/transfer.h>
#include <math.h>
#include <string.h>

enum { SETS = TRANSFERS_SETS };

static const struct {
    const char *model, *set;
    double samples, epochs;
    double with[2 * SETS]; /* together with each, then after each */
} tasks[] = {
#define TASK(model, set, samples, epochs, ...) \
    {model, set, samples, epochs, {__VA_ARGS__}},
#include "sim/transfers.def"
#undef TASK
};

enum { NTASKS = TRANSFERS_TASKS };
_Static_assert(sizeof tasks / sizeof *tasks == NTASKS, "one row for each task");

/* --- epochs --------------------------------------------------------------- */

int transfers_task(const char *app)
{
    const char *at = strchr(app, '@');
    if (at == NULL)
        return 0;
    size_t n = (size_t)(at - app);
    for (int i = 0; i < NTASKS; i++)
        if (strcmp(tasks[i].set, at + 1) == 0 && strlen(tasks[i].model) == n &&
            memcmp(tasks[i].model, app, n) == 0)
            return i + 1;
    return 0;
}

double transfers_epochs(int task)
{
    return task > 0 ? tasks[task - 1].epochs : 0;
}

double transfers_samples(int task)
{
    return task > 0 ? tasks[task - 1].samples : 0;
}

bool transfers_is_pair(int task, int other)
{
    return task > 0 && other > 0 && task != other &&
           (task - 1) / SETS == (other - 1) / SETS;
}

double transfers_together(int task, int other)
{
    if (!transfers_is_pair(task, other))
        return 0;
    return tasks[task - 1].with[(other - 1) % SETS];
}

double transfers_after(int task, int other)
{
    if (!transfers_is_pair(task, other))
        return 0;
    return tasks[task - 1].with[SETS + (other - 1) % SETS];
}

bool transfers_key(int task, int other, enum firn_merge_kind kind,
                   double *ratio)
{
    double epochs = kind == FIRN_MERGE_AFTER ? transfers_after(task, other)
                                             : transfers_together(task, other);
    *ratio = epochs / transfers_epochs(task);
    return epochs > 0;
}

double transfers_gain(int task, int other)
{
    if (!transfers_is_pair(task, other))
        return 1;
    double epochs = transfers_after(task, other);
    return transfers_epochs(task) / (epochs > 0 ? epochs : TRANSFERS_NEVER);
}

double transfers_rate(int task, int other, double ratio,
                      const struct running *joint, const struct running *ref)
{
    double mine = transfers_samples(task), theirs = transfers_samples(other);
    double samples_s =
        joint->batch / joint->iteration_s * mine / (mine + theirs);
    return samples_s / (ref->batch / ref->iteration_s) / ratio;
}

/* --- what is expected ---------------------------------------------------- */

/* The job's truth; NULL before its first start. */
static struct simjob *simjob_of(struct simengine *engine,
                                const struct firn_job *job)
{
    struct simjob *sj = (size_t)job->slot < engine->jobs.cap
                            ? &engine->jobs.at[job->slot]
                            : NULL;
    return job->starts > 0 && sj != NULL && sj->job == job ? sj : NULL;
}

/* What it has really done by now: its trainer counts epochs by it. */
static double done_s(const struct simjob *sj, double now_s)
{
    double begin_s = fmax(sj->resumes_s, sj->since_s);
    double more_s =
        sj->job->held.nparts > 0 ? fmax(now_s - begin_s, 0) * sj->rate : 0;
    return fmin(sj->done_s + more_s, sj->job->spec.duration_s);
}

/* All running jobs report the epochs that they have finished by now, once: so
 * that all questions of a decision are answered from the same reports. */
static void hear(struct simengine *engine, double now_s)
{
    if (engine->tasks_told == NULL || engine->heard_s == now_s)
        return;
    engine->heard_s = now_s;
    for (size_t i = 0; i < engine->jobs.cap; i++) {
        struct simjob *sj = &engine->jobs.at[i];
        if (sj->job != NULL && heap_has(&engine->finishes, (int)i))
            taskfeed_tell(engine->tasks_told, sj, done_s(sj, now_s));
    }
}

/* True: it is merged, and this is known of it. */
static bool state_of(struct simengine *engine, const struct firn_job *job,
                     double now_s, struct taskfeed_state *out)
{
    struct simjob *sj = simjob_of(engine, job);
    return engine->tasks_told != NULL && sj != NULL &&
           taskfeed_state(engine->tasks_told, sj, done_s(sj, now_s), out);
}

double transfers_left_s(struct simengine *engine, const struct firn_job *job,
                        double now_s)
{
    struct taskfeed_state state;
    struct simjob *sj = simjob_of(engine, job);
    struct taskbook_answer answer;
    double left_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    hear(engine, now_s);
    if (state_of(engine, job, now_s, &state))
        left_s = state.left * job->spec.duration_s;
    if (sj != NULL && sj->with > 0 && sj->kind == FIRN_MERGE_AFTER &&
        taskfeed_answer(engine->tasks_told, sj->task, sj->with,
                        FIRN_MERGE_AFTER, &answer))
        left_s *= answer.ratio;
    return left_s;
}

/* One of the two jobs of a question. */
struct side {
    const struct firn_job *job;
    int task;
    double belief; /* of its epochs when merged: noise */
    struct merge_side merge;
};

static bool look_at(struct simengine *engine, struct noise_merge with,
                    const struct firn_way *way, double now_s, struct side *out)
{
    const struct firn_sim_options *options = engine->world.options;
    const struct firn_job *job = out->job;
    struct noise_merge by_itself = {.id = job->id, .with = FIRN_NO_JOB};
    struct merge_side *merge = &out->merge;
    merge->work_s = transfers_left_s(engine, job, now_s);
    merge->is_new = !(firn_job_done_s(job, now_s) > 0);
    merge->alone = simforecast_rate(engine->forecast, job, way, now_s);
    double alone = noise_iterations(&options->noise, options->seed, by_itself);
    double merged = noise_iterations(&options->noise, options->seed, with);
    merge->work_s *= alone;
    out->belief = noise_transfer(&options->noise, options->seed, with);
    out->belief *= merged / alone; /* each is of the epochs, not of both */
    return merge->alone > 0 && job->spec.batch > 0;
}

/* It began anew after a transfer that hurt. */
static bool is_lone(struct simengine *engine, const struct firn_job *job)
{
    const struct simjob *sj = simjob_of(engine, job);
    return sj != NULL && sj->is_lone;
}

/* How fast each goes when both are trained; false: not known. */
static bool together(struct simengine *engine, struct side s[2],
                     const struct firn_way *way, struct firn_merge *out)
{
    struct running joint, ref;
    struct taskbook_answer answer;
    double batch = (double)s[0].job->spec.batch + s[1].job->spec.batch;
    for (int i = 0; i < 2; i++) {
        if (!taskfeed_answer(engine->tasks_told, s[i].task, s[1 - i].task,
                             FIRN_MERGE_TOGETHER, &answer) ||
            !simforecast_running(engine->forecast, s[i].job, way, batch, &joint,
                                 &ref))
            return false;
        s[i].merge.together = transfers_rate(
            s[i].task, s[1 - i].task, answer.ratio * s[i].belief, &joint, &ref);
    }
    struct firn_task_size one[2]; /* an epoch of each */
    for (int i = 0; i < 2; i++) {
        double samples = transfers_samples(s[i].task);
        one[i] = (struct firn_task_size){samples / s[i].job->spec.batch,
                                         s[i].job->spec.batch, samples};
    }
    out->epoch_s =
        firn_spatial_iterations(&one[0], &one[1]) * joint.iteration_s;
    return true;
}

/* How much less the second has to do; false: not known. */
static bool after(struct simengine *engine, struct side s[2],
                  struct firn_merge *out)
{
    struct taskbook_answer answer;
    if (!taskfeed_answer(engine->tasks_told, s[1].task, s[0].task,
                         FIRN_MERGE_AFTER, &answer))
        return false;
    s[1].merge.after = 1 / (answer.ratio * s[1].belief);
    out->epoch_s =
        s[1].merge.work_s / s[1].merge.alone / transfers_epochs(s[1].task);
    return true;
}

/* How the merge of two that are trained together has gone so far. */
static void watch(struct simengine *engine, const struct side s[2],
                  double now_s, struct firn_merge *out)
{
    struct taskfeed_state state;
    out->epochs = (double)INFINITY;
    out->stalled = 0;
    for (unsigned i = 0; i < 2; i++) {
        bool is_known = state_of(engine, s[i].job, now_s, &state);
        out->epochs = fmin(out->epochs, is_known ? state.epochs : 0);
        if (is_known && state.is_stalled)
            out->stalled |= 1u << i;
    }
}

bool transfers_merge(void *state, const struct firn_job *a,
                     const struct firn_job *b, enum firn_merge_kind kind,
                     const struct firn_way *way, double now_s,
                     struct firn_merge *out)
{
    struct simengine *engine = state;
    struct side s[2] = {{.job = a, .task = transfers_task(a->spec.app)},
                        {.job = b, .task = transfers_task(b->spec.app)}};
    struct noise_merge first = {a->id, b->id, kind},
                       second = {b->id, a->id, kind};
    struct firn_merge merge = {0};
    if (engine->tasks_told == NULL || is_lone(engine, a) ||
        is_lone(engine, b) || !transfers_is_pair(s[0].task, s[1].task) ||
        !look_at(engine, first, way, now_s, &s[0]) ||
        !look_at(engine, second, way, now_s, &s[1]))
        return false;
    if (kind == FIRN_MERGE_TOGETHER ? !together(engine, s, way, &merge)
                                    : !after(engine, s, &merge))
        return false;
    const struct merge_side sides[2] = {s[0].merge, s[1].merge};
    if (!merge_expect(sides, kind, &merge))
        return false;
    if (kind == FIRN_MERGE_TOGETHER)
        watch(engine, s, now_s, &merge);
    *out = merge;
    return true;
}

int transfers_left_by(const struct simengine *engine, firn_job_id id)
{
    return id >= 0 && (size_t)id < engine->tasks.n ? engine->tasks.at[id] : 0;
}

bool transfers_saved(void *state, firn_job_id from, const struct firn_job *job,
                     struct firn_after *out)
{
    struct simengine *engine = state;
    const struct firn_sim_options *options = engine->world.options;
    int task = transfers_task(job->spec.app);
    int other = transfers_left_by(engine, from);
    struct taskbook_answer answer;
    if (engine->tasks_told == NULL || is_lone(engine, job) ||
        !transfers_is_pair(task, other))
        return false;
    hear(engine, engine->world.now_s);
    if (!taskfeed_answer(engine->tasks_told, task, other, FIRN_MERGE_AFTER,
                         &answer))
        return false;
    struct noise_merge with = {job->id, from, FIRN_MERGE_AFTER};
    struct noise_merge alone = {.id = job->id, .with = FIRN_NO_JOB};
    double ratio = answer.ratio *
                   noise_transfer(&options->noise, options->seed, with) *
                   noise_iterations(&options->noise, options->seed, with) /
                   noise_iterations(&options->noise, options->seed, alone);
    *out = (struct firn_after){.gain = 1 / ratio, .ended = answer.ended};
    return true;
}
