/* test_feed.c - the same samples and the same draws, whatever the pool. */
#include "base/rng.h"
#include <firn/feed.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* --- the virtual sampler --- */

/* The rule of PyTorch's DistributedSampler, written as it is there: a list
 * that is padded with itself or cut, and every V-th of it. */
static size_t plain_samples(const struct firn_sampler *s, const uint32_t *order,
                            int rank, uint32_t *out)
{
    uint64_t v = (uint64_t)s->nthreads, n = s->nsamples;
    uint64_t each =
        s->drop_last && n % v != 0 ? (n - v + v - 1) / v : (n + v - 1) / v;
    uint64_t total = each * v, have = n;
    uint32_t *list = malloc((total + n) * sizeof *list);
    memcpy(list, order, n * sizeof *list);
    while (have < total) {
        uint64_t more = total - have < n ? total - have : n;
        memcpy(list + have, order, more * sizeof *list);
        have += more;
    }
    size_t count = 0;
    for (uint64_t i = (uint64_t)rank; i < total; i += v)
        out[count++] = list[i];
    free(list);
    return count;
}

/* All batches of a thread, one behind the other. */
static size_t samples(const struct firn_sampler *s, const uint32_t *order,
                      int thread, uint32_t *out)
{
    size_t n = 0;
    uint64_t batches = firn_sampler_batches(s);
    for (uint64_t b = 0; b < batches; b++) {
        size_t got = firn_sampler_batch(s, order, thread, b, out + n);
        assert_true(got == (size_t)s->batch ||
                    (b == batches - 1 && got > 0 && !s->drop_last));
        n += got;
    }
    assert_int_equal(firn_sampler_batch(s, order, thread, batches, out + n), 0);
    return n;
}

static void batches_are_those_of_a_distributed_sampler(void **state)
{
    (void)state;
    static const int sizes[][3] = {{100, 4, 8}, {101, 4, 8}, {103, 4, 7},
                                   {64, 8, 4},  {7, 3, 2},   {3, 8, 2},
                                   {1, 5, 3},   {17, 1, 5},  {60, 5, 12}};
    uint32_t order[200], plain[200], got[200];
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const int *size = sizes[i / 2];
        struct firn_sampler s = {.nsamples = (uint64_t)size[0],
                                 .seed = 5,
                                 .nthreads = size[1],
                                 .batch = size[2],
                                 .shuffle = true,
                                 .drop_last = i % 2 == 1};
        struct firn_error err;
        if (firn_sampler_check(&s, &err) != FIRN_OK) {
            assert_true(s.drop_last && size[0] < size[1] * size[2]);
            continue;
        }
        firn_sampler_shuffle(&s, 3, order);
        for (int v = 0; v < s.nthreads; v++) {
            size_t n = plain_samples(&s, order, v, plain);
            assert_int_equal(n, firn_sampler_places(&s));
            if (s.drop_last) /* as a DataLoader with drop_last does */
                n = n / (size_t)s.batch * (size_t)s.batch;
            assert_int_equal(samples(&s, order, v, got), n);
            assert_memory_equal(got, plain, n * sizeof *got);
        }
    }
}

static void an_epoch_has_every_sample_and_pads_from_its_start(void **state)
{
    (void)state;
    struct firn_sampler s = {.nsamples = 1003,
                             .seed = 1,
                             .nthreads = 8,
                             .batch = 10,
                             .shuffle = true};
    uint32_t order[1003], got[200];
    int seen[1003] = {0};
    firn_sampler_shuffle(&s, 0, order);
    for (int v = 0; v < s.nthreads; v++) {
        size_t n = samples(&s, order, v, got);
        assert_int_equal(n, 126);
        for (size_t i = 0; i < n; i++)
            seen[got[i]]++;
    }
    for (size_t i = 0; i < 1003; i++) /* 1008 places */
        assert_int_equal(seen[order[i]], i < 5 ? 2 : 1);
}

