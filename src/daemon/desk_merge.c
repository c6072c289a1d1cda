/* desk_merge.c - which two jobs may be merged, and what their reports say.
 *
 * Two fine-tuning jobs can be merged when both allow it and can write
 * checkpoints, and they name the same base and different datasets. To be
 * trained together they must also have one merge key (mergekey.h), to which
 * core holds every policy, and fit on the GPUs that suit both, side by side.
 * One that begins with the other's weights has processes of its own: it only
 * has to be run by the same program. What either is worth is
 * liveforecast_merge.c's to say.
 *
 * Users are told what stands against it, of each job of the same base: the
 * first thing that does. What the policy makes of jobs that could be merged is
 * its own business, and not told here.
 *
 * A trainer of two reports for each of them how long a step of it takes by the
 * clock, which counts the other one's steps in between, and how long its parts
 * take, which does not. So one report tells two rates: of the job as it is
 * trained, for the policy; and of the job alone, for the forecast. Their ratio
 * summed over both jobs is what the training of two is worth, which counts once
 * both have reported two epochs.
 *
 * The guard of the policy ymir speaks once both have reported two epochs of
 * the merge. It is told which of the two has stalled: has a target
 * (target.metric; more is better), and has not come nearer to it in its last
 * two epochs. While both come nearer the pair stays together, whatever the
 * rates say: a job that ends by a target may end sooner for what it learns
 * from the other, which no rate tells.
 *
 * A job that began with another's weights is judged by its own task: two epochs
 * later its loss must be no worse than jobs of the task have after as many
 * epochs from the base's weights, as far as such jobs were seen. If it is, the
 * job begins anew (loop_guard.c).
 *
 * The losses of all fine-tuning jobs go to the estimator, epoch by epoch, as
 * long as a job is trained in one way since its first epoch. Of a job with a
 * target below 1 the loss is 1 - metric.
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/log.h"
#include "core/taskbook.h"
#include "daemon/desk.h"
#include "daemon/mergekey.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOLD = 8 }; /* jobs that one is told of */

static double epochs_reported(const struct live_job *job)
{
    bool is_heard =
        job->reported_attempt == job->attempt && job->reported_s > 0;
    return is_heard ? (double)job->last.epoch : 0;
}

/* Has it a target, and come nearer to it in the last two epochs? */
static bool gets_better(const struct desk *desk, const struct live_job *job)
{
    const struct track *track = desk_track(desk, job->id);
    return job->ask.target_metric != 0 && track != NULL &&
           track->best_epoch > 0 && job->last.epoch < track->best_epoch + 2;
}

/* Has it a target, and come no nearer to it in its last two epochs? */
static bool is_stalled(const struct desk *desk, const struct live_job *job)
{
    return job->ask.target_metric != 0 && epochs_reported(job) >= 2 &&
           !gets_better(desk, job);
}

static bool look_at(const struct desk *desk, const struct firn_job *job,
                    const struct firn_way *way, double now_s,
                    struct livemerge_side *out)
{
    firn_job_id id = desk_book_id(desk, job->id);
    const struct live_job *live = book_job(desk->book, id);
    if (live == NULL)
        return false;
    double left_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    double rate = liveforecast_rate(desk->forecast, id, job, way);
    *out = (struct livemerge_side){.base = live->ask.base,
                                   .dataset = live->ask.dataset,
                                   .alone_s = fmax(left_s, 1e-3) / rate,
                                   .epoch_s = (double)NAN,
                                   .is_new = left_s >= job->spec.duration_s};
    if (live->ask.target_epochs > 0)
        out->epoch_s =
            job->spec.duration_s / rate / (double)live->ask.target_epochs;
    return rate > 0;
}

/* What stands against the GPUs of a pair; NULL: nothing. They may be given any
 * that suit both, so both have to fit on each of those. */
