/* test_sbatch.c - #SBATCH lines and the numbers of arrays. */
#include "base/buf.h"
#include "cli/flags.c"
#include "cli/sbatch.c" /* programs link libfirn.a, which has no cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_usual_options_are_taken_and_others_named(void **state)
{
    (void)state;
    static const char text[] = "#!/bin/bash -l\n"
                               "# a comment\n"
                               "#SBATCH --job-name=resnet -p gpu\n"
                               "#SBATCH --gres=gpu:a100:2  # two of them\n"
                               "#SBATCH -N 2\n"
                               "#SBATCH --time=1:00:00 --mem=4G\n"
                               "#SBATCH --mail-type=END,fail\n"
                               "#SBATCH -D /data\n"
                               "#SBATCH --dependency=afterok:12:13,afterany:9\n"
                               "\n"
                               "#SBATCH --array=0-3%2\n"
                               "srun python train.py\n"
                               "#SBATCH --job-name=late\n";
    struct sbatch s;
    assert_true(sbatch_read(&s, text));
    assert_string_equal(s.interpreter, "/bin/bash -l");
    assert_string_equal(s.name, "resnet");
    assert_string_equal(s.queue, "gpu");
    assert_string_equal(s.type, "a100");
    assert_int_equal(sbatch_gpus(&s), 4);
    assert_string_equal(s.workdir, "/data");
    assert_string_equal(s.after, "ok:12,ok:13,any:9");
    assert_string_equal(s.array, "0-3%2");
    assert_string_equal(s.limit, "3600s");
    assert_int_equal(s.notify.n, 2);
    assert_string_equal(s.notify.at[0], "end");
    assert_string_equal(s.notify.at[1], "failure");
    assert_int_equal(s.ignored.n, 1);
    assert_string_equal(s.ignored.at[0], "--mem=4G");
    sbatch_release(&s);
}

static void times_are_read_as_slurm_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *value, *limit;
        size_t nignored;
    } cases[] = {
        {"90", "5400s", 0},    {"90:30", "5430s", 0},   {"1:30:05", "5405s", 0},
        {"2-0", "172800s", 0}, {"1-2:30", "95400s", 0}, {"0-0:0:1", "1s", 0},
        {"0", "", 0},          {"UNLIMITED", "", 0},    {"soon", "", 1},
        {"1:2:3:4", "", 1},    {"1-", "", 1},           {"-1", "", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[80];
        struct sbatch s;
        snprintf(text, sizeof text, "#SBATCH --time=%s\n", cases[i].value);
        assert_true(sbatch_read(&s, text));
        assert_string_equal(s.limit, cases[i].limit);
        assert_int_equal(s.ignored.n, cases[i].nignored);
        sbatch_release(&s);
    }
}

static void gpus_have_several_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *line, *type;
        long ngpus;
    } cases[] = {{"--gpus=4", "", 4},
                 {"-G 4", "", 4},
                 {"-G4", "", 4},
                 {"--gpus v100:2", "v100", 2},
                 {"--gres=gpu", "", 1},
                 {"--gres=gpu:3", "", 3},
                 {"--gpus-per-node=2", "", 2},
                 {"--gpus=none", "", 0},
                 {"--gres=disk:3", "", 0},
                 {"--gpus=0", "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_buf text = {0};
        struct sbatch s;
        buf_printf(&text, "#!/bin/sh\n#SBATCH %s\n", cases[i].line);
        assert_true(sbatch_read(&s, text.at));
        assert_int_equal(sbatch_gpus(&s), cases[i].ngpus);
        assert_string_equal(s.type, cases[i].type);
        assert_int_equal(s.ignored.n, cases[i].ngpus == 0);
        sbatch_release(&s);
        buf_release(&text);
    }
}

static void a_script_without_such_lines_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "#!/bin/sh\necho\n", "x\n",
                                        "echo\n#SBATCH -J a\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct sbatch s;
        assert_false(sbatch_read(&s, texts[i]));
        sbatch_release(&s);
    }
}

static void arrays_are_ranges_steps_and_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text, *numbers;
        long at_once;
    } cases[] = {{"0-3", "0 1 2 3 ", 0}, {"7", "7 ", 0},
                 {"1,3,9", "1 3 9 ", 0}, {"0-8:4", "0 4 8 ", 0},
                 {"0-2%2", "0 1 2 ", 2}, {"1-2,9%1", "1 2 9 ", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct words words = {0};
        struct firn_buf all = {0};
        long at_once;
        assert_true(array_read(cases[i].text, &words, &at_once));
        for (size_t k = 0; k < words.n; k++)
            buf_printf(&all, "%s ", words.at[k]);
        assert_string_equal(all.at, cases[i].numbers);
        assert_int_equal(at_once, cases[i].at_once);
        words_release(&words);
        buf_release(&all);
    }
    static const char *const wrong[] = {"",     "a",       "3-1", "0-",
                                        "0-3%", "0-3%0",   "1,",  "0-3:0",
                                        "-1",   "0-99999", "1;2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct words words = {0};
        long at_once;
        if (array_read(wrong[i], &words, &at_once))
            fail_msg("'%s' was taken", wrong[i]);
        words_release(&words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_options_are_taken_and_others_named),
        cmocka_unit_test(times_are_read_as_slurm_reads_them),
        cmocka_unit_test(gpus_have_several_spellings),
        cmocka_unit_test(a_script_without_such_lines_is_none),
        cmocka_unit_test(arrays_are_ranges_steps_and_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
