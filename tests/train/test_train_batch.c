/* test_train_batch.c - a session whose batch is changed by order.
 *
 * Two threads over 48 samples, four samples each: six steps an epoch, three
 * epochs. Each sample's gradient is its number, so the weight shows which
 * samples were seen, how they were batched and at which learning rate.
 */
#include "lib/folder.h"
#include <firn/train.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 48, EPOCHS = 3, THREADS = 2, EACH = 4 };

struct run {
    const char *name;
    int stop_at; /* steps, then it is left as if ordered to stop; 0: never */
    const struct firn_decision *replay;
    size_t nreplay;
    /* results */
    float weight;
    uint64_t steps, epochs;
    int batch;
    double rate;
    struct firn_decision log[16];
    size_t nlog;
};

/* One thread's place in the data. */
struct place {
    uint64_t epoch, batch, size;
};

static float gradient(struct firn_train *t, struct firn_sampler sampler,
                      struct place *place, int thread)
{
    uint32_t order[SAMPLES], sample[SAMPLES];
    sampler.batch = firn_train_batch(t);
    if (place->size != (uint64_t)sampler.batch) {
        place->epoch += place->batch > 0;
        place->batch = 0;
        place->size = (uint64_t)sampler.batch;
    }
    if (place->batch >= firn_sampler_batches(&sampler)) {
        place->batch = 0;
        place->epoch++;
    }
    firn_sampler_shuffle(&sampler, place->epoch, order);
    size_t n =
        firn_sampler_batch(&sampler, order, thread, place->batch++, sample);
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (float)sample[i];
    return sum / (float)n;
}

