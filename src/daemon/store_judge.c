/* store_judge.c - which values a row of the state file may have.
 *
 * firnd never writes the values that are refused here: they come from a damaged
 * file or from another program. A number that overflows, a time that is not
 * finite or a negative number of GPUs would do harm elsewhere, so the whole row
 * is bad: it is left out, the log names it, and it stays on disk.
 *
 * (1) A whole number is stored as an integer and lies within the bounds of its
 * column (store_job.c, core/jobfields.def). (2) A real number is finite and at
 * most 1e15; a value of another type reads as 0, as SQLite converts it. (3) The
 * GPUs that a job holds can be read, and `over` agrees with its state: a job
 * whose processes may run is never taken for a finished one.
 */
#include "base/mem.h"
#include "daemon/recover.h"
#include "daemon/storework.h"
#include <math.h>

static const double REAL_MOST = 1e15;
/* Numbers of attempts are exact as a double. */
static const int64_t COUNT_MOST = INT64_C(9007199254740992);

bool store_judge_whole(sqlite3_stmt *row, int at, int64_t least, int64_t most,
                       int64_t *out)
{
    *out = sqlite3_column_int64(row, at);
    return *out >= least && *out <= most &&
           sqlite3_column_type(row, at) == SQLITE_INTEGER;
}

bool store_judge_real(sqlite3_stmt *row, int at, double *out)
{
    *out = sqlite3_column_double(row, at);
    return fabs(*out) <= REAL_MOST;
}

bool store_judge_count(int64_t value)
{
    return value >= 0 && value <= COUNT_MOST;
}

double store_judge_s(double value)
{
    return isfinite(value) && fabs(value) <= REAL_MOST ? value : 0;
}

const char *store_judge_job(const struct live_job *job, int over,
                            firn_job_id first_id)
{
    struct firn_alloc held = FIRN_ALLOC_NONE;
    if (job->id < 1 || job->id >= (int64_t)first_id + STORE_IDS_SPAN)
        return "id";
    if (job->ask.gpus_min > job->ask.gpus_max)
        return "gpus_min";
    if (over != live_state_is_over(job->state))
        return "over";
    bool is_good = recover_alloc(job->held, &held);
    mem_free(held.parts);
    return is_good ? NULL : "held";
}
