/* workers.h - a test program that is its own shepherd and its own workers.
 *
 * `PROGRAM --shepherd FOLDER` runs shepherd_main(); `PROGRAM --work WHAT ...`
 * does something small that a test can see from outside. main() of such a test
 * begins with
 *
 *     int code = workers_main(argc, argv);
 *     if (code >= 0)
 *         return code;
 *
 *     exit N              ends with N
 *     die SIGNAL          by that signal
 *     say TEXT N          writes TEXT to standard error and ends with N
 *     dump FILE           writes its arguments and environment to FILE.RANK,
 *                         one a line, escaped as C does
 *     obey FILE           says in FILE that it is ready; SIGUSR1: ends with 83
 *     late FILE           the same, but can hear SIGUSR1 only after a while
 *     wait FILE           says that it is ready and waits for its death
 *     stubborn FILE       the same, and takes no notice of SIGTERM
 *     tree FILE           has a child in a session of its own, whose child does
 *                         not care for SIGTERM; waits
 *     clan FILE           the same, but its descendants keep all descriptors
 *     headless FILE       as tree, but of its descendants the first thread ends
 *     bare FILE           as tree, but its descendants have no environment
 *     leave FILE          as tree, but ends with 0 at once
 *     alone FILE LOCK     as obey, but adds "TWICE" to FILE when another
 *                         attempt has LOCK
 *
 * A line is added to FILE for each process that is ready: "ATTEMPT RANK PID".
 * Descendants that close all descriptors share a lock on FILE.held.
 */
#ifndef LIB_WORKERS_H
#define LIB_WORKERS_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What main() has to return; -1: this is the test itself. */
int workers_main(int argc, char **argv);

/* This program's path. */
const char *workers_program(void);

/* Lines in a file of ready processes; 0 when there is none. */
size_t workers_ready(const char *file);
/* Their pids. */
size_t workers_pids(const char *file, pid_t *out, size_t max);
/* Waits until there are `n`; after two minutes the test fails. */
void workers_await(const char *file, size_t n);
/* True if the process is gone or dead, or if its pid now belongs to a process
 * that does not know folder_path(). */
bool workers_is_gone(pid_t pid);
/* Waits for it: who is seen to die, by a lock let go or a parent gone, may be
 * there for some moments more. */
void workers_await_gone(pid_t pid);

/* Kills whatever has a lock open in the folders of folder_path(), and removes
 * all of them: a failing test leaves nothing behind. For cmocka. */
int workers_sweep(void **state);

#endif
