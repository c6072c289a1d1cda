/* test_ckpt_calls.c - each system call of a training process fails once.
 *
 * An example trainer (examples/) takes four steps with a checkpoint after each,
 * once for each call that may fail (lib/faultplan.h), and then once more in the
 * same folder without faults. Checked:
 * (1) the trainer does not crash: it ends with a status, or by abort() when
 *     there is no memory;
 * (2) every file with the name of a checkpoint is whole (`firn train show`),
 *     whatever failed;
 * (3) the second run comes to its end, and its last checkpoint has the weights
 *     and the optimiser of a run without faults (`firn train diff`);
 * (4) no draft of a checkpoint is left then.
 *
 * A failure prints the value of FIRN_FAULT that plays it again. Cost: 0.3 s
 * for each fault; a sample by FIRN_SEED, FIRN_FAULTS of them; all in a soak.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/ckptcheck.h"
#include "lib/faultlist.h"
#include "lib/firndbed.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATH = FIRNDBED_PATH, SAMPLE = 6, SAID = 700 };

static struct {
    struct firndbed bed, home; /* of one fault; of what all are compared with */
    char firn[PATH], cnn[PATH], good[PATH]; /* programs; what must come out */
    struct faultlist list;
    char said[SAID];
} s;

static bool wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static bool wrong(const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    vsnprintf(s.said, sizeof s.said, format, rest);
    va_end(rest);
    return false;
}

/* Runs it with its output in the file "err"; as waitpid() has it. */
static int run(const char *const *argv, bool has_plan)
{
    char err[PATH], plan[PATH];
    int status = -1;
    firndbed_path(&s.bed, "err", err);
    firndbed_path(&s.bed, "plan", plan);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(err, O_WRONLY | O_APPEND | O_CREAT, 0600);
        if (has_plan) {
            setenv("LD_PRELOAD", s.bed.preload, 1);
            setenv("FAULT_PLAN", plan, 1);
        }
        setenv("FIRN_JOB", "7", 1);
        setenv("FIRN_IMAGES", "", 1);
        if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
            execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int train(const char *folder, bool has_plan)
{
    const char *argv[] = {
        s.cnn, "--epochs", "1", "--samples", "64", "--batch", "16",   "--every",
        "1",   "--quiet",  "1", "--judge",   "8",  "--dir",   folder, NULL};
    return run(argv, has_plan);
}

/* (1) */
static bool ended_well(int status, const struct fault *fault)
{
    if (WIFEXITED(status) ||
        (fault->call == FAULT_MEMORY && WTERMSIG(status) == SIGABRT))
        return true;
    return wrong("the trainer ended by signal %d", WTERMSIG(status));
}

static bool is_played(void *arg, const struct fault *fault)
{
    (void)arg;
    char folder[PATH], newest[PATH];
    bool is_made = firndbed_make(&s.bed, "ckpt", true);
    firndbed_path(&s.bed, "ckpt", folder);
    if (!is_made || mkdir(folder, 0700) != 0)
        return wrong("no folder");
    faultplan_strike(s.bed.plan, fault->role, fault->call, fault->error,
                     fault->nth, fault->length);
    int status = train(folder, true);
    faultlist_count(&s.list, s.bed.plan, fault);
    faultplan_stop(s.bed.plan);
    bool is_good = ended_well(status, fault) &&
                   ckptcheck_folder(s.firn, folder, true, newest, s.said);
    if (is_good && (status = train(folder, false)) != 0) /* (3) */
        is_good = wrong("the second run ended with %d", status);
    is_good =
        is_good && ckptcheck_folder(s.firn, folder, false, newest, s.said);
    if (is_good && s.good[0] != '\0' &&
        !ckptcheck_is_same(s.firn, s.good, newest))
        is_good = wrong("%s differs from a run without faults", newest);
    if (s.good[0] == '\0' && is_good) { /* the first is without faults */
        firndbed_path(&s.home, "good.ckpt", s.good);
        is_good = rename(newest, s.good) == 0;
    }
    if (!is_good) {
        faultlist_tell(fault, s.bed.plan->struck, s.said);
        firndbed_show_log(&s.bed);
    }
    return firndbed_remove(&s.bed) == 0 && is_good;
}

static void a_checkpoint_is_whole_after_any_system_call_failed(void **state)
{
    (void)state;
    const struct fault none = {.nth = 0};
    if (getenv("FIRN_QUICK") != NULL || !firndbed_make(&s.home, "ckpt", true))
        skip();
    snprintf(s.firn, sizeof s.firn, "%.*s", (int)strlen(s.home.firnd) - 1,
             s.home.firnd);
    snprintf(s.cnn, sizeof s.cnn, "%.*s/examples/cnn",
             (int)(strrchr(s.home.firnd, '/') - s.home.firnd), s.home.firnd);
    if (access(s.cnn, X_OK) != 0 || access(s.firn, X_OK) != 0)
        skip();
    assert_true(is_played(NULL, &none));
    faultlist_print(&s.list);
    assert_true(s.list.counts[FAULT_TRAINER][FAULT_SYNC] >= 4);
    s.list.first = FAULT_TRAINER;
    s.list.last = FAULT_TRAINER;
    int nbad = faultlist_play(&s.list, SAMPLE, is_played, NULL);
    if (nbad > 0)
        fail_msg("%d faults were not survived", nbad);
}

static int remove_bed(void **state)
{
    (void)state;
    return firndbed_remove(&s.bed) + firndbed_remove(&s.home);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(
            a_checkpoint_is_whole_after_any_system_call_failed, remove_bed),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
