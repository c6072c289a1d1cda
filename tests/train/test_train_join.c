/* test_train_join.c - training that is resized while it goes on.
 *
 * The bits of a run (all sections of its last checkpoint) must be those of a
 * run that was never resized, whatever joined, left or was killed on the way.
 */
#include "base/rng.h"
#include "lib/joinjob.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, ELEMENTS = 300, STEPS = 120 };

static char top[200];

static int make_top(void **state)
{
    const char *dir = getenv("TMPDIR");
    (void)state;
    snprintf(top, sizeof top, "%.150s/firn-join-XXXXXX",
             dir != NULL ? dir : "/tmp");
    return mkdtemp(top) == NULL ? -1 : 0;
}

static int remove_top(void **state)
{
    (void)state;
    return rmdir(top);
}

static struct joinjob job_of(const char *name, uint64_t nsteps)
{
    struct joinjob job;
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", top, name);
    joinjob_open(&job, dir, THREADS, ELEMENTS, nsteps);
    return job;
}

/* The bits of a run of `nsteps` steps that was never resized. */
static uint64_t reference(uint64_t nsteps)
{
    static uint64_t hash, of;
    if (of == nsteps)
        return hash;
    struct joinjob job = job_of("reference", nsteps);
    joinjob_start(&job, 2);
    assert_true(joinjob_finish(&job));
    hash = joinjob_hash(&job);
    of = nsteps;
    joinjob_close(&job);
    return hash;
}

static void end_well(struct joinjob *job)
{
    assert_true(joinjob_finish(job));
    assert_true(joinjob_hash(job) == reference(job->nsteps));
    joinjob_close(job);
}

/* --- one resize ----------------------------------------------------------- */

