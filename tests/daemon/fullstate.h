/* fullstate.h - a state folder with many jobs in it, as long use leaves it.
 *
 * For tests and benchmarks of what a full queue costs. The jobs are of ten
 * applications and two users, rigid and elastic, some that share; each runs
 * /bin/sleep. Everything is the same each time but for tokens.
 */
#ifndef TESTS_DAEMON_FULLSTATE_H
#define TESTS_DAEMON_FULLSTATE_H
#include "daemon/book.h"

struct fullstate {
    int history;     /* finished jobs, each with an attempt and a report */
    int living;      /* jobs that wait */
    int ran_every;   /* one in this many ran three times; 0: none did */
    double oldest_s; /* when the first came; one more each second */
};

/* Job number `i`. */
enum firn_status fullstate_submit(struct book *book, int i, double at_s,
                                  struct live_job **out,
                                  struct firn_error *err);
/* Writes them all to a folder, which is made if it is not there. */
enum firn_status fullstate_fill(const char *folder,
                                const struct fullstate *what,
                                struct firn_error *err);

#endif
