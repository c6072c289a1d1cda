/* test_store_lists.c - events, starts, reports, names, and small things.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/storework.h"
#include "tests/daemon/storescene.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

/* All events and reports that are older, a few at a time. */
static void trim(struct store *store, double before_s)
{
    for (int list = STORE_EVENTS; list <= STORE_REPORTS; list++)
        for (struct store_trim at = {0}; !at.is_done;)
            assert_int_equal(store_trim(store, (enum store_list)list, before_s,
                                        3, &at, &oops),
                             FIRN_OK);
}

static void numbers_of_events_are_never_used_twice(void **state)
{
    (void)state;
    struct store *store = store_scene();
    for (int i = 1; i <= 10; i++) {
        struct store_event event = {
            .at_s = i, .job = FIRN_NO_JOB, .kind = "k'", .text = "t\"%s"};
        assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
        assert_int_equal(event.id, i);
    }
    scene_commit(store);
    struct seen seen = {.most = 100};
    store_each_event(store, 4, 3, see_event, &seen, &oops);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.last, 7);
    assert_string_equal(seen.text, "-1 7 k' t\"%s");
    seen = (struct seen){.most = 2};
    store_each_event(store, 0, 100, see_event, &seen, &oops);
    assert_int_equal(seen.n, 2);
    trim(store, 5);
    scene_commit(store);
    seen = (struct seen){.most = 100};
    store_each_event(store, 0, 100, see_event, &seen, &oops);
    assert_int_equal(seen.n, 6);
    trim(store, 1e9);
    scene_commit(store);
    store_close(store);
    store = store_scene();
    struct store_event event = {.kind = "", .text = ""};
    assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
    assert_int_equal(event.id, 11);
    store_close(store);
}

/* Pages of deleted rows are used again. */
static void a_file_that_is_trimmed_stops_growing(void **state)
{
    (void)state;
    enum { CYCLES = 6, EVENTS = 5000 };
    struct store *store = store_scene();
    struct stat st;
    long long sizes[CYCLES];
    double at_s = 0;
    for (int i = 0; i < CYCLES; i++) {
        for (int k = 0; k < EVENTS; k++) {
            struct store_event event = {.at_s = ++at_s,
                                        .job = FIRN_NO_JOB,
                                        .kind = "kind",
                                        .text = "a sentence of some length"};
            assert_int_equal(store_add_event(store, &event, &oops), FIRN_OK);
        }
        scene_commit(store);
        trim(store, at_s - EVENTS);
        scene_commit(store);
        assert_int_equal(sqlite3_wal_checkpoint_v2(store->db, NULL,
                                                   SQLITE_CHECKPOINT_TRUNCATE,
                                                   NULL, NULL),
                         SQLITE_OK);
        assert_int_equal(stat(store->path, &st), 0);
        sizes[i] = (long long)st.st_size;
    }
    print_message("%lld, %lld, then %lld bytes\n", sizes[0], sizes[1],
                  sizes[CYCLES - 1]);
    assert_true(sizes[CYCLES - 1] <= sizes[1] + sizes[1] / 10);
    store_close(store);
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

static void an_attempt_that_is_written_twice_is_kept_once(void **state)
{
    (void)state;
    struct store *store = store_scene();
    struct store_attempt attempt = {.job = 7,
                                    .number = 1,
                                    .started_s = 10,
                                    .ended_s = 0,
                                    .end = -1,
                                    .exit_status = 0,
                                    .held = "n0[1]"};
    assert_int_equal(store_put_attempt(store, &attempt, &oops), FIRN_OK);
    attempt = (struct store_attempt){.job = 7,
                                     .number = 1,
                                     .started_s = 10,
                                     .ended_s = 20,
                                     .end = FIRN_END_FAILED,
                                     .exit_status = 9,
                                     .held = "n0[1]"};
    assert_int_equal(store_put_attempt(store, &attempt, &oops), FIRN_OK);
    attempt.job = 8;
    assert_int_equal(store_put_attempt(store, &attempt, &oops), FIRN_OK);
    struct seen seen = {0};
    store_each_attempt(store, 7, see_attempt, &seen, &oops);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.text, "7 10 20 2 9 n0[1]");
    store_close(store);
}

