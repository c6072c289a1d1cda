/* group_shm.c - the shared memory of a group's processes on one host.
 *
 * The leader makes a segment under a name derived from the group's; the others
 * wait for it. As soon as all have it open the name is removed, so that a later
 * kill leaves nothing behind. The next leader replaces what a killed start
 * left; a process that has opened such a leftover sees that its maker is dead,
 * or that the name now means another segment, and opens again.
 *
 * Waiting: a process raises the counter in its own record and sleeps on its
 * own semaphore; the last process to arrive wakes those that are asleep. All
 * of it is lock-free atomics and semaphores, of which a killed waiter leaves
 * none in a state that could hang others (a condition variable would: its
 * broadcast waits for waiters that never come). Sleepers wake twenty times a
 * second to look for the dead: by process id and start time, zombies included.
 *
 * The memory is its user's own (mode 0600). What another user made under the
 * name is not opened; a leader that cannot replace it fails. Where the group
 * has a key the name cannot be guessed.
 *
 * Invariants
 *   1. `asleep` is set before the condition is read again, and cleared by the
 *      one who rings; so no wake-up is lost and at most one is spare.
 *   2. The first failure writes the text; all later ones repeat it.
 *   3. The processes of a host see each other's ids: one pid namespace.
 *
 * Cost: a meeting is P stores, and one wake-up for each process that slept.
 */
#define _GNU_SOURCE /* MADV_POPULATE_WRITE */
#include "train/groupwork.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 400, LOOKS_PER_S = 20, TEXT_LOOKS = 10000 };
static const uint64_t magic = 0x316d656d70726766; /* "fgrpmem1" */

double firn_grp_now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void firn_grp_nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

/* FNV-1a. */
uint64_t firn_grp_hash(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

/* --- living peers -------------------------------------------------------- */

/* The start of a process in clock ticks since boot, by field 22 of its stat;
 * 0 when that cannot be read. *over: it is a zombie. */
static uint64_t start_of(int64_t pid, bool *over)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    *over = false;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* the name may hold anything */
    if (at == NULL || at[1] == '\0' || at[2] == '\0')
        return 0;
    *over = at[2] == 'Z' || at[2] == 'X';
    at++;
    for (int field = 3; field < 22 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

uint64_t firn_grp_started(int64_t pid)
{
    bool over;
    return start_of(pid, &over);
}

bool firn_grp_is_gone(int64_t pid, uint64_t then)
{
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return true;
    bool over;
    uint64_t started = start_of(pid, &over);
    return over || (started != 0 && then != 0 && started != then);
}

static bool is_dead(const struct grp_proc *proc)
{
    return firn_grp_is_gone(atomic_load(&proc->pid),
                            atomic_load(&proc->started));
}

static void sign_in(struct grp_proc *proc)
{
    bool over;
    int64_t pid = (int64_t)getpid();
    atomic_store(&proc->started, start_of(pid, &over));
    atomic_store(&proc->pid, pid);
}

/* --- failing ------------------------------------------------------------- */

static struct grp_proc *own(struct firn_group *g)
{
    return &g->control->proc[g->local];
}

void firn_grp_ring(struct firn_group *g)
{
    for (int q = 0; q < g->nlocal; q++) {
        struct grp_proc *proc = &g->control->proc[q];
        if (q != g->local && atomic_exchange(&proc->asleep, 0) != 0)
            sem_post(&proc->bell);
    }
}

enum firn_status firn_grp_sound(struct firn_group *g, struct firn_error *err)
{
    int failed = atomic_load(&g->control->failed);
    if (failed == 0)
        return FIRN_OK;
    /* The text is being written, unless its writer was killed just then. */
    for (int i = 0; i < TEXT_LOOKS && failed == 1; i++) {
        firn_grp_nap(0.001);
        failed = atomic_load(&g->control->failed);
    }
    return firn_fail(err, FIRN_EIO, "group %s: %s", g->name,
                     failed == 2 ? g->control->text : "it has failed");
}

enum firn_status firn_grp_fail(struct firn_group *g, struct firn_error *err,
                               const char *fmt, ...)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&g->control->failed, &none, 1)) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(g->control->text, sizeof g->control->text, fmt, args);
        va_end(args);
        atomic_store(&g->control->failed, 2);
        firn_grp_ring(g);
    }
    return firn_grp_sound(g, err);
}

/* --- waiting ------------------------------------------------------------- */

/* What is waited for: the counters `at` of all, or one counter. */
struct wait {
    int local; /* whose; -1: of all */
    const _Atomic uint64_t *counter;
    uint64_t target;
    double limit_s;
    bool opening; /* end with FIRN_ENOENT when the name means another */
};

