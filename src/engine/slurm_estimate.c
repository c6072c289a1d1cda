/* slurm_estimate.c - when Slurm expects to start a pending job.
 *
 *     squeue --me --start -h -t PD -o '%i|%S'        17|1700000600
 *
 * Asked every half minute while an attempt of ours has been pending for a
 * while: Slurm's backfill plans ahead, with the time limits of other users'
 * jobs, which firn does not know. The answer is a part of `firn why` and
 * `firn eta`, never of a decision. A failed question is asked again; lines that
 * are not a number and a time are passed over, as Slurm says "N/A" of jobs that
 * it has not planned.
 */
#include "base/str.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double every_s = 30; /* at 0.5 s for a poll */

static bool has_waiting(const struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        if (slurm_is_waiting(slurm, slurm_at(slurm, i)))
            return true;
    return false;
}

void slurm_estimate_poll(struct slurm *slurm)
{
    const char *const argv[] = {
        "squeue", "--start", "-h",    "-t",
        "PD",     "-o",      "%i|%S", slurm_has_users(slurm) ? NULL : "--me",
        NULL};
    static const char *const env[] = {"SLURM_TIME_FORMAT=%s", NULL};
    double now_s = slurm_now_s(slurm);
    if (now_s < slurm->estimate_due_s || slurm->away_s > 0 ||
        commands_count(slurm->commands, SLURM_CMD_ESTIMATE) > 0 ||
        !has_waiting(slurm))
        return;
    slurm->estimate_due_s = now_s + fmin(every_s, 60 * slurm->poll_s);
    slurm_run(slurm, argv,
              &(struct command){.env = env,
                                .limit_s = slurm_answer_s,
                                .tag = SLURM_CMD_ESTIMATE});
}

void slurm_estimate_take(struct slurm *slurm, const struct command_done *done)
{
    struct firn_bytes rest = done->out, line;
    if (!done->has_run || done->is_late || done->status != 0)
        return;
    for (size_t i = 0; i < slurm->roster.jobs.n; i++)
        slurm_at(slurm, i)->expected_s = 0;
    while (slurm_line_next(&rest, &line)) {
        const char *bar = line.n > 0 ? memchr(line.at, '|', line.n) : NULL;
        struct firn_bytes id = {line.at,
                                bar != NULL ? (size_t)(bar - line.at) : 0};
        struct firn_bytes when = {bar != NULL ? bar + 1 : line.at,
                                  bar != NULL ? line.n - id.n - 1 : 0};
        int64_t number = 0, start_s = 0;
        if (!slurm_number_read(id, UINT32_MAX, &number) ||
            !slurm_number_read(when, (int64_t)1 << 40, &start_s))
            continue;
        for (size_t i = 0; i < slurm->roster.jobs.n; i++)
            if (slurm_at(slurm, i)->slurm_id == number)
                slurm_at(slurm, i)->expected_s = (double)start_s;
    }
}
