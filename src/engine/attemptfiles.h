/* attemptfiles.h - the small files by which an engine and a shepherd agree.
 *
 *     <job folder>/lock           locked while a process of the job exists
 *     <job folder>/fence          the lowest attempt that may still start
 *     <job folder>/ahead/launch   what to prepare (engine/shepherd_ahead.c)
 *     <job folder>/epoch-N/launch what to run (engine/launchfile.h)
 *     <job folder>/epoch-N/pid    the shepherd of attempt N, once it runs
 *     <job folder>/epoch-N/exit   how attempt N ended, once all of it is gone
 *
 * and where workers are on other hosts:
 *
 *     <job folder>/workers          locked, shared, while a worker exists
 *     <job folder>/epoch-N/ask      a request of the engine to the shepherd
 *     <job folder>/epoch-N/order    a request of the shepherd to the workers
 *     <job folder>/epoch-N/worker-K that worker K began, and how it ended
 *     <job folder>/epoch-N/load-K   how much its GPU is used, where known
 *
 * The folder of an attempt is named epoch-N since firn's first version, so that
 * any firnd can take over the jobs of an older one.
 *
 * Each file is written under another name and renamed, so that a reader sees
 * all of it or nothing. The shepherd's own files (pid, exit) are also synced
 * and survive a power cut; the others matter only to processes, which do not.
 *
 * Reading a file has four answers (enum attempt_found). Only "absent" means
 * that the file was never written. A file that cannot be read now, because
 * descriptors or memory are short or the disk fails, is "unknown": the caller
 * decides nothing and reads it again. A file with other contents than its
 * writer writes is "damaged", and then:
 *
 *     pid, exit    the attempt was started: it never counts as not started, and
 *                  without another source its end is LOST
 *     fence        nothing starts; raising the fence replaces the file, because
 *                  the caller has the lock and the highest number
 *     launch       nothing is started
 *     ask, order   no request was made yet
 *
 * Symbolic links are not followed: a link in place of one of these files is
 * "damaged", in place of a folder the folder is "absent".
 *
 * Why two attempts never run at once: a shepherd starts nothing before it has
 * the lock and then reads the fence, and the fence is raised only by a process
 * that has the lock. So a late shepherd either had the lock first, and then the
 * fence could not be raised, or it finds the fence above its number. The lock
 * belongs to an open file that all workers inherit: the kernel frees it when
 * the last of them is gone, however the shepherd died.
 */
#ifndef ENGINE_ATTEMPTFILES_H
#define ENGINE_ATTEMPTFILES_H
#include <firn/bytes.h>
#include <firn/forecast.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum attempt_found {
    ATTEMPT_ABSENT,  /* no such file, or no such folder */
    ATTEMPT_PRESENT, /* the file was read */
    ATTEMPT_DAMAGED, /* the file has other contents than its writer writes */
    ATTEMPT_UNKNOWN  /* the file could not be read; errno says why */
};
/* The answer for a failed open() with this errno. */
enum attempt_found attempt_missing(int error);

/* Opens a job's folder: a descriptor, or -1 with errno. */
int attempt_above(const char *job_folder);
/* Opens the folder `epoch-N` below a job's folder; `make` creates both. A
 * descriptor, or -1 with errno. */
int attempt_folder(const char *job_folder, int64_t attempt, bool make);

/* Opens the folder `ahead`, of a job that is prepared for its next attempt, and
 * creates it. */
int attempt_ahead_folder(const char *job_folder);

/* Writes the file `name` of the folder, without a sync. FIRN_EIO. */
/* The file by which a further allocation says that Slurm will end it soon. */
enum { ATTEMPT_ENDING = 64 };
void attempt_ending_name(int64_t slurm_id, char out[ATTEMPT_ENDING]);
enum firn_status attempt_put(int folder, const char *name,
                             struct firn_bytes text, struct firn_error *err);
/* Appends the file to `out`. DAMAGED: larger than 16 MiB. */
enum attempt_found attempt_get(int folder, const char *name,
                               struct firn_buf *out);

/* Takes the lock of a job: a descriptor to be closed, -1 if another process has
 * it, -2 if it cannot be opened (errno). Never waits. */
int attempt_lock(int job_folder);

