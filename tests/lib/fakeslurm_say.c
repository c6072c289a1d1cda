/* fakeslurm_say.c - what a test says to the Slurm that it plays, and sees of
 * it.
 */
#define _GNU_SOURCE
#include "lib/fakeslurm.h"
#include "lib/fakeslurmwork.h"
#include "lib/folder.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char fake_where[400];

/* --- files ---------------------------------------------------------------- */

const char *fake_path(const char *name)
{
    static char paths[4][700];
    static int n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", fake_where, name);
    return path;
}

const char *fake_numbered(const char *name, long long id)
{
    char text[64];
    snprintf(text, sizeof text, "%s-%lld", name, id);
    return fake_path(text);
}

bool fake_get(const char *path, char out[FAKE_TEXT])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, FAKE_TEXT - 1) : -1;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

void fake_put(const char *path, const char *text)
{
    char draft[800];
    snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    FILE *out = fopen(draft, "w");
    if (out == NULL)
        return; /* the case is over */
    fputs(text, out);
    fclose(out);
    rename(draft, path);
}

void fake_add(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        _exit(1);
    if (fd >= 0)
        close(fd);
}

/* --- for the test --------------------------------------------------------- */

const char *fakeslurm_path(void)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/slurm/bin", folder_path());
    return path;
}

void fakeslurm_open(void)
{
    static const char *const names[] = {"sbatch", "squeue", "scancel",
                                        "scontrol", "srun"};
    static char *system_path;
    char path[1000];
    snprintf(fake_where, sizeof fake_where, "%s/slurm", folder_path());
    mkdir(fake_where, 0700);
    mkdir(fakeslurm_path(), 0700);
    snprintf(fake_where, sizeof fake_where, "%s/slurm/state", folder_path());
    mkdir(fake_where, 0700);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", fakeslurm_path(), names[i]);
        if (symlink(workers_program(), path) != 0)
            fail_msg("no link %s", path);
    }
    if (system_path == NULL)
        system_path = getenv("PATH");
    snprintf(path, sizeof path, "%s:%s", fakeslurm_path(), system_path);
    setenv("PATH", path, 1);
}

void fakeslurm_say(const char *command, const char *how)
{
    char name[64];
    snprintf(name, sizeof name, "away-%s", command);
    unlink(fake_path(name));
    snprintf(name, sizeof name, "say-%s", command);
    if (how[0] != '\0')
        fake_put(fake_path(name), how);
    else
        unlink(fake_path(name));
}

bool fakeslurm_is_away(void)
{
    char text[FAKE_TEXT];
    return fake_get(fake_path("say-scontrol"), text) &&
           strcmp(text, "away") == 0;
}

bool fakeslurm_was_away(const char *command)
{
    char name[64];
    snprintf(name, sizeof name, "away-%s", command);
    return access(fake_path(name), F_OK) == 0;
}

void fakeslurm_hold(bool is_held)
{
    if (is_held)
        fake_put(fake_path("hold"), "");
    else
        unlink(fake_path("hold"));
}

void fakeslurm_node(const char *name, const char *state, const char *used,
                    const char *why)
{
    char file[64], text[FAKE_TEXT];
    snprintf(file, sizeof file, "node-%s", name);
    snprintf(text, sizeof text, "%s|%s|%s", state, used, why);
    fake_put(fake_path(file), text);
}

void fakeslurm_gres(const char *name, const char *gres)
{
    char file[64];
    snprintf(file, sizeof file, "gres-%s", name);
    fake_put(fake_path(file), gres);
}

void fakeslurm_plain(void)
{
    fake_put(fake_path("plain"), "");
}

int fakeslurm_submitted(void)
{
    char text[FAKE_TEXT];
    fake_get(fake_path("next"), text);
    return (int)strtol(text, NULL, 10);
}

int fakeslurm_cancelled(void)
{
    char text[FAKE_TEXT];
    int n = 0;
    fake_get(fake_path("cancelled"), text);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    return n;
}

const char *fakeslurm_state(int64_t id)
{
    static char text[FAKE_TEXT];
    if (!fake_get(fake_numbered("q", id), text))
        return "";
    char *state = strchr(text, '|');
    if (state == NULL)
        return "";
    state[1 + strcspn(state + 1, "|")] = '\0';
    return state + 1;
}

int fake_lock(const char *name)
{
    int lock = open(fake_path(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX) == 0)
        return lock;
    if (lock >= 0)
        close(lock);
    return -1;
}

/* Under the lock of the states: a job that is at its end reads its line and
 * writes it again, and would write over this one. */
void fakeslurm_line(int64_t id, const char *line)
{
    int lock = fake_lock("lock-q");
    assert_true(lock >= 0);
    if (line != NULL)
        fake_put(fake_numbered("q", id), line);
    else
        unlink(fake_numbered("q", id));
    close(lock);
}

const char *fakeslurm_words(void)
{
    static char text[FAKE_TEXT];
    fake_get(fake_path("words"), text);
    return text;
}

int fakeslurm_batch(int64_t id)
{
    char text[FAKE_TEXT];
    fake_get(fake_numbered("pid", id), text);
    return (int)strtol(text, NULL, 10);
}
