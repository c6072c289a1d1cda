/* jobmodel.c - what a client may believe of a job, beside the real one.
 *
 * The table has the states in which a job can be seen, by what its command does
 * and whether its end was asked for.
 */
#include "lib/jobmodel.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- states -------------------------------------------------------------- */

enum {
    PENDING,
    STARTING,
    RUNNING,
    RESIZING,
    PREEMPTING,
    COMPLETING,
    SUCCEEDED,
    FAILED,
    CANCELLED,
    LOST,
    NSTATES
};

static const char *const names[NSTATES] = {
    "pending",    "starting",  "running", "resizing",  "preempting",
    "completing", "succeeded", "failed",  "cancelled", "lost"};

#define LIVING 1, 1, 1, 1, 1, 1
/* By kind, and whether it was cancelled. */
static const bool may_be[MODEL_NKINDS][2][NSTATES] = {
    [MODEL_SLEEPS] = {{LIVING, 0, 0, 0, 0}, {LIVING, 0, 0, 1, 0}},
    [MODEL_SUCCEEDS] = {{LIVING, 1, 0, 0, 0}, {LIVING, 1, 0, 1, 0}},
    [MODEL_FAILS] = {{LIVING, 0, 1, 0, 0}, {LIVING, 0, 1, 1, 0}},
    [MODEL_STRANGE] = {{LIVING, 0, 0, 0, 0}, {LIVING, 0, 0, 1, 0}},
};

