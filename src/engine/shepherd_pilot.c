/* shepherd_pilot.c - keeps the GPUs of a further allocation for an attempt.
 *
 * The batch step of a pilot (slurm_pilot.c): workers are steps beside it, and
 * Slurm ends them with it. It ends when the attempt has an exit file, when its
 * folder is gone, or when the lock of the job is free for a while: then the
 * supervisor is dead, and no scheduler has given the allocation back. SIGTERM
 * ends it, as scancel does.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const double look_s = 0.5;
static const double alone_s = 30; /* the lock is free for so long */

/* Does a process of the job hold the lock? An unreadable lock counts as held.
 */
static bool is_held(int above)
{
    int lock = attempt_lock(above);
    if (lock >= 0)
        close(lock);
    return lock < 0;
}

static bool is_over(int folder)
{
    struct stat st;
    return fstatat(folder, "exit", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           (fstat(folder, &st) == 0 && st.st_nlink == 0);
}

int shepherd_pilot(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int above = folder >= 0
                    ? openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                    : -1;
    if (above < 0)
        return SHEPHERD_IO;
    signal(SIGUSR1, SIG_IGN); /* the time limit is near: firnd knows */
    double held_s = clock_elapsed_s(), tested_s = held_s;
    while (!is_over(folder)) {
        double now_s = clock_elapsed_s();
        if (now_s >= tested_s + alone_s / 6) {
            tested_s = now_s;
            if (is_held(above))
                held_s = now_s;
        }
        if (now_s >= held_s + alone_s)
            break;
        shepherd_pause(look_s);
    }
    close(above);
    close(folder);
    return SHEPHERD_OVER;
}
