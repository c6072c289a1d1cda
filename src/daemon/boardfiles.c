/* boardfiles.c - finds a file of the board by its name.
 *
 * Cost: a walk over some twenty names.
 */
#include "daemon/boardfiles.h"
#include <string.h>

#include "daemon/board.inc"

const struct board_file *board_files(size_t *n)
{
    *n = sizeof files / sizeof *files;
    return files;
}

const struct board_file *board_file(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
