/* queue.c - 100 000 queued jobs: time to open, of rounds, and of `firn ls`.
 *
 * The state is filled directly: jobs of ten applications, rigid and elastic,
 * some that share. A scheduler is opened on it with an engine that runs
 * nothing, on 64 GPUs, under one policy after the other; a round is decided
 * when it opens, when a job arrives and when one ends. Then it listens, and
 * `firn ls` asks it, as a table and as JSON: the whole command is measured,
 * best of three. The bars are seconds of CPU, since other programs may use the
 * machine.
 *
 * With `large` the cluster has 100 000 GPUs. 120 000 jobs of 1 to 9 GPUs come;
 * rounds are decided until 20 000 of them run and 100 000 wait, and then at
 * jobs that come and end: the usual event is the median of these, and the time
 * of a round is the longest turn.
 *
 *     queue FIRN
 *     queue "" POLICY [large]
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "daemon/loopwork.h"
#include "lib/folder.h"
#include "lib/measure.h"
#include <firn/launch.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { QUEUED = 100000, LARGE = 120000, IDS = LARGE + 1000, EVENTS = 200 };

static bool is_large;

static char folder[200];
static struct firn_error err;

static void must(enum firn_status status)
{
    if (status == FIRN_OK)
        return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

/* --- an engine that runs nothing ----------------------------------------- */

struct still {
    char spec[FIRN_TEXT_MAX];
    struct firn_engine_host host;
    int64_t attempt[IDS];
    bool wants[IDS], runs[IDS];
    VEC(struct firn_event) owed;
    VEC(firn_job_id) touched;
    double ahead_s;
    int fd;
};

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *e)
{
    struct still *still = state;
    (void)e;
    still->wants[step->job->id] = step->to->nparts > 0;
    vec_add(&still->touched, step->job->id);
    return FIRN_OK;
}

static void owe(struct still *still, struct firn_event event)
{
    vec_add(&still->owed, event);
}

static enum firn_status settled(void *state, struct firn_error *e)
{
    struct still *still = state;
    for (size_t i = 0; i < still->touched.n; i++) {
        struct firn_launch launch;
        firn_job_id id = still->touched.at[i];
        if (still->wants[id] == still->runs[id])
            continue;
        still->runs[id] = still->wants[id];
        if (still->runs[id]) {
            FIRN_TRY(still->host.next_attempt(still->host.arg, id,
                                              &still->attempt[id], e));
            still->host.launch(still->host.arg, id, &launch);
            owe(still, (struct firn_event){.kind = FIRN_EVENT_PHASE,
                                           .job = id,
                                           .attempt = still->attempt[id],
                                           .phase = FIRN_PHASE_RUNNING});
        } else {
            owe(still, (struct firn_event){.kind = FIRN_EVENT_LEFT,
                                           .job = id,
                                           .attempt = still->attempt[id],
                                           .end = FIRN_END_CHECKPOINT});
        }
    }
    still->touched.n = 0;
    return FIRN_OK;
}

static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *e)
{
    struct still *still = state;
    (void)until_s;
    (void)e;
    if (still->owed.n == 0)
        return false;
    *out = still->owed.at[0];
    memmove(still->owed.at, still->owed.at + 1,
            --still->owed.n * sizeof *still->owed.at);
    return true;
}

static enum firn_status adopt(void *state, const struct firn_job *job,
                              int64_t attempt, struct firn_error *e)
{
    struct still *still = state;
    (void)e;
    still->wants[job->id] = still->runs[job->id] = true;
    still->attempt[job->id] = attempt;
    return FIRN_OK;
}

static void cancel(void *state, firn_job_id id)
{
    struct still *still = state;
    still->wants[id] = still->runs[id] = false;
}

static enum firn_phase phase(void *state, firn_job_id id)
{
    return ((struct still *)state)->runs[id] ? FIRN_PHASE_RUNNING
                                             : FIRN_PHASE_GONE;
}

static enum firn_status open_still(void *state, struct firn_error *e)
{
    (void)e;
    ((struct still *)state)->fd = eventfd(0, EFD_CLOEXEC);
    return FIRN_OK;
}

static void close_still(void *state)
{
    struct still *still = state;
    close(still->fd);
    vec_release(&still->owed);
    vec_release(&still->touched);
}

static double now_s(void *state)
{
    return 1e9 + clock_elapsed_s() + ((struct still *)state)->ahead_s;
}

static enum firn_status discover(void *state, struct firn_cluster *out,
                                 struct firn_error *e)
{
    return firn_cluster_parse_spec(out, ((struct still *)state)->spec, e);
}

static enum firn_status attach(void *state, const struct firn_engine_host *host,
                               struct firn_error *e)
{
    (void)e;
    ((struct still *)state)->host = *host;
    return FIRN_OK;
}

static int wake_fd(void *state)
{
    return ((struct still *)state)->fd;
}

static const struct firn_option options[] = {
    {.name = "gpus",
     .type = FIRN_OPTION_TEXT,
     .fallback = "",
     .offset = offsetof(struct still, spec)},
    {.name = NULL},
};

