/* http_sock.c - the sockets that the HTTP server listens on, and who is at
 * the other end.
 *
 * The Unix socket of one user is private twice: only its owner can enter its
 * folder, and its own mode is 0600. That of a group has mode 0660 in a folder
 * that others can enter; a member of the group connects, and what it may do is
 * its role's matter. The user at the other end is known from the kernel
 * (SO_PEERCRED).
 *
 * (1) A file that is not a socket is never removed, nor is a socket on which a
 *     daemon answers. A daemon that was killed while it started a process
 *     leaves its sockets to the child until the child's exec: the kernel still
 *     names the listener, which is dead. Where the kernel does not tell (TCP; a
 *     zombie) the child is given a moment.
 * (2) Two daemons that start at the same moment are kept apart by the lock of
 *     the store, which is taken before.
 * (3) Secrets are compared as digests of one length, all of it, whatever the
 *     guess has in common with the secret.
 */
#define _GNU_SOURCE /* struct ucred */
#include "daemon/http_sock.h"
#include "base/clock.h"
#include "base/str.h"
#include "daemon/ownfolder.h"
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, LOOK_MS = 5 };
static const double moment_s = 2; /* from a fork to a program, at most */

static enum firn_status torn(int fd, struct firn_error *err, const char *what,
                             const char *name)
{
    int code = errno;
    if (fd >= 0)
        close(fd);
    return firn_fail(err, FIRN_EIO, "%s %s: %s", what, name, strerror(code));
}

/* Makes the folder of `path`, which no other user can enter, or (`is_shared`)
 * write into. */
static enum firn_status own_folder(const char *path, bool is_shared,
                                   struct firn_error *err)
{
    char folder[sizeof((struct sockaddr_un){0}.sun_path)];
    str_copy(folder, sizeof folder, path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return firn_fail(err, FIRN_EINVAL,
                         "socket '%s' needs a folder of its own", path);
    *slash = '\0';
    return ownfolder_make(folder,
                          is_shared ? OWNFOLDER_SHARED : OWNFOLDER_SOCKET, err);
}

/* The one who called listen(), by the other end of a connection to him. */
static bool is_listener_gone(int fd)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.pid > 0 && kill(peer.pid, 0) != 0 && errno == ESRCH;
}

/* Invariant (1). */
static enum firn_status look(const struct sockaddr_un *at, bool *answers,
                             struct firn_error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return torn(fd, err, "cannot make a socket for", at->sun_path);
    if (connect(fd, (const struct sockaddr *)at, sizeof *at) == 0)
        *answers = !is_listener_gone(fd);
    else
        *answers = errno == EAGAIN; /* alive, and busy */
    close(fd);
    return FIRN_OK;
}

/* Nothing stands at `path` afterwards: invariant (1). */
static enum firn_status clear_path(const struct sockaddr_un *at,
                                   struct firn_error *err)
{
    struct stat st;
    if (lstat(at->sun_path, &st) != 0)
        return FIRN_OK;
    if (!S_ISSOCK(st.st_mode))
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is there already and is no socket",
                         at->sun_path);
    bool answers = false;
    double until_s = clock_elapsed_s() + moment_s;
    FIRN_TRY(look(at, &answers, err));
    while (answers && clock_elapsed_s() < until_s) {
        poll(NULL, 0, LOOK_MS);
        FIRN_TRY(look(at, &answers, err));
    }
    if (answers)
        return firn_fail(err, FIRN_EIO, "another daemon listens on '%s'",
                         at->sun_path);
    if (unlink(at->sun_path) != 0)
        return torn(-1, err, "cannot remove the old socket", at->sun_path);
    return FIRN_OK;
}

/* The socket becomes the group's, before it takes connections. */
static enum firn_status give_group(const char *path, const char *group,
                                   struct firn_error *err)
{
    char room[1 << 14];
    struct group entry, *found = NULL;
    if (getgrnam_r(group, &entry, room, sizeof room, &found) != 0 ||
        found == NULL)
        return firn_fail(err, FIRN_EINVAL, "socket-group: no group '%.60s'",
                         group);
    if (chown(path, (uid_t)-1, entry.gr_gid) != 0 || chmod(path, 0660) != 0)
        return firn_fail(err, FIRN_EIO,
                         "cannot give the socket '%.120s' to group '%.60s': "
                         "%s; the user of firnd must be a member of the group",
                         path, group, strerror(errno));
    return FIRN_OK;
}

