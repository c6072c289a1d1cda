/* test_liveforecast.c - what the live scheduler expects of jobs: by profile,
 * by what other jobs of the application reported, by their own reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "daemon/liveforecast.h"
#include <firn/profile.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct scene {
    struct firn_cluster cluster;
    struct liveforecast *f;
};

static void open_scene(struct scene *s, const char *spec)
{
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_parse_spec(&s->cluster, spec, &err), FIRN_OK);
    s->f = liveforecast_new(&s->cluster);
}

static void close_scene(struct scene *s)
{
    liveforecast_free(s->f);
    firn_cluster_release(&s->cluster);
}

static struct firn_job job_of(const char *app, int gpus)
{
    return (struct firn_job){.spec = {.name = "j",
                                      .app = app,
                                      .group = "",
                                      .types = "",
                                      .gpus = gpus,
                                      .gpus_min = 1,
                                      .gpus_max = 4,
                                      .duration_s = 1000},
                             .type_mask = 1};
}

static double rate(const struct scene *s, firn_job_id id,
                   const struct firn_job *job, int gpus)
{
    struct firn_way way = {.gpus = gpus};
    return liveforecast_rate(s->f, id, job, &way);
}

/* Alone on the first `gpus` of node 0, at that rate. */
static void saw(struct scene *s, firn_job_id id, struct firn_job *job,
                const struct liveforecast_run *how, int gpus)
{
    struct firn_part part = {0, 0, ((uint64_t)1 << gpus) - 1};
    struct liveforecast_run run = *how;
    job->held = (struct firn_alloc){.parts = &part,
                                    .nparts = 1,
                                    .ngpus = gpus,
                                    .how = FIRN_HOW_AS_SUBMITTED};
    run.job = job;
    run.beside = how->beside != NULL ? how->beside : "";
    liveforecast_saw(s->f, id, &run);
    job->held = (struct firn_alloc)FIRN_ALLOC_NONE;
}

static void
rates_of_an_application_with_a_profile_follow_the_profile(void **unused)
{
    (void)unused;
    struct scene s;
    struct firn_error err = {0};
    struct firn_profiles profiles;
    open_scene(&s, "1x4:t4@16");
    struct firn_job job = job_of("cifar10", 1), other = job_of("unheard", 1);
    assert_int_equal(firn_profiles_builtin(&profiles, &err), FIRN_OK);
    const struct firn_profile *p =
        firn_profiles_find(&profiles, "pollux/cifar10", "t4", &err);
    const struct firn_itertime *time = &firn_profile_gpu(p, "t4")->time;
    struct firn_shape one = {1, 1, 0, 128, 1, 1, 1};
    struct firn_shape four = {1, 4, 0, 32, 1, 1, 1};
    double want = firn_itertime_iteration(time, &one) /
                  firn_itertime_iteration(time, &four);
    assert_true(fabs(rate(&s, 1, &job, 1) - 1) < 1e-12);
    assert_true(fabs(rate(&s, 1, &job, 4) / want - 1) < 0.02);
    assert_true(fabs(rate(&s, 2, &other, 4) - 1.8 * 1.8) < 1e-9);
    assert_true(fabs(want - 1.8 * 1.8) > 0.3); /* they do differ */
    firn_profiles_release(&profiles);
    close_scene(&s);
}

static void memory_utilisation_and_slowdown_come_from_the_profile(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:h200@141");
    struct firn_job job = job_of("bert-base", 1), other = job_of("unheard", 1);
    job.spec.batch = 32;
    struct firn_way way = {.gpus = 1};
    struct firn_load load = liveforecast_load(s.f, 1, &job, &way);
    assert_true(fabs(load.mem_gib - (913.087 + 32 * 120.93) / 1024) < 0.01);
    assert_true(load.util > 0.8 && load.util <= 1);
    load = liveforecast_load(s.f, 2, &other, &way);
    assert_true(isnan(load.mem_gib) && isnan(load.util));
    struct firn_job vgg = job_of("vgg19-c", 1);
    struct liveforecast_job a = {1, &job}, b = {3, &vgg}, c = {2, &other};
    assert_true(fabs(liveforecast_slowdown(s.f, a, b) - 2.01) < 1e-9);
    assert_true(fabs(liveforecast_slowdown(s.f, a, c) - 1.5) < 1e-9);
    /* With 62 layers frozen it needs less, and is expected to go as it says. */
    struct liveforecast_run run = {
        .rate = 1.4, .step_s = 0.05, .batch = 32, .passes = 1, .nfrozen = 62};
    double whole = liveforecast_load(s.f, 1, &job, &way).mem_gib;
    saw(&s, 1, &job, &run, 1);
    assert_true(liveforecast_load(s.f, 1, &job, &way).mem_gib < whole - 0.05);
    assert_true(fabs(rate(&s, 1, &job, 1) - 1.4) < 1e-9);
    close_scene(&s);
}

