/* fakefirnd.c - a daemon for tests of commands: with prepared answers. */
#include "fakefirnd.h"
#include "base/str.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* --- the server ----------------------------------------------------------- */

/* Under the lock. */
static struct fake_route find_route(const struct fake *f, const char *what)
{
    for (int i = 0; i < f->nroutes; i++)
        if (strcmp(f->routes[i].what, what) == 0)
            return f->routes[i];
    return (struct fake_route){
        what, 404,
        "{\"error\": {\"code\": \"x\", \"text\": \"no answer is prepared\"}}",
        true};
}

static void serve(struct fake *f, int fd)
{
    static char text[1 << 15];
    char head[256];
    struct fake_request one = {0};
    char *body = listener_hear(&f->at, fd, text, sizeof text);
    if (body == NULL)
        return;
    str_copy(one.body, sizeof one.body, body);
    body[-1] = '\0';
    str_copy(one.head, sizeof one.head, text);
    size_t n = strcspn(text, " ");
    n += 1 + strcspn(text + n + 1, " ");
    text[n] = '\0';
    str_copy(one.what, sizeof one.what, text);
    pthread_mutex_lock(&f->lock);
    if (f->nrequests < FAKE_REQUESTS)
        f->requests[f->nrequests++] = one;
    struct fake_route route = find_route(f, one.what);
    bool is_dropped = f->ndrops > 0, is_silent = f->is_silent;
    f->ndrops -= is_dropped;
    pthread_mutex_unlock(&f->lock);
    if (is_silent)
        listener_wait(&f->at, fd, POLLIN, -1);
    if (is_silent || is_dropped)
        return;
    int m = snprintf(head, sizeof head,
                     "HTTP/1.1 %d Told so\r\nContent-Type: "
                     "application/json\r\nConnection: close\r\n\r\n",
                     route.status);
    if (listener_say(&f->at, fd, head, (size_t)m) &&
        listener_say(&f->at, fd, route.body, strlen(route.body)) && !route.ends)
        listener_wait(&f->at, fd, POLLIN, -1);
}

static void *run(void *arg)
{
    struct fake *f = arg;
    for (int fd; (fd = listener_accept(&f->at)) >= 0; close(fd))
        serve(f, fd);
    return NULL;
}

void fake_start(struct fake *fake, const char *path)
{
    memset(fake, 0, sizeof *fake);
    pthread_mutex_init(&fake->lock, NULL);
    listener_open(&fake->at, path);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

void fake_stop(struct fake *fake)
{
    listener_stop(&fake->at);
    pthread_join(fake->thread, NULL);
    listener_close(&fake->at);
    pthread_mutex_destroy(&fake->lock);
}

static void tell(struct fake *fake, struct fake_route route)
{
    int i = 0;
    pthread_mutex_lock(&fake->lock);
    while (i < fake->nroutes && strcmp(fake->routes[i].what, route.what) != 0)
        i++;
    assert_true(i < FAKE_ROUTES);
    fake->routes[i] = route;
    fake->nroutes += i == fake->nroutes;
    pthread_mutex_unlock(&fake->lock);
}

void fake_tell(struct fake *fake, const char *what, int status,
               const char *body)
{
    tell(fake, (struct fake_route){what, status, body, true});
}

void fake_tell_open(struct fake *fake, const char *what, const char *body)
{
    tell(fake, (struct fake_route){what, 200, body, false});
}

void fake_drop(struct fake *fake, int nrequests)
{
    pthread_mutex_lock(&fake->lock);
    fake->ndrops = nrequests;
    pthread_mutex_unlock(&fake->lock);
}

void fake_silence(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    fake->is_silent = true;
    pthread_mutex_unlock(&fake->lock);
}

bool fake_request(struct fake *fake, int i, struct fake_request *out)
{
    pthread_mutex_lock(&fake->lock);
    bool is_there = i < fake->nrequests;
    if (is_there)
        *out = fake->requests[i];
    pthread_mutex_unlock(&fake->lock);
    return is_there;
}

int fake_count(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    int n = fake->nrequests;
    pthread_mutex_unlock(&fake->lock);
    return n;
}

/* --- the program ---------------------------------------------------------- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pid_t start(const char *const *argv, const char *in, int ends[2][2])
{
    FILE *input = tmpfile();
    assert_non_null(input);
    fputs(in != NULL ? in : "", input);
    rewind(input);
    assert_int_equal(pipe(ends[0]), 0);
    assert_int_equal(pipe(ends[1]), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(input), 0);
        for (int i = 0; i < 2; i++) {
            dup2(ends[i][1], i + 1);
            close(ends[i][0]);
            close(ends[i][1]);
        }
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    fclose(input);
    close(ends[0][1]);
    close(ends[1][1]);
    return pid;
}

/* Reads both ends until they are closed; false: `until` has been printed, or
 * the time is up. */
static bool read_both(struct ran *ran, int ends[2][2], size_t n[2],
                      const char *until, double until_s)
{
    char *to[2] = {ran->out, ran->err};
    size_t max[2] = {sizeof ran->out - 1, sizeof ran->err - 1};
    struct pollfd fds[2] = {{ends[0][0], POLLIN, 0}, {ends[1][0], POLLIN, 0}};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        double left_s = until_s - now_s();
        if (left_s <= 0 || (until != NULL && (strstr(ran->out, until) ||
                                              strstr(ran->err, until))))
            return false;
        if (poll(fds, 2, (int)(left_s * 1000) + 1) <= 0)
            continue;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            assert_true(n[i] < max[i]);
            ssize_t got = read(fds[i].fd, to[i] + n[i], max[i] - n[i]);
            if (got <= 0)
                fds[i].fd = -1;
            else
                n[i] += (size_t)got;
        }
    }
    return true;
}

void run_program(struct ran *ran, const char *const *argv, const char *in,
                 const char *until)
{
    int ends[2][2], status = 0;
    size_t n[2] = {0, 0};
    memset(ran, 0, sizeof *ran);
    pid_t pid = start(argv, in, ends);
    double end_s = now_s() + 300;
    bool is_over = until != NULL && read_both(ran, ends, n, until, end_s);
    if (until != NULL)
        kill(pid, SIGINT);
    if (!is_over && !read_both(ran, ends, n, NULL, end_s))
        kill(pid, SIGKILL);
    close(ends[0][0]);
    close(ends[1][0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ran->status =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
