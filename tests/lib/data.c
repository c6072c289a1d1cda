/* data.c - finds the data folder.
 *
 * The tests run in the project's root, so the default is relative to it.
 */
#include "lib/data.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATHS = 8, PATH_BYTES = 1024 };

const char *data_path(const char *rel)
{
    static char paths[PATHS][PATH_BYTES];
    static int used;
    const char *root = getenv("FIRN_DATA");
    if (root == NULL || *root == '\0')
        root = "../shared/data";
    char *path = paths[used++ % PATHS];
    int n = snprintf(path, PATH_BYTES, "%s/%s", root, rel);
    if (n < 0 || n >= PATH_BYTES || access(path, R_OK) != 0)
        return NULL;
    return path;
}
