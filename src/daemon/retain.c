/* retain.c - files and rows that are no longer kept are removed, a few a turn.
 *
 * A pass has four parts, in this order, and each part goes over its rows by
 * rising id in steps:
 *
 *     count     how many finished jobs there are
 *     jobs      files, then rows, of finished jobs that are too old or too many
 *     reports   of finished jobs, by age
 *     events    by age
 *
 * A step looks at a bounded number of rows and stops after STEP_S; the next is
 * due PAUSE_S later. A pass follows PASS_S behind the one before, or sooner
 * when that one has removed something: more may have become too many meanwhile.
 *
 * Invariants:
 * (1) nothing of a living job is touched: its row says that it is over, its
 *     locks are free (retain_files.c), and rows are deleted by statements that
 *     ask again (store_trim.c);
 * (2) a job whose weights a living job begins with, or that a living job is
 *     trained with, is kept;
 * (3) a job that ended less than YOUNG_S ago is kept, whatever its number;
 * (4) a row goes only when its files are gone: a folder without a row may be
 *     of a database that was lost, and is not touched;
 * (5) while the disk has no ample room, files are removed and rows are not:
 *     deleting a row writes to the database's log first.
 *
 * Files are removed before the deletion of their row is committed: a crash in
 * between leaves a row without files, which the next pass finds again.
 */
#include "daemon/retain.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>

static const double STEP_S = 0.005, PAUSE_S = 0.01, FIRST_S = 60, PASS_S = 600,
                    SOON_S = 60, YOUNG_S = 600, DAY_S = 86400;
enum { ROWS = 200, FILES = 200 };

/* A finished job that is not kept any more. */
struct due {
    firn_job_id id;
    int64_t nstarts;
    bool is_row; /* nor is its row */
};

struct retain {
    double next_s;
    size_t part;              /* of the pass; 0: none is on its way */
    firn_job_id after;        /* jobs up to this one were looked at */
    int64_t nover, nseen;     /* finished jobs; those looked at */
    VEC(struct due) due;      /* of the last rows, from the last on */
    VEC(unsigned char) clean; /* by id from the first on: files are gone */
    struct store_trim list;   /* events, reports */
    int64_t nfiles, nrows;    /* jobs of this pass */
    double now_s;
};

/* --- rows ----------------------------------------------------------------- */

struct rows {
    struct retain *retain;
    const struct config_keep *keep;
    size_t n;
};

static bool count(void *arg, const struct store_end *end)
{
    struct rows *rows = arg;
    rows->n++;
    rows->retain->after = end->id;
    rows->retain->nover += end->is_over;
    return true;
}

static bool judge(void *arg, const struct store_end *end)
{
    struct rows *rows = arg;
    struct retain *r = rows->retain;
    const struct config_keep *keep = rows->keep;
    double age_s = r->now_s - end->ended_s;
    rows->n++;
    r->after = end->id;
    if (!end->is_over)
        return true;
    int64_t newer = r->nover - ++r->nseen;
    bool is_row = keep->rows > 0 && newer >= keep->rows;
    bool is_due =
        is_row || (keep->jobs > 0 && newer >= keep->jobs) ||
        (keep->jobs_days > 0 && age_s > (double)keep->jobs_days * DAY_S);
    if (is_due && age_s >= YOUNG_S) { /* (3) */
        struct due due = {end->id, end->attempt, is_row};
        vec_add(&r->due, due);
    }
    return true;
}

/* --- the parts of a pass: true when one is over -------------------------- */

typedef bool part_fn(struct loop *loop, struct retain *r);

static bool count_jobs(struct loop *loop, struct retain *r)
{
    struct firn_error err = {0};
    struct rows rows = {.retain = r};
    if (store_each_end(loop->store, r->after, ROWS, count, &rows, &err) !=
        FIRN_OK)
        log_warn("finished jobs cannot be counted: %s", err.text);
    if (rows.n == ROWS)
        return false;
    r->after = 0;
    return true;
}

static unsigned char *clean_at(const struct loop *loop, struct retain *r,
                               firn_job_id id)
{
    size_t i =
        id >= loop->desk.first_id ? (size_t)(id - loop->desk.first_id) : 0;
    while (r->clean.n <= i)
        vec_add(&r->clean, 0);
    return &r->clean.at[i];
}

/* (2) Those that living jobs refer to, and those of which nothing is left, are
 * not due. */
static void leave_out(struct loop *loop, struct retain *r)
{
    size_t n = 0;
    for (size_t k = 0; r->due.n > 0 && k < book_count(loop->book); k++) {
        const struct live_job *job = book_at(loop->book, k);
        if (live_state_is_over(job->state) ||
            (job->how.after == FIRN_NO_JOB &&
             job->how.merged_with == FIRN_NO_JOB))
            continue;
        for (size_t i = 0; i < r->due.n; i++)
            if (job->how.after == r->due.at[i].id ||
                job->how.merged_with == r->due.at[i].id)
                r->due.at[i].id = FIRN_NO_JOB;
    }
    for (size_t i = 0; i < r->due.n; i++) {
        struct due due = r->due.at[i];
        if (due.id != FIRN_NO_JOB &&
            (due.is_row || !*clean_at(loop, r, due.id)))
            r->due.at[n++] = due;
    }
    r->due.n = n;
}

