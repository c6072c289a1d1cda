/* tickledger.h - what the ledger of tickjobs tells: was any run twice, or lost?
 *
 * The rules; a sentence names the first that is broken:
 * (1) every job that is known came to its end, in its last attempt;
 * (2) no worker found another in its place, or on its GPU;
 * (3) the numbers of attempts of a job never go down;
 * (4) a job whose workers all said their end is not begun again, unless a node
 *     died on which it was said, in that very second, or before their shepherd
 *     had written that the attempt was done: firnd may not know of it. The same
 *     holds when a controller died: nodes end at once what the next one has
 *     never heard of, also a worker between its last line and its exit;
 * (5) only known jobs ran.
 */
#ifndef TESTS_LIB_TICKLEDGER_H
#define TESTS_LIB_TICKLEDGER_H
#include <stdbool.h>
#include <stddef.h>

/* A node that died with all that ran there, or, "", the controller, in that
 * span of time. */
struct tickledger_death {
    char node[20];
    double from_s, to_s; /* of tickjob_now_s() */
};

struct tickledger {
    const char *folder;
    const char *state; /* firnd's folder; NULL: it is not looked at */
    const int *known;  /* by id; 0: not known */
    size_t njobs;      /* entries of `known` */
    const struct tickledger_death *deaths;
    size_t ndeaths;
};

/* False: broken, and `said` has how. `nlines`: how much was read. */
bool tickledger_is_good(const struct tickledger *of, size_t *nlines,
                        char said[300]);

#endif
