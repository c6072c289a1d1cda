/* taskfeed.c - losses from published curves, scores of a stated worth.
 *
 * The world's side of Ymir's estimator. A simulated job that has finished an
 * epoch reports its loss: the published curve (curves.def) of its task, alone,
 * together with the other task or after it, times exp(NOISE x normal). Beyond
 * the ten published epochs the last one holds. A job that was trained in one
 * way from its first epoch to its last also reports how many epochs it took.
 * Those that changed their way on the way report nothing of themselves alone.
 *
 * Task2Vec scores of these tasks were not published. They are drawn here so
 * that they are worth what the paper measured: with z the true gain of B from
 * A, standardised over the pairs of the model,
 *
 *     S(A,B) = 0.5 + 0.1 (r z + sqrt(1 - r^2) x),    x normal
 *
 * and r the paper's correlation of score and gain (its Table 2): 0.439 for
 * ViT, 0.791 for RoBERTa. z is the mean over both kinds of the mean over ten
 * epochs of ln(loss alone / loss merged). A task's scores are known once a job
 * of it has reported an epoch alone.
 *
 * The regression of a model begins with the pairs of the other family, drawn
 * in the same way: ViT's with those of RoBERTa-base and -large, RoBERTa's with
 * those of ViT and ViT-large. No pair of a task on any model that has the
 * task's dataset is among them.
 *
 * Not charged: the batches that a score takes (the paper: up to 25 s for ViT
 * and 76 s for RoBERTa, once for each of nine tasks).
 *
 * Invariant: every draw depends on the seed, and on the pair or the job and
 * its epoch, not on when it is asked for.
 */
#include "sim/taskfeed.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "sim/simengine.h"
#include "sim/transfers.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOISE 0.05

enum { TASKS = TRANSFERS_TASKS, SETS = TRANSFERS_SETS, EPOCHS = 10 };

static const struct {
    const char *model, *set;
    double target;
    double loss[1 + 2 * SETS][EPOCHS];
} curves[TASKS] = {
#define CURVES(model, set, target, ...) {model, set, target, {__VA_ARGS__}},
#include "sim/curves.def"
#undef CURVES
};

struct taskfeed {
    struct taskbook *book;
    uint64_t seed;
    bool has_key;
    int number[TASKS]; /* of a task in the book, plus 1; 0: not yet */
    bool is_probed[TASKS];
    double score[TASKS][SETS]; /* of the row from each task of its model */
};

/* --- what is drawn ------------------------------------------------------- */

/* Mean ln(1 + G) of a row from each of its model, in one kind; NaN: none. */
static double true_gain(int row, int from, enum firn_merge_kind kind)
{
    const double *own = curves[row].loss[0];
    const double *merged =
        curves[row].loss[1 + (kind == FIRN_MERGE_AFTER ? SETS : 0) + from];
    double sum = 0;
    if (!(merged[0] > 0))
        return (double)NAN;
    for (int k = 0; k < EPOCHS; k++)
        sum += fm_log(own[k] / fmax(merged[k], 1));
    return sum / EPOCHS;
}

/* Of the paper's Table 2; the large models are taken to be as the base ones. */
static double correlation(int row)
{
    return strncmp(curves[row].model, "vit", 3) == 0 ? 0.439 : 0.791;
}

/* Brings values to mean 0 and deviation 1; NaN to 0. */
static void standardise(double *at, int n)
{
    double sum = 0, squares = 0, count = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(at[i])) {
            sum += at[i];
            squares += at[i] * at[i];
            count++;
        }
    double mean = sum / count;
    double deviation = sqrt(fmax(squares / count - mean * mean, 1e-12));
    for (int i = 0; i < n; i++)
        at[i] = isnan(at[i]) ? 0 : (at[i] - mean) / deviation;
}

static void draw_scores(struct taskfeed *feed, int first)
{
    double z[2][SETS * SETS];
    struct rng rng;
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < SETS * SETS; i++)
            z[kind][i] = i / SETS == i % SETS
                             ? (double)NAN
                             : true_gain(first + i / SETS, i % SETS,
                                         (enum firn_merge_kind)kind);
        standardise(z[kind], SETS * SETS);
    }
    for (int i = 0; i < SETS * SETS; i++)
        z[0][i] = i / SETS == i % SETS ? (double)NAN : z[0][i] + z[1][i];
    standardise(z[0], SETS * SETS);
    rng_seed(&rng, feed->seed ^ 0x7a5cfeedu);
    rng_seed(&rng, rng_u64(&rng) + (uint64_t)first);
    double r = correlation(first);
    for (int i = 0; i < SETS * SETS; i++)
        feed->score[first + i / SETS][i % SETS] =
            0.5 + 0.1 * (r * z[0][i] + sqrt(1 - r * r) * rng_normal(&rng));
}

static double score_of(const struct taskfeed *feed, int row, int from,
                       enum firn_merge_kind kind)
{
    int first = row - row % SETS;
    double there = feed->score[row][from];
    return kind == FIRN_MERGE_AFTER
               ? there
               : firn_gain_spatial_score(
                     there, feed->score[first + from][row - first]);
}

