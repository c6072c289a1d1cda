/* shepherd_start.c - starts the workers: environment, program, process.
 *
 * The environment of a worker, where later variables replace earlier ones: the
 * shepherd's own, which the engine has chosen (engine/passenv.h), without
 * FIRN_*; those of all workers; the worker's own; MASTER_PORT; the user's;
 * FIRN_HERD. The program is searched along that PATH and executed directly: no
 * shell, and a text file without "#!" is an error.
 *
 * A worker leads a process group of its own, so that a signal to its group does
 * not reach the shepherd, and dies with the shepherd. It inherits the job's
 * lock (engine/attemptfiles.h). An error of execve() comes back through a pipe
 * that closes when the program starts.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/str.h"
#include "engine/shepherdwork.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS = 64, PATH_SIZE = 4096 };

struct variables {
    VEC(const char *) at;
};

/* Replaces the variable of the same name. */
static void set(struct variables *env, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < env->at.n; i++)
        if (strncmp(env->at.at[i], variable, n) == 0) {
            env->at.at[i] = variable;
            return;
        }
    vec_add(&env->at, variable);
}

static void end_list(struct variables *env)
{
    vec_add(&env->at, NULL);
    env->at.n--; /* NULL is behind the last */
}

static struct variables variables_of(const struct shepherd *s,
                                     const struct launchfile *launch,
                                     const struct launch_worker *worker,
                                     const char *const *extra, size_t nextra)
{
    struct variables env = {0};
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "FIRN_", 5) != 0 && strchr(*at, '=') != NULL)
            set(&env, *at);
    for (size_t i = 0; i < launch->common.n; i++)
        set(&env, launch->common.at[i]);
    for (size_t i = 0; i < worker->n; i++)
        set(&env, launch->own.at[worker->first + i]);
    set(&env, s->port);
    if (s->join[0] != '\0')
        set(&env, s->join);
    for (size_t i = 0; i < nextra; i++)
        set(&env, extra[i]);
    for (size_t i = 0; i < launch->env.n; i++)
        set(&env, launch->env.at[i]);
    if (s->herd[0] != '\0')
        set(&env, s->herd);
    end_list(&env);
    return env;
}

/* Chooses the ports of this attempt and holds them until this process ends. */
static void pick_port(struct shepherd *s)
{
    uint64_t seed = (uint64_t)s->launch.job * 7919 +
                    (uint64_t)s->launch.attempt * 104729 + (uint64_t)getpid();
    if (!ports_hold(&s->ports, seed))
        shepherd_say(s,
                     "no three free ports in a row: MASTER_PORT %d is not "
                     "reserved for this job",
                     s->ports.first);
    snprintf(s->port, sizeof s->port, "MASTER_PORT=%d", s->ports.first);
}

/* The path of a program; a name without '/' is searched along PATH. */
static const char *find_program(const char *name, char **env,
                                char out[PATH_SIZE])
{
    const char *path = NULL;
    for (; *env != NULL && path == NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            path = *env + 5;
    if (strchr(name, '/') != NULL)
        return name;
    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(path, ":");
        int size = snprintf(out, PATH_SIZE, "%.*s/%s", n > 0 ? (int)n : 1,
                            n > 0 ? path : ".", name);
        struct stat st;
        if (size > 0 && size < PATH_SIZE && stat(out, &st) == 0 &&
            S_ISREG(st.st_mode) && access(out, X_OK) == 0)
            return out;
        if (path[n] == '\0')
            return NULL;
        path += n + 1;
    }
}

/* In the child: it becomes the user, if there is one. The kernel forgets the
 * signal of a parent's death at such a change. */
static bool take_user(const struct shepherd *s)
{
    if (s->user == NULL)
        return true;
    if (!identity_become(s->user))
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != s->self)
        _exit(127); /* the shepherd died */
    return true;
}