enum firn_status sock_listen_path(int *out, const char *path, const char *group,
                                  struct firn_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!str_copy(at.sun_path, sizeof at.sun_path, path))
        return firn_fail(err, FIRN_EINVAL,
                         "the path of a socket has at most %zu bytes, '%s' "
                         "has %zu",
                         sizeof at.sun_path - 1, path, strlen(path));
    FIRN_TRY(own_folder(path, group != NULL, err));
    FIRN_TRY(clear_path(&at, err));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return torn(fd, err, "cannot make a socket for", path);
    mode_t old = umask(0177);
    int bound = bind(fd, (const struct sockaddr *)&at, sizeof at);
    umask(old);
    if (bound == 0 && group != NULL) {
        enum firn_status status = give_group(path, group, err);
        if (status != FIRN_OK) {
            close(fd);
            unlink(path);
            return status;
        }
    }
    if (bound != 0 || listen(fd, BACKLOG) != 0)
        return torn(fd, err, "cannot listen on", path);
    *out = fd;
    return FIRN_OK;
}

void sock_unlink(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
}

/* Cuts "host:port" and "[host]:port"; the host without its brackets. */
static bool cut_address(char *text, char **host, char **port)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0')
        return false;
    *colon = '\0';
    *port = colon + 1;
    *host = text;
    if (text[0] != '[')
        return strchr(text, ':') == NULL;
    if (colon[-1] != ']')
        return false;
    colon[-1] = '\0';
    *host = text + 1;
    return true;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    socklen_t n = sizeof at;
    memset(&at, 0, sizeof at);
    if (getsockname(fd, &at.any, &n) != 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port
                                              : at.four.sin_port);
}

/* -1, and errno. */
static int try_address(const struct addrinfo *at)
{
    int one = 1;
    int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int code = errno;
    if (fd >= 0)
        close(fd);
    errno = code;
    return -1;
}

enum firn_status sock_listen_address(int *out, int *port, const char *address,
                                     struct firn_error *err)
{
    char text[128], *host, *service;
    long number;
    struct addrinfo *found = NULL;
    struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    if (!str_copy(text, sizeof text, address) ||
        !cut_address(text, &host, &service) ||
        !str_int(service, 0, 65535, &number) ||
        getaddrinfo(host, service, &want, &found) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "address '%s' is not like 127.0.0.1:7070 or "
                         "[::1]:7070",
                         address);
    double until_s = clock_elapsed_s() + moment_s;
    int fd = try_address(found);
    while (fd < 0 && errno == EADDRINUSE && clock_elapsed_s() < until_s) {
        poll(NULL, 0, LOOK_MS); /* (1) */
        fd = try_address(found);
    }
    int code = errno;
    freeaddrinfo(found);
    errno = code;
    if (fd < 0)
        return torn(fd, err, "cannot listen on", address);
    *port = port_of(fd);
    *out = fd;
    return FIRN_OK;
}

void sock_peer(int fd, const struct http_config *config,
               struct http_caller *out)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof peer;
    out->job = -1;
    out->role = ACCESS_GUEST;
    str_copy(out->user, sizeof out->user, "unknown");
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return;
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(peer.uid, &entry, room, sizeof room, &found) != 0 ||
        found == NULL || !str_copy(out->user, sizeof out->user, found->pw_name))
        snprintf(out->user, sizeof out->user, "uid %u", (unsigned)peer.uid);
    if (config->role_of_uid != NULL)
        out->role = config->role_of_uid(config->arg, peer.uid, out->user);
    else if (peer.uid == geteuid() || peer.uid == 0)
        out->role = ACCESS_OPERATOR;
}

void sock_peer_address(int fd, char out[48])
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    char host[NI_MAXHOST];
    out[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&at, &n) == 0 &&
        getnameinfo((struct sockaddr *)&at, n, host, sizeof host, NULL, 0,
                    NI_NUMERICHOST) == 0)
        snprintf(out, 48, "%.47s",
                 strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host);
}

bool sock_same_secret(const char *a, const char *b)
{
    unsigned char x[crypto_generichash_BYTES], y[crypto_generichash_BYTES];
    crypto_generichash(x, sizeof x, (const unsigned char *)a, strlen(a), NULL,
                       0);
    crypto_generichash(y, sizeof y, (const unsigned char *)b, strlen(b), NULL,
                       0);
    return sodium_memcmp(x, y, sizeof x) == 0;
}
