/* trace_text.h - traces as text, for tests: bytes in, one line a row out.
 *
 * A row is "3: job NAME,SUBMIT,GPUS,DURATION,MIN,MAX,APP,GROUP,BATCH,PRIORITY,
 * MEM,TYPES,SHARE,RESTART,NOMINAL" (the columns of trace/write.h), or
 * "4: ignored", or "5: bad: the sentence".
 */
#ifndef LIB_TRACE_TEXT_H
#define LIB_TRACE_TEXT_H
#include <firn/trace.h>

/* Reads `bytes` with that format. "open: the sentence" when it refuses them.
 * The caller releases the buffer. */
struct firn_buf trace_text(const struct firn_trace_def *def,
                           struct firn_bytes bytes);

/* The same through firn_trace_open(), with "report J I B U" and the kept bad
 * rows at the end; "end: the sentence" before it when the reading failed. */
struct firn_buf trace_text_file(const char *path,
                                const struct firn_trace_options *options);

/* The format of that name; NULL for none. */
const struct firn_trace_def *trace_def(const char *name);

/* A whole file; the caller releases it. Fails the test if it is not there. */
struct firn_buf file_text(const char *path);

/* The fixture of a format, tests/trace/fixtures/NAME.csv. */
struct firn_buf fixture(const char *format);

#endif
