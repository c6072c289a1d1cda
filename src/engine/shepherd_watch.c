/* shepherd_watch.c - until no child is left: signals, requests, ends, graces.
 *
 *     RUNNING --request--> ASKED --grace--> ENDED --grace--> KILLED
 *
 * ASKED sends SIGUSR1 (write a checkpoint and exit), ENDED sends SIGTERM,
 * KILLED sends SIGKILL until no process is left. A worker that fails moves an
 * attempt to ENDED: the others could only wait for it.
 *
 * With Slurm the workers are on other hosts, below one shepherd each
 * (shepherd_task.c), and share only a file system with this one. They read
 * requests from the file `order` and each writes how its worker ended into a
 * file of its own; the engine's requests come by the file `ask`. Slurm's own
 * signals are not used: with some of its plugins they reach every process of a
 * step, and processes without a handler would die. Where inotify reports
 * changes (one host), a request takes milliseconds; elsewhere the files are
 * read once a second.
 *
 * A worker on another host has vanished if it has no end and either srun is
 * over, or the worker began and the workers' lock is free. srun is not waited
 * for then: it may take minutes to notice that a host rebooted. The other
 * workers are killed, and the attempt is LOST once the workers' lock is free.
 * If the lock stays held, or an end cannot be read, nothing is reported: the
 * engine waits for the same.
 *
 * Invariants: (2) and (3) of shepherd.c.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "engine/procs.h"
#include "engine/shepherdwork.h"
#include <errno.h>
#include <firn/launch.h>
#include <firn/report.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const double leftover_grace_s = 5; /* for descendants of workers */
static const double remote_exit_s = 20;   /* for the last remote worker */
static const double late_s = 1; /* an end may become visible this late */

/* --- requests and ends ---------------------------------------------------- */

static void send_request(struct shepherd *s, enum attempt_request request)
{
    if (request > s->request_sent &&
        attempt_request_put(s->folder, "order", request, NULL) == FIRN_OK)
        s->request_sent = request;
}

/* Is there a child, living or not waited for? All descendants are children or
 * below one: (2). */
static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ||
           errno != ECHILD;
}

static void end_workers(struct shepherd *s, double grace_s)
{
    if (s->stage >= STAGE_ENDED)
        return;
    s->stage = STAGE_ENDED;
    s->until_s = clock_elapsed_s() + grace_s;
    if (s->kind == SHEPHERD_SLURM) {
        send_request(s, ATTEMPT_LEAVE);
        return;
    }
    if (has_children())
        procs_signal_below(s->self, SIGTERM, SIGCONT); /* (3) */
}

static double short_grace_s(const struct shepherd *s)
{
    return s->launch.grace_s < leftover_grace_s ? s->launch.grace_s
                                                : leftover_grace_s;
}

void shepherd_note(struct shepherd *s, struct worker *worker, int status)
{
    int code =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    shepherd_join_follow(s);
    worker->is_over = true;
    s->nleft--;
    if (worker->is_joiner || worker->is_leaver)
        ; /* not one of the group that trains: shepherd_join.c */
    else if (code == FIRN_EXIT_CHECKPOINT)
        s->has_checkpoint = true;
    else if (s->bad_status < 0 && s->stage >= STAGE_ENDED)
        s->ended_status = s->ended_status >= 0 ? s->ended_status : code;
    else if (s->bad_status < 0 && worker->was_asked && code == 128 + SIGUSR1)
        s->ended_status = code;
    else if (s->bad_status < 0 && code != 0)
        s->bad_status = code;
    bool is_failing = s->bad_status >= 0 || s->ended_status >= 0;
    if (is_failing || s->nleft == 0)
        end_workers(s, short_grace_s(s));
}

/* --- workers on other hosts ----------------------------------------------- */

static void note_remote(struct shepherd *s, struct worker *worker,
                        const struct attempt_exit *result)
{
    shepherd_join_follow(s);
    worker->is_over = true;
    s->nleft--;
    if (worker->is_joiner || worker->is_leaver)
        return; /* not one of the group that trains: shepherd_join.c */
    s->is_memory = s->is_memory || result->end == FIRN_END_MEMORY;
    if (result->end == FIRN_END_CHECKPOINT)
        s->has_checkpoint = true;
    else if (result->end == FIRN_END_KILLED)
        s->ended_status =
            s->ended_status >= 0 ? s->ended_status : result->status;
    else if (result->end != FIRN_END_DONE && s->bad_status < 0)
        s->bad_status = result->status;
}

/* Reads new ends of workers. False: an end could not be read. */
static bool gather(struct shepherd *s)
{
    bool is_news = false, is_sure = true;
    for (size_t i = 0; s->workers != NULL && i < s->nworkers; i++) {
        struct attempt_exit result = {0};
        if (s->workers[i].is_over)
            continue;
        enum attempt_found found = attempt_worker_get(s->folder, i, &result);
        is_sure = is_sure && found != ATTEMPT_UNKNOWN;
        if (found != ATTEMPT_PRESENT || result.attempt != s->launch.attempt)
            continue;
        note_remote(s, &s->workers[i], &result);
        is_news = true;
    }
    bool is_failing = s->bad_status >= 0 || s->ended_status >= 0;
    if (is_news && (is_failing || s->nleft == 0))
        end_workers(s, short_grace_s(s));
    return is_sure;
}

