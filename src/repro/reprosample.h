/* reprosample.h - jobs drawn from a trace, as tasks of other applications.
 */
#ifndef REPRO_SAMPLE_H
#define REPRO_SAMPLE_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* The words behind "sample:" (cli/reprotrace.h) as a trace in firn's own
 * format. FIRN_ENOENT when the file is not there, FIRN_EINVAL when a word makes
 * no sense or there are too few jobs. */
enum firn_status sample_make(const struct words *words, struct firn_buf *out,
                             struct firn_error *err);

#endif
