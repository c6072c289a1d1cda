/* feed.h - which samples a virtual rank sees, and the state of its loaders.
 *
 * Samples go by virtual rank and V, never by process and P. An epoch is a
 * permutation of the data set by (seed, epoch), padded from its start (or cut)
 * to a multiple of V; virtual rank v has places v, v + V, v + 2V, ... of it,
 * batch by batch: what a DistributedSampler of V processes would give.
 *
 * Data workers are shared by all threads of a process. Batch k of thread i is
 * drawn by the virtual worker j = k mod W, whose random state R(i,j) travels
 * with the request and comes back with the batch. So any pool of workers gives
 * the same batches, and a stop drops what was prefetched: the state before
 * each batch that was not consumed is kept and is what a checkpoint holds
 * (EasyScale, section 3.2, "data worker sharing").
 */
#ifndef FIRN_FEED_H
#define FIRN_FEED_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

/* --- the virtual sampler ------------------------------------------------- */

struct firn_sampler {
    uint64_t nsamples, seed;
    int nthreads;   /* V */
    int batch;      /* of one thread */
    bool shuffle;   /* false: the data set's own order */
    bool drop_last; /* cut rather than pad; also a last batch that is short */
};

/* What is wrong with it, if anything. */
FIRN_API enum firn_status firn_sampler_check(const struct firn_sampler *sampler,
                                             struct firn_error *err);
/* Batches of one thread in an epoch. */
FIRN_API uint64_t firn_sampler_batches(const struct firn_sampler *sampler);
/* Places of one thread in an epoch. */
FIRN_API uint64_t firn_sampler_places(const struct firn_sampler *sampler);

/* The permutation of an epoch, nsamples numbers into `order`. */
FIRN_API void firn_sampler_shuffle(const struct firn_sampler *sampler,
                                   uint64_t epoch, uint32_t *order);
/* The samples of one batch of one thread, at most `batch` of them into `out`;
 * how many (0 beyond the end). `order`: NULL for an epoch without shuffling. */
FIRN_API size_t firn_sampler_batch(const struct firn_sampler *sampler,
                                   const uint32_t *order, int thread,
                                   uint64_t batch, uint32_t *out);

/* --- the state queue of shared data workers ------------------------------ */

struct firn_feed;

struct firn_feed_config {
    const int *threads; /* those of this process, rising */
    size_t nthreads;
    int nworkers;     /* W, virtual workers of each thread */
    size_t state_max; /* bytes of R(i,j) */
    int prefetch;     /* batches ahead of a thread; 0: 2 W */
};
FIRN_API enum firn_status firn_feed_new(struct firn_feed **out,
                                        const struct firn_feed_config *config,
                                        struct firn_error *err);
FIRN_API void firn_feed_free(struct firn_feed *feed);

/* The first state of R(i,j), at the start of an epoch. */
FIRN_API enum firn_status firn_feed_seed(struct firn_feed *feed, int thread,
                                         int worker, const void *state,
                                         size_t n, struct firn_error *err);
/* Starts an epoch of `nbatches` for every thread, at batch `first`. */
FIRN_API void firn_feed_start(struct firn_feed *feed, uint64_t first,
                              uint64_t nbatches);

/* The next batch that a free worker should draw: threads take turns, a (i,j)
 * with a batch under way is passed over. `state` is borrowed until the commit
 * of this request. False: nothing to do now. */
struct firn_feed_request {
    int thread, worker;
    uint64_t batch;
    const void *state;
    size_t nstate;
};
FIRN_API bool firn_feed_next(struct firn_feed *feed,
                             struct firn_feed_request *out);
/* The batch is drawn; this is the state after it. FIRN_EINVAL for one that was
 * not asked for. */
FIRN_API enum firn_status firn_feed_commit(struct firn_feed *feed, int thread,
                                           uint64_t batch, const void *state,
                                           size_t n, struct firn_error *err);
/* Is this batch drawn and not consumed yet? */
FIRN_API bool firn_feed_ready(const struct firn_feed *feed, int thread,
                              uint64_t batch);
/* The thread has taken its next batch: the state before it is forgotten. */
FIRN_API enum firn_status firn_feed_consume(struct firn_feed *feed, int thread,
                                            uint64_t batch,
                                            struct firn_error *err);

/* What a checkpoint holds of one thread: its next batch and, for each worker,
 * the state from which its next unconsumed batch is drawn. And back, on any
 * pool: what was drawn ahead is forgotten. */
FIRN_API size_t firn_feed_saved_max(const struct firn_feed *feed);
FIRN_API size_t firn_feed_save(const struct firn_feed *feed, int thread,
                               void *bytes);
FIRN_API enum firn_status firn_feed_load(struct firn_feed *feed, int thread,
                                         const void *bytes, size_t n,
                                         struct firn_error *err);

FIRN_C_END

#endif
