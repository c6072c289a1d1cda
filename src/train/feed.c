/* feed.c - the random states of virtual data workers, for any real pool.
 *
 * Batch k of thread i is drawn by virtual worker j = k mod W from the state
 * R(i,j), which the request takes along and the commit brings back. A worker
 * has the state behind its last batch; each batch that was asked for and is
 * not consumed has a slot with the state before it:
 *
 *     consumed | next ...            next + prefetch |
 *     ---------+-------------------------------------+----> batches of i
 *              | slot: drawn, under way or not asked |
 *
 * A stop throws slots away and takes the states before the first of them, so
 * what was drawn ahead is drawn again, with the same result (EasyScale,
 * section 3.2).
 *
 * (1) At most one batch of (i,j) is under way, so R(i,j) has one owner.
 * (2) The states depend on the batches drawn by (i,j) in their order, never on
 *     which real worker drew them nor on when it was done.
 * (3) A slot lives until its batch is consumed; its state is what a request
 *     borrows.
 *
 * A start, seed or load while requests are out discards their answers: a commit
 * names a thread and a batch, not a request.
 *
 * Saved, little endian: u32 version, u32 W, u64 next batch, then for each
 * worker u64 bytes and the state.
 *
 * Cost: asking looks at W workers of each thread; the rest is copies.
 */
#include "train/ckpt_parts.h"
#include <firn/feed.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED_VERSION = 1, SAVED_HEAD = 16 };

struct worker {
    uint64_t ask; /* its next batch to ask for */
    bool is_busy; /* the one before is under way */
    size_t n;     /* bytes of its state */
};

enum slot_is { NOT_ASKED, UNDER_WAY, DRAWN };

struct slot {
    enum slot_is is;
    size_t n; /* bytes of the state before its batch */
};

struct thread {
    int id;
    uint64_t next; /* to be consumed */
    struct worker *workers;
    struct slot *slots; /* of batch k: k mod prefetch */
    uint8_t *states;    /* of the workers, then of the slots */
};

struct firn_feed {
    struct thread *threads;
    size_t n;
    uint64_t nworkers, prefetch, nbatches;
    size_t state_max;
    size_t turn; /* the thread to be asked next */
};

static uint8_t *worker_state(const struct firn_feed *f, const struct thread *t,
                             uint64_t worker)
{
    return t->states + worker * f->state_max;
}

static uint8_t *slot_state(const struct firn_feed *f, const struct thread *t,
                           uint64_t batch)
{
    return t->states + (f->nworkers + batch % f->prefetch) * f->state_max;
}

static struct slot *slot_of(const struct firn_feed *f, const struct thread *t,
                            uint64_t batch)
{
    return &t->slots[batch % f->prefetch];
}

/* The first batch of a worker that is not before `batch`. */
static uint64_t first_of(const struct firn_feed *f, uint64_t worker,
                         uint64_t batch)
{
    uint64_t at = batch % f->nworkers;
    return batch + (worker + f->nworkers - at) % f->nworkers;
}

static struct thread *find(const struct firn_feed *f, int id)
{
    size_t low = 0, high = f->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->threads[middle].id == id)
            return &f->threads[middle];
        if (id < f->threads[middle].id)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static enum firn_status no_thread(int id, struct firn_error *err)
{
    return firn_fail(err, FIRN_EINVAL, "thread %d does not belong to this feed",
                     id);
}

static enum firn_status check_size(const struct firn_feed *f, int thread,
                                   size_t n, struct firn_error *err)
{
    if (n <= f->state_max)
        return FIRN_OK;
    return firn_fail(err, FIRN_EINVAL,
                     "thread %d: a loader's state has %zu bytes, more than "
                     "its declared %zu",
                     thread, n, f->state_max);
}

static void copy(void *to, const void *from, size_t n)
{
    if (n > 0)
        memcpy(to, from, n);
}

/* --- new and free --- */

void firn_feed_free(struct firn_feed *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; f->threads != NULL && i < f->n; i++) {
        free(f->threads[i].workers);
        free(f->threads[i].slots);
        free(f->threads[i].states);
    }
    free(f->threads);
    free(f);
}

static enum firn_status check(const struct firn_feed_config *c,
                              struct firn_error *err)
{
    if (c->nworkers < 1 || c->prefetch < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "a feed has 1 virtual worker or more and fetches 0 "
                         "batches ahead or more, not %d and %d",
                         c->nworkers, c->prefetch);
    for (size_t i = 0; i < c->nthreads; i++)
        if (c->threads[i] < 0 || (i > 0 && c->threads[i] <= c->threads[i - 1]))
            return firn_fail(err, FIRN_EINVAL,
                             "threads must rise from 0: %d cannot be number "
                             "%zu",
                             c->threads[i], i);
    return FIRN_OK;
}

