/* jobfile.h - a job file: YAML in, what the user asks for out.
 *
 *     name: resnet            # [A-Za-z0-9._-]+, made up when not given
 *     run: [python, train.py, --epochs, "10"]    # or a text, split at blanks
 *     gpus: 1..8              # or a number; or none, with a model
 *     gpu: [a100, v100]
 *     elastic: {consistency: D1, threads: 8}
 *     ...                     # all keys: docs/jobs.md
 *
 * JSON is YAML too: a program that makes a job file writes JSON, whose texts
 * need no other quoting; so there is no printer here.
 *
 * Strict: unknown keys, keys given twice, wrong types, values out of range and
 * contradictions are errors with file and line. Texts never reach a shell; a
 * name is checked letter by letter; control characters are refused, but for
 * ends of lines and tabs in arguments and variables.
 */
#ifndef DAEMON_JOBFILE_H
#define DAEMON_JOBFILE_H
#include "daemon/livejob.h"
#include <firn/bytes.h>

/* Fills `out` (all texts, argv and env are there; the user is ""; no name is
 * ""); live_ask_release() gives it back. `where` is the file's name in
 * sentences. FIRN_EINVAL with file and line; `out` is then untouched. */
enum firn_status jobfile_read(struct live_ask *out, struct firn_bytes text,
                              const char *where, struct firn_error *err);

/* The spec that core schedules by. Strings are borrowed from `ask`.
 * `submit_s` is on the engine's clock. Without a user's guess of the duration
 * it is an hour, and is_nominal; a language model whose user did not say how
 * many GPUs has 0. A job shares GPUs only if it can be stopped, and is merged
 * only if it can checkpoint and names its base and dataset. */
void jobfile_spec(const struct live_ask *ask, double submit_s,
                  struct firn_job_spec *out);

#endif
