/* test_simfiles.c - names of the output files of `firn sim`.
 */
#include "cli/flags.c" /* programs link libfirn.a, which has no cli */
#include "cli/simfiles.c"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

static void labels(const char *traces, const char *expected)
{
    struct words in = {0}, out = {0};
    struct firn_buf text = {0};
    assert_int_equal(flag_words(&in, traces, NULL), FIRN_OK);
    simfiles_labels(&in, &out);
    for (size_t i = 0; i < out.n; i++)
        buf_printf(&text, "%s%s", i ? "," : "", out.at[i]);
    assert_string_equal(text.at, expected);
    buf_release(&text);
    words_release(&in);
    words_release(&out);
}

static void
a_label_is_the_file_name_without_directory_and_extension(void **state)
{
    (void)state;
    labels("a/b/jobs.csv", "jobs");
    labels("jobs", "jobs");
    labels("a.b/jobs.v2.csv", "jobs.v2");
    labels(".hidden", ".hidden");
    labels("philly.csv#vc/1 x", "philly-vc_1_x");
}

static void equal_labels_get_numbers(void **state)
{
    (void)state;
    labels("a/jobs.csv,b/jobs.csv,c/jobs.txt", "jobs,jobs-2,jobs-3");
    labels("jobs-2.csv,jobs.csv,a/jobs.csv", "jobs-2,jobs,jobs-3");
}

static void a_directory_is_created_unless_it_exists(void **state)
{
    (void)state;
    char dir[64], file[80];
    struct firn_error err = {0};
    snprintf(dir, sizeof dir, "/tmp/firn-out-%ld", (long)getpid());
    assert_int_equal(simfiles_folder(dir, NULL), FIRN_OK);
    assert_int_equal(simfiles_folder(dir, NULL), FIRN_OK);
    snprintf(file, sizeof file, "%s/x", dir);
    fclose(fopen(file, "w"));
    assert_int_equal(simfiles_folder(file, &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "Not a directory"));
    remove(file);
    rmdir(dir);
    assert_int_equal(simfiles_folder("/nonexistent/a", &err), FIRN_EIO);
    assert_string_equal(err.text, "/nonexistent/a: No such file or directory");
}

static void a_path_is_made_of_trace_policy_and_kind(void **state)
{
    (void)state;
    struct firn_buf path = {0};
    simfiles_path("out", "jobs", "fifo", "events.tsv", &path);
    assert_string_equal(path.at, "out/jobs--fifo.events.tsv");
    buf_release(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_label_is_the_file_name_without_directory_and_extension),
        cmocka_unit_test(equal_labels_get_numbers),
        cmocka_unit_test(a_directory_is_created_unless_it_exists),
        cmocka_unit_test(a_path_is_made_of_trace_policy_and_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
