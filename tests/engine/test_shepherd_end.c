/* test_shepherd_end.c - whom the kernel killed for want of memory: its log is
 * believed where it speaks of processes and groups by the names they have here.
 */
#define _GNU_SOURCE
#include "engine/shepherdwork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define OOM(group)                                                    \
    "6,8961,72763707821,-;oom-kill:constraint=CONSTRAINT_MEMCG,"      \
    "nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,task_memcg" \
    "=" group ",task=tail,pid=18150,uid=0\n"

static void a_kill_in_another_control_group_is_foreign(void **state)
{
    (void)state;
    struct shepherd s = {0};
    struct worker workers[2] = {{.pid = 7}, {.pid = 1815}};
    assert_true(shepherd_is_foreign_oom(&s, "/", OOM("/x")));
    assert_true(shepherd_is_foreign_oom(&s, "/a/x", OOM("/x")));
    assert_true(shepherd_is_foreign_oom(&s, "/a/b", OOM("/a/bc")));
    assert_true(shepherd_is_foreign_oom(&s, "/a/bc", OOM("/a/b")));
    assert_false(shepherd_is_foreign_oom(&s, "/", OOM("/")));
    assert_false(shepherd_is_foreign_oom(&s, "/a/b", OOM("/")));
    assert_false(shepherd_is_foreign_oom(&s, "/a/b", OOM("/a")));
    assert_false(shepherd_is_foreign_oom(&s, "/a/b", OOM("/a/b")));
    assert_false(
        shepherd_is_foreign_oom(&s, "/", "6,1,2,-;task_memcg=/x,pid=7"));
    launchfile_add_worker(&s.launch);
    launchfile_add_worker(&s.launch);
    s.workers = workers;
    s.nworkers = 2;
    assert_true(shepherd_is_foreign_oom(&s, "/", OOM("/x")));
    workers[1].pid = 18150; /* it has gone to a group by itself */
    assert_false(shepherd_is_foreign_oom(&s, "/", OOM("/x")));
    launchfile_release(&s.launch);
}

/* Is the log read by a child in another namespace? 77: there can be none. */
static int reads_it_in(int namespace)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(namespace) != 0)
            _exit(77);
        pid_t inner = fork(); /* with new numbers, if these are other ones */
        if (inner == 0)
            _exit(shepherd_kernel() >= 0);
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void the_kernel_log_is_ignored_in_another_namespace(void **state)
{
    (void)state;
    int log = shepherd_kernel();
    if (log < 0) {
        print_message("the kernel's log is not read here: skipped\n");
        skip();
    }
    close(log);
    int alike = reads_it_in(CLONE_NEWUTS), pids = reads_it_in(CLONE_NEWPID);
    int groups = reads_it_in(CLONE_NEWCGROUP);
    assert_true(alike == 1 || alike == 77);
    assert_true(pids == 0 || pids == 77);
    assert_true(groups == 0 || groups == 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_in_another_control_group_is_foreign),
        cmocka_unit_test(the_kernel_log_is_ignored_in_another_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
