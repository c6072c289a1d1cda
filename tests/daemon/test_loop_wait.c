/* test_loop_wait.c - the loop waits until something is due, and no longer,
 * though it may stand still at any point on its way to sleep.
 *
 * uv_run() is ours here: it stands still for longer than the loop wants to wait
 * before it is libuv's. The alarm ends a loop that sleeps on.
 */
#define _GNU_SOURCE
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum { LONGEST_S = 120 };

static struct {
    struct firn_engine_def def;
    struct loop *loop;
    double now_s;
    int fd, nturns;
} engine; /* the scene's, with a time that stands and a descriptor */

int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    int (*libuvs)(uv_loop_t *, uv_run_mode);
    void *found = dlsym(RTLD_NEXT, "uv_run");
    assert_non_null(found);
    memcpy(&libuvs, &found, sizeof libuvs);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return libuvs(loop, mode);
}

static double now_s(void *state)
{
    (void)state;
    return engine.now_s;
}

static int wake_fd(void *state)
{
    (void)state;
    return engine.fd;
}

/* Nothing happens; three turns are enough. */
static bool next(void *state, double until_s, struct firn_event *out,
                 struct firn_error *err)
{
    (void)state;
    (void)until_s;
    (void)out;
    (void)err;
    if (++engine.nturns == 3)
        loop_stop(engine.loop);
    return false;
}

static void what_is_due_while_we_stand_still_is_not_slept_through(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    firn_job_id id =
        loopscene_submit(&s, "a", "gpus: 1\nretry: {on: [failure], max: 1}")
            ->id;
    loopscene_turn(&s);
    loopscene_fail(&s, "a", FIRN_END_FAILED, 1);
    double again_s = desk_track(&s.loop->desk, id)->again_s;
    assert_true(again_s > 0);
    engine.def = *s.loop->dock.engine;
    engine.def.now_s = now_s;
    engine.def.wake_fd = wake_fd;
    engine.def.next = next;
    engine.loop = s.loop;
    engine.now_s = again_s - 0.001; /* so long a turn wants to wait */
    engine.fd = eventfd(0, EFD_CLOEXEC);
    s.loop->dock.engine = &engine.def;
    alarm(LONGEST_S);
    assert_int_equal(loop_run(s.loop, &err), FIRN_OK);
    alarm(0);
    assert_int_equal(engine.nturns, 3);
    close(engine.fd);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_is_due_while_we_stand_still_is_not_slept_through, folder_make,
            loopscene_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
