/* diskuse.c - the space that a folder takes on disk.
 *
 * Counts blocks, not lengths: files with holes count what they take. Links are
 * not followed, and the walk stays on the folder's own file system, so that a
 * job cannot lead it elsewhere. What cannot be read counts nothing.
 *
 * Cost: one stat a file, DISKUSE_MOST files at most, no more than DEPTH_MOST
 * folders deep.
 */
#define _GNU_SOURCE
#include "daemon/diskuse.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MOST = 16 };

struct walk {
    dev_t device;
    double bytes;
    int nfiles;
};

static void look(struct walk *walk, int fd, int depth);

static void look_at(struct walk *walk, int dir, const char *name, int depth)
{
    struct stat is;
    if (fstatat(dir, name, &is, AT_SYMLINK_NOFOLLOW) != 0 ||
        is.st_dev != walk->device)
        return;
    walk->nfiles++;
    walk->bytes += 512.0 * (double)is.st_blocks;
    if (S_ISDIR(is.st_mode) && depth < DEPTH_MOST)
        look(walk,
             openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
             depth + 1);
}

/* Closes `fd`. */
static void look(struct walk *walk, int fd, int depth)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry;
         walk->nfiles < DISKUSE_MOST && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            look_at(walk, fd, entry->d_name, depth);
    closedir(dir);
}

double diskuse_gib(const char *folder)
{
    struct stat is;
    struct walk walk = {0};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, &is) != 0) {
        close(fd);
        return 0;
    }
    walk.device = is.st_dev;
    look(&walk, fd, 0);
    return walk.bytes / 1073741824.0;
}
