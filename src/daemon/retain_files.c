/* retain_files.c - firn's own files of a finished job, removed.
 *
 *     jobs/N/log, log.1, log.new   its output
 *     jobs/N/epoch-K/              attempt K
 *     jobs/N/lock, fence, workers
 *     jobs/N/work, ckpt            only when they are empty
 *     control/N/                   all of it
 *
 * Invariants:
 * (1) names in jobs/N that are not in this list are the job's: they stay;
 * (2) no symbolic link is followed and no other file system is entered: every
 *     file is reached from its folder's descriptor, opened with O_NOFOLLOW;
 * (3) while a process has one of the job's locks nothing is removed;
 * (4) a call ends when its budget is spent; what is left is found anew by the
 *     next one, so nothing has to be remembered;
 * (5) a file is gone when the system says that it is not there (ENOENT). Any
 *     other failure (no descriptor left, no right, a damaged disk) is no
 *     answer: the job counts as not removed.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "daemon/retain.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 32, STARTS_MAX = 100000, NAME = 64 };

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool may_go_on(struct retain_budget *budget)
{
    return budget->nfiles-- > 0 && clock_elapsed_s() < budget->until_s;
}

/* --- a file or a folder with all that is in it --------------------------- */

struct tree {
    struct retain_budget *budget;
    dev_t dev;
    bool is_spent;
};

static bool remove_tree(struct tree *tree, int at, const char *name, int depth);

/* What is in the folder `fd`, which is closed. */
static void empty_folder(struct tree *tree, int fd, int depth)
{
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *e; !tree->is_spent && (e = readdir(folder)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)remove_tree(tree, dirfd(folder), e->d_name, depth + 1);
    closedir(folder);
}

/* True: it is not there any more. */
static bool remove_tree(struct tree *tree, int at, const char *name, int depth)
{
    struct stat st;
    if (!may_go_on(tree->budget)) {
        tree->is_spent = true;
        return false;
    }
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return true;
    if ((errno != EISDIR && errno != EPERM) || depth >= DEPTH_MAX)
        return false;
    int fd = open_folder(at, name); /* (2) */
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != tree->dev) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    empty_folder(tree, fd, depth);
    return unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/* --- a job ---------------------------------------------------------------- */

struct job_folders {
    int jobs, control;    /* the folders above */
    int own, own_control; /* the job's; -1: not there */
    int locks[4];
    bool is_unknown; /* something could not be opened (5), or is locked (3) */
    char name[NAME];
};

static int open_if_there(struct job_folders *job, int at, const char *name)
{
    int fd = at >= 0 || at == AT_FDCWD ? open_folder(at, name) : -1;
    if (fd < 0 && (at >= 0 || at == AT_FDCWD) && errno != ENOENT)
        job->is_unknown = true;
    return fd;
}

/* A lock that is there and free is taken. */
static int take_lock(struct job_folders *job, int folder, const char *name)
{
    if (folder < 0)
        return -1;
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 ? errno != ENOENT : flock(fd, LOCK_EX | LOCK_NB) != 0)
        job->is_unknown = true;
    return fd;
}

static void open_job(struct job_folders *job, const char *state, firn_job_id id)
{
    static const char *const names[] = {"lock", "workers"};
    *job = (struct job_folders){.jobs = -1, .control = -1};
    snprintf(job->name, sizeof job->name, "%d", id);
    int top = open_if_there(job, AT_FDCWD, state);
    if (top < 0)
        job->is_unknown = true;
    job->jobs = open_if_there(job, top, "jobs");
    job->control = open_if_there(job, top, "control");
    if (top >= 0)
        close(top);
    job->own = open_if_there(job, job->jobs, job->name);
    job->own_control = open_if_there(job, job->control, job->name);
    for (size_t i = 0; i < 4; i++)
        job->locks[i] =
            take_lock(job, i < 2 ? job->own : job->own_control, names[i % 2]);
}

static void close_job(struct job_folders *job)
{
    const int all[] = {job->jobs,        job->control,  job->own,
                       job->own_control, job->locks[0], job->locks[1],
                       job->locks[2],    job->locks[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

/* (1) False: some of it is still there. */
static bool remove_own(struct tree *tree, int folder, int64_t nstarts)
{
    static const char *const names[] = {"log",  "log.1", "log.new",
                                        "lock", "fence", "workers"};
    char start[NAME];
    bool is_gone = true;
    for (int64_t i = 1; i <= nstarts && !tree->is_spent; i++) {
        snprintf(start, sizeof start, "epoch-%lld", (long long)i);
        is_gone = remove_tree(tree, folder, start, 0) && is_gone;
    }
    if (tree->is_spent || !is_gone)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tree->budget->nfiles--;
        if (unlinkat(folder, names[i], 0) != 0 && errno != ENOENT &&
            errno != EISDIR)
            is_gone = false;
    }
    (void)unlinkat(folder, "work", AT_REMOVEDIR);
    (void)unlinkat(folder, "ckpt", AT_REMOVEDIR);
    return is_gone;
}

static enum retain_left remove_job(const struct job_folders *job,
                                   int64_t nstarts,
                                   struct retain_budget *budget)
{
    struct tree tree = {.budget = budget};
    struct stat st;
    bool is_gone = true;
    if (job->own >= 0) {
        tree.dev = fstat(job->own, &st) == 0 ? st.st_dev : 0;
        is_gone = remove_own(&tree, job->own,
                             nstarts < STARTS_MAX ? nstarts : STARTS_MAX);
        if (is_gone)
            (void)unlinkat(job->jobs, job->name, AT_REMOVEDIR);
    }
    if (is_gone && job->own_control >= 0) {
        tree.dev = fstat(job->own_control, &st) == 0 ? st.st_dev : 0;
        is_gone = remove_tree(&tree, job->control, job->name, 0);
    }
    return is_gone ? RETAIN_GONE : tree.is_spent ? RETAIN_MORE : RETAIN_KEPT;
}

enum retain_left retain_files(const char *state, firn_job_id id,
                              int64_t nstarts, struct retain_budget *budget)
{
    struct job_folders job;
    open_job(&job, state, id);
    enum retain_left left =
        job.is_unknown ? RETAIN_KEPT : remove_job(&job, nstarts, budget);
    close_job(&job);
    return left;
}
