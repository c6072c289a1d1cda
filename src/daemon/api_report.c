/* api_report.c - a trainer sends a report and gets its orders.
 *
 * The caller is the job itself: api.c has checked its token. A report of an
 * older attempt is 410: that process has been replaced and is ending. A report
 * with impossible numbers is 400 and changes nothing.
 *
 * Each report is a write to the disk and an update of the models, so a job may
 * send REPORTS_BURST of them at once and REPORTS_PER_S after that (a token
 * bucket for each job); above it the answer is 429, and the trainer keeps its
 * newest report for later (src/train/reporter.c).
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include <firn/message.h>
#include <limits.h>
#include <math.h>

enum { REPORTS_BURST = 200, REPORTS_PER_S = 10 };

static void count(struct api_call *call, enum metric_report what)
{
    if (call->api->host.metrics != NULL)
        metrics_add(call->api->host.metrics, METRIC_REPORTS, (int)what, 1);
}

/* Is the report of the job's present attempt? The header tells; Firn-Epoch is
 * its older name. False: the request was answered. */
static bool is_of_this_attempt(struct api_call *call,
                               const struct live_job *job)
{
    const char *header = http_header(call->exchange, "Firn-Attempt");
    long attempt;
    if (header == NULL)
        header = http_header(call->exchange, "Firn-Epoch");
    if (header == NULL || !str_int(header, 0, LONG_MAX, &attempt)) {
        count(call, METRIC_REPORT_REFUSED);
        http_fail(call->exchange, FIRN_EINVAL,
                  "a report needs the header 'Firn-Attempt: N'");
        return false;
    }
    if (attempt == job->attempt && !live_state_is_over(job->state))
        return true;
    count(call, METRIC_REPORT_STALE);
    http_refuse(call->exchange, 410, "stale-attempt",
                "this attempt of the job has ended");
    return false;
}

/* One more report of this job at this moment? false: it was answered. */
static bool is_within_rate(struct api_call *call, struct live_job *job)
{
    double now_s = clock_elapsed_s();
    double more = (now_s - job->reports_left_s) * REPORTS_PER_S;
    job->reports_left = job->reports_left_s > 0
                            ? fmin(job->reports_left + more, REPORTS_BURST)
                            : REPORTS_BURST;
    job->reports_left_s = now_s;
    if (job->reports_left >= 1) {
        job->reports_left--;
        return true;
    }
    count(call, METRIC_REPORT_REFUSED);
    api_turned_away(call->api, HTTP_REFUSED_RATE, &call->request->caller);
    http_set_header(call->exchange, "Retry-After", "1");
    http_fail(call->exchange, FIRN_ELIMIT,
              "the job reports more than 10 times a second");
    return false;
}

static void reply_orders(struct api_call *call, const struct live_job *job)
{
    char text[512];
    struct firn_buf out = {0};
    size_t n = firn_orders_write(text, sizeof text, &job->orders);
    if (n >= sizeof text)
        FIRN_BUG("orders of %zu bytes", n);
    buf_add(&out, text, n);
    api_reply(call, 200, &out);
}

void api_report_post(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_job *job =
        book_job(host->book, (firn_job_id)call->request->caller.job);
    struct firn_bytes body = call->request->body;
    double variance[LIVE_LAYERS];
    struct firn_trainer_report report;
    struct firn_error err;
    if (job == NULL) {
        http_fail(call->exchange, FIRN_ENOENT, "there is no such job");
        return;
    }
    if (!is_of_this_attempt(call, job) || !is_within_rate(call, job))
        return;
    enum firn_status status = firn_trainer_report_read(
        &report, variance, LIVE_LAYERS, body.at, body.n, &err);
    if (status == FIRN_OK)
        status = book_report(host->book, job, job->attempt, &report,
                             host->now_s(host->arg), &err);
    if (status != FIRN_OK) {
        count(call, METRIC_REPORT_REFUSED);
        api_fail(call, &err);
        return;
    }
    count(call, METRIC_REPORT_TAKEN);
    if (host->reported != NULL)
        host->reported(host->arg, job);
    reply_orders(call, job);
}
