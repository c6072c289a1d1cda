/* test_flags.c - options, operands and subcommands of a command line.
 *
 * Standard output and standard error of the parser are captured in a file.
 */
#include "cli/flags.c" /* programs link libfirn.a, which has no cli */
#include "temp.h"
#include "trace_text.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

struct args {
    const char *out;
    double load, wait_s;
    bool is_quiet, is_json;
    int count;
    uint64_t seed;
    struct words names, rows;
};

static const struct flag table[] = {
    {"out", 'o', "FILE", "where to write", flag_text,
     offsetof(struct args, out)},
    {"load", 0, "X", "share in use", flag_positive,
     offsetof(struct args, load)},
    {"wait", 'w', "TIME", "how long", flag_duration,
     offsetof(struct args, wait_s)},
    {"quiet", 'q', NULL, "say nothing", flag_yes,
     offsetof(struct args, is_quiet)},
    {"count", 'j', "N", "how many", flag_count, offsetof(struct args, count)},
    {"seed", 0, "N", "where to begin", flag_seed, offsetof(struct args, seed)},
    {"names", 0, "A,B", "a list", flag_words, offsetof(struct args, names)},
    {"row", 0, "ROW", "one more", flag_word, offsetof(struct args, rows)},
    {"an-option-of-some-length", 0, "N",
     "a help text that is longer than the rest of its line and goes on below",
     flag_count, offsetof(struct args, count)},
    {"format", 'f', "FORMAT", "how", flag_format,
     offsetof(struct args, is_json)},
    {0},
};
static const struct flags_page page = {
    .command = "try",
    .usage = "[options] FILE",
    .about = "Tries it.",
    .table = table,
};

static struct args args;
static char *argv[16];
static int argc;
static char printed[4096]; /* output of the last call */

enum call { PARSE, OPERANDS, SUBCOMMAND };

static int run_one(int count, char **words)
{
    (void)words;
    return 100 + count;
}

static const struct subcommand subcommands[] = {
    {"stat", run_one}, {"gen", run_one}, {0}};

/* Splits `line` at spaces and passes it to a function of flags.h. */
static int call(enum call which, const char *line)
{
    static char copy[256];
    char path[64];
    snprintf(copy, sizeof copy, "%s", line);
    argc = 0;
    for (char *at = copy; at && argc < 15;) {
        argv[argc++] = at;
        at = strchr(at, ' ');
        if (at)
            *at++ = '\0';
    }
    argv[argc] = NULL;
    words_release(&args.names);
    words_release(&args.rows);
    args = (struct args){0};
    temp_file(path, (struct firn_bytes){"", 0});
    fflush(stdout);
    fflush(stderr);
    int fd = open(path, O_WRONLY), out = dup(1), err = dup(2);
    dup2(fd, 1);
    dup2(fd, 2);
    int rc = which == PARSE ? flags_parse(&page, &args, &argc, argv)
             : which == OPERANDS
                 ? flags_operands(&page, argc, argv, 1, 2, "trace")
                 : flags_subcommand(&page, subcommands, argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(out, 1);
    dup2(err, 2);
    close(fd);
    close(out);
    close(err);
    struct firn_buf text = file_text(path);
    snprintf(printed, sizeof printed, "%s", text.at ? text.at : "");
    buf_release(&text);
    remove(path);
    return rc;
}

static int parse(const char *line)
{
    return call(PARSE, line);
}

static void wrong(const char *line, const char *sentence)
{
    assert_int_equal(parse(line), 2);
    size_t n = strcspn(printed, "\n");
    printed[n] = '\0';
    assert_string_equal(printed, sentence);
    assert_string_equal(printed + n + 1, "try 'firn try --help'\n");
}

static void the_four_forms_of_an_option_are_equal(void **state)
{
    (void)state;
    static const char *const lines[] = {"try --out x.csv", "try --out=x.csv",
                                        "try -o x.csv", "try -ox.csv"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(parse(lines[i]), -1);
        assert_string_equal(args.out, "x.csv");
        assert_int_equal(argc, 1);
    }
}

static void operands_keep_their_order(void **state)
{
    (void)state;
    assert_int_equal(parse("try a --quiet b -j 4 - -- -q --load"), -1);
    assert_true(args.is_quiet);
    assert_int_equal(args.count, 4);
    assert_int_equal(argc, 6);
    assert_string_equal(argv[1], "a");
    assert_string_equal(argv[2], "b");
    assert_string_equal(argv[3], "-");
    assert_string_equal(argv[4], "-q");
    assert_string_equal(argv[5], "--load");
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double s;
    } times[] = {{"90", 90},    {"90s", 90}, {"1.5m", 90}, {"2h", 7200},
                 {"1d", 86400}, {"0", 0},    {"1e3", 1000}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        double s = -1;
        assert_int_equal(duration_parse(times[i].text, &s, NULL), FIRN_OK);
        assert_true(s == times[i].s);
    }
    static const char *const bad[] = {"",   "s",   "-1",    "1w",
                                      "h2", "nan", "1 h x", "1hm"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double s = -1;
        assert_int_equal(duration_parse(bad[i], &s, NULL), FIRN_EINVAL);
        assert_true(s == -1);
    }
}

