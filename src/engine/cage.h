/* cage.h - a control group of an epoch's own, where the system lets us.
 *
 * In version 2 of control groups, a process cannot leave its group by forking
 * or by a session of its own, all of it can be killed at once, and the kernel
 * counts there whom it killed for want of memory. We make a group below our
 * own when that one was delegated to us (systemd's Delegate=yes marks it so),
 * or when told to. Everything works without one, by process groups and /proc.
 */
#ifndef ENGINE_CAGE_H
#define ENGINE_CAGE_H
#include <stdbool.h>
#include <stdint.h>

enum cage_mode { CAGE_AUTO, CAGE_ON, CAGE_OFF };

struct cage {
    int folder; /* -1: none */
    char path[1024];
};

/* Of an epoch, by its shepherd: no two on a host have the same. */
enum { CAGE_NAME = 80 };
void cage_name(char out[CAGE_NAME], int64_t job, int64_t epoch, int64_t pid);

/* `name` has no '/'. False, and an empty cage, when there is none to have. */
bool cage_open(struct cage *cage, enum cage_mode mode, const char *name);
/* The calling process goes in; safe after fork(). False: it did not. */
bool cage_enter(const struct cage *cage);
void cage_kill(const struct cage *cage);
/* How many the kernel killed in it for want of memory. */
uint64_t cage_ooms(const struct cage *cage);
/* The group that the caller's memory is counted for, "/a/b", of whichever
 * version; false: it has none. */
enum { CAGE_GROUP = 512 };
bool cage_memory_group(char out[CAGE_GROUP]);
/* How many were killed so in the caller's own group and below; false: nobody
 * counts them. */
bool cage_own_ooms(uint64_t *out);
/* Removes it; it is empty by then. */
void cage_close(struct cage *cage);
/* Of one whose shepherd was killed: kills what is in it. True: somebody is
 * still there. */
bool cage_end(enum cage_mode mode, const char *name);
/* Removes it, if it is there and empty. */
void cage_remove(enum cage_mode mode, const char *name);

#endif
