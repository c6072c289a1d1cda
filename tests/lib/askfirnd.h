/* askfirnd.h - a question to firnd by its socket, which may die meanwhile.
 *
 * Each is a connection of its own. The status of the answer comes back, 0 when
 * there was no whole answer before `until_s` (base/clock.h); all that was said
 * is in `reply`, cut at its end.
 */
#ifndef TESTS_LIB_ASKFIRND_H
#define TESTS_LIB_ASKFIRND_H

enum { ASKFIRND_TEXT = 8192 };

int askfirnd_get(const char *socket, const char *target, double until_s,
                 char reply[ASKFIRND_TEXT]);
/* A job file, with the name that makes sending it twice harmless. */
int askfirnd_submit(const char *socket, const char *key, const char *job,
                    double until_s, char reply[ASKFIRND_TEXT]);
/* POST or PATCH of another target, with a body that may be empty. */
int askfirnd_send(const char *socket, const char *method, const char *target,
                  const char *body, double until_s, char reply[ASKFIRND_TEXT]);

/* How the last question of this process ended. */
enum askfirnd_end {
    ASKFIRND_UNSENT, /* no connection: firnd has not heard it */
    ASKFIRND_CUT,    /* firnd hung up, or died, without an answer */
    ASKFIRND_LATE,   /* no answer in time; one may still be made */
    ASKFIRND_ANSWERED
};
enum askfirnd_end askfirnd_end(void);

#endif
