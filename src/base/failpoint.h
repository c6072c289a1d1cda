/* failpoint.h - named places where a test can kill or stop the process.
 *
 * With FIRN_FAILPOINT=engine.spawn:2 in the environment the process kills
 * itself with SIGKILL at its second pass of failpoint("engine.spawn"), as a
 * power cut would; without ":2", at the first. With "/stop" behind it the
 * process stops itself (SIGSTOP) instead, as one that hangs. The variable is
 * read once, at the first pass of any point. Points are always compiled in:
 * while off, a point is one load and one branch that is never taken, and points
 * stand only beside system calls.
 *
 * A name says the part and what is about to happen or has happened:
 * "store.commit.before", "store.commit.after".
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

/* 0: off. Other values: failpoint_pass() decides. */
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
