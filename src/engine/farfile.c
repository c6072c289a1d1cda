/* farfile.c - see farfile.h: records of one kind of host, by their bytes.
 *
 * All nodes of an attempt run the same program (slurm.program), so a record is
 * written as it lies in memory. Its size and a version are in the first line;
 * another firnd's record does not fit and is not read.
 *
 *     firn-far 1 NAME SIZE HASH\n
 */
#define _GNU_SOURCE
#include "engine/farfile.h"
#include "base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 96, NAME = 48 };

static uint64_t hash_of(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

/* A first line of HEAD bytes. */
static void head_of(char out[HEAD], const char *name, const void *bytes,
                    size_t n)
{
    char text[HEAD];
    snprintf(text, sizeof text, "firn-far 1 %.40s %zu %016" PRIx64, name, n,
             hash_of(bytes, n));
    snprintf(out, HEAD, "%-*.*s\n", HEAD - 2, HEAD - 2, text);
    out[HEAD - 1] = '\n';
}

static enum firn_status put(int folder, const char *name, const void *bytes,
                            size_t n)
{
    struct firn_buf text = {0};
    char head[HEAD];
    head_of(head, name, bytes, n);
    buf_add(&text, head, HEAD);
    buf_add(&text, bytes, n);
    int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t done = 0;
    while (fd >= 0 && done < text.n) {
        ssize_t wrote = pwrite(fd, text.at + done, text.n - done, (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    bool is_good = fd >= 0 && done == text.n;
    if (fd >= 0)
        is_good = close(fd) == 0 && is_good;
    buf_release(&text);
    return is_good ? FIRN_OK : FIRN_EIO;
}

static enum attempt_found get(int folder, const char *name, void *bytes,
                              size_t n)
{
    struct firn_buf text = {0};
    char head[HEAD];
    enum attempt_found found = attempt_get(folder, name, &text);
    if (found == ATTEMPT_PRESENT) {
        found = ATTEMPT_UNKNOWN; /* in the middle of a write */
        if (text.n == HEAD + n) {
            head_of(head, name, text.at + HEAD, n);
            if (memcmp(head, text.at, HEAD) == 0) {
                memcpy(bytes, text.at + HEAD, n);
                found = ATTEMPT_PRESENT;
            }
        }
    }
    buf_release(&text);
    return found;
}

enum firn_status far_order_put(int folder, const struct far_order *order)
{
    return put(folder, "far-order", order, sizeof *order);
}

enum attempt_found far_order_get(int folder, struct far_order *out)
{
    enum attempt_found found = get(folder, "far-order", out, sizeof *out);
    if (found == ATTEMPT_PRESENT && out->number > 0 &&
        !firn_join_is_valid(&out->order))
        found = ATTEMPT_DAMAGED;
    return found;
}

enum firn_status far_join_put(int folder, const struct far_join *join)
{
    return put(folder, "far-join", join, sizeof *join);
}

enum attempt_found far_join_get(int folder, struct far_join *out)
{
    enum attempt_found found = get(folder, "far-join", out, sizeof *out);
    if (found != ATTEMPT_PRESENT)
        return found;
    out->at[sizeof out->at - 1] = '\0';
    out->result.why[sizeof out->result.why - 1] = '\0';
    bool is_good = out->phase >= 0 && out->phase < FIRN_JOIN_NPHASES &&
                   out->port >= 0 && out->port <= 65535;
    return is_good ? found : ATTEMPT_DAMAGED;
}

static const char *ready_name(size_t worker, char out[NAME])
{
    snprintf(out, NAME, "far-ready-%zu", worker);
    return out;
}

enum firn_status far_ready_put(int folder, size_t worker, uint64_t number)
{
    char name[NAME];
    return put(folder, ready_name(worker, name), &number, sizeof number);
}

enum attempt_found far_ready_get(int folder, size_t worker, uint64_t *number)
{
    char name[NAME];
    return get(folder, ready_name(worker, name), number, sizeof *number);
}
