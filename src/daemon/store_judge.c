/* store_judge.c - which values a row of the state file may have.
 *
 * firnd writes none of the values that are refused here: they come from a
 * damaged file, or from someone who wrote into it. A number that overflows when
 * it is counted on, a time without an end or a negative number of GPUs would be
 * believed far away from here, so the row is bad as a whole: it is left out,
 * the log names it, and it stays on disk.
 *
 * (1) A whole number is stored as one and lies in its column's range, which is
 * 0 to INT_MAX where the table has no other. (2) A real number is finite and no
 * larger than 1e15; what is no number reads as 0, as SQLite has it. (3)
 * What a job holds can be read, and it is over if and only if its state says
 * so: a job whose processes may run is never taken for one that has none.
 */
#include "base/mem.h"
#include "daemon/recover.h"
#include "daemon/storework.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static const double REAL_MOST = 1e15;
/* Attempts are numbered one by one; what is above is exact in no double. */
static const int64_t COUNT_MOST = INT64_C(9007199254740992);

static const struct store_range ranges[] = {
    {"priority", 0, 100},
    {"gpus_min", 0, 1 << 20},
    {"gpus_max", 0, 1 << 20},
    {"epoch", 0, INT64_C(9007199254740992)},
    {"reported_epoch", 0, INT64_C(9007199254740992)},
    {"target_epochs", INT64_MIN, INT64_MAX}, /* unsigned */
    {"target_iterations", INT64_MIN, INT64_MAX},
    {"exit_status", INT_MIN, INT_MAX},
    {"retries_max", 0, 1000000},
    {"how_stages", 0, 1 << 20},
    {"how_tensor", 0, 1 << 20},
    {"how_passes", 0, 1 << 20},
    {"how_merged_with", 0, INT_MAX - 1},
    {"how_after", 0, INT_MAX - 1},
};

struct store_range store_judge_range(const char *column)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (strcmp(ranges[i].column, column) == 0)
            return ranges[i];
    return (struct store_range){column, 0, INT_MAX};
}

bool store_judge_whole(sqlite3_stmt *row, int at,
                       const struct store_range *range, int64_t *out)
{
    *out = sqlite3_column_int64(row, at);
    return *out >= range->least && *out <= range->most &&
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