static bool is_family(int row, int other)
{
    return strncmp(curves[row].model, curves[other].model, 3) == 0;
}

/* The pairs of the other family, for the regression of a model. */
static void hand_in_offline(struct taskfeed *feed, int first)
{
    struct firn_gain_obs obs[TASKS * SETS];
    for (int kind = 0; kind < 2; kind++) {
        size_t n = 0;
        for (int row = 0; row < TASKS; row++)
            for (int from = 0; from < SETS && !is_family(first, row); from++) {
                enum firn_merge_kind as = (enum firn_merge_kind)kind;
                double y =
                    from == row % SETS ? (double)NAN : true_gain(row, from, as);
                if (!isnan(y))
                    obs[n++] = (struct firn_gain_obs){
                        score_of(feed, row, from, as), fm_exp(y) - 1};
            }
        taskbook_offline(feed->book, curves[first].model,
                         (enum firn_merge_kind)kind, obs, n);
    }
}

struct taskfeed *taskfeed_new(uint64_t seed, bool has_key)
{
    struct taskfeed *feed = mem_new(1, sizeof *feed);
    feed->book = taskbook_new();
    feed->seed = seed;
    feed->has_key = has_key;
    for (int first = 0; first < TASKS; first += SETS)
        draw_scores(feed, first);
    for (int first = 0; first < TASKS; first += SETS)
        hand_in_offline(feed, first);
    return feed;
}

void taskfeed_free(struct taskfeed *feed)
{
    if (feed == NULL)
        return;
    taskbook_free(feed->book);
    mem_free(feed);
}

/* --- a job --------------------------------------------------------------- */

/* The number of a task (from 1 on) in the book. */
static int number_of(struct taskfeed *feed, int task)
{
    int row = task - 1;
    if (feed->number[row] == 0) {
        int n = taskbook_task(feed->book, curves[row].model, curves[row].set);
        taskbook_goal(feed->book, n, curves[row].target / 1e4, EPOCHS);
        feed->number[row] = n + 1;
    }
    return feed->number[row] - 1;
}

/* A job of the task was seen: its scores with those seen before. */
static void probe(struct taskfeed *feed, int task)
{
    int row = task - 1, first = row - row % SETS;
    if (feed->is_probed[row])
        return;
    feed->is_probed[row] = true;
    for (int i = 0; i < SETS; i++) {
        int other = first + i;
        if (other == row || !feed->is_probed[other])
            continue;
        int a = number_of(feed, task), b = number_of(feed, other + 1);
        taskbook_score(feed->book, b, a, feed->score[row][i]);
        taskbook_score(feed->book, a, b, feed->score[other][row - first]);
    }
}

/* Epochs from the first to the last, in the way that the job is trained. */
static double true_epochs(const struct simjob *sj)
{
    double epochs = transfers_epochs(sj->task);
    if (sj->with == 0)
        return epochs;
    epochs = sj->kind == FIRN_MERGE_AFTER
                 ? transfers_after(sj->task, sj->with)
                 : transfers_together(sj->task, sj->with);
    return epochs > 0 ? epochs : TRANSFERS_NEVER;
}

static struct task_run run_of(struct taskfeed *feed, const struct simjob *sj)
{
    return (struct task_run){.task = number_of(feed, sj->task),
                             .with = sj->with > 0 ? number_of(feed, sj->with)
                                                  : TASKBOOK_ALONE,
                             .kind = sj->kind};
}

void taskfeed_turn(struct taskfeed *feed, struct simjob *sj,
                   const struct truth_near *near)
{
    int with = 0;
    enum firn_merge_kind kind = FIRN_MERGE_TOGETHER;
    if (sj->task == 0)
        return;
    if (near->merged != NULL)
        with = transfers_task(near->merged->spec.app);
    else if (near->after > 0) {
        with = near->after;
        kind = FIRN_MERGE_AFTER;
    }
    if (!transfers_is_pair(sj->task, with))
        with = 0;
    if (sj->with == with && sj->kind == kind)
        return;
    sj->with = with;
    sj->kind = kind;
    sj->from = sj->done_s / sj->job->spec.duration_s;
    sj->told = 0;
    sj->least = (double)INFINITY;
    struct task_run run = run_of(feed, sj);
    taskbook_begin(feed->book, &run);
}

/* Epochs since it is trained in this way. */
static double epochs_done(const struct simjob *sj, double done_s)
{
    double share = done_s / sj->job->spec.duration_s - sj->from;
    return fmax(share, 0) * true_epochs(sj);
}