static bool make_thread(const struct firn_feed *f, struct thread *t, int id)
{
    size_t nworkers = (size_t)f->nworkers, nslots = (size_t)f->prefetch;
    t->id = id;
    t->workers = calloc(nworkers, sizeof *t->workers);
    t->slots = calloc(nslots, sizeof *t->slots);
    t->states = calloc(nworkers + nslots, f->state_max + (f->state_max == 0));
    for (uint64_t j = 0; t->workers != NULL && j < f->nworkers; j++)
        t->workers[j].ask = j;
    return t->workers != NULL && t->slots != NULL && t->states != NULL;
}

enum firn_status firn_feed_new(struct firn_feed **out,
                               const struct firn_feed_config *c,
                               struct firn_error *err)
{
    FIRN_TRY(check(c, err));
    struct firn_feed *f = calloc(1, sizeof *f);
    if (f == NULL)
        return firn_fail(err, FIRN_ENOMEM, "feed: out of memory");
    f->n = c->nthreads;
    f->nworkers = (uint64_t)c->nworkers;
    f->prefetch = c->prefetch > 0 ? (uint64_t)c->prefetch : 2 * f->nworkers;
    f->state_max = c->state_max;
    f->threads = calloc(f->n + 1, sizeof *f->threads);
    bool is_made = f->threads != NULL;
    for (size_t i = 0; is_made && i < f->n; i++)
        is_made = make_thread(f, &f->threads[i], c->threads[i]);
    if (!is_made) {
        firn_feed_free(f);
        return firn_fail(err, FIRN_ENOMEM, "feed: out of memory");
    }
    *out = f;
    return FIRN_OK;
}

/* --- start and seed --- */

/* The state from which a worker's next unconsumed batch is drawn. */
static const uint8_t *state_before(const struct firn_feed *f,
                                   const struct thread *t, uint64_t worker,
                                   size_t *n)
{
    uint64_t batch = first_of(f, worker, t->next);
    if (batch < t->workers[worker].ask) {
        *n = slot_of(f, t, batch)->n;
        return slot_state(f, t, batch);
    }
    *n = t->workers[worker].n;
    return worker_state(f, t, worker);
}

/* Forgets what a worker drew ahead. */
static void forget(const struct firn_feed *f, struct thread *t, uint64_t worker)
{
    struct worker *w = &t->workers[worker];
    size_t n = 0;
    const uint8_t *before = state_before(f, t, worker, &n);
    if (before != worker_state(f, t, worker))
        copy(worker_state(f, t, worker), before, n);
    w->n = n;
    uint64_t first = first_of(f, worker, t->next);
    for (uint64_t k = first; k < w->ask; k += f->nworkers)
        slot_of(f, t, k)->is = NOT_ASKED;
    w->ask = first;
    w->is_busy = false;
}

static void move_to(const struct firn_feed *f, struct thread *t, uint64_t next)
{
    for (uint64_t j = 0; j < f->nworkers; j++)
        forget(f, t, j);
    t->next = next;
    for (uint64_t j = 0; j < f->nworkers; j++)
        t->workers[j].ask = first_of(f, j, next);
}

enum firn_status firn_feed_seed(struct firn_feed *f, int thread, int worker,
                                const void *state, size_t n,
                                struct firn_error *err)
{
    struct thread *t = find(f, thread);
    if (t == NULL)
        return no_thread(thread, err);
    if (worker < 0 || (uint64_t)worker >= f->nworkers)
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d has %" PRIu64
                         " virtual workers, and none is number %d",
                         thread, f->nworkers, worker);
    FIRN_TRY(check_size(f, thread, n, err));
    forget(f, t, (uint64_t)worker);
    copy(worker_state(f, t, (uint64_t)worker), state, n);
    t->workers[worker].n = n;
    return FIRN_OK;
}

void firn_feed_start(struct firn_feed *f, uint64_t first, uint64_t nbatches)
{
    f->nbatches = nbatches;
    f->turn = 0;
    for (size_t i = 0; i < f->n; i++)
        move_to(f, &f->threads[i], first);
}

/* --- asking, drawing, consuming --- */

/* The worker of the earliest batch that may be asked for; nworkers: none. */
static uint64_t idle_worker(const struct firn_feed *f, const struct thread *t)
{
    uint64_t best = f->nworkers, earliest = f->nbatches;
    for (uint64_t j = 0; j < f->nworkers; j++) {
        const struct worker *w = &t->workers[j];
        if (!w->is_busy && w->ask < earliest &&
            w->ask - t->next < f->prefetch) {
            earliest = w->ask;
            best = j;
        }
    }
    return best;
}

bool firn_feed_next(struct firn_feed *f, struct firn_feed_request *out)
{
    for (size_t i = 0; i < f->n; i++) {
        size_t at = (f->turn + i) % f->n;
        struct thread *t = &f->threads[at];
        uint64_t j = idle_worker(f, t);
        if (j == f->nworkers)
            continue;
        struct worker *w = &t->workers[j];
        struct slot *slot = slot_of(f, t, w->ask);
        uint8_t *before = slot_state(f, t, w->ask);
        copy(before, worker_state(f, t, j), w->n);
        *slot = (struct slot){UNDER_WAY, w->n};
        *out = (struct firn_feed_request){.thread = t->id,
                                          .worker = (int)j,
                                          .batch = w->ask,
                                          .state = before,
                                          .nstate = w->n};
        w->ask += f->nworkers;
        w->is_busy = true;
        f->turn = (at + 1) % f->n;
        return true;
    }
    return false;
}