static void epochs_and_seeds_shuffle_differently_and_alike_again(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct firn_sampler s = {
        .nsamples = N, .seed = 1, .nthreads = 2, .batch = 5, .shuffle = true};
    uint32_t a[N], b[N], got[5];
    const uint64_t pairs[][2] = {{1, 2}, {1, 3}, {2, 1}, {0, 3}, {3, 0}};
    int place[N] = {0};
    firn_sampler_shuffle(&s, 2, a);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        s.seed = pairs[i][0];
        firn_sampler_shuffle(&s, pairs[i][1], b);
        int same = 0;
        for (size_t k = 0; k < N; k++)
            same += a[k] == b[k];
        assert_true(i == 0 ? same == N : same < 12);
    }
    for (size_t k = 0; k < N; k++)
        place[b[k]]++;
    for (size_t k = 0; k < N; k++)
        assert_int_equal(place[k], 1);
    s.shuffle = false;
    assert_int_equal(firn_sampler_batch(&s, NULL, 1, 3, got), 5);
    assert_int_equal(got[0], 31);
    assert_int_equal(got[4], 39);
    assert_int_equal(firn_sampler_batch(&s, NULL, 2, 3, got), 0);
    assert_int_equal(firn_sampler_batch(&s, NULL, -1, 3, got), 0);
}

