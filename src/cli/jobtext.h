/* jobtext.h - a job file made of flags.
 *
 * `firn submit --gpus 1..8 -- python train.py` sends the daemon the same YAML
 * that a file would hold. Every text of the user's is quoted, so that nothing
 * in it can become a key, a list or a comment.
 */
#ifndef CLI_JOBTEXT_H
#define CLI_JOBTEXT_H
#include "cli/flags.h"
#include <firn/bytes.h>
#include <stdbool.h>

/* NULL, empty, 0 and below 0: not given. */
struct job_flags {
    const char *name, *queue, *app, *workdir;
    long priority; /* -1: not given */
    const char *gpus;
    struct words types;
    bool may_share, is_alone;
    struct words env; /* "K=V", or "K" for what it is here */
    const char *consistency;
    bool is_elastic;
    int threads, batch;
    const char *freeze, *freeze_max;
    const char *ckpt_dir;
    double grace_s, ckpt_every_s;
    int retries;
    double duration_s, memory_gib;
    long epochs, iterations;
    bool may_restart; /* from scratch */
    const char *deadline;
};
void job_flags_release(struct job_flags *flags);
/* Has any of them been given? */
bool job_flags_any(const struct job_flags *flags);

/* Appends the YAML. `here` is the working directory: the job's unless a flag
 * names one, and what relative paths are relative to.
 * FIRN_EINVAL for a text that is not UTF-8 or has control characters. */
enum firn_status job_text(struct firn_buf *out, const struct job_flags *flags,
                          char **argv, const char *here,
                          struct firn_error *err);

#endif
