/* test_cbc.c - a solver in a child process that may do anything.
 *
 * The fakes are small shell scripts in the place of cbc: they crash, lie,
 * hang, babble. After each call no child, no open descriptor and no file may
 * be left. The real one is tried when it is installed.
 */
#include "math/cbc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/rng.h"
#include "lib/temp.h"
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[TEMP_FOLDER];

static int set_up(void **unused)
{
    (void)unused;
    temp_open(folder);
    return setenv("TMPDIR", folder, 1);
}

static int tear_down(void **unused)
{
    (void)unused;
    return rmdir(folder);
}

/* How many entries a folder has, "." and ".." and the scan itself apart. */
static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* maximise 2a + 3b + c with 2a + 2b + 3c <= 4, whole, a <= 1, b <= 1:
 * a = b = 1 uses all; the objective (minimised) is -5. */
static const struct milp_col cols[] = {
    {-2, 0, 1, true}, {-3, 0, 1, true}, {-1, 0, 9, true}};
static const struct milp_term terms[] = {{0, 2}, {1, 2}, {2, 3}};
static const struct milp_row rows[] = {{-INFINITY, 4, terms, 3}};
static const struct milp small = {cols, 3, rows, 1};

static void write_script(const char *path, const char *script)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    chmod(path, 0700);
}

/* Solves `small` with a script as cbc, and looks for anything left behind. */
static enum cbc_answer solve_with(const char *script, double deadline_s,
                                  double *x)
{
    struct arena scratch = {0};
    char path[96];
    struct cbc cbc = {.program = path, .deadline_s = deadline_s};
    snprintf(path, sizeof path, "%s/fake", folder);
    write_script(path, script);
    int fds = entries("/proc/self/fd");
    enum cbc_answer answer = cbc_solve(&cbc, &small, &scratch, x);
    assert_int_equal(entries("/proc/self/fd"), fds);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child at all */
    assert_int_equal(errno, ECHILD);
    assert_int_equal(entries(folder), 1); /* the script */
    unlink(path);
    for (int i = 0; i < CBC_ANSWERS; i++)
        assert_int_equal(cbc.counts[i], i == (int)answer);
    arena_release(&scratch);
    return answer;
}

static void expect(const char *script, enum cbc_answer want)
{
    double x[3] = {7, 7, 7};
    enum cbc_answer got = solve_with(script, 300, x);
    if (got != want)
        fail_msg("'%s' is %s, not %s", script, cbc_answer_text(got),
                 cbc_answer_text(want));
    for (int i = 0; i < 3; i++)
        assert_true(x[i] == 7); /* untouched */
}

static void a_correct_answer_is_accepted(void **unused)
{
    (void)unused;
    double x[3] = {7, 7, 7};
    assert_int_equal(solve_with("printf 'Optimal - objective value -5.0\\n"
                                "      0 c0   1.000000001  -2\\n"
                                "      1 c1   1   -3\\n' >/dev/fd/4",
                                300, x),
                     CBC_SOLVED);
    assert_true(x[0] == 1 && x[1] == 1 && x[2] == 0);
}

static void a_crash_is_reported(void **unused)
{
    (void)unused;
    expect("kill -SEGV $$", CBC_CRASHED);
    expect("exit 3", CBC_CRASHED);
}

static void a_wrong_answer_is_detected(void **unused)
{
    (void)unused;
    /* 2 + 2 + 3 > 4 */
    expect("printf 'Optimal - objective value -6\\n0 c0 1 0\\n1 c1 1 0\\n"
           "2 c2 1 0\\n' >/dev/fd/4",
           CBC_LIED);
    /* beyond its bound */
    expect("printf 'Optimal - objective value -4\\n0 c0 2 0\\n' >/dev/fd/4",
           CBC_LIED);
    /* half a column */
    expect("printf 'Optimal - objective value -1\\n0 c0 0.5 0\\n' >/dev/fd/4",
           CBC_LIED);
    /* a solution of -3 that claims to be one of -5 */
    expect("printf 'Optimal - objective value -5\\n1 c1 1 0\\n' >/dev/fd/4",
           CBC_LIED);
    expect("printf 'Optimal - objective value nan\\n1 c1 1 0\\n' >/dev/fd/4",
           CBC_LIED);
    expect("printf 'Optimal - objective value -5\\n1 c1 nan 0\\n' >/dev/fd/4",
           CBC_LIED);
}

static void garbage_is_not_read_as_an_answer(void **unused)
{
    (void)unused;
    expect("exit 0", CBC_GARBLED); /* nothing at all */
    expect("echo hello >/dev/fd/4", CBC_GARBLED);
    expect("printf 'Optimal - objective value x\\n' >/dev/fd/4", CBC_GARBLED);
    expect("printf 'Optimal - objective value -5\\nc0\\n' >/dev/fd/4",
           CBC_GARBLED);
    expect("printf 'Optimal - objective value -5\\n0 c9 1 1\\n' >/dev/fd/4",
           CBC_GARBLED);
    expect("printf 'Optimal - objective value -5\\n0 c-1 1 1\\n' >/dev/fd/4",
           CBC_GARBLED);
    expect("head -c 100000 /dev/zero >/dev/fd/4", CBC_GARBLED);
}