/* What the job reports after that epoch; 0: nothing was measured. */
static double loss_after(const struct taskfeed *feed, const struct simjob *sj,
                         int epoch)
{
    struct rng rng;
    int way = 0;
    if (sj->with > 0)
        way = 1 + (sj->kind == FIRN_MERGE_AFTER ? SETS : 0) +
              (sj->with - 1) % SETS;
    int k = epoch < EPOCHS ? epoch : EPOCHS;
    rng_seed(&rng, feed->seed ^ 0x1055feedu);
    rng_seed(&rng, rng_u64(&rng) + (uint64_t)sj->job->id);
    rng_seed(&rng, rng_u64(&rng) + (uint64_t)(epoch * (1 + 2 * SETS) + way));
    return curves[sj->task - 1].loss[way][k - 1] / 1e4 *
           fm_exp(NOISE * rng_normal(&rng));
}

void taskfeed_tell(struct taskfeed *feed, struct simjob *sj, double done_s)
{
    if (sj->task == 0)
        return;
    int now = (int)floor(epochs_done(sj, done_s) + 1e-6);
    if (sj->with == 0 && sj->from > 0)
        return; /* it was merged before */
    for (; sj->told < now; sj->told++) {
        double loss = loss_after(feed, sj, sj->told + 1);
        struct task_run run = run_of(feed, sj);
        if (sj->with == 0)
            probe(feed, sj->task);
        if (loss > 0) {
            taskbook_epoch(feed->book, &run, sj->told + 1, loss);
            sj->least = fmin(sj->least, loss);
            sj->latest = loss;
        }
    }
}

void taskfeed_end(struct taskfeed *feed, struct simjob *sj)
{
    if (sj->task == 0)
        return;
    taskfeed_tell(feed, sj, sj->job->spec.duration_s);
    if (sj->from <= 0) {
        struct task_run run = run_of(feed, sj);
        taskbook_end(feed->book, &run, true_epochs(sj));
    }
}

/* --- the guard of temporal transfer --------------------------------------- */

/* A key has no doubts. */
static bool is_guarded(const struct taskfeed *feed, const struct simjob *sj)
{
    return sj->task > 0 && sj->with > 0 && sj->kind == FIRN_MERGE_AFTER &&
           !feed->has_key;
}

double taskfeed_look_s(const struct taskfeed *feed, const struct simjob *sj)
{
    double epochs = true_epochs(sj);
    int next = sj->told < 1 ? 2 : sj->told + 1; /* the first says little */
    if (!is_guarded(feed, sj) || !(next < epochs))
        return (double)INFINITY;
    return (sj->from + next / epochs) * sj->job->spec.duration_s;
}

bool taskfeed_hurts(struct taskfeed *feed, const struct simjob *sj, char *why,
                    size_t n)
{
    struct taskbook_harm harm;
    if (!is_guarded(feed, sj) || sj->told < 1)
        return false;
    struct task_run run = run_of(feed, sj);
    if (!taskbook_hurts(feed->book, &run, sj->told, sj->latest, &harm))
        return false;
    snprintf(why, n,
             "with the weights of %s its loss is %.4g after %d epochs, %.1f "
             "epochs behind; %.4g is expected without them",
             curves[sj->with - 1].set, sj->latest, sj->told, harm.behind,
             harm.alone);
    return true;
}

/* --- what is expected ---------------------------------------------------- */

bool taskfeed_answer(struct taskfeed *feed, int task, int other,
                     enum firn_merge_kind kind, struct taskbook_answer *out)
{
    if (feed->has_key) {
        *out = (struct taskbook_answer){.ended = 1};
        return transfers_key(task, other, kind, &out->ratio);
    }
    struct task_run run = {number_of(feed, task), number_of(feed, other), kind};
    return taskbook_answer(feed->book, &run, out);
}

/* Epochs that the job is expected to take in this way; 0: not known. */
static double expected_epochs(struct taskfeed *feed, const struct simjob *sj)
{
    struct taskbook_answer answer;
    struct task_run run = run_of(feed, sj);
    return taskbook_answer(feed->book, &run, &answer)
               ? answer.ratio * answer.epochs
               : 0;
}

double taskfeed_belief(struct taskfeed *feed, const struct simjob *sj)
{
    if (sj->task == 0 || sj->with == 0 || feed->has_key)
        return 1;
    double epochs = expected_epochs(feed, sj);
    return epochs > 0 ? true_epochs(sj) / epochs : 1;
}

bool taskfeed_state(struct taskfeed *feed, const struct simjob *sj,
                    double done_s, struct taskfeed_state *out)
{
    if (sj->task == 0 || sj->with == 0 || feed->has_key)
        return false;
    double epochs = expected_epochs(feed, sj);
    if (!(epochs > 0))
        return false;
    if (epochs <= sj->told)
        epochs = fmin(1.5 * sj->told, TRANSFERS_NEVER);
    double before = taskbook_first_loss(feed->book, number_of(feed, sj->task));
    double accuracy[] = {-before, -sj->least, -sj->least};
    out->left = fmax(1 - sj->from - epochs_done(sj, done_s) / epochs,
                     0.5 / epochs); /* it has not ended yet */
    out->epochs = sj->told;
    out->is_stalled = sj->told >= 2 && firn_transfer_undo(accuracy, 3, 2);
    return true;
}
