/* boardfiles.h - the files of the board, which are part of the program.
 *
 * The Makefile turns src/board into C (tools/board_files.sh): a browser gets
 * these bytes and no path of the disk, and firnd needs no folder beside it.
 */
#ifndef DAEMON_BOARDFILES_H
#define DAEMON_BOARDFILES_H
#include <stddef.h>

struct board_file {
    const char *name; /* "app.js" */
    const char *type; /* its Content-Type */
    const char *tag;  /* its ETag, with the quotes */
    const unsigned char *plain;
    size_t nplain;
    const unsigned char *packed; /* the same, by gzip */
    size_t npacked;
};

/* NULL: the board has no such file. */
const struct board_file *board_file(const char *name);
/* All of them, in the order of their names. */
const struct board_file *board_files(size_t *n);

#endif
