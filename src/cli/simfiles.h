/* simfiles.h - what the files of a run are called.
 *
 * DIR/TRACE--POLICY.KIND, where TRACE is the name of the trace's file without
 * folder and ending, with -GROUP behind it for one group. Traces that would
 * get the same name get -2, -3 ... behind it.
 */
#ifndef CLI_SIMFILES_H
#define CLI_SIMFILES_H
#include "cli/flags.h"
#include <firn/bytes.h>

/* One name for each trace, all different. */
void simfiles_labels(const struct words *traces, struct words *out);

/* Makes the folder unless it is there. FIRN_EIO when it cannot be. */
enum firn_status simfiles_folder(const char *dir, struct firn_error *err);

/* Makes a new folder for files that nobody shall see, in $TMPDIR or /tmp. */
enum firn_status simfiles_scratch(struct firn_buf *out, struct firn_error *err);

/* Sets `out` to the path of one file. */
void simfiles_path(const char *dir, const char *label, const char *policy,
                   const char *kind, struct firn_buf *out);

#endif
