/* failpoint.h - places where a test may kill the process, by name.
 *
 * With FIRN_FAILPOINT=engine.spawn:2 in the environment the process kills
 * itself with SIGKILL at its second pass of failpoint("engine.spawn"), as a
 * power cut would; without ":n", at the first. The variable is read once, at
 * the first pass of any point. Always compiled in: while it is off, a point is
 * one load and one branch that is never taken, and points stand only beside
 * system calls.
 *
 * A name says the part and what is about to happen or has happened:
 * "store.commit.before", "store.commit.after".
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

/* 0: off. Anything else: failpoint_pass() has to look. */
extern int failpoint_state;
void failpoint_pass(const char *name);
/* Reads the variable again: for a child of fork() with another one. */
void failpoint_reset(void);

static inline void failpoint(const char *name)
{
    if (__builtin_expect(failpoint_state != 0, 0))
        failpoint_pass(name);
}

#endif
