/* cmd_train.c - `firn train`: the checkpoints of training jobs.
 *
 *     firn train diff A B      where two of them differ, bit by bit
 *     firn train show FILE     what is in one, its checksums checked
 *
 * `diff` ends with 0 when they are equal and 1 when not, as diff(1) does; for
 * both, 2 says that a file was no whole checkpoint, or the command used
 * wrongly.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/train_page.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LISTED = 20 };

struct args {
    const char *format;
    bool is_all;
};

static const char *const formats[] = {"table", "json", NULL};

static struct firn_ckpt *open_file(const char *path)
{
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    if (firn_ckpt_open(&c, path, &err) != FIRN_OK)
        fprintf(stderr, "firn train: %s\n", err.text);
    return c;
}

/* --- diff --- */

static const struct flag diff_flags[] = {
    {"all", 'a', NULL, "list every section that differs, not the first 20",
     flag_yes, offsetof(struct args, is_all)},
    {"output", 'o', "FORMAT", "table or json (table)", flag_text,
     offsetof(struct args, format)},
    {0},
};

static const struct flags_page diff_page = {
    .command = "train diff",
    .usage = "[options] A B",
    .about =
        "Compares two checkpoints section by section and bit by bit: which "
        "sections\ndiffer, in how many elements, the first of them with both "
        "values, and a line for\neach group (weights, optimiser, thread "
        "contexts). +0 and -0 differ; a NaN equals\nitself. Two runs of one "
        "job should be equal however many processes they had.\n\n"
        "Exit status: 0 equal, 1 different, 2 no whole checkpoint.",
    .table = diff_flags,
};

static int compare(const struct args *args, char **paths, bool is_json)
{
    struct train_diff diff;
    struct firn_buf out = {0};
    struct firn_ckpt *left = open_file(paths[0]), *right = open_file(paths[1]);
    int rc = 2;
    if (left != NULL && right != NULL) {
        train_diff_init(&diff, paths[0], left, paths[1], right);
        if (is_json)
            train_diff_json(&diff, &out);
        else
            train_diff_page(&diff, args->is_all ? SIZE_MAX : LISTED, &out);
        rc = output_write("train", &out);
        if (rc == 0)
            rc = diff.n > 0;
        else
            rc = 2;
        train_diff_release(&diff);
    }
    buf_release(&out);
    firn_ckpt_close(left);
    firn_ckpt_close(right);
    return rc;
}

static int run_diff(int argc, char **argv)
{
    struct args args = {.format = "table"};
    int rc = flags_parse(&diff_page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    int format = output_format("train diff", args.format, formats);
    if (format < 0)
        return 2;
    if (argc != 3)
        return flags_wrong(&diff_page, "say which two checkpoints");
    return compare(&args, argv + 1, format == 1);
}

/* --- show --- */

static const struct flag show_flags[] = {
    {"output", 'o', "FORMAT", "table or json (table)", flag_text,
     offsetof(struct args, format)},
    {0},
};

static const struct flags_page show_page = {
    .command = "train show",
    .usage = "[options] FILE",
    .about = "Lists the sections of a checkpoint, with type and shape, after "
             "all of its\nchecksums were found right.",
    .table = show_flags,
};

static int run_show(int argc, char **argv)
{
    struct args args = {.format = "table"};
    struct firn_buf out = {0};
    int rc = flags_parse(&show_page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    int format = output_format("train show", args.format, formats);
    if (format < 0)
        return 2;
    if (argc != 2)
        return flags_wrong(&show_page, argc < 2 ? "no checkpoint named"
                                                : "one checkpoint at a time");
    struct firn_ckpt *c = open_file(argv[1]);
    if (c == NULL)
        return 2;
    (format == 1 ? train_show_json : train_show_page)(c, argv[1], &out);
    rc = output_write("train", &out);
    buf_release(&out);
    firn_ckpt_close(c);
    return rc;
}

static const struct flags_page train_page = {
    .command = "train",
    .usage = "diff A B     where two checkpoints differ, bit by bit\n"
             "show FILE    what is in one",
    .about = "Each has its own --help.",
};

int cmd_train(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } table[] = {{"diff", run_diff}, {"show", run_show}};
    for (size_t i = 0; argc > 1 && i < sizeof table / sizeof *table; i++)
        if (strcmp(argv[1], table[i].name) == 0)
            return table[i].run(argc - 1, argv + 1);
    int rc = flags_parse(&train_page, NULL, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc < 2)
        return flags_wrong(&train_page, "say diff or show");
    return flags_wrong(&train_page, "no '%s': diff or show", argv[1]);
}
