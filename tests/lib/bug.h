/* bug.h - things that must not be survived.
 *
 * A broken invariant aborts with a sentence (FIRN_BUG); a test of that runs it
 * in a child process.
 */
#ifndef LIB_BUG_H
#define LIB_BUG_H

/* Fails the test unless `act(arg)` aborts and says `said` on the way. */
void expect_bug(void (*act)(void *arg), void *arg, const char *said);

#endif
