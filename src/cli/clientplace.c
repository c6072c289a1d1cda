/* clientplace.c - address and token of firnd.
 *
 * Options take precedence over the environment, FIRN_API_URL over FIRN_SOCKET.
 * The default is firnd's default socket: $XDG_RUNTIME_DIR/firn.sock, else
 * firn.sock in the state directory; if it is not there and the host has a firnd
 * of its own (the packaged service), that one's socket. Only TCP needs a token;
 * the socket is protected by its file permissions.
 */
#include "cli/clientplace.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { TOKEN_MAX = 512 };

/* The option, else the environment variable; NULL if empty. */
static const char *setting(const char *given, const char *name)
{
    const char *text = given != NULL ? given : getenv(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/* Only printable ASCII, as in HTTP headers and addresses? */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static enum firn_status default_socket(struct firn_buf *out,
                                       struct firn_error *err)
{
    const char *run = setting(NULL, "XDG_RUNTIME_DIR");
    const char *state = setting(NULL, "XDG_STATE_HOME");
    const char *home = setting(NULL, "HOME");
    if (run != NULL)
        buf_printf(out, "%s/firn.sock", run);
    else if (state != NULL)
        buf_printf(out, "%s/firn/firn.sock", state);
    else if (home != NULL)
        buf_printf(out, "%s/.local/state/firn/firn.sock", home);
    else
        return firn_fail(
            err, FIRN_EINVAL,
            "neither XDG_RUNTIME_DIR nor HOME is set: give firnd's "
            "socket by --socket or FIRN_SOCKET");
    return FIRN_OK;
}

/* The socket of the packaged service (debian/firnd.service). */
static const char service_socket[] = "/run/firn/firn.sock";

static const char *own_or_service(const char *own)
{
    return access(own, F_OK) != 0 && access(service_socket, F_OK) == 0
               ? service_socket
               : own;
}

static enum firn_status set_socket(struct client_place *place, const char *path,
                                   struct firn_error *err)
{
    struct sockaddr_un at;
    if (strlen(path) >= sizeof at.sun_path)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: the path of a socket has at most %zu bytes", path,
                         sizeof at.sun_path - 1);
    place->socket = mem_strdup(path);
    return FIRN_OK;
}

static enum firn_status set_url(struct client_place *place, const char *url,
                                struct firn_error *err)
{
    if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        !is_plain(url))
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is not an http:// or https:// address", url);
    place->url = mem_strdup(url);
    for (size_t n = strlen(url); n > 0 && place->url[n - 1] == '/'; n--)
        place->url[n - 1] = '\0';
    return FIRN_OK;
}

/* Reads the token from the first line of the file. */
static enum firn_status set_token(struct client_place *place, const char *path,
                                  struct firn_error *err)
{
    char line[TOKEN_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    size_t n = fread(line, 1, sizeof line - 1, file);
    bool is_read = !ferror(file);
    (void)fclose(file);
    if (!is_read)
        return firn_fail(err, FIRN_EIO, "cannot read %s", path);
    line[n] = '\0';
    size_t first = strcspn(line, "\n");
    line[first] = '\0';
    char *token = str_trim(line);
    if (*token == '\0' || first == sizeof line - 1 || !is_plain(token))
        return firn_fail(err, FIRN_EINVAL, "%s: the first line is not a token",
                         path);
    place->token = mem_strdup(token);
    return FIRN_OK;
}

static enum firn_status find(struct client_place *place,
                             const struct client_where *where,
                             struct firn_error *err)
{
    const char *token = setting(where->token_file, "FIRN_API_TOKEN_FILE");
    const char *url = NULL, *path = NULL;
    if (where->socket == NULL)
        url = setting(where->url, "FIRN_API_URL");
    if (url != NULL) {
        FIRN_TRY(set_url(place, url, err));
        return token != NULL ? set_token(place, token, err) : FIRN_OK;
    }
    path = setting(where->socket, "FIRN_SOCKET");
    if (path != NULL)
        return set_socket(place, path, err);
    struct firn_buf made = {0};
    enum firn_status status = default_socket(&made, err);
    if (status == FIRN_OK)
        status = set_socket(place, own_or_service(made.at), err);
    buf_release(&made);
    return status;
}

enum firn_status client_place_find(struct client_place *out,
                                   const struct client_where *where,
                                   struct firn_error *err)
{
    struct client_place place = {0};
    enum firn_status status = find(&place, where, err);
    if (status == FIRN_OK)
        *out = place;
    else
        client_place_release(&place);
    return status;
}

void client_place_release(struct client_place *place)
{
    mem_free(place->socket);
    mem_free(place->url);
    mem_free(place->token);
    *place = (struct client_place){0};
}

/* errno of a connection to the socket; 0: it succeeds. */
static int try_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    str_copy(at.sun_path, sizeof at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int code = 0;
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        code = errno;
    if (fd >= 0)
        close(fd);
    return code;
}

enum firn_status client_place_away(const struct client_place *place,
                                   struct firn_error *err)
{
    if (place->socket == NULL)
        return firn_fail(err, FIRN_EIO,
                         "firnd does not answer at %s: is it running there, "
                         "with --listen?",
                         place->url);
    int code = try_socket(place->socket);
    if (code == ENOENT || code == ENOTDIR)
        return firn_fail(err, FIRN_EIO,
                         "firnd is not running: there is no socket %s; start "
                         "'firnd', or give its socket by --socket or "
                         "FIRN_SOCKET",
                         place->socket);
    if (code == ECONNREFUSED)
        return firn_fail(err, FIRN_EIO,
                         "firnd is not running: nothing listens on %s; start "
                         "'firnd'",
                         place->socket);
    if (code == EACCES || code == EPERM)
        return firn_fail(err, FIRN_EIO,
                         "the socket %s belongs to another user: %s",
                         place->socket, strerror(code));
    return firn_fail(err, FIRN_EIO, "%s: %s", place->socket,
                     code != 0 ? strerror(code) : "firnd did not answer");
}
