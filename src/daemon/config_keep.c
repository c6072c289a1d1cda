/* config_keep.c - limits of what firnd keeps: logs, finished jobs, events.
 *
 * One table has the name of the option, the places of its text and number, its
 * default and its largest value. 0 means no limit. The largest values keep days
 * in seconds and MiB in bytes exact.
 */
#include "base/str.h"
#include "daemon/config.h"

static const struct number {
    const char *name;
    size_t text, at;
    int64_t usual, most;
} numbers[] = {
    {"log-mib", offsetof(struct config, log_mib),
     offsetof(struct config, keep.log_mib), 64, 1 << 30},
    {"keep-jobs", offsetof(struct config, keep_jobs),
     offsetof(struct config, keep.jobs), 10000, 1 << 30},
    {"keep-jobs-days", offsetof(struct config, keep_jobs_days),
     offsetof(struct config, keep.jobs_days), 30, 36500},
    {"keep-rows", offsetof(struct config, keep_rows),
     offsetof(struct config, keep.rows), 100000, 1 << 30},
    {"keep-events-days", offsetof(struct config, keep_events_days),
     offsetof(struct config, keep.events_days), 30, 36500},
};

enum firn_status config_keep_read(struct config *config, struct firn_error *err)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct number *number = &numbers[i];
        char *base = (char *)config;
        const char *text = *(const char **)(void *)(base + number->text);
        long value = (long)number->usual;
        if (text != NULL && !str_int(text, 0, (long)number->most, &value))
            return firn_fail(
                err, FIRN_EINVAL,
                "'%s' is '%.40s': expected a whole number from 0 (no "
                "limit) to %lld",
                number->name, text, (long long)number->most);
        *(int64_t *)(void *)(base + number->at) = value;
    }
    return FIRN_OK;
}