static const struct firn_engine_def engine = {.name = "still",
                                              .options = options,
                                              .state_size =
                                                  sizeof(struct still),
                                              .open = open_still,
                                              .close = close_still,
                                              .now_s = now_s,
                                              .discover = discover,
                                              .apply = apply,
                                              .settled = settled,
                                              .next = next,
                                              .adopt = adopt,
                                              .attach = attach,
                                              .wake_fd = wake_fd,
                                              .cancel = cancel,
                                              .phase = phase};

/* --- the queue ----------------------------------------------------------- */

static struct live_job *submit(struct book *book, int i)
{
    static const char *const apps[] = {
        "resnet50", "bert", "vgg19",       "",         "gnmt",
        "yolov3",   "ncf",  "deepspeech2", "imagenet", "cifar10"};
    char name[32];
    int gpus = is_large ? 1 + i % 9 : 1 + i % 2;
    snprintf(name, sizeof name, "job-%d-%d", i % 97, i);
    struct live_ask ask = {.name = mem_strdup(name),
                           .queue = mem_strdup("research"),
                           .user = mem_strdup(i % 3 == 0 ? "ann" : "bob"),
                           .app = mem_strdup(apps[i % 10]),
                           .workdir = mem_strdup("/tmp"),
                           .argv = mem_new(2, sizeof(char *)),
                           .gpus_min = gpus,
                           .gpus_max = i % 3 == 0 ? gpus
                                       : is_large ? gpus + 2
                                                  : 4,
                           .is_elastic = i % 3 != 0,
                           .can_checkpoint = true,
                           .may_share = i % 4 == 0,
                           .mem_gib = i % 5 == 0 ? 4 : 0,
                           .duration_s = 600 + i % 7000};
    ask.argv[0] = mem_strdup("/bin/true");
    struct live_job *job = NULL;
    bool is_new = false;
    must(book_submit(book, &ask, "run: [/bin/true]\n", "", 1e9, &job, &is_new,
                     &err));
    return job;
}

static void fill(void)
{
    struct store *store;
    struct book *book;
    char notice[256];
    must(store_open(&store, folder, notice, sizeof notice, &err));
    must(book_open(&book, store, &err));
    for (int i = 0; i < (is_large ? LARGE : QUEUED); i++)
        submit(book, i);
    must(store_commit(store, &err));
    book_close(book);
    store_close(store);
}

struct scene {
    struct config config;
    struct loop *loop;
};

static void open_scene(struct scene *s, const char *policy, bool is_deaf)
{
    char *gpus = is_large ? "12500x8:v100@16" : "16x4:v100@16";
    char *argv[] = {"firnd", "--state",  folder,         "--gpus",
                    gpus,    "--policy", (char *)policy, NULL};
    s->config = (struct config){0};
    must(config_flags(&s->config, 7, argv, &err));
    must(config_finish(&s->config, &err));
    struct loop_setup setup = {
        .config = &s->config, .engine = &engine, .is_deaf = is_deaf};
    must(loop_open(&s->loop, &setup, &err));
}

static void close_scene(struct scene *s)
{
    loop_close(s->loop);
    config_release(&s->config);
}

/* Turns the loop until a round was decided; raises `round_s` to the time of the
 * longest turn, commit included. Returns the time of this one. */
static double turn(struct scene *s, double *round_s)
{
    long before = s->loop->desk.ndecided;
    double took_s = 0;
    for (int i = 0; i < 100 && s->loop->desk.ndecided == before; i++) {
        double next_s, began_s = clock_cpu_s();
        must(loop_turn(s->loop, &next_s, &err));
        took_s = clock_cpu_s() - began_s;
        ((struct still *)s->loop->dock.engine_state)->ahead_s += 0.1;
    }
    *round_s = fmax(*round_s, took_s);
    return took_s;
}

static void end_one(struct scene *s)
{
    struct still *still = s->loop->dock.engine_state;
    for (int id = 0; id < IDS; id++)
        if (still->runs[id]) {
            still->wants[id] = still->runs[id] = false;
            owe(still, (struct firn_event){.kind = FIRN_EVENT_DONE,
                                           .job = id,
                                           .attempt = still->attempt[id],
                                           .end = FIRN_END_DONE});
            return;
        }
}

static void measure(const char *policy)
{
    struct scene s;
    double round_s = 0, first_s = 0, began_s = clock_cpu_s();
    open_scene(&s, policy, true);
    double opened_s = clock_cpu_s() - began_s;
    turn(&s, &first_s);
    for (int i = 0; i < 3; i++) {
        loop_changed(s.loop, submit(s.loop->book, i));
        turn(&s, &round_s);
        end_one(&s);
        turn(&s, &round_s);
        struct still *still = s.loop->dock.engine_state;
        still->ahead_s += 400; /* longer than any policy's interval */
        turn(&s, &round_s);
    }
    printf("100 000 queued, %s: opened: CPU\t%.17g\t<=\t2\ts\n", policy,
           opened_s);
    printf("100 000 queued, %s: first round: CPU\t%.17g\t<=\t1\ts\n", policy,
           first_s);
    printf("100 000 queued, %s: longest turn: CPU\t%.17g\t<=\t1\ts\n", policy,
           round_s);
    fflush(stdout);
    close_scene(&s);
}

