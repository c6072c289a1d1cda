/* temp.h - a folder of a test's own with small files in it, and single files.
 *
 * Under $TMPDIR, or /tmp where that is not set or too long. All functions fail
 * the test when they cannot.
 */
#ifndef LIB_TEMP_H
#define LIB_TEMP_H
#include <firn/bytes.h>

enum { TEMP_FOLDER = 64, TEMP_PATH = 128 };

/* Makes it, and its name. */
void temp_open(char folder[TEMP_FOLDER]);
/* The path of a file in it, whether there is one or not. */
void temp_name(char out[TEMP_PATH], const char *folder, const char *name);
void temp_write(const char *folder, const char *name, const char *text);
/* Removes the files in it, and it. Folders within must be gone. */
void temp_close(const char *folder);

/* A file with these bytes, and its name; the caller unlinks it. */
void temp_file(char path[TEMP_FOLDER], struct firn_bytes bytes);

#endif