static void lists_are_split_at_commas_and_repeat(void **state)
{
    (void)state;
    assert_int_equal(parse("try --names a,b --names=c --row x,y --row z"), -1);
    assert_int_equal(args.names.n, 3);
    assert_string_equal(args.names.at[2], "c");
    assert_int_equal(args.rows.n, 2);
    assert_string_equal(args.rows.at[0], "x,y");
    wrong("try --names a,,b", "firn try: --names: has an empty name");
}

static void a_misspelt_option_gets_the_nearest_name(void **state)
{
    (void)state;
    wrong("try --quite",
          "firn try: unknown option '--quite'; did you mean --quiet?");
    wrong("try --laod=2",
          "firn try: unknown option '--laod=2'; did you mean --load?");
    wrong("try --completely-else",
          "firn try: unknown option '--completely-else'");
    wrong("try -x", "firn try: unknown option '-x'");
    wrong("try --quie", /* no abbreviations */
          "firn try: unknown option '--quie'; did you mean --quiet?");
}

static void a_wrong_value_is_in_the_error_message(void **state)
{
    (void)state;
    wrong("try --out", "firn try: --out needs a value (FILE)");
    wrong("try --out=", "firn try: --out: is empty");
    wrong("try --quiet=1", "firn try: --quiet takes no value");
    wrong("try --load 0", "firn try: --load: 0 is not above 0");
    wrong("try --load x", "firn try: --load: 'x' is not a number");
    wrong("try -j 0", "firn try: --count: '0' is not an integer above 0");
    wrong("try -w -3", "firn try: --wait: -3 is below 0");
    wrong("try --seed 18446744073709551616",
          "firn try: --seed: '18446744073709551616' is not an integer from 0 "
          "to 2^64-1");
    wrong("try --seed -1",
          "firn try: --seed: '-1' is not an integer from 0 to 2^64-1");
    assert_int_equal(parse("try --seed 18446744073709551615"), -1);
    assert_true(args.seed == UINT64_MAX);
}

static void help_lists_every_option(void **state)
{
    (void)state;
    assert_int_equal(parse("try --load 2 --help"), 0);
    assert_non_null(strstr(printed, "usage: firn try [options] FILE\n"));
    assert_non_null(strstr(printed, "\nTries it.\n"));
    assert_non_null(
        strstr(printed, "  -o, --out FILE          where to write\n"));
    assert_non_null(
        strstr(printed, "      --load X            share in use\n"));
    assert_non_null(
        strstr(printed, "  -h, --help              print this page\n"));
}

static void help_is_wrapped_at_79_columns(void **state)
{
    (void)state;
    assert_int_equal(parse("try --help"), 0);
    assert_non_null(strstr(
        printed,
        "      --an-option-of-some-length N\n"
        "                          a help text that is longer than the rest of "
        "its line\n"
        "                          and goes on below\n"));
    for (const char *at = printed; *at != '\0'; at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        assert_true(n <= 79);
        at += n;
    }
}

static void a_format_is_table_or_json(void **state)
{
    (void)state;
    assert_int_equal(parse("try -f json"), -1);
    assert_true(args.is_json);
    assert_int_equal(parse("try -f json -f table"), -1);
    assert_false(args.is_json);
    wrong("try -f jsn",
          "firn try: --format: unknown format 'jsn'; use table or json");
}

static void the_number_of_operands_is_checked(void **state)
{
    (void)state;
    assert_int_equal(call(OPERANDS, "try a"), -1);
    assert_int_equal(call(OPERANDS, "try a b"), -1);
    assert_int_equal(call(OPERANDS, "try"), 2);
    assert_non_null(strstr(printed, "firn try: no trace given\n"));
    assert_int_equal(call(OPERANDS, "try a b c"), 2);
    assert_non_null(
        strstr(printed, "firn try: unexpected argument 'c' after the trace\n"));
}

static void a_subcommand_gets_its_own_arguments(void **state)
{
    (void)state;
    assert_int_equal(call(SUBCOMMAND, "try gen a b"), 103);
    assert_int_equal(call(SUBCOMMAND, "try"), 2);
    assert_non_null(
        strstr(printed, "firn try: no subcommand given: use stat or gen\n"));
    assert_int_equal(call(SUBCOMMAND, "try gem"), 2);
    assert_non_null(
        strstr(printed, "firn try: unknown subcommand 'gem': use stat or gen"));
    assert_int_equal(call(SUBCOMMAND, "try --help"), 0);
    assert_non_null(strstr(printed, "usage: firn try [options] FILE\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_four_forms_of_an_option_are_equal),
        cmocka_unit_test(operands_keep_their_order),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(lists_are_split_at_commas_and_repeat),
        cmocka_unit_test(a_misspelt_option_gets_the_nearest_name),
        cmocka_unit_test(a_wrong_value_is_in_the_error_message),
        cmocka_unit_test(help_lists_every_option),
        cmocka_unit_test(help_is_wrapped_at_79_columns),
        cmocka_unit_test(a_format_is_table_or_json),
        cmocka_unit_test(the_number_of_operands_is_checked),
        cmocka_unit_test(a_subcommand_gets_its_own_arguments),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    words_release(&args.names);
    words_release(&args.rows);
    return rc;
}
