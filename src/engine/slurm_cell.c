/* slurm_cell.c - the cell: a number drawn once for a state folder.
 *
 * It is the first part of the tag of every Slurm job that firnd submits, so
 * that two firnd on one Slurm cluster never take each other's jobs for their
 * own. The number is in the file `slurm-cell` beside the jobs' folders. A file
 * that exists and cannot be read is never replaced: the Slurm jobs that run
 * now are found by that number.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/slurmwork.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static enum attempt_found read_cell(int folder, const char *name, uint64_t *out)
{
    static const char head[] = "firn-slurm-cell 1 ";
    struct firn_buf text = {0};
    uint64_t cell = 0;
    enum attempt_found found = attempt_get(folder, name, &text);
    int error = errno;
    if (found == ATTEMPT_PRESENT) {
        char *end = NULL;
        bool is_good = text.n > sizeof head && text.at[text.n - 1] == '\n' &&
                       strncmp(text.at, head, sizeof head - 1) == 0;
        if (is_good)
            cell = strtoull(text.at + sizeof head - 1, &end, 10);
        is_good = is_good && cell != 0 && end == text.at + text.n - 1;
        found = is_good ? ATTEMPT_PRESENT : ATTEMPT_DAMAGED;
    }
    if (found == ATTEMPT_PRESENT)
        *out = cell;
    buf_release(&text);
    errno = error;
    return found;
}

static enum firn_status keep_cell(int folder, uint64_t cell,
                                  struct firn_error *err)
{
    char line[64];
    int n = snprintf(line, sizeof line, "firn-slurm-cell 1 %llu\n",
                     (unsigned long long)cell);
    FIRN_TRY(attempt_put(folder, "slurm-cell",
                         (struct firn_bytes){line, (size_t)n}, err));
    if (fsync(folder) != 0)
        return firn_fail(err, FIRN_EIO, "cannot sync the file 'slurm-cell': %s",
                         strerror(errno));
    return FIRN_OK;
}

/* Reads the cell, or draws one. Older versions of firnd kept it in `jobs`. */
static enum firn_status find_cell(int folder, uint64_t *out,
                                  struct firn_error *err)
{
    static const char *const names[] = {"slurm-cell", "../control/slurm-cell",
                                        "../jobs/slurm-cell"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum attempt_found found = read_cell(folder, names[i], out);
        if (found == ATTEMPT_PRESENT)
            return i == 0 ? FIRN_OK : keep_cell(folder, *out, err);
        if (found == ATTEMPT_DAMAGED)
            return firn_fail(err, FIRN_EDATA,
                             "the file '%s' of the state folder is damaged: "
                             "restore it, or delete it while Slurm runs no job "
                             "of firn",
                             names[i]);
        if (found == ATTEMPT_UNKNOWN)
            return firn_fail(err, FIRN_EIO,
                             "cannot read the file '%s' of the state folder: "
                             "%s",
                             names[i], strerror(errno));
    }
    uint64_t cell = 0;
    if (getrandom(&cell, sizeof cell, 0) != (ssize_t)sizeof cell)
        return firn_fail(err, FIRN_EIO,
                         "cannot draw a random number for the state folder: %s",
                         strerror(errno));
    cell = (cell >> 20) + 1; /* 44 bits: readable in squeue */
    FIRN_TRY(keep_cell(folder, cell, err));
    *out = cell;
    return FIRN_OK;
}

enum firn_status slurm_cell(struct slurm *slurm, const char *job_folder,
                            struct firn_error *err)
{
    char above[4200];
    if (slurm->cell != 0)
        return FIRN_OK;
    snprintf(above, sizeof above, "%s", job_folder);
    char *slash = strrchr(above, '/');
    if (slash == NULL || strlen(job_folder) >= sizeof above)
        return firn_fail(err, FIRN_EINVAL,
                         "the path of its folder is not absolute, or too long");
    *slash = '\0';
    int folder = open(above[0] != '\0' ? above : "/",
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO, "cannot open '%.200s': %s", above,
                         strerror(errno));
    enum firn_status status = find_cell(folder, &slurm->cell, err);
    if (status != FIRN_OK)
        slurm->cell = 0;
    close(folder);
    return status;
}
