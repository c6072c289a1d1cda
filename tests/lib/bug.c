/* bug.c - runs a function in a child and reads its last words. */
#include "bug.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void act_in_child(void (*act)(void *arg), void *arg, int to)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    dup2(to, STDERR_FILENO);
    act(arg);
    _exit(0);
}

void expect_bug(void (*act)(void *arg), void *arg, const char *said)
{
    int ends[2], status = 0;
    char text[4096];
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL); /* or the child would write it again */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        act_in_child(act, arg, ends[1]);
    close(ends[1]);
    for (ssize_t got; n < sizeof text - 1 &&
                      (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("it went on (status %d): %s", status, text);
    if (strstr(text, said) == NULL)
        fail_msg("it said \"%s\"", text);
}
