/* fuzz_jobfile.c - any bytes as a job file: read or refused.
 *
 * What is read can be run: it has a command, its bounds are in order, and no
 * text of it has a control character, but for ends of lines and tabs in what a
 * program is given. What is refused is said with a line.
 */
#include "daemon/jobfile.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, const char *allowed)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < ' ' || *text == 0x7f) &&
            strchr(allowed, *text) == NULL)
            abort();
}

static void check_ask(const struct live_ask *ask)
{
    const char *const texts[] = {
        ask->name,    ask->queue,     ask->user,        ask->app,
        ask->types,   ask->model,     ask->workdir,     ask->base,
        ask->dataset, ask->objective, ask->consistency, ask->ckpt_dir,
        ask->freeze};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(texts[i], "");
    for (size_t i = 0; ask->argv[i] != NULL; i++)
        check_text(ask->argv[i], "\n\t");
    for (size_t i = 0; ask->env[i] != NULL; i++)
        check_text(ask->env[i], "\n\t");
    struct firn_job_spec spec;
    jobfile_spec(ask, 0, &spec);
    if (ask->argv[0] == NULL || ask->argv[0][0] == '\0' ||
        strchr(ask->name, '/') != NULL || spec.gpus_min > spec.gpus_max ||
        !(spec.duration_s > 0) || ask->priority < 0 || ask->priority > 100)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct live_ask ask = {0};
    struct firn_error err = {0};
    struct firn_bytes bytes = {(const char *)data, size};
    if (jobfile_read(&ask, bytes, "input", &err) == FIRN_OK)
        check_ask(&ask);
    else if (strncmp(err.text, "input: line ", 12) != 0)
        abort();
    live_ask_release(&ask);
    return 0;
}
