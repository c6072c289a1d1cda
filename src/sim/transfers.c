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
 * A forecast answers with the fitted step times and the same epochs, times a
 * factor for each job where the simulation has noise on transfer. (Ymir
 * predicts the epochs from a similarity of the datasets; the scores were not
 * published.) core/forecaster_merge.c works out what follows from them.
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
#include <math.h>
#include <string.h>

enum { SETS = 9 }; /* tasks of a model, in rows that follow each other */

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

enum { NTASKS = sizeof tasks / sizeof *tasks };

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

double transfers_gain(int task, int other)
{
    if (!transfers_is_pair(task, other))
        return 1;
    double epochs = transfers_after(task, other);
    return transfers_epochs(task) / (epochs > 0 ? epochs : TRANSFERS_NEVER);
}

double transfers_rate(int task, int other, double epochs,
                      const struct running *joint, const struct running *ref)
{
    double mine = transfers_samples(task), theirs = transfers_samples(other);
    double samples_s =
        joint->batch / joint->iteration_s * mine / (mine + theirs);
    return samples_s / (ref->batch / ref->iteration_s) *
           (transfers_epochs(task) / epochs);
}

/* --- what is expected ---------------------------------------------------- */

/* One of the two jobs of a question. */
struct side {
    const struct firn_job *job;
    int task;
    double belief; /* of its epochs when merged: noise */
    struct merge_side merge;
};

static bool look_at(struct simengine *engine, const struct firn_job *job,
                    const struct firn_way *way, double now_s, struct side *out)
{
    const struct firn_sim_options *options = engine->world.options;
    struct merge_side *merge = &out->merge;
    out->job = job;
    merge->work_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    merge->is_new = merge->work_s >= job->spec.duration_s;
    merge->alone = simforecast_rate(engine->forecast, job, way, now_s);
    double alone =
        noise_iterations(&options->noise, options->seed, job->id, false);
    double merged =
        noise_iterations(&options->noise, options->seed, job->id, true);
    merge->work_s *= alone;
    out->belief =
        options->noise.transfer > 0
            ? noise_of_job(&options->noise, options->seed, job->id).transfer
            : 1;
    out->belief *= merged / alone; /* each is of the epochs, not of both */
    return merge->alone > 0 && job->spec.batch > 0;
}

/* How fast each goes when both are trained; false: not known. */
static bool together(struct simengine *engine, struct side s[2],
                     const struct firn_way *way, struct firn_merge *out)
{
    struct running joint, ref;
    double batch = (double)s[0].job->spec.batch + s[1].job->spec.batch;
    for (int i = 0; i < 2; i++) {
        double epochs = transfers_together(s[i].task, s[1 - i].task);
        if (!(epochs > 0) || !simforecast_running(engine->forecast, s[i].job,
                                                  way, batch, &joint, &ref))
            return false;
        s[i].merge.together = transfers_rate(
            s[i].task, s[1 - i].task, epochs * s[i].belief, &joint, &ref);
    }
    out->epoch_s =
        (transfers_samples(s[0].task) + transfers_samples(s[1].task)) /
        (joint.batch / joint.iteration_s);
    return true;
}

/* How much less the second has to do; false: not known. */
static bool after(struct side s[2], struct firn_merge *out)
{
    double epochs = transfers_after(s[1].task, s[0].task);
    double alone = transfers_epochs(s[1].task);
    if (!(epochs > 0))
        return false;
    s[1].merge.after = alone / (epochs * s[1].belief);
    out->epoch_s = s[1].merge.work_s / s[1].merge.alone / alone;
    return true;
}

bool transfers_merge(void *state, const struct firn_job *a,
                     const struct firn_job *b, enum firn_merge_kind kind,
                     const struct firn_way *way, double now_s,
                     struct firn_merge *out)
{
    struct simengine *engine = state;
    struct side s[2] = {{.task = transfers_task(a->spec.app)},
                        {.task = transfers_task(b->spec.app)}};
    struct firn_merge merge;
    if (!transfers_is_pair(s[0].task, s[1].task) ||
        !look_at(engine, a, way, now_s, &s[0]) ||
        !look_at(engine, b, way, now_s, &s[1]))
        return false;
    if (kind == FIRN_MERGE_TOGETHER ? !together(engine, s, way, &merge)
                                    : !after(s, &merge))
        return false;
    const struct merge_side sides[2] = {s[0].merge, s[1].merge};
    if (!merge_expect(sides, kind, &merge))
        return false;
    *out = merge;
    return true;
}
