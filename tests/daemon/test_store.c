/* test_store.c - what was committed is there again, whole, and nothing else.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/storework.h"
#include "lib/folder.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void a_job_comes_back_as_it_was_written(void **state)
{
    (void)state;
    unsigned nflags = 1;
    for (unsigned bit = 0; bit <= nflags; bit++) {
        struct store *store = store_scene();
        struct live_job *job = job_scene(store_next_id(store)), *back = NULL;
        nflags = job_set_flags(job, 1ull << bit);
        scene_add(store, job);
        scene_commit(store);
        store_close(store);
        store = store_scene();
        assert_int_equal(store_read_job(store, job->id, &back, &oops), FIRN_OK);
        assert_true(job_same(job, back));
        back->ask.target_metric += 1;
        struct firn_buf x = job_as_text(job), y = job_as_text(back);
        assert_string_not_equal(x.at, y.at);
        buf_release(&x);
        buf_release(&y);
        live_job_free(job);
        live_job_free(back);
        store_close(store);
    }
}

static void every_changed_field_comes_back(void **state)
{
    (void)state;
    struct store *store = store_scene();
    struct live_job *job = job_scene(1), *back = NULL;
    scene_add(store, job);
    job->ask.priority = 99;
    job->ask.gpus_min = 2;
    job->ask.gpus_max = 4;
    job->ask.mem_gib = 40;
    job->started_s = job->ended_s = job->reported_s = 1e9;
    job->state = LIVE_FAILED;
    job->reason = LIVE_BECAUSE_EXIT;
    job->is_held = job->is_ending = true;
    job->attempt = job->reported_attempt = 1ll << 40;
    job->nretries = job->exit_status = 3;
    mem_free(job->held);
    job->held = mem_strdup("-");
    str_copy(job->why, sizeof job->why, "status 3");
    job->last.progress = 0.5;
    job->orders.nfrozen = 4;
    assert_int_equal(store_put_job(store, job, &oops), FIRN_OK);
    scene_commit(store);
    assert_int_equal(store_read_job(store, 1, &back, &oops), FIRN_OK);
    assert_true(job_same(job, back));
    assert_int_equal(scene_count(store, false, NULL), 0);
    assert_int_equal(scene_count(store, true, NULL), 1);
    live_job_free(job);
    live_job_free(back);
    assert_int_equal(store_read_job(store, 2, &back, &oops), FIRN_ENOENT);
    assert_string_equal(oops.text, "there is no job 2");
    store_close(store);
}

static void only_committed_changes_are_in_the_file(void **state)
{
    (void)state;
    struct store *store = store_scene();
    struct live_job *one = job_scene(1), *two = job_scene(2);
    assert_int_equal(store_next_id(store), 1);
    assert_false(store_has_changes(store));
    scene_add(store, one);
    assert_true(store_has_changes(store));
    scene_commit(store);
    assert_false(store_has_changes(store));
    scene_add(store, two);
    assert_int_equal(store_next_id(store), 3);
    assert_int_equal(scene_count(store, true, NULL), 2);
    store_rollback(store);
    assert_int_equal(store_rollbacks(store), 1);
    assert_int_equal(store_next_id(store), 2);
    assert_int_equal(scene_count(store, true, NULL), 1);
    scene_add(store, two);
    store_close(store);
    store = store_scene();
    assert_int_equal(scene_count(store, true, NULL), 1);
    assert_int_equal(store_next_id(store), 2);
    live_job_free(one);
    live_job_free(two);
    store_close(store);
}

static void a_failed_transaction_is_rolled_back_and_reported_at_commit(void **s)
{
    (void)s;
    struct store *store = store_scene();
    struct live_job *job = job_scene(1);
    struct store_event event = {.kind = "k", .text = "t"};
    scene_add(store, job);
    scene_commit(store);
    assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
    assert_int_equal(store_add_job(store, job, &oops),
                     FIRN_EIO); /* once more */
    assert_non_null(strstr(oops.text, "UNIQUE"));
    assert_int_equal(store_rollbacks(store), 1);
    assert_int_equal(scene_count(store, true, NULL), 1);
    /* Another change would be taken for the whole: it is refused. */
    assert_true(store_has_changes(store));
    assert_int_equal(store_add_event(store, &event, &oops), FIRN_EIO);
    assert_int_equal(store_commit(store, &oops), FIRN_EIO);
    assert_non_null(strstr(oops.text, "rolled back"));
    assert_int_equal(store_last_event(store), 0);
    /* Then life goes on. */
    job->id = store_next_id(store);
    assert_int_equal(job->id, 2);
    mem_free(job->request);
    job->request = mem_strdup("");
    scene_add(store, job);
    scene_commit(store);
    assert_int_equal(scene_count(store, true, NULL), 2);
    live_job_free(job);
    store_close(store);
}

/* In a process of its own, whose files may not grow. */
static int fill_up(void)
{
    struct store *store = NULL;
    struct rlimit limit = {0};
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, folder_path(), told, sizeof told, &oops) != FIRN_OK)
        return 10;
    struct live_job *job = job_scene(1);
    if (store_add_job(store, job, &oops) != FIRN_OK ||
        store_commit(store, &oops) != FIRN_OK)
        return 11;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 1000000;
    setrlimit(RLIMIT_FSIZE, &limit);
    int ngood = 0;
    for (enum firn_status status = FIRN_OK; status == FIRN_OK; ngood++) {
        struct firn_buf request = {0};
        buf_printf(&request, "%d", ngood);
        mem_free(job->request);
        job->request = request.at;
        job->id++;
        status = store_add_job(store, job, &oops);
        if (status == FIRN_OK)
            status = store_commit(store, &oops);
    }
    live_job_free(job);
    store_close(store);
    return ngood < 2 || ngood > 200 ? 12 : ngood; /* the last failed */
}

static void a_full_disk_at_commit_loses_that_transaction_only(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fill_up());
    int ngood = scene_wait(pid);
    assert_true(ngood > 12);
    struct store *store = store_scene();
    assert_int_equal(scene_count(store, true, NULL), ngood);
    assert_string_equal(told, "");
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_comes_back_as_it_was_written),
        CASE(every_changed_field_comes_back),
        CASE(only_committed_changes_are_in_the_file),
        CASE(a_failed_transaction_is_rolled_back_and_reported_at_commit),
        CASE(a_full_disk_at_commit_loses_that_transaction_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
