/* slurm_pilotfile.c - the list of an attempt's further allocations, on disk.
 *
 *     firn-pilots 1 LAST
 *     NUMBER NODE.BOARD.GPUS
 *     ...
 *     end
 *
 * Written before sbatch is started for a new number, so that no number is used
 * twice and a later firnd knows the GPUs of every allocation that Slurm may
 * have. In which of them workers train follows from `resize` and `resized`
 * (engine/resizefile.h), not from this file: one that was given back and is
 * still listed is found unwanted, and given back again.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/slurmwork.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PILOTS_MAX = 4096 };

enum firn_status slurm_pilots_write(const struct slurmjob *job,
                                    struct firn_error *err)
{
    struct firn_buf text = {0};
    buf_printf(&text, "firn-pilots 1 %lld\n", (long long)job->npilots);
    for (size_t i = 0; i < job->pilots.n; i++) {
        const struct slurm_pilot *pilot = &job->pilots.at[i];
        buf_printf(&text, "%lld %d.%d.%" PRIx64 "\n", (long long)pilot->number,
                   pilot->part.node, pilot->part.board, pilot->part.gpus);
    }
    buf_puts(&text, "end\n");
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    enum firn_status status =
        folder < 0
            ? firn_fail(err, FIRN_EIO, "the folder of its attempt is gone")
            : attempt_put(folder, "pilots",
                          (struct firn_bytes){text.at, text.n}, err);
    if (folder >= 0)
        close(folder);
    buf_release(&text);
    return status;
}

static bool read_one(char **at, struct slurm_pilot *out)
{
    char *end = NULL;
    *out = (struct slurm_pilot){.state = PILOT_ASKED};
    out->number = strtoll(*at, &end, 10);
    if (end == *at || *end != ' ' || out->number < 1)
        return false;
    out->part.node = (int)strtol(end + 1, &end, 10);
    if (*end != '.')
        return false;
    out->part.board = (int)strtol(end + 1, &end, 10);
    if (*end != '.')
        return false;
    out->part.gpus = strtoull(end + 1, &end, 16);
    if (*end != '\n' || out->part.node < 0 || out->part.board < 0 ||
        out->part.gpus == 0)
        return false;
    *at = end + 1;
    return true;
}

/* False: not what slurm_pilots_write() writes. */
static bool read_all(struct slurmjob *job, char *at)
{
    static const char head[] = "firn-pilots 1 ";
    char *end = NULL;
    struct slurm_pilot pilot;
    if (strncmp(at, head, sizeof head - 1) != 0)
        return false;
    job->npilots = strtoll(at + sizeof head - 1, &end, 10);
    if (*end != '\n' || job->npilots < 0)
        return false;
    at = end + 1;
    while (strcmp(at, "end\n") != 0) {
        if (job->pilots.n >= PILOTS_MAX || !read_one(&at, &pilot) ||
            pilot.number > job->npilots)
            return false;
        vec_add(&job->pilots, pilot);
    }
    return true;
}

enum attempt_found slurm_pilots_read(struct slurmjob *job)
{
    struct firn_buf text = {0};
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return ATTEMPT_ABSENT;
    enum attempt_found found = attempt_get(folder, "pilots", &text);
    close(folder);
    job->pilots.n = 0;
    job->npilots = 0;
    buf_putc(&text, '\0');
    if (found == ATTEMPT_PRESENT && !read_all(job, text.at)) {
        job->pilots.n = 0;
        found = ATTEMPT_DAMAGED;
    }
    buf_release(&text);
    return found;
}

enum firn_status slurm_pilots_prepare(struct slurmjob *job,
                                      struct firn_error *err)
{
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO, "the folder of its attempt is gone");
    enum firn_status status = resize_gpus_put(folder, &job->base.held, err);
    close(folder);
    return status;
}

int64_t slurm_pilot_of(const struct slurmjob *job, firn_node_id node, int index)
{
    for (size_t i = 0; i < job->pilots.n; i++) {
        const struct slurm_pilot *pilot = &job->pilots.at[i];
        if (pilot->state == PILOT_HELD && pilot->part.node == node &&
            pilot->part.board == index / FIRN_BOARD_GPUS &&
            (pilot->part.gpus >> index % FIRN_BOARD_GPUS & 1) != 0)
            return pilot->slurm_id;
    }
    return 0;
}
