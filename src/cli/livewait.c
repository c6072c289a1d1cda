/* livewait.c - waits for the end of a job by polling.
 *
 * Polling survives a restart of firnd. The interval grows from 0.1 s to 1 s:
 * short for short jobs, cheap for long ones.
 */
#include "cli/livewait.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/livejobs.h"
#include "cli/livepatience.h"
#include "cli/safetext.h"
#include <stdio.h>
#include <string.h>

static const double pause_first_s = 0.1, pause_last_s = 1;

static void print_state(const struct live *live, const json_t *job)
{
    struct firn_buf text = {0};
    buf_printf(&text, "firn %s: job %.0f (", live->page->command,
               answer_number(job, "id", -1));
    safe_puts(&text, answer_text(job, "name"));
    buf_puts(&text, "): ");
    safe_puts(&text, answer_text(job, "state"));
    if (*answer_text(job, "why") != '\0') {
        buf_puts(&text, ": ");
        safe_puts(&text, answer_text(job, "why"));
    }
    fprintf(stderr, "%s\n", text.at);
    buf_release(&text);
}

int live_wait(struct live *live, long long id, json_t **job)
{
    double contact_s = clock_elapsed_s(), pause_s = pause_first_s;
    char path[64];
    snprintf(path, sizeof path, "/v1/jobs/%lld", id);
    for (;;) {
        struct firn_error err = {0};
        json_t *now = NULL;
        enum firn_status status = client_get(live->client, path, &now, &err);
        if (!live_should_retry(&contact_s, status, false, clock_elapsed_s()))
            return live_failed(live, &err);
        if (status == FIRN_OK) {
            if (*job == NULL || strcmp(answer_text(*job, "state"),
                                       answer_text(now, "state")) != 0)
                print_state(live, now);
            json_decref(*job);
            *job = now;
            if (live_job_is_over(now))
                return live_job_status(now);
        }
        if (!client_wait(pause_s, -1))
            return 130;
        pause_s = pause_s * 1.5 < pause_last_s ? pause_s * 1.5 : pause_last_s;
    }
}
