/* refuse.h - what a published simulator never had, refused with a sentence.
 *
 * The honest simulator's options are firn's own. A world that ignored one of
 * them would answer another question than the one it was asked, so each is
 * refused unless the artifact had something of the kind.
 */
#ifndef COMPAT_REFUSE_H
#define COMPAT_REFUSE_H
#include <firn/sim.h>

/* What an artifact may have all the same. */
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
