/* launcher.c - a request to the launcher: connect, send, receive.
 *
 * A connection has one request and one answer, each one packet. Slurm's
 * commands may take a minute, so firnd asks for them through a process of its
 * own (launcher_args()), which behaves as the command would: its output, its
 * error text, its exit status. A request that did not reach the launcher, or
 * that it refused, ends as a submission that Slurm refused.
 */
#define _GNU_SOURCE
#include "engine/launcher.h"
#include "base/buf.h"
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int dial(const char *path, int limit_s)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = limit_s};
    if (!str_copy(at.sun_path, sizeof at.sun_path, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ==
            0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) ==
            0 &&
        connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

enum firn_status launcher_ask(const char *socket, const struct launchmsg *msg,
                              long *number, struct firn_error *err)
{
    char answer[512];
    struct firn_buf line = {0};
    ssize_t n = -1;
    int fd = dial(socket, 10);
    launchmsg_write(msg, &line);
    if (fd >= 0 && send(fd, line.at, line.n, MSG_NOSIGNAL) == (ssize_t)line.n)
        n = recv(fd, answer, sizeof answer - 1, 0);
    int error = n == 0 ? ECONNRESET : errno;
    buf_release(&line);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return firn_fail(err, FIRN_EIO,
                         "the launcher at '%.120s' does not answer: %s; is "
                         "firn-launch running?",
                         socket, strerror(error));
    answer[n] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    if (strncmp(answer, "ok ", 3) != 0)
        return firn_fail(err, FIRN_EREFUSED, "launcher: %.300s",
                         strncmp(answer, "no ", 3) == 0 ? answer + 3 : answer);
    *number = strtol(answer + 3, NULL, 10);
    return FIRN_OK;
}

/* --- Slurm's commands ------------------------------------------------------
 */

static void print(int fd, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done <= 0)
            return;
        at += done;
        n -= (size_t)done;
    }
}

/* What sbatch prints when Slurm refuses a job, so that firnd knows that there
 * is none. */
static int refuse(const char *why)
{
    static const char head[] = "Batch job submission failed: ";
    print(2, head, sizeof head - 1);
    print(2, why, strlen(why));
    print(2, "\n", 1);
    return 1;
}

/* "ok STATUS BYTES\n", output, error text. */
static int pass_on(const char *answer, size_t n)
{
    char *end = NULL;
    const char *text = memchr(answer, '\n', n);
    if (text == NULL || strncmp(answer, "ok ", 3) != 0)
        return refuse("the launcher's answer is not understood");
    long status = strtol(answer + 3, &end, 10);
    size_t size = strtoul(end, NULL, 10), rest = n - (size_t)(++text - answer);
    if (status < 0 || status > 255 || size > rest)
        return refuse("the launcher's answer is not understood");
    print(1, text, size);
    print(2, text + size, rest - size);
    return (int)status;
}

static int ask_slurm(const char *socket, const struct firn_buf *request)
{
    enum { LIMIT_S = 55 };
    static char answer[1 << 14];
    int fd = dial(socket, LIMIT_S);
    if (fd < 0 ||
        send(fd, request->at, request->n, MSG_NOSIGNAL) != (ssize_t)request->n)
        return refuse("the launcher does not answer; is firn-launch running?");
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    close(fd);
    if (n <= 0) { /* whether Slurm has the job is not known */
        static const char text[] = "the launcher's answer timed out\n";
        print(2, text, sizeof text - 1);
        return 1;
    }
    answer[n] = '\0';
    if (strncmp(answer, "no ", 3) != 0)
        return pass_on(answer, (size_t)n);
    answer[strcspn(answer, "\n")] = '\0';
    if (strstr(answer, "timed out") == NULL)
        return refuse(answer + 3);
    print(2, answer + 3, strlen(answer + 3));
    return 1;
}

int launcher_args(int argc, char **argv)
{
    enum { SOCKET = 2, PROGRAM, USER, JOB, ATTEMPT, MARK, WORDS };
    struct firn_buf request = {0};
    if (argc < WORDS || strcmp(argv[1], "--slurm-as") != 0)
        return -1;
    buf_printf(&request, "%s %s %s %s %s\n", argv[PROGRAM], argv[USER],
               argv[JOB], argv[ATTEMPT], argv[MARK]);
    for (int i = WORDS; i < argc; i++)
        buf_printf(&request, "%s\n", argv[i]);
    int status = ask_slurm(argv[SOCKET], &request);
    buf_release(&request);
    return status;
}