/* In the child; never returns. */
static void become(const struct shepherd *s, char **env, char **argv,
                   int report)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    char path[PATH_SIZE];
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), error = 0;
    const char *program = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != s->self)
        _exit(127); /* the shepherd died */
    setpgid(0, 0);
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    cgroup_enter(&s->cgroup);
    if (dup2(nothing, 0) < 0 || dup2(s->log, 1) < 0 || dup2(s->log, 2) < 0 ||
        fcntl(s->lock, F_SETFD, 0) != 0 ||
        (s->gate >= 0 && fcntl(s->gate, F_SETFD, 0) != 0) || !take_user(s) ||
        chdir(s->kind == SHEPHERD_SLURM ? "/" : s->launch.workdir) != 0)
        error = errno;
    else if ((program = find_program(argv[0], env, path)) == NULL)
        error = ENOENT;
    else {
        failpoint("shepherd.exec.before");
        execve(program, argv, env);
    }
    error = error != 0 ? error : errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(error == ENOENT ? 127 : 126);
}

/* Starts a program, `argv` and `env` ending with NULL: 0, or errno. After an
 * error there may be a child all the same, which exits at once. */
static int spawn(struct shepherd *s, pid_t *child, char **env, char **argv)
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    failpoint("shepherd.fork.before");
    pid_t pid = fork();
    if (pid == 0)
        become(s, env, argv, ends[1]);
    failpoint("shepherd.fork.after");
    if (pid < 0)
        error = errno;
    close(ends[1]);
    if (pid > 0) {
        *child = pid;
        ssize_t n;
        while ((n = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR)
            ;
        if (n != (ssize_t)sizeof error) {
            error = 0; /* the pipe closed: the program runs */
            failpoint("shepherd.exec.after");
        }
    }
    close(ends[0]);
    return error;
}

static char **argv_of(const struct launchfile *launch)
{
    char **argv = mem_new(launch->argv.n + 1, sizeof *argv);
    for (size_t i = 0; i < launch->argv.n; i++)
        argv[i] = (char *)launch->argv.at[i];
    return argv;
}

static bool start_with(struct shepherd *s, struct worker *worker,
                       struct variables env, char **argv)
{
    int error = spawn(s, &worker->pid, (char **)env.at.at, argv);
    vec_release(&env.at);
    if (error == 0)
        return true;
    shepherd_say(s, "cannot run '%.200s' in '%.400s': %s", argv[0],
                 s->launch.workdir, strerror(error));
    if (worker->pid > 0)
        return false; /* shepherd_watch() notes its end */
    shepherd_note(s, worker, 126 << 8);
    return false;
}

/* --- workers that were started early: shepherd_ahead.c ---------------------
 */

/* Starts a process with these variables and a gate. */
static bool park_one(struct shepherd *s, struct parked *parked,
                     struct variables *env, char **argv)
{
    int ends[2];
    char gate[32];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    snprintf(gate, sizeof gate, "FIRN_GATE=%d", ends[1]);
    set(env, gate);
    set(env, "CUDA_VISIBLE_DEVICES="); /* it sees no GPU before the gate */
    end_list(env);
    s->gate = ends[1];
    int error = spawn(s, &parked->pid, (char **)env->at.at, argv);
    close(ends[1]);
    s->gate = -1;
    parked->gate = ends[0];
    return error == 0;
}

bool shepherd_park(struct shepherd *s)
{
    size_t n = s->launch.workers.n, i = 0;
    s->parked = mem_new(n, sizeof *s->parked);
    for (; i < n; i++)
        s->parked[i].gate = -1;
    s->nparked = n;
    for (i = 0; i < s->launch.common.n; i++) /* in place of the engine's mark */
        if (strncmp(s->launch.common.at[i], FIRN_GATE_MARK,
                    strlen(FIRN_GATE_MARK)) == 0)
            str_copy(s->herd, sizeof s->herd, s->launch.common.at[i]);
    shepherd_say(s, "%zu process%s prepared before the job has its GPUs", n,
                 n == 1 ? " is" : "es are");
    char **argv = argv_of(&s->launch);
    bool is_good = true;
    for (i = 0; is_good && i < n; i++) {
        struct variables env =
            variables_of(s, &s->launch, &s->launch.workers.at[i], NULL, 0);
        is_good = park_one(s, &s->parked[i], &env, argv);
        vec_release(&env.at);
    }
    mem_free(argv);
    return is_good;
}

/* Are the prepared workers of this program, in this folder? */
static bool is_same_program(const struct launchfile *a,
                            const struct launchfile *b)
{
    if (a->argv.n != b->argv.n || strcmp(a->workdir, b->workdir) != 0)
        return false;
    for (size_t i = 0; i < a->argv.n; i++)
        if (strcmp(a->argv.at[i], b->argv.at[i]) != 0)
            return false;
    return true;
}

