/* api_json.c - jobs as JSON.
 *
 * Written straight into a buffer (base/jsonwrite.h): a list of a hundred
 * thousand jobs is one walk and no tree. The fields that a user sets come from
 * core/jobfields.def. The token of a job is in none of it. Fields marked
 * JOB_PRIVATE, the file and the request id are shown to the job's user and to
 * operators only.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/abilities.h"
#include "daemon/apiwork.h"
#include <firn/message.h>

/* Times that have not come yet are left out. */
static void add_time(struct firn_buf *out, const char *key, double at_s)
{
    if (at_s > 0)
        jsonbuf_double(out, key, at_s);
}

/* The JSON of a model's shape as an object, or as text if it is none. */
static void add_model(struct firn_buf *out, const char *key, const char *text)
{
    json_t *shape = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    size_t n = shape != NULL ? json_dumpb(shape, NULL, 0, JSON_COMPACT) : 0;
    char *json = mem_new(n + 1, 1);
    if (n > 0)
        json_dumpb(shape, json, n, JSON_COMPACT);
    if (n > 0)
        jsonbuf_raw(out, key, json);
    else
        jsonbuf_text(out, key, text);
    mem_free(json);
    json_decref(shape);
}

static void add_field(struct firn_buf *out, enum job_field_id id,
                      const struct live_ask *ask)
{
    const struct job_field *field = &job_fields[id];
    const void *member = live_ask_member(ask, id);
    const char *key = job_field_json(field);
    switch (job_field_storage(field)) {
    case JOB_AS_TEXT:
        if ((field->kind == JOB_MODEL || field->kind == JOB_CONFIG) &&
            (*(char *const *)member)[0] != '\0')
            add_model(out, key, *(char *const *)member);
        else
            jsonbuf_text(out, key, *(char *const *)member);
        return;
    case JOB_AS_LIST:
        jsonbuf_open(out, key, '[');
        for (char **item = *(char **const *)member; *item != NULL; item++)
            jsonbuf_text(out, NULL, *item);
        jsonbuf_close(out, ']');
        return;
    case JOB_AS_INT:
        jsonbuf_int(out, key, *(const int *)member);
        return;
    case JOB_AS_COUNT:
        jsonbuf_int(out, key, *(const int64_t *)member);
        return;
    case JOB_AS_BOOL:
        jsonbuf_bool(out, key, *(const bool *)member);
        return;
    case JOB_AS_REAL:
        jsonbuf_double(out, key, *(const double *)member);
        return;
    }
}

void api_json_gpus(struct firn_buf *out, const struct api *api, const char *key,
                   const char *held)
{
    struct firn_buf named = {0};
    if (api->host.gpus_text != NULL && held != NULL)
        api->host.gpus_text(api->host.arg, held, &named);
    jsonbuf_text(out, key, named.n > 0 ? named.at : held);
    buf_release(&named);
}

/* The book has what was last written of a job; why one waits changes with the
 * others, and is found when it is asked for. */
static void add_reason(struct firn_buf *out, const struct api *api,
                       const struct live_job *job)
{
    enum live_reason reason = job->reason;
    char why[LIVE_TEXT];
    str_copy(why, sizeof why, job->why);
    if (job->state == LIVE_PENDING && api->host.waits != NULL &&
        !api->is_paused)
        api->host.waits(api->host.arg, job, &reason, why);
    jsonbuf_text(out, "reason", live_reason_name(reason));
    jsonbuf_text(out, "why", why);
}

