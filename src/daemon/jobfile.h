/* jobfile.h - a job file: YAML in, what the user asks for out.
 *
 *     name: resnet            # [A-Za-z0-9._-]+, made up when not given
 *     run: [python, train.py, --epochs, "10"]    # or a text, split at blanks
 *     gpus: 1..8              # or a number; or none, with a model
 *     gpu: [a100, v100]
 *     elastic: {consistency: D1, threads: 8}
 *     ...                     # all keys: docs/jobs.md
 *
 * JSON is YAML too: a program that makes a job file may write JSON.
 *
 * Strict: unknown keys, keys given twice, wrong types, values out of range and
 * contradictions are errors with file and line. Texts never reach a shell;
 * control characters are refused, except line feeds and tabs in arguments and
 * variables.
 */
#ifndef DAEMON_JOBFILE_H
#define DAEMON_JOBFILE_H
#include "daemon/livejob.h"
#include <firn/bytes.h>

/* Fills `out` (texts and lists are never NULL; the user is "", and so is a name
 * that is not given); live_ask_release() frees it. `where` is the file's name
 * in sentences. FIRN_EINVAL with file and line; `out` is then untouched. */
enum firn_status jobfile_read(struct live_ask *out, struct firn_bytes text,
                              const char *where, struct firn_error *err);

/* Makes the spec that core schedules by. Texts are borrowed from `ask`;
 * `submit_s` is on the engine's clock. An unknown duration is one hour, and
 * is_nominal; a language model without `gpus` has 0 GPUs. A job shares GPUs
 * only if it can be stopped, and is merged only if it can checkpoint and has a
 * base and a dataset. */
void jobfile_spec(const struct live_ask *ask, double submit_s,
                  struct firn_job_spec *out);

#endif
