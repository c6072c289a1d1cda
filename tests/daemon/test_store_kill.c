/* test_store_kill.c - killed by SIGKILL at any instant, nothing is lost or
 * half.
 */
#include "base/failpoint.h"
#include "lib/folder.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- attempts, events, reports, meta ------------------------------------- */

struct seen {
    size_t n, most;
    int64_t last;
    char text[256];
};

static bool see_event(void *arg, const struct store_event *event)
{
    struct seen *seen = arg;
    seen->n++;
    seen->last = event->id;
    snprintf(seen->text, sizeof seen->text, "%d %g %s %s", event->job,
             event->at_s, event->kind, event->text);
    return seen->n < seen->most;
}

static bool see_attempt(void *arg, const struct store_attempt *attempt)
{
    struct seen *seen = arg;
    seen->n++;
    seen->last = attempt->number;
    snprintf(seen->text, sizeof seen->text, "%d %g %g %d %d %s", attempt->job,
             attempt->started_s, attempt->ended_s, attempt->end,
             attempt->exit_status, attempt->held);
    return true;
}

/* --- killed -------------------------------------------------------------- */

enum { TURNS = 6 };

/* Each turn: a job, an event, an attempt, a commit, and a byte that says so. */
static void live_dangerously(const char *failpoint_text, int fd)
{
    struct store *store = NULL;
    setenv("FIRN_FAILPOINT", failpoint_text, 1);
    failpoint_state = 2; /* has to look again */
    if (store_open(&store, folder_path(), told, sizeof told, &oops) != FIRN_OK)
        _exit(1);
    for (int i = 0; i < TURNS; i++) {
        struct live_job *job = job_scene(store_next_id(store));
        struct store_event event = {
            .job = job->id, .kind = "submitted", .text = ""};
        struct store_attempt attempt = {.job = job->id,
                                        .number = 1,
                                        .started_s = 1,
                                        .ended_s = 0,
                                        .end = -1,
                                        .exit_status = 0,
                                        .held = ""};
        job->state = LIVE_PENDING;
        if (store_add_job(store, job, &oops) != FIRN_OK ||
            store_add_event(store, &event, &oops) != FIRN_OK)
            _exit(2);
        job->state = LIVE_SUCCEEDED;
        if (store_put_job(store, job, &oops) != FIRN_OK ||
            store_put_attempt(store, &attempt, &oops) != FIRN_OK ||
            store_commit(store, &oops) != FIRN_OK || write(fd, "!", 1) != 1)
            _exit(3);
        live_job_free(job);
    }
    _exit(0);
}

static void check_whole(struct store *store, size_t n)
{
    struct seen events = {.most = 1000};
    assert_int_equal(scene_count(store, true, NULL), n);
    assert_int_equal(scene_count(store, false, NULL), 0);
    store_each_event(store, 0, 1000, see_event, &events, &oops);
    assert_int_equal(events.n, n);
    for (size_t i = 1; i <= n; i++) {
        struct seen attempts = {0};
        store_each_attempt(store, (firn_job_id)i, see_attempt, &attempts,
                           &oops);
        assert_int_equal(attempts.n, 1);
    }
}

static void a_kill_at_any_point_keeps_acknowledged_changes(void **state)
{
    (void)state;
    static const char *const points[] = {"store.commit.before",
                                         "store.commit.after"};
    size_t there = 0;
    for (int run = 0; run < 2 * TURNS; run++) {
        int fd[2], status = 0;
        char point[64], byte = 0;
        size_t acknowledged = there;
        snprintf(point, sizeof point, "%s:%d", points[run % 2], 1 + run / 2);
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        if (pid == 0)
            live_dangerously(point, fd[1]);
        close(fd[1]);
        while (read(fd[0], &byte, 1) == 1)
            acknowledged++;
        close(fd[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct store *store = store_scene();
        assert_string_equal(told, "");
        size_t n = (size_t)store_next_id(store) - 1;
        assert_int_equal(n, acknowledged + (run % 2 == 1));
        check_whole(store, n);
        store_close(store);
        there = n;
    }
    assert_true(there > 2 * TURNS);
}

static void a_kill_at_a_random_instant_leaves_whole_transactions(void **state)
{
    (void)state;
    size_t there = 0;
    for (int run = 0; run < (getenv("FIRN_QUICK") ? 3 : 10); run++) {
        int fd[2], status = 0;
        char byte = 0;
        size_t acknowledged = there;
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        if (pid == 0)
            live_dangerously("none", fd[1]);
        close(fd[1]);
        struct timespec wait = {0, 1500000L * run};
        nanosleep(&wait, NULL);
        kill(pid, SIGKILL);
        while (read(fd[0], &byte, 1) == 1)
            acknowledged++;
        close(fd[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        struct store *store = store_scene();
        assert_string_equal(told, "");
        size_t n = (size_t)store_next_id(store) - 1;
        assert_in_range(n, acknowledged, acknowledged + 1);
        check_whole(store, n);
        store_close(store);
        there = n;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_kill_at_any_point_keeps_acknowledged_changes),
        CASE(a_kill_at_a_random_instant_leaves_whole_transactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