/* An srun of joiners is over: a joiner without an end did not start, or is
 * lost.
 */
static void note_step(struct shepherd *s, pid_t runner)
{
    gather(s);
    for (size_t i = 0; i < s->nworkers; i++) {
        struct worker *worker = &s->workers[i];
        if (worker->pid != runner || worker->is_over || !worker->is_joiner)
            continue;
        worker->is_over = true;
        s->nleft--;
    }
}

/* All remaining workers had begun, and none of them holds the lock. */
static bool have_vanished(struct shepherd *s)
{
    for (size_t i = 0; i < s->nworkers; i++)
        if (!s->workers[i].is_over &&
            attempt_worker_has_begun(s->folder, i) != ATTEMPT_PRESENT)
            return false;
    int lock = attempt_workers_lock(s->above, false);
    if (lock < 0)
        return false;
    close(lock);
    bool is_sure = gather(s); /* ends are written before the lock is freed */
    return is_sure && s->nleft > 0;
}

static void look_for_vanished(struct shepherd *s)
{
    double now_s = clock_elapsed_s();
    if (s->workers == NULL || s->nleft == 0 || s->stage == STAGE_KILLED)
        return;
    if (!have_vanished(s)) {
        s->vanished_s = 0;
        return;
    }
    s->vanished_s = s->vanished_s > 0 ? s->vanished_s : now_s;
    if (now_s < s->vanished_s + late_s)
        return;
    s->stage = STAGE_KILLED;
    s->killed_s =
        s->vanished_s - remote_exit_s; /* no worker is left to wait for */
}

static void obey(struct shepherd *s, enum attempt_request request)
{
    s->was_asked_to_leave = s->was_asked_to_leave || request != ATTEMPT_GO;
    if (request == ATTEMPT_CHECKPOINT && s->stage == STAGE_RUNNING) {
        s->stage = STAGE_ASKED;
        s->until_s = clock_elapsed_s() + s->launch.grace_s;
    }
    if (request >= ATTEMPT_LEAVE)
        end_workers(s, s->launch.grace_s);
    if (request == ATTEMPT_KILL)
        s->stage = STAGE_KILLED;
}

static void listen_to_files(struct shepherd *s)
{
    char room[4096];
    while (s->notes >= 0 && read(s->notes, room, sizeof room) > 0)
        ;
    enum attempt_request ask = ATTEMPT_GO, order = ATTEMPT_GO;
    (void)attempt_request_get(s->folder, "ask",
                              &ask); /* else at the next turn */
    if (s->kind == SHEPHERD_SLURM) {
        obey(s, ask);
        shepherd_join_look(s);
        gather(s);
        look_for_vanished(s);
        return;
    }
    (void)attempt_request_get(s->folder, "order", &order);
    obey(s, order);
    if (ask == ATTEMPT_KILL)
        obey(s, ask);
}

bool shepherd_gather(struct shepherd *s)
{
    double until_s = clock_elapsed_s() + remote_exit_s;
    int lock = -1;
    gather(s);
    if (s->nleft > 0)
        send_request(s, ATTEMPT_KILL);
    while ((lock = attempt_workers_lock(s->above, false)) < 0) {
        if (clock_elapsed_s() >= until_s)
            return false;
        shepherd_pause(0.02);
    }
    while (!gather(s)) { /* ends are written before the lock is freed */
        if (clock_elapsed_s() >= until_s) {
            close(lock);
            return false;
        }
        shepherd_pause(0.02);
    }
    if (s->nleft > 0) {
        s->is_lost = !s->was_asked_to_leave;
        if (s->ended_status < 0)
            s->ended_status = 128 + SIGKILL;
        shepherd_say(s, "%d of %zu processes vanished", s->nleft, s->nworkers);
    }
    close(lock);
    return true;
}

/* --- watching ------------------------------------------------------------- */

/* Waits for ended children. False: no child is left (2). */
static bool reap(struct shepherd *s)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0)
            return true;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return false;
        if (s->kind == SHEPHERD_SLURM) {
            note_step(s, pid);
            continue;
        }
        shepherd_spare_note(s, pid);
        for (size_t i = 0; i < s->nworkers; i++)
            if (s->workers[i].pid == pid && !s->workers[i].is_over)
                shepherd_note(s, &s->workers[i], status);
    }
}

/* Asks each worker once, as soon as it has a handler. True: some had none yet.
 */
