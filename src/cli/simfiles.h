/* simfiles.h - names of the output files of `firn sim`.
 *
 * DIR/TRACE--POLICY.KIND, where TRACE is the file name of the trace without
 * directory and extension, followed by -GROUP for one group. Traces with equal
 * names get -2, -3, ... appended.
 */
#ifndef CLI_SIMFILES_H
#define CLI_SIMFILES_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* Appends one unique name per trace. */
void simfiles_labels(const struct words *traces, struct words *out);

/* Creates the directory unless it exists. FIRN_EIO. */
enum firn_status simfiles_folder(const char *dir, struct firn_error *err);

/* Creates a temporary directory in $TMPDIR or /tmp. */
enum firn_status simfiles_scratch(struct firn_buf *out, struct firn_error *err);

/* Sets `out` to the path of a file. */
void simfiles_path(const char *dir, const char *label, const char *policy,
                   const char *kind, struct firn_buf *out);

#endif
