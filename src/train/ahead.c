/* ahead.c - a process waits, prepared, until its job has its GPUs.
 *
 * The supervisor's words are in wire/aheadgate.h. The whole environment of the
 * real start comes through the gate: variables that are not in it and are read
 * behind the gate only (FIRN_*, torchrun's, CUDA's) are removed, all others are
 * set. A trainer reads them when its session is opened, so it cannot tell a
 * prepared start from another one, and its bits are the same.
 *
 * Invariants: (1) the gate is passed once in a process; (2) a process whose
 * supervisor is gone, or does not need it, ends here and has changed nothing of
 * the job; (3) a session that is opened in a process which has not called
 * firn_ahead_wait() passes the gate there, before it reads its environment.
 */
#define _GNU_SOURCE
#include "train/trainwork.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

/* When the gate was opened, for a program that is executed again behind it. */
static const char opened_name[] = "FIRN_GATE_OPENED";

static bool was_called;
static double opened_s; /* by CLOCK_MONOTONIC; 0: it was not prepared */

bool firn_ahead_was_called(void)
{
    return was_called;
}

double firn_ahead_opened_s(void)
{
    const char *text = getenv(opened_name);
    return opened_s > 0 || text == NULL ? opened_s : strtod(text, NULL);
}

/* The descriptor of the gate; -1: this process was not started early. */
static int gate_fd(void)
{
    const char *text = getenv("FIRN_GATE");
    char *end = NULL;
    long fd = text != NULL ? strtol(text, &end, 10) : -1;
    return text != NULL && end != text && *end == '\0' && fd > 2 && fd < 1 << 20
               ? (int)fd
               : -1;
}

/* False: the other end is closed. */
static bool read_all(int fd, char *to, size_t n)
{
    while (n > 0) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        n -= (size_t)got;
    }
    return true;
}

/* Is a variable of this name in the block? */
static bool is_in(const char *variable, const char *block, size_t size)
{
    size_t n = strcspn(variable, "=") + 1;
    for (const char *at = block; at < block + size; at += strlen(at) + 1)
        if (strncmp(at, variable, n) == 0)
            return true;
    return false;
}

/* Removes what holds for an early start only. */
static void forget(const char *block, size_t size)
{
    for (char **at = environ; at != NULL && *at != NULL;) {
        char name[256];
        size_t n = strcspn(*at, "=");
        if (!firn_gate_is_late(*at) || is_in(*at, block, size) ||
            n >= sizeof name) {
            at++;
            continue;
        }
        memcpy(name, *at, n);
        name[n] = '\0';
        unsetenv(name); /* moves the ones behind it up */
    }
}

/* False: no memory. */
static bool take_over(char *block, size_t size)
{
    for (char *at = block; at < block + size; at += strlen(at) + 1)
        if (strncmp(at, "FIRN_HERD=", 10) == 0)
            firn_gate_remark(environ, at);
    forget(block, size);
    for (char *at = block; at < block + size; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        int failed = setenv(at, equals + 1, 1);
        *equals = '=';
        if (failed != 0)
            return false;
    }
    return true;
}

static bool pass(int fd)
{
    static const char ready = FIRN_GATE_READY;
    struct firn_gate_head head = {0, 0};
    char *block = NULL;
    /* A gate that was opened before is closed behind its message. */
    (void)send(fd, &ready, 1, MSG_NOSIGNAL);
    bool is_open = read_all(fd, (char *)&head, sizeof head) &&
                   head.nbytes > 0 && head.nbytes <= FIRN_GATE_BYTES &&
                   (block = malloc(head.nbytes)) != NULL &&
                   read_all(fd, block, head.nbytes) &&
                   block[head.nbytes - 1] == '\0' &&
                   take_over(block, head.nbytes);
    char text[40];
    opened_s = head.opened_s;
    snprintf(text, sizeof text, "%.6f", opened_s);
    free(block);
    return is_open && setenv(opened_name, text, 1) == 0;
}

bool firn_ahead_pass(void)
{
    int fd = opened_s > 0 ? -1 : gate_fd(); /* (1) */
    if (fd < 0)
        return false;
    if (!pass(fd))
        _exit(1); /* (2) */
    close(fd);
    unsetenv("FIRN_GATE");
    return true;
}

bool firn_ahead_wait(void)
{
    was_called = true;
    return firn_ahead_pass();
}