static bool is_late(struct firn_group *g, const struct wait *w, int local)
{
    if (w->local >= 0)
        return local == w->local && atomic_load(w->counter) < w->target;
    return atomic_load(&g->control->proc[local].at) < w->target;
}

static int first_late(struct firn_group *g, const struct wait *w)
{
    for (int q = 0; q < g->nlocal; q++)
        if (is_late(g, w, q))
            return q;
    return -1;
}

static bool is_settled(struct firn_group *g, const struct wait *w)
{
    return first_late(g, w) < 0 || atomic_load(&g->control->failed) != 0;
}

/* Sleeps until woken, or for a twentieth of a second. */
static void sleep_a_while(struct grp_proc *me)
{
    struct timespec until = {0};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000000L / LOOKS_PER_S;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    sem_timedwait(&me->bell, &until);
}

/* Does the name mean another segment than the one that is open here? For the
 * leader, whose name it is, nothing at all is no better. */
static bool was_replaced(const struct firn_group *g)
{
    int fd = shm_open(g->shm_name, O_RDWR, 0);
    if (fd < 0)
        return grp_leads(g) && errno == ENOENT;
    struct stat there, here;
    bool other = fstat(fd, &there) == 0 && fstat(g->fd, &here) == 0 &&
                 (there.st_ino != here.st_ino || there.st_dev != here.st_dev);
    close(fd);
    return other;
}

/* Fails the group when one of those that are late will never come. */
static enum firn_status look_round(struct firn_group *g, const struct wait *w,
                                   double since_s, struct firn_error *err)
{
    for (int q = 0; q < g->nlocal; q++) {
        const struct grp_proc *proc = &g->control->proc[q];
        if (q == g->local || !is_late(g, w, q))
            continue;
        bool gone = atomic_load(&proc->pid) != 0 && is_dead(proc);
        bool left = atomic_load(&proc->left) != 0; /* it leaves, then ends */
        /* It may have come, and left, since it was looked for. */
        if ((left || gone) && is_late(g, w, q))
            return firn_grp_fail(g, err, "process %d %s", g->first + q,
                                 left ? "has left" : "is gone");
    }
    bool over = firn_grp_now_s() - since_s > w->limit_s;
    int late = first_late(g, w);
    if (late >= 0 && over)
        return firn_grp_fail(
            g, err, "process %d %s for %.3g s", g->first + late,
            w->opening ? "did not come" : "was silent", w->limit_s);
    return FIRN_OK;
}

static enum firn_status wait_for(struct firn_group *g, const struct wait *w,
                                 struct firn_error *err)
{
    for (int spin = 0; spin < SPINS; spin++)
        if (is_settled(g, w))
            return firn_grp_sound(g, err);
    struct grp_proc *me = own(g);
    double since_s = firn_grp_now_s(), looked_s = since_s;
    enum firn_status status = FIRN_OK;
    while (status == FIRN_OK) {
        atomic_store(&me->asleep, 1);
        if (is_settled(g, w))
            break;
        sleep_a_while(me);
        double now_s = firn_grp_now_s();
        if (now_s - looked_s < 0.8 / LOOKS_PER_S)
            continue;
        looked_s = now_s;
        if (w->opening && was_replaced(g)) {
            if (!grp_leads(g))
                return FIRN_ENOENT;
            g->named = false; /* another process's to remove */
            return firn_grp_fail(g, err, "another group has taken its name");
        }
        status = look_round(g, w, since_s, err);
        if (status == FIRN_OK && first_late(g, w) >= 0 &&
            g->watch.is_lost != NULL && g->watch.is_lost(g->watch.arg))
            status = firn_grp_fail(g, err, "%s", g->watch.why);
    }
    atomic_store(&me->asleep, 0);
    return status != FIRN_OK ? status : firn_grp_sound(g, err);
}

/* Only the last process to arrive has others to wake. */
static enum firn_status meet(struct firn_group *g, struct wait *w,
                             struct firn_error *err)
{
    w->target = ++g->met;
    atomic_store(&own(g)->at, w->target);
    if (first_late(g, w) < 0)
        firn_grp_ring(g);
    return wait_for(g, w, err);
}

enum firn_status firn_grp_meet(struct firn_group *g, double patience,
                               struct firn_error *err)
{
    struct wait w = {.local = -1, .limit_s = g->timeout_s * patience};
    return meet(g, &w, err);
}

enum firn_status firn_grp_await(struct firn_group *g, int local,
                                const _Atomic uint64_t *counter,
                                uint64_t target, struct firn_error *err)
{
    struct wait w = {local, counter, target, g->timeout_s, false};
    return wait_for(g, &w, err);
}

