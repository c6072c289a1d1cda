/* tickledger.c - what the ledger of tickjobs tells: was any run twice, or lost?
 */
#include "lib/tickledger.h"
#include "engine/attemptfiles.h"
#include "lib/tickjob.h"
#include <firn/launch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct life {
    long attempt;  /* of its last line */
    int nends;     /* workers of that attempt that came to their end */
    bool is_heard; /* no node died on them meanwhile */
    bool is_over;  /* all of them, and they were heard */
};

/* Has it been written that all workers of the attempt ended with status 0? A
 * signal may end a worker behind the line of its end, before it exits. */
static bool is_written(const struct tickledger *of,
                       const struct tickjob_line *l)
{
    char path[500];
    struct attempt_exit result;
    snprintf(path, sizeof path, "%.300s/control/%ld", of->state, l->job);
    int folder = attempt_folder(path, l->attempt, false);
    if (folder < 0)
        return false;
    bool is_done = attempt_exit_get(folder, &result) == ATTEMPT_PRESENT &&
                   result.end == FIRN_END_DONE;
    close(folder);
    return is_done;
}

static bool is_excused(const struct tickledger *of,
                       const struct tickjob_line *l)
{
    for (size_t i = 0; i < of->ndeaths; i++) {
        const struct tickledger_death *d = &of->deaths[i];
        bool is_node = strcmp(d->node, l->node) == 0;
        bool is_recent = is_node && l->at_s >= d->from_s - 1;
        if ((is_node || d->node[0] == '\0') && l->at_s <= d->to_s &&
            (is_recent || (of->state != NULL && !is_written(of, l))))
            return true;
    }
    return false;
}

/* What it breaks, or NULL. */
static const char *take(const struct tickledger *of, struct life *life,
                        const struct tickjob_line *l)
{
    if (strcmp(l->what, "job") == 0)
        return "another is in its place";
    if (strcmp(l->what, "gpu") == 0)
        return "another is on its GPU";
    if (l->attempt < life->attempt)
        return "its attempt was over";
    if (l->attempt > life->attempt) {
        if (life->is_over)
            return "it was done already";
        *life = (struct life){.attempt = l->attempt, .is_heard = true};
    }
    if (strcmp(l->what, "end") == 0) {
        life->is_heard = life->is_heard && !is_excused(of, l);
        life->is_over = ++life->nends == l->nranks && life->is_heard;
    }
    return NULL;
}

static bool read_all(const struct tickledger *of, struct life *lives,
                     size_t *nlines, char said[300])
{
    struct tickjob_line l;
    for (*nlines = 0; tickjob_read(of->folder, *nlines, &l); ++*nlines) {
        const char *wrong =
            l.job <= 0 || (size_t)l.job >= of->njobs || of->known[l.job] == 0
                ? "its submission was never acknowledged"
                : take(of, &lives[l.job], &l);
        if (wrong == NULL)
            continue;
        snprintf(said, 300,
                 "job %ld, attempt %ld, worker %d of %d on %s[%d], at %.3f: %s",
                 l.job, l.attempt, l.rank, l.nranks, l.node, l.gpu, l.at_s,
                 wrong);
        return false;
    }
    return true;
}

bool tickledger_is_good(const struct tickledger *of, size_t *nlines,
                        char said[300])
{
    struct life *lives = calloc(of->njobs, sizeof *lives);
    bool is_good = lives != NULL && read_all(of, lives, nlines, said);
    for (size_t job = 0; is_good && job < of->njobs; job++) {
        if (of->known[job] == 0 || lives[job].nends > 0)
            continue;
        snprintf(said, 300, "job %zu never came to its end", job);
        is_good = false;
    }
    free(lives);
    return is_good;
}
