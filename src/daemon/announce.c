/* announce.c - environments that wait, and the processes that get them.
 *
 * An event is kept as the environment of its command, made when it happens: the
 * job may be gone or changed when its turn comes. Texts of users are values of
 * variables only, with control characters replaced by blanks, so that a line of
 * a mail or of a log stays one line.
 *
 * Cost: of a state without `notify`, one comparison; of a command, two forks.
 */
#define _GNU_SOURCE
#include "daemon/announce.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIABLES = 10 };

struct event {
    char *env[VARIABLES + 1];
};

struct announce {
    VEC(struct event) queue;
    size_t first;     /* of the queue; those before are sent */
    double allowance; /* (2) commands that may be started now */
    double seen_s;    /* when it was last refilled */
    size_t ndropped;
    bool has_failed; /* said once */
};

struct announce *announce_new(void)
{
    struct announce *announce = mem_new(1, sizeof *announce);
    announce->allowance = ANNOUNCE_BURST;
    announce->seen_s = -INFINITY;
    return announce;
}

static void release(struct event *event)
{
    for (size_t i = 0; event->env[i] != NULL; i++)
        mem_free(event->env[i]);
    event->env[0] = NULL;
}

void announce_free(struct announce *announce)
{
    if (announce == NULL)
        return;
    for (size_t i = announce->first; i < announce->queue.n; i++)
        release(&announce->queue.at[i]);
    vec_release(&announce->queue);
    mem_free(announce);
}

/* Is the word in the list "end,failure"? */
static bool asks_for(const struct live_job *job, const char *word)
{
    const char *at = job->ask.notify != NULL ? job->ask.notify : "";
    size_t length = strlen(word);
    while (*at != '\0') {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, word, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* The event to tell of; NULL: none. A failure is an end, too. */
static const char *event_of(const struct live_job *job, bool stopped)
{
    bool is_over = live_state_is_over(job->state);
    bool is_failure = job->state == LIVE_FAILED || job->state == LIVE_LOST;
    if (is_failure && asks_for(job, "failure"))
        return "failure";
    if (is_over && asks_for(job, "end"))
        return is_failure ? "failure" : "end";
    if (stopped && !is_over && asks_for(job, "preemption"))
        return "preemption";
    return NULL;
}

static void put(struct event *event, const char *name, const char *value)
{
    size_t n = 0;
    struct firn_buf text = {0};
    while (event->env[n] != NULL)
        n++;
    buf_printf(&text, "%s=%s", name, value);
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f)
            text.at[i] = ' ';
    event->env[n] = mem_strdup(text.at);
    event->env[n + 1] = NULL;
    buf_release(&text);
}

static void fill(struct event *event, const struct live_job *job,
                 const char *kind)
{
    struct firn_buf text = {0};
    const char *state = live_state_name(job->state);
    buf_printf(&text, "%d", job->id);
    put(event, "FIRN_JOB", text.at);
    buf_clear(&text);
    buf_printf(&text, "%d", job->exit_status);
    put(event, "FIRN_JOB_STATUS", text.at);
    buf_clear(&text);
    buf_printf(&text, "job %d (%s) of %s is %s: %s", job->id, job->ask.name,
               job->ask.user, state, job->why);
    put(event, "FIRN_MESSAGE", text.at);
    put(event, "FIRN_EVENT", kind);
    put(event, "FIRN_JOB_NAME", job->ask.name);
    put(event, "FIRN_JOB_USER", job->ask.user);
    put(event, "FIRN_JOB_STATE", state);
    put(event, "FIRN_JOB_WHY", job->why);
    const char *path = getenv("PATH");
    put(event, "PATH", path != NULL ? path : "/usr/bin:/bin");
    buf_release(&text);
}

void announce_state(struct announce *announce, const struct live_job *job,
                    bool stopped)
{
    const char *kind = event_of(job, stopped);
    struct event event = {0};
    if (kind == NULL)
        return;
    if (announce_waiting(announce) >= ANNOUNCE_MOST) {
        if (announce->ndropped++ == 0)
            log_warn("more than %d notifications wait: new ones are dropped",
                     ANNOUNCE_MOST);
        return;
    }
    fill(&event, job, kind);
    vec_add(&announce->queue, event);
}

size_t announce_waiting(const struct announce *announce)
{
    return announce->queue.n - announce->first;
}

/* In the grandchild, which shares no memory that it may change; only calls that
 * are safe after fork(). */
static void become(const char *command, char **env)
{
    char *argv[] = {(char *)command, NULL};
    sigset_t none;
    int nothing = open("/dev/null", O_RDWR);
    setsid();
    for (int i = 0; i < 2; i++) /* standard error stays firnd's log */
        if (nothing < 0 || dup2(nothing, i) < 0)
            _exit(126);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(ANNOUNCE_LIMIT_S); /* (1): it survives execve() */
    execve(command, argv, env);
    _exit(127);
}

/* 0, or errno. */
static int start(const char *command, char **env)
{
    int status = 0;
    if (access(command, X_OK) != 0)
        return errno;
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0)
            become(command, env);
        _exit(0);
    }
    if (pid < 0)
        return errno;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

double announce_turn(struct announce *announce, const char *command,
                     double now_s)
{
    if (announce_waiting(announce) == 0)
        return (double)INFINITY;
    double since_s = fmax(now_s - announce->seen_s, 0);
    announce->allowance =
        fmin(announce->allowance + ANNOUNCE_RATE_S * since_s, ANNOUNCE_BURST);
    announce->seen_s = now_s;
    while (announce_waiting(announce) > 0 && announce->allowance >= 1) {
        struct event *event = &announce->queue.at[announce->first++];
        int error = command != NULL ? start(command, event->env) : 0;
        if (error != 0 && !announce->has_failed)
            log_warn("notify-command '%.200s' cannot be run: %s", command,
                     strerror(error));
        announce->has_failed = error != 0;
        release(event);
        announce->allowance -= 1;
    }
    if (announce_waiting(announce) > 0)
        return now_s + 1.0 / ANNOUNCE_RATE_S;
    if (announce->ndropped > 0)
        log_warn("%zu notifications were dropped", announce->ndropped);
    announce->ndropped = 0;
    announce->queue.n = announce->first = 0;
    return (double)INFINITY;
}