/* --- 100 000 GPUs --------------------------------------------------------- */

/* Rounds until hardly any more jobs start. Returns how many run. */
static int fill_gpus(struct scene *s, double *round_s)
{
    struct still *still = s->loop->dock.engine_state;
    int nrunning = 0, before = -1;
    for (int i = 0; i < 200 && nrunning > before + before / 100; i++) {
        before = nrunning;
        for (int k = 0; k < 8; k++) {
            still->ahead_s += i == 0 ? 60 : 2;
            turn(s, round_s);
        }
        nrunning = 0;
        for (int id = 0; id < IDS; id++)
            nrunning += still->runs[id];
    }
    return nrunning;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_large(const char *policy)
{
    struct scene s;
    double round_s = 0, fill_s = 0, took_s[EVENTS], began_s = clock_cpu_s();
    open_scene(&s, policy, true);
    double opened_s = clock_cpu_s() - began_s;
    int nrunning = fill_gpus(&s, &fill_s);
    for (int i = 0; i < EVENTS; i++) {
        struct still *still = s.loop->dock.engine_state;
        if (i % 2 == 0)
            loop_changed(s.loop, submit(s.loop->book, i));
        else
            end_one(&s);
        still->ahead_s += 5;
        took_s[i] = turn(&s, &round_s);
    }
    qsort(took_s, EVENTS, sizeof *took_s, ascending);
    printf("100 000 GPUs, %s: opened: CPU\t%.17g\t-\t-\ts\n", policy, opened_s);
    printf("100 000 GPUs, %s: jobs that run\t%d\t-\t-\t-\n", policy, nrunning);
    printf("100 000 GPUs, %s: longest turn while they fill: CPU\t%.17g\t-\t-"
           "\ts\n",
           policy, fill_s);
    printf("100 000 GPUs, %s: longest turn: CPU\t%.17g\t<=\t1\ts\n", policy,
           round_s);
    printf("100 000 GPUs, %s: usual event: CPU\t%.17g\t<=\t0.05\ts\n", policy,
           took_s[EVENTS / 2]);
    fflush(stdout);
    close_scene(&s);
}

/* --- the command --------------------------------------------------------- */

static double cpu_of_children(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static bool run(const char *firn, bool is_json)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL)
            _exit(1);
        execl(firn, "firn", "ls", is_json ? "-o" : NULL, "json", (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

/* Prints the CPU time of the command and the daemon, and the time passed. */
static bool command(const char *firn, pid_t daemon, bool is_json)
{
    double best_s = INFINITY, passed_s = INFINITY;
    for (int i = 0; i < 3; i++) {
        double began_s = clock_elapsed_s(), server_s = measure_cpu_of(daemon);
        double client_s = cpu_of_children();
        if (!run(firn, is_json))
            return false;
        passed_s = fmin(passed_s, clock_elapsed_s() - began_s);
        client_s = cpu_of_children() - client_s;
        server_s = measure_cpu_of(daemon) - server_s;
        best_s = fmin(best_s, client_s + server_s);
    }
    const char *what = is_json ? " -o json" : "";
    printf("100 000 queued: firn ls%s: CPU of both\t%.17g\t<=\t1\ts\n", what,
           best_s);
    printf("100 000 queued: firn ls%s: passed\t%.17g\t-\t-\ts\n", what,
           passed_s);
    fflush(stdout);
    return true;
}

static bool ask(const char *firn)
{
    char socket[256];
    snprintf(socket, sizeof socket, "%s/firn.sock", folder);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    setenv("FIRN_SOCKET", socket, 1);
    unlink(socket);
    pid_t daemon = fork();
    if (daemon == 0) {
        struct scene s;
        open_scene(&s, "fifo", false);
        must(loop_run(s.loop, &err));
        close_scene(&s);
        _exit(0);
    }
    for (int i = 0; i < 600 && access(socket, F_OK) != 0; i++)
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    sleep(1);
    bool is_well = command(firn, daemon, false) && command(firn, daemon, true);
    kill(daemon, SIGTERM);
    waitpid(daemon, NULL, 0);
    return is_well;
}

int main(int argc, char **argv)
{
    static const char *const policies[] = {"fifo",      "sjf-bsbf", "icefrog",
                                           "easyscale", "tiresias", "sia",
                                           "lucid",     "pollux"};
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.150s/firn-bench-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    is_large = argc > 3 && strcmp(argv[3], "large") == 0;
    fill();
    if (is_large)
        measure_large(argv[2]);
    else if (argc > 2)
        measure(argv[2]);
    for (size_t i = 0; argc <= 2 && i < sizeof policies / sizeof *policies; i++)
        measure(policies[i]);
    bool is_well = argc <= 1 || argv[1][0] == '\0' || ask(argv[1]);
    folder_empty(folder);
    return rmdir(folder) != 0 || !is_well;
}
