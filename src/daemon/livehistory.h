/* livehistory.h - how long jobs took, for those whose users did not say.
 *
 * By user and application, by application, and by user; see livehistory.c.
 */
#ifndef DAEMON_LIVEHISTORY_H
#define DAEMON_LIVEHISTORY_H
#include <stdbool.h>

struct livehistory;

struct livehistory *livehistory_new(void);
void livehistory_free(struct livehistory *history);

/* A job of theirs is done and took so long, on the GPUs that it asked for.
 * True: what is to be expected of the next has changed much since it last
 * did. */
bool livehistory_done(struct livehistory *history, const char *user,
                      const char *app, double duration_s);
/* What to expect of their next one; 0: nothing is known. */
double livehistory_guess(const struct livehistory *history, const char *user,
                         const char *app);

#endif