static void check(const char *name, int nold, int nnew, const int *from)
{
    struct joinjob job = job_of(name, STEPS);
    joinjob_start(&job, nold);
    joinjob_allow(&job, 5);
    assert_int_equal(joinjob_resize(&job, nnew, from, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    assert_int_equal(job.nlost, 0);
    struct firn_join_result result = joinjob_result(&job);
    assert_true(result.pause_s > 0 && result.step < STEPS);
    end_well(&job);
}

static void a_job_that_grows_keeps_its_bits(void **state)
{
    (void)state;
    check("grows", 1, 2, (int[]){0, -1});
    check("grows-much", 1, 4, (int[]){0, -1, -1, -1});
}

static void a_job_that_shrinks_keeps_its_bits(void **state)
{
    (void)state;
    check("shrinks", 3, 1, (int[]){0});
    check("shrinks-to-its-last", 3, 1, (int[]){2}); /* process 0 leaves */
}

static void a_job_that_moves_keeps_its_bits(void **state)
{
    (void)state;
    check("moves", 1, 1, (int[]){-1});
    check("moves-and-grows", 2, 3, (int[]){-1, -1, -1});
    check("turns-round", 2, 2, (int[]){1, 0});
}

static void a_chain_is_resized_too(void **state)
{
    (void)state;
    struct joinjob job = job_of("chain", STEPS);
    job.chain = true;
    joinjob_start(&job, 1);
    assert_int_equal(joinjob_resize(&job, 3, (int[]){0, -1, -1}, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    end_well(&job);
}

/* --- faults --------------------------------------------------------------- */

static void a_joiner_that_dies_changes_nothing(void **state)
{
    (void)state;
    struct joinjob job = job_of("early", STEPS);
    joinjob_start(&job, 2);
    int from[] = {0, 1, -1};
    assert_int_equal(joinjob_resize(&job, 3, from, JOINJOB_JOINER_EARLY),
                     FIRN_JOIN_FAILED);
    enum firn_join_phase phase =
        joinjob_resize(&job, 3, from, JOINJOB_JOINER_LATE);
    assert_true(phase == FIRN_JOIN_FAILED || phase == FIRN_JOIN_DONE);
    if (phase == FIRN_JOIN_FAILED) {
        assert_int_equal(job.nlost, 0);
        assert_int_equal(joinjob_resize(&job, 3, from, JOINJOB_NONE),
                         FIRN_JOIN_DONE);
        end_well(&job);
        return;
    }
    joinjob_close(&job); /* it was killed after the commit */
}

static void a_joiner_that_hangs_is_given_up_in_time(void **state)
{
    (void)state;
    struct joinjob job = job_of("hangs", STEPS);
    job.limit_s = 1;
    joinjob_start(&job, 1);
    int from[] = {0, -1};
    enum firn_join_phase phase =
        joinjob_resize(&job, 2, from, JOINJOB_JOINER_HANGS);
    if (phase == FIRN_JOIN_FAILED)
        end_well(&job);
    else /* it stopped after the commit: the group would wait for it */
        joinjob_close(&job);
}

static void a_joiner_with_other_tensors_is_refused(void **state)
{
    (void)state;
    struct joinjob job = job_of("other", STEPS);
    joinjob_start(&job, 2);
    int from[] = {0, 1, -1};
    assert_int_equal(joinjob_resize(&job, 3, from, JOINJOB_OTHER_MODEL),
                     FIRN_JOIN_FAILED);
    assert_int_equal(job.nlost, 0);
    end_well(&job);
}

static void a_layout_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct joinjob job = job_of("fit", STEPS);
    joinjob_start(&job, 1);
    int from[] = {0, -1, -1, -1, -1}; /* five processes for four threads */
    assert_int_equal(joinjob_resize(&job, 5, from, JOINJOB_NONE),
                     FIRN_JOIN_FAILED);
    end_well(&job);
}

static void a_member_that_dies_in_the_switch_costs_no_bits(void **state)
{
    (void)state;
    struct joinjob job = job_of("member", STEPS);
    joinjob_start(&job, 2);
    int from[] = {0, 1, -1};
    enum firn_join_phase phase = joinjob_resize(&job, 3, from, JOINJOB_MEMBER);
    if (phase == FIRN_JOIN_DONE) { /* it died after the commit */
        joinjob_close(&job);
        return;
    }
    assert_int_equal(phase, FIRN_JOIN_BROKEN);
    joinjob_start(&job, 3);
    end_well(&job);
}

/* --- many ----------------------------------------------------------------- */

/* A random new layout: some old processes stay, some places are new. */
static int draw(struct rng *rng, int nold, int *from)
{
    int nnew = 1 + (int)rng_below(rng, THREADS), n = 0;
    bool taken[JOINJOB_PROCS] = {false};
    for (int r = 0; r < nnew; r++) {
        int old = (int)rng_below(rng, (uint64_t)nold);
        bool stays = rng_below(rng, 4) != 0 && !taken[old];
        from[r] = stays ? old : -1;
        taken[old] = taken[old] || stays;
        n += stays;
    }
    (void)n;
    return nnew;
}

static void many_random_resizes_with_kills_keep_the_bits(void **state)
{
    bool is_long = getenv("FIRN_SOAK") != NULL;
    int nresizes = is_long ? 200 : 12, nkills = is_long ? 20 : 3;
    uint64_t nsteps = is_long ? 6000 : 400;
    struct rng rng;
    int ndone = 0, nhit = 0;
    (void)state;
    struct joinjob job = job_of("many", nsteps);
    rng_seed(&rng, 20);
    joinjob_start(&job, 2);
    for (int i = 0; i < nresizes; i++) {
        int from[JOINJOB_PROCS];
        int nnew = draw(&rng, job.nprocs, from);
        bool strikes = i % (nresizes / nkills) == 1;
        enum joinjob_fault fault =
            strikes
                ? (enum joinjob_fault)(nhit++ % 2 == 0 ? JOINJOB_MEMBER
                                                       : JOINJOB_JOINER_EARLY)
                : JOINJOB_NONE;
        enum firn_join_phase phase = joinjob_resize(&job, nnew, from, fault);
        ndone += phase == FIRN_JOIN_DONE;
        bool is_gone = phase == FIRN_JOIN_BROKEN;
        if (phase == FIRN_JOIN_DONE && fault == JOINJOB_MEMBER) {
            /* It was hit after the commit: a later start finds that out. */
            for (int r = 0; r < job.nprocs; r++)
                kill(job.pid[r], SIGKILL);
            is_gone = true;
        }
        if (is_gone) {
            for (int r = 0; r < job.nprocs; r++)
                if (job.pid[r] > 0)
                    waitpid(job.pid[r], NULL, 0);
            joinjob_start(&job, 1 + (int)rng_below(&rng, THREADS));
        }
    }
    assert_true(ndone >= nresizes / 2);
    end_well(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_grows_keeps_its_bits),
        cmocka_unit_test(a_job_that_shrinks_keeps_its_bits),
        cmocka_unit_test(a_job_that_moves_keeps_its_bits),
        cmocka_unit_test(a_chain_is_resized_too),
        cmocka_unit_test(a_joiner_that_dies_changes_nothing),
        cmocka_unit_test(a_joiner_that_hangs_is_given_up_in_time),
        cmocka_unit_test(a_joiner_with_other_tensors_is_refused),
        cmocka_unit_test(a_layout_that_does_not_fit_is_refused),
        cmocka_unit_test(a_member_that_dies_in_the_switch_costs_no_bits),
        cmocka_unit_test(many_random_resizes_with_kills_keep_the_bits),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
