/* herd.c - writes marks, and searches /proc for them.
 *
 * Cost: reads the environment of each process that this user may read, some
 * milliseconds for a few hundred processes. The engine searches before it
 * starts jobs (once for all that start together), and when the files of an
 * attempt do not show how it ended.
 */
#include "engine/herd.h"
#include "base/str.h"
#include "wire/aheadgate.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char worker_is[] = "FIRN_HERD=", shepherd_is[] = "FIRN_SHEPHERD=";

static void write_mark(char out[HERD_TEXT], const char *name, const char *mark,
                       firn_job_id job, int64_t attempt)
{
    out[0] = '\0';
    if (mark != NULL && mark[0] != '\0')
        snprintf(out, HERD_TEXT, "%s%.40s-%d-%016llx", name, mark, job,
                 (unsigned long long)attempt);
}

void herd_worker(char out[HERD_TEXT], const char *mark, firn_job_id job,
                 int64_t attempt)
{
    write_mark(out, worker_is, mark, job, attempt);
}

void herd_shepherd(char out[HERD_TEXT], const char *mark, firn_job_id job,
                   int64_t attempt)
{
    write_mark(out, shepherd_is, mark, job, attempt);
}

/* Adds a process; `rest` is "JOB-ATTEMPT". */
static void add(void *arg, struct procs_id id, size_t which, const char *rest)
{
    struct herd *herd = arg;
    char *end = NULL;
    errno = 0;
    long job = strtol(rest, &end, 10);
    if (end == rest || *end != '-' || job < 0 || job > INT_MAX)
        return;
    unsigned long long attempt = which == 2 ? 0 : strtoull(end + 1, &end, 16);
    if (which == 2)
        end += strlen(end);
    if (errno != 0 || *end != '\0' || attempt > INT64_MAX)
        return;
    struct herd_process process = {.id = id,
                                   .job = (firn_job_id)job,
                                   .attempt = (int64_t)attempt,
                                   .is_shepherd = which == 1,
                                   .is_prepared = which == 2};
    vec_add(&herd->at, process);
}

bool herd_look(struct herd *out, const char *mark)
{
    char worker[HERD_TEXT], shepherd[HERD_TEXT], prepared[HERD_TEXT];
    *out = (struct herd){0};
    if (mark == NULL || mark[0] == '\0')
        return true;
    snprintf(worker, sizeof worker, "%s%.40s-", worker_is, mark);
    snprintf(shepherd, sizeof shepherd, "%s%.40s-", shepherd_is, mark);
    snprintf(prepared, sizeof prepared, "%s%.40s-", FIRN_GATE_MARK, mark);
    const char *const starts[] = {worker, shepherd, prepared};
    return procs_each_variable(starts, 3, add, out);
}

void herd_release(struct herd *herd)
{
    vec_release(&herd->at);
}