static bool ask(struct shepherd *s)
{
    bool is_more = false;
    if (s->kind == SHEPHERD_SLURM)
        send_request(s, ATTEMPT_CHECKPOINT);
    for (size_t i = 0; s->kind != SHEPHERD_SLURM && i < s->nworkers; i++) {
        struct worker *worker = &s->workers[i];
        if (worker->is_over || worker->was_asked || worker->is_joiner)
            continue; /* a joiner is ended: it has nothing to save */
        worker->was_asked = procs_ask(worker->pid, SIGUSR1);
        is_more = is_more || !worker->was_asked;
    }
    return is_more;
}

/* Kills all processes. Workers on other hosts get a request; srun is killed a
 * while later. Returns the milliseconds until it has to be repeated. */
static int kill_all(struct shepherd *s, double now_s)
{
    static const double far_wait_s = 5;
    if (s->kind == SHEPHERD_SLURM) {
        s->killed_s = s->killed_s > 0 ? s->killed_s : now_s;
        send_request(s, ATTEMPT_KILL);
        if (now_s < s->killed_s + far_wait_s)
            return 100;
    }
    cgroup_kill(&s->cgroup);
    procs_signal_below(s->self, SIGKILL, 0); /* (3) */
    return 20;
}

/* Does what is due; returns how long to wait then, in milliseconds. */
static int advance(struct shepherd *s)
{
    double now_s = clock_elapsed_s();
    bool has_deaf = false;
    if (s->stage == STAGE_RUNNING)
        return -1;
    if (s->stage == STAGE_ASKED && now_s >= s->until_s)
        end_workers(s, s->launch.grace_s);
    else if (s->stage == STAGE_ASKED)
        has_deaf = ask(s);
    else if (s->stage == STAGE_ENDED && now_s >= s->until_s)
        s->stage = STAGE_KILLED;
    if (s->stage == STAGE_KILLED)
        return kill_all(s, now_s);
    double left_s = s->until_s - now_s;
    if (has_deaf && left_s > 0.05)
        left_s = 0.05;
    return left_s > 0 ? (int)(left_s * 1000 < 1e6 ? left_s * 1000 : 1e6) + 1
                      : 0;
}

/* What SIGTERM asks for. Slurm sends it when it preempts a job or when the
 * job's time is over, often without any other notice: a job that writes
 * checkpoints is asked for one. */
static enum attempt_request by_term(const struct shepherd *s)
{
    return s->kind != SHEPHERD_LOCAL && s->launch.can_checkpoint &&
                   s->stage <= STAGE_ASKED
               ? ATTEMPT_CHECKPOINT
               : ATTEMPT_LEAVE;
}

static void take_in(struct shepherd *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1)
            obey(s, ATTEMPT_CHECKPOINT);
        if (info.ssi_signo == SIGUSR2) {
            /* The time limit is near: workers that handle SIGUSR2 get it. */
            for (size_t i = 0; s->kind != SHEPHERD_SLURM && i < s->nworkers;
                 i++)
                if (!s->workers[i].is_over)
                    procs_ask(s->workers[i].pid, SIGUSR2);
        }
        if (info.ssi_signo == SIGTERM)
            obey(s, by_term(s));
        if (info.ssi_signo == SIGINT)
            obey(s, ATTEMPT_LEAVE);
        if (info.ssi_signo == SIGHUP)
            shepherd_join_look(s);
    }
    if (s->kind != SHEPHERD_LOCAL)
        listen_to_files(s);
}

/* Of two times in milliseconds, where -1 is never. */
static int sooner(int a, int b)
{
    return b < 0 || (a >= 0 && a < b) ? a : b;
}

void shepherd_watch(struct shepherd *s)
{
    enum { LOOK_MS = 1000 }; /* where inotify reports nothing */
    while (reap(s)) {
        struct pollfd fds[] = {{.fd = s->signals, .events = POLLIN},
                               {.fd = s->notes, .events = POLLIN},
                               {.fd = s->output.in, .events = POLLIN}};
        int ms = advance(s), join_ms = shepherd_join_advance(s);
        if (s->kind == SHEPHERD_TASK)
            join_ms = shepherd_far_turn(s);
        if (shepherd_far_is_due(s))
            obey(s, ATTEMPT_KILL);
        ms = sooner(sooner(ms, join_ms), shepherd_spare_advance(s));
        shepherd_load(s);
        if (s->kind != SHEPHERD_LOCAL && (ms < 0 || ms > LOOK_MS))
            ms = LOOK_MS;
        poll(fds, 3, ms);
        joblog_pump(&s->output);
        take_in(s);
    }
    if (s->kind == SHEPHERD_TASK)
        (void)shepherd_far_turn(s); /* a switch that was its last act */
    joblog_drain(&s->output);       /* before the verdict, which reads it */
}

bool shepherd_is_early(struct shepherd *s)
{
    take_in(s);
    if (s->stage == STAGE_RUNNING)
        return false;
    if (s->stage == STAGE_ASKED)
        s->has_checkpoint = true;
    else
        s->ended_status = 128 + SIGTERM;
    return true;
}