/* The same in two parts: opens the lock file without locking it (a descriptor,
 * or -2), and locks it later. `fd` again, -1 or -2 as above; also -2 if the
 * folder has another lock file by then. */
int attempt_lock_file(int job_folder);
int attempt_lock_opened(int job_folder, int fd);

/* "FIRN_HERD=...", made from the job's lock file: the mark of workers that an
 * older firnd or a host without a mark started (engine/herd.h). Empty: there is
 * no lock file. */
enum { ATTEMPT_HERD = 96 };
void attempt_herd(int job_folder, int64_t attempt, char out[ATTEMPT_HERD]);

/* Keeps attempts below `attempt` from starting. The caller has the lock. A
 * higher fence stays. FIRN_EIO: nothing may be started. */
enum firn_status attempt_fence_raise(int job_folder, int64_t attempt,
                                     struct firn_error *err);
enum attempt_found attempt_fence(int job_folder, int64_t *out);

struct attempt_pid {
    int64_t attempt, pid;
    uint64_t start; /* procs_start() of it */
};
enum firn_status attempt_pid_put(int folder, const struct attempt_pid *pid,
                                 struct firn_error *err);
enum attempt_found attempt_pid_get(int folder, struct attempt_pid *out);

/* The exit file's space is reserved before the job starts: the end is written
 * even if the disk fills up meanwhile. */
struct attempt_exit {
    int64_t attempt;
    int end, status; /* enum firn_end; exit status as of a shell */
};
enum firn_status attempt_exit_reserve(int folder, struct firn_error *err);
enum firn_status attempt_exit_put(int folder, const struct attempt_exit *result,
                                  struct firn_error *err);
enum attempt_found attempt_exit_get(int folder, struct attempt_exit *out);

/* --- beyond one host -------------------------------------------------------
 *
 * Processes of an attempt on several hosts share only a file system. On such
 * file systems a renamed file may become visible late; a file that exists and
 * is overwritten is visible to every later open(). So these files are made at
 * the start and overwritten, never renamed. Each request file has one writer,
 * and requests only get stronger.
 *
 * Two attempts never run at once: a worker takes the shared lock and then reads
 * the fence and the requests; the engine raises the fence and takes this lock
 * exclusively before it starts an attempt. A running worker holds the lock; a
 * late worker finds the fence. The fence may also be raised while workers run:
 * ATTEMPT_KILL ends workers that no signal reaches.
 */
enum attempt_request {
    ATTEMPT_GO,
    ATTEMPT_CHECKPOINT,
    ATTEMPT_LEAVE,
    ATTEMPT_KILL
};

/* Overwrites the file `name`, "ask" or "order". FIRN_EIO. */
enum firn_status attempt_request_put(int folder, const char *name,
                                     enum attempt_request request,
                                     struct firn_error *err);
/* `out` is ATTEMPT_GO unless a request is PRESENT. */
enum attempt_found attempt_request_get(int folder, const char *name,
                                       enum attempt_request *out);

/* Takes the workers' lock, shared (a worker) or exclusively: as
 * attempt_lock(). */
int attempt_workers_lock(int job_folder, bool is_shared);

/* The file of one worker: reserved before the worker is started, then "begun",
 * then how it ended. A worker holds the lock from "begun" to its end. */
enum firn_status attempt_worker_reserve(int folder, size_t worker,
                                        struct firn_error *err);
enum firn_status attempt_worker_begin(int folder, size_t worker,
                                      struct firn_error *err);
/* ABSENT: the worker has not begun. */
enum attempt_found attempt_worker_has_begun(int folder, size_t worker);
enum firn_status attempt_worker_put(int folder, size_t worker,
                                    const struct attempt_exit *result,
                                    struct firn_error *err);
/* How much the GPU of a worker is used: overwritten, not synced. */
enum firn_status attempt_load_put(int folder, size_t worker, int64_t attempt,
                                  const struct firn_load *load,
                                  struct firn_error *err);
/* ABSENT: nothing was measured in this attempt. */
enum attempt_found attempt_load_get(int folder, size_t worker, int64_t attempt,
                                    struct firn_load *out);
/* ABSENT: the worker has not ended. */
enum attempt_found attempt_worker_get(int folder, size_t worker,
                                      struct attempt_exit *out);

#endif