static void add_line(struct firn_buf *out, const struct api *api,
                     const struct live_job *job)
{
    /* The fields with JOB_IN_LIST; a list may have a hundred thousand jobs. */
    static enum job_field_id listed[JOB_NFIELDS];
    static size_t nlisted;
    bool is_known = nlisted > 0;
    for (int i = 0; !is_known && i < JOB_NFIELDS; i++)
        if (job_fields[i].where & JOB_IN_LIST)
            listed[nlisted++] = (enum job_field_id)i;
    jsonbuf_int(out, "id", job->id);
    for (size_t i = 0; i < nlisted; i++)
        add_field(out, listed[i], &job->ask);
    jsonbuf_text(out, "state", live_state_name(job->state));
    add_reason(out, api, job);
    jsonbuf_bool(out, "held", job->is_held);
    jsonbuf_bool(out, "ending", job->is_ending);
    api_json_gpus(out, api, "gpus", job->held);
    jsonbuf_int(out, "attempt", job->attempt);
    jsonbuf_int(out, "epoch", job->attempt); /* older name of it */
    jsonbuf_int(out, "retries", job->nretries);
    add_time(out, "submitted_s", job->submitted_s);
    add_time(out, "started_s", job->started_s);
    add_time(out, "ended_s", job->ended_s);
    if (job->attempt > 0)
        jsonbuf_double(
            out, "ran_s",
            book_ran_s(api->host.book, job, api->host.now_s(api->host.arg)));
    if (job->reported_s > 0 && job->last.progress >= 0)
        jsonbuf_double(out, "progress", job->last.progress);
    struct firn_load load;
    if (job->state == LIVE_RUNNING && api->host.load != NULL &&
        api->host.load(api->host.arg, job, &load))
        jsonbuf_double(out, "utilisation", load.util);
}

void api_json_job(struct firn_buf *out, const struct api *api,
                  const struct live_job *job)
{
    jsonbuf_open(out, NULL, '{');
    add_line(out, api, job);
    jsonbuf_close(out, '}');
}

/* The fields that are not in lists. A text that firnd works out itself is left
 * out when it is "". */
static void add_ask(struct firn_buf *out, const struct live_ask *ask,
                    enum access access)
{
    jsonbuf_open(out, "ask", '{');
    for (int i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *field = &job_fields[i];
        const char *const *member = live_ask_member(ask, (enum job_field_id)i);
        if (field->where & JOB_IN_LIST ||
            (field->where & JOB_PRIVATE && access != ACCESS_FULL) ||
            (field->key == NULL && job_field_storage(field) == JOB_AS_TEXT &&
             (*member)[0] == '\0'))
            continue;
        add_field(out, (enum job_field_id)i, ask);
    }
    jsonbuf_close(out, '}');
}

static void add_report(struct firn_buf *out, const struct live_job *job)
{
    if (!(job->reported_s > 0))
        return;
    size_t n = firn_trainer_report_write(NULL, 0, &job->last) + 1;
    char *text = mem_new(n, 1);
    firn_trainer_report_write(text, n, &job->last);
    jsonbuf_double(out, "reported_s", job->reported_s);
    jsonbuf_raw(out, "report", text);
    mem_free(text);
}

void api_json_stop(struct firn_buf *out, const struct live_stop *stop)
{
    if (stop->cause == LIVE_CAUSE_NONE)
        return;
    jsonbuf_text(out, "cause", live_cause_name(stop->cause));
    if (stop->for_job > 0)
        jsonbuf_int(out, "for_job", stop->for_job);
}

struct attempts {
    struct firn_buf *out;
    const struct api *api;
};

static bool add_attempt(void *arg, const struct store_attempt *attempt)
{
    static const char *const ends[] = {"done",   "checkpoint", "failed",
                                       "killed", "memory",     "lost"};
    const struct attempts *attempts = arg;
    struct firn_buf *out = attempts->out;
    bool is_over = attempt->end >= 0 && attempt->end <= FIRN_END_LOST;
    jsonbuf_open(out, NULL, '{');
    jsonbuf_int(out, "attempt", attempt->number);
    jsonbuf_int(out, "epoch", attempt->number); /* older name of it */
    api_json_gpus(out, attempts->api, "gpus", attempt->held);
    add_time(out, "started_s", attempt->started_s);
    add_time(out, "ended_s", attempt->ended_s);
    if (attempt->first_step_s > 0)
        jsonbuf_double(out, "first_step_s", attempt->first_step_s);
    if (is_over) {
        jsonbuf_text(out, "end", ends[attempt->end]);
        jsonbuf_int(out, "exit_status", attempt->exit_status);
    }
    api_json_stop(out, &attempt->stop);
    jsonbuf_close(out, '}');
    return true;
}

