/* shepherd_end.c - how an epoch ended, from how its workers did.
 *
 * In this order: a worker on another host that vanished without a word (LOST:
 * what the others say is what followed from it); a worker that failed by itself
 * decides (FAILED, or MEMORY); else one that was ended by our signals (KILLED:
 * also with status 0, since many programs take SIGTERM for a reason to end
 * well, whatever was left to do); else one that left with the status of a
 * checkpoint; else all is done.
 *
 * Out of memory is believed when the kernel says that it killed for want of
 * memory, in our control group or, for a worker that died of SIGKILL, anywhere
 * on this host since the epoch began; or when the last the job said in its log
 * was so.
 */
#define _GNU_SOURCE
#include "engine/shepherdwork.h"
#include <ctype.h>
#include <fcntl.h>
#include <firn/launch.h>
#include <firn/report.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL = 1 << 14 };

uint64_t shepherd_ooms(void)
{
    enum { ROOM = 1 << 15 };
    static const char name[] = "\noom_kill ";
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    char *text = mem_new(ROOM, 1);
    size_t n = 0;
    ssize_t got;
    while (n < ROOM - 1 && (got = read(fd, text + n, ROOM - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    const char *at = strstr(text, name);
    uint64_t count = at != NULL ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
    mem_free(text);
    return count;
}

/* The end of what this epoch wrote, in small letters. */
static void read_tail(const struct shepherd *s, char out[TAIL + 1])
{
    struct stat st;
    out[0] = '\0';
    if (s->log < 0 || fstat(s->log, &st) != 0)
        return;
    off_t from = s->log_start <= st.st_size ? s->log_start : 0;
    if (st.st_size - from > TAIL)
        from = st.st_size - TAIL;
    ssize_t n = pread(s->log, out, TAIL, from);
    n = n > 0 ? n : 0;
    out[n] = '\0';
    for (ssize_t i = 0; i < n; i++)
        out[i] = out[i] == '\0' ? ' ' : (char)tolower((unsigned char)out[i]);
}

static bool says_so(const struct shepherd *s)
{
    static const char *const words[] = {"out of memory", "out_of_memory",
                                        "outofmemory", "memoryerror",
                                        "bad_alloc"};
    char *tail = mem_new(TAIL + 1, 1);
    bool is_said = false;
    read_tail(s, tail);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_said = is_said || strstr(tail, words[i]) != NULL;
    mem_free(tail);
    return is_said;
}

static bool is_memory(const struct shepherd *s)
{
    if (cage_ooms(&s->cage) > 0)
        return true;
    if (s->bad_status == 128 + SIGKILL && shepherd_ooms() > s->ooms)
        return true;
    return says_so(s);
}

struct epoch_exit shepherd_verdict(const struct shepherd *s)
{
    struct epoch_exit how = {.epoch = s->launch.epoch};
    if (s->is_lost) {
        how.end = FIRN_END_LOST;
    } else if (s->bad_status >= 0) {
        how.end =
            s->is_memory || is_memory(s) ? FIRN_END_MEMORY : FIRN_END_FAILED;
        how.status = s->bad_status;
    } else if (s->ended_status >= 0) {
        how.end = FIRN_END_KILLED;
        how.status = s->ended_status > 0 ? s->ended_status : 128 + SIGTERM;
    } else if (s->has_checkpoint) {
        how.end = FIRN_END_CHECKPOINT;
        how.status = FIRN_EXIT_CHECKPOINT;
    }
    return how;
}
