/* firncmd.h - the firn command against a daemon with prepared answers.
 *
 *     cmocka_unit_test_setup_teardown(a_case, cmd_setup, cmd_teardown)
 *
 * The program is the one that FIRN names, or build/firn; a case is skipped
 * when it is not there.
 */
#ifndef LIB_FIRNCMD_H
#define LIB_FIRNCMD_H
#include "fakefirnd.h"

extern struct fake cmd_fake; /* on a socket that FIRN_SOCKET names */
extern struct ran cmd_ran;   /* the last run */
/* A job of number 7, name resnet, as the API tells it. */
extern const char cmd_job[];

int cmd_setup(void **state);
int cmd_teardown(void **state);

const char *cmd_program(void);
/* Runs firn with the words of `line`, split at blanks; the exit status. Once
 * it has printed `until`, unless that is NULL, it is interrupted. */
int cmd_run(const char *line, const char *in, const char *until);
int cmd_firn(const char *line);
void cmd_out_has(const char *text);
void cmd_err_has(const char *text);
/* The i-th request was that. */
const struct fake_request *cmd_asked(int i, const char *what);

#endif
