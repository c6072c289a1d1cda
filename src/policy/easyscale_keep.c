/* easyscale_keep.c - what EasyScale must know after a restart.
 *
 * The type a job first started on, which it may not leave under types=one, and
 * what was predicted when it was last given more GPUs, by which it is judged.
 * All of it is by job id: slots are core's, and may be others after a restart,
 * so what was read is put under slots in the first round (easyscale.c), and
 * what is of nobody who is still there is forgotten then.
 */
#include "base/keep.h"
#include "policy/easyscale.h"
#include <stdint.h>
#include <stdlib.h>

static void save_counts(struct firn_buf *out, const int *counts)
{
    int n = FIRN_TYPES_MAX;
    while (n > 0 && counts[n - 1] == 0)
        n--;
    keep_int(out, n);
    for (int t = 0; t < n; t++)
        keep_int(out, counts[t]);
}

static void save_past(struct firn_buf *out, const struct es_past *past)
{
    keep_int(out, past->id);
    keep_int(out, past->type);
    keep_double(out, past->at_s);
    save_counts(out, past->from);
    save_counts(out, past->to);
    keep_double(out, past->from_rate);
    keep_double(out, past->to_rate);
    keep_double(out, past->rests_until_s);
}

void es_save(const void *state, struct firn_buf *out)
{
    const struct easyscale *es = state;
    long n = (long)es->kept.n;
    for (size_t i = 0; i < es->past.cap; i++)
        n += es->past.at[i].id > 0;
    keep_begin(out, "policy easyscale", 1);
    keep_int(out, n);
    for (size_t i = 0; i < es->past.cap; i++)
        if (es->past.at[i].id > 0)
            save_past(out, &es->past.at[i]);
    for (size_t i = 0; i < es->kept.n; i++)
        save_past(out, &es->kept.at[i]);
}

static void load_counts(struct keep *in, int *counts)
{
    long n = keep_read_int(in, 0, FIRN_TYPES_MAX);
    for (long t = 0; t < n; t++)
        counts[t] = (int)keep_read_int(in, 0, INT32_MAX);
}

static struct es_past load_past(struct keep *in)
{
    struct es_past past = {.id = (int)keep_read_int(in, 1, INT32_MAX)};
    past.type = (int)keep_read_int(in, 0, FIRN_TYPES_MAX);
    past.at_s = keep_read_double(in);
    load_counts(in, past.from);
    load_counts(in, past.to);
    past.from_rate = keep_read_double(in);
    past.to_rate = keep_read_double(in);
    past.rests_until_s = keep_read_double(in);
    return past;
}

static int by_id(const void *a, const void *b)
{
    const struct es_past *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

enum firn_status es_load(void *state, struct firn_bytes in,
                         struct firn_error *err)
{
    struct easyscale *es = state;
    struct easyscale fresh = {.past = {0}};
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy easyscale", 1, err));
    long n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++)
        vec_add(&fresh.kept, load_past(&keep));
    enum firn_status status = keep_close(&keep, err);
    if (status != FIRN_OK) {
        vec_release(&fresh.kept);
        return status;
    }
    if (fresh.kept.n > 1)
        qsort(fresh.kept.at, fresh.kept.n, sizeof *fresh.kept.at, by_id);
    vec_release(&es->past);
    vec_release(&es->kept);
    es->kept.at = fresh.kept.at;
    es->kept.n = fresh.kept.n;
    es->kept.cap = fresh.kept.cap;
    return FIRN_OK;
}
