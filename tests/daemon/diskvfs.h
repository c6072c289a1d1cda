/* diskvfs.h - a disk between SQLite and the file system that fails when told,
 * and that remembers what was written in which order.
 *
 * disk_install() makes it SQLite's way to files in this process. Only files of
 * databases and their logs pass through it; the -shm file is memory for all
 * that matters, and is left alone.
 */
#ifndef TESTS_DAEMON_DISKVFS_H
#define TESTS_DAEMON_DISKVFS_H
#include <stdbool.h>
#include <stddef.h>

enum disk_fault { DISK_FULL, DISK_BROKEN };

/* Once for a process; all is well then. */
void disk_install(void);
/* From now on there is no room for a -shm file; or there is again. */
void disk_no_shm(bool is_missing);
/* From the n-th write, truncation or sync on (1: the next) `times` of them
 * fail; 0: none ever. */
void disk_fail(enum disk_fault how, long from, long times);
/* Writes, truncations and syncs since the last disk_fail(). */
long disk_calls(void);

/* From the n-th call on a file on (1: the next) `times` of them return `code`
 * and do nothing; 0: none ever. Calls that cannot return it do not count:
 * SQLITE_IOERR (each call with its own extended code), SQLITE_IOERR_NOMEM,
 * SQLITE_BUSY (locks), SQLITE_CANTOPEN, SQLITE_FULL (writes). Waiting for a
 * lock takes no time meanwhile. */
void disk_refuse(int code, long from, long times);
/* Such calls since the last disk_refuse(). */
long disk_refusable(void);

/* --- what was written ----------------------------------------------------- */

/* The journal is there while a new file is made. */
enum disk_file { DISK_DB, DISK_WAL, DISK_JOURNAL, DISK_NFILES };
enum disk_kind { DISK_WRITE, DISK_TRUNCATE, DISK_SYNC, DISK_DELETE, DISK_MARK };
struct disk_op {
    enum disk_kind kind;
    enum disk_file file;
    long at;  /* of a truncation: the new size; of a mark: its number */
    size_t n; /* bytes of a write */
    char *bytes;
};

/* Forgets what was remembered, and remembers from now on. */
void disk_record(bool on);
/* Remembers no more, and forgets nothing. */
void disk_pause(void);
/* A note between writes: what came before has been acknowledged. */
void disk_mark(long number);
const struct disk_op *disk_ops(size_t *n);

#endif
