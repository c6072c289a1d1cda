/* store_room.c - the disk of the state folder: free space and a reserve file.
 *
 * The reserve, <folder>/firn.reserve, is a file without meaning that takes
 * space. When a write fails it is deleted, and the room that it took is at once
 * reserved for the log of the database (fallocate() past its end), so that ends
 * of jobs and cancels can be written while everything else on the disk finds it
 * full. It is made again when there is room for it three times over.
 *
 * room.h has the table of states; this file sees the events and carries out the
 * actions. (1) Each change of state is one line in the log. (2)
 * The reserve is RESERVE_MOST bytes, on a small disk a sixteenth of it; the low
 * mark is once that, the high mark twice (three times while there is none), so
 * that making and giving up cannot alternate without other writers. (3) Free
 * space is what this process could use: root may use more than others. (4) A
 * write that fails again is tried after 0.1 s, then after twice as long each
 * time, up to RETRY_MOST_S.
 *
 * Cost: one statvfs() a second.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/storework.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { RESERVE_MOST = 16 << 20, SMALL_SHARE = 16, NONE_SHARE = 8 };
static const double LOOK_EVERY_S = 1, RETRY_FIRST_S = 0.1, RETRY_MOST_S = 2;
static const double MIB = 1 << 20;

/* --- the disk ------------------------------------------------------------ */

struct disk {
    double free_bytes;
    double reserve_bytes;
    bool has_inodes;
};

static bool see_disk(const struct store *store, struct disk *out)
{
    struct statvfs about;
    if (statvfs(store->path, &about) != 0)
        return false;
    double unit = (double)about.f_frsize, all = unit * (double)about.f_blocks;
    bool is_root = geteuid() == 0;
    out->free_bytes = unit * (double)(is_root ? about.f_bfree : about.f_bavail);
    out->reserve_bytes = fmin(RESERVE_MOST, floor(all / SMALL_SHARE));
    out->has_inodes =
        about.f_files == 0 || (is_root ? about.f_ffree : about.f_favail) > 0;
    return true;
}

/* --- the reserve --------------------------------------------------------- */

void store_reserve_path(const struct store *store, struct firn_buf *out)
{
    size_t n = strlen(store->path) - strlen("firn.db");
    buf_add(out, store->path, n);
    buf_puts(out, "firn.reserve");
}

static bool make_reserve(const struct store *store, double bytes)
{
    struct firn_buf path = {0};
    struct stat about;
    store_reserve_path(store, &path);
    int fd = open(path.at, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_made = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    if (is_made && about.st_size > (off_t)bytes) /* of a larger disk */
        is_made = ftruncate(fd, (off_t)bytes) == 0;
    bool is_whole = is_made && about.st_size == (off_t)bytes &&
                    512.0 * (double)about.st_blocks >= bytes;
    if (is_made && !is_whole)
        is_made = posix_fallocate(fd, 0, (off_t)bytes) == 0;
    if (fd >= 0)
        close(fd);
    if (!is_made)
        unlink(path.at);
    buf_release(&path);
    return is_made;
}

/* Room past the end of the log, which only the log can use. */
static void keep_for_log(const struct store *store, off_t bytes)
{
    struct firn_buf path = {0};
    struct stat about;
    buf_printf(&path, "%s-wal", store->path);
    int fd = open(path.at, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &about) == 0)
        (void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, about.st_size, bytes);
    if (fd >= 0)
        close(fd); /* SQLite has no lock on this file */
    buf_release(&path);
}

bool store_room_give_up(struct store *store)
{
    struct firn_buf path = {0};
    struct stat about = {0};
    store_reserve_path(store, &path);
    bool is_there = lstat(path.at, &about) == 0 && unlink(path.at) == 0;
    if (is_there)
        keep_for_log(store, about.st_size / 4 * 3);
    store->disk.has_reserve = false;
    buf_release(&path);
    return is_there;
}

/* --- states and sentences ------------------------------------------------ */

