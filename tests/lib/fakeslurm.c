/* fakeslurm.c - Slurm's commands, played by the test program itself.
 *
 *     state/next      the number of the last job
 *     state/q-ID      its lines of squeue; one a component
 *     state/pid-ID    its batch step, and the tasks of srun, a line each
 *     state/SCRIPT-ID what it runs
 *     state/say-CMD   how a command behaves
 *     state/away-CMD  it said that there is no controller
 */
#define _GNU_SOURCE
#include "lib/fakeslurm.h"
#include "base/buf.h"
#include "lib/fakeslurmwork.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 8, TASKS = 64 };

static bool says(const char *command, const char *how)
{
    char name[64], text[FAKE_TEXT];
    snprintf(name, sizeof name, "say-%s", command);
    return fake_get(fake_path(name), text) && strcmp(text, how) == 0;
}

static void say_once(const char *command)
{
    char name[64];
    snprintf(name, sizeof name, "say-%s", command);
    unlink(fake_path(name));
}

/* The test knows it before the asker does. */
static int away(const char *command, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "away-%s", command);
    fake_put(fake_path(name), "");
    fprintf(
        stderr,
        "%s: error: %sUnable to contact slurm controller (connect failure)\n",
        command, what);
    return 1;
}

/* The second field of each line. */
static bool set_state(long long id, const char *from, const char *to)
{
    char text[FAKE_TEXT], out[FAKE_TEXT] = "";
    int lock = fake_lock("lock-q");
    if (lock < 0)
        return false;
    bool is_set = fake_get(fake_numbered("q", id), text) && text[0] != '\0';
    for (char *line = text, *end; is_set && (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        *end = '\0';
        char *state = strchr(line, '|') + 1, *rest = strchr(state, '|');
        is_set = from == NULL || strncmp(state, from, strlen(from)) == 0;
        snprintf(out + strlen(out), sizeof out - strlen(out), "%.*s%s%s\n",
                 (int)(state - line), line, to, rest);
    }
    if (is_set)
        fake_put(fake_numbered("q", id), out);
    close(lock);
    return is_set;
}

/* Goes with its parent, also with one that is gone already. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(127);
}

/* --- sbatch and the batch step ------------------------------------------- */

struct component {
    char nodes[200], gres[1000], tag[200];
    int ntasks;
};

static void read_words(int argc, char **argv, struct component *out, int *n)
{
    struct component *at = &out[0];
    *n = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value != NULL ? value + 1 : "";
        if (strcmp(argv[i], ":") == 0 && *n < PARTS)
            at = &out[(*n)++];
        else if (strncmp(argv[i], "--nodelist=", 11) == 0)
            snprintf(at->nodes, sizeof at->nodes, "%s", value);
        else if (strncmp(argv[i], "--gres=", 7) == 0)
            snprintf(at->gres, sizeof at->gres, "%s", value);
        else if (strncmp(argv[i], "--comment=", 10) == 0)
            snprintf(at->tag, sizeof at->tag, "%s", value);
        else if (strncmp(argv[i], "--ntasks-per-node=", 18) == 0)
            at->ntasks = (int)strtol(value, NULL, 10);
    }
}

/* "gpu:v100s1:1,gpu:v100s3:1" as "1,3"; "gpu:v100:2" as "0,1". */
static void indices(const char *gres, char out[200])
{
    out[0] = '\0';
    for (const char *at = gres; *at != '\0';) {
        size_t n = strcspn(at, ",");
        const char *name = strstr(at, "v100s");
        int count = (int)strtol(at + n - 1, NULL, 10);
        if (name != NULL && name < at + n)
            snprintf(out + strlen(out), 200 - strlen(out), "%s%d",
                     out[0] != '\0' ? "," : "",
                     (int)strtol(name + 5, NULL, 10));
        else
            for (int i = 0; i < count; i++)
                snprintf(out + strlen(out), 200 - strlen(out), "%s%d",
                         out[0] != '\0' ? "," : "", i);
        at += n + (at[n] == ',');
    }
}

/* "n0:2:1,3;n1:1:2;" */
static void set_places(const struct component *parts, int n)
{
    char text[FAKE_TEXT] = "", gpus[200];
    for (int i = 0; i < n; i++) {
        indices(parts[i].gres, gpus);
        for (const char *at = parts[i].nodes; *at != '\0';) {
            size_t size = strcspn(at, ",");
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     "%.*s:%d:%s;", (int)size, at, parts[i].ntasks, gpus);
            at += size + (at[size] == ',');
        }
    }
    setenv("FAKE_PLACES", text, 1);
    setenv("FAKE_STATE", fake_where, 1);
}

