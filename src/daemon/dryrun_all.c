/* dryrun_all.c - `GET /forecast`: when every job starts and ends, at once.
 *
 * One roll-forward tells all jobs' starts and ends on its way, where `firn eta`
 * rolls once for each job: 5000 jobs in the time of one. As in dryrun.c there
 * are three futures (jobs that do not report take what is expected, half and
 * twice of it); the first is the answer. Its range has all three, and what nine
 * of ten foretold ends were within.
 *
 * (1) The answer is kept. It is made anew only when a decision was taken since
 *     or it is OLD_S old, and never before REST times its own cost has passed:
 *     at most a twentieth of the loop's time goes into it, however many ask.
 *     With `fresh=1` it is made anew, at the price of one `firn eta`.
 * (2) Moments are seconds since 1970, since a kept answer has no "now".
 * (3) A start that hangs on the end of a job without a known duration is null,
 *     and `hangs_on` names that job.
 * (4) A position counts the jobs that are seen to start, in the order of their
 *     starts, equal starts by id. A job that is not seen to start has none.
 *
 * Bound: ALL_S of processor time for each future, and the limits of dryrun.c.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonwrite.h"
#include "base/mem.h"
#include "daemon/dryrunwork.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double ALL_S = 0.15, REST = 20, REST_LEAST_S = 2, OLD_S = 30;

struct foreseen {
    struct firn_buf json;
    double made_s, cost_s; /* by clock_elapsed_s() */
    long ndecided;         /* decisions that it knows of */
};

void foreseen_free(struct foreseen *foreseen)
{
    if (foreseen != NULL)
        buf_release(&foreseen->json);
    mem_free(foreseen);
}

/* A job in the three futures. */
struct fate {
    firn_job_id id; /* the book's */
    bool runs;      /* now */
    bool is_known;  /* how long it takes */
    struct dryrun_seen seen;
    double start[2], end[2];
    int position; /* 0: none */
};

/* --- the futures ---------------------------------------------------------- */

/* Closes `dry` and rolls anew. */
static enum firn_status roll_one(struct loop *loop, double stretch,
                                 struct dryrun *dry, struct dryrun_order *order,
                                 struct firn_error *err)
{
    dryrun_close(dry);
    *dry = (struct dryrun){.stretch = stretch, .most_s = ALL_S};
    dryrun_ahead_expect(dry, order);
    FIRN_TRY(dryrun_open_all(dry, loop, err));
    dryrun_roll(dry);
    dryrun_ahead_keep(dry, order);
    return FIRN_OK;
}

/* Takes what one future has seen. */
static void take(struct fate *fates, size_t n, const struct dryrun *dry)
{
    for (size_t i = 0; i < n; i++) {
        const struct dryrun_seen *seen = &dry->seen[i];
        dryrun_widen(fates[i].start, seen->start_s);
        dryrun_widen(fates[i].end, seen->end_s);
        if (dry->stretch == 1)
            fates[i].seen = *seen;
    }
}

/* Of all jobs in the round, by their ids there; an id of 0: gone. */
static struct fate *fates_new(const struct loop *loop, size_t n)
{
    const struct state *state = round_state(loop->desk.round);
    struct fate *fates = mem_new(n + 1, sizeof *fates);
    for (size_t i = 0; i < n; i++)
        fates[i] = (struct fate){.start = {NAN, NAN},
                                 .end = {NAN, NAN},
                                 .seen = {.start_s = NAN, .end_s = NAN}};
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        struct fate *fate = &fates[sj->job.id];
        const struct live_job *job =
            book_job(loop->book, desk_book_id(&loop->desk, sj->job.id));
        const struct track *track =
            job != NULL ? desk_track(&loop->desk, job->id) : NULL;
        if (track == NULL)
            continue;
        fate->id = job->id;
        fate->runs = sj->job.held.nparts > 0;
        fate->is_known = desk_left(&loop->desk, job, track).is_known;
    }
    return fates;
}

