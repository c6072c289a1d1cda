/* local_start.c - a start on this host: from free GPUs to a running shepherd.
 *
 * The order matters: after a crash at any point, a restarted engine must
 * understand what it finds.
 *
 *     number     of all that start, one commit  crash: never started
 *     launch     written                        crash: never started
 *     fence      raised, with the lock held     crash: never started
 *     spawn      the shepherd                   crash: the attempt is taken
 * over
 *
 * A number is never used twice. A failed start is retried after a growing wait.
 *
 * Launches are paced: a spawn waits until the child runs its program, and each
 * new process takes processor time from firnd. 64 launches in one turn left
 * requests waiting for 0.3 to 0.8 s on two cores. Now at most four are made at
 * once, and after them one every 10 ms, or at longer distances if a launch
 * takes more than half of that. A job with a number that is not launched yet
 * has no process and can be stopped or cancelled at once (engine/roster.h).
 */
#define _GNU_SOURCE
#include "base/failpoint.h"
#include "base/fdlimit.h"
#include "base/str.h"
#include "engine/herd.h"
#include "engine/holding.h"
#include "engine/launcher.h"
#include "engine/launchfile.h"
#include "engine/localwork.h"
#include "engine/passenv.h"
#include "engine/procs.h"
#include "engine/resizefile.h"
#include "engine/workerenv.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double start_limit_s = 30;
static const double foreign_wait_s = 5;
/* The price of a launch (engine/pace.h): about the processor time of a shepherd
 * and a worker until the worker runs. */
static const double launch_s = 0.01;
enum { AT_ONCE = 4 };

static struct worker_gpu gpu_at(const void *arg, firn_node_id node, int index)
{
    const struct gpu *gpu = gpus_at(arg, node, index);
    return (struct worker_gpu){.visible = gpu->visible,
                               .mem_gib = gpu->mem_gib};
}

/* How many processes of the job may wait to join it (shepherd_spare.c). */
static void add_spares(const struct local *local,
                       const struct firn_launch *launch, struct launchfile *out)
{
    int most = launch->threads;
    if (launch->gpus_max > 0 && launch->gpus_max < most)
        most = launch->gpus_max;
    int more = most - (int)out->workers.n;
    int n = more < local->spares ? more : local->spares;
    bool can = launch->can_ahead && local->join_s > 0 && !launch->is_per_node &&
               launch->mate == NULL;
    if (can && n > 0)
        vec_add(&out->common, arena_printf(&out->text, "FIRN_SPARES=%d", n));
}

void local_variables(const struct local *local, const struct localjob *job,
                     const struct firn_launch *launch, struct launchfile *out)
{
    const struct workerenv env = {.cluster = &local->gpus.cluster,
                                  .job = job->base.id,
                                  .attempt = job->base.attempt,
                                  .alloc = &job->base.want,
                                  .is_one_host = local->gpus.has_nvml,
                                  .has_driver = local->gpus.has_nvml,
                                  .host = "127.0.0.1",
                                  .gpu = gpu_at,
                                  .arg = &local->gpus};
    workerenv_add(&env, launch, out);
    add_spares(local, launch, out);
    char mark[FIRN_GATE_MARK_TEXT];
    if (job->base.attempt > 0)
        herd_worker(mark, local->host.mark, job->base.id, job->base.attempt);
    else /* it is prepared for an attempt that is still to come */
        firn_gate_mark(mark, local->host.mark, job->base.id);
    if (mark[0] != '\0')
        vec_add(&out->common, arena_strdup(&out->text, mark));
}

/* Runs the program in a session of its own, with signals blocked until it
 * handles them. */
static int spawn(const struct local *local, const struct local_program *program,
                 char *const *variables, pid_t *pid)
{
    char output[4300];
    char *argv[] = {(char *)local->shepherd, (char *)program->verb,
                    (char *)program->folder, NULL};
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    sigset_t blocked, plain;
    snprintf(output, sizeof output, "%s/output", program->folder);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGHUP);
    sigfillset(&plain);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID |
                                              POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    posix_spawnattr_setsigdefault(&attributes, &plain);
    posix_spawn_file_actions_init(&files);
    if (program->input >= 0)
        posix_spawn_file_actions_adddup2(&files, program->input, 0);
    else
        posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(
        &files, 1, output, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    failpoint("engine.fork.before");
    fdlimit_child_begin();
    int error =
        posix_spawn(pid, local->shepherd, &files, &attributes, argv, variables);
    fdlimit_child_end();
    failpoint("engine.fork.after");
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return error;
}

