/* jobfolder.c - see the header. Cost: three calls of open(). */
#define _GNU_SOURCE
#include "launch/jobfolder.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int jobfolder_open(const char *state, const char *kind, int job)
{
    enum { WAY = O_PATH | O_DIRECTORY | O_CLOEXEC };
    char name[16];
    snprintf(name, sizeof name, "%d", job);
    int top = open(state, WAY);
    int above = top >= 0 ? openat(top, kind, WAY | O_NOFOLLOW) : -1;
    int fd = above >= 0
                 ? openat(above, name,
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    int error = errno;
    if (above >= 0)
        close(above);
    if (top >= 0)
        close(top);
    errno = error;
    return fd;
}
