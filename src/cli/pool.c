/* pool.c - runs tasks in parallel child processes.
 *
 * The parent polls the pipes of its children. A message has a header (kind and
 * size) and a payload; the last message of a child is its outcome.
 *
 * (1) A child has only the writing end of its own pipe open, so that after the
 *     death of the parent its next message stops the child too.
 * (2) Children end by _exit(), so that buffered output of the parent is not
 *     written twice.
 * (3) The parent calls waitpid() for a child only after the end of its pipe.
 */
#include "cli/pool.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WATCH_MS = 100, /* between two checks of signals and progress */
    PATIENCE_S = 5, /* between SIGTERM and SIGKILL of the children */
};

enum message_kind { MESSAGE_SHARE, MESSAGE_OUTCOME };

struct message {
    uint32_t kind, size;
};

struct outcome_head {
    enum firn_status status;
    char text[FIRN_ERROR_TEXT];
};

struct pool_child {
    int fd;
    double share; /* last one sent */
};

/* A child as the parent sees it. */
struct kid {
    pid_t pid; /* 0: this slot is free */
    int fd;
    size_t task;
    struct firn_buf in; /* bytes of an incomplete message */
};

struct crew {
    struct pool *pool;
    struct kid *kids; /* pool->width slots */
    size_t next_task;
    int nkids;
    int signalled; /* signals passed on to the children */
    double kill_s; /* when children that still run are killed */
};

static volatile sig_atomic_t stop_count;

static void on_signal(int number)
{
    (void)number;
    if (stop_count < 100)
        stop_count = stop_count + 1;
}

const volatile sig_atomic_t *pool_stop(void)
{
    return &stop_count;
}

/* Writes everything; stops the child if the parent is gone. */
static void send_bytes(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            stop_count = 1;
            return;
        }
        at += done;
        n -= (size_t)done;
    }
}

static void send_message(int fd, enum message_kind kind, const void *bytes,
                         size_t n)
{
    struct message head = {(uint32_t)kind, (uint32_t)n};
    send_bytes(fd, &head, sizeof head);
    send_bytes(fd, bytes, n);
}

void pool_share(struct pool_child *child, double share)
{
    if (share < child->share + 0.002)
        return;
    child->share = share;
    send_message(child->fd, MESSAGE_SHARE, &share, sizeof share);
}

static _Noreturn void be_child(const struct pool *pool, size_t task, int fd)
{
    struct pool_child child = {.fd = fd};
    struct outcome_head head = {0};
    struct firn_error err = {0};
    struct firn_buf payload = {0};
    void *out = mem_new(1, pool->out_size);
    head.status = pool->run(pool->arg, task, &child, out, &err);
    memcpy(head.text, err.text, sizeof head.text);
    buf_add(&payload, (const char *)&head, sizeof head);
    buf_add(&payload, out, pool->out_size);
    send_message(fd, MESSAGE_OUTCOME, payload.at, payload.n);
    buf_release(&payload);
    mem_free(out);
    _exit(0);
}

/* Starts the next task. Returns false if pipe() or fork() fails. */
static bool start(struct crew *crew)
{
    int fds[2];
    if (pipe(fds) != 0)
        return false;
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return false;
    }
    if (pid == 0) {
        close(fds[0]);
        for (int i = 0; i < crew->pool->width; i++) /* (1) */
            if (crew->kids[i].pid != 0)
                close(crew->kids[i].fd);
        be_child(crew->pool, crew->next_task, fds[1]);
    }
    close(fds[1]);
    struct kid *kid = crew->kids;
    while (kid->pid != 0) /* fewer than width children run */
        kid++;
    *kid = (struct kid){.pid = pid, .fd = fds[0], .task = crew->next_task};
    crew->pool->outcomes[crew->next_task++].state = POOL_RUNNING;
    crew->nkids++;
    return true;
}

static void start_some(struct crew *crew)
{
    struct pool *pool = crew->pool;
    while (crew->nkids < pool->width && crew->next_task < pool->ntasks) {
        if (start(crew))
            continue;
        if (crew->nkids > 0)
            return; /* retried when a child has ended */
        struct pool_outcome *o = &pool->outcomes[crew->next_task++];
        o->state = POOL_ENDED;
        o->status = FIRN_EIO;
        snprintf(o->text, sizeof o->text, "cannot start a process: %s",
                 strerror(errno));
    }
}

static void take_message(struct pool *pool, const struct kid *kid,
                         struct message head, const char *bytes)
{
    struct pool_outcome *o = &pool->outcomes[kid->task];
    struct outcome_head end;
    if (head.kind == MESSAGE_SHARE && head.size == sizeof o->share) {
        memcpy(&o->share, bytes, sizeof o->share);
        return;
    }
    if (head.kind != MESSAGE_OUTCOME ||
        head.size != sizeof end + pool->out_size)
        return;
    memcpy(&end, bytes, sizeof end);
    memcpy(o->out, bytes + sizeof end, pool->out_size);
    memcpy(o->text, end.text, sizeof o->text);
    o->status = end.status;
    o->has_out = true;
    o->share = 1;
}

