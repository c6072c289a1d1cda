/* reproshelf.h - reads all scenarios, sorted by file name.
 *
 * The files of papers/ are compiled into the program; a directory of .yaml
 * files may be read instead.
 */
#ifndef REPRO_SHELF_H
#define REPRO_SHELF_H
#include "repro/reproscenario.h"

struct repro_shelf {
    struct repro_scenario **at; /* owned; NULL: taken over by a book */
    size_t n, cap;
};

/* `dir` NULL: the built-in scenarios. FIRN_EIO, or FIRN_EINVAL with file and
 * line; `out` is then empty. */
enum firn_status shelf_read(struct repro_shelf *out, const char *dir,
                            struct firn_error *err);
void shelf_release(struct repro_shelf *shelf);

#endif
