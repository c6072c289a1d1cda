/* config_keep.c - how much is kept of logs, folders, rows and events.
 *
 * One table: the option's name, its text, its number, its default and the
 * largest that is taken. 0 keeps all. The limits are such that a number of days
 * in seconds, and of MiB in bytes, stays exact.
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
            return firn_fail(err, FIRN_EINVAL,
                             "%s '%.40s' is no whole number from 0 to %lld",
                             number->name, text, (long long)number->most);
        *(int64_t *)(void *)(base + number->at) = value;
    }
    return FIRN_OK;
}
