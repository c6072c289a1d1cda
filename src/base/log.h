/* log.h - log messages of libraries, sent to a sink of the program.
 *
 * Libraries never print: they log here, and the program sets the sink. A
 * failure is not logged: it is a struct firn_error. One sink for the process,
 * set before the work starts; not for use from two threads.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_INFO, LOG_WARN };

/* Gets one sentence without a line end; `text` lives during the call. */
typedef void log_sink(void *arg, enum log_level level, const char *text);

/* NULL (the default): messages are dropped. */
void log_set_sink(log_sink *sink, void *arg);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