static void no_solution_is_an_answer(void **unused)
{
    (void)unused;
    expect("printf 'Infeasible - objective value 0\\n' >/dev/fd/4",
           CBC_INFEASIBLE);
    expect("printf 'Integer infeasible - objective value 0\\n' >/dev/fd/4",
           CBC_INFEASIBLE);
    expect("printf 'Stopped on time - objective value -3\\n' >/dev/fd/4",
           CBC_LATE);
}

static void a_missing_program_is_reported(void **unused)
{
    (void)unused;
    struct arena scratch = {0};
    struct cbc cbc = {.program = "/no/such/cbc", .deadline_s = 300};
    double x[3];
    assert_int_equal(cbc_solve(&cbc, &small, &scratch, x), CBC_MISSING);
    assert_int_equal(cbc.counts[CBC_MISSING], 1);
    arena_release(&scratch);
}

static bool is_written(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0;
}

/* Does the process whose number is in the file still run? A dead one may stay
 * listed for a while, as Z, until its new parent looks. */
static bool still_runs(const char *path)
{
    char text[256] = "", state = 'Z';
    long pid = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    snprintf(text, sizeof text, "/proc/%ld/stat", pid);
    file = fopen(text, "r");
    if (file == NULL)
        return false;
    bool is_read = fscanf(file, "%*d %*s %c", &state) == 1;
    fclose(file);
    return is_read && state != 'Z';
}

