/* test_option.c - every type, its range, its sentence; unknown names. */
#include "base/buf.h"
#include <firn/option.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct settings {
    bool skip;
    int window;
    double share;
    int order;
    struct firn_list queues;
    char place[FIRN_TEXT_MAX];
};

static const char *const orders[] = {"fifo", "las", NULL};

static const struct firn_option table[] = {
    {.name = "skip",
     .type = FIRN_OPTION_BOOL,
     .fallback = "no",
     .help = "let later jobs pass",
     .offset = offsetof(struct settings, skip)},
    {.name = "window",
     .type = FIRN_OPTION_INT,
     .fallback = "8",
     .min = 1,
     .max = 1e18,
     .help = "jobs looked at",
     .offset = offsetof(struct settings, window)},
    {.name = "share",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0.5",
     .min = 0,
     .max = 1,
     .help = "part of the cluster",
     .offset = offsetof(struct settings, share)},
    {.name = "order",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "las",
     .choices = orders,
     .help = "who goes first",
     .offset = offsetof(struct settings, order)},
    {.name = "queues",
     .type = FIRN_OPTION_LIST,
     .fallback = "3600,57600",
     .min = 0,
     .max = (double)INFINITY,
     .help = "thresholds",
     .offset = offsetof(struct settings, queues)},
    {.name = "place",
     .type = FIRN_OPTION_TEXT,
     .fallback = "here",
     .help = "any words",
     .offset = offsetof(struct settings, place)},
    {.name = NULL},
};

static struct settings fresh(void)
{
    struct settings s;
    memset(&s, 0, sizeof s);
    firn_options_default(table, &s);
    return s;
}

static enum firn_status set(struct settings *s, const char *name,
                            const char *value, struct firn_error *err)
{
    return firn_option_set(table, s, "toy", name, value, err);
}

static void accepts(struct settings *s, const char *name, const char *value)
{
    struct firn_error err = {0};
    if (set(s, name, value, &err) != FIRN_OK)
        fail_msg("%s=%s: %s", name, value, err.text);
}

/* Refused, with all of `sentence` said, and nothing changed. */
static void refuses(const char *name, const char *value, const char *sentence)
{
    struct settings s = fresh(), before = s;
    struct firn_error err = {0};
    assert_int_equal(set(&s, name, value, &err), FIRN_EINVAL);
    assert_int_equal(err.status, FIRN_EINVAL);
    assert_string_equal(err.text, sentence);
    assert_memory_equal(&s, &before, sizeof s);
}

static void defaults_fill_every_option(void **state)
{
    (void)state;
    struct settings s = fresh();
    assert_false(s.skip);
    assert_int_equal(s.window, 8);
    assert_true(s.share == 0.5);
    assert_int_equal(s.order, 1);
    assert_int_equal(s.queues.n, 2);
    assert_true(s.queues.at[0] == 3600.0 && s.queues.at[1] == 57600.0);
    assert_string_equal(s.place, "here");
    firn_options_default(NULL, &s);
}

static void bools_have_eight_words(void **state)
{
    (void)state;
    const char *yes[] = {"1", "yes", "on", "true", "TRUE"};
    const char *no[] = {"0", "no", "off", "false", "Off"};
    struct settings s = fresh();
    for (int i = 0; i < 5; i++) {
        accepts(&s, "skip", yes[i]);
        assert_true(s.skip);
        accepts(&s, "skip", no[i]);
        assert_false(s.skip);
    }
    refuses("skip", "2", "toy.skip: '2' is not a valid value (yes or no)");
    refuses("skip", "", "toy.skip: '' is not a valid value (yes or no)");
}

static void ints_are_whole_and_in_range(void **state)
{
    (void)state;
    struct settings s = fresh();
    accepts(&s, "window", "1");
    assert_int_equal(s.window, 1);
    accepts(&s, "window", "2147483647");
    assert_int_equal(s.window, 2147483647);
    const char *bad[] = {"0", "-5", "1.5", "x", "2147483648", "1e99", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct firn_error err = {0};
        assert_int_equal(set(&s, "window", bad[i], &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "(whole number >= 1)"));
    }
    assert_int_equal(s.window, 2147483647);
}

static void doubles_are_finite_and_in_range(void **state)
{
    (void)state;
    struct settings s = fresh();
    accepts(&s, "share", "0");
    accepts(&s, "share", "1");
    accepts(&s, "share", "2.5e-1");
    assert_true(s.share == 0.25);
    refuses("share", "1.01",
            "toy.share: '1.01' is not a valid value (number from 0 to 1)");
    refuses("share", "nan",
            "toy.share: 'nan' is not a valid value (number from 0 to 1)");
    refuses("share", "-0.1",
            "toy.share: '-0.1' is not a valid value (number from 0 to 1)");
}

