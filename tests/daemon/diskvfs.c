/* diskvfs.c - a VFS of SQLite's that passes calls on, fails some, notes all. */
#include "tests/daemon/diskvfs.h"
#include "base/mem.h"
#include "base/vec.h"
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct file {
    sqlite3_file base;
    enum disk_file which;
    sqlite3_file *real; /* behind it in memory */
};

static sqlite3_vfs *unix_vfs;
static sqlite3_vfs our_vfs;
static struct {
    enum disk_fault how;
    long from, times, calls;
} fault;
static struct {
    int code;
    long from, times, calls;
} refusal;
static bool is_recording, has_no_shm;
static VEC(struct disk_op) ops;

/* --- faults --------------------------------------------------------------- */

void disk_fail(enum disk_fault how, long from, long times)
{
    fault.how = how;
    fault.from = from;
    fault.times = times;
    fault.calls = 0;
}

long disk_calls(void)
{
    return fault.calls;
}

static int passes(int broken_code)
{
    long n = ++fault.calls;
    if (fault.times == 0 || n < fault.from || n - fault.from >= fault.times)
        return SQLITE_OK;
    return fault.how == DISK_FULL && broken_code != SQLITE_IOERR_FSYNC
               ? SQLITE_FULL
               : broken_code;
}

void disk_refuse(int code, long from, long times)
{
    refusal.code = code;
    refusal.from = from;
    refusal.times = times;
    refusal.calls = 0;
}

long disk_refusable(void)
{
    return refusal.calls;
}

/* Which codes a call can return: `ioerr` is its own of SQLITE_IOERR; a lock may
 * be BUSY, a file that is opened CANTOPEN, a file that grows FULL. */
static int refused(int ioerr, int other)
{
    bool is_ioerr = refusal.code == SQLITE_IOERR;
    if (!is_ioerr && refusal.code != other &&
        refusal.code != SQLITE_IOERR_NOMEM)
        return SQLITE_OK;
    long n = ++refusal.calls;
    if (refusal.times == 0 || n < refusal.from ||
        n - refusal.from >= refusal.times)
        return SQLITE_OK;
    return is_ioerr ? ioerr : refusal.code;
}

/* --- what was written ----------------------------------------------------- */

static void note(enum disk_kind kind, enum disk_file file, long at,
                 const void *bytes, size_t n)
{
    struct disk_op op = {kind, file, at, n, NULL};
    if (!is_recording)
        return;
    if (n > 0) {
        op.bytes = mem_new(n, 1);
        memcpy(op.bytes, bytes, n);
    }
    vec_add(&ops, op);
}

void disk_record(bool on)
{
    for (size_t i = 0; i < ops.n; i++)
        mem_free(ops.at[i].bytes);
    vec_release(&ops);
    is_recording = on;
}

void disk_pause(void)
{
    is_recording = false;
}

void disk_mark(long number)
{
    note(DISK_MARK, DISK_DB, number, NULL, 0);
}

const struct disk_op *disk_ops(size_t *n)
{
    *n = ops.n;
    return ops.at;
}

/* --- a file --------------------------------------------------------------- */

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct file *)(void *)file)->real;
}

static int on_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int on_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    int no = refused(SQLITE_IOERR_READ, SQLITE_OK);
    if (no != SQLITE_OK)
        return no;
    return real_of(file)->pMethods->xRead(real_of(file), to, n, at);
}

static int on_write(sqlite3_file *file, const void *from, int n,
                    sqlite3_int64 at)
{
    int no = refused(SQLITE_IOERR_WRITE, SQLITE_FULL);
    if (no != SQLITE_OK)
        return no;
    int code = passes(SQLITE_IOERR_WRITE);
    if (code != SQLITE_OK) { /* a part may have come through */
        if (n > 1)
            real_of(file)->pMethods->xWrite(real_of(file), from, n / 2, at);
        return code;
    }
    note(DISK_WRITE, ((struct file *)(void *)file)->which, (long)at, from,
         (size_t)n);
    return real_of(file)->pMethods->xWrite(real_of(file), from, n, at);
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    int no = refused(SQLITE_IOERR_TRUNCATE, SQLITE_FULL);
    if (no != SQLITE_OK)
        return no;
    int code = passes(SQLITE_IOERR_TRUNCATE);
    if (code != SQLITE_OK)
        return code;
    note(DISK_TRUNCATE, ((struct file *)(void *)file)->which, (long)size, NULL,
         0);
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int on_sync(sqlite3_file *file, int flags)
{
    int no = refused(SQLITE_IOERR_FSYNC, SQLITE_OK);
    if (no != SQLITE_OK)
        return no;
    int code = passes(SQLITE_IOERR_FSYNC);
    if (code != SQLITE_OK)
        return code;
    note(DISK_SYNC, ((struct file *)(void *)file)->which, 0, NULL, 0);
    (void)flags; /* that the real disk syncs would only take its time */
    return SQLITE_OK;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size)
{
    int no = refused(SQLITE_IOERR_FSTAT, SQLITE_OK);
    if (no != SQLITE_OK)
        return no;
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int on_lock(sqlite3_file *file, int how)
{
    int no = refused(SQLITE_IOERR_LOCK, SQLITE_BUSY);
    if (no != SQLITE_OK)
        return no;
    return real_of(file)->pMethods->xLock(real_of(file), how);
}

static int on_unlock(sqlite3_file *file, int how)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), how);
}