/* --- the segment --------------------------------------------------------- */

static size_t pages(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (nbytes + page - 1) / page * page;
}

static size_t places_at(const struct firn_group *g)
{
    return sizeof(struct grp_control) +
           (size_t)g->nlocal * sizeof(struct grp_proc);
}

static size_t stages_at(const struct firn_group *g)
{
    size_t at = places_at(g) + (size_t)g->nprocs * sizeof(struct grp_place);
    return (at + 127) / 128 * 128;
}

struct grp_place *firn_grp_places(struct firn_group *g)
{
    return (struct grp_place *)((char *)g->control + places_at(g));
}

unsigned char *firn_grp_stage(struct firn_group *g, int local)
{
    return (unsigned char *)g->control + stages_at(g) +
           (size_t)local * 2 * GRP_HALF;
}

/* Memory that is promised here cannot be missing at the first touch. */
static enum firn_status reserve(struct firn_group *g, size_t at, size_t n,
                                struct firn_error *err)
{
    int code;
    do
        code = posix_fallocate(g->fd, (off_t)at, (off_t)n);
    while (code == EINTR);
    if (code == 0)
        return FIRN_OK;
    return firn_fail(err, FIRN_EIO, "no %zu MiB of shared memory: %s",
                     n / (1024 * 1024) + 1, strerror(code));
}

