/* book_word.c - changes of a job by its trainer's reports and by its user.
 *
 * A trainer is not trusted: a report of another attempt than the present one,
 * a number that is not finite or impossible, and progress or steps that fall
 * within one attempt are refused, with a sentence, before anything changes.
 * (Between two attempts they may fall: the second begins from the last
 * checkpoint.) A value that a report does not have stays as it was.
 */
#include "base/str.h"
#include "daemon/bookwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- reports ------------------------------------------------------------- */

struct claim {
    const char *name;
    double value, most;
    bool may_be_negative;
};

static enum firn_status judge_numbers(const struct firn_trainer_report *report,
                                      struct firn_error *err)
{
    const struct claim claims[] = {
        {"progress", report->progress, 1, false},
        {"effective", report->effective, 1e18, false},
        {"step_s", report->step_s, 1e9, false},
        {"loss", report->loss, INFINITY, true},
        {"metric", report->metric, INFINITY, true},
        {"memory_mib", report->memory_mib, 1e12, false},
        {"utilisation", report->utilisation, 1, false},
        {"psi", report->psi, 1, false},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        const struct claim *c = &claims[i];
        bool is_unknown = c->value == -1;
        if (!isfinite(c->value) || c->value > c->most ||
            (c->value < 0 && !is_unknown && !c->may_be_negative))
            return firn_fail(err, FIRN_EINVAL, "a report's '%s' cannot be %g",
                             c->name, c->value);
    }
    for (int i = 0; i < FIRN_STEP_NPARTS; i++) {
        double part_s = report->part_s[i];
        if (!isfinite(part_s) || (part_s < 0 && part_s != -1))
            return firn_fail(err, FIRN_EINVAL, "a report's '%s' cannot be %g s",
                             firn_step_part_name((enum firn_step_part)i),
                             part_s);
    }
    return FIRN_OK;
}

static enum firn_status judge_layers(const struct firn_trainer_report *report,
                                     struct firn_error *err)
{
    if (report->variance == NULL)
        return FIRN_OK;
    if (report->nlayers > LIVE_LAYERS)
        return firn_fail(err, FIRN_EINVAL,
                         "a report has the variance of %zu layers, at most %d",
                         report->nlayers, LIVE_LAYERS);
    for (size_t i = 0; i < report->nlayers; i++)
        if (!isfinite(report->variance[i]))
            return firn_fail(err, FIRN_EINVAL,
                             "a report's variance of layer %zu cannot be %g", i,
                             report->variance[i]);
    return FIRN_OK;
}

static enum firn_status judge_course(const struct live_job *job,
                                     int64_t attempt,
                                     const struct firn_trainer_report *report,
                                     struct firn_error *err)
{
    if (attempt != job->attempt)
        return firn_fail(err, FIRN_EINVAL,
                         "a report of attempt %lld of job %d, which is in its "
                         "attempt %lld",
                         (long long)attempt, job->id, (long long)job->attempt);
    if (job->reported_attempt != attempt)
        return FIRN_OK;
    if (report->progress >= 0 && report->progress < job->last.progress)
        return firn_fail(err, FIRN_EINVAL,
                         "a report's progress fell from %g to %g",
                         job->last.progress, report->progress);
    if (report->step > 0 && report->step < job->last.step)
        return firn_fail(err, FIRN_EINVAL,
                         "a report's step fell from %llu to %llu",
                         (unsigned long long)job->last.step,
                         (unsigned long long)report->step);
    return FIRN_OK;
}

/* Copies the report into the job. */
static void keep_report(struct live_job *job, int64_t attempt,
                        const struct firn_trainer_report *report, double now_s)
{
    struct firn_trainer_report before = job->last;
    job->last = *report;
    if (report->progress < 0)
        job->last.progress = before.progress;
    if (report->can < 0)
        job->last.can = before.can;
    if (report->prepare_s < 0)
        job->last.prepare_s = before.prepare_s;
    if (report->step == 0 && job->reported_attempt == attempt)
        job->last.step = before.step;
    job->last.variance = NULL;
    job->last.nlayers = 0;
    if (report->variance != NULL && report->nlayers > 0) {
        if (job->variance == NULL)
            job->variance = mem_new(LIVE_LAYERS, sizeof *job->variance);
        memmove(job->variance, report->variance,
                report->nlayers * sizeof *job->variance);
        job->last.variance = job->variance;
        job->last.nlayers = report->nlayers;
    }
    job->reported_s = now_s;
    job->reported_attempt = attempt;
}