static void an_enum_option_takes_the_names_of_its_choices(void **state)
{
    (void)state;
    struct settings s = fresh();
    accepts(&s, "order", "fifo");
    assert_int_equal(s.order, 0);
    accepts(&s, "order", "LAS");
    assert_int_equal(s.order, 1);
    refuses("order", "sjf",
            "toy.order: 'sjf' is not a valid value (one of fifo, las)");
    refuses("order", "1",
            "toy.order: '1' is not a valid value (one of fifo, las)");
}

static void lists_are_ascending_positive_and_short(void **state)
{
    (void)state;
    struct settings s = fresh();
    accepts(&s, "queues", "60");
    assert_int_equal(s.queues.n, 1);
    accepts(&s, "queues", "1, 2 ,3,4,5,6,7,8e0");
    assert_int_equal(s.queues.n, 8);
    assert_true(s.queues.at[7] == 8.0);
    const char *bad[] = {"",     "3,2",   "2,2", "0",
                         "-1,2", "1,",    ",1",  "1,,2",
                         "1;2",  "1,nan", "1 2", "1,2,3,4,5,6,7,8,9",
                         "1,inf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct firn_error err = {0};
        if (set(&s, "queues", bad[i], &err) != FIRN_EINVAL)
            fail_msg("'%s' was accepted", bad[i]);
        assert_non_null(strstr(err.text, "ascending numbers > 0"));
    }
    assert_int_equal(s.queues.n, 8); /* untouched */
}

static void texts_are_taken_as_they_are(void **state)
{
    (void)state;
    struct settings s = fresh();
    char text[FIRN_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    text[FIRN_TEXT_MAX - 1] = '\0';
    accepts(&s, "place", text);
    assert_string_equal(s.place, text);
    accepts(&s, "place", "");
    assert_string_equal(s.place, "");
    accepts(&s, "place", " 2x4:v100 $(id) \xc3\xa4");
    assert_string_equal(s.place, " 2x4:v100 $(id) \xc3\xa4");
    refuses("place", "a\nb",
            "toy.place: 'a\nb' is not a valid value (text of at most 1023 "
            "bytes)");
    struct firn_error err = {0};
    text[FIRN_TEXT_MAX - 1] = 'x';
    text[FIRN_TEXT_MAX] = '\0';
    assert_int_equal(set(&s, "place", text, &err), FIRN_EINVAL);
}

static void an_unknown_name_gets_the_nearest_one(void **state)
{
    (void)state;
    struct settings s = fresh(), before = s;
    struct firn_error err = {0};
    assert_int_equal(set(&s, "skp", "1", &err), FIRN_ENOENT);
    assert_string_equal(err.text,
                        "toy has no option 'skp'; did you mean 'skip'?");
    assert_int_equal(set(&s, "temperature", "1", &err), FIRN_ENOENT);
    assert_string_equal(err.text, "toy has no option 'temperature'");
    assert_int_equal(firn_option_set(NULL, &s, "bare", "x", "1", &err),
                     FIRN_ENOENT);
    assert_string_equal(err.text, "bare has no options, so no 'x'");
    assert_int_equal(set(&s, "skp", "1", NULL), FIRN_ENOENT);
    assert_memory_equal(&s, &before, sizeof s);
}

static void describes(struct firn_option option, const char *want)
{
    struct firn_buf out = {0};
    firn_option_describe(&option, &out);
    assert_string_equal(out.at, want);
    buf_release(&out);
}

static void descriptions_follow_the_range(void **state)
{
    (void)state;
    describes((struct firn_option){.type = FIRN_OPTION_DOUBLE}, "number");
    describes((struct firn_option){.type = FIRN_OPTION_DOUBLE,
                                   .max = (double)INFINITY},
              "number >= 0");
    describes((struct firn_option){.type = FIRN_OPTION_DOUBLE,
                                   .min = -(double)INFINITY,
                                   .max = 0.5},
              "number <= 0.5");
    describes((struct firn_option){.type = FIRN_OPTION_INT, .min = 2, .max = 8},
              "whole number from 2 to 8");
    describes(
        (struct firn_option){.type = FIRN_OPTION_LIST, .min = 1, .max = 9},
        "list of 1 to 8 ascending numbers from 1 to 9, with commas");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_every_option),
        cmocka_unit_test(bools_have_eight_words),
        cmocka_unit_test(ints_are_whole_and_in_range),
        cmocka_unit_test(doubles_are_finite_and_in_range),
        cmocka_unit_test(an_enum_option_takes_the_names_of_its_choices),
        cmocka_unit_test(lists_are_ascending_positive_and_short),
        cmocka_unit_test(texts_are_taken_as_they_are),
        cmocka_unit_test(an_unknown_name_gets_the_nearest_one),
        cmocka_unit_test(descriptions_follow_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
