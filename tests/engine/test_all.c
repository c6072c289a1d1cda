/* test_all.c - what every engine in the list has to be. */
#include "base/buf.h"
#include "base/mem.h"
#include <firn/engine.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void an_engine_is_found_by_its_name(void **state)
{
    (void)state;
    size_t n;
    struct firn_error err = {0};
    const struct firn_engine_def *const *all = firn_engines(&n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(firn_engine_find(all[i]->name, &err), all[i]);
        assert_true(strlen(all[i]->summary) > 0);
        assert_null(strchr(all[i]->summary, '\n'));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(all[i]->name, all[k]->name);
    }
    assert_int_equal(err.status, FIRN_OK);
}

static void an_unknown_engine_name_is_an_error_with_a_hint(void **state)
{
    (void)state;
    struct firn_error err = {0};
    assert_null(firn_engine_find("locl", &err));
    assert_int_equal(err.status, FIRN_ENOENT);
    assert_string_equal(err.text,
                        "there is no engine 'locl'; did you mean 'local'?");
    assert_null(firn_engine_find("kubernetes-on-mars", &err));
    assert_string_equal(err.text, "there is no engine 'kubernetes-on-mars'; "
                                  "the engines are: local, slurm");
}

static void every_engine_has_all_functions_of_a_live_engine(void **state)
{
    (void)state;
    size_t n;
    const struct firn_engine_def *const *all = firn_engines(&n);
    for (size_t i = 0; i < n; i++) {
        const struct firn_engine_def *e = all[i];
        assert_true(e->open && e->close && e->now_s && e->discover);
        assert_true(e->apply && e->settled && e->next && e->adopt);
        assert_true(e->attach && e->wake_fd && e->cancel && e->phase);
        assert_true(e->state_size > 0);
        assert_int_equal(e->gives & FIRN_NEED_DURATION, 0); /* not known */
    }
}

static void options_have_defaults_that_are_valid_and_help(void **state)
{
    (void)state;
    size_t n;
    const struct firn_engine_def *const *all = firn_engines(&n);
    for (size_t i = 0; i < n; i++) {
        void *settings = mem_new(1, all[i]->state_size);
        firn_options_default(all[i]->options, settings);
        const struct firn_option *option = all[i]->options;
        for (; option != NULL && option->name != NULL; option++) {
            struct firn_buf text = {0};
            firn_option_describe(option, &text);
            assert_true(text.n > 0 && strlen(option->help) > 0);
            assert_true(option->offset < all[i]->state_size);
            buf_release(&text);
        }
        mem_free(settings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_is_found_by_its_name),
        cmocka_unit_test(an_unknown_engine_name_is_an_error_with_a_hint),
        cmocka_unit_test(every_engine_has_all_functions_of_a_live_engine),
        cmocka_unit_test(options_have_defaults_that_are_valid_and_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