enum firn_status book_report(struct book *book, struct live_job *job,
                             int64_t attempt,
                             const struct firn_trainer_report *report,
                             double now_s, struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    FIRN_TRY(judge_course(job, attempt, report, err));
    FIRN_TRY(judge_numbers(report, err));
    FIRN_TRY(judge_layers(report, err));
    if (job->nreports == 0)
        FIRN_TRY(
            store_count_reports(book->store, job->id, &job->nreports, err));
    keep_report(job, attempt, report, now_s);
    FIRN_TRY(store_add_report(book->store, job->id, attempt, now_s, &job->last,
                              err));
    job->nreports++;
    FIRN_TRY(store_thin_reports(book->store, job->id, &job->nreports, err));
    return store_put_job(book->store, job, err);
}

enum firn_status book_orders(struct book *book, struct live_job *job,
                             const struct firn_orders *orders,
                             struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    bool is_same = job->orders.nfrozen == orders->nfrozen &&
                   job->orders.passes == orders->passes &&
                   job->orders.stop == orders->stop &&
                   job->orders.batch == orders->batch;
    if (is_same)
        return FIRN_OK;
    job->orders = *orders;
    return store_put_job(book->store, job, err);
}

/* --- users --------------------------------------------------------------- */

enum firn_status book_hold(struct book *book, struct live_job *job, bool held,
                           double now_s, struct firn_error *err)
{
    return book_hold_why(book, job, held, now_s,
                         held ? "held by its user" : "released by its user",
                         err);
}

enum firn_status book_hold_why(struct book *book, struct live_job *job,
                               bool held, double now_s, const char *why,
                               struct firn_error *err)
{
    FIRN_TRY(book_may_change(book, job, err));
    if (job->is_held == held)
        return FIRN_OK;
    job->is_held = held;
    return book_change(book, job, now_s, held ? "held" : "released", why, err);
}

/* The number of elastic threads: that of its job file, or of its first start,
 * which its checkpoints keep; 0: as many as the most GPUs, once it starts. */
static int threads_of(const struct live_job *job)
{
    bool has_begun = job->ask.is_elastic && job->attempt > 0;
    return job->ask.threads > 0 || !has_begun ? job->ask.threads
                                              : job->ask.gpus_max;
}

enum firn_status book_bounds(struct book *book, struct live_job *job,
                             int gpus_min, int gpus_max, double now_s,
                             struct firn_error *err)
{
    char text[128];
    int64_t most = job_fields[JOB_FIELD_gpus_min].most;
    FIRN_TRY(book_may_change(book, job, err));
    if (gpus_min < 1 || gpus_max < gpus_min || gpus_max > most)
        return firn_fail(err, FIRN_EINVAL,
                         "%d..%d is no range of GPUs: 1 to %lld, the fewest "
                         "first",
                         gpus_min, gpus_max, (long long)most);
    if (job->ask.inbox[0] != '\0')
        return firn_fail(err, FIRN_EINVAL,
                         "job %d (%s) came through the engine's own queue: its "
                         "number of GPUs is fixed",
                         job->id, job->ask.name);
    if (!job->ask.is_elastic && gpus_min != gpus_max)
        return firn_fail(err, FIRN_EINVAL,
                         "job %d (%s) is not elastic: it takes one number of "
                         "GPUs, not %d..%d",
                         job->id, job->ask.name, gpus_min, gpus_max);
    int threads = threads_of(job);
    bool is_more = threads > 0 && gpus_max > threads;
    if (is_more && job->ask.consistency[0] != '\0')
        return firn_fail(err, FIRN_EINVAL,
                         "job %d (%s) trains %d elastic threads: it cannot "
                         "have %d GPUs",
                         job->id, job->ask.name, threads, gpus_max);
    if (job->ask.gpus_min == gpus_min && job->ask.gpus_max == gpus_max)
        return FIRN_OK;
    snprintf(text, sizeof text, "from %d..%d to %d..%d GPUs", job->ask.gpus_min,
             job->ask.gpus_max, gpus_min, gpus_max);
    job->ask.gpus_min = gpus_min;
    job->ask.gpus_max = gpus_max;
    job->ask.threads = is_more ? 0 : threads;
    return book_change(book, job, now_s, "bounds", text, err);
}

enum firn_status book_priority(struct book *book, struct live_job *job,
                               int priority, double now_s,
                               struct firn_error *err)
{
    char text[64];
    const struct job_field *field = &job_fields[JOB_FIELD_priority];
    FIRN_TRY(book_may_change(book, job, err));
    if (priority < field->least || priority > field->most)
        return firn_fail(err, FIRN_EINVAL,
                         "a priority is a whole number from %lld to %lld, not "
                         "%d",
                         (long long)field->least, (long long)field->most,
                         priority);
    if (job->ask.priority == priority)
        return FIRN_OK;
    snprintf(text, sizeof text, "from %d to %d", job->ask.priority, priority);
    job->ask.priority = priority;
    return book_change(book, job, now_s, "priority", text, err);
}
