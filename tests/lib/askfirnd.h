/* askfirnd.h - one HTTP request to firnd, which may die meanwhile.
 *
 * Each request has its own connection. The functions return the status of the
 * answer, or 0 if no whole answer came before `until_s` (base/clock.h); the
 * bytes received are in `reply`, cut at its end.
 */
#ifndef TESTS_LIB_ASKFIRND_H
#define TESTS_LIB_ASKFIRND_H

enum { ASKFIRND_TEXT = 8192 };

int askfirnd_get(const char *socket, const char *target, double until_s,
                 char reply[ASKFIRND_TEXT]);
/* Submits a job file; the key makes sending it twice harmless. */
int askfirnd_submit(const char *socket, const char *key, const char *job,
                    double until_s, char reply[ASKFIRND_TEXT]);
/* Sends POST or PATCH to another target, with a body that may be empty. */
int askfirnd_send(const char *socket, const char *method, const char *target,
                  const char *body, double until_s, char reply[ASKFIRND_TEXT]);

/* How the last request of this process ended. */
enum askfirnd_end {
    ASKFIRND_UNSENT, /* no connection: firnd has not got it */
    ASKFIRND_CUT,    /* firnd hung up, or died, without an answer */
    ASKFIRND_LATE,   /* no answer in time; one may still be made */
    ASKFIRND_ANSWERED
};
enum askfirnd_end askfirnd_end(void);

#endif
