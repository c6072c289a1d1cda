/* freezersave.c - a freezer as bytes of a checkpoint, and back.
 *
 * Little endian; fields have 8 bytes unless marked u32:
 *
 *   "firnfrzr"  u32 version  u32 nlayers  u32 nfrozen  u32 due
 *   u32 passes  u32 0        u64 last step
 *   f64 psi     f64 owed     f64 effective
 *   f64 variance[nlayers]    as kept: frozen layers have the one at freezing
 *   f64 seen_backward[nlayers]  f64 seen_rest[nlayers]
 *   u64 nlog    log: u64 step, u64 epoch, u32 kind, u32 value, f64 psi
 *   u64 FNV-1a of all before
 *
 * Loading reads everything into separate memory and checks it there before
 * anything is changed. The checksum finds accidental damage, the checks find
 * malicious values.
 */
#include "train/freezer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    HEAD_BYTES = 64,
    LAYER_BYTES = 24,
    ENTRY_BYTES = 32,
    TAIL_BYTES = 16 /* nlog and the sum */
};

static const char magic[8] = {'f', 'i', 'r', 'n', 'f', 'r', 'z', 'r'};

/* --- bytes ---------------------------------------------------------------- */

static void put(unsigned char **at, uint64_t value, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        *(*at)++ = (unsigned char)(value >> 8 * i);
}

static void put_double(unsigned char **at, double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put(at, bits, 8);
}

static uint64_t get(const unsigned char **at, size_t nbytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < nbytes; i++)
        value |= (uint64_t) * (*at)++ << 8 * i;
    return value;
}