static void by_process_the_samples_would_depend_on_the_processes(void **state)
{
    (void)state;
    /* The failing twin: ranks and world of the processes instead of V. */
    struct firn_sampler four = {.nsamples = 64, .nthreads = 4, .batch = 4};
    struct firn_sampler two = four;
    uint32_t a[4], b[4];
    two.nthreads = 2;
    firn_sampler_batch(&four, NULL, 1, 2, a);
    firn_sampler_batch(&two, NULL, 1, 2, b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void wrong_samplers_are_named(void **state)
{
    (void)state;
    struct firn_error err = {0};
    const struct firn_sampler bad[] = {
        {.nsamples = 0, .nthreads = 1, .batch = 1},
        {.nsamples = UINT64_C(1) << 32, .nthreads = 1, .batch = 1},
        {.nsamples = 9, .nthreads = 0, .batch = 1},
        {.nsamples = 9, .nthreads = 1, .batch = 0},
        {.nsamples = 9, .nthreads = 5, .batch = 2, .drop_last = true}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.text[0] = '\0';
        assert_int_equal(firn_sampler_check(&bad[i], &err), FIRN_EINVAL);
        assert_true(err.text[0] != '\0');
    }
    struct firn_sampler good = bad[4];
    good.nsamples = 10;
    assert_int_equal(firn_sampler_check(&good, &err), FIRN_OK);
}

/* --- the state queue --- */

enum { V = 4, W = 2, BATCHES = 24, POOL = 8 };
static const int threads[V] = {0, 1, 2, 3};
typedef uint64_t streams[V][BATCHES];

static void seed_state(struct rng *r, int thread, int worker)
{
    rng_seed(r, (uint64_t)thread * 1000 + (uint64_t)worker);
}

/* Loads a batch: an augmentation that draws more or less often, so that the
 * state after it tells all draws before. */
static uint64_t load(struct rng *r, int thread, uint64_t batch)
{
    uint64_t sum = batch * 31 + (uint64_t)thread;
    for (uint64_t n = 1 + rng_below(r, 5); n > 0; n--)
        sum = sum * 6364136223846793005u + rng_u64(r);
    return sum;
}

/* What a DataLoader of W workers for each of V processes gives. */
static void stock(streams out)
{
    for (int i = 0; i < V; i++) {
        struct rng r[W];
        for (int j = 0; j < W; j++)
            seed_state(&r[j], i, j);
        for (uint64_t k = 0; k < BATCHES; k++)
            out[i][k] = load(&r[k % W], i, k);
    }
}

static struct firn_feed *new_feed(int prefetch)
{
    struct firn_feed *f = NULL;
    struct firn_error err = {0};
    struct firn_feed_config c = {.threads = threads,
                                 .nthreads = V,
                                 .nworkers = W,
                                 .state_max = sizeof(struct rng),
                                 .prefetch = prefetch};
    assert_int_equal(firn_feed_new(&f, &c, &err), FIRN_OK);
    return f;
}

static void seed_all(struct firn_feed *f)
{
    struct firn_error err = {0};
    struct rng r;
    for (int i = 0; i < V; i++)
        for (int j = 0; j < W; j++) {
            seed_state(&r, i, j);
            assert_int_equal(firn_feed_seed(f, i, j, &r, sizeof r, &err),
                             FIRN_OK);
        }
}

/* A pool of real workers that are done in a random order. */
struct pool {
    struct firn_feed *feed;
    struct rng luck;
    int n;
    struct firn_feed_request busy[POOL];
    int nbusy;
    bool keeps_states;      /* the twin: a state for each real worker */
    struct rng state[POOL]; /* of those */
    streams drawn;
    int ndrawn;
};

static void work(struct pool *p)
{
    struct firn_error err = {0};
    while (p->nbusy < p->n && firn_feed_next(p->feed, &p->busy[p->nbusy]))
        p->nbusy++;
    if (p->nbusy == 0)
        return;
    int who = (int)rng_below(&p->luck, (uint64_t)p->nbusy);
    struct firn_feed_request r = p->busy[who];
    struct rng state;
    assert_int_equal(r.nstate, sizeof state);
    memcpy(&state, r.state, sizeof state);
    p->drawn[r.thread][r.batch] =
        load(p->keeps_states ? &p->state[who] : &state, r.thread, r.batch);
    p->ndrawn++;
    assert_false(firn_feed_ready(p->feed, r.thread, r.batch));
    assert_int_equal(firn_feed_commit(p->feed, r.thread, r.batch, &state,
                                      sizeof state, &err),
                     FIRN_OK);
    assert_true(firn_feed_ready(p->feed, r.thread, r.batch));
    p->busy[who] = p->busy[--p->nbusy];
}

/* Consumes batches up to `to` of every thread in turns, as training does; the
 * streams consumed are in `out`. How many were drawn and not consumed. */
static int consume(struct pool *p, uint64_t from, uint64_t to, streams out)
{
    struct firn_error err = {0};
    int consumed = 0;
    p->ndrawn = p->nbusy = 0;
    for (uint64_t k = from; k < to; k++)
        for (int i = 0; i < V; i++) {
            for (uint64_t n = rng_below(&p->luck, 4); n > 0; n--)
                work(p);
            while (!firn_feed_ready(p->feed, i, k))
                work(p);
            out[i][k] = p->drawn[i][k];
            assert_int_equal(firn_feed_consume(p->feed, i, k, &err), FIRN_OK);
            consumed++;
        }
    return p->ndrawn + p->nbusy - consumed;
}

static void init_pool(struct pool *p, struct firn_feed *feed, int n,
                      uint64_t luck)
{
    *p = (struct pool){.feed = feed, .n = n};
    rng_seed(&p->luck, luck);
    for (int i = 0; i < POOL; i++)
        rng_seed(&p->state[i], (uint64_t)i);
}

static const int pools[] = {1, 2, 3, 8};
static struct pool pool;

static void any_pool_gives_the_stock_streams(void **state)
{
    (void)state;
    streams want, got;
    stock(want);
    for (uint64_t luck = 0; luck < 40; luck++) {
        struct firn_feed *f = new_feed(luck % 3 == 0 ? 0 : (int)(luck % 7) + 1);
        seed_all(f);
        firn_feed_start(f, 0, BATCHES);
        init_pool(&pool, f, pools[luck % 4], luck);
        int ahead = consume(&pool, 0, BATCHES, got);
        assert_int_equal(ahead, 0);
        if (memcmp(want, got, sizeof want) != 0)
            fail_msg("luck %d", (int)luck);
        firn_feed_free(f);
    }
}

static void states_kept_by_real_workers_would_change_the_stream(void **state)
{
    (void)state;
    streams got[4], want;
    stock(want);
    for (int i = 0; i < 4; i++) {
        struct firn_feed *f = new_feed(0);
        seed_all(f);
        firn_feed_start(f, 0, BATCHES);
        init_pool(&pool, f, pools[i], 7);
        pool.keeps_states = true;
        consume(&pool, 0, BATCHES, got[i]);
        assert_memory_not_equal(want, got[i], sizeof want);
        if (i > 0)
            assert_memory_not_equal(got[i - 1], got[i], sizeof want);
        firn_feed_free(f);
    }
}

static void a_stop_drops_what_was_drawn_ahead_and_draws_it_again(void **state)
{
    (void)state;
    streams want, got;
    int dropped = 0;
    stock(want);
    for (uint64_t luck = 0; luck < 24; luck++) {
        uint8_t saved[V][200];
        size_t n[V];
        struct firn_error err = {0};
        struct firn_feed *f = new_feed(0);
        seed_all(f);
        firn_feed_start(f, 0, BATCHES);
        init_pool(&pool, f, pools[luck % 4], luck);
        dropped += consume(&pool, 0, 5, got);
        assert_true(firn_feed_saved_max(f) <= sizeof saved[0]);
        for (int i = 0; i < V; i++)
            n[i] = firn_feed_save(f, i, saved[i]);
        firn_feed_free(f);
        f = new_feed(luck % 2 == 0 ? 0 : 3);
        if (luck % 3 != 0) /* either order */
            firn_feed_start(f, 5, BATCHES);
        for (int i = 0; i < V; i++)
            assert_int_equal(firn_feed_load(f, i, saved[i], n[i], &err),
                             FIRN_OK);
        if (luck % 3 == 0)
            firn_feed_start(f, 5, BATCHES);
        init_pool(&pool, f, pools[(luck / 4 + 1) % 4], luck + 1);
        consume(&pool, 5, BATCHES, got);
        if (memcmp(want, got, sizeof want) != 0)
            fail_msg("luck %d", (int)luck);
        firn_feed_free(f);
    }
    assert_true(dropped > 100); /* or nothing was shown */
}

static void a_restart_in_place_draws_again_what_was_ahead(void **state)
{
    (void)state;
    streams want, got;
    stock(want);
    struct firn_feed *f = new_feed(0);
    seed_all(f);
    firn_feed_start(f, 0, BATCHES);
    init_pool(&pool, f, 3, 11);
    assert_true(consume(&pool, 0, 7, got) > 0);
    firn_feed_start(f, 7, BATCHES);
    consume(&pool, 7, BATCHES, got);
    assert_memory_equal(want, got, sizeof want);
    firn_feed_free(f);
}

static void threads_take_turns_and_busy_workers_are_passed_over(void **state)
{
    (void)state;
    struct firn_feed *f = new_feed(3);
    struct firn_feed_request r;
    struct firn_error err = {0};
    firn_feed_start(f, 0, BATCHES);
    for (int i = 0; i < V * W; i++) {
        assert_true(firn_feed_next(f, &r));
        assert_int_equal(r.thread, i % V);
        assert_int_equal(r.batch, i / V);
        assert_int_equal(r.worker, i / V);
    }
    assert_false(firn_feed_next(f, &r)); /* every (i,j) has one under way */
    assert_int_equal(firn_feed_commit(f, 2, 1, "s", 1, &err), FIRN_OK);
    assert_false(firn_feed_next(f, &r)); /* batch 3 is too far ahead */
    assert_int_equal(firn_feed_commit(f, 2, 0, "t", 1, &err), FIRN_OK);
    assert_true(firn_feed_next(f, &r));
    assert_true(r.thread == 2 && r.batch == 2 && r.worker == 0);
    assert_true(r.nstate == 1 && *(const char *)r.state == 't');
    assert_int_equal(firn_feed_consume(f, 2, 0, &err), FIRN_OK);
    assert_true(firn_feed_next(f, &r));
    assert_true(r.thread == 2 && r.batch == 3 && r.worker == 1);
    assert_true(*(const char *)r.state == 's');
    firn_feed_free(f);
    f = new_feed(0); /* nothing beyond the end of an epoch */
    firn_feed_start(f, 3, 3);
    assert_false(firn_feed_next(f, &r));
    firn_feed_free(f);
}

static void a_batch_that_was_not_requested_is_refused(void **state)
{
    (void)state;
    struct firn_feed *f = new_feed(0);
    struct firn_feed_request r;
    struct firn_error err = {0};
    char big[sizeof(struct rng) + 1] = {0};
    firn_feed_start(f, 0, BATCHES);
    assert_int_equal(firn_feed_commit(f, 0, 0, big, 1, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "batch 0 of thread 0 was not requested"));
    assert_int_equal(firn_feed_consume(f, 0, 0, &err), FIRN_EINVAL);
    assert_true(firn_feed_next(f, &r));
    assert_int_equal(firn_feed_commit(f, 0, 0, big, sizeof big, &err),
                     FIRN_EINVAL);
    assert_int_equal(firn_feed_commit(f, 0, 0, big, 1, &err), FIRN_OK);
    assert_int_equal(firn_feed_commit(f, 0, 0, big, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_feed_commit(f, 9, 0, big, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_feed_consume(f, 0, 1, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "next batch of thread 0 is 0, not 1"));
    assert_int_equal(firn_feed_consume(f, 0, 0, &err), FIRN_OK);
    assert_int_equal(firn_feed_consume(f, 0, 0, &err), FIRN_EINVAL);
    assert_int_equal(firn_feed_seed(f, 0, W, big, 1, &err), FIRN_EINVAL);
    assert_int_equal(firn_feed_seed(f, 0, 0, big, sizeof big, &err),
                     FIRN_EINVAL);
    firn_feed_free(f);
}

static void damaged_saved_states_change_nothing(void **state)
{
    (void)state;
    struct firn_feed *f = new_feed(0), *other = NULL;
    struct firn_error err = {0};
    uint8_t saved[200], now[200];
    seed_all(f);
    firn_feed_start(f, 0, BATCHES);
    size_t n = firn_feed_save(f, 1, saved);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = malloc(cut + 1);
        memcpy(part, saved, cut);
        assert_int_equal(firn_feed_load(f, 2, part, cut, &err), FIRN_EINVAL);
        free(part);
    }
    saved[16 + 7] = 0xff; /* the length of a state */
    assert_int_equal(firn_feed_load(f, 1, saved, n, &err), FIRN_EINVAL);
    saved[16 + 7] = 0;
    assert_int_equal(firn_feed_save(f, 1, now), n);
    assert_memory_equal(saved, now, n);
    struct firn_feed_config c = {
        .threads = threads, .nthreads = V, .nworkers = 3, .state_max = 32};
    assert_int_equal(firn_feed_new(&other, &c, &err), FIRN_OK);
    assert_int_equal(firn_feed_load(other, 1, saved, n, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "saved with 2 virtual workers, not 3"));
    firn_feed_free(other);
    firn_feed_free(f);
    c.nworkers = 0;
    assert_int_equal(firn_feed_new(&other, &c, &err), FIRN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_a_distributed_sampler),
        cmocka_unit_test(an_epoch_has_every_sample_and_pads_from_its_start),
        cmocka_unit_test(epochs_and_seeds_shuffle_differently_and_alike_again),
        cmocka_unit_test(by_process_the_samples_would_depend_on_the_processes),
        cmocka_unit_test(wrong_samplers_are_named),
        cmocka_unit_test(any_pool_gives_the_stock_streams),
        cmocka_unit_test(states_kept_by_real_workers_would_change_the_stream),
        cmocka_unit_test(a_stop_drops_what_was_drawn_ahead_and_draws_it_again),
        cmocka_unit_test(a_restart_in_place_draws_again_what_was_ahead),
        cmocka_unit_test(threads_take_turns_and_busy_workers_are_passed_over),
        cmocka_unit_test(a_batch_that_was_not_requested_is_refused),
        cmocka_unit_test(damaged_saved_states_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
