/* boardfiles.c - finds a file of the board by its name.
 *
 * Cost: a walk over some twenty names.
 */
#include "daemon/boardfiles.h"
#include <string.h>

#if __has_include("daemon/board.inc")
#include "daemon/board.inc"
#else /* for tools that read the sources without a build */
static const struct board_file files[] = {{.name = ""}};
#endif

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
