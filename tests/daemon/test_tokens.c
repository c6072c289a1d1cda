/* test_tokens.c - tokens of users: made, found, expired, revoked, written. */
#include "base/buf.h"
#include "daemon/tokens.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct token *add(struct tokens *tokens, const char *user,
                               enum access_role role, double expires_s,
                               char secret[TOKEN_TEXT])
{
    struct token like = {.role = role, .made_s = 100, .expires_s = expires_s};
    const struct token *out = NULL;
    struct firn_error err = {0};
    strcpy(like.user, user);
    strcpy(like.name, "laptop");
    assert_int_equal(tokens_add(tokens, &like, secret, &out, &err), FIRN_OK);
    return out;
}

static void a_token_is_found_by_its_text_until_it_expires(void **state)
{
    (void)state;
    char ann[TOKEN_TEXT], bob[TOKEN_TEXT];
    struct tokens *tokens = tokens_new();
    add(tokens, "ann", ACCESS_USER, 0, ann);
    add(tokens, "bob", ACCESS_VIEWER, 200, bob);
    assert_int_equal(strlen(ann), 64);
    assert_string_not_equal(ann, bob);
    assert_string_equal(tokens_find(tokens, ann, 1e12)->user, "ann");
    assert_int_equal(tokens_find(tokens, bob, 199.9)->role, ACCESS_VIEWER);
    assert_null(tokens_find(tokens, bob, 200));
    assert_null(tokens_find(tokens, "", 100));
    bob[0] = bob[0] == 'a' ? 'b' : 'a';
    assert_null(tokens_find(tokens, bob, 100));
    tokens_free(tokens);
}

static void
a_revoked_token_is_gone_and_its_number_is_not_given_again(void **state)
{
    (void)state;
    char first[TOKEN_TEXT], second[TOKEN_TEXT];
    struct tokens *tokens = tokens_new();
    add(tokens, "ann", ACCESS_USER, 0, first);
    assert_int_equal(add(tokens, "ann", ACCESS_USER, 0, second)->id, 2);
    assert_true(tokens_revoke(tokens, 2));
    assert_false(tokens_revoke(tokens, 2));
    assert_null(tokens_find(tokens, second, 100));
    assert_non_null(tokens_find(tokens, first, 100));
    struct firn_buf text = {0};
    struct firn_error err = {0};
    tokens_write(tokens, &text);
    struct tokens *again = tokens_new();
    assert_int_equal(
        tokens_read(again, (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    assert_int_equal(add(again, "ann", ACCESS_USER, 0, second)->id, 3);
    assert_non_null(tokens_find(again, first, 100));
    buf_release(&text);
    tokens_free(tokens);
    tokens_free(again);
}

static void the_text_of_a_token_is_not_kept(void **state)
{
    (void)state;
    char secret[TOKEN_TEXT];
    struct firn_buf text = {0};
    struct tokens *tokens = tokens_new();
    add(tokens, "ann", ACCESS_OPERATOR, 0, secret);
    tokens_write(tokens, &text);
    assert_null(strstr(text.at, secret));
    assert_non_null(strstr(text.at, "\"operator\""));
    buf_release(&text);
    tokens_free(tokens);
}

static void a_damaged_list_revokes_all(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"next\": 0, \"tokens\": []}",
        "{\"next\": 3, \"tokens\": [{\"id\": 1}]}",
        "{\"next\": 3, \"tokens\": [{\"id\": 1, \"name\": \"\", \"user\": "
        "\"a\", \"role\": \"job\", \"hash\": \"00\"}]}"};
    char secret[TOKEN_TEXT];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_error err = {0};
        struct tokens *tokens = tokens_new();
        add(tokens, "ann", ACCESS_USER, 0, secret);
        assert_int_equal(
            tokens_read(tokens, (struct firn_bytes){wrong[i], strlen(wrong[i])},
                        &err),
            FIRN_EDATA);
        assert_int_equal(tokens_count(tokens), 0);
        tokens_free(tokens);
    }
}

static void a_name_has_letters_and_digits(void **state)
{
    (void)state;
    struct tokens *tokens = tokens_new();
    struct token like = {.role = ACCESS_USER, .user = "ann", .name = "a b"};
    const struct token *out = NULL;
    struct firn_error err = {0};
    char secret[TOKEN_TEXT];
    assert_int_equal(tokens_add(tokens, &like, secret, &out, &err),
                     FIRN_EINVAL);
    strcpy(like.name, "CI-2_main.x");
    assert_int_equal(tokens_add(tokens, &like, secret, &out, &err), FIRN_OK);
    tokens_free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_found_by_its_text_until_it_expires),
        cmocka_unit_test(
            a_revoked_token_is_gone_and_its_number_is_not_given_again),
        cmocka_unit_test(the_text_of_a_token_is_not_kept),
        cmocka_unit_test(a_damaged_list_revokes_all),
        cmocka_unit_test(a_name_has_letters_and_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