static const char *no_gpus(const struct desk *desk, const struct firn_job *a,
                           const struct firn_job *b)
{
    uint32_t mask = a->type_mask & b->type_mask;
    double need = a->spec.mem_gib + b->spec.mem_gib;
    if (mask == 0)
        return "no GPU type suits both";
    if (a->spec.gpus_min > b->spec.gpus_max ||
        b->spec.gpus_min > a->spec.gpus_max)
        return "no number of GPUs suits both";
    for (int t = 0; t < desk->dock->cluster.ntypes; t++) {
        double gib = desk->dock->cluster.types[t].mem_gib;
        if ((mask >> t & 1) != 0 && gib > 0 && need > gib)
            return "a GPU has not the memory for both";
    }
    return NULL;
}

bool desk_merge(struct desk *desk, const struct desk_pair *pair,
                const struct firn_way *way, double now_s,
                struct firn_merge *out)
{
    const struct firn_job *a = pair->a, *b = pair->b;
    struct livemerge_side side[2];
    if (!look_at(desk, a, way, now_s, &side[0]) ||
        !look_at(desk, b, way, now_s, &side[1]))
        return false;
    const struct live_job *one =
        book_job(desk->book, desk_book_id(desk, a->id));
    const struct live_job *two =
        book_job(desk->book, desk_book_id(desk, b->id));
    bool can = pair->kind == FIRN_MERGE_TOGETHER
                   ? no_gpus(desk, a, b) == NULL
                   : mergekey_same_program(&one->ask, &two->ask);
    if (!can || !livemerge_expect(desk->merges, side, pair->kind, out))
        return false;
    if (partner_of(desk->book, one) == two) {
        bool pays = gets_better(desk, one) && gets_better(desk, two);
        double epochs = fmin(epochs_reported(one), epochs_reported(two));
        out->epochs = pays ? 0 : epochs;
        out->stalled = (unsigned)is_stalled(desk, one) |
                       (unsigned)is_stalled(desk, two) << 1;
    }
    return true;
}

/* The job whose weights it began with; NULL: none. Of a job that has failed
 * dock_launch() takes no weights. */
static const struct live_job *first_of(const struct desk *desk,
                                       const struct live_job *job)
{
    const struct live_job *first = NULL;
    if (job->how.after != FIRN_NO_JOB && job->anew == 0)
        first = book_job(desk->book, job->how.after);
    return first != NULL && first->state == LIVE_SUCCEEDED ? first : NULL;
}

/* The job that it is trained together with, or whose weights it began with;
 * NULL: none. */
static const struct live_job *teacher_of(const struct desk *desk,
                                         const struct live_job *job)
{
    const struct live_job *other = partner_of(desk->book, job);
    return other != NULL ? other : first_of(desk, job);
}

/* Its last epoch, for the estimator; false: it says nothing of a loss. */
static bool epoch_of(const struct desk *desk, const struct live_job *job,
                     struct livemerge_epoch *out)
{
    const struct live_job *other = teacher_of(desk, job);
    const struct firn_trainer_report *r = &job->last;
    double target = job->ask.target_metric;
    bool by_metric = target > 0 && target < 1 && r->metric > 0 && r->metric < 1;
    *out = (struct livemerge_epoch){
        .base = job->ask.base,
        .dataset = job->ask.dataset,
        .with = other != NULL ? other->ask.dataset : NULL,
        .kind = other == NULL || partner_of(desk->book, job) != NULL
                    ? FIRN_MERGE_TOGETHER
                    : FIRN_MERGE_AFTER,
        .epoch = r->epoch < INT_MAX ? (int)r->epoch : 0,
        .loss = by_metric ? 1 - r->metric : r->loss,
        .target_loss = by_metric ? 1 - target : (double)NAN,
        .epochs_max = (double)job->ask.target_epochs};
    return job->ask.base[0] != '\0' && job->ask.dataset[0] != '\0' &&
           out->epoch > 0 && out->loss > 0;
}

