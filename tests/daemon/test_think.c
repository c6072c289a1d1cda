/* test_think.c - a decision in a thread of its own: who is answered meanwhile,
 * and that the decision is the same.
 *
 * The policy here thinks until it is allowed to go on. A client in a third
 * thread asks while it thinks; the case's own thread is the loop's.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 240 };

/* --- a policy that thinks for long --------------------------------------- */

static sem_t thinks, may_go_on;
static bool is_slow;

static bool wait_for(sem_t *semaphore)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += LIMIT_S;
    return sem_timedwait(semaphore, &limit) == 0;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    if (is_slow) {
        is_slow = false;
        sem_post(&thinks);
        wait_for(&may_go_on);
    }
    firn_plan_keep_all(plan);
    const struct firn_job *const *waiting = firn_view_waiting(view);
    for (size_t i = 0; i < view->nwaiting; i++)
        firn_plan_give(plan, waiting[i], waiting[i]->spec.gpus);
    return FIRN_OK;
}

static const struct firn_policy_def slow = {
    .name = "fifo", .summary = "thinks for long", .decide = decide};

/* --- a client ------------------------------------------------------------ */

struct client {
    int fd;
    char answer[20000];
    size_t n;
};

static void call(struct client *client, const char *path, const char *method,
                 const char *target, const char *body)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[1000];
    int n = snprintf(text, sizeof text,
                     "%s /v1%s HTTP/1.1\r\nHost: firn\r\nConnection: close\r\n"
                     "Idempotency-Key: one\r\nContent-Length: %zu\r\n\r\n%s",
                     method, target, strlen(body), body);
    client->n = 0;
    client->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (connect(client->fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        write(client->fd, text, (size_t)n) != n)
        abort();
}

/* The whole answer, within a limit; "": none came. */
static const char *hear(struct client *client, int limit_ms)
{
    struct pollfd fd = {.fd = client->fd, .events = POLLIN};
    ssize_t n = 1;
    while (n > 0 && poll(&fd, 1, limit_ms) == 1) {
        n = read(client->fd, client->answer + client->n,
                 sizeof client->answer - 1 - client->n);
        client->n += n > 0 ? (size_t)n : 0;
    }
    client->answer[client->n] = '\0';
    return client->answer;
}

/* What it saw while the policy thought. */
struct meanwhile {
    char path[200];
    bool saw_thinking;
    int submitted, again, health; /* status codes; 0: no answer */
    bool list_came;               /* before the end */
    struct client list;
};