/* The worker is not needed as it was prepared. */
static void drop_parked(struct parked *parked)
{
    if (parked->gate >= 0)
        close(parked->gate);
    if (parked->pid > 0)
        kill(parked->pid, SIGKILL); /* a child that was not waited for */
    *parked = (struct parked){.gate = -1};
}

void shepherd_unpark(struct shepherd *s)
{
    for (size_t i = 0; i < s->nparked; i++)
        drop_parked(&s->parked[i]);
}

/* Lets prepared worker `i` through, if what it has read of its environment so
 * far is the same. */
static bool let_through(struct shepherd *s, size_t i,
                        const struct variables *env)
{
    struct parked *parked = i < s->nparked ? &s->parked[i] : NULL;
    if (parked == NULL || parked->pid <= 0)
        return false;
    struct variables was = variables_of(
        s, &s->parked_launch, &s->parked_launch.workers.at[i], NULL, 0);
    bool is_through =
        is_same_program(&s->parked_launch, &s->launch) &&
        firn_gate_is_alike(was.at.at, env->at.at) &&
        firn_gate_open(parked->gate, env->at.at, clock_elapsed_s());
    vec_release(&was.at);
    if (is_through) {
        s->workers[i].pid = parked->pid;
        cgroup_add(&s->cgroup, parked->pid);
        parked->pid = 0;
    }
    drop_parked(parked);
    return is_through;
}

static bool start_one(struct shepherd *s, size_t i, char **argv)
{
    struct variables env = variables_of(s, &s->launch, &s->launch.workers.at[i],
                                        s->extra, s->nextra);
    if (let_through(s, i, &env)) {
        vec_release(&env.at);
        return true;
    }
    return start_with(s, &s->workers[i], env, argv);
}

/* --- workers that wait to join: shepherd_spare.c -------------------------- */

/* As those of a worker that joins are before its gate: with more workers than
 * one, workerenv_add() sets OMP_NUM_THREADS. */
static struct variables spare_variables(const struct shepherd *s)
{
    static const char name[] = "OMP_NUM_THREADS=";
    struct variables env =
        variables_of(s, &s->launch, &s->launch.workers.at[0], NULL, 0);
    for (size_t i = 0; i < env.at.n; i++)
        if (strncmp(env.at.at[i], name, sizeof name - 1) == 0)
            return env;
    set(&env, "OMP_NUM_THREADS=1");
    end_list(&env);
    return env;
}

bool shepherd_start_spare(struct shepherd *s, struct parked *spare)
{
    struct variables env = spare_variables(s);
    char **argv = argv_of(&s->launch);
    bool is_there = park_one(s, spare, &env, argv);
    mem_free(argv);
    vec_release(&env.at);
    return is_there;
}

/* Lets a spare process through as this worker. */
static bool join_spare(struct shepherd *s, struct worker *worker,
                       const struct launchfile *launch,
                       const struct variables *env)
{
    struct parked *spare = shepherd_spare_take(s);
    if (spare == NULL)
        return false;
    struct variables was = spare_variables(s);
    bool is_through =
        is_same_program(&s->launch, launch) &&
        firn_gate_is_alike(was.at.at, env->at.at) &&
        firn_gate_open(spare->gate, env->at.at, clock_elapsed_s());
    vec_release(&was.at);
    if (is_through) {
        shepherd_say(s, "a process that was started in advance joins");
        worker->pid = spare->pid;
        spare->pid = 0;
    }
    drop_parked(spare);
    return is_through;
}

void shepherd_start_joiner(struct shepherd *s, size_t worker,
                           const struct launchfile *launch, size_t rank,
                           const char *const *extra, size_t nextra)
{
    char **argv = argv_of(launch);
    struct variables env =
        variables_of(s, launch, &launch->workers.at[rank], extra, nextra);
    if (join_spare(s, &s->workers[worker], launch, &env))
        vec_release(&env.at);
    else
        start_with(s, &s->workers[worker], env, argv);
    mem_free(argv);
}

