/* test_measured_variance.c - psi of the H200 profiles is what the table gives.
 *
 * The statistics profiles made from profiles/h200/freeze_variance.csv equal the
 * shipped files (FIRN_WRITE_PROFILES=1 writes them), and psi by equation (3)
 * from a profile equals psi summed here from the table's own rows. The medians
 * of a small table are worked by hand.
 */
#include "base/buf.h"
#include "core/known.h"
#include "lib/play.h"
#include "model/measured.h"
#include <firn/cluster.h>
#include <firn/freeze.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE "profiles/h200/freeze_variance.csv"

static const char *const tasks[] = {"resnet18", "resnet50", "bert", "bert-tune",
                                    "gpt"};

static struct firn_profile make(const char *task, const char *path)
{
    struct firn_profile p;
    struct firn_error err = {0};
    if (measured_variance(&p, task, path, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return p;
}

/* psi of (3) with `frozen` layers, from a stage of a profile. */
static double psi(const struct firn_profile *p, size_t stage, size_t frozen)
{
    const struct firn_profile_stats *s = &p->stats;
    double *storage = calloc(FIRN_FREEZE_DOUBLES(s->nlayers), sizeof *storage);
    struct firn_freeze f;
    struct firn_error err = {0};
    firn_freeze_init(&f, storage, s->nlayers);
    if (firn_freeze_observe(&f, s->layer_var + stage * s->nlayers, s->nlayers,
                            &err) != FIRN_OK)
        fail_msg("%s", err.text);
    double value = firn_freeze_penalty(&f, frozen);
    free(storage);
    return value;
}

/* Two layers, two seeds, one probe a tenth; batch 16 in micro-batches of 2.
 * First tenth: layer 1 has 8 and 16, median 12; layer 2 has 40 and 32, median
 * 36. Times 2/16: 1.5 and 4.5. psi(1) = 4.5 / 6 = 0.75. |g|^2: -1 and 5, 2. */
static void medians_of_a_stage_give_psi_as_worked_by_hand(void **state)
{
    (void)state;
    struct firn_buf text = {0};
    buf_puts(&text, "task,session,seed,step,length,batch,micro,layers,grad_sq,"
                    "variance,by_layer\n");
    for (int i = 1; i <= 10; i++) {
        buf_printf(&text, "gpt,1,1,%d,100,16,2,2,-1,48,8 40\n", 10 * i);
        buf_printf(&text, "gpt,1,2,%d,100,16,2,2,5,48,16 32\n", 10 * i);
    }
    const char *path = "build/test_measured_variance.csv";
    play_write(path, text.at);
    struct firn_profile p = make("gpt", path);
    assert_int_equal(p.stats.nstages, 10);
    assert_float_equal(p.stats.end[0], 10, 1e-9);
    assert_float_equal(p.stats.layer_var[0], 1.5, 1e-9);
    assert_float_equal(p.stats.layer_var[1], 4.5, 1e-9);
    assert_float_equal(p.stats.grad_sqr[0], 2, 1e-9);
    assert_float_equal(p.stats.grad_var[9], 6, 1e-9);
    assert_float_equal(psi(&p, 0, 1), 0.75, 1e-12);
    firn_profile_release(&p);
    buf_release(&text);
    remove(path);
}

static void
each_shipped_statistics_profile_is_what_the_table_gives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        struct firn_profile p = make(tasks[i], TABLE);
        struct firn_buf text = {0};
        char path[256];
        firn_profile_write(&p, &text);
        snprintf(path, sizeof path, "profiles/h200/%s.txt", p.app);
        if (getenv("FIRN_WRITE_PROFILES") != NULL) {
            play_write(path, text.at);
        } else {
            struct firn_buf was = play_read(path);
            if (strcmp(was.at, text.at) != 0)
                fail_msg("%s is not what the table gives", path);
            buf_release(&was);
        }
        buf_release(&text);
        firn_profile_release(&p);
    }
}

/* The profile that trains, e.g. resnet18-c, has 41 layers as the table has; so
 * its psi at 25, 50 and 75 % of the layers is the table's, in every stage. */
static void psi_of_the_h200_profiles_is_that_of_the_table(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"h200/resnet18-c", "resnet18"},
                                           {"h200/resnet50-c", "resnet50"}};
    struct firn_cluster cluster = {0};
    struct known known;
    struct firn_error err = {0};
    if (known_open(&known, "builtin", &cluster, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < 2; i++) {
        const struct firn_profile *p =
            firn_profiles_find(&known.profiles, pairs[i][0], NULL, &err);
        struct firn_profile q = make(pairs[i][1], TABLE);
        assert_non_null(p);
        assert_int_equal(p->stats.nlayers, q.stats.nlayers);
        for (size_t k = 0; k < p->stats.nstages; k++)
            for (size_t quarter = 1; quarter <= 3; quarter++) {
                size_t frozen = q.stats.nlayers * quarter / 4;
                double all = p->stats.end[p->stats.nstages - 1];
                double middle =
                    0.5 *
                    ((k > 0 ? p->stats.end[k - 1] : 0) + p->stats.end[k]) / all;
                size_t stage = firn_profile_stage(&q, middle * q.progress);
                assert_float_equal(psi(p, k, frozen), psi(&q, stage, frozen),
                                   1e-3);
            }
        firn_profile_release(&q);
    }
    known_close(&known);
}

static void a_table_without_the_training_is_refused(void **state)
{
    (void)state;
    struct firn_profile p;
    struct firn_error err = {0};
    assert_int_equal(measured_variance(&p, "vgg19", TABLE, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "vgg19"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_of_a_stage_give_psi_as_worked_by_hand),
        cmocka_unit_test(
            each_shipped_statistics_profile_is_what_the_table_gives),
        cmocka_unit_test(psi_of_the_h200_profiles_is_that_of_the_table),
        cmocka_unit_test(a_table_without_the_training_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