static bool see_report(void *arg, int64_t attempt, double at_s,
                       const struct firn_trainer_report *report)
{
    struct seen *seen = arg;
    seen->n++;
    snprintf(seen->text, sizeof seen->text, "%lld %g %g %g", (long long)attempt,
             at_s, report->progress,
             report->variance != NULL ? report->variance[1] : -1);
    return true;
}

static void reports_come_back_in_their_order(void **state)
{
    (void)state;
    struct store *store = store_scene();
    const double variance[] = {1, 0.1};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    for (int i = 1; i <= 3; i++) {
        report.progress = 0.1 * i;
        report.variance = i == 3 ? variance : NULL;
        report.nlayers = i == 3 ? 2 : 0;
        assert_int_equal(store_add_report(store, 7, 2, i, &report, &oops),
                         FIRN_OK);
    }
    struct seen seen = {0};
    assert_int_equal(store_each_report(store, 7, see_report, &seen, &oops),
                     FIRN_OK);
    assert_int_equal(seen.n, 3);
    assert_string_equal(seen.text, "2 3 0.3 0.1");
    seen.n = 0;
    store_each_report(store, 8, see_report, &seen, &oops);
    assert_int_equal(seen.n, 0);
    store_close(store);
}

static void settings_are_kept_by_name(void **state)
{
    (void)state;
    struct store *store = store_scene();
    struct firn_buf out = {0};
    assert_int_equal(store_get_meta(store, "policy", &out, &oops), FIRN_ENOENT);
    assert_int_equal(
        store_put_meta(store, "policy", (struct firn_bytes){"a\0b", 3}, &oops),
        FIRN_OK);
    assert_int_equal(
        store_put_meta(store, "empty", (struct firn_bytes){NULL, 0}, &oops),
        FIRN_OK);
    scene_commit(store);
    assert_int_equal(store_get_meta(store, "policy", &out, &oops), FIRN_OK);
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.at, "a\0b", 3);
    assert_int_equal(store_get_meta(store, "empty", &out, &oops), FIRN_OK);
    assert_int_equal(out.n, 3);
    buf_release(&out);
    store_close(store);
}

/* --- rows that cannot be understood -------------------------------------- */

static void a_row_that_cannot_be_understood_is_left_out_and_counted(void **s)
{
    (void)s;
    static const char *const harm[] = {
        "UPDATE jobs SET state = 'dancing' WHERE id = 1",
        "UPDATE jobs SET reason = NULL WHERE id = 1",
        "UPDATE jobs SET argv = x'6161' WHERE id = 1",
        "UPDATE jobs SET last = '{\"progress\":' WHERE id = 1",
        "UPDATE jobs SET orders = 'no' WHERE id = 1",
        "UPDATE jobs SET user = NULL WHERE id = 1",
    };
    struct store *store = store_scene();
    struct live_job *job = job_scene(1), *back = NULL;
    scene_add(store, job);
    job->id = 2;
    job->request[0] = 'u';
    scene_add(store, job);
    scene_commit(store);
    live_job_free(job);
    size_t nbad = 0, nharmed = 0;
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        sqlite3_exec(store->db, "SAVEPOINT one", NULL, NULL, NULL);
        /* NOT NULL keeps one of them out by itself. */
        if (sqlite3_exec(store->db, harm[i], NULL, NULL, NULL) == SQLITE_OK) {
            nharmed++;
            assert_int_equal(scene_count(store, true, &nbad), 1);
            assert_int_equal(nbad, 1);
            assert_int_equal(store_read_job(store, 1, &back, &oops),
                             FIRN_EDATA);
        }
        sqlite3_exec(store->db, "ROLLBACK TO one", NULL, NULL, NULL);
        sqlite3_exec(store->db, "RELEASE one", NULL, NULL, NULL);
    }
    assert_int_equal(nharmed, 5);
    assert_int_equal(scene_count(store, true, &nbad), 2);
    assert_int_equal(nbad, 0);
    store_close(store);
}

