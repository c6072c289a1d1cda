/* livefile.h - reads a job file.
 */
#ifndef CLI_LIVEFILE_H
#define CLI_LIVEFILE_H
#include <firn/bytes.h>
#include <firn/status.h>

/* Appends the file to `out`; "-" is standard input. FIRN_EIO if it cannot be
 * read, FIRN_EINVAL if it is empty or larger than 1 MiB. */
enum firn_status live_file_read(struct firn_buf *out, const char *path,
                                struct firn_error *err);
/* Replaces "job file:" at the beginning of firnd's error message by the name of
 * the file. Does nothing if `path` is NULL or the message is another. */
void live_file_name_error(struct firn_error *err, const char *path);

#endif