int local_spawn(const struct local *local, const struct local_program *program,
                pid_t *pid)
{
    VEC(char *) variables = {0};
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "FIRN_", 5) == 0 || passenv_has(*at, local->pass_env))
            vec_add(&variables, *at); /* the shepherd passes no FIRN_* on */
    if (program->mark[0] != '\0')
        vec_add(&variables, (char *)program->mark);
    vec_add(&variables, NULL);
    int error = spawn(local, program, variables.at, pid);
    vec_release(&variables);
    return error;
}

/* The launcher starts the shepherd and tells its process number. */
static enum firn_status ask_launcher(struct local *local, struct localjob *job,
                                     const char *user, pid_t *pid,
                                     struct firn_error *err)
{
    struct launchmsg msg = {.kind = LAUNCHMSG_START,
                            .job = job->base.id,
                            .attempt = job->base.attempt};
    long number = 0;
    if (!str_copy(msg.user, sizeof msg.user, user) ||
        !str_copy(msg.mark, sizeof msg.mark, local->host.mark))
        return firn_fail(err, FIRN_EINVAL, "jobs of '%.80s' cannot be started",
                         user);
    local_devices(local, &job->base.want, &msg);
    failpoint("engine.fork.before");
    FIRN_TRY(launcher_ask(local->launcher, &msg, &number, err));
    failpoint("engine.fork.after");
    *pid = (pid_t)number;
    return FIRN_OK;
}

static void watch_shepherd(struct local *local, struct localjob *job, pid_t pid)
{
    job->pid = pid;
    job->start = procs_start(pid);
    local_watch_pid(local, job);
}

static enum firn_status start_shepherd(struct local *local,
                                       struct localjob *job, const char *user,
                                       struct firn_error *err)
{
    char folder[4200];
    int n = snprintf(folder, sizeof folder, "%s/epoch-%lld", job->base.folder,
                     (long long)job->base.attempt);
    pid_t pid = 0;
    if (n < 0 || (size_t)n >= sizeof folder)
        return firn_fail(err, FIRN_EINVAL,
                         "the path of its folder is too long");
    if (local->launcher[0] != '\0') {
        roster_watch(&local->roster, &job->base);
        FIRN_TRY(ask_launcher(local, job, user, &pid, err));
        watch_shepherd(local, job, pid);
        return FIRN_OK;
    }
    char mark[HERD_TEXT];
    herd_shepherd(mark, local->host.mark, job->base.id, job->base.attempt);
    const struct local_program program = {"--shepherd", folder, mark, -1};
    roster_watch(&local->roster, &job->base);
    if (local_ahead_go(local, job))
        return FIRN_OK;
    int error = local_spawn(local, &program, &pid);
    if (error != 0)
        return firn_fail(err, FIRN_EIO, "cannot run '%.200s': %s",
                         local->shepherd, strerror(error));
    watch_shepherd(local, job, pid);
    return FIRN_OK;
}

/* The GPUs of the attempt, which a resize may change (local_resize.c). */
static enum firn_status write_gpus(const struct localjob *job,
                                   struct firn_error *err)
{
    int folder = attempt_folder(job->base.folder, job->base.attempt, false);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO, "the folder of its attempt is gone");
    enum firn_status status = resize_gpus_put(folder, &job->base.held, err);
    close(folder);
    return status;
}

static enum firn_status prepare(struct local *local, struct localjob *job,
                                const struct firn_launch *launch,
                                struct firn_error *err)
{
    struct launchfile file;
    roster_launch_begin(&job->base, launch, &file);
    file.cgroup = local->cgroup;
    local_variables(local, job, launch, &file);
    enum firn_status status = roster_prepare(
        &job->base, launch, &(struct roster_file){.file = &file}, err);
    launchfile_release(&file);
    FIRN_TRY(status);
    FIRN_TRY(write_gpus(job, err));
    return start_shepherd(local, job, launch->user, err);
}

