/* output.c - the last word on standard output.
 */
#include "cli/output.h"
#include "base/str.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int output_format(const char *command, const char *name,
                  const char *const *names)
{
    size_t n = 0;
    for (; names[n]; n++)
        if (strcmp(names[n], name) == 0)
            return (int)n;
    int best = str_nearest(name, names, n);
    fprintf(stderr, "firn %s: -o: unknown format '%s'", command, name);
    if (best >= 0)
        fprintf(stderr, "; did you mean '%s'?\n", names[best]);
    else
        for (size_t i = 0; i < n; i++)
            fprintf(stderr, "%s%s%s", i ? ", " : "; there are: ", names[i],
                    i + 1 == n ? "\n" : "");
    return -1;
}

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
