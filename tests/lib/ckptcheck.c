/* ckptcheck.c - is every checkpoint of a folder whole, and are two the same?
 */
#define _GNU_SOURCE
#include "lib/ckptcheck.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME = 300, TEXT = 4096 };

/* Runs `firn train VERB A [B]` and keeps the beginning of what it prints; its
 * status as waitpid() has it. */
static int run(const char *firn, const char *verb, const char *a, const char *b,
               char out[TEXT])
{
    int ends[2], status = -1;
    size_t n = 0;
    ssize_t got;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        if (dup2(ends[1], 1) >= 0 && dup2(nothing, 2) >= 0)
            execl(firn, "firn", "train", verb, a, b, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (n < TEXT - 1 && (got = read(ends[0], out + n, TEXT - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static bool has_end(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

bool ckptcheck_folder(const char *firn, const char *folder,
                      bool may_have_drafts, char newest[CKPTCHECK_PATH],
                      char said[CKPTCHECK_SAID])
{
    char last[NAME] = "", path[CKPTCHECK_PATH + NAME], text[TEXT];
    DIR *dir = opendir(folder);
    said[0] = newest[0] = '\0';
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (has_end(e->d_name, ".tmp") && !may_have_drafts)
            snprintf(said, CKPTCHECK_SAID, "a draft is left: %.200s",
                     e->d_name);
        if (!has_end(e->d_name, ".ckpt"))
            continue;
        if (run(firn, "show", path, NULL, text) != 0)
            snprintf(said, CKPTCHECK_SAID, "a checkpoint is torn: %.200s",
                     e->d_name);
        if (strcmp(e->d_name, last) > 0)
            snprintf(last, sizeof last, "%.255s", e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    if (last[0] != '\0')
        snprintf(newest, CKPTCHECK_PATH, "%.200s/%.190s", folder, last);
    return said[0] == '\0';
}

/* "weights  0 of 1 ..." among the lines? */
static bool has_none(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (at == NULL)
        return false;
    at += strlen(name);
    return strncmp(at + strspn(at, " "), "0 of ", 5) == 0;
}

bool ckptcheck_is_same(const char *firn, const char *a, const char *b)
{
    char text[TEXT] = "";
    return run(firn, "diff", a, b, text) == 0 ||
           (has_none(text, "weights ") && has_none(text, "optimiser "));
}
