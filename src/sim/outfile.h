/* outfile.h - a file that appears whole or not at all.
 *
 * Text is added to `text` and written to PATH.tmp; closing renames it to
 * PATH. A write that fails is remembered and reported when the file is closed,
 * so that callers need not check each line. A run that dies leaves only the
 * .tmp.
 */
#ifndef SIM_OUTFILE_H
#define SIM_OUTFILE_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdio.h>

struct outfile {
    struct firn_buf text; /* what is to be written next; add here */
    FILE *file;
    char *path, *tmp_path;
    int failed; /* errno of the first failure; 0 for none */
};

/* FIRN_EIO when PATH.tmp cannot be made. */
enum firn_status outfile_open(struct outfile *out, const char *path,
                              struct firn_error *err);
/* To be called now and then: writes `text` out when there is much of it. */
void outfile_drain(struct outfile *out);
/* Writes the rest and renames. FIRN_EIO when anything went wrong since it was
 * opened: PATH is then as it was before. Releases everything in any case. */
enum firn_status outfile_close(struct outfile *out, struct firn_error *err);
/* Removes PATH.tmp. */
void outfile_discard(struct outfile *out);

#endif
