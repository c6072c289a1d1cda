/* files.h - the entries of a folder, sorted; files as texts.
 *
 * For readers of small files: those of a folder, or those compiled into the
 * program.
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

/* Appends all lines of a file, each with \n; a line that lines.h cannot read is
 * "?". FIRN_EIO or FIRN_ENOENT with the path; `out` may then have some lines.
 */
enum firn_status files_text(struct firn_buf *out, const char *path,
                            struct firn_error *err);

/* Reads a compiled-in list: each file is its name, its lines and NULL, and
 * another NULL ends the list. `text` becomes the lines of the file at `*at`,
 * each with \n, and `*at` the next file. Returns the name; NULL: no file is
 * left. */
const char *files_shipped(const char *const **at, struct firn_buf *text);

#endif
