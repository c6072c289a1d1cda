/* http_sock.h - the sockets of the HTTP server, and the users of their clients;
 * for http.c.
 */
#ifndef DAEMON_HTTP_SOCK_H
#define DAEMON_HTTP_SOCK_H
#include "daemon/http.h"

/* Makes a listening socket at `path`, mode 0600. Its folder is made (0700) if
 * missing, and must be private to this user. With a `group` (else NULL) the
 * socket is that group's, mode 0660, and other users may enter its folder, but
 * not write into it. The socket file of a dead daemon is replaced; FIRN_EIO: a
 * daemon still answers there; FIRN_EINVAL: the path is not a socket, or there
 * is no such group. */
enum firn_status sock_listen_path(int *out, const char *path, const char *group,
                                  struct firn_error *err);
/* "127.0.0.1:7070", "[::1]:7070": numbers only, no names are looked up. Port
 * 0: any; `port` has it then. */
enum firn_status sock_listen_address(int *out, int *port, const char *address,
                                     struct firn_error *err);
/* Removes the socket file. */
void sock_unlink(const char *path);

/* Fills user and role for the client of a Unix socket, by config->role_of_uid;
 * without one firnd's own user and root are operators, others guests. */
void sock_peer(int fd, const struct http_config *config,
               struct http_caller *out);

/* The address of a TCP client as text, "" if unknown. */
void sock_peer_address(int fd, char out[48]);

/* Are the texts equal? The time depends on their lengths only. */
bool sock_same_secret(const char *a, const char *b);

#endif