/* False: there is more to do for this job. */
static bool remove_one(struct loop *loop, struct retain *r,
                       const struct due *due, struct retain_budget *budget)
{
    struct firn_error err = {0};
    unsigned char *is_clean = clean_at(loop, r, due->id);
    bool is_gone = true;
    if (!*is_clean) {
        enum retain_left left =
            retain_files(loop->config->state, due->id, due->nstarts, budget);
        if (left != RETAIN_GONE)
            return left == RETAIN_KEPT;
        *is_clean = 1;
        r->nfiles++;
    }
    if (!due->is_row || store_room(loop->store) != ROOM_AMPLE) /* (5) */
        return true;
    enum firn_status status =
        store_forget_job(loop->store, due->id, ROWS, &is_gone, &err);
    budget->nfiles -= is_gone ? 4 : ROWS;
    if (book_wrote(loop->book, status, &err) && is_gone) {
        book_forget(loop->book, due->id);
        r->nrows++;
    }
    return is_gone || status != FIRN_OK;
}

static bool trim_jobs(struct loop *loop, struct retain *r)
{
    struct firn_error err = {0};
    struct rows rows = {.retain = r, .keep = &loop->current->keep, .n = ROWS};
    struct retain_budget budget = {FILES, clock_elapsed_s() + STEP_S};
    if (r->due.n == 0) {
        rows.n = 0;
        if (store_each_end(loop->store, r->after, ROWS, judge, &rows, &err) !=
            FIRN_OK)
            log_warn("finished jobs cannot be read: %s", err.text);
        leave_out(loop, r);
    }
    while (r->due.n > 0 && budget.nfiles > 0 &&
           clock_elapsed_s() < budget.until_s) {
        if (!remove_one(loop, r, &r->due.at[r->due.n - 1], &budget))
            break;
        r->due.n--;
    }
    return r->due.n == 0 && rows.n < ROWS;
}

static bool trim_list(struct loop *loop, struct retain *r, enum store_list list)
{
    struct firn_error err = {0};
    double days = (double)loop->current->keep.events_days;
    if (days <= 0 || store_room(loop->store) != ROOM_AMPLE) /* (5) */
        return true;
    enum firn_status status = store_trim(
        loop->store, list, r->now_s - days * DAY_S, ROWS, &r->list, &err);
    bool is_over = !book_wrote(loop->book, status, &err) || r->list.is_done;
    if (is_over)
        r->list = (struct store_trim){0};
    return is_over;
}

static bool trim_reports(struct loop *loop, struct retain *r)
{
    return trim_list(loop, r, STORE_REPORTS);
}

static bool trim_events(struct loop *loop, struct retain *r)
{
    return trim_list(loop, r, STORE_EVENTS);
}

static part_fn *const parts[] = {count_jobs, trim_jobs, trim_reports,
                                 trim_events};
enum { NPARTS = sizeof parts / sizeof *parts };

/* --- a turn -------------------------------------------------------------- */

static void end_pass(struct retain *r, double now_s)
{
    bool has_removed = r->nfiles + r->nrows > 0;
    if (has_removed)
        log_info("removed the logs of %lld finished jobs and the records of "
                 "%lld (keep-jobs, keep-jobs-days, keep-rows)",
                 (long long)r->nfiles, (long long)r->nrows);
    r->part = 0;
    r->after = 0;
    r->nover = r->nseen = r->nfiles = r->nrows = 0;
    r->next_s = now_s + (has_removed ? SOON_S : PASS_S);
}

double retain_turn(struct loop *loop, double now_s)
{
    const struct config_keep *keep = &loop->current->keep;
    if (keep->jobs == 0 && keep->jobs_days == 0 && keep->rows == 0 &&
        keep->events_days == 0)
        return INFINITY;
    if (loop->retain == NULL) {
        loop->retain = mem_new(1, sizeof *loop->retain);
        loop->retain->next_s = now_s + FIRST_S;
    }
    struct retain *r = loop->retain;
    if (r->next_s > now_s + PASS_S)
        r->next_s = now_s + PASS_S; /* the clock was put back */
    if (now_s < r->next_s || book_broken(loop->book)->status != FIRN_OK)
        return r->next_s;
    r->now_s = now_s;
    if (parts[r->part](loop, r))
        r->part++;
    r->next_s = now_s + PAUSE_S;
    if (r->part == NPARTS)
        end_pass(r, now_s);
    return r->next_s;
}

void retain_free(struct retain *retain)
{
    if (retain == NULL)
        return;
    vec_release(&retain->due);
    vec_release(&retain->clean);
    mem_free(retain);
}