static int on_reserved(sqlite3_file *file, int *out)
{
    int no = refused(SQLITE_IOERR_CHECKRESERVEDLOCK, SQLITE_OK);
    if (no != SQLITE_OK)
        return no;
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int on_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int on_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

/* Nothing is promised: no atomic writes, no safe appends, no order. */
static int on_traits(sqlite3_file *file)
{
    (void)file;
    return 0;
}

void disk_no_shm(bool is_missing)
{
    has_no_shm = is_missing;
}

static int on_shm_map(sqlite3_file *file, int page, int size, int extend,
                      void volatile **out)
{
    int no = refused(SQLITE_IOERR_SHMMAP, SQLITE_CANTOPEN);
    if (no != SQLITE_OK)
        return no;
    if (has_no_shm && extend)
        return SQLITE_IOERR_SHMSIZE;
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend,
                                            out);
}

static int on_shm_lock(sqlite3_file *file, int at, int n, int flags)
{
    int no = flags & SQLITE_SHM_UNLOCK
                 ? SQLITE_OK
                 : refused(SQLITE_IOERR_SHMLOCK, SQLITE_BUSY);
    if (no != SQLITE_OK)
        return no;
    return real_of(file)->pMethods->xShmLock(real_of(file), at, n, flags);
}

static void on_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int on_shm_unmap(sqlite3_file *file, int is_deleted)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), is_deleted);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_reserved,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_traits,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

static int on_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file,
                   int flags, int *out_flags)
{
    struct file *ours = (struct file *)(void *)file;
    (void)vfs;
    ours->real = (sqlite3_file *)(void *)(ours + 1);
    ours->which = flags & SQLITE_OPEN_WAL            ? DISK_WAL
                  : flags & SQLITE_OPEN_MAIN_JOURNAL ? DISK_JOURNAL
                                                     : DISK_DB;
    ours->base.pMethods = NULL;
    int code = refused(SQLITE_CANTOPEN, SQLITE_CANTOPEN);
    if (code == SQLITE_OK)
        code = unix_vfs->xOpen(unix_vfs, name, ours->real, flags, out_flags);
    ours->base.pMethods = code == SQLITE_OK ? &methods : NULL;
    return code;
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int syncs_folder)
{
    const char *dash = strrchr(name, '-');
    (void)vfs;
    if (dash != NULL && strcmp(dash, "-wal") == 0)
        note(DISK_DELETE, DISK_WAL, syncs_folder, NULL, 0);
    if (dash != NULL && strcmp(dash, "-journal") == 0)
        note(DISK_DELETE, DISK_JOURNAL, syncs_folder, NULL, 0);
    return unix_vfs->xDelete(unix_vfs, name, syncs_folder);
}

static int on_access(sqlite3_vfs *vfs, const char *name, int how, int *out)
{
    (void)vfs;
    int no = refused(SQLITE_IOERR_ACCESS, SQLITE_OK);
    if (no != SQLITE_OK)
        return no;
    return unix_vfs->xAccess(unix_vfs, name, how, out);
}

static int on_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return refusal.times > 0 ? us : unix_vfs->xSleep(unix_vfs, us);
}

void disk_install(void)
{
    if (unix_vfs != NULL)
        return;
    unix_vfs = sqlite3_vfs_find(NULL);
    our_vfs = *unix_vfs;
    our_vfs.zName = "disk";
    our_vfs.szOsFile = (int)sizeof(struct file) + unix_vfs->szOsFile;
    our_vfs.xOpen = on_open;
    our_vfs.xDelete = on_delete;
    our_vfs.xAccess = on_access;
    our_vfs.xSleep = on_sleep;
    sqlite3_vfs_register(&our_vfs, 1);
}