/* Rows of profiles/bsbf: bert with 12 samples a pass beside cifar10 with 128
 * goes 1.387 times slower, with 3 (four passes) 1.788 times; the pair as such
 * 1.656 times. Live jobs are slowed twice as much as that: the rows double. */
static void slowdowns_by_sub_batch_count_live_too(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:2080ti@11");
    struct firn_job bert = job_of("bert", 1), cifar = job_of("cifar10", 1);
    struct liveforecast_job a = {1, &bert}, b = {2, &cifar};
    struct firn_way whole = {.gpus = 1}, four = whole;
    four.passes = 4;
    bert.spec.batch = 12;
    cifar.spec.batch = 128;
    assert_true(fabs(liveforecast_slowdown_in(s.f, a, &whole, b, &whole) -
                     1.387) < 1e-9);
    assert_true(fabs(liveforecast_slowdown_in(s.f, a, &four, b, &whole) -
                     1.788) < 1e-9);
    struct liveforecast_run alone = {.rate = 1};
    struct liveforecast_run beside = {
        .rate = 1 / (2 * 1.656), .sharers = 1, .beside = "cifar10"};
    saw(&s, 1, &bert, &alone, 1);
    for (int i = 0; i < 30; i++)
        saw(&s, 1, &bert, &beside, 1);
    double seen = liveforecast_slowdown(s.f, a, b) / 1.656;
    assert_true(seen > 1.7 && seen <= 2);
    assert_true(fabs(liveforecast_slowdown_in(s.f, a, &four, b, &whole) /
                         (1.788 * seen) -
                     1) < 1e-9);
    liveforecast_part(s.f, a, b);
    assert_true(liveforecast_slowdown_in(s.f, a, &four, b, &whole) ==
                FORECASTER_BAD);
    close_scene(&s);
}

static void step_times_of_a_job_teach_the_next_of_its_application(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job first = job_of("mine", 1), next = job_of("mine", 1);
    double plain = rate(&s, 9, &next, 4);
    /* Steps of 64 samples: 1 s on one GPU, 0.9 s on two, 0.85 s on four. */
    static const double steps[] = {1, 0.9, 0, 0.85};
    for (int round = 0; round < 5; round++)
        for (int gpus = 1; gpus <= 4; gpus++) {
            struct liveforecast_run run = {.rate = 1 / steps[gpus - 1],
                                           .step_s = steps[gpus - 1],
                                           .batch = 64,
                                           .passes = 1};
            if (gpus != 3)
                saw(&s, 1, &first, &run, gpus);
            if (round == 0 && gpus == 1) /* one shape says nothing */
                assert_true(rate(&s, 9, &next, 4) == plain);
        }
    next.spec.batch = 64;
    double learned = rate(&s, 9, &next, 4);
    assert_true(fabs(learned - 1 / 0.85) < 0.15);
    assert_true(plain > 3);
    assert_true(fabs(rate(&s, 1, &first, 4) - 1 / 0.85) < 0.02);
    close_scene(&s);
}

static void observed_slowdowns_correct_that_of_the_pair(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("left", 1), b = job_of("right", 1);
    struct liveforecast_job one = {1, &a}, two = {2, &b};
    struct liveforecast_run alone = {.rate = 1};
    struct liveforecast_run beside = {
        .rate = 1 / 2.2, .sharers = 1, .beside = "right"};
    saw(&s, 1, &a, &beside,
        1); /* never seen alone: no slowdown can be worked out */
    assert_true(liveforecast_slowdown(s.f, one, two) == 1.5);
    assert_false(liveforecast_is_seen(s.f, 1));
    saw(&s, 1, &a, &alone, 1);
    assert_true(liveforecast_is_seen(s.f, 1));
    double before = liveforecast_slowdown(s.f, one, two);
    for (int i = 0; i < 10; i++)
        saw(&s, 1, &a, &beside, 1);
    assert_true(before < 1.6);
    assert_true(fabs(liveforecast_slowdown(s.f, one, two) - 2.2) < 0.15);
    assert_true(fabs(rate(&s, 1, &a, 1) - 1) < 1e-9); /* alone, as before */
    liveforecast_part(s.f, one, two);
    assert_true(liveforecast_slowdown(s.f, two, one) == FORECASTER_BAD);
    struct firn_buf text = {0};
    liveforecast_save(s.f, &text);
    assert_string_equal(text.at, "left\tright\n");
    close_scene(&s);
    open_scene(&s, "1x4:v100@16");
    liveforecast_load_pairs(s.f, text.at);
    assert_true(liveforecast_slowdown(s.f, one, two) == FORECASTER_BAD);
    liveforecast_load_pairs(s.f, "no tab\n\t\nx"); /* passed over */
    buf_release(&text);
    close_scene(&s);
}