/* `attempts`, and once more under `epochs`, the older name. */
static void add_attempts(struct firn_buf *out, const struct api *api,
                         firn_job_id id)
{
    struct firn_buf list = {0};
    struct attempts attempts = {&list, api};
    struct firn_error ignored; /* a job is shown without what cannot be read */
    jsonbuf_open(&list, NULL, '[');
    store_each_attempt(api->host.store, id, add_attempt, &attempts, &ignored);
    jsonbuf_close(&list, ']');
    jsonbuf_raw(out, "attempts", list.at);
    jsonbuf_raw(out, "epochs", list.at);
    buf_release(&list);
}

/* Left out when there is nothing to say. */
static void add_not_merged(struct firn_buf *out, const struct api *api,
                           const struct live_job *job)
{
    struct firn_buf list = {0};
    if (api->host.not_merged != NULL)
        api->host.not_merged(api->host.arg, job, &list);
    if (list.n > 2)
        jsonbuf_raw(out, "not_merged", list.at);
    buf_release(&list);
}

static void add_abilities(struct firn_buf *out, const struct live_job *job)
{
    enum abilities_from from;
    unsigned can = abilities_of(job, &from);
    jsonbuf_open(out, "can", '[');
    for (unsigned i = 0; i < FIRN_CAN_WORDS; i++)
        if (can >> i & 1)
            jsonbuf_text(out, NULL, firn_can_name(1u << i));
    jsonbuf_close(out, ']');
    jsonbuf_text(out, "can_from", abilities_from_name(from));
}

/* Left out when nothing is known. */
static void add_measured(struct firn_buf *out, const struct api *api,
                         const struct live_job *job)
{
    struct firn_load load;
    if (job->state != LIVE_RUNNING || api->host.load == NULL ||
        !api->host.load(api->host.arg, job, &load))
        return;
    jsonbuf_open(out, "measured", '{');
    jsonbuf_double(out, "utilisation", load.util);
    jsonbuf_double(out, "memory_gib", load.mem_gib);
    jsonbuf_close(out, '}');
}

/* Left out when nothing is predicted. */
static void add_memory(struct firn_buf *out, const struct api *api,
                       const struct live_job *job)
{
    struct firn_buf object = {0};
    if (api->host.memory != NULL)
        api->host.memory(api->host.arg, job, &object);
    if (object.n > 0)
        jsonbuf_raw(out, "memory", object.at);
    buf_release(&object);
}

void api_json_whole_job(struct firn_buf *out, struct api *api,
                        const struct live_job *job, enum access access)
{
    jsonbuf_open(out, NULL, '{');
    add_line(out, api, job);
    if (live_state_is_over(job->state))
        jsonbuf_int(out, "exit_status", job->exit_status);
    add_not_merged(out, api, job);
    add_abilities(out, job);
    if (job->prepared_s > 0) {
        jsonbuf_double(out, "prepared_s", job->prepared_s);
        jsonbuf_double(out, "first_step_s", job->first_step_s);
    }
    add_measured(out, api, job);
    add_memory(out, api, job);
    add_ask(out, &job->ask, access);
    add_report(out, job);
    api_json_log(out, api, job);
    add_attempts(out, api, job->id);
    if (access == ACCESS_FULL) {
        jsonbuf_text(out, "request", job->request);
        jsonbuf_text(out, "file", job->text);
    }
    jsonbuf_close(out, '}');
}
