/* api_self.c - the daemon about itself: metrics, health, version.
 *
 * What can be counted at the moment of asking (jobs, GPUs, nodes, streams) is
 * counted then; everything else has been counted where it happened. Health and
 * metrics do not wait for a commit: they are asked for when commits hang.
 */
#include "base/buf.h"
#include "daemon/apiwork.h"
#include <firn/version.h>

static void count_jobs(struct metrics *metrics, struct book *book)
{
    double counts[LIVE_LOST + 1] = {0};
    double jobs[LIVE_BECAUSE_VANISHED + 1] = {0};
    double gpus[LIVE_BECAUSE_VANISHED + 1] = {0};
    for (size_t i = 0; i < book_count(book); i++) {
        const struct live_job *job = book_at(book, i);
        counts[job->state]++;
        if (job->state != LIVE_PENDING)
            continue;
        jobs[job->reason]++;
        gpus[job->reason] += job->ask.gpus_min;
    }
    for (int r = 0; r <= (int)LIVE_BECAUSE_VANISHED; r++) {
        metrics_set(metrics, METRIC_PENDING_JOBS, r, jobs[r]);
        metrics_set(metrics, METRIC_PENDING_GPUS, r, gpus[r]);
    }
    for (int s = 0; s <= (int)LIVE_LOST; s++)
        metrics_set(metrics, METRIC_JOBS, s, counts[s]);
}

static void count_nodes(struct metrics *metrics, const struct api_host *host)
{
    double gpus[METRIC_GPU_DOWN + 1] = {0}, count[METRIC_NODE_DOWN + 1] = {0};
    const struct api_node *nodes;
    double stranded = 0;
    size_t n = host->nodes != NULL ? host->nodes(host->arg, &nodes) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct api_node *node = &nodes[i];
        if (!node->is_up) {
            gpus[METRIC_GPU_DOWN] += node->ngpus;
            count[METRIC_NODE_DOWN]++;
            continue;
        }
        gpus[METRIC_GPU_HELD] += node->ngpus - node->nfree - node->noutside;
        if (!node->is_drained && node->nfree < node->ngpus)
            stranded += node->nfree;
        gpus[METRIC_GPU_OUTSIDE] += node->noutside;
        gpus[node->is_drained ? METRIC_GPU_DRAINED : METRIC_GPU_FREE] +=
            node->nfree;
        count[node->is_drained ? METRIC_NODE_DRAINED : METRIC_NODE_UP]++;
    }
    for (int i = 0; i <= (int)METRIC_GPU_DOWN; i++)
        metrics_set(metrics, METRIC_GPUS, i, gpus[i]);
    metrics_set(metrics, METRIC_STRANDED, 0, stranded);
    for (int i = 0; i <= (int)METRIC_NODE_DOWN; i++)
        metrics_set(metrics, METRIC_NODES, i, count[i]);
}

static void answer(struct api_call *call, const char *type,
                   struct firn_buf *out)
{
    http_answer(call->exchange, 200, type,
                (struct firn_bytes){out->at, out->n});
    buf_release(out);
}

void api_self_metrics(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf out = {0};
    if (!api_has(call, host->metrics != NULL))
        return;
    count_jobs(host->metrics, host->book);
    count_nodes(host->metrics, host);
    api_sums_count(host->metrics, host);
    metrics_set(host->metrics, METRIC_TROUBLE, 0,
                host->trouble != NULL && host->trouble(host->arg) != NULL);
    metrics_set(host->metrics, METRIC_STREAMS, 0, call->api->nstreams);
    metrics_write(host->metrics, &out);
    answer(call, "application/openmetrics-text; version=1.0.0; charset=utf-8",
           &out);
}

void api_self_health(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf out = {0};
    if (store_rollbacks(host->store) > 0) {
        http_refuse(call->exchange, 503, "store-failed",
                    "the state could not be written; the daemon must be "
                    "started again");
        return;
    }
    jsonbuf_open(&out, NULL, '{');
    const char *trouble =
        host->trouble != NULL ? host->trouble(host->arg) : NULL;
    jsonbuf_text(&out, "status", "ok");
    if (trouble != NULL)
        jsonbuf_text(&out, "trouble", trouble);
    jsonbuf_int(&out, "jobs", (int64_t)book_count(host->book));
    jsonbuf_double(&out, "now_s", host->now_s(host->arg));
    jsonbuf_close(&out, '}');
    buf_putc(&out, '\n');
    answer(call, "application/json", &out);
}

void api_self_version(struct api_call *call)
{
    struct firn_buf out = {0};
    jsonbuf_open(&out, NULL, '{');
    jsonbuf_text(&out, "version", FIRN_VERSION);
    jsonbuf_text(&out, "api", "v1");
    jsonbuf_text(&out, "engine", call->api->host.engine);
    jsonbuf_close(&out, '}');
    buf_putc(&out, '\n');
    answer(call, "application/json", &out);
}
