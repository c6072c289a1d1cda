/* api_ask.c - questions that the host answers: why, when, and what if.
 *
 * They change nothing; the host's JSON is passed on as it is.
 */
#include "base/buf.h"
#include "daemon/apiwork.h"

typedef enum firn_status job_question(void *arg, struct live_job *job,
                                      struct firn_buf *json,
                                      struct firn_error *err);

static void answer(struct api_call *call, enum firn_status status,
                   struct firn_buf *json, const struct firn_error *err)
{
    if (status == FIRN_OK) {
        api_reply(call, 200, json);
        return;
    }
    buf_release(json);
    api_fail(call, err);
}

static void ask(struct api_call *call, job_question *question)
{
    struct live_job *job;
    struct firn_buf json = {0};
    struct firn_error err;
    if (!api_has(call, question != NULL) || !api_find_job(call, &job))
        return;
    enum firn_status status = question(call->api->host.arg, job, &json, &err);
    answer(call, status, &json, &err);
}

void api_ask_why(struct api_call *call)
{
    ask(call, call->api->host.why);
}

void api_ask_eta(struct api_call *call)
{
    ask(call, call->api->host.eta);
}

void api_ask_forecast(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf json = {0};
    struct firn_error err;
    int64_t fresh;
    if (!api_has(call, host->forecast != NULL) ||
        !api_query_int(call, "fresh", 1, 0, &fresh))
        return;
    enum firn_status status =
        host->forecast(host->arg, fresh != 0, &json, &err);
    answer(call, status, &json, &err);
}

void api_ask_costs(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    if (!api_has(call, host->costs != NULL))
        return;
    host->costs(host->arg, &json);
    answer(call, FIRN_OK, &json, &err);
}

void api_ask_plan(struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    struct live_ask what;
    struct firn_buf json = {0};
    struct firn_error err;
    if (!api_has(call, host->plan != NULL) || !api_read_ask(call, &what))
        return;
    enum firn_status status = host->plan(host->arg, &what, &json, &err);
    live_ask_release(&what);
    answer(call, status, &json, &err);
}