static void say_trouble(struct store *store)
{
    struct store_disk *d = &store->disk;
    struct disk disk = {0};
    char free_text[64] = "";
    bool is_seen = see_disk(store, &disk);
    if (d->room == ROOM_AMPLE) {
        d->trouble[0] = '\0';
        return;
    }
    if (is_seen)
        snprintf(free_text, sizeof free_text, " (%.1f MiB free, %.1f needed)",
                 disk.free_bytes / MIB,
                 (d->has_reserve ? 2 : 3) * disk.reserve_bytes / MIB);
    if (d->room == ROOM_FULL)
        snprintf(d->trouble, sizeof d->trouble,
                 "the state cannot be written to %.200s: %.150s%s: nothing is "
                 "taken or started until it can be; make room there",
                 store->path, d->why, free_text);
    else
        snprintf(d->trouble, sizeof d->trouble,
                 "the disk of %.200s is nearly full%s: no job is taken or "
                 "started until there is room; delete files there",
                 store->path, free_text);
}

/* Goes to the next state and returns the actions. */
static unsigned on_event(struct store *store, enum room_event event)
{
    enum room before = store->disk.room;
    struct room_step step = room_on(before, event);
    store->disk.room = step.next;
    if (step.actions & ROOM_GIVE_UP)
        store_room_give_up(store);
    if (step.next == before)
        return step.actions;
    say_trouble(store);
    if (step.next == ROOM_AMPLE)
        log_info("disk: %s, was %s: there is room, jobs are taken and started",
                 room_name(step.next), room_name(before));
    else
        log_warn("disk: %s, was %s: %s", room_name(step.next),
                 room_name(before), store->disk.trouble);
    return step.actions;
}

static void make(struct store *store, const struct disk *disk)
{
    struct store_disk *d = &store->disk;
    d->has_reserve = make_reserve(store, disk->reserve_bytes);
    if (on_event(store, d->has_reserve ? ROOM_MADE_RESERVE : ROOM_NO_RESERVE) &
        ROOM_MAKE)
        FIRN_BUG("a reserve is made once for each look");
}

double store_look(struct store *store)
{
    struct store_disk *d = &store->disk;
    struct disk disk;
    double now_s = clock_elapsed_s();
    if (d->wants_reserve && now_s < d->looked_s + LOOK_EVERY_S)
        return d->looked_s + LOOK_EVERY_S;
    d->looked_s = now_s;
    bool is_seen = see_disk(store, &disk);
    if (is_seen && !d->wants_reserve && d->room != ROOM_FULL)
        make(store, &disk);
    d->wants_reserve = true;
    if (!is_seen)
        return now_s + LOOK_EVERY_S;
    double high = (d->has_reserve ? 2 : 3) * disk.reserve_bytes;
    unsigned todo = 0;
    if (disk.free_bytes < disk.reserve_bytes / NONE_SHARE)
        todo = on_event(store, ROOM_SAW_NONE);
    else if (disk.free_bytes < disk.reserve_bytes || !disk.has_inodes)
        todo = on_event(store, ROOM_SAW_LITTLE);
    else if (disk.free_bytes >= high)
        todo = on_event(store, ROOM_SAW_ENOUGH);
    if (todo & ROOM_MAKE)
        make(store, &disk);
    if (d->room != ROOM_AMPLE)
        say_trouble(store); /* with the figures of this moment */
    return now_s + LOOK_EVERY_S;
}

bool store_room_failed(struct store *store)
{
    struct store_disk *d = &store->disk;
    unsigned todo = on_event(store, ROOM_WRITE_FAILED);
    if (todo & ROOM_RETRY_LATER) {
        d->delay_s = fmin(fmax(2 * d->delay_s, RETRY_FIRST_S), RETRY_MOST_S);
        d->retry_s = clock_elapsed_s() + d->delay_s;
    }
    return (todo & ROOM_RETRY) != 0;
}

void store_room_wrote(struct store *store)
{
    store->disk.delay_s = 0;
    on_event(store, ROOM_WROTE);
}

enum room store_room(const struct store *store)
{
    return store->disk.room;
}

double store_retry_s(const struct store *store)
{
    return store->is_stalled ? store->disk.retry_s : INFINITY;
}

const char *store_trouble(const struct store *store)
{
    return store->disk.room != ROOM_AMPLE ? store->disk.trouble : NULL;
}
