/* livefile.h - a job file, read whole.
 */
#ifndef CLI_LIVEFILE_H
#define CLI_LIVEFILE_H
#include <firn/bytes.h>
#include <firn/status.h>

/* Appends it to `out`; "-" is standard input. FIRN_EIO when it cannot be read,
 * FIRN_EINVAL when it is empty or larger than the daemon takes (1 MiB). */
enum firn_status live_file_read(struct firn_buf *out, const char *path,
                                struct firn_error *err);
/* The daemon says "job file: line 3: ..." of what it was sent: puts the file's
 * name there. `path` NULL, or a sentence about something else: nothing. */
void live_file_blame(struct firn_error *err, const char *path);

#endif
