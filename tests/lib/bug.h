/* bug.h - tests that a broken invariant aborts.
 *
 * A broken invariant prints a sentence and aborts (FIRN_BUG): the test provokes
 * it in a child process.
 */
#ifndef LIB_BUG_H
#define LIB_BUG_H

/* Fails the test unless `act(arg)` aborts and prints `said` before. */
void expect_bug(void (*act)(void *arg), void *arg, const char *said);

#endif
