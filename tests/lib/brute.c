/* brute.c - one second after the other.
 *
 * At each second, in this order: jobs that have done their work end; GPUs go
 * down or come back; jobs arrive; a job that has crossed a threshold asks for
 * a decision. If anything happened and the second is a multiple of the
 * interval, who runs is decided from scratch. Then everyone moves on by a
 * second.
 */
#include "lib/brute.h"
#include <stdlib.h>

static int queue_of(const struct brute *b, const struct brute_job *job)
{
    int queue = 0;
    while (queue < b->nthresholds && job->served >= b->thresholds[queue])
        queue++;
    return queue;
}

static int key_of(const struct brute *b, const struct brute_job *job)
{
    switch (b->policy) {
    case BRUTE_SJF:
    case BRUTE_SJF_STRICT:
        return job->duration;
    case BRUTE_SRTF:
        return job->duration - job->done + job->restart_left;
    case BRUTE_TIRESIAS:
        return queue_of(b, job);
    default:
        return 0;
    }
}

/* The jobs that are here, by key, ties by number; bubble sort. */
static int line_up(const struct brute *b, int line[BRUTE_JOBS])
{
    int n = 0;
    for (int i = 0; i < b->njobs; i++)
        if (b->jobs[i].is_here)
            line[n++] = i;
    for (int i = 0; i < n; i++)
        for (int k = 0; k + 1 < n; k++)
            if (key_of(b, &b->jobs[line[k]]) >
                key_of(b, &b->jobs[line[k + 1]])) {
                int swap = line[k];
                line[k] = line[k + 1];
                line[k + 1] = swap;
            }
    return n;
}

static void stop(struct brute_job *job)
{
    job->runs = false;
    job->restart_left = 0;
    job->run = 0;
}

static void start(const struct brute *b, struct brute_job *job, int now)
{
    if (job->starts == 0)
        job->first_start = now;
    job->restart_left = job->starts > 0 || b->charges_first ? job->restart : 0;
    job->starts++;
    job->runs = true;
    job->run = 0;
}

static void decide(struct brute *b, int now)
{
    bool preempts = b->policy == BRUTE_SRTF || b->policy == BRUTE_TIRESIAS;
    bool strict = b->policy == BRUTE_FIFO || b->policy == BRUTE_SJF_STRICT;
    bool wanted[BRUTE_JOBS] = {false};
    int line[BRUTE_JOBS], n = line_up(b, line);
    int left = b->is_down ? 0 : b->gpus;
    for (int i = 0; i < b->njobs && !preempts; i++)
        if (b->jobs[i].is_here && b->jobs[i].runs) {
            wanted[i] = true;
            left -= b->jobs[i].gpus;
        }
    for (int i = 0; i < n; i++) {
        if (wanted[line[i]])
            continue;
        if (b->jobs[line[i]].gpus <= left) {
            wanted[line[i]] = true;
            left -= b->jobs[line[i]].gpus;
        } else if (strict) {
            break;
        }
    }
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        if (job->is_here && job->runs && !wanted[i])
            stop(job);
        else if (job->is_here && !job->runs && wanted[i])
            start(b, job, now);
    }
}

static void complete(struct brute *b, int now)
{
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        if (!job->is_here || !job->runs || job->done < job->duration)
            continue;
        job->is_here = false;
        job->runs = false;
        job->end = now;
        b->is_due = true;
    }
}

/* All GPUs go: running jobs lose what they did since their last checkpoint. */
static void fail_all(struct brute *b)
{
    b->is_down = true;
    b->is_due = true;
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        if (!job->is_here || !job->runs)
            continue;
        int lost = b->checkpoint > 0 ? job->run % b->checkpoint : 0;
        job->done -= lost;
        b->lost += (long)lost * job->gpus;
        stop(job);
    }
}

static void happen(struct brute *b, int now)
{
    complete(b, now);
    for (int i = 0; i < b->noutages; i++) {
        if (b->outages[i].down == now)
            fail_all(b);
        if (b->outages[i].up == now) {
            b->is_down = false;
            b->is_due = true;
        }
    }
    for (int i = 0; i < b->njobs; i++)
        if (b->jobs[i].submit == now) {
            b->jobs[i].is_here = true;
            b->is_due = true;
        }
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        if (!job->is_here || b->policy != BRUTE_TIRESIAS)
            continue;
        if (queue_of(b, job) != job->queue)
            b->is_due = true;
        job->queue = queue_of(b, job);
    }
}

static void move_on(struct brute *b)
{
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        if (!job->is_here || !job->runs)
            continue;
        job->held++;
        job->served += job->gpus;
        b->given += job->gpus;
        if (job->restart_left > 0) {
            job->restart_left--;
            b->overhead += job->gpus;
        } else {
            job->done++;
            job->run++;
        }
    }
}

static bool is_over(const struct brute *b)
{
    for (int i = 0; i < b->njobs; i++)
        if (b->jobs[i].end < 0)
            return false;
    return true;
}

bool brute_run(struct brute *b, int limit)
{
    for (int i = 0; i < b->njobs; i++)
        b->jobs[i].end = -1;
    for (int now = 0; now < limit && !is_over(b); now++) {
        happen(b, now);
        if (b->is_due && now % b->interval == 0) {
            b->is_due = false;
            decide(b, now);
        }
        move_on(b);
    }
    return is_over(b);
}
