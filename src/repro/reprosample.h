/* reprosample.h - draws jobs from a trace and assigns applications to them.
 */
#ifndef REPRO_SAMPLE_H
#define REPRO_SAMPLE_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* Writes the sample that the words after "sample:" describe (reprotrace.h) in
 * firn's own format. FIRN_ENOENT if the file is not there, FIRN_EINVAL if a
 * word is invalid or there are too few jobs. */
enum firn_status sample_make(const struct words *words, struct firn_buf *out,
                             struct firn_error *err);

#endif