static int state_of(const char *name)
{
    for (int i = 0; i < NSTATES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* --- requests ------------------------------------------------------------ */

void jobmodel_init(struct jobmodel *job, enum jobmodel_kind kind, bool is_held)
{
    *job = (struct jobmodel){.exists = MODEL_MAYBE,
                             .kind = kind,
                             .held = is_held ? MODEL_YES : MODEL_NO,
                             .is_pinned = is_held,
                             .npriority = 1,
                             .priority = {0},
                             .ngpus = 1,
                             .gpus = {1}};
}

void jobmodel_hold(struct jobmodel *job, bool is_held, bool is_answered)
{
    enum jobmodel_tri now = is_held ? MODEL_YES : MODEL_NO;
    if (!is_held)
        job->is_pinned = false;
    if (is_answered)
        job->held = now;
    else if (job->held != now)
        job->held = MODEL_MAYBE;
}

void jobmodel_cancel(struct jobmodel *job, bool is_answered)
{
    if (is_answered)
        job->cancelled = MODEL_YES;
    else if (job->cancelled == MODEL_NO)
        job->cancelled = MODEL_MAYBE;
}

static void set(int *values, int *n, int value, bool is_answered)
{
    if (is_answered || *n == 8)
        *n = 0;
    values[(*n)++] = value;
}

void jobmodel_priority(struct jobmodel *job, int value, bool is_answered)
{
    set(job->priority, &job->npriority, value, is_answered);
}

void jobmodel_gpus(struct jobmodel *job, int value, bool is_answered)
{
    set(job->gpus, &job->ngpus, value, is_answered);
}

/* --- answers ------------------------------------------------------------- */

static bool wrong(char *why, size_t nwhy, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, nwhy, fmt, args);
    va_end(args);
    return false;
}

/* One of the possible values; from now on that one. */
static bool narrow(int *values, int *n, int seen)
{
    for (int i = 0; i < *n; i++)
        if (values[i] == seen) {
            values[0] = seen;
            *n = 1;
            return true;
        }
    return false;
}

static bool narrow_tri(enum jobmodel_tri *tri, bool seen)
{
    if (*tri == MODEL_MAYBE)
        *tri = seen ? MODEL_YES : MODEL_NO;
    return (*tri == MODEL_YES) == seen;
}

static bool see_end(struct jobmodel *job, const struct jobmodel_seen *seen,
                    int state, char *why, size_t nwhy)
{
    bool is_over = state >= SUCCEEDED;
    bool was_seen_over = state_of(job->state) >= SUCCEEDED;
    if (was_seen_over && (strcmp(seen->state, job->state) != 0 ||
                          strcmp(seen->ended, job->ended) != 0))
        return wrong(why, nwhy, "it was %s at %s, and is %s at %s", job->state,
                     job->ended, seen->state, seen->ended);
    if (job->is_over && !is_over)
        return wrong(why, nwhy, "an answer said that it is over, and it is %s",
                     seen->state);
    if (!is_over && !narrow_tri(&job->cancelled, seen->is_ending))
        return wrong(why, nwhy, "cancelled: %d, and its ending is %d",
                     job->cancelled == MODEL_YES, seen->is_ending);
    if (state == CANCELLED && job->cancelled == MODEL_MAYBE)
        job->cancelled = MODEL_YES;
    if (!may_be[job->kind][job->cancelled == MODEL_YES][state])
        return wrong(why, nwhy, "a job of kind %d, cancelled %d, cannot be %s",
                     job->kind, job->cancelled == MODEL_YES, seen->state);
    job->is_over = is_over;
    return true;
}

bool jobmodel_see(struct jobmodel *job, const struct jobmodel_seen *seen,
                  char *why, size_t nwhy)
{
    int state = state_of(seen->state);
    if (job->id == 0)
        job->id = seen->id;
    job->exists = MODEL_YES;
    if (state < 0)
        return wrong(why, nwhy, "there is no state '%s'", seen->state);
    if (seen->id != job->id || strcmp(seen->name, job->name) != 0)
        return wrong(why, nwhy, "it is job %d '%s', not %d '%s'", seen->id,
                     seen->name, job->id, job->name);
    if (!narrow_tri(&job->held, seen->is_held))
        return wrong(why, nwhy, "it is held: %d, and is seen so: %d",
                     job->held == MODEL_YES, seen->is_held);
    if (!narrow(job->priority, &job->npriority, seen->priority))
        return wrong(why, nwhy, "its priority is %d, not %d", seen->priority,
                     job->priority[0]);
    if (job->kind != MODEL_STRANGE &&
        (seen->gpus_min != seen->gpus_max ||
         !narrow(job->gpus, &job->ngpus, seen->gpus_min)))
        return wrong(why, nwhy, "it wants %d..%d GPUs, not %d", seen->gpus_min,
                     seen->gpus_max, job->gpus[0]);
    if (seen->attempt < job->attempt)
        return wrong(why, nwhy, "its attempt was %d and is %d", job->attempt,
                     seen->attempt);
    if (job->is_pinned && (seen->attempt != job->attempt ||
                           (state != PENDING && state != CANCELLED)))
        return wrong(why, nwhy, "it is held and %s, attempt %d after %d",
                     seen->state, seen->attempt, job->attempt);
    if (!see_end(job, seen, state, why, nwhy))
        return false;
    /* One that is held while it waits stays. */
    if (job->held == MODEL_YES && state == PENDING)
        job->is_pinned = true;
    job->attempt = seen->attempt;
    snprintf(job->state, sizeof job->state, "%s", seen->state);
    snprintf(job->ended, sizeof job->ended, "%s", seen->ended);
    return true;
}

/* --- text ---------------------------------------------------------------- */

/* The text behind "key": in `json`, at its first place. */
static const char *value(const char *json, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(json, quoted);
    return at != NULL ? at + strlen(quoted) : "";
}

static void copy(const char *json, const char *key, char *out, size_t max)
{
    const char *at = value(json, key);
    at += *at == '"';
    snprintf(out, max, "%.*s", (int)strcspn(at, "\",}"), at);
}

/* Of a list the jobs are flat; a whole job has these keys first. */
const char *jobmodel_read(const char *json, struct jobmodel_seen *out)
{
    static const char start[] = "{\"id\": ";
    char one[8192];
    const char *at = strstr(json, start);
    if (at == NULL)
        return NULL;
    const char *end = strstr(at + 1, start);
    snprintf(one, sizeof one, "%.*s",
             end != NULL ? (int)(end - at) : (int)sizeof one - 1, at);
    *out = (struct jobmodel_seen){
        .id = atoi(value(one, "id")),
        .priority = atoi(value(one, "priority")),
        .gpus_min = atoi(value(one, "gpus_min")),
        .gpus_max = atoi(value(one, "gpus_max")),
        .attempt = atoi(value(one, "epoch")),
        .is_held = strncmp(value(one, "held"), "true", 4) == 0,
        .is_ending = strncmp(value(one, "ending"), "true", 4) == 0};
    copy(one, "name", out->name, sizeof out->name);
    copy(one, "state", out->state, sizeof out->state);
    copy(one, "ended_s", out->ended, sizeof out->ended);
    return at + sizeof start - 1;
}
