/* attemptfiles.h - the small files by which an engine and a shepherd agree.
 *
 *     <job folder>/lock           held while any process of the job is there
 *     <job folder>/fence          the lowest attempt that may still start
 *     <job folder>/epoch-N/launch what to run (engine/launchfile.h)
 *     <job folder>/epoch-N/pid    its shepherd, once it runs
 *     <job folder>/epoch-N/exit   how it ended, once all of it is gone
 *
 * and where workers are on other hosts:
 *
 *     <job folder>/workers          locked, shared, while any worker is there
 *     <job folder>/epoch-N/ask      a word of the engine to the shepherd
 *     <job folder>/epoch-N/order    a word of the shepherd to the workers
 *     <job folder>/epoch-N/worker-K that worker K began, and how it ended
 *
 * Each is written whole under another name and renamed, so that a reader sees
 * all of it or none. What a shepherd says of itself (pid, exit) is synced too,
 * and outlives a power cut; the others matter only to processes, which do not.
 *
 * Reading a file has four answers (enum attempt_found). Only "absent" means
 * that the file was never written. A file that cannot be read now, since
 * descriptors or memory are short or the disk fails, is "unknown": the caller
 * decides nothing and looks again. A file that is there and does not read as it
 * was written is "damaged", and then:
 *
 *     pid, exit    the attempt was started: it is never taken for one that was
 *                  not, and its end, if nothing else tells it, is LOST
 *     fence        nothing starts; a fence that is raised next replaces it, for
 *                  the caller has the lock and the highest number
 *     launch       nothing is started
 *     ask, order   nothing was asked yet
 *
 * No symbolic link is followed: a link in place of one of these files is
 * "damaged", in place of a folder the folder is "absent".
 *
 * Why two attempts never run at once: a shepherd starts nothing unless it has
 * the lock, and then reads the fence; the fence is raised only by somebody who
 * has the lock. So a shepherd that comes late either had the lock before the
 * fence was raised, and whoever wanted to raise it found the lock taken, or it
 * finds the fence above it. The lock belongs to an open file that all workers
 * inherit: the kernel lets go of it when the last of them is gone, however the
 * shepherd died.
 */
#ifndef ENGINE_ATTEMPTFILES_H
#define ENGINE_ATTEMPTFILES_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum attempt_found {
    ATTEMPT_ABSENT,  /* there is no such file, or no such folder */
    ATTEMPT_PRESENT, /* it was read */
    ATTEMPT_DAMAGED, /* it is there and does not read as it is written */
    ATTEMPT_UNKNOWN  /* it could not be looked at; errno says why */
};
/* The answer that a failed open() with this errno gives. */
enum attempt_found attempt_missing(int error);

/* A job's folder: a descriptor, or -1 with errno. */
int attempt_above(const char *job_folder);
/* The folder `epoch-N` of a job's folder; made, and the job's too, if `make`.
 * A descriptor, or -1 with errno. */
int attempt_folder(const char *job_folder, int64_t attempt, bool make);

/* Writes the whole file `name` of the folder, without a sync. FIRN_EIO. */
enum firn_status attempt_put(int folder, const char *name,
                             struct firn_bytes text, struct firn_error *err);
/* Appends the file to `out`. DAMAGED: larger than 16 MiB. */
enum attempt_found attempt_get(int folder, const char *name,
                               struct firn_buf *out);

/* The lock of a job, whose folder is `job_folder`: a descriptor to be closed,
 * -1 when somebody has it, -2 when it cannot be opened (errno). Never waits.
 */
int attempt_lock(int job_folder);

/* "FIRN_HERD=...", by the lock file of the job: the mark that workers of an
 * older firnd have, and those of a host without a mark (engine/herd.h). Empty:
 * no lock is there. */
enum { ATTEMPT_HERD = 96 };
void attempt_herd(int job_folder, int64_t attempt, char out[ATTEMPT_HERD]);

/* Attempts below `attempt` never start any more. The caller has the lock. A
 * fence that is higher stays. FIRN_EIO: nothing may be started. */
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

/* Room for the exit file is made beforehand: a disk that fills up while a job
 * runs does not keep its end from being told. */
struct attempt_exit {
    int64_t attempt;
    int end, status; /* enum firn_end; as a shell tells it */
};
enum firn_status attempt_exit_reserve(int folder, struct firn_error *err);
enum firn_status attempt_exit_put(int folder, const struct attempt_exit *result,
                                  struct firn_error *err);
enum attempt_found attempt_exit_get(int folder, struct attempt_exit *out);

/* --- beyond one host -------------------------------------------------------
 *
 * Processes of an attempt on several hosts share nothing but a file system. A
 * file that is renamed into place may be seen late there; one that was there
 * before, and is written over, is seen by whoever opens it afterwards. So these
 * are made at the start and written over, never renamed. Only one side writes a
 * word, and only upwards.
 *
 * Two attempts never run at once: a worker takes the shared lock and then reads
 * the fence and its words; who starts an attempt has raised the fence and had
 * this lock for itself. A worker that is there has the lock, one that comes
 * late finds the fence. So the fence may be raised with workers about: the word
 * ATTEMPT_KILL ends those that nobody reaches otherwise.
 */
enum attempt_request {
    ATTEMPT_GO,
    ATTEMPT_CHECKPOINT,
    ATTEMPT_LEAVE,
    ATTEMPT_KILL
};

/* Writes `word` over the file `name`, "ask" or "order". FIRN_EIO. */
enum firn_status attempt_request_put(int folder, const char *name,
                                     enum attempt_request word,
                                     struct firn_error *err);
/* `out` is ATTEMPT_GO unless a word is PRESENT. */
enum attempt_found attempt_request_get(int folder, const char *name,
                                       enum attempt_request *out);

/* The lock of a job's workers, for one of them (`is_shared`) or for nobody
 * else: as attempt_lock(). */
int attempt_workers_lock(int job_folder, bool is_shared);

/* How a worker ended; reserved before it is started. A worker that has its lock
 * says that it began: it keeps the lock until its end is written. */
enum firn_status attempt_worker_reserve(int folder, size_t worker,
                                        struct firn_error *err);
enum firn_status attempt_worker_begin(int folder, size_t worker,
                                      struct firn_error *err);
/* ABSENT: it has not begun. */
enum attempt_found attempt_worker_has_begun(int folder, size_t worker);
enum firn_status attempt_worker_put(int folder, size_t worker,
                                    const struct attempt_exit *result,
                                    struct firn_error *err);
/* ABSENT: it has no end yet; its file is there from the start on. */
enum attempt_found attempt_worker_get(int folder, size_t worker,
                                      struct attempt_exit *out);

#endif