void shepherd_start(struct shepherd *s)
{
    char name[CGROUP_NAME];
    const struct launchfile *launch = &s->launch;
    size_t n = launch->workers.n;
    s->workers = mem_new(n, sizeof *s->workers);
    s->nworkers = n;
    s->nleft = (int)n;
    cgroup_name(name, launch->job, launch->attempt, s->self);
    bool is_in_cgroup =
        cgroup_open(&s->cgroup, (enum cgroup_mode)launch->cgroup, name);
    if (s->kind == SHEPHERD_LOCAL) {
        shepherd_say(s, "attempt %lld of job %lld: %zu process%s%s, in %s",
                     (long long)launch->attempt, (long long)launch->job, n,
                     n == 1 ? "" : "es", s->nparked > 0 ? ", prepared" : "",
                     is_in_cgroup ? "a control group" : "process groups");
        attempt_herd(s->above, launch->attempt, s->herd);
        for (size_t i = 0; i < launch->common.n; i++) /* the engine's mark */
            if (strncmp(launch->common.at[i], "FIRN_HERD=", 10) == 0)
                str_copy(s->herd, sizeof s->herd, launch->common.at[i]);
    }
    if (s->port[0] == '\0')
        pick_port(s);
    char **argv = argv_of(launch);
    size_t i = 0;
    while (i < n && start_one(s, i, argv))
        i++;
    for (i++; i < n; i++) { /* after a failure the rest is not started */
        s->workers[i].is_over = true;
        s->nleft--;
    }
    mem_free(argv);
    shepherd_unpark(s);
}

/* --- by srun, on other hosts ---------------------------------------------- */

/* The options that the job file gives to srun; leaves room for 6 words more. */
static size_t add_options(const struct shepherd *s, const char **argv, size_t n)
{
    for (size_t i = 0; i < s->launch.common.n && n + 7 < ARGUMENTS; i++)
        if (strncmp(s->launch.common.at[i], "FIRN_SRUN=", 10) == 0)
            argv[n++] = s->launch.common.at[i] + 10; /* the last one counts */
    return n;
}

/* Cores of each task, which srun does not take from the allocation; "": not
 * set. */
static void cores_option(char out[64])
{
    const char *each = getenv("SLURM_CPUS_PER_TASK");
    out[0] = '\0';
    if (each != NULL)
        snprintf(out, 64, "--cpus-per-task=%ld", strtol(each, NULL, 10));
}

static int start_srun(struct shepherd *s)
{
    char program[PATH_SIZE], groups[64], cpus[64];
    const char *argv[ARGUMENTS] = {
        "srun",         "--quiet",    "--wait=0",     "--kill-on-bad-exit=0",
        "--input=none", "--mpi=none", "--export=ALL", "--chdir=/"};
    size_t n = 8;
    const char *size = getenv("SLURM_HET_SIZE");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return errno;
    program[length] = '\0';
    if (size != NULL) {
        snprintf(groups, sizeof groups, "--het-group=0-%ld",
                 strtol(size, NULL, 10) - 1);
        argv[n++] = groups;
    }
    cores_option(cpus);
    if (cpus[0] != '\0')
        argv[n++] = cpus;
    n = add_options(s, argv, n);
    argv[n++] = program;
    argv[n++] = "--worker";
    argv[n++] = s->path;
    argv[n++] = s->port;
    return spawn(s, &s->runner, environ, (char **)argv);
}

/* Of the batch step's variables srun takes the allocation, its nodes and its
 * tasks: for another allocation they are left out. */
static struct variables without_slurm(void)
{
    struct variables env = {0};
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "SLURM_CONF=", 11) == 0 ||
            (strncmp(*at, "SLURM", 5) != 0 && strncmp(*at, "SRUN_", 5) != 0))
            vec_add(&env.at, *at);
    vec_add(&env.at, NULL);
    return env;
}

