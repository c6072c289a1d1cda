/* test_liveconfig.c - a path to a config.json becomes the text of the file. */
#include "base/buf.h"
#include "cli/liveconfig.c"
#include "cli/livefile.c"
#include "folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct firn_error err;

static const char json[] =
    "{\n  \"model_type\": \"llama\",\n  \"_name\": \"it's \\\"a\\\" name\",\n"
    "  \"hidden_size\": 64, \"num_hidden_layers\": 2,\n"
    "  \"num_attention_heads\": 4, \"intermediate_size\": 128,\n"
    "  \"vocab_size\": 1000\n}\n";
static const char quoted[] =
    "'{\"model_type\":\"llama\",\"_name\":\"it''s \\\"a\\\" name\","
    "\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"intermediate_size\":128,"
    "\"vocab_size\":1000}'";

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* `before`, the path as written, `after`: the text stands between the two. */
static void check(const char *where, const char *before, const char *path,
                  const char *after)
{
    struct firn_buf text = {0}, want = {0};
    buf_printf(&text, "%s%s%s", before, path, after);
    buf_printf(&want, "%s%s%s", before, quoted, after);
    if (live_config_put(&text, where, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_string_equal(text.at, want.at);
    buf_release(&text);
    buf_release(&want);
}

static void a_path_becomes_the_text_of_its_file(void **state)
{
    (void)state;
    const char *folder = folder_path();
    struct firn_buf where = {0}, path = {0};
    buf_printf(&where, "%s/job.yaml", folder);
    buf_printf(&path, "%s/a.json", folder);
    write_file(path.at, json, sizeof json - 1);
    check(where.at, "run: t\nmodel: {seq: 8, config: ", "a.json", "}\n");
    check(where.at, "model:\n  config: ", "\"a.json\"", "\n  seq: 8\nrun: t\n");
    check(where.at, "model:\n  config: ", "a.json", "   # the model\nrun: t\n");
    check(NULL, "run: t\nmodel: {config: ", path.at, "}\n");
    /* Characters of several bytes before it, and a mark of the byte order. */
    check(where.at,
          "\xef\xbb\xbf# \xc3\xa4\xe2\x82\xac\nname: \"\xc3\xb6\"\n"
          "model: {config: ",
          "a.json", "}\n");
    buf_release(&where);
    buf_release(&path);
}

static void other_texts_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "run: t\n",
        "config: a.json\nrun: t\n",
        "env: {config: a.json}\n",
        "model: {seq: {config: a.json}}\n",
        "model: [config, a.json]\n",
        "model: {config: '{\"model_type\": \"llama\"}'}\n",
        "model: {config: ",
        "\x01",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_buf text = {0};
        buf_puts(&text, texts[i]);
        assert_int_equal(live_config_put(&text, NULL, &err), FIRN_OK);
        assert_string_equal(text.at, texts[i]);
        buf_release(&text);
    }
}

/* Checks that reading fails with `status` and words of the sentence. */
static void check_bad(const char *folder, const char *name,
                      enum firn_status status, const char *words)
{
    struct firn_buf text = {0}, where = {0};
    buf_printf(&text, "model: {config: %s}\n", name);
    buf_printf(&where, "%s/job.yaml", folder);
    assert_int_equal(live_config_put(&text, where.at, &err), status);
    if (strstr(err.text, words) == NULL || strstr(err.text, name) == NULL)
        fail_msg("%s", err.text);
    buf_release(&text);
    buf_release(&where);
}

static void a_bad_file_is_refused_by_its_name_and_key(void **state)
{
    (void)state;
    const char *folder = folder_path();
    struct firn_buf path = {0}, large = {0};
    check_bad(folder, "none.json", FIRN_EIO, "No such file");
    buf_printf(&path, "%s/bad.json", folder);
    write_file(path.at, "{\"model_type\": \"llama\"}", 23);
    check_bad(folder, "bad.json", FIRN_EINVAL, "hidden_size");
    buf_clear(&path);
    buf_printf(&path, "%s/large.json", folder);
    for (int i = 0; i < (1 << 16) + 1; i++)
        buf_putc(&large, ' ');
    write_file(path.at, large.at, large.n);
    check_bad(folder, "large.json", FIRN_EINVAL, "64 KiB");
    buf_release(&path);
    buf_release(&large);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(a_path_becomes_the_text_of_its_file,
                                        folder_make, folder_remove),
        cmocka_unit_test(other_texts_stay_as_they_are),
        cmocka_unit_test_setup_teardown(
            a_bad_file_is_refused_by_its_name_and_key, folder_make,
            folder_remove),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