static void take_messages(struct pool *pool, struct kid *kid)
{
    struct message head;
    size_t at = 0;
    while (kid->in.n - at >= sizeof head) {
        memcpy(&head, kid->in.at + at, sizeof head);
        if (kid->in.n - at - sizeof head < head.size)
            break;
        take_message(pool, kid, head, kid->in.at + at + sizeof head);
        at += sizeof head + head.size;
    }
    memmove(kid->in.at, kid->in.at + at, kid->in.n - at);
    kid->in.n -= at;
}

/* Records the end of a child whose pipe has ended. (3) */
static void reap(struct crew *crew, struct kid *kid)
{
    struct pool_outcome *o = &crew->pool->outcomes[kid->task];
    int status = 0;
    while (waitpid(kid->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(kid->fd);
    buf_release(&kid->in);
    kid->pid = 0;
    crew->nkids--;
    o->state = POOL_ENDED;
    if (crew->signalled > 0 && (!o->has_out || o->status == FIRN_EINTR)) {
        o->state = POOL_STOPPED;
        return;
    }
    if (o->has_out)
        return;
    o->status = FIRN_EIO;
    if (WIFSIGNALED(status))
        snprintf(o->text, sizeof o->text,
                 "the process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(o->text, sizeof o->text,
                 "the process exited with status %d without a result",
                 WEXITSTATUS(status));
}

static void read_kid(struct crew *crew, struct kid *kid)
{
    char bytes[8192];
    ssize_t n = read(kid->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        reap(crew, kid);
        return;
    }
    buf_add(&kid->in, bytes, (size_t)n);
    take_messages(crew->pool, kid);
}

static void signal_kids(const struct crew *crew, int number)
{
    for (int i = 0; i < crew->pool->width; i++)
        if (crew->kids[i].pid != 0)
            (void)kill(crew->kids[i].pid, number);
}

/* Passes the first signal on; kills the children after the second, or after
 * PATIENCE_S. */
static void pass_on(struct crew *crew)
{
    if (stop_count == 0)
        return;
    if (crew->signalled == 0) {
        crew->signalled = 1;
        crew->kill_s = clock_elapsed_s() + PATIENCE_S;
        crew->pool->is_interrupted = true;
        crew->next_task = crew->pool->ntasks;
        signal_kids(crew, SIGTERM);
    } else if (stop_count > crew->signalled ||
               clock_elapsed_s() > crew->kill_s) {
        signal_kids(crew, SIGKILL);
    }
}

/* Waits for messages, at most WATCH_MS, and handles them. */
static void attend(struct crew *crew, struct pollfd *polls)
{
    int width = crew->pool->width;
    for (int i = 0; i < width; i++)
        polls[i] = (struct pollfd){
            .fd = crew->kids[i].pid != 0 ? crew->kids[i].fd : -1,
            .events = POLLIN,
        };
    int n = poll(polls, (nfds_t)width, WATCH_MS);
    for (int i = 0; n > 0 && i < width; i++)
        if (polls[i].fd >= 0 && polls[i].revents != 0)
            read_kid(crew, &crew->kids[i]);
}

/* Installs a handler unless the signal is ignored, as in background jobs of a
 * shell. */
static void catch_signal(int number, const struct sigaction *act,
                         struct sigaction *before)
{
    sigaction(number, NULL, before);
    if (before->sa_handler != SIG_IGN)
        sigaction(number, act, NULL);
}

void pool_run(struct pool *pool)
{
    struct sigaction act = {.sa_handler = on_signal}, on_int, on_term;
    if (pool->ntasks < (size_t)pool->width)
        pool->width = pool->ntasks > 0 ? (int)pool->ntasks : 1;
    struct crew crew = {.pool = pool};
    crew.kids = mem_new((size_t)pool->width, sizeof *crew.kids);
    struct pollfd *polls = mem_new((size_t)pool->width, sizeof *polls);
    pool->outcomes = mem_new(pool->ntasks, sizeof *pool->outcomes);
    for (size_t i = 0; i < pool->ntasks; i++)
        pool->outcomes[i].out = mem_new(1, pool->out_size);
    sigemptyset(&act.sa_mask);
    stop_count = 0;
    catch_signal(SIGINT, &act, &on_int);
    catch_signal(SIGTERM, &act, &on_term);
    for (start_some(&crew); crew.nkids > 0; start_some(&crew)) {
        attend(&crew, polls);
        pass_on(&crew);
        if (pool->watch)
            pool->watch(pool->arg, pool);
    }
    pool->is_interrupted = stop_count > 0;
    sigaction(SIGINT, &on_int, NULL);
    sigaction(SIGTERM, &on_term, NULL);
    mem_free(crew.kids);
    mem_free(polls);
}

struct pool_progress pool_progress(const struct pool *pool)
{
    struct pool_progress progress = {.running = pool->ntasks};
    for (size_t i = 0; i < pool->ntasks; i++) {
        enum pool_state state = pool->outcomes[i].state;
        progress.share += state == POOL_ENDED ? 1 : pool->outcomes[i].share;
        progress.nended += state == POOL_ENDED;
        if (state == POOL_RUNNING && progress.running == pool->ntasks)
            progress.running = i;
    }
    progress.share /= (double)pool->ntasks;
    return progress;
}

void pool_release(struct pool *pool)
{
    for (size_t i = 0; pool->outcomes && i < pool->ntasks; i++)
        mem_free(pool->outcomes[i].out);
    mem_free(pool->outcomes);
    pool->outcomes = NULL;
}
