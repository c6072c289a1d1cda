/* test_template.c - placeholders are replaced, or named when they cannot be.
 */
#include "base/buf.h"
#include "cli/flags.c"
#include "cli/template.c" /* programs link libfirn.a, which has no cli */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum firn_status fill(struct firn_buf *out, const char *text,
                             const char *a, const char *b,
                             struct firn_error *err)
{
    struct words with = {0};
    if (a != NULL)
        words_add(&with, a, strlen(a));
    if (b != NULL)
        words_add(&with, b, strlen(b));
    enum firn_status status = template_fill(out, text, &with, err);
    words_release(&with);
    return status;
}

static void values_and_defaults_are_put_in(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct firn_error err = {0};
    assert_int_equal(fill(&out, "a {{x}} {{x}} {{y:7}} {{z:}}{{w:a:b}}.",
                          "x=1=2", "w=", &err),
                     FIRN_OK);
    assert_string_equal(out.at, "a 1=2 1=2 7 .");
    buf_release(&out);
    assert_int_equal(fill(&out, "env: {A: {B}}", NULL, NULL, &err), FIRN_OK);
    assert_string_equal(out.at, "env: {A: {B}}");
    buf_release(&out);
}

static void mistakes_are_named(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *with, *words;
    } wrong[] = {{"{{lr}}", NULL, "no value for {{lr}}: give --with lr=VALUE"},
                 {"{{lr}}", "lrr=1", "no value for {{lr}}"},
                 {"{{lr:1}}", "rl=1", "--with rl=1"},
                 {"x", "word", "not NAME=VALUE"},
                 {"{{}}", NULL, "no placeholder"},
                 {"{{a b}}", NULL, "no placeholder"},
                 {"{{open", NULL, "no placeholder"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_buf out = {0};
        struct firn_error err = {0};
        assert_int_equal(fill(&out, wrong[i].text, wrong[i].with, NULL, &err),
                         FIRN_EINVAL);
        assert_non_null(strstr(err.text, wrong[i].words));
        buf_release(&out);
    }
}

static void a_template_is_found_by_its_name(void **unused)
{
    (void)unused;
    struct firn_buf path = {0};
    struct firn_error err = {0};
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    assert_int_equal(template_find(&path, "no-such", &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "/etc/firn/templates"));
    buf_clear(&path);
    assert_int_equal(template_find(&path, "./mine", &err), FIRN_OK);
    assert_string_equal(path.at, "./mine");
    buf_release(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_defaults_are_put_in),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_template_is_found_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