static int status_of(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

static int ask(const char *path, const char *method, const char *target,
               const char *body)
{
    struct client client;
    call(&client, path, method, target, body);
    int status = status_of(hear(&client, LIMIT_S * 500));
    close(client.fd);
    return status;
}

static void *ask_meanwhile(void *arg)
{
    static const char job[] = "name: late\nrun: [/bin/true]\ngpus: 1\n";
    struct meanwhile *m = arg;
    m->saw_thinking = wait_for(&thinks);
    call(&m->list, m->path, "GET", "/jobs", "");
    m->submitted = ask(m->path, "POST", "/jobs", job);
    m->again = ask(m->path, "POST", "/jobs", job);
    m->health = ask(m->path, "GET", "/health", "");
    struct pollfd fd = {.fd = m->list.fd, .events = POLLIN};
    m->list_came = poll(&fd, 1, 0) != 0;
    sem_post(&may_go_on);
    return NULL;
}

/* --- scenes -------------------------------------------------------------- */

static void open_slow(struct loopscene *s, const char *gpus, size_t think_from)
{
    struct firn_error err = {0};
    loopscene_play.hears = true;
    loopscene_open(s, gpus, "fifo", false);
    s->loop->desk.think_from = think_from;
    assert_int_equal(loop_new_round(s->loop, &slow, &err), FIRN_OK);
    sem_init(&thinks, 0, 0);
    sem_init(&may_go_on, 0, 0);
    is_slow = false;
}

static void answers_meanwhile(void **state, struct meanwhile *m,
                              struct loopscene *s)
{
    pthread_t thread;
    (void)state;
    open_slow(s, "1x1:v100@16", 0);
    snprintf(m->path, sizeof m->path, "%s", folder_file("s"));
    loopscene_submit(s, "first", "gpus: 1");
    is_slow = true;
    assert_int_equal(pthread_create(&thread, NULL, ask_meanwhile, m), 0);
    loopscene_turn(s);
    pthread_join(thread, NULL);
    loopscene_turn(s);
}

static void a_submit_is_answered_while_the_policy_thinks(void **state)
{
    static struct meanwhile m;
    struct loopscene s;
    answers_meanwhile(state, &m, &s);
    assert_true(m.saw_thinking);
    assert_int_equal(m.submitted, 201);
    assert_int_equal(m.again, 200); /* the same job: it was on disk */
    assert_int_equal(m.health, 200);
    close(m.list.fd);
    loopscene_close(&s);
}

static void other_requests_wait_and_see_what_was_decided(void **state)
{
    static struct meanwhile m;
    struct loopscene s;
    answers_meanwhile(state, &m, &s);
    assert_false(m.list_came);
    const char *list = hear(&m.list, 0);
    for (int i = 0; i < 100 && status_of(list) == 0; i++) {
        loopscene_turn(&s);
        list = hear(&m.list, 10);
    }
    assert_int_equal(status_of(list), 200);
    assert_non_null(strstr(list, "n0[0]"));
    assert_non_null(strstr(list, "\"late\""));
    close(m.list.fd);
    loopscene_close(&s);
}

static void
who_came_meanwhile_enters_the_round_behind_the_decision(void **state)
{
    static struct meanwhile m;
    struct loopscene s;
    answers_meanwhile(state, &m, &s);
    assert_string_equal(loopscene_text(&s),
                        "first running n0[0]; late pending -");
    loopscene_done(&s, "first");
    assert_string_equal(loopscene_text(&s),
                        "first succeeded -; late running n0[0]");
    close(m.list.fd);
    loopscene_close(&s);
}

/* The same jobs and ends under icefrog, with and without a thread. */
static void play(size_t think_from, char *out, size_t max)
{
    struct loopscene s;
    size_t n = 0;
    loopscene_play.hears = true;
    loopscene_open(&s, "2x4:v100@16", "icefrog", false);
    s.loop->desk.think_from = think_from;
    for (int i = 0; i < 20; i++) {
        char name[16], lines[100];
        snprintf(name, sizeof name, "j%02d", i);
        snprintf(lines, sizeof lines,
                 "gpus: 1..%d\nduration: %dm\ncheckpoint: {grace: 10}\n"
                 "elastic: {consistency: D0}",
                 1 + i % 4, 5 + i);
        loopscene_submit(&s, name, lines);
        loopscene_pass(&s, 40);
        n += (size_t)snprintf(out + n, max - n, "%s\n", loopscene_text(&s));
    }
    loopscene_close(&s);
    loopscene_remove_state();
}

static void a_decision_is_the_same_with_a_thread_and_without(void **state)
{
    static char with[60000], without[60000];
    (void)state;
    play(0, with, sizeof with);
    play(SIZE_MAX, without, sizeof without);
    assert_string_equal(with, without);
    assert_non_null(strstr(with, "running"));
}

static void a_write_that_fails_meanwhile_ends_the_loop(void **state)
{
    static struct meanwhile m;
    struct loopscene s;
    struct firn_error err = {0};
    double next_s = 0;
    pthread_t thread;
    (void)state;
    open_slow(&s, "1x1:v100@16", 0);
    snprintf(m.path, sizeof m.path, "%s", folder_file("s"));
    loopscene_submit(&s, "first", "gpus: 1");
    loopscene_play.is_stuck = true; /* no start that needs the disk */
    store_rollback(s.loop->store); /* memory is ahead of the disk from now on */
    is_slow = true;
    assert_int_equal(pthread_create(&thread, NULL, ask_meanwhile, &m), 0);
    enum firn_status status = FIRN_OK;
    for (int i = 0; i < 20 && status == FIRN_OK; i++)
        status = loop_turn(s.loop, &next_s, &err);
    pthread_join(thread, NULL);
    assert_int_not_equal(status, FIRN_OK);
    assert_int_not_equal(m.submitted, 201);
    close(m.list.fd);
    loopscene_kill(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_submit_is_answered_while_the_policy_thinks),
        CASE(other_requests_wait_and_see_what_was_decided),
        CASE(who_came_meanwhile_enters_the_round_behind_the_decision),
        CASE(a_decision_is_the_same_with_a_thread_and_without),
        CASE(a_write_that_fails_meanwhile_ends_the_loop),
    };
    return cmocka_run_group_tests_name("daemon/think", tests, NULL, NULL);
}