void desk_task_reported(struct desk *desk, const struct live_job *job)
{
    struct track *track = desk_track(desk, job->id);
    const struct live_job *other = teacher_of(desk, job);
    firn_job_id with = other != NULL ? other->id : FIRN_NO_JOB;
    struct livemerge_epoch report;
    if (job->ask.base[0] != '\0' && job->ask.dataset[0] != '\0' &&
        job->last.nembedding > 0)
        livemerge_place(desk->merges, job->ask.base, job->ask.dataset,
                        job->last.embedding, job->last.nembedding);
    if (track == NULL || job->last.epoch <= track->told_epoch)
        return;
    if (track->told_epoch > 0 && track->told_with != with)
        track->is_mixed = true;
    track->told_epoch = job->last.epoch;
    track->told_with = with;
    if (!track->is_mixed && epoch_of(desk, job, &report))
        livemerge_epoch(desk->merges, &report);
}

bool desk_after(struct desk *desk, firn_job_id from, const struct firn_job *job,
                struct firn_after *out)
{
    const struct live_job *first =
        book_job(desk->book, desk_book_id(desk, from));
    const struct live_job *second =
        book_job(desk->book, desk_book_id(desk, job->id));
    if (first == NULL || second == NULL ||
        !mergekey_same_program(&first->ask, &second->ask))
        return false;
    struct livemerge_side side[2] = {
        {.base = first->ask.base, .dataset = first->ask.dataset},
        {.base = second->ask.base, .dataset = second->ask.dataset}};
    return livemerge_after(desk->merges, side, out);
}

bool desk_after_hurts(struct desk *desk, const struct live_job *job,
                      char out[LIVE_TEXT])
{
    struct livemerge_epoch report;
    struct taskbook_harm harm;
    if (first_of(desk, job) == NULL || job->how.unguarded ||
        !(epochs_reported(job) > 0) || partner_of(desk->book, job) != NULL ||
        !epoch_of(desk, job, &report) ||
        !livemerge_hurts(desk->merges, &report, &harm))
        return false;
    snprintf(out, LIVE_TEXT,
             "begins anew: with the weights of job %d its loss is %.4g after "
             "%d epochs, %.1f epochs behind; %.4g is expected without them",
             job->how.after, report.loss, report.epoch, harm.behind,
             harm.alone);
    return true;
}

void desk_task_anew(struct desk *desk, const struct live_job *job)
{
    struct track *track = desk_track(desk, job->id);
    track->told_epoch = 0;
    track->told_with = FIRN_NO_JOB;
    track->is_mixed = false;
    track->is_lone = true;
}

void desk_task_ended(struct desk *desk, const struct live_job *job)
{
    const struct track *track = desk_track(desk, job->id);
    const struct live_job *other = teacher_of(desk, job);
    firn_job_id with = other != NULL ? other->id : FIRN_NO_JOB;
    struct livemerge_epoch report;
    if (track != NULL && !track->is_mixed && track->told_epoch > 0 &&
        track->told_with == with && epoch_of(desk, job, &report) &&
        (report.with == NULL || report.kind == FIRN_MERGE_AFTER))
        livemerge_ended(desk->merges, &report);
}

/* Seconds of a step without those of the other job; 0: not known. */
static double own_s(const struct firn_trainer_report *report)
{
    double sum = 0;
    for (int i = 0; i < FIRN_STEP_NPARTS; i++)
        if (report->part_s[i] > 0)
            sum += report->part_s[i];
    return sum;
}

