/* freezing.h - freezers and boundaries for tests. */
#ifndef LIB_FREEZING_H
#define LIB_FREEZING_H
#include <firn/freezer.h>

/* These fail the test with the sentence when they do not work. */
struct firn_freezer *freezing_make(struct firn_freezer_config config);
/* Equal layers, rule `penalty`. */
struct firn_freezer *freezing_penalty(size_t nlayers, uint64_t warmup_epochs);
/* A boundary after `epoch` epochs of 10 steps, with times as they come when
 * backward takes 2/3 of a step and goes with the layers left. */
struct firn_freezer_ask freezing_ask(const struct firn_freezer *f,
                                     uint64_t epoch, const double *variance,
                                     size_t nlayers);
size_t freezing_decide(struct firn_freezer *f,
                       const struct firn_freezer_ask *ask);

#endif
