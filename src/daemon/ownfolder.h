/* ownfolder.h - a folder that is firnd's own, or firnd does not use it.
 *
 * Who can write into the state folder can put a file or a link in the place of
 * one of firnd's; who can enter the socket's folder can call firnd. So both
 * are refused unless they belong to firnd's user and their mode keeps others
 * out.
 */
#ifndef DAEMON_OWNFOLDER_H
#define DAEMON_OWNFOLDER_H
#include <firn/status.h>

enum ownfolder {
    OWNFOLDER_STATE,  /* others may not write: none of 0022 */
    OWNFOLDER_SOCKET, /* others may not even enter: none of 0077 */
    OWNFOLDER_SHARED  /* of a group's socket: others enter and may not write */
};

/* Makes the folder with mode 0700 if it is not there (SHARED: with 0755, and a
 * folder that no other user can enter is refused). FIRN_EINVAL: it is not
 * firnd's own; the sentence says which command makes it so. FIRN_EIO: it cannot
 * be made or looked at. */
enum firn_status ownfolder_make(const char *path, enum ownfolder kind,
                                struct firn_error *err);

#endif