/* --- requests and names -------------------------------------------------- */

static void named(struct store *store, firn_job_id id, const char *name,
                  const char *user, enum live_state state)
{
    struct live_job *job = job_scene(id);
    mem_free(job->ask.name);
    mem_free(job->ask.user);
    job->ask.name = mem_strdup(name);
    job->ask.user = mem_strdup(user);
    mem_free(job->request);
    job->request = mem_strdup(id == 1 ? "" : "r1");
    job->state = state;
    scene_add(store, job);
    live_job_free(job);
}

static void a_request_id_belongs_to_its_user(void **state)
{
    (void)state;
    struct store *store = store_scene();
    firn_job_id id = 0;
    named(store, 1, "a", "ann", LIVE_PENDING);
    named(store, 2, "a", "ann", LIVE_PENDING);
    named(store, 3, "a", "bob", LIVE_PENDING);
    store_find_request(store, "ann", "r1", &id, &oops);
    assert_int_equal(id, 2);
    store_find_request(store, "bob", "r1", &id, &oops);
    assert_int_equal(id, 3);
    store_find_request(store, "bob", "r2", &id, &oops);
    assert_int_equal(id, FIRN_NO_JOB);
    store_find_request(store, "ann", "", &id, &oops); /* is no request */
    assert_int_equal(id, FIRN_NO_JOB);
    store_close(store);
}

static bool see_name(void *arg, const char *name, firn_job_id newest)
{
    struct firn_buf *out = arg;
    buf_printf(out, "%s=%d ", name, newest);
    return true;
}

static void names_are_found_by_their_beginning(void **state)
{
    (void)state;
    static const char *const words[] = {"res", "resnet-", "x", "RES", ""};
    static const char *const want[] = {"resnet-18=5 resnet-50=2 ",
                                       "resnet-18=5 resnet-50=2 ", "", "",
                                       "resnet-18=5 resnet-50=2 "};
    struct store *store = store_scene();
    named(store, 1, "resnet-50", "a", LIVE_PENDING);
    named(store, 2, "resnet-50", "b", LIVE_RUNNING);
    named(store, 3, "respite", "c", LIVE_FAILED);
    named(store, 4, "bert", "d", LIVE_FAILED);
    named(store, 5, "resnet-18", "e", LIVE_PENDING);
    for (size_t i = 0; i < 5; i++) {
        struct firn_buf out = {0};
        buf_puts(&out, "");
        store_find_prefix(store, words[i], false, see_name, &out, &oops);
        assert_string_equal(out.at, want[i]);
        buf_release(&out);
    }
    struct firn_buf out = {0};
    store_find_prefix(store, "resp", true, see_name, &out, &oops);
    assert_string_equal(out.at, "respite=3 ");
    buf_release(&out);
    firn_job_id id = 0;
    store_find_name(store, "resnet-50", &id, &oops);
    assert_int_equal(id, 2);
    store_find_name(store, "resnet", &id, &oops);
    assert_int_equal(id, FIRN_NO_JOB);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(numbers_of_events_are_never_used_twice),
        CASE(a_file_that_is_trimmed_stops_growing),
        CASE(an_attempt_that_is_written_twice_is_kept_once),
        CASE(reports_come_back_in_their_order),
        CASE(settings_are_kept_by_name),
        CASE(a_row_that_cannot_be_understood_is_left_out_and_counted),
        CASE(a_request_id_belongs_to_its_user),
        CASE(names_are_found_by_their_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
