/* files.h - what a folder holds, in one order; and files as whole texts.
 *
 * For readers of small files: those of a folder one after another, or those
 * that the build put into the program.
 */
#ifndef BASE_FILES_H
#define BASE_FILES_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Paths, owned. Zeroed is empty. */
struct files {
    char **at;
    size_t n, cap;
};

/* Fills an empty `out` with "dir/name" of each entry, hidden ones apart,
 * whose name has this ending ("": all), in the order of their bytes. False:
 * the folder cannot be read, and errno says why. */
bool files_list(struct files *out, const char *dir, const char *ending);
void files_release(struct files *files);

/* The path is longer than this ending and has it. */
bool files_ends(const char *path, const char *ending);

/* Appends all lines of a file, each with \n; one that lines.h calls bad is
 * "?". FIRN_EIO or FIRN_ENOENT with the path; `out` may then have some. */
enum firn_status files_text(struct firn_buf *out, const char *path,
                            struct firn_error *err);

/* From a list of strings in which each file is its name, its lines and NULL,
 * and NULL follows the last: `text` becomes the lines of the file at `*at`,
 * each with \n, and `*at` the next one. Its name; NULL when there is none. */
const char *files_shipped(const char *const **at, struct firn_buf *text);

#endif