/* Ten observations of 2.2 beside a prior of 1.5 with the weight of one: the
 * same number before and after, and none for the pair the other way round. */
static void measured_slowdowns_are_kept_over_a_restart(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("left", 1), b = job_of("right", 1);
    struct liveforecast_job one = {1, &a}, two = {2, &b};
    struct liveforecast_run alone = {.rate = 1};
    struct liveforecast_run beside = {
        .rate = 1 / 2.2, .sharers = 1, .beside = "right"};
    saw(&s, 1, &a, &alone, 1);
    for (int i = 0; i < 10; i++)
        saw(&s, 1, &a, &beside, 1);
    double before = liveforecast_slowdown(s.f, one, two);
    struct firn_buf text = {0};
    liveforecast_save_slowdowns(s.f, &text);
    assert_string_equal(text.at, "left\tright\t2.2\t10\n");
    close_scene(&s);
    open_scene(&s, "1x4:v100@16");
    assert_true(liveforecast_slowdown(s.f, one, two) == 1.5);
    liveforecast_load_slowdowns(
        s.f, "no tabs\n\t\t\t\nleft\tright\t0.5\t1\nleft\tright\t2\t-1\n"
             "left\tright\tnan\t1\nleft\tright\t2\t1e99\na\tb\t2\t1\t5");
    assert_true(liveforecast_slowdown(s.f, one, two) == 1.5); /* passed over */
    liveforecast_load_slowdowns(s.f, text.at);
    assert_true(fabs(liveforecast_slowdown(s.f, one, two) - before) < 1e-6);
    assert_false(liveforecast_slowdown_is_guess(s.f, one, two));
    buf_release(&text);
    close_scene(&s);
}

/* The first report alone may still be of the time before. */
static void a_job_that_is_alone_later_shows_what_its_pair_cost(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("left", 1), b = job_of("right", 1);
    struct liveforecast_job one = {1, &a}, two = {2, &b}, three = {3, &a};
    struct liveforecast_run alone = {.rate = 1};
    struct liveforecast_run beside = {
        .rate = 1 / 2.2, .sharers = 1, .beside = "right"};
    saw(&s, 1, &a, &beside, 1);
    saw(&s, 1, &a, &beside, 1);
    saw(&s, 1, &a, &alone, 1);
    assert_true(liveforecast_slowdown(s.f, three, two) == 1.5);
    saw(&s, 1, &a, &alone, 1);
    double learned = liveforecast_slowdown(s.f, three, two);
    assert_true(learned > 1.8 && learned <= 2.2);
    saw(&s, 1, &a, &alone, 1); /* once */
    assert_true(liveforecast_slowdown(s.f, one, two) == learned);

    /* On other GPUs alone than beside it tells nothing. */
    struct firn_job c = job_of("third", 2);
    struct liveforecast_job four = {4, &c};
    beside.beside = "fourth";
    struct firn_job d = job_of("fourth", 1);
    struct liveforecast_job five = {5, &d};
    saw(&s, 4, &c, &beside, 1);
    double before = liveforecast_slowdown(s.f, four, five);
    for (int i = 0; i < 4; i++)
        saw(&s, 4, &c, &alone, 2);
    assert_true(liveforecast_slowdown(s.f, four, five) == before);
    close_scene(&s);
}

static void steps_of_other_jobs_alone_show_what_a_pair_costs(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("left", 1), b = job_of("right", 1);
    struct liveforecast_job one = {1, &a}, two = {2, &b};
    struct liveforecast_run alone = {
        .rate = 1, .step_s = 0.1, .batch = 32, .passes = 1};
    struct liveforecast_run beside = {.rate = 1,
                                      .step_s = 0.25,
                                      .batch = 32,
                                      .passes = 1,
                                      .sharers = 1,
                                      .beside = "right"};
    saw(&s, 2, &a, &beside, 1);
    assert_true(liveforecast_slowdown(s.f, one, two) == 1.5);
    saw(&s, 1, &a, &alone, 1);
    beside.batch = 64; /* a step of another shape */
    saw(&s, 3, &a, &beside, 1);
    assert_true(liveforecast_slowdown(s.f, one, two) == 1.5);
    beside.batch = 32;
    for (int i = 0; i < 10; i++)
        saw(&s, 4, &a, &beside, 1);
    assert_true(fabs(liveforecast_slowdown(s.f, one, two) - 2.5) < 0.15);
    close_scene(&s);
}

