/* fuzz_attemptfiles.c - any bytes in the small files between an engine and a
 * supervisor: what is read is in its range.
 *
 * A folder is used again and again; all files get the same bytes.
 */
#include "engine/attemptfiles.h"
#include "fuzz/fuzzfolder.h"
#include <fcntl.h>
#include <firn/engine.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[FUZZ_FOLDER];

static void tidy_up(void)
{
    fuzz_folder_empty(path);
    rmdir(path);
}

static int folder(void)
{
    static int fd = -1;
    if (fd >= 0)
        return fd;
    fuzz_folder_make(path);
    fd = open(path, O_RDONLY);
    if (fd < 0)
        abort();
    atexit(tidy_up);
    return fd;
}

static void put(int at, const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"pid", "exit", "fence", "ask", "order"};
    struct attempt_pid pid = {.pid = 1};
    struct attempt_exit how = {0};
    int at = folder();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(at, names[i], data, size);
    (void)attempt_pid_get(at, &pid);
    if (pid.pid <= 0 || pid.pid > INT32_MAX)
        abort();
    (void)attempt_exit_get(at, &how);
    if (how.end < 0 || how.end > FIRN_END_LOST)
        abort();
    int64_t fence = 0;
    if (attempt_fence(at, &fence) == ATTEMPT_PRESENT && fence < 0)
        abort();
    enum attempt_request word = ATTEMPT_GO;
    if (attempt_request_get(at, "ask", &word) == ATTEMPT_UNKNOWN)
        abort();
    if ((int)word < ATTEMPT_GO || word > ATTEMPT_KILL)
        abort();
    return 0;
}