/* One step of `ntasks` joiners on a node, in allocation `pilot`. */
static int start_step(struct shepherd *s, const char *pilot, const char *node,
                      int ntasks, int64_t number, size_t first, pid_t *runner)
{
    char program[PATH_SIZE], jobid[48], tasks[32], list[160], order[32],
        worker[32], cpus[64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return errno;
    program[length] = '\0';
    snprintf(jobid, sizeof jobid, "--jobid=%.30s", pilot);
    snprintf(tasks, sizeof tasks, "--ntasks=%d", ntasks);
    snprintf(list, sizeof list, "--nodelist=%.120s", node);
    snprintf(order, sizeof order, "%lld", (long long)number);
    snprintf(worker, sizeof worker, "%zu", first);
    const char *argv[ARGUMENTS] = {"srun",
                                   jobid,
                                   "--overlap",
                                   "--quiet",
                                   "--wait=0",
                                   "--nodes=1",
                                   list,
                                   tasks,
                                   "--mpi=none",
                                   "--input=none",
                                   "--export=ALL",
                                   "--chdir=/",
                                   "--kill-on-bad-exit=0"};
    size_t n = 13;
    cores_option(cpus);
    if (cpus[0] != '\0')
        argv[n++] = cpus;
    n = add_options(s, argv, n);
    const char *const last[] = {program, "--joiner", s->path,
                                s->port, order,      worker};
    memcpy(argv + n, last, sizeof last);
    struct variables env = without_slurm();
    int error = spawn(s, runner, (char **)env.at.at, (char **)argv);
    vec_release(&env.at);
    return error;
}

static const char *own_of(const struct launchfile *launch, size_t rank,
                          const char *name)
{
    const struct launch_worker *own = &launch->workers.at[rank];
    size_t n = strlen(name);
    for (size_t i = 0; i < own->n; i++)
        if (strncmp(launch->own.at[own->first + i], name, n) == 0)
            return launch->own.at[own->first + i] + n;
    return NULL;
}

/* Is worker `rank` a joiner in this allocation? */
static bool joins_in(const struct launchfile *launch, size_t rank,
                     const char *pilot)
{
    const char *own = own_of(launch, rank, "FIRN_PILOT=");
    return own != NULL && strcmp(own, pilot) == 0;
}

/* The step of the allocation that worker `rank` is the first joiner of. */
static void start_steps_of(struct shepherd *s, const struct launchfile *launch,
                           size_t rank, int64_t number, size_t first)
{
    const char *pilot = own_of(launch, rank, "FIRN_PILOT=");
    const char *node = own_of(launch, rank, "FIRN_NODE=");
    int ntasks = 0;
    pid_t runner = 0;
    for (size_t k = rank; k < launch->workers.n; k++)
        ntasks += joins_in(launch, k, pilot);
    int error = node != NULL
                    ? start_step(s, pilot, node, ntasks, number, first, &runner)
                    : EINVAL;
    if (error != 0)
        shepherd_say(s, "cannot run srun: %s", strerror(error));
    size_t worker = first;
    for (size_t k = 0; k < launch->workers.n; k++) {
        if (joins_in(launch, k, pilot))
            s->workers[worker].pid = runner;
        worker += own_of(launch, k, "FIRN_PILOT=") != NULL;
    }
}

void shepherd_start_steps(struct shepherd *s, const struct launchfile *launch,
                          int64_t number, size_t first)
{
    for (size_t i = 0; i < launch->workers.n; i++) {
        const char *pilot = own_of(launch, i, "FIRN_PILOT=");
        bool is_first = pilot != NULL;
        for (size_t k = 0; is_first && k < i; k++)
            is_first = !joins_in(launch, k, pilot);
        if (is_first)
            start_steps_of(s, launch, i, number, first);
    }
}

void shepherd_start_srun(struct shepherd *s)
{
    size_t n = s->launch.workers.n;
    s->workers = mem_new(n, sizeof *s->workers);
    s->nworkers = n;
    s->nleft = (int)n;
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    shepherd_say(s, "attempt %lld of job %lld: %zu process%s, by Slurm on %s",
                 (long long)s->launch.attempt, (long long)s->launch.job, n,
                 n == 1 ? "" : "es", nodes != NULL ? nodes : "its nodes");
    pick_port(s);
    bool is_reserved =
        attempt_request_put(s->folder, "order", ATTEMPT_GO, NULL) == FIRN_OK;
    for (size_t i = 0; is_reserved && i < n; i++)
        is_reserved = attempt_worker_reserve(s->folder, i, NULL) == FIRN_OK;
    int error = is_reserved ? start_srun(s) : EIO;
    if (error != 0)
        shepherd_say(s, "cannot run srun: %s", strerror(error));
}