bool desk_merge_reported(struct desk *desk, struct live_job *job,
                         const struct firn_job *in_round)
{
    const struct live_job *other = partner_of(desk->book, job);
    struct track *track = desk_track(desk, job->id);
    double own = own_s(&job->last), step_s = job->last.step_s;
    if (other == NULL)
        return false;
    if (job->last.metric > track->best && job->last.epoch > 0) {
        track->best = job->last.metric;
        track->best_epoch = job->last.epoch;
    }
    if (!(own > 0) || !(step_s > 0) || !(track->rate > 0))
        return true;
    track->turn = fmin(own / step_s, 1);
    struct liveforecast_run alone = {
        .job = in_round, .rate = track->rate / track->turn, .beside = ""};
    liveforecast_saw(desk->forecast, job->id, &alone);
    const struct track *its = desk_track(desk, other->id);
    const struct livemerge_side side[2] = {
        {.base = job->ask.base, .dataset = job->ask.dataset},
        {.base = other->ask.base, .dataset = other->ask.dataset}};
    bool pays = gets_better(desk, job) && gets_better(desk, other);
    bool is_early = fmin(epochs_reported(job), epochs_reported(other)) < 2;
    if (its != NULL && its->turn > 0 && !pays && !is_early)
        livemerge_saw(desk->merges, side, track->turn + its->turn);
    return true;
}

/* --- in words ------------------------------------------------------------- */

/* May the job be merged with another job? NULL: yes. */
static const char *bar_to_all(const struct desk *desk,
                              const struct live_job *job)
{
    const struct track *track = desk_track(desk, job->id);
    if (job->ask.dataset[0] == '\0')
        return "its finetune names no dataset";
    if (!job->ask.can_checkpoint)
        return "it can write no checkpoint (checkpoint)";
    if (job->anew > 0)
        return "it began anew, without the weights of another job";
    if (track != NULL && track->is_lone)
        return "a training of it and another job failed, or did not train it";
    return NULL;
}

/* Appends what stands against these two; false: nothing. */
static bool bar_between(const struct desk *desk, const struct live_job *job,
                        const struct live_job *other, struct firn_buf *out)
{
    const struct track *a = desk_track(desk, job->id);
    const struct track *b = desk_track(desk, other->id);
    const struct firn_job *one = a != NULL ? desk_job(desk, a) : NULL;
    const struct firn_job *two = b != NULL ? desk_job(desk, b) : NULL;
    const char *why = bar_to_all(desk, other);
    if (why == NULL && strcmp(job->ask.dataset, other->ask.dataset) == 0)
        why = "it has the same dataset";
    if (why == NULL && mergekey_differs(job, other, out))
        return true;
    if (why == NULL && one != NULL && two != NULL)
        why = no_gpus(desk, one, two);
    buf_puts(out, why != NULL ? why : "");
    return why != NULL;
}

static void tell_others(const struct desk *desk, const struct live_job *job,
                        struct firn_buf *json)
{
    struct firn_buf text = {0};
    size_t n = 0;
    for (size_t i = 0; i < book_count(desk->book); i++) {
        const struct live_job *other = book_at(desk->book, i);
        if (other == job || live_state_is_over(other->state) ||
            !other->ask.may_merge ||
            strcmp(job->ask.base, other->ask.base) != 0)
            continue;
        buf_clear(&text);
        buf_printf(&text, "not merged with job %d (%s): ", other->id,
                   other->ask.name);
        if (bar_between(desk, job, other, &text) && n++ < TOLD)
            jsonbuf_text(json, NULL, text.at);
    }
    if (n > TOLD) {
        buf_clear(&text);
        buf_printf(&text, "not merged with %zu more", n - TOLD);
        jsonbuf_text(json, NULL, text.at);
    }
    buf_release(&text);
}

void desk_not_merged(const struct desk *desk, const struct live_job *job,
                     struct firn_buf *json)
{
    struct firn_buf text = {0};
    jsonbuf_open(json, NULL, '[');
    if (job->ask.may_merge && !live_state_is_over(job->state) &&
        partner_of(desk->book, job) == NULL) {
        const char *why = bar_to_all(desk, job);
        if ((desk->policy->does & FIRN_DOES_MERGE) == 0)
            buf_printf(&text, "not merged: policy %s merges no jobs",
                       desk->policy->name);
        else if (why != NULL)
            buf_printf(&text, "not merged: %s", why);
        if (text.n > 0)
            jsonbuf_text(json, NULL, text.at);
        else
            tell_others(desk, job, json);
    }
    jsonbuf_close(json, ']');
    buf_release(&text);
}
