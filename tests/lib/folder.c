/* folder.c - a folder of a case's own, gone afterwards.
 */
#include "lib/folder.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[200];

const char *folder_path(void)
{
    return path;
}

const char *folder_file(const char *name)
{
    static char paths[8][400];
    static int n;
    char *file = paths[n++ % 8];
    snprintf(file, sizeof *paths, "%s/%s", path, name);
    return file;
}

int folder_make(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.150s/firn-test-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(path) == NULL;
}

static size_t walk(bool is_removed)
{
    char file[600];
    size_t n = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        n++;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (is_removed)
            unlink(file);
    }
    closedir(folder);
    return n;
}

int folder_remove(void **state)
{
    (void)state;
    walk(true);
    return rmdir(path);
}

void folder_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char inner[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", folder, e->d_name);
        if (remove(inner) != 0) {
            folder_empty(inner);
            remove(inner);
        }
    }
    if (dir != NULL)
        closedir(dir);
}

size_t folder_count(void)
{
    return walk(false);
}
