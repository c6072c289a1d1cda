/* fuzzfolder.h - a folder for a target that reads files: in memory where there
 * is such a place, and gone at the end.
 */
#ifndef TESTS_FUZZ_FUZZFOLDER_H
#define TESTS_FUZZ_FUZZFOLDER_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FUZZ_FOLDER = 200 };

static inline void fuzz_folder_make(char folder[FUZZ_FOLDER])
{
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL)
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, FUZZ_FOLDER, "%.150s/firn-fuzz-XXXXXX", tmp);
    if (mkdtemp(folder) == NULL)
        abort();
}

/* Removes the files in it. */
static inline void fuzz_folder_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    char path[600];
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
}

#endif
