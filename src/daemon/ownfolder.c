/* ownfolder.c - owner and mode of a folder: see the header.
 */
#include "daemon/ownfolder.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *what;
    mode_t forbidden;
    const char *mode; /* for chmod */
} kinds[] = {[OWNFOLDER_STATE] = {"state folder", 022, "go-w"},
             [OWNFOLDER_SOCKET] = {"folder of the socket", 077, "0700"},
             [OWNFOLDER_SHARED] = {"folder of the socket", 022, "go-w"}};

enum firn_status ownfolder_make(const char *path, enum ownfolder kind,
                                struct firn_error *err)
{
    const char *what = kinds[kind].what;
    struct stat st;
    int made = mkdir(path, 0700);
    if (made == 0 && kind == OWNFOLDER_SHARED)
        made = chmod(path, 0755); /* whatever the umask */
    if (made != 0 && errno != EEXIST)
        return firn_fail(err, FIRN_EIO, "cannot make the %s '%.300s': %s", what,
                         path, strerror(errno));
    if (stat(path, &st) != 0)
        return firn_fail(err, FIRN_EIO, "cannot look at the %s '%.300s': %s",
                         what, path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return firn_fail(err, FIRN_EINVAL, "the %s '%.300s' is not a folder",
                         what, path);
    if (st.st_uid != geteuid())
        return firn_fail(err, FIRN_EINVAL,
                         "the %s '%.300s' belongs to user %u, and firnd is "
                         "user %u: chown %u '%.300s'",
                         what, path, (unsigned)st.st_uid, (unsigned)geteuid(),
                         (unsigned)geteuid(), path);
    if ((st.st_mode & kinds[kind].forbidden) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the %s '%.300s' has mode %04o, which lets other "
                         "users %s it: chmod %s '%.300s'",
                         what, path, (unsigned)(st.st_mode & 07777),
                         kind == OWNFOLDER_SOCKET ? "enter" : "write into",
                         kinds[kind].mode, path);
    if (kind == OWNFOLDER_SHARED && (st.st_mode & 011) == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the %s '%.300s' has mode %04o, so that no group can "
                         "use the socket: put the socket into a folder of its "
                         "own, such as /run/firn/firn.sock",
                         what, path, (unsigned)(st.st_mode & 07777));
    return FIRN_OK;
}
