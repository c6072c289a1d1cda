/* test_write.c - what is written reads back as the same jobs. */
#include "base/buf.h"
#include "base/fmath.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/trace_text.h"
#include "trace/write.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const uint64_t seed = 20240;

static const char *draw_text(struct rng *rng, bool may_be_empty)
{
    static const char *const texts[] = {
        "",           "a",      "#hash",  "#\"",       "with, comma",
        "\"quoted\"", " edge ", "tab\tx", "v100|a100", "caf\xc3\xa9",
        "cr\rx",      "\"\"\""};
    size_t n = sizeof texts / sizeof *texts;
    return texts[may_be_empty ? rng_below(rng, n) : 1 + rng_below(rng, n - 1)];
}

static double draw_number(struct rng *rng)
{
    return fm_exp(60 * rng_unit(rng) - 30) * (1 + rng_unit(rng));
}

static struct firn_job_spec draw_spec(struct rng *rng)
{
    struct firn_job_spec spec = {.name = draw_text(rng, false),
                                 .app = draw_text(rng, true),
                                 .group = draw_text(rng, true),
                                 .types = draw_text(rng, true)};
    spec.submit_s = rng_below(rng, 4) == 0 ? 0 : draw_number(rng);
    spec.duration_s = draw_number(rng);
    spec.gpus = 1 + (int)rng_below(rng, 64);
    spec.gpus_min = 1 + (int)rng_below(rng, (uint64_t)spec.gpus);
    spec.gpus_max = spec.gpus + (int)rng_below(rng, 3);
    spec.restart_s = rng_below(rng, 2) == 0 ? -1 : draw_number(rng);
    spec.mem_gib = rng_below(rng, 2) == 0 ? 0 : draw_number(rng);
    spec.batch = (int)rng_below(rng, 3) * 1000003;
    spec.priority = (int)rng_below(rng, 5) - 2;
    spec.may_share = rng_below(rng, 2) == 1;
    spec.may_merge = rng_below(rng, 2) == 1;
    spec.frozen_max = rng_below(rng, 2) == 1 ? rng_unit(rng) : 0;
    spec.threads = (int)rng_below(rng, 3) * 5;
    spec.one_type = rng_below(rng, 2) == 1;
    spec.best_effort = rng_below(rng, 2) == 1;
    spec.is_nominal = rng_below(rng, 2) == 1;
    spec.training.precision = (unsigned char)rng_below(rng, 5);
    spec.training.optimizer = (unsigned char)rng_below(rng, 4);
    spec.training.attention = (unsigned char)rng_below(rng, 3);
    spec.training.checkpointing = (unsigned char)rng_below(rng, 3);
    return spec;
}

static bool same(const struct firn_job_spec *a, const struct firn_job_spec *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->app, b->app) == 0 &&
           strcmp(a->group, b->group) == 0 && strcmp(a->types, b->types) == 0 &&
           memcmp(&a->submit_s, &b->submit_s, sizeof(double)) == 0 &&
           memcmp(&a->duration_s, &b->duration_s, sizeof(double)) == 0 &&
           memcmp(&a->restart_s, &b->restart_s, sizeof(double)) == 0 &&
           memcmp(&a->mem_gib, &b->mem_gib, sizeof(double)) == 0 &&
           a->gpus == b->gpus && a->gpus_min == b->gpus_min &&
           a->gpus_max == b->gpus_max && a->batch == b->batch &&
           a->priority == b->priority && a->may_share == b->may_share &&
           a->may_merge == b->may_merge && a->frozen_max == b->frozen_max &&
           a->threads == b->threads && a->one_type == b->one_type &&
           a->best_effort == b->best_effort && a->is_nominal == b->is_nominal &&
           memcmp(&a->training, &b->training, sizeof a->training) == 0;
}