/* Is this batch in the window, and in that way? */
static bool is(const struct firn_feed *f, const struct thread *t,
               uint64_t batch, enum slot_is is)
{
    return batch >= t->next && batch - t->next < f->prefetch &&
           slot_of(f, t, batch)->is == is;
}

enum firn_status firn_feed_commit(struct firn_feed *f, int thread,
                                  uint64_t batch, const void *state, size_t n,
                                  struct firn_error *err)
{
    struct thread *t = find(f, thread);
    if (t == NULL)
        return no_thread(thread, err);
    if (!is(f, t, batch, UNDER_WAY))
        return firn_fail(err, FIRN_EINVAL,
                         "batch %" PRIu64 " of thread %d was not requested",
                         batch, thread);
    FIRN_TRY(check_size(f, thread, n, err));
    uint64_t j = batch % f->nworkers;
    copy(worker_state(f, t, j), state, n);
    t->workers[j].n = n;
    t->workers[j].is_busy = false;
    slot_of(f, t, batch)->is = DRAWN;
    return FIRN_OK;
}

bool firn_feed_ready(const struct firn_feed *f, int thread, uint64_t batch)
{
    const struct thread *t = find(f, thread);
    return t != NULL && is(f, t, batch, DRAWN);
}

enum firn_status firn_feed_consume(struct firn_feed *f, int thread,
                                   uint64_t batch, struct firn_error *err)
{
    struct thread *t = find(f, thread);
    if (t == NULL)
        return no_thread(thread, err);
    if (batch != t->next)
        return firn_fail(err, FIRN_EINVAL,
                         "the next batch of thread %d is %" PRIu64
                         ", not %" PRIu64,
                         thread, t->next, batch);
    if (!is(f, t, batch, DRAWN))
        return firn_fail(err, FIRN_EINVAL,
                         "batch %" PRIu64 " of thread %d is not drawn yet",
                         batch, thread);
    slot_of(f, t, batch)->is = NOT_ASKED;
    t->next++;
    return FIRN_OK;
}

/* --- saving and loading --- */

size_t firn_feed_saved_max(const struct firn_feed *f)
{
    return SAVED_HEAD + (size_t)f->nworkers * (8 + f->state_max);
}

size_t firn_feed_save(const struct firn_feed *f, int thread, void *bytes)
{
    const struct thread *t = find(f, thread);
    if (t == NULL)
        return 0;
    uint8_t *to = bytes;
    ckpt_put32(to, SAVED_VERSION);
    ckpt_put32(to + 4, (uint32_t)f->nworkers);
    ckpt_put64(to + 8, t->next);
    to += SAVED_HEAD;
    for (uint64_t j = 0; j < f->nworkers; j++) {
        size_t n = 0;
        const uint8_t *state = state_before(f, t, j, &n);
        ckpt_put64(to, n);
        copy(to + 8, state, n);
        to += 8 + n;
    }
    return (size_t)(to - (uint8_t *)bytes);
}

/* Do the states fill the bytes behind the head exactly? */
static bool is_saved(const struct firn_feed *f, const uint8_t *at, size_t left)
{
    for (uint64_t j = 0; j < f->nworkers; j++) {
        if (left < 8 || ckpt_get64(at) > left - 8 ||
            ckpt_get64(at) > f->state_max)
            return false;
        size_t n = 8 + (size_t)ckpt_get64(at);
        at += n;
        left -= n;
    }
    return left == 0;
}

enum firn_status firn_feed_load(struct firn_feed *f, int thread,
                                const void *bytes, size_t n,
                                struct firn_error *err)
{
    const uint8_t *at = bytes;
    struct thread *t = find(f, thread);
    if (t == NULL)
        return no_thread(thread, err);
    if (n < SAVED_HEAD || ckpt_get32(at) != SAVED_VERSION)
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d: these are not the states of loaders",
                         thread);
    if (ckpt_get32(at + 4) != f->nworkers)
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d: saved with %" PRIu32
                         " virtual workers, not %" PRIu64,
                         thread, ckpt_get32(at + 4), f->nworkers);
    if (!is_saved(f, at + SAVED_HEAD, n - SAVED_HEAD))
        return firn_fail(err, FIRN_EINVAL,
                         "thread %d: the saved states of loaders are damaged",
                         thread);
    move_to(f, t, ckpt_get64(at + 8));
    at += SAVED_HEAD;
    for (uint64_t j = 0; j < f->nworkers; j++) {
        size_t nstate = (size_t)ckpt_get64(at);
        t->workers[j].n = nstate;
        copy(worker_state(f, t, j), at + 8, nstate);
        at += 8 + nstate;
    }
    return FIRN_OK;
}
