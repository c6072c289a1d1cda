/* temp.c - folders and files of a test's own, made and removed.
 */
#include "lib/temp.h"
#include "base/files.h"
#include "lib/play.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name for mkdtemp() and mkstemp(). */
static void name_one(char out[TEMP_FOLDER])
{
    const char *root = getenv("TMPDIR");
    if (root == NULL || *root == '\0' || strlen(root) > 40)
        root = "/tmp";
    snprintf(out, TEMP_FOLDER, "%s/firn-test-XXXXXX", root);
}

void temp_open(char folder[TEMP_FOLDER])
{
    name_one(folder);
    if (mkdtemp(folder) == NULL)
        fail_msg("cannot make %s", folder);
}

void temp_name(char out[TEMP_PATH], const char *folder, const char *name)
{
    int n = snprintf(out, TEMP_PATH, "%s/%s", folder, name);
    assert_in_range(n, 1, TEMP_PATH - 1);
}

void temp_write(const char *folder, const char *name, const char *text)
{
    char path[TEMP_PATH];
    temp_name(path, folder, name);
    play_write(path, text);
}

void temp_close(const char *folder)
{
    struct files left = {0};
    assert_true(files_list(&left, folder, ""));
    for (size_t i = 0; i < left.n; i++)
        unlink(left.at[i]);
    files_release(&left);
    if (rmdir(folder) != 0)
        fail_msg("cannot remove %s", folder);
}

void temp_file(char path[TEMP_FOLDER], struct firn_bytes bytes)
{
    name_one(path);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    while (bytes.n > 0) {
        ssize_t wrote = write(fd, bytes.at, bytes.n);
        assert_true(wrote > 0);
        bytes.at += wrote;
        bytes.n -= (size_t)wrote;
    }
    close(fd);
}