static void run_batch(long long id, const struct component *parts, int n)
{
    char number[32], line[64];
    int status = 0;
    while (access(fake_path("hold"), F_OK) == 0)
        poll(NULL, 0, 5);
    if (!set_state(id, "PENDING", "RUNNING"))
        _exit(0);
    set_places(parts, n);
    snprintf(number, sizeof number, "%lld", id);
    setenv("SLURM_JOB_ID", number, 1);
    setenv("SLURM_JOB_NODELIST", parts[0].nodes, 1);
    setenv("SLURMD_NODENAME", "n0", 1);
    if (n > 1) {
        snprintf(number, sizeof number, "%d", n);
        setenv("SLURM_HET_SIZE", number, 1);
    }
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        const char *script = fake_numbered("script", id);
        die_with(self);
        snprintf(line, sizeof line, "%ld\n", (long)getpid());
        fake_add(fake_numbered("pid", id), line); /* before its tasks' */
        execl("/bin/sh", "sh", script, (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        ;
    set_state(id, "RUNNING", status == 0 ? "COMPLETED" : "FAILED");
    _exit(0);
}

static long long take_job(const struct component *parts, int n)
{
    char text[FAKE_TEXT];
    struct firn_buf lines = {0};
    int lock = fake_lock("lock");
    if (lock < 0)
        return 0;
    fake_get(fake_path("next"), text);
    long long id = strtoll(text, NULL, 10) + 1;
    snprintf(text, sizeof text, "%lld", id);
    fake_put(fake_path("next"), text);
    for (int i = 0; i < n; i++) {
        char part[16] = "";
        if (n > 1)
            snprintf(part, sizeof part, "+%d", i);
        buf_printf(&lines, "%lld%s|PENDING|None|%s|me|%s|%s\n", id, part,
                   parts[i].nodes, parts[i].tag, parts[i].tag);
    }
    fake_put(fake_numbered("q", id), lines.at);
    buf_release(&lines);
    FILE *out = fopen(fake_numbered("script", id), "w");
    for (int c; (c = getchar()) != EOF;)
        fputc(c, out);
    fclose(out);
    close(lock);
    return id;
}

static int sbatch(int argc, char **argv)
{
    struct component parts[PARTS] = {0};
    int n = 0;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("slurm 22.05.8");
        return 0;
    }
    /* Who has this open is ended with the case (workers_sweep), and with it
     * all that it started. */
    if (open(fake_path("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0)
        return 1;
    if (says("sbatch", "away"))
        return away("sbatch", "Batch job submission failed: ");
    if (says("sbatch", "refuse")) {
        say_once("sbatch");
        fputs("sbatch: error: Batch job submission failed: Requested node "
              "configuration is not available\n",
              stderr);
        return 1;
    }
    unlink(fake_path("words"));
    for (int i = 0; i < argc; i++) {
        fake_add(fake_path("words"), argv[i]);
        fake_add(fake_path("words"), "\n");
    }
    read_words(argc, argv, parts, &n);
    long long id = take_job(parts, n);
    bool is_deaf = says("sbatch", "deaf"), hangs = says("sbatch", "hang");
    say_once("sbatch");
    if (fork() == 0) {
        setsid();
        int nothing = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++)
            dup2(nothing, i);
        run_batch(id, parts, n);
    }
    if (hangs)
        poll(NULL, 0, 60000);
    if (is_deaf) {
        fputs("sbatch: error: Batch job submission failed: Socket timed out on "
              "send/recv operation\n",
              stderr);
        return 1;
    }
    printf("%lld\n", id);
    return 0;
}

/* --- srun ----------------------------------------------------------------- */

static void run_task(char **argv, int rank, int local, const char *node,
                     const char *gpus)
{
    char number[32];
    snprintf(number, sizeof number, "%d", rank);
    setenv("SLURM_PROCID", number, 1);
    snprintf(number, sizeof number, "%d", local);
    setenv("SLURM_LOCALID", number, 1);
    setenv("SLURMD_NODENAME", node, 1);
    setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
    execv(argv[0], argv);
    _exit(127);
}

static pid_t tasks[TASKS];
static int ntasks;

static void hand_on(int number)
{
    for (int i = 0; i < ntasks; i++)
        kill(tasks[i], number);
}

static int srun(int argc, char **argv)
{
    int first = 1, status = 0, worst = 0;
    char places[FAKE_TEXT], line[32];
    const char *id = getenv("SLURM_JOB_ID"), *text = getenv("FAKE_PLACES");
    while (first < argc && argv[first][0] == '-')
        first++;
    if (id == NULL || text == NULL || first == argc)
        return 1;
    snprintf(places, sizeof places, "%s", text);
    signal(SIGTERM, hand_on);
    /* backwards: the order is not defined */
    for (char *end; (end = strrchr(places, ';')) != NULL;) {
        *end = '\0';
        char *node = strrchr(places, ';');
        node = node != NULL ? node + 1 : places;
        char *count = strchr(node, ':'), *gpus = strchr(count + 1, ':');
        *count = *gpus = '\0';
        for (long i = strtol(count + 1, NULL, 10); i-- > 0 && ntasks < TASKS;) {
            pid_t self = getpid(), pid = fork();
            if (pid == 0) {
                die_with(self);
                run_task(argv + first, ntasks, (int)i, node, gpus + 1);
            }
            tasks[ntasks++] = pid;
            snprintf(line, sizeof line, "%ld\n", (long)pid);
            fake_add(fake_numbered("pid", strtoll(id, NULL, 10)), line);
        }
        *node = '\0';
    }
    for (int left = ntasks; left > 0;) {
        pid_t pid = wait(&status);
        left -= pid > 0;
        if (pid > 0 && status != 0)
            worst = 1;
    }
    while (says("srun", "hang"))
        poll(NULL, 0, 5);
    return worst;
}

/* --- the others ----------------------------------------------------------- */

static int by_number(const struct dirent **a, const struct dirent **b)
{
    long long x = strtoll((*a)->d_name + 2, NULL, 10);
    long long y = strtoll((*b)->d_name + 2, NULL, 10);
    return (x > y) - (x < y);
}

static int is_job(const struct dirent *entry)
{
    return strncmp(entry->d_name, "q-", 2) == 0 &&
           strchr(entry->d_name, '.') == NULL;
}

static int squeue(void)
{
    struct dirent **names = NULL;
    char text[FAKE_TEXT];
    if (says("squeue", "away"))
        return away("squeue", "");
    if (says("squeue", "babble")) {
        puts("JOBID PARTITION hello");
        return 0;
    }
    int n = scandir(fake_where, &names, is_job, by_number);
    for (int i = 0; i < n; i++) {
        if (fake_get(fake_path(names[i]->d_name), text))
            fputs(text, stdout);
        free(names[i]);
    }
    free(names);
    if (says("squeue", "slow"))
        fake_put(fake_path("away-squeue"), "");
    while (says("squeue", "slow"))
        poll(NULL, 0, 5); /* what was true when it was asked */
    return 0;
}

static void signal_all(long long id, int number)
{
    char text[FAKE_TEXT];
    fake_get(fake_numbered("pid", id), text);
    for (char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1)
        kill((pid_t)strtol(at, NULL, 10), number);
}

/* --name=: is that what the job is called? */
static bool is_named(long long id, int argc, char **argv)
{
    char text[FAKE_TEXT];
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--name=", 7) != 0)
            continue;
        if (!fake_get(fake_numbered("q", id), text))
            return false;
        const char *name = strrchr(text, '|');
        size_t n = name != NULL ? strcspn(name + 1, "\n") : 0;
        return strlen(argv[i] + 7) == n &&
               strncmp(name + 1, argv[i] + 7, n) == 0;
    }
    return true;
}

/* SIGTERM, a second, SIGKILL. */
static int scancel(int argc, char **argv)
{
    long long id = strtoll(argv[argc - 1], NULL, 10);
    bool is_gentle = argc > 2 && strcmp(argv[1], "--state=PENDING") == 0;
    char line[32];
    if (says("scancel", "away"))
        return away("scancel", "");
    if (!is_named(id, argc, argv))
        return 0;
    bool is_over = set_state(id, "PENDING", "CANCELLED") || is_gentle ||
                   !set_state(id, "RUNNING", "CANCELLED");
    /* Told last, in one piece: who counts these sees the state too. */
    snprintf(line, sizeof line, "%lld\n", id);
    fake_add(fake_path("cancelled"), line);
    if (is_over)
        return 0;
    signal_all(id, SIGTERM);
    if (fork() == 0) {
        setsid();
        for (int i = 0; i < 3; i++)
            close(i);
        poll(NULL, 0, 1000);
        signal_all(id, SIGKILL);
        _exit(0);
    }
    return 0;
}

static void show_node(const char *name)
{
    char file[64], text[FAKE_TEXT], own[FAKE_TEXT];
    char *fields[3] = {"IDLE", "", ""};
    bool is_plain = access(fake_path("plain"), F_OK) == 0;
    snprintf(file, sizeof file, "node-%s", name);
    if (fake_get(fake_path(file), text)) {
        fields[0] = text;
        for (int i = 1; i < 3; i++) {
            fields[i] = strchr(fields[i - 1], '|');
            *fields[i]++ = '\0';
        }
    }
    const char *gres =
        is_plain ? "gpu:v100:4"
                 : "gpu:v100s0:1,gpu:v100s1:1,gpu:v100s2:1,gpu:v100s3:1,"
                   "shard:v100s0:4,shard:v100s1:4,shard:v100s2:4,"
                   "shard:v100s3:4";
    snprintf(file, sizeof file, "gres-%s", name);
    if (fake_get(fake_path(file), own))
        gres = own;
    const char *none = is_plain ? "gpu:v100:0(IDX:N/A)"
                                : "gpu:v100s0:0(IDX:N/A),gpu:v100s1:0(IDX:N/A),"
                                  "gpu:v100s2:0(IDX:N/A),gpu:v100s3:0(IDX:N/A)";
    printf("NodeName=%s Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=64 "
           "CPUTot=64 CPULoad=0.45 AvailableFeatures=v100 ActiveFeatures=v100 "
           "Gres=%s GresDrain=N/A GresUsed=%s NodeAddr=127.0.0.1 "
           "NodeHostName=here Port=1 Version=22.05.8 OS=Linux 6.1 #1 SMP  "
           "RealMemory=256000 AllocMem=0 FreeMem=21118 Sockets=64 Boards=1 "
           "State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
           "MCS_label=N/A Partitions=main  BootTime=2026-11-15T12:09:02 "
           "SlurmdStartTime=2026-11-15T22:08:03 "
           "LastBusyTime=2026-11-15T22:08:37 CfgTRES=cpu=64 AllocTRES= "
           "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s "
           "ExtSensorsWatts=0 ExtSensorsTemp=n/s %s%s\n",
           name, gres, fields[1][0] != '\0' ? fields[1] : none, fields[0],
           fields[2][0] != '\0' ? "Reason=" : "", fields[2]);
}

static int scontrol(int argc, char **argv)
{
    if (says("scontrol", "away"))
        return away("scontrol", "");
    if (says("scontrol", "babble")) {
        puts("NodeName=n0 hello");
        return 0;
    }
    if (strcmp(argv[argc - 1], "reservation") == 0 ||
        strcmp(argv[argc - 1], "flags=assoc") == 0 ||
        strcmp(argv[argc - 2], "partition") == 0)
        return 0;
    if (strcmp(argv[argc - 1], "partition") == 0) {
        puts("PartitionName=other Default=NO QoS=N/A State=UP");
        puts("PartitionName=main AllocNodes=ALL Default=YES QoS=N/A State=UP");
        return 0;
    }
    show_node("n0");
    show_node("n1");
    return 0;
}

int fakeslurm_main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash != NULL ? slash + 1 : argv[0];
    const char *state = getenv("FAKE_STATE");
    if (strcmp(name, "srun") == 0 && state != NULL) {
        snprintf(fake_where, sizeof fake_where, "%s", state);
        return srun(argc, argv);
    }
    if (slash != NULL)
        snprintf(fake_where, sizeof fake_where, "%.*s/../state",
                 (int)(slash - argv[0]), argv[0]);
    return strcmp(name, "sbatch") == 0     ? sbatch(argc, argv)
           : strcmp(name, "squeue") == 0   ? squeue()
           : strcmp(name, "scancel") == 0  ? scancel(argc, argv)
           : strcmp(name, "scontrol") == 0 ? scontrol(argc, argv)
                                           : -1;
}