static void go(struct run *run)
{
    const size_t start[] = {0, 1};
    const struct firn_sampler sampler = {.nsamples = SAMPLES,
                                         .seed = 7,
                                         .nthreads = THREADS,
                                         .batch = EACH,
                                         .shuffle = true,
                                         .drop_last = true};
    struct firn_train_config config = {.name = run->name,
                                       .nthreads = THREADS,
                                       .nlayers = 1,
                                       .layer_start = start,
                                       .nepochs = EPOCHS,
                                       .dir = folder_path(),
                                       .sampler = &sampler,
                                       .replay = run->replay,
                                       .nreplay = run->nreplay};
    struct firn_train *t = NULL;
    struct firn_error err = {0};
    struct place place = {0};
    float grad, mean = 0;
    run->weight = 1;
    if (firn_train_open(&t, &config, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(firn_threads_part(firn_train_threads(t), "place", &place,
                                       sizeof place, &err),
                     FIRN_OK);
    assert_int_equal(firn_train_shared(t, "w", FIRN_CKPT_F32, &run->weight,
                                       sizeof run->weight, &err),
                     FIRN_OK);
    assert_int_equal(firn_train_resume(t, NULL, &err), FIRN_OK);
    int steps = 0;
    while ((run->stop_at == 0 || steps < run->stop_at) && firn_train_go(t)) {
        for (int v; (v = firn_train_enter(t)) >= 0;) {
            grad = gradient(t, sampler, &place, v);
            firn_train_leave(t, &grad, 0);
        }
        firn_train_mean(t, &mean);
        run->weight -= 1e-3F * (float)firn_train_rate(t) * mean;
        steps++;
    }
    const struct firn_decision *log;
    run->steps = firn_train_step(t);
    run->epochs = firn_train_epoch(t);
    run->batch = firn_train_batch(t);
    run->rate = firn_train_rate(t);
    run->nlog = firn_freezer_log(firn_train_freezer(t), &log);
    memcpy(run->log, log, run->nlog * sizeof *log);
    if (firn_train_close(t, &err) != 0)
        fail_msg("%s", err.text);
}

static struct run run_in(const char *name)
{
    return (struct run){.name = name};
}

static void order(const char *batch, const char *rule)
{
    if (batch == NULL)
        unsetenv("FIRN_BATCH");
    else
        setenv("FIRN_BATCH", batch, 1);
    setenv("FIRN_BATCH_RULE", rule, 1);
}

/* 48 samples in steps of 8 are 6 steps; of 16, 3; of 17 over two threads as of
 * 16. */
static void an_ordered_batch_makes_other_steps_of_an_epoch(void **state)
{
    (void)state;
    struct run plain = run_in("plain"), twice = run_in("twice"),
               odd = run_in("odd"), all = run_in("all");
    order(NULL, "none");
    go(&plain);
    assert_true(plain.steps == 18 && plain.epochs == 3 && plain.batch == 4);
    assert_true(plain.nlog == 0 && plain.rate == 1);
    order("16", "linear");
    go(&twice);
    assert_true(twice.steps == 9 && twice.epochs == 3 && twice.batch == 8);
    assert_true(twice.rate == 2 && twice.nlog == 2);
    assert_int_equal(twice.log[0].kind, FIRN_DECIDED_BATCH);
    assert_int_equal(twice.log[0].value, 16);
    assert_int_equal(twice.log[1].kind, FIRN_DECIDED_RATE);
    assert_int_equal(twice.log[1].value, 2000000);
    order("17", "linear");
    go(&odd);
    assert_true(odd.steps == 9 && odd.weight == twice.weight);
    order("1000000", "sqrt"); /* a thread has 24 samples in an epoch */
    go(&all);
    assert_true(all.steps == 3 && all.batch == 24);
    assert_true(fabs(all.rate - sqrt(6)) < 1e-6);
}

/* Stopped in its first epoch, then ordered: the second epoch has the new batch.
 * Stopped again within that, it goes on with the batch, whatever is ordered
 * then, until the epoch is over. */
static void a_batch_changes_at_the_end_of_an_epoch_only(void **state)
{
    (void)state;
    struct run run = run_in("later");
    order(NULL, "linear");
    run.stop_at = 4;
    go(&run);
    order("16", "linear");
    run.stop_at = 1;
    go(&run);
    assert_true(run.steps == 5 && run.batch == 4 && run.nlog == 0);
    run.stop_at = 2;
    go(&run); /* the last step of the first epoch, the first of the second */
    assert_true(run.steps == 7 && run.batch == 8 && run.epochs == 1);
    assert_int_equal(run.log[0].step, 6);
    order("8", "linear");
    run.stop_at = 1;
    go(&run);
    assert_true(run.steps == 8 && run.batch == 8 && run.rate == 2);
    run.stop_at = 0;
    go(&run); /* one more step, then an epoch of six */
    assert_true(run.steps == 6 + 3 + 6 && run.epochs == 3 && run.batch == 4);
    assert_true(run.rate == 1);
}

static void the_same_orders_have_the_same_bits(void **state)
{
    (void)state;
    struct run run = run_in("ordered"), again = run_in("again");
    struct run whole = run_in("whole");
    order(NULL, "linear");
    run.stop_at = 6;
    go(&run);
    order("16", "linear");
    run.stop_at = 2;
    go(&run);
    run.stop_at = 0;
    go(&run);
    assert_int_equal(run.nlog, 2);
    order(NULL, "none"); /* the log has the learning rate */
    again.replay = run.log;
    again.nreplay = run.nlog;
    again.stop_at = 7;
    go(&again);
    again.stop_at = 0;
    go(&again);
    assert_true(again.weight == run.weight && again.steps == run.steps);
    order(NULL, "none");
    go(&whole);
    assert_true(whole.weight != run.weight);
}

static void a_wrong_rule_is_refused_with_its_words(void **state)
{
    (void)state;
    const size_t start[] = {0, 1};
    struct firn_train_config config = {
        .nlayers = 1, .layer_start = start, .steps_per_epoch = 1};
    struct firn_train *t = NULL;
    struct firn_error err = {0};
    order(NULL, "cubic");
    assert_int_equal(firn_train_open(&t, &config, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "FIRN_BATCH_RULE is 'cubic', not none, "
                                  "linear, sqrt or adascale");
    order(NULL, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_ordered_batch_makes_other_steps_of_an_epoch, folder_make,
            folder_remove),
        cmocka_unit_test_setup_teardown(
            a_batch_changes_at_the_end_of_an_epoch_only, folder_make,
            folder_remove),
        cmocka_unit_test_setup_teardown(the_same_orders_have_the_same_bits,
                                        folder_make, folder_remove),
        cmocka_unit_test(a_wrong_rule_is_refused_with_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
