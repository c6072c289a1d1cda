/* jobtext.h - a job file made of options.
 *
 * `firn submit --gpus 1..8 -- python train.py` sends the same YAML that a
 * file would have. The options are the fields of core/jobfields.def that
 * have a flag; a value is checked when it is given, by the same function that
 * reads job files. Every text of the user is quoted, so that nothing in it can
 * become a key, a list or a comment.
 */
#ifndef CLI_JOBTEXT_H
#define CLI_JOBTEXT_H
#include "cli/flags.h"
#include "core/jobfields.h"
#include <firn/bytes.h>
#include <stdbool.h>

/* The value given for one field. */
struct job_flag_value {
    const struct job_field *field;
    const char *text;   /* as given; NULL: not given */
    struct words words; /* entries of a list */
    const char *means;  /* of an option without a value: "allowed", "D1" */
};

struct job_flags {
    struct job_flag_value value[JOB_NFIELDS];
};

void job_flags_init(struct job_flags *flags);
void job_flags_release(struct job_flags *flags);
/* The options, whose values go into a struct job_flags: for flags_page.shared.
 */
const struct flag *job_flags_table(void);
/* Was any job option given? */
bool job_flags_any(const struct job_flags *flags);

/* Appends the YAML. `here` is the working directory: the job's unless an option
 * names one, and the directory that relative paths start from. FIRN_EINVAL for
 * a text that is not UTF-8, or a variable that is not set. */
enum firn_status job_text(struct firn_buf *out, const struct job_flags *flags,
                          char **argv, const char *here,
                          struct firn_error *err);

/* Does a word of the list set the same variable as `variable`? */
bool job_env_has(const struct words *env, const char *variable);
/* Adds the variables by which programs find an active virtual environment or
 * conda environment, unless --env sets them: they belong to the PATH that
 * goes along. */
void job_env_python(struct words *env);

#endif
