/* forks.h - tests that need several processes.
 *
 * A body runs in each of n forked processes and says how it ended by its exit
 * status. A check that fails in one prints where and ends that process with
 * status 1; cmocka's own asserts do not work there.
 */
#ifndef LIB_FORKS_H
#define LIB_FORKS_H
#include <stdbool.h>

/* The body of process `rank`; its return value is the exit status. */
typedef int forks_body(int rank, void *arg);

/* In a child: prints and ends the process when `fact` does not hold. */
#define FORKS_CHECK(fact) forks_check_((fact), #fact, __FILE__, __LINE__)
void forks_check_(bool fact, const char *text, const char *file, int line);

/* Starts n bodies and waits for all; status[i] is the exit status, or 128 plus
 * the signal. */
void forks_run(int n, forks_body *body, void *arg, int *status);
/* The same; fails the test unless every status is 0. */
void forks_run_well(int n, forks_body *body, void *arg);

/* A TCP port that is reserved until the next call; a bind with SO_REUSEADDR, as
 * groups do it, succeeds. */
int forks_free_port(void);

#endif
