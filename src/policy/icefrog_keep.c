/* icefrog_keep.c - what IceFrog must know after a restart.
 *
 * When its last round was, and which applications went badly together: jobs
 * that were seen to do so were parted, and would be put together again.
 */
#include "base/keep.h"
#include "policy/icefrog.h"
#include <stdint.h>

void icefrog_save(const void *state, struct firn_buf *out)
{
    const struct icefrog *ice = state;
    keep_begin(out, "policy icefrog", 1);
    rounds_save(&ice->rounds, out);
    keep_names(out, &ice->apps);
    keep_int(out, (long)ice->bad.n);
    for (size_t i = 0; i < ice->bad.n; i++) {
        keep_int(out, ice->bad.at[i].a);
        keep_int(out, ice->bad.at[i].b);
    }
}

enum firn_status icefrog_load(void *state, struct firn_bytes in,
                              struct firn_error *err)
{
    struct icefrog *ice = state, fresh = *ice, old = *ice;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy icefrog", 1, err));
    fresh.apps = (struct map){0};
    fresh.bad.at = NULL;
    fresh.bad.n = fresh.bad.cap = 0;
    fresh.rounds = rounds_load(&keep);
    keep_read_names(&keep, &fresh.apps);
    long last = (long)fresh.apps.n - 1, n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++) {
        struct icefrog_pair pair = {.a = (int)keep_read_int(&keep, 0, last)};
        pair.b = (int)keep_read_int(&keep, pair.a, last);
        vec_add(&fresh.bad, pair);
    }
    enum firn_status status = keep_close(&keep, err);
    if (status == FIRN_OK)
        *ice = fresh;
    icefrog_fini(status == FIRN_OK ? &old : &fresh);
    return status;
}