/* A GPU of the job, alone on node 0, is used so. */
static void sample(struct scene *s, firn_job_id id, struct firn_job *job,
                   struct firn_load load)
{
    struct firn_part part = {0, 0, 1};
    job->held = (struct firn_alloc){
        .parts = &part, .nparts = 1, .ngpus = 1, .how = FIRN_HOW_AS_SUBMITTED};
    liveforecast_sampled(s->f, id, job, &load);
    job->held = (struct firn_alloc)FIRN_ALLOC_NONE;
}

static void
measured_utilisation_counts_for_jobs_of_the_application(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:t4@16,1x4:v100@16");
    struct firn_job a = job_of("seen", 1), b = job_of("unseen", 1);
    struct firn_way fast = {.gpus = 1, .type = 1};
    sample(&s, 1, &a, (struct firn_load){.util = 0.9, .mem_gib = 1});
    assert_true(isnan(liveforecast_load(s.f, 1, &a, NULL).util));
    sample(&s, 1, &a, (struct firn_load){.util = 0.3, .mem_gib = 5});
    struct firn_load load = liveforecast_load(s.f, 1, &a, NULL);
    assert_true(fabs(load.util - 0.6) < 1e-12 && load.mem_gib == 5);
    sample(&s, 1, &a, (struct firn_load){.util = 0.3, .mem_gib = 4});
    load = liveforecast_load(s.f, 2, &a, NULL); /* another of it */
    assert_true(load.util > 0.3 && load.util < 0.6 && load.mem_gib == 5);
    assert_true(isnan(liveforecast_load(s.f, 2, &a, &fast).util));
    assert_true(isnan(liveforecast_load(s.f, 3, &b, NULL).util));
    b.spec.app = "";
    sample(&s, 4, &b, (struct firn_load){.util = 0.3, .mem_gib = 4});
    sample(&s, 4, &b, (struct firn_load){.util = 0.3, .mem_gib = 4});
    assert_true(liveforecast_load(s.f, 4, &b, NULL).util == 0.3);
    assert_true(isnan(liveforecast_load(s.f, 5, &b, NULL).util));

    a.spec.mem_gib = 7; /* what its user declares goes first */
    liveforecast_load_seen(s.f, 1, -1, 0.8);
    load = liveforecast_load(s.f, 1, &a, NULL);
    assert_true(load.util == 0.8 && load.mem_gib == 7);
    close_scene(&s);
}

static void
a_bad_pair_without_applications_is_of_these_two_jobs_only(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("", 1);
    struct liveforecast_job one = {1, &a}, two = {2, &a}, three = {3, &a};
    liveforecast_part(s.f, one, two);
    assert_true(liveforecast_slowdown(s.f, two, one) == FORECASTER_BAD);
    assert_true(liveforecast_slowdown(s.f, one, three) == 1.5);
    close_scene(&s);
}

static void
gpus_that_made_a_job_slower_three_times_are_not_offered(void **unused)
{
    (void)unused;
    struct scene s;
    open_scene(&s, "1x4:v100@16");
    struct firn_job a = job_of("x", 1);
    struct liveforecast_run fast = {.rate = 1}, slow = {.rate = 0.7};
    saw(&s, 1, &a, &fast, 1);
    saw(&s, 1, &a, &slow, 4);
    saw(&s, 1, &a, &slow, 4);
    assert_int_equal(liveforecast_gpus_max(s.f, 1, &a, 0), 4);
    saw(&s, 1, &a, &slow, 4); /* three times is no accident */
    assert_int_equal(liveforecast_gpus_max(s.f, 1, &a, 0), 1);
    assert_int_equal(liveforecast_gpus_max(s.f, 2, &a, 0), 4);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            rates_of_an_application_with_a_profile_follow_the_profile),
        cmocka_unit_test(memory_utilisation_and_slowdown_come_from_the_profile),
        cmocka_unit_test(step_times_of_a_job_teach_the_next_of_its_application),
        cmocka_unit_test(slowdowns_by_sub_batch_count_live_too),
        cmocka_unit_test(observed_slowdowns_correct_that_of_the_pair),
        cmocka_unit_test(measured_slowdowns_are_kept_over_a_restart),
        cmocka_unit_test(a_job_that_is_alone_later_shows_what_its_pair_cost),
        cmocka_unit_test(steps_of_other_jobs_alone_show_what_a_pair_costs),
        cmocka_unit_test(
            measured_utilisation_counts_for_jobs_of_the_application),
        cmocka_unit_test(
            a_bad_pair_without_applications_is_of_these_two_jobs_only),
        cmocka_unit_test(
            gpus_that_made_a_job_slower_three_times_are_not_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
