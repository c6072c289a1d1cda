/* folder.h - a temporary folder for each case.
 *
 *     cmocka_unit_test_setup_teardown(a_case, folder_make, folder_remove)
 */
#ifndef TESTS_LIB_FOLDER_H
#define TESTS_LIB_FOLDER_H
#include <stddef.h>

/* Its path, below $TMPDIR or /tmp. */
const char *folder_path(void);
int folder_make(void **state);
/* Removes the folder with its files. */
int folder_remove(void **state);
/* The path of a file in it; the text lives until the eighth call from now. */
const char *folder_file(const char *name);
/* Removes all that is in a folder, folders too; it stays itself. */
void folder_empty(const char *folder);
/* Files in it, hidden ones too. */
size_t folder_count(void);

#endif
