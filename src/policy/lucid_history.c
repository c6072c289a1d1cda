/* lucid_history.c - how long jobs take, learnt from those that have finished.
 *
 * The work of a job is what it has reported, carried on to its end. It is
 * added to the sums of its application, of its group and of all; an estimate
 * is the mean of the first of these that has any. Jobs that have ended are
 * forgotten but for these sums, so that what is kept over a restart does not
 * grow with all jobs that ever were.
 *
 * Invariant: by_app has an entry for each name in apps, by_group in groups.
 * Cost: O(1) an event.
 */
#include "base/keep.h"
#include "policy/lucid.h"
#include <limits.h>
#include <stdint.h>
#include <string.h>

static double mean_s(const struct lucid_past *past)
{
    return past->sum_s / (double)past->n;
}

/* Of a job that was submitted and has not ended, or NULL. */
static struct lucid_seen *seen_of(const struct lucid *lucid, firn_job_id id)
{
    if (id < 0 || (size_t)id >= lucid->seen.n || lucid->seen.at[id].app == 0)
        return NULL;
    return &lucid->seen.at[id];
}

double lucid_estimate_s(const struct lucid *lucid, const struct firn_job *job)
{
    if (lucid->estimates == LUCID_ORACLE)
        return firn_job_work_s(job);
    const struct lucid_seen *seen = seen_of(lucid, job->id);
    if (seen != NULL) {
        const struct lucid_past *app = &lucid->by_app.at[seen->app - 1];
        const struct lucid_past *group = &lucid->by_group.at[seen->group - 1];
        if (*job->spec.app && app->n > 0)
            return mean_s(app);
        if (group->n > 0)
            return mean_s(group);
    }
    return lucid->all.n > 0 ? mean_s(&lucid->all) : 1;
}

static void add(struct lucid_past *past, double work_s)
{
    past->sum_s += work_s;
    past->n++;
}

static void make_room(struct lucid *lucid, size_t ids)
{
    vec_reserve(&lucid->by_app, lucid->apps.n);
    vec_reserve(&lucid->by_group, lucid->groups.n);
    vec_reserve(&lucid->seen, ids);
    if (lucid->seen.n < ids)
        lucid->seen.n = ids;
}

/* The work it has done in all, going by its last report. */
static void learn(struct lucid *lucid, const struct lucid_seen *seen,
                  const struct firn_event *event)
{
    const struct firn_report *last = &seen->last;
    double end_s = event->finished_s > 0 ? event->finished_s : event->at_s;
    double work_s = last->done_s + last->rate * (end_s - last->resumes_s);
    if (!(work_s > 0))
        return; /* it never reported its speed */
    add(&lucid->by_app.at[seen->app - 1], work_s);
    add(&lucid->by_group.at[seen->group - 1], work_s);
    add(&lucid->all, work_s);
}

void lucid_observe(void *state, const struct firn_event *event)
{
    struct lucid *lucid = state;
    if (lucid->estimates == LUCID_ORACLE)
        return;
    if (event->kind == FIRN_EVENT_SUBMIT) {
        int app = map_add(&lucid->apps, event->spec->app) + 1;
        int group = map_add(&lucid->groups, event->spec->group) + 1;
        make_room(lucid, (size_t)event->job + 1);
        lucid->seen.at[event->job] = (struct lucid_seen){app, group, {0, 0, 0}};
    }
    struct lucid_seen *seen = seen_of(lucid, event->job);
    if (seen == NULL)
        return;
    if (event->kind == FIRN_EVENT_REPORT)
        seen->last = event->report;
    if (event->kind == FIRN_EVENT_DONE)
        learn(lucid, seen, event);
    if (event->kind == FIRN_EVENT_DONE || event->kind == FIRN_EVENT_FAIL)
        *seen = (struct lucid_seen){0};
}

void lucid_fini(void *state)
{
    struct lucid *lucid = state;
    map_release(&lucid->apps);
    map_release(&lucid->groups);
    vec_release(&lucid->by_app);
    vec_release(&lucid->by_group);
    vec_release(&lucid->seen);
}

/* ---- over a restart ---- */

static void save_past(struct firn_buf *out, const struct lucid_past *past)
{
    keep_double(out, past->sum_s);
    keep_int(out, past->n);
}

void lucid_save(const void *state, struct firn_buf *out)
{
    const struct lucid *lucid = state;
    long n = 0;
    keep_begin(out, "policy lucid", 1);
    save_past(out, &lucid->all);
    keep_names(out, &lucid->apps);
    for (size_t i = 0; i < lucid->apps.n; i++)
        save_past(out, &lucid->by_app.at[i]);
    keep_names(out, &lucid->groups);
    for (size_t i = 0; i < lucid->groups.n; i++)
        save_past(out, &lucid->by_group.at[i]);
    for (size_t i = 0; i < lucid->seen.n; i++)
        n += lucid->seen.at[i].app > 0;
    keep_int(out, n);
    for (size_t i = 0; i < lucid->seen.n; i++) {
        const struct lucid_seen *seen = &lucid->seen.at[i];
        if (seen->app == 0)
            continue;
        keep_int(out, (long)i);
        keep_int(out, seen->app);
        keep_int(out, seen->group);
        keep_double(out, seen->last.done_s);
        keep_double(out, seen->last.rate);
        keep_double(out, seen->last.resumes_s);
    }
}

static struct lucid_past load_past(struct keep *in)
{
    struct lucid_past past = {.sum_s = keep_read_double(in)};
    past.n = keep_read_int(in, 0, LONG_MAX);
    return past;
}

/* The jobs; those with numbers that no name has are bad. */
static void load_seen(struct keep *in, struct lucid *lucid)
{
    long n = keep_read_int(in, 0, INT32_MAX);
    for (long i = 0; i < n && !in->is_bad; i++) {
        long id = keep_read_int(in, (long)lucid->seen.n, INT32_MAX - 1);
        struct lucid_seen seen = {
            .app = (int)keep_read_int(in, 1, (long)lucid->apps.n)};
        seen.group = (int)keep_read_int(in, 1, (long)lucid->groups.n);
        seen.last.done_s = keep_read_double(in);
        seen.last.rate = keep_read_double(in);
        seen.last.resumes_s = keep_read_double(in);
        if (in->is_bad)
            return;
        make_room(lucid, (size_t)id + 1);
        lucid->seen.at[id] = seen;
    }
}

enum firn_status lucid_load(void *state, struct firn_bytes in,
                            struct firn_error *err)
{
    struct lucid *lucid = state, fresh = *lucid, old = *lucid;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy lucid", 1, err));
    fresh.apps = fresh.groups = (struct map){0};
    memset(&fresh.by_app, 0, sizeof fresh.by_app);
    memset(&fresh.by_group, 0, sizeof fresh.by_group);
    memset(&fresh.seen, 0, sizeof fresh.seen);
    fresh.all = load_past(&keep);
    keep_read_names(&keep, &fresh.apps);
    for (size_t i = 0; i < fresh.apps.n; i++)
        vec_add(&fresh.by_app, load_past(&keep));
    keep_read_names(&keep, &fresh.groups);
    for (size_t i = 0; i < fresh.groups.n; i++)
        vec_add(&fresh.by_group, load_past(&keep));
    load_seen(&keep, &fresh);
    enum firn_status status = keep_close(&keep, err);
    if (status == FIRN_OK)
        *lucid = fresh;
    lucid_fini(status == FIRN_OK ? &old : &fresh);
    return status;
}