static int by_start(const void *one, const void *two)
{
    const struct fate *a = *(const struct fate *const *)one;
    const struct fate *b = *(const struct fate *const *)two;
    if (a->seen.start_s != b->seen.start_s)
        return a->seen.start_s < b->seen.start_s ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* (4) */
static void number_them(struct fate *fates, size_t n)
{
    struct fate **queue = mem_new(n + 1, sizeof(struct fate *));
    size_t nqueue = 0;
    for (size_t i = 0; i < n; i++)
        if (fates[i].id != 0 && !fates[i].runs && !isnan(fates[i].seen.start_s))
            queue[nqueue++] = &fates[i];
    qsort(queue, nqueue, sizeof(struct fate *), by_start);
    for (size_t i = 0; i < nqueue; i++)
        queue[i]->position = (int)i + 1;
    mem_free(queue);
}

/* --- the answer ------------------------------------------------------------
 */

static void put_moment(struct firn_buf *json, const char *key, bool is_told,
                       double now_s, double at_s, const double range[2])
{
    char name[40];
    snprintf(name, sizeof name, "%s_at_s", key);
    jsonbuf_double(json, name, is_told ? now_s + at_s : (double)NAN);
    snprintf(name, sizeof name, "%s_range_s", key);
    jsonbuf_open(json, name, '[');
    for (int i = 0; i < 2; i++)
        jsonbuf_double(json, NULL, is_told ? now_s + range[i] : (double)NAN);
    jsonbuf_close(json, ']');
}

static void put_fate(struct firn_buf *json, const struct loop *loop,
                     const struct fate *fate, double now_s)
{
    const struct dryrun_seen *seen = &fate->seen;
    bool is_start_told = !isnan(seen->start_s) && seen->hung == FIRN_NO_JOB;
    bool is_end_told = is_start_told && fate->is_known && !isnan(seen->end_s);
    jsonbuf_open(json, NULL, '{');
    jsonbuf_int(json, "id", fate->id);
    if (!fate->runs && fate->position > 0)
        jsonbuf_int(json, "position", fate->position);
    if (!fate->runs)
        put_moment(json, "start", is_start_told, now_s, seen->start_s,
                   fate->start);
    put_moment(json, "finish", is_end_told, now_s, seen->end_s, fate->end);
    if (seen->hung != FIRN_NO_JOB)
        jsonbuf_int(json, "hangs_on", seen->hung);
    if (!fate->runs && is_start_told && seen->gpus != NULL) {
        struct firn_buf gpus = {0};
        dock_gpus_text(&loop->dock, seen->gpus, &gpus);
        jsonbuf_text(json, "gpus", gpus.n > 0 ? gpus.at : seen->gpus);
        buf_release(&gpus);
    }
    jsonbuf_close(json, '}');
}

/* Jobs that no policy moves: they run to their ends. */
static void put_pinned(struct firn_buf *json, const struct loop *loop,
                       double now_s)
{
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        if (track == NULL || track->blocked.nparts == 0)
            continue;
        const struct live_job *job = book_job(loop->book, track->id);
        if (job == NULL || desk_job(&loop->desk, track) != NULL)
            continue;
        struct desk_left left = desk_left(&loop->desk, job, track);
        double by = left.reports ? 1 + desk_eta_width(&loop->desk) : 2;
        double range[2] = {left.left_s / by, left.left_s * by};
        jsonbuf_open(json, NULL, '{');
        jsonbuf_int(json, "id", job->id);
        put_moment(json, "finish", left.is_known, now_s, left.left_s, range);
        jsonbuf_close(json, '}');
    }
}

static void put_all(struct firn_buf *json, const struct loop *loop,
                    const struct dryrun *dry, const struct fate *fates,
                    size_t n)
{
    struct firn_buf limit = {0};
    dryrun_limit_text(dry, &limit);
    jsonbuf_open(json, NULL, '{');
    jsonbuf_double(json, "at_s", dry->began_s);
    jsonbuf_text(json, "policy", loop->desk.policy->name);
    jsonbuf_int(json, "simulated", dry->nevents);
    if (limit.n > 0)
        jsonbuf_text(json, "stopped", limit.at);
    else
        jsonbuf_raw(json, "stopped", "null");
    jsonbuf_open(json, "jobs", '[');
    for (size_t i = 0; i < n; i++)
        if (fates[i].id != 0)
            put_fate(json, loop, &fates[i], dry->began_s);
    put_pinned(json, loop, dry->began_s);
    jsonbuf_close(json, ']');
    jsonbuf_close(json, '}');
    buf_release(&limit);
}

static enum firn_status make(struct loop *loop, struct firn_buf *json,
                             struct firn_error *err)
{
    static const double stretches[] = {0.5, 2, 1};
    size_t n = loop->desk.books.n;
    struct fate *fates = fates_new(loop, n);
    enum firn_status status = FIRN_OK;
    struct dryrun dry = {0};
    struct dryrun_order order = {0};
    if (desk_prepares(&loop->desk) > 0)
        status = roll_one(loop, 1, &dry, &order, err);
    for (int i = 0; i < 3 && status == FIRN_OK; i++) {
        status = roll_one(loop, stretches[i], &dry, &order, err);
        if (status == FIRN_OK)
            take(fates, n, &dry);
    }
    double width = desk_eta_width(&loop->desk);
    for (size_t i = 0; i < n && status == FIRN_OK; i++) {
        dryrun_widen(fates[i].end, fates[i].seen.end_s / (1 + width));
        dryrun_widen(fates[i].end, fates[i].seen.end_s * (1 + width));
    }
    if (status == FIRN_OK) {
        number_them(fates, n);
        put_all(json, loop, &dry, fates, n);
    }
    dryrun_close(&dry);
    vec_release(&order);
    mem_free(fates);
    return status;
}

/* (1) */
static bool is_good(const struct loop *loop, const struct foreseen *kept)
{
    double age_s = clock_elapsed_s() - kept->made_s;
    if (kept->json.n == 0)
        return false;
    return age_s < fmax(REST_LEAST_S, REST * kept->cost_s) ||
           (kept->ndecided == loop->desk.ndecided && age_s < OLD_S);
}

enum firn_status dryrun_all(struct loop *loop, bool is_fresh,
                            struct firn_buf *json, struct firn_error *err)
{
    if (loop->foreseen == NULL)
        loop->foreseen = mem_new(1, sizeof *loop->foreseen);
    struct foreseen *kept = loop->foreseen;
    if (is_fresh || !is_good(loop, kept)) {
        double began_s = clock_elapsed_s();
        buf_clear(&kept->json);
        FIRN_TRY(make(loop, &kept->json, err));
        kept->made_s = clock_elapsed_s();
        kept->cost_s = kept->made_s - began_s;
        kept->ndecided = loop->desk.ndecided;
    }
    buf_add(json, kept->json.at, kept->json.n);
    return FIRN_OK;
}
