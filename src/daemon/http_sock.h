/* http_sock.h - the sockets that the HTTP server listens on, and who is at
 * the other end; for http.c.
 */
#ifndef DAEMON_HTTP_SOCK_H
#define DAEMON_HTTP_SOCK_H
#include "daemon/http.h"

/* A listening socket at `path`, mode 0600. Its folder is made (0700) when it
 * is not there, and must be ours alone. The socket file of a daemon that is
 * gone is replaced; FIRN_EIO when one still answers, FIRN_EINVAL when there is
 * something else of that name. */
enum firn_status sock_listen_path(int *out, const char *path,
                                  struct firn_error *err);
/* "127.0.0.1:7070", "[::1]:7070": numbers only, no names are looked up. Port
 * 0: any; `port` has it then. */
enum firn_status sock_listen_address(int *out, int *port, const char *address,
                                     struct firn_error *err);
/* Removes the socket file. */
void sock_unlink(const char *path);

/* Fills user and is_operator of a Unix socket's other end: the daemon's own
 * user and root are operators. */
void sock_peer(int fd, struct http_caller *out);

/* The other end of TCP as text, "" when it is not known. */
void sock_peer_address(int fd, char out[48]);

/* Do they have the same bytes? Takes as long for any two of these lengths. */
bool sock_same_secret(const char *a, const char *b);

#endif
