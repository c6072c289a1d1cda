/* shepherd_pilot.c - keeps the GPUs of a further allocation for an attempt.
 *
 * The batch step of a pilot (slurm_pilot.c): workers are steps beside it, and
 * Slurm ends them with it. It ends when the attempt has an exit file, when its
 * folder is gone, or when the lock of the job is free for a while: then the
 * supervisor is dead, and no scheduler has given the allocation back. SIGTERM
 * ends it, as scancel does.
 *
 * SIGUSR1 says that Slurm will end the allocation soon: its time limit is near
 * or, with PreemptParameters=send_user_signal, a job of higher priority comes
 * (slurm_batch.c asks for the signal). The file `ending-ID` with Slurm's number
 * of this allocation then tells firnd (slurm_chain.c), a later one too.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/str.h"
#include "engine/shepherd.h"
#include "engine/shepherdwork.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

static volatile sig_atomic_t is_ending;

static void on_ending(int number)
{
    (void)number;
    is_ending = 1;
}

/* Tells firnd that Slurm will end this allocation; false: not yet. */
static bool tell(int folder)
{
    char name[64];
    const char *id = getenv("SLURM_JOB_ID");
    long number = 0;
    if (id == NULL || !str_id(id, LONG_MAX, &number))
        return true; /* not below Slurm */
    attempt_ending_name(number, name);
    return attempt_put(folder, name, (struct firn_bytes){"", 0}, NULL) ==
           FIRN_OK;
}

int shepherd_pilot(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int above = folder >= 0
                    ? openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC)
                    : -1;
    if (above < 0)
        return SHEPHERD_IO;
    struct sigaction action = {.sa_handler = on_ending};
    sigaction(SIGUSR1, &action, NULL);
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
        if (is_ending != 0 && tell(folder))
            is_ending = 0;
        shepherd_pause(look_s);
    }
    close(above);
    close(folder);
    return SHEPHERD_OVER;
}
