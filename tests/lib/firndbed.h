/* firndbed.h - firnd in a folder of its own, to be killed and started again.
 *
 * State, socket, log and the ledger of the jobs are in one folder with a unique
 * name: every process that has it in an argument belongs to the bed.
 * Jobs are the test program itself (lib/oncejob.h). With a plan every process
 * has tests/fault/faultcalls.so in it.
 */
#ifndef TESTS_LIB_FIRNDBED_H
#define TESTS_LIB_FIRNDBED_H
#include "lib/askfirnd.h"
#include "lib/faultplan.h"
#include "lib/oncejob.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { FIRNDBED_PATH = 400 };

struct firndbed {
    const char *gpus, *policy;  /* as firnd's options have them */
    const char *more[4];        /* further options; NULL behind the last */
    char self[PATH_MAX];        /* the test program */
    char folder[FIRNDBED_PATH]; /* "": none */
    char firnd[FIRNDBED_PATH], preload[FIRNDBED_PATH];
    struct faultplan *plan; /* NULL: no library is loaded */
    pid_t pid;              /* of firnd; 0: none */
    double ready_most_s;    /* the longest that firndbed_is_ready() took */
};

void firndbed_pause_s(double time_s);

/* Makes the folder; false: it cannot, or firnd is not built. The plan, if it is
 * wanted, lies in it. */
bool firndbed_make(struct firndbed *bed, const char *name, bool has_plan);
/* Ends all processes of the bed and removes the folder; 0: it is gone. */
int firndbed_remove(struct firndbed *bed);
void firndbed_path(const struct firndbed *bed, const char *name,
                   char out[FIRNDBED_PATH]);

/* Starts firnd; `failpoint` may be NULL. False: no process. */
bool firndbed_begin(struct firndbed *bed, const char *failpoint);
/* Waits until firnd answers. False: it ended, or did not within the limit. */
bool firndbed_is_ready(struct firndbed *bed, double limit_s);
/* True: firnd has ended, now or before; `status` is as waitpid() has it, and
 * is set once. */
bool firndbed_has_ended(struct firndbed *bed, int *status);
/* By SIGKILL; false: it had ended before, and `status` is set. */
bool firndbed_kill(struct firndbed *bed, int *status);

int firndbed_get(const struct firndbed *bed, const char *target, double until_s,
                 char reply[ASKFIRND_TEXT]);
int firndbed_send(const struct firndbed *bed, const char *method,
                  const char *target, const char *body, double until_s,
                  char reply[ASKFIRND_TEXT]);
/* A job that works so long, under request id `key`; `more` are lines of its
 * file. Its number; 0: not acknowledged; -1: refused, see the reply. */
long firndbed_submit(const struct firndbed *bed, const char *key, double work_s,
                     const char *more, double until_s,
                     char reply[ASKFIRND_TEXT]);
/* The same with a whole job file. */
long firndbed_submit_file(const struct firndbed *bed, const char *key,
                          const char *file, double until_s,
                          char reply[ASKFIRND_TEXT]);
/* The value of the first "name": in a reply, without quotes. */
bool firndbed_field(const char *reply, const char *name, char out[64]);

/* Sends a signal to a random process of the bed, chosen by `draw`, that has
 * `word` among its words: "--shepherd", or "work" for a job. Its number, or 0:
 * there is none. */
pid_t firndbed_signal(const struct firndbed *bed, const char *word,
                      unsigned draw, int number);
/* Shows the end of firnd's log on standard error. */
void firndbed_show_log(const struct firndbed *bed);

#endif
