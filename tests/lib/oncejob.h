/* oncejob.h - a job that notices when it runs twice at once.
 *
 * The worker locks a file of its job and one of its GPU, and writes lines of
 * one length to `folder`/ledger: "begin" and "end", or "twice" when another
 * process holds the lock. The kernel drops the locks with the process, however
 * it ends. The reader goes on where it stopped.
 */
#ifndef TESTS_LIB_ONCEJOB_H
#define TESTS_LIB_ONCEJOB_H

enum { ONCEJOB_MAX = 40000 };

struct oncejob_tally {
    int nbegun, nended, ntwice;
    long attempt;   /* of its last line */
    int nbackwards; /* lines of an attempt that was over or had not begun */
};

struct oncejob_ledger {
    long offset;
    int nended;                             /* jobs that ended at least once */
    struct oncejob_tally jobs[ONCEJOB_MAX]; /* by id */
};

/* The work of a job process, by FIRN_JOB, FIRN_EPOCH and CUDA_VISIBLE_DEVICES;
 * returns its exit status. */
int oncejob_work(const char *folder, double work_s);
/* The tally of a job. Ids of a state that was begun anew are large, and far
 * from those before: they are taken modulo ONCEJOB_MAX. */
struct oncejob_tally *oncejob_of(struct oncejob_ledger *ledger, long job);
/* Adds the lines that have come since. */
void oncejob_read(struct oncejob_ledger *ledger, const char *folder);
/* The number of other processes with the folder in an argument; -1: no /proc.
 */
int oncejob_processes(const char *folder);
/* The folder and all that is in it; 0: gone. */
int oncejob_remove(const char *folder);

#endif
