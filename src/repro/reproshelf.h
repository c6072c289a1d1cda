/* reproshelf.h - where scenarios are found.
 *
 * Those that come with firn are part of the program; a folder of .yaml files
 * may be read instead. They are sorted by the name of their file.
 */
#ifndef REPRO_SHELF_H
#define REPRO_SHELF_H
#include "repro/reproscenario.h"

struct repro_shelf {
    struct repro_scenario **at; /* owned, until they are taken: NULL then */
    size_t n, cap;
};

/* `dir` NULL: those that come with firn. FIRN_EIO, or FIRN_EINVAL with file
 * and line; `out` is then empty. */
enum firn_status shelf_read(struct repro_shelf *out, const char *dir,
                            struct firn_error *err);
void shelf_release(struct repro_shelf *shelf);

#endif
