/* pty.h - a job with a terminal: both ends of it.
 *
 * `firn run -t` submits a job whose command is `firn attach --serve SOCKET --
 * COMMAND`. That process, in the job, as the job's user, runs COMMAND on a
 * pseudo-terminal and listens on SOCKET; `firn attach` connects to it. firnd
 * has no part in it: no right beyond those of the job is needed or given.
 *
 * (1) The socket has a random name and mode 0600 in /tmp, and each side asks
 *     the kernel for the user at the other end: the same user, or root.
 * (2) Frames are one letter, a length of two bytes (low first) and the bytes:
 *     to the job 'i' input, 'w' size of the window (rows and columns, two bytes
 *     each); from it 'o' output, 'x' the exit status (one byte). What is no
 *     frame ends the connection.
 * (3) The output also goes to the log of the job, and the last PTY_REPLAY bytes
 *     to a terminal that attaches later. A newer terminal takes the place of an
 *     older one. A terminal that does not read for PTY_BEHIND bytes is let go:
 *     it cannot stop the job.
 */
#ifndef CLI_PTY_H
#define CLI_PTY_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { PTY_PATH = 64, PTY_REPLAY = 1 << 14, PTY_BEHIND = 1 << 20 };
enum { PTY_FRAME = 4096 }; /* most bytes in a frame */
enum { PTY_DETACHED = -2, PTY_GONE = -3 };

/* A path for a new socket; FIRN_EIO: no random bytes. */
enum firn_status pty_new_path(char out[PTY_PATH], struct firn_error *err);
/* Is it a path that pty_new_path() could have made? */
bool pty_is_path(const char *path);

/* Runs the command on a terminal until it ends; returns its exit status, 128
 * plus the number for a signal, or 1 after an error message. */
int pty_serve(const char *path, char **argv);

/* Connects; FIRN_ENOENT: there is no such socket (yet). */
enum firn_status pty_connect(const char *path, int *fd, struct firn_error *err);
/* Passes on keys and output until the command ends: its exit status. Or
 * PTY_DETACHED: the user typed Ctrl-P Ctrl-Q. PTY_GONE: the job or its host is
 * gone, or another terminal has taken the place. */
int pty_talk(int fd);

/* Appends a frame. */
void pty_frame(struct firn_buf *out, char kind, const void *bytes, size_t n);
/* The first frame of the bytes: how many bytes it takes; 0: it is not complete;
 * -1: it is none. */
long pty_parse(struct firn_bytes in, char *kind, struct firn_bytes *payload);

#endif
