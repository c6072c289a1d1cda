/* refuse.h - refuses options that a published simulator never had.
 *
 * Most options of `firn sim` exist in the default simulator only. A world that
 * ignored one of them would simulate something else than it was asked to, so
 * each is refused unless the artifact had it too.
 */
#ifndef COMPAT_REFUSE_H
#define COMPAT_REFUSE_H
#include <firn/sim.h>

/* Options that an artifact may have. */
enum refuse_but {
    REFUSE_BUT_INTERVALS = 1, /* other rounds, in whole seconds */
    REFUSE_BUT_RESTARTS = 2,  /* another restart cost, the same for all */
};

/* FIRN_EINVAL and "ARTIFACT never had ..." for the first option that was set;
 * `but` is a sum of the above. */
enum firn_status refuse_options(const char *artifact,
                                const struct firn_sim_options *options,
                                unsigned but, struct firn_error *err);

/* FIRN_EINVAL and what to do when no folder of tables is named; `holds` is
 * what must be in it. */
enum firn_status refuse_no_tables(const char *artifact,
                                  const struct firn_sim_options *options,
                                  const char *holds, struct firn_error *err);

#endif
