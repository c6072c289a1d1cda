/* freezing.c - freezers and boundaries for tests. */
#include "freezing.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct firn_freezer *freezing_make(struct firn_freezer_config c)
{
    struct firn_freezer *f = NULL;
    struct firn_error err = {0};
    if (firn_freezer_new(&f, &c, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return f;
}

struct firn_freezer *freezing_penalty(size_t nlayers, uint64_t warmup)
{
    return freezing_make(
        (struct firn_freezer_config){.nlayers = nlayers,
                                     .rule = FIRN_FREEZER_PENALTY,
                                     .warmup_epochs = warmup});
}

struct firn_freezer_ask freezing_ask(const struct firn_freezer *f,
                                     uint64_t epoch, const double *variance,
                                     size_t nlayers)
{
    double left = 1 - (double)firn_freezer_frozen(f) / (double)nlayers;
    return (struct firn_freezer_ask){.step = 10 * epoch,
                                     .epoch = epoch,
                                     .progress = (double)epoch / 20,
                                     .variance = variance,
                                     .forward_s = 0.1,
                                     .backward_s = 0.2 * left,
                                     .rest_s = 0.03 * left};
}

size_t freezing_decide(struct firn_freezer *f,
                       const struct firn_freezer_ask *ask)
{
    size_t nfrozen = 99;
    struct firn_error err = {0};
    if (firn_freezer_decide(f, ask, &nfrozen, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(nfrozen, firn_freezer_frozen(f));
    return nfrozen;
}