static void jobs_survive_the_trip_bit_for_bit(void **state)
{
    (void)state;
    const struct firn_trace_def *def = trace_def("firn");
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 5000; i++) {
        struct firn_job_spec spec = draw_spec(&rng), back;
        struct firn_buf text = {0};
        struct firn_error err = {0};
        write_header(&text, write_mask(&spec));
        write_row(&text, &spec, write_mask(&spec));
        struct lines *in = lines_from((struct firn_bytes){text.at, text.n});
        void *reader = mem_new(1, def->state_size);
        if (def->open(reader, in, &err) != FIRN_OK ||
            def->next(reader, in, &back, &err) != FIRN_ROW_JOB ||
            !same(&spec, &back))
            fail_msg("seed %llu, job %d: %s\n%s", (unsigned long long)seed, i,
                     err.text, text.at);
        mem_free(reader);
        lines_close(in);
        buf_release(&text);
    }
}

static void columns_that_only_have_defaults_are_not_written(void **state)
{
    (void)state;
    struct firn_job_spec spec = {.name = "a",
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .submit_s = 1.5,
                                 .gpus = 2,
                                 .gpus_min = 2,
                                 .gpus_max = 2,
                                 .duration_s = 0.1,
                                 .restart_s = -1};
    struct firn_buf text = {0};
    write_header(&text, write_mask(&spec));
    write_row(&text, &spec, write_mask(&spec));
    assert_string_equal(text.at, "#firn-trace 1\n"
                                 "name,submit_s,gpus,duration_s\n"
                                 "a,1.5,2,0.1\n");
    buf_clear(&text);
    spec.gpus_max = 4;
    spec.restart_s = 0;
    write_header(&text, write_mask(&spec));
    write_row(&text, &spec, write_mask(&spec));
    assert_string_equal(text.at, "#firn-trace 1\n"
                                 "name,submit_s,gpus,duration_s,gpus_max,"
                                 "restart_s\n"
                                 "a,1.5,2,0.1,4,0\n");
    buf_clear(&text);
    spec.restart_s = -1;
    spec.one_type = true;
    write_header(&text, write_mask(&spec));
    write_row(&text, &spec, write_mask(&spec));
    spec.one_type = false; /* in one file with the other */
    write_row(&text, &spec, write_mask(&spec) | 1u << WRITE_ONE_TYPE);
    assert_string_equal(text.at, "#firn-trace 1\n"
                                 "name,submit_s,gpus,duration_s,gpus_max,"
                                 "one_type\n"
                                 "a,1.5,2,0.1,4,1\na,1.5,2,0.1,4,0\n");
    buf_release(&text);
}

/* Sixteen, no value, and a wrong number; a file without the column is read as
 * ever. */
static void threads_are_read_and_may_be_missing(void **state)
{
    (void)state;
    static const char text[] =
        "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_max,threads\n"
        "a,0,1,9,8,16\nb,0,1,9,8,\nc,0,1,9,8,-1\n";
    static const char old[] = "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
                              "a,0,1,9\n";
    const struct firn_trace_def *def = trace_def("firn");
    struct firn_job_spec spec;
    struct firn_error err = {0};
    void *reader = mem_new(1, def->state_size);
    struct lines *in = lines_from((struct firn_bytes){text, sizeof text - 1});
    assert_int_equal(def->open(reader, in, &err), FIRN_OK);
    assert_int_equal(def->next(reader, in, &spec, &err), FIRN_ROW_JOB);
    assert_int_equal(spec.threads, 16);
    assert_int_equal(def->next(reader, in, &spec, &err), FIRN_ROW_JOB);
    assert_int_equal(spec.threads, 0);
    assert_int_equal(def->next(reader, in, &spec, &err), FIRN_ROW_BAD);
    assert_non_null(strstr(err.text, "'threads' is -1"));
    lines_close(in);
    memset(reader, 0, def->state_size);
    in = lines_from((struct firn_bytes){old, sizeof old - 1});
    assert_int_equal(def->open(reader, in, &err), FIRN_OK);
    assert_int_equal(def->next(reader, in, &spec, &err), FIRN_ROW_JOB);
    assert_int_equal(spec.threads, 0);
    lines_close(in);
    mem_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_survive_the_trip_bit_for_bit),
        cmocka_unit_test(columns_that_only_have_defaults_are_not_written),
        cmocka_unit_test(threads_are_read_and_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
