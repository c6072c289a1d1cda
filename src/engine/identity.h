/* identity.h - a shepherd with firnd's rights, workers with the user's.
 *
 * The launcher starts a shepherd as root with two identities in its arguments.
 * The shepherd at once becomes firnd's user: it reads and writes what firnd may
 * and nothing else. It keeps root as its saved user, and of root's capabilities
 * it uses CAP_KILL (to signal the workers) and, in a forked child only, those
 * to become the user. So a job can neither write its control files nor signal
 * or trace its shepherd, and a file that firnd names is never opened as root.
 */
#ifndef ENGINE_IDENTITY_H
#define ENGINE_IDENTITY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { IDENTITY_GROUPS = 256, IDENTITY_TEXT = 4096 };

struct identity {
    uid_t uid;
    gid_t gid;
    gid_t groups[IDENTITY_GROUPS];
    size_t ngroups;
};

/* "1000:1000:4,27,1000", the groups possibly none. User and group 0 are not
 * accepted. */
bool identity_read(const char *text, struct identity *out);
void identity_write(const struct identity *identity, char out[IDENTITY_TEXT]);

/* The calling process, which is root, takes this identity and keeps CAP_KILL.
 * False: errno; the process must end. */
bool identity_supervise(const struct identity *own);
/* The calling process, forked from such a one, takes this identity for good.
 * Safe after fork(). False: it must not run anything. */
bool identity_become(const struct identity *user);

#endif
