/* simlives.h - lives of jobs, from the logs of one or several runs.
 *
 * `firn sim --explain JOB` tells each job named from each log in which it is;
 * a job that is in none is a failure with a sentence.
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
    struct firn_buf text;           /* what was told */
    VEC(struct firn_error) missing; /* by job: not found yet, and why */
    bool has_failed;
};

void lives_begin(struct lives *lives, const struct words *jobs, bool is_json);
/* Tells the jobs of one log. `where` names it in sentences. */
void lives_tell(struct lives *lives, const char *log_path, const char *where);
/* Says on standard error which jobs were in no log. An exit status: 1 when
 * there is one, or a log was wrong. */
int lives_end(struct lives *lives);
/* Appends all of them: behind `out`'s table, or into its JSON object. */
void lives_print(const struct lives *lives, struct firn_buf *out);
void lives_release(struct lives *lives);

#endif
