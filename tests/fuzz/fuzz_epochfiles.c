/* fuzz_epochfiles.c - any bytes in the small files between an engine and a
 * supervisor: what is read is in its range.
 *
 * A folder is used again and again; all files get the same bytes.
 */
#include "engine/epochfiles.h"
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
    struct epoch_pid pid = {.pid = 1};
    struct epoch_exit how = {0};
    int at = folder();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(at, names[i], data, size);
    (void)epoch_pid_get(at, &pid);
    if (pid.pid <= 0 || pid.pid > INT32_MAX)
        abort();
    (void)epoch_exit_get(at, &how);
    if (how.end < 0 || how.end > FIRN_END_LOST)
        abort();
    int64_t fence = 0;
    if (epoch_fence(at, &fence) == EPOCH_PRESENT && fence < 0)
        abort();
    enum epoch_word word = EPOCH_GO;
    if (epoch_word_get(at, "ask", &word) == EPOCH_UNKNOWN)
        abort();
    if ((int)word < EPOCH_GO || word > EPOCH_KILL)
        abort();
    return 0;
}
