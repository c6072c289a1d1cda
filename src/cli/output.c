/* output.c - results on standard output.
 */
#include "cli/output.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int output_write(const char *command, const struct firn_buf *text)
{
    errno = 0;
    size_t n = text->n ? fwrite(text->at, 1, text->n, stdout) : 0;
    if (n == text->n && fflush(stdout) == 0)
        return 0;
    if (errno != EPIPE)
        fprintf(stderr, "firn %s: standard output: %s\n", command,
                strerror(errno));
    return 1;
}
