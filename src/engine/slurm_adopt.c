/* slurm_adopt.c - an epoch that was there before us.
 *
 * Its folder tells what it was asked and on which nodes it is; Slurm's queue,
 * looked at next, whether it runs. While the folder cannot be read, or the cell
 * by which the queue is searched, the epoch owes its words: they are asked for
 * at each look, and nothing is decided before.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/launchfile.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static bool is_held_node(const struct slurm *l, const struct slurmjob *job,
                         const char *name)
{
    for (int i = 0; i < job->base.held.nparts; i++)
        if (strcmp(l->names.at[job->base.held.parts[i].node], name) == 0)
            return true;
    return false;
}

/* Nodes are known by their numbers, which change when Slurm gets other nodes.
 * What its workers were told has the names. ABSENT: it is on other nodes. */
static enum epoch_found is_where_it_was(const struct slurm *l,
                                        const struct slurmjob *job, int folder)
{
    static const char name[] = "FIRN_NODE=";
    struct launchfile launch = {0};
    struct firn_buf text = {0};
    bool is_there = true;
    enum epoch_found found = epoch_get(folder, "launch", &text);
    int error = errno;
    if (found == EPOCH_PRESENT &&
        launchfile_read(&launch, (struct firn_bytes){text.at, text.n}, NULL) ==
            FIRN_OK)
        for (size_t i = 0; i < launch.own.n; i++)
            if (strncmp(launch.own.at[i], name, sizeof name - 1) == 0)
                is_there =
                    is_there &&
                    is_held_node(l, job, launch.own.at[i] + sizeof name - 1);
    launchfile_release(&launch);
    buf_release(&text);
    errno = error;
    if (found == EPOCH_UNKNOWN)
        return found;
    return is_there ? EPOCH_PRESENT : EPOCH_ABSENT;
}

/* What it was asked before we came, and whether it is where the book has it. */
void slurm_take_words(struct slurm *l, struct slurmjob *job)
{
    struct firn_error err = {0};
    if (slurm_cell(l, job->base.folder, &err) != FIRN_OK) {
        if (!job->owes_words)
            log_warn("job %d: %s; firn decides nothing about it until then",
                     job->base.id, err.text);
        job->owes_words = true;
        return;
    }
    int folder = epoch_folder(job->base.folder, job->base.epoch, false);
    enum epoch_found found = folder < 0
                                 ? epoch_missing(errno)
                                 : epoch_word_get(folder, "ask", &job->word);
    if (folder >= 0 && found != EPOCH_UNKNOWN) {
        enum epoch_found where = is_where_it_was(l, job, folder);
        found = where == EPOCH_UNKNOWN ? where : found;
        if (where == EPOCH_ABSENT) {
            log_warn("job %d runs on other nodes than are known for it; it is "
                     "started again",
                     job->base.id);
            slurm_say(job, EPOCH_KILL);
        }
    }
    job->owes_words = found == EPOCH_UNKNOWN;
    if (job->owes_words)
        roster_unsure(&job->base, "ask", errno);
    if (folder >= 0)
        close(folder);
}

enum firn_status slurm_take_over(struct slurm *l, struct slurmjob *job,
                                 struct firn_error *err)
{
    struct firn_launch launch = {0};
    FIRN_TRY(roster_launch(&job->base, &l->host, &launch, err));
    roster_take_over(&job->base, &launch);
    job->base.until_s = INFINITY;
    job->submit = SUBMIT_UNSURE;
    job->known_s = slurm_now_s(l);
    job->settle_s = job->known_s + slurm_settle_s(l);
    if (launch.inbox != NULL && launch.inbox[0] != '\0') {
        FIRN_TRY(slurm_cell(l, launch.folder, err));
        str_copy(job->inbox, sizeof job->inbox, launch.inbox);
        slurm_inbox_start(l, job);
    } else {
        slurm_take_words(l, job);
        roster_watch(&l->roster, &job->base);
    }
    slurm_look(l, job);
    return FIRN_OK;
}
