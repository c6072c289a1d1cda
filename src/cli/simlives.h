/* simlives.h - histories of jobs from event logs, for `firn sim --explain`.
 *
 * Each job given by --explain is searched in each log. A job that is in no log
 * is an error.
 */
#ifndef CLI_SIMLIVES_H
#define CLI_SIMLIVES_H
#include "base/vec.h"
#include "cli/flags.h"
#include <firn/bytes.h>
#include <stdbool.h>

struct lives {
    const struct words *jobs; /* borrowed */
    bool is_json;
    struct firn_buf text;           /* the histories */
    VEC(struct firn_error) missing; /* per job: why it was not found yet */
    bool has_failed;
};

void lives_begin(struct lives *lives, const struct words *jobs, bool is_json);
/* Adds the jobs of one log. `where` is its name in messages. */
void lives_add(struct lives *lives, const char *log_path, const char *where);
/* Prints an error for each job that is in no log. Returns the exit status: 1 if
 * there is one, or if a log is invalid. */
int lives_end(struct lives *lives);
/* Appends the histories after the table in `out`, or into its JSON object. */
void lives_print(const struct lives *lives, struct firn_buf *out);
void lives_release(struct lives *lives);

#endif
