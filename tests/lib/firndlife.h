/* firndlife.h - a real firnd of a test's own: started, killed, started again.
 *
 * It has a folder with its state, its socket and its log, on four nodes of one
 * declared GPU each. $FIRN names the program beside it. Functions fail the test
 * when firnd does what it must not: it ends by itself, or not by the signal.
 */
#ifndef LIB_FIRNDLIFE_H
#define LIB_FIRNDLIFE_H
#include <stdbool.h>
#include <sys/types.h>

enum { FIRNDLIFE_PATH = 400 };

struct firndlife {
    char folder[FIRNDLIFE_PATH / 2], program[FIRNDLIFE_PATH / 2];
    pid_t pid; /* 0: none runs */
    int nlives;
};

/* 0, or 1 when there can be no folder. */
int firndlife_open(struct firndlife *life);
/* Kills it and the sleepers that jobs of a failed test have left, shows the end
 * of its log if `is_shown`, removes the folder. */
void firndlife_close(struct firndlife *life, const char *seconds,
                     bool is_shown);
bool firndlife_has_program(const struct firndlife *life);
/* A file of the folder: "sock", "err", "state". */
void firndlife_path(const struct firndlife *life, char out[FIRNDLIFE_PATH],
                    const char *name);

/* Starts it, and returns when it answers. */
void firndlife_begin(struct firndlife *life);
/* By SIGKILL; or by another signal, after which its status must be 0. */
void firndlife_end(struct firndlife *life, int signal_number);
void firndlife_check(struct firndlife *life);

/* Processes /bin/sleep with this argument; with `is_ended` they are killed. */
int firndlife_sleepers(const char *seconds, bool is_ended);

#endif