static double get_double(const unsigned char **at)
{
    uint64_t bits = get(at, 8);
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t sum_of(const unsigned char *at, size_t n)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

/* --- saving --------------------------------------------------------------- */

size_t firn_freezer_saved(const struct firn_freezer *freezer)
{
    return HEAD_BYTES + LAYER_BYTES * freezer->freeze.nlayers + TAIL_BYTES +
           ENTRY_BYTES * freezer->nlog;
}

static void put_doubles(unsigned char **at, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_double(at, values[i]);
}

void firn_freezer_save(const struct firn_freezer *freezer, void *bytes)
{
    unsigned char *start = bytes, *at = start;
    size_t n = freezer->freeze.nlayers;
    memcpy(at, magic, sizeof magic);
    at += sizeof magic;
    put(&at, VERSION, 4);
    put(&at, n, 4);
    put(&at, freezer->freeze.nfrozen, 4);
    put(&at, freezer->due, 4);
    put(&at, freezer->passes, 4);
    put(&at, 0, 4);
    put(&at, freezer->last_step, 8);
    put_double(&at, freezer->psi);
    put_double(&at, freezer->owed);
    put_double(&at, freezer->effective);
    put_doubles(&at, freezer->freeze.value, n);
    put_doubles(&at, freezer->seen_backward, n);
    put_doubles(&at, freezer->seen_rest, n);
    put(&at, freezer->nlog, 8);
    for (size_t i = 0; i < freezer->nlog; i++) {
        const struct firn_decision *d = &freezer->log[i];
        put(&at, d->step, 8);
        put(&at, d->epoch, 8);
        put(&at, d->kind, 4);
        put(&at, d->value, 4);
        put_double(&at, d->psi);
    }
    put(&at, sum_of(start, (size_t)(at - start)), 8);
}

/* --- loading -------------------------------------------------------------- */

/* What was read, before it is believed. */
struct found {
    uint64_t nlayers, nfrozen, due, passes, last_step, nlog;
    double psi, owed, effective;
    double *layers; /* 3 * nlayers */
    struct firn_decision *log;
};

static enum firn_status damaged(struct firn_error *err, const char *what)
{
    return firn_fail(err, FIRN_EINVAL, "the freezer's state is damaged: %s",
                     what);
}

/* Are the bytes as long and as summed as they say, and of this many layers? */
static enum firn_status check_frame(const unsigned char *at, size_t n,
                                    size_t nlayers, struct firn_error *err)
{
    size_t fixed = HEAD_BYTES + LAYER_BYTES * nlayers;
    if (n < 16 || memcmp(at, magic, sizeof magic) != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "these %zu bytes are not a freezer's "
                         "state",
                         n);
    const unsigned char *field = at + sizeof magic;
    unsigned version = (unsigned)get(&field, 4);
    unsigned saved_layers = (unsigned)get(&field, 4);
    if (version != VERSION)
        return firn_fail(err, FIRN_EINVAL,
                         "the freezer's state is of version %u, not %d",
                         version, VERSION);
    if (saved_layers != nlayers)
        return firn_fail(err, FIRN_EINVAL,
                         "the freezer's state is of %u layers, the model has "
                         "%zu",
                         saved_layers, nlayers);
    if (n < fixed + TAIL_BYTES)
        return damaged(err, "it is cut off");
    field = at + fixed;
    uint64_t nlog = get(&field, 8);
    size_t room = n - fixed - TAIL_BYTES;
    if (room % ENTRY_BYTES != 0 || room / ENTRY_BYTES != nlog)
        return damaged(err, "its log is not as long as it says");
    field = at + n - 8;
    if (get(&field, 8) != sum_of(at, n - 8))
        return damaged(err, "its sum is wrong");
    return FIRN_OK;
}

static void read_all(struct found *found, const unsigned char *at)
{
    at += sizeof magic + 4;
    found->nlayers = get(&at, 4);
    found->nfrozen = get(&at, 4);
    found->due = get(&at, 4);
    found->passes = get(&at, 4);
    get(&at, 4);
    found->last_step = get(&at, 8);
    found->psi = get_double(&at);
    found->owed = get_double(&at);
    found->effective = get_double(&at);
    for (size_t i = 0; i < 3 * found->nlayers; i++)
        found->layers[i] = get_double(&at);
    get(&at, 8);
    for (size_t i = 0; i < found->nlog; i++) {
        struct firn_decision *d = &found->log[i];
        d->step = get(&at, 8);
        d->epoch = get(&at, 8);
        d->kind = (uint32_t)get(&at, 4);
        d->value = (uint32_t)get(&at, 4);
        d->psi = get_double(&at);
    }
}

static enum firn_status check_log(const struct found *found,
                                  struct firn_error *err)
{
    uint64_t last = 0;
    for (size_t i = 0; i < found->nlog; i++) {
        if (firn_freezer_check(&found->log[i], found->nlayers, last, err) !=
            FIRN_OK)
            return firn_fail_in(err, "the freezer's state is damaged");
        last = found->log[i].step;
    }
    return last == found->last_step
               ? FIRN_OK
               : damaged(err, "its last step is not its log's");
}

static enum firn_status check_found(const struct found *found,
                                    struct firn_error *err)
{
    if (found->nfrozen >= found->nlayers)
        return damaged(err, "all layers are frozen");
    if (!(found->psi > 0 && found->psi <= 1))
        return damaged(err, "psi is not within 0 and 1");
    if (!(found->owed >= 0 && found->owed < 1))
        return damaged(err, "it owes less than nothing or more than a step");
    if (!isfinite(found->effective) || found->effective < 0)
        return damaged(err, "its effective steps are no number");
    for (size_t i = 0; i < 3 * found->nlayers; i++)
        if (!isfinite(found->layers[i]) ||
            (i < found->nlayers && found->layers[i] < 0))
            return damaged(err, "a layer's number is none");
    return check_log(found, err);
}

static void believe(struct firn_freezer *f, const struct found *found)
{
    size_t n = f->freeze.nlayers;
    f->freeze.nfrozen = 0; /* so that all are observed */
    firn_freeze_observe(&f->freeze, found->layers, n, NULL);
    firn_freeze_set(&f->freeze, found->nfrozen, NULL);
    memcpy(f->seen_backward, found->layers + n, n * sizeof *found->layers);
    memcpy(f->seen_rest, found->layers + 2 * n, n * sizeof *found->layers);
    f->psi = found->psi;
    f->owed = found->owed;
    f->effective = found->effective;
    f->due = (uint32_t)found->due;
    f->passes = (uint32_t)found->passes;
    f->last_step = found->last_step;
    free(f->log);
    f->log = found->log;
    f->nlog = f->cap = found->nlog;
    f->replayed = 0;
    f->batch = f->rate = 0;
    for (size_t i = 0; i < f->nlog; i++) { /* the log alone has these two */
        if (f->log[i].kind == FIRN_DECIDED_BATCH)
            f->batch = f->log[i].value;
        if (f->log[i].kind == FIRN_DECIDED_RATE)
            f->rate = f->log[i].value;
    }
}

enum firn_status firn_freezer_load(struct firn_freezer *freezer,
                                   const void *bytes, size_t n,
                                   struct firn_error *err)
{
    size_t nlayers = freezer->freeze.nlayers;
    FIRN_TRY(check_frame(bytes, n, nlayers, err));
    struct found found = {0};
    found.nlog =
        (n - HEAD_BYTES - LAYER_BYTES * nlayers - TAIL_BYTES) / ENTRY_BYTES;
    found.layers = malloc(3 * nlayers * sizeof *found.layers);
    found.log = malloc((found.nlog > 0 ? found.nlog : 1) * sizeof *found.log);
    enum firn_status status = FIRN_OK;
    if (found.layers == NULL || found.log == NULL) {
        status = firn_fail(err, FIRN_ENOMEM,
                           "no memory for the freezer's "
                           "state");
    } else {
        read_all(&found, bytes);
        status = check_found(&found, err);
    }
    if (status == FIRN_OK)
        believe(freezer, &found);
    else
        free(found.log);
    free(found.layers);
    return status;
}
