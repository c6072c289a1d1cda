/* test_tickjob.c - the jobs that tell of doubling would tell.
 */
#define _GNU_SOURCE
#include "engine/attemptfiles.h"
#include "lib/oncejob.h"
#include "lib/tickjob.h"
#include "lib/tickledger.h"
#include <fcntl.h>
#include <firn/launch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH = 400 };

static char folder[PATH / 2];

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.60s/firn-tick-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return oncejob_remove(folder);
}

/* A worker of its own process; its status. */
static int worker(const char *job, const char *node, const char *gpu)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FIRN_JOB", job, 1);
        setenv("FIRN_EPOCH", "1", 1);
        setenv("WORLD_SIZE", "1", 1);
        setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
        setenv("SLURMD_NODENAME", node, 1);
        _exit(tickjob_work(folder, 1));
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void hold(const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
}

static void a_worker_notices_a_second_worker_of_its_job(void **state)
{
    (void)state;
    struct tickjob_line l;
    hold("gpu-n1-3");
    hold("job-8-0");
    assert_int_equal(worker("7", "n1", "3"), 4);
    assert_int_equal(worker("8", "n2", "3"), 4);
    assert_int_equal(worker("7", "n2", "3"), 0);
    assert_true(tickjob_read(folder, 0, &l));
    assert_string_equal(l.what, "gpu");
    assert_int_equal(l.gpu, 3);
    assert_true(tickjob_read(folder, 1, &l));
    assert_string_equal(l.what, "job");
    assert_int_equal(l.job, 8);
    assert_true(tickjob_read(folder, 3, &l));
    assert_string_equal(l.what, "end");
    assert_string_equal(l.node, "n2");
    assert_false(tickjob_read(folder, 4, &l));
}

static bool has_state; /* it is below `folder` */

/* A ledger of two jobs, of which the first has two workers: is it good? */
static bool is_good(const char *text, const struct tickledger_death *death)
{
    char path[PATH], state[PATH], line[TICKJOB_LINE + 1], said[300];
    const int known[] = {0, 1, 1};
    size_t n;
    snprintf(state, sizeof state, "%s/state", folder);
    struct tickledger ledger = {.folder = folder,
                                .state = has_state ? state : NULL,
                                .known = known,
                                .njobs = 3,
                                .deaths = death,
                                .ndeaths = death != NULL};
    snprintf(path, sizeof path, "%s/ledger", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
        snprintf(line, sizeof line, "%-71.*s\n", (int)strcspn(text, "\n"),
                 text);
        fputs(line, f);
    }
    fclose(f);
    return tickledger_is_good(&ledger, &n, said);
}

#define OTHER "2 1 0 1 0 begin n0 1\n2 1 0 1 0 end n0 2\n"
#define FIRST "1 1 0 2 0 begin n1 1\n1 1 1 2 1 begin n1 1\n"
#define ENDS  "1 1 0 2 0 end n1 5\n1 1 1 2 1 end n1 5\n"
#define AGAIN "1 2 0 1 0 begin n2 7\n1 2 0 1 0 end n2 7\n"

static void the_ledger_shows_lost_and_doubled_ticks(void **state)
{
    (void)state;
    const struct tickledger_death death = {"n1", 5.5, 6}, late = {"n1", 7, 8};
    assert_true(is_good(OTHER FIRST ENDS, NULL));
    assert_true(is_good(OTHER FIRST AGAIN, NULL));
    assert_false(is_good(OTHER FIRST, NULL));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, NULL));
    assert_true(is_good(OTHER FIRST ENDS AGAIN, &death));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &late));
    assert_false(is_good(OTHER AGAIN FIRST ENDS, NULL));
    assert_false(is_good(OTHER FIRST ENDS "1 1 1 2 1 gpu n1 4\n", NULL));
    assert_false(is_good(OTHER FIRST ENDS "3 1 0 1 0 begin n2 7\n", NULL));
}

static void make(const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* How attempt 1 of job 1 ended. */
static void write_exit(enum firn_end end, int status)
{
    char path[PATH];
    struct firn_error err;
    snprintf(path, sizeof path, "%s/state/control/1", folder);
    int fd = attempt_folder(path, 1, false);
    assert_true(fd >= 0);
    assert_int_equal(attempt_exit_reserve(fd, &err), FIRN_OK);
    assert_int_equal(
        attempt_exit_put(fd, &(struct attempt_exit){1, (int)end, status}, &err),
        FIRN_OK);
    close(fd);
}

/* A node dies long after the end was reported: does the end count? */
static void an_end_without_a_written_record_does_not_count(void **state)
{
    (void)state;
    const struct tickledger_death other = {"n2", 20, 21},
                                  death = {"n1", 20, 21}, before = {"n1", 3, 4},
                                  controller = {"", 20, 21},
                                  one_before = {"", 3, 4};
    has_state = true;
    make("state");
    make("state/control");
    make("state/control/1");
    make("state/control/1/epoch-1");
    assert_true(is_good(OTHER FIRST ENDS AGAIN, &death));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &other));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &before));
    assert_true(is_good(OTHER FIRST ENDS AGAIN, &controller));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &one_before));
    write_exit(FIRN_END_KILLED, 143); /* behind its last line */
    assert_true(is_good(OTHER FIRST ENDS AGAIN, &death));
    assert_true(is_good(OTHER FIRST ENDS AGAIN, &controller));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &other));
    write_exit(FIRN_END_DONE, 0);
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &death));
    assert_false(is_good(OTHER FIRST ENDS AGAIN, &controller));
    has_state = false;
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(
            a_worker_notices_a_second_worker_of_its_job, make_folder,
            remove_folder),
        cmocka_unit_test_setup_teardown(the_ledger_shows_lost_and_doubled_ticks,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(
            an_end_without_a_written_record_does_not_count, make_folder,
            remove_folder),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
