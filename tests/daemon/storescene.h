/* storescene.h - a store in the case's folder (lib/folder.h), and jobs of which
 * every field has a value of its own.
 *
 * All fail the test when something fails.
 */
#ifndef TESTS_DAEMON_STORESCENE_H
#define TESTS_DAEMON_STORESCENE_H
#include "daemon/book.h"
#include "daemon/store.h"
#include "lib/folder.h"
#include <sys/types.h>

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

extern struct firn_error oops;
extern char told[1024]; /* by the last opening */

struct store *store_scene(void);
struct live_job *job_scene(firn_job_id id);
/* Sets all of its flags by the bits; returns how many flags there are. */
unsigned job_set_flags(struct live_job *job, uint64_t bits);
/* Every field that a user sets, a line each; appended. */
void ask_text(struct firn_buf *out, const struct live_ask *ask);
/* All of it as text; the caller releases it. */
struct firn_buf job_as_text(const struct live_job *job);
/* Prints both when they differ. */
bool job_same(const struct live_job *a, const struct live_job *b);

void scene_add(struct store *store, struct live_job *job);
void scene_commit(struct store *store);
/* `nbad` may be NULL. */
size_t scene_count(struct store *store, bool with_over, size_t *nbad);
/* The exit status of a child, or 128 plus its signal. */
int scene_wait(pid_t pid);

/* A store and its book. */
struct liveset {
    struct store *store;
    struct book *book;
};
struct liveset liveset_open(void);
void liveset_close(struct liveset *d);
/* Commits, and starts again from the disk. */
void liveset_reopen(struct liveset *d);
/* An elastic job for 1 to 8 GPUs; `is_new` may be NULL. */
struct live_job *liveset_submit(struct liveset *d, const char *name,
                                const char *user, const char *request,
                                bool *is_new);
/* The same of ann's, without a request id. */
struct live_job *liveset_add(struct liveset *d, const char *name);

#endif
