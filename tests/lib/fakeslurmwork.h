/* fakeslurmwork.h - the files that a test shares with the fake commands.
 */
#ifndef LIB_FAKESLURMWORK_H
#define LIB_FAKESLURMWORK_H
#include <stdbool.h>

enum { FAKE_TEXT = 8192 };
extern char fake_where[400]; /* the folder of the state */

/* Live until the fourth call after it. */
const char *fake_path(const char *name);
const char *fake_numbered(const char *name, long long id);
bool fake_get(const char *path, char out[FAKE_TEXT]);
/* Whole, or nothing when the case is over. */
void fake_put(const char *path, const char *text);
void fake_add(const char *path, const char *text);
/* A file that is locked until it is closed; -1: it cannot be. */
int fake_lock(const char *name);

#endif
