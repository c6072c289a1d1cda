/* test_yamltext.c - YAML texts by a small schema: lines and sentences. */
#include "base/buf.h"
#include "base/rng.h"
#include "base/yamltext.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pet {
    char *name, *food;
};

static const cyaml_schema_field_t fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct pet, name, 0, 20),
    CYAML_FIELD_STRING_PTR("food", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct pet, food, 0, 20),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct pet, fields),
};

static struct firn_bytes bytes_of(const char *text)
{
    return (struct firn_bytes){text, strlen(text)};
}

/* Notes every word; an alias cannot be. */
static const char *judge(void *arg, const yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT)
        assert_string_equal(yaml_note(arg, event),
                            (const char *)event->data.scalar.value);
    return event->type == YAML_ALIAS_EVENT ? "an alias" : NULL;
}

static enum firn_status read_text(struct pet **out, struct firn_bytes text,
                                  struct firn_error *err)
{
    struct yaml_words words = {0};
    void *data = NULL;
    enum firn_status status = yaml_walk(text, "f.yaml", judge, &words, err);
    if (status == FIRN_OK)
        status = yaml_load(&data, &schema, text, "f.yaml", &words, err);
    if (status == FIRN_OK)
        *out = data;
    else
        assert_null(data);
    yaml_words_release(&words);
    return status;
}

static void refuses(struct firn_bytes text, const char *why)
{
    struct pet *pet = NULL;
    struct firn_error err = {0};
    assert_int_equal(read_text(&pet, text, &err), FIRN_EINVAL);
    assert_string_equal(err.text, why);
    assert_null(pet);
}

static void a_text_fills_what_the_schema_names(void **state)
{
    (void)state;
    struct pet *pet = NULL;
    struct firn_error err = {0};
    struct firn_bytes text = bytes_of("# one\nfood: 'a: b'\nname: Rex\n");
    assert_int_equal(read_text(&pet, text, &err), FIRN_OK);
    assert_string_equal(pet->name, "Rex");
    assert_string_equal(pet->food, "a: b");
    yaml_free(pet, &schema);
    assert_int_equal(read_text(&pet, bytes_of("name: Rex"), &err), FIRN_OK);
    assert_null(pet->food);
    yaml_free(pet, &schema);
    yaml_free(NULL, &schema);
}

static void words_are_found_at_their_first_line(void **state)
{
    (void)state;
    struct yaml_words words = {0};
    struct firn_bytes text = bytes_of("a: b\n\n# a\nc:\n  - d\n  - b\n");
    assert_int_equal(yaml_walk(text, "f", judge, &words, NULL), FIRN_OK);
    assert_int_equal(words.n, 5);
    assert_int_equal(words.at[4].line, 6);
    assert_int_equal(yaml_line(&words, "b"), 1);
    assert_int_equal(yaml_line(&words, "c"), 4);
    assert_int_equal(yaml_line(&words, "d"), 5);
    assert_int_equal(yaml_line(&words, "nowhere"), 1);
    assert_int_equal(yaml_line(&words, NULL), 1);
    yaml_words_release(&words);
    assert_int_equal(words.n, 0);
}

static void an_empty_file_is_an_error(void **state)
{
    (void)state;
    refuses((struct firn_bytes){NULL, 0}, "f.yaml: the file is empty");
    refuses(bytes_of(""), "f.yaml: the file is empty");
    refuses(bytes_of("# only this\n"), "f.yaml: the file is empty");
}

static void the_judge_and_libyaml_stop_a_walk_with_the_line(void **state)
{
    (void)state;
    refuses(bytes_of("name: &x Rex\nfood: *x\n"), "f.yaml: line 2: an alias");
    refuses(bytes_of("name: Rex\nfood: 'open\n"),
            "f.yaml: line 3: found unexpected end of stream");
    refuses(bytes_of("name: Rex\nfood: \x01\n"),
            "f.yaml: line 1: control characters are not allowed");
}

static void complaints_name_the_key_the_place_and_the_line(void **state)
{
    (void)state;
    refuses(bytes_of("name: Rex\n\nfod: hay\n"),
            "f.yaml: line 3: Unexpected key: fod");
    refuses(bytes_of("name: Rex\nfood: hay\nname: Max\n"),
            "f.yaml: line 3: Mapping field already seen: name");
    refuses(bytes_of("food: hay\n"),
            "f.yaml: line 1: Missing required mapping field: name "
            "(in mapping field 'food')");
    refuses(bytes_of("name: Rex\nfood:\n  - hay\n"),
            "f.yaml: line 3: Expecting STRING, got event: SEQUENCE_START "
            "(in mapping field 'food')");
    refuses(bytes_of("\"f\\tod\\e\": hay\nname: Rex\n"),
            "f.yaml: line 1: Unexpected key: f?od?");
}

static void add_gap(struct firn_buf *text, struct rng *rng, int lines)
{
    for (int i = 0; i < lines; i++)
        buf_puts(text, rng_below(rng, 2) ? "# bad\n" : "\n");
}

/* Among comments and empty lines. */
static void an_unknown_key_is_named_at_its_own_line(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct firn_buf text = {0};
        struct rng rng;
        char want[80];
        rng_seed(&rng, seed);
        int before = (int)rng_below(&rng, 6), after = (int)rng_below(&rng, 6);
        add_gap(&text, &rng, before);
        buf_puts(&text, "name: Rex\n");
        add_gap(&text, &rng, after);
        buf_puts(&text, "bad: name\n");
        snprintf(want, sizeof want, "f.yaml: line %d: Unexpected key: bad",
                 before + after + 2);
        refuses((struct firn_bytes){text.at, text.n}, want);
        buf_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_fills_what_the_schema_names),
        cmocka_unit_test(words_are_found_at_their_first_line),
        cmocka_unit_test(an_empty_file_is_an_error),
        cmocka_unit_test(the_judge_and_libyaml_stop_a_walk_with_the_line),
        cmocka_unit_test(complaints_name_the_key_the_place_and_the_line),
        cmocka_unit_test(an_unknown_key_is_named_at_its_own_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