static enum firn_status make_control(struct firn_group *g,
                                     struct firn_error *err)
{
    shm_unlink(g->shm_name); /* of a start that was killed */
    g->fd = shm_open(g->shm_name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (g->fd < 0)
        return firn_fail(err, FIRN_EIO, "group %s: shared memory %s: %s",
                         g->name, g->shm_name,
                         errno == EEXIST ? "it belongs to another user"
                                         : strerror(errno));
    g->named = true;
    if (reserve(g, 0, g->control_bytes, err) != FIRN_OK)
        return firn_fail_in(err, g->name);
    void *at = mmap(NULL, g->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    g->fd, 0);
    if (at == MAP_FAILED)
        return firn_fail(err, FIRN_ENOMEM, "group %s: %s", g->name,
                         strerror(errno));
    g->control = at;
    g->control->magic = magic;
    g->control->shape = g->shape;
    for (int q = 0; q < g->nlocal; q++)
        sem_init(&g->control->proc[q].bell, 1, 0);
    sign_in(&g->control->proc[0]);
    atomic_store(&g->control->ready, 1);
    return FIRN_OK;
}

static void let_go(struct firn_group *g)
{
    if (g->control != NULL)
        munmap(g->control, g->control_bytes);
    if (g->fd >= 0)
        close(g->fd);
    g->control = NULL;
    g->fd = -1;
}

/* Opens what the name means now. FIRN_ENOENT: nothing usable yet. */
static enum firn_status find_control(struct firn_group *g,
                                     struct firn_error *err)
{
    g->fd = shm_open(g->shm_name, O_RDWR, 0);
    struct stat st;
    if (g->fd < 0 || fstat(g->fd, &st) != 0 || st.st_size == 0 ||
        st.st_uid != geteuid())
        return FIRN_ENOENT; /* also what another user made under the name */
    void *at = MAP_FAILED;
    if ((size_t)st.st_size >= g->control_bytes)
        at = mmap(NULL, g->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  g->fd, 0);
    if (at == MAP_FAILED)
        return FIRN_ENOENT;
    g->control = at;
    if (atomic_load(&g->control->ready) == 0 || g->control->magic != magic ||
        is_dead(&g->control->proc[0]))
        return FIRN_ENOENT;
    if (g->control->shape != g->shape) {
        firn_grp_fail(g, err, "process %d was set up otherwise than process %d",
                      g->rank, g->first);
        return FIRN_EINVAL;
    }
    struct grp_proc *me = own(g);
    int64_t none = 0;
    if (!atomic_compare_exchange_strong(&me->pid, &none, (int64_t)getpid()))
        return is_dead(me) ? FIRN_ENOENT
                           : firn_fail(err, FIRN_EINVAL,
                                       "group %s: there are two processes %d",
                                       g->name, g->rank);
    sign_in(me);
    return FIRN_OK;
}

static enum firn_status join(struct firn_group *g, struct firn_error *err)
{
    double until_s = firn_grp_now_s() + g->timeout_s, pause_s = 0.0005;
    for (;;) {
        enum firn_status status = find_control(g, err);
        struct wait w = {.local = -1, .limit_s = g->timeout_s, .opening = true};
        if (status == FIRN_OK) {
            g->met = 0;
            status = meet(g, &w, err);
            if (status != FIRN_ENOENT)
                return status;
        }
        let_go(g);
        if (status != FIRN_ENOENT)
            return status;
        if (g->watch.is_lost != NULL && g->watch.is_lost(g->watch.arg))
            return firn_fail(err, FIRN_EIO, "group %s: %s", g->name,
                             g->watch.why);
        if (firn_grp_now_s() > until_s)
            return firn_fail(err, FIRN_EIO,
                             "group %s: process %d did not come for %.3g s",
                             g->name, g->first, g->timeout_s);
        firn_grp_nap(pause_s);
        pause_s = pause_s < 0.02 ? pause_s * 2 : pause_s;
    }
}

static void drop_name(struct firn_group *g)
{
    if (g->named)
        shm_unlink(g->shm_name);
    g->named = false;
}

/* A process alone on its host needs no shared memory. */
static enum firn_status make_alone(struct firn_group *g, struct firn_error *err)
{
    g->control = aligned_alloc(128, g->control_bytes);
    if (g->control == NULL)
        return firn_fail(err, FIRN_ENOMEM, "group %s: no memory", g->name);
    memset(g->control, 0, g->control_bytes);
    sem_init(&g->control->proc[0].bell, 0, 0);
    sign_in(&g->control->proc[0]);
    return FIRN_OK;
}

enum firn_status firn_grp_attach(struct firn_group *g, struct firn_error *err)
{
    g->control_bytes = pages(stages_at(g) + (size_t)g->nlocal * 2 * GRP_HALF);
    if (g->nlocal == 1)
        return make_alone(g, err);
    uint64_t hash = 0xcbf29ce484222325u;
    uint64_t uid = (uint64_t)getuid(), first = (uint64_t)g->first;
    hash = firn_grp_hash(hash, g->name, strlen(g->name) + 1);
    hash = firn_grp_hash(hash, &uid, sizeof uid);
    hash = firn_grp_hash(hash, &first, sizeof first);
    if (g->has_key) /* then the name cannot be guessed */
        hash = firn_grp_key_number(g->key, &hash, sizeof hash);
    snprintf(g->shm_name, sizeof g->shm_name, "/firn-%016llx",
             (unsigned long long)hash);
    if (grp_leads(g)) {
        struct wait w = {.local = -1, .limit_s = g->timeout_s, .opening = true};
        enum firn_status status = make_control(g, err);
        if (status == FIRN_OK)
            status = meet(g, &w, err);
        drop_name(g);
        return status;
    }
    return join(g, err);
}

enum firn_status firn_grp_map_data(struct firn_group *g, size_t data_bytes,
                                   struct firn_error *err)
{
    g->data_bytes = pages(data_bytes);
    if (g->nlocal == 1) {
        g->data = aligned_alloc(64, g->data_bytes);
        if (g->data == NULL)
            return firn_grp_fail(g, err, "process %d has no memory", g->rank);
        return FIRN_OK;
    }
    struct firn_error why = {0};
    if (grp_leads(g) &&
        reserve(g, g->control_bytes, g->data_bytes, &why) != FIRN_OK)
        firn_grp_fail(g, err, "%s", why.text);
    FIRN_TRY(firn_grp_meet(g, 1, err));
    void *at = mmap(NULL, g->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    g->fd, (off_t)g->control_bytes);
    if (at == MAP_FAILED)
        return firn_grp_fail(g, err, "process %d: %s", g->rank,
                             strerror(errno));
    g->data = at;
    close(g->fd);
    g->fd = -1;
    return firn_grp_meet(g, 1, err);
}

/* Pages in one call, so that other threads' page faults wait for little. */
enum { TOUCH_BYTES = 16 << 20 };

void firn_grp_touch(struct firn_group *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = (char *)g->data;
    for (size_t i = 0; g->nlocal > 1 && i < g->data_bytes; i += TOUCH_BYTES) {
        size_t n =
            g->data_bytes - i < TOUCH_BYTES ? g->data_bytes - i : TOUCH_BYTES;
#ifdef MADV_POPULATE_WRITE
        if (madvise(at + i, n, MADV_POPULATE_WRITE) == 0)
            continue;
#endif
        for (size_t k = 0; k < n; k += page)
            atomic_fetch_or((_Atomic unsigned char *)(at + i + k), 0);
    }
}

void firn_grp_detach(struct firn_group *g)
{
    drop_name(g);
    if (g->control != NULL && g->nlocal > 1) {
        atomic_store(&own(g)->left, 1);
        firn_grp_ring(g);
        if (g->data != NULL)
            munmap(g->data, g->data_bytes);
        let_go(g);
    } else if (g->nlocal == 1) {
        free(g->data);
        free(g->control);
    }
    if (g->fd >= 0)
        close(g->fd);
}