/* The script ignores signals and has a child that would outlive it. */
static void a_hanging_program_is_killed_with_its_children(void **unused)
{
    (void)unused;
    char path[96], script[256];
    double x[3] = {7, 7, 7};
    struct arena scratch = {0};
    char pid_path[96];
    snprintf(path, sizeof path, "%s/fake", folder);
    snprintf(pid_path, sizeof pid_path, "%s/pid", folder);
    snprintf(script, sizeof script,
             "trap '' TERM INT HUP; sleep 100 & echo $! >%s; sleep 100",
             pid_path);
    write_script(path, script);
    /* The longer the deadline, the slower a machine may start the child. */
    for (double s = 0.1; s < 20 && !is_written(pid_path); s *= 3) {
        struct cbc cbc = {.program = path, .deadline_s = s};
        double begin_s = clock_elapsed_s();
        assert_int_equal(cbc_solve(&cbc, &small, &scratch, x), CBC_LATE);
        double took_s = clock_elapsed_s() - begin_s;
        assert_true(took_s >= 3 * s && took_s < 90);
    }
    for (int i = 0; i < 6000 && still_runs(pid_path); i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    assert_false(still_runs(pid_path));
    unlink(path);
    unlink(pid_path);
    arena_release(&scratch);
}

/* The script gets the arguments and files that cbc gets. */
static void the_model_sent_to_cbc_is_readable(void **unused)
{
    (void)unused;
    double x[3];
    assert_int_equal(
        solve_with("[ \"$*\" = '/dev/fd/3 -seconds 300 -ratioGap 0 -solve "
                   "-solution /dev/fd/4' ] || exit 1\n"
                   "grep -q '^ c1 obj -3$' /dev/fd/3 || exit 2\n"
                   "grep -q '^ c2 r0 3$' /dev/fd/3 || exit 3\n"
                   "grep -q '^ S r0 4$' /dev/fd/3 || exit 4\n"
                   "grep -q '^ UP B c2 9$' /dev/fd/3 || exit 5\n"
                   "[ -z \"$(cat)\" ] || exit 6\n"
                   "printf 'Optimal - objective value 0\\n' >/dev/fd/4",
                   300, x),
        CBC_SOLVED);
}

/* ---- the installed cbc ---- */

static bool is_installed(void)
{
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    double x[3];
    bool is_there = cbc_solve(&cbc, &small, &scratch, x) != CBC_MISSING;
    arena_release(&scratch);
    if (!is_there)
        print_message("cbc is not installed\n");
    return is_there;
}

static void cbc_solves_a_small_problem(void **unused)
{
    (void)unused;
    if (!is_installed())
        skip();
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    double x[3];
    assert_int_equal(cbc_solve(&cbc, &small, &scratch, x), CBC_SOLVED);
    assert_true(x[0] == 1 && x[1] == 1 && x[2] == 0);
    arena_release(&scratch);
}

/* Rows of each kind, negative bounds, columns that are not whole: minimise
 * x - y with x whole, -5 <= x <= 5, -3.5 <= y <= -0.25, z free, where
 * 1 <= x - y <= 4, z - 2y = 0 and z >= -2, so that y >= -1. The least is 1;
 * y = x - 1 and -1 <= y <= -0.25 leave x = 0, y = -1, z = -2 alone. */
static void cbc_handles_all_kinds_of_rows(void **unused)
{
    (void)unused;
    if (!is_installed())
        skip();
    const struct milp_col c[] = {{1, -5, 5, true},
                                 {-1, -3.5, -0.25, false},
                                 {0, -INFINITY, INFINITY, false}};
    const struct milp_term range[] = {{0, 1}, {1, -1}};
    const struct milp_term equal[] = {{2, 1}, {1, -2}};
    const struct milp_term least[] = {{2, 1}};
    const struct milp_row r[] = {{1, 4, range, 2},
                                 {0, 0, equal, 2},
                                 {-2, INFINITY, least, 1},
                                 {-INFINITY, INFINITY, range, 2}};
    const struct milp problem = {c, 3, r, 4};
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    double x[3];
    assert_int_equal(cbc_solve(&cbc, &problem, &scratch, x), CBC_SOLVED);
    assert_true(fabs(milp_value(&problem, x) - 1) < 1e-6);
    assert_true(x[0] == 0 && fabs(x[1] + 1) < 1e-6 && fabs(x[2] + 2) < 1e-6);
    arena_release(&scratch);
}

/* 1 <= x <= 4 as a row, from both sides. */
static void both_ends_of_a_row_hold(void **unused)
{
    (void)unused;
    if (!is_installed())
        skip();
    for (int sign = -1; sign <= 1; sign += 2) {
        const struct milp_col c[] = {{sign, 0, 9, true}};
        const struct milp_term t[] = {{0, 1}};
        const struct milp_row r[] = {{1, 4, t, 1}};
        const struct milp problem = {c, 1, r, 1};
        struct arena scratch = {0};
        struct cbc cbc = {.deadline_s = 300};
        double x = 0;
        assert_int_equal(cbc_solve(&cbc, &problem, &scratch, &x), CBC_SOLVED);
        assert_true(x == (sign < 0 ? 4 : 1));
        arena_release(&scratch);
    }
}

static void cbc_reports_that_there_is_no_solution(void **unused)
{
    (void)unused;
    if (!is_installed())
        skip();
    const struct milp_row r[] = {{50, INFINITY, terms, 3}};
    const struct milp problem = {cols, 3, r, 1}; /* 2 + 2 + 27 < 50 */
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    double x[3];
    assert_int_equal(cbc_solve(&cbc, &problem, &scratch, x), CBC_INFEASIBLE);
    arena_release(&scratch);
}

/* Knapsacks of up to 8 whole columns from 0 to 2, by trying all. */
static double best_by_trying(const struct milp *problem, double *x, int at)
{
    if (at == problem->ncols)
        return milp_holds(problem, x) ? milp_value(problem, x) : INFINITY;
    double best = INFINITY;
    for (int v = 0; v <= 2; v++) {
        x[at] = v;
        best = fmin(best, best_by_trying(problem, x, at + 1));
    }
    return best;
}

static void cbc_agrees_with_trying_all(void **unused)
{
    (void)unused;
    if (!is_installed())
        skip();
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    for (uint64_t seed = 1; seed <= (getenv("FIRN_QUICK") ? 3 : 20); seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct milp_col c[8];
        struct milp_term t[2][8];
        struct milp_row r[2];
        int n = 1 + (int)rng_below(&rng, 8);
        for (int i = 0; i < n; i++) {
            c[i] = (struct milp_col){-rng_unit(&rng), 0, 2, true};
            for (int k = 0; k < 2; k++)
                t[k][i] = (struct milp_term){i, 1 + (double)rng_below(&rng, 9)};
        }
        for (int k = 0; k < 2; k++)
            r[k] = (struct milp_row){-INFINITY, (double)rng_below(&rng, 40),
                                     t[k], n};
        const struct milp problem = {c, n, r, 2};
        double x[8], tried[8];
        enum cbc_answer how = cbc_solve(&cbc, &problem, &scratch, x);
        double best = best_by_trying(&problem, tried, 0);
        if (how != CBC_SOLVED || fabs(milp_value(&problem, x) - best) > 1e-6)
            fail_msg("seed %llu: %s, %.9g, best %.9g", (unsigned long long)seed,
                     cbc_answer_text(how), milp_value(&problem, x), best);
        arena_reset(&scratch);
    }
    arena_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_answer_is_accepted),
        cmocka_unit_test(a_crash_is_reported),
        cmocka_unit_test(a_wrong_answer_is_detected),
        cmocka_unit_test(garbage_is_not_read_as_an_answer),
        cmocka_unit_test(no_solution_is_an_answer),
        cmocka_unit_test(a_missing_program_is_reported),
        cmocka_unit_test(a_hanging_program_is_killed_with_its_children),
        cmocka_unit_test(the_model_sent_to_cbc_is_readable),
        cmocka_unit_test(cbc_solves_a_small_problem),
        cmocka_unit_test(cbc_handles_all_kinds_of_rows),
        cmocka_unit_test(both_ends_of_a_row_hold),
        cmocka_unit_test(cbc_reports_that_there_is_no_solution),
        cmocka_unit_test(cbc_agrees_with_trying_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