/* True: no process of the host belongs to this job. Otherwise those processes
 * are left over from ended attempts: they are killed, and the job waits. */
static bool is_alone(struct local *local, struct rosterjob *job,
                     const struct herd *herd)
{
    char why[128];
    const struct herd_process *found = NULL;
    for (size_t i = 0; i < herd->at.n; i++) {
        const struct herd_process *process = &herd->at.at[i];
        if (process->job != job->id ||
            (process->is_prepared && local_ahead_has(local, job->id)))
            continue;
        found = process;
        procs_signal(process->id.pid, process->id.start, SIGKILL);
    }
    if (found == NULL)
        return true;
    snprintf(why, sizeof why,
             "process %ld of its attempt %lld was still running; firn kills it",
             (long)found->id.pid, (long long)found->attempt);
    roster_retry(&local->roster, job, why);
    return false;
}

/* True: no foreign process uses its GPUs. Otherwise the job waits. */
static bool has_its_gpus(struct local *local, struct rosterjob *job)
{
    if (!local_is_foreign_on(local, &job->want))
        return true;
    double latest_s = local_now_s(local) + foreign_wait_s;
    roster_retry(&local->roster, job, "foreign processes use its GPUs");
    if (job->again_s > latest_s)
        job->again_s = latest_s;
    return false;
}

/* The processes of the host are searched once for all jobs that start together.
 */
struct search {
    struct local *local;
    struct herd herd;
    int error; /* -1: not searched yet; errno; 0: complete */
};

static bool may_start(void *arg, struct rosterjob *job)
{
    struct search *search = arg;
    struct local *local = search->local;
    if (local_ahead_ends(local, job->id)) {
        roster_retry(&local->roster, job, "its prepared processes end first");
        return false;
    }
    if (search->error < 0)
        search->error = herd_look(&search->herd, local->host.mark) ? 0 : errno;
    if (search->error > 0) {
        roster_retry(&local->roster, job, strerror(search->error));
        return false;
    }
    return is_alone(local, job, &search->herd) && has_its_gpus(local, job);
}

static void launch_one(struct local *local, struct localjob *job)
{
    struct firn_launch launch = {0};
    struct firn_error err = {0};
    job->base.is_numbered = false;
    job->base.prepared_s = 0;
    if (!local->host.launch(local->host.arg, job->base.id, &launch) ||
        launch.argv == NULL || launch.argv[0] == NULL) {
        roster_report_end(&local->roster, &job->base, FIRN_EVENT_FAIL,
                          FIRN_END_LOST);
        local_drop(local, job);
        return;
    }
    bool is_other = launch.mate != NULL && /* than what was prepared */
                    local_ahead_has(local, job->base.id);
    if (is_other)
        local_ahead_end(local, job->base.id);
    if (launch.trouble != NULL || is_other)
        firn_fail(&err, FIRN_EIO, "%s",
                  launch.trouble != NULL ? launch.trouble
                                         : "its prepared processes end first");
    if (launch.trouble != NULL || is_other ||
        prepare(local, job, &launch, &err) != FIRN_OK) {
        local_forget_attempt(local, job);
        roster_retry(&local->roster, &job->base, err.text);
        return;
    }
    job->base.began_s = local_now_s(local);
    job->base.until_s = job->base.began_s + start_limit_s;
    roster_phase(&local->roster, &job->base, FIRN_PHASE_STARTING);
}

void local_start_some(struct local *local)
{
    struct search search = {.local = local, .error = -1};
    const struct roster_starts starts = {
        .limits = {.jobs_per_gpu = local->gpus.cluster.jobs_per_gpu},
        .host = &local->host,
        .may_start = may_start,
        .engine = &search};
    struct rosterjob *job;
    roster_number(&local->roster, &starts);
    herd_release(&search.herd);
    double began_s = local_now_s(local);
    for (int n = 0;
         n < AT_ONCE && pace_next_s(&local->launches, began_s) <= began_s &&
         (job = roster_next_to_launch(&local->roster)) != NULL;
         n++) {
        launch_one(local, (struct localjob *)job);
        double now_s = local_now_s(local);
        pace_pay(&local->launches, now_s,
                 fmax(launch_s, 2 * (now_s - began_s)));
        began_s = now_s;
    }
}
