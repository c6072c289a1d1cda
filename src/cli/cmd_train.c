/* cmd_train.c - `firn train`: checkpoints of training jobs.
 *
 *     firn train diff A B      compares two checkpoints bit by bit
 *     firn train show FILE     lists the sections of one
 *
 * Exit status of `diff`: 0 equal, 1 different, as diff(1). 2 from either means
 * an incomplete or damaged checkpoint, or a usage error.
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
    bool is_all, is_json;
    const char *only;
};

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
    {"all", 'a', NULL, "list every differing section (default: the first 20)",
     flag_yes, offsetof(struct args, is_all)},
    {"only", 0, "KINDS",
     "compare these kinds of sections only: " TRAIN_KINDS
     "; several with commas (default: all but bookkeeping)",
     flag_text, offsetof(struct args, only)},
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page diff_page = {
    .command = "train diff",
    .usage = "[options] A B",
    .about =
        "Compares two checkpoints bit by bit. Prints the first difference, "
        "the differing sections with the number of differing elements and the "
        "first two values, and a summary per group (weights, optimiser, "
        "thread contexts). +0 and -0 differ; a NaN equals itself. Two runs of "
        "one job should be equal for any number of processes. Bookkeeping "
        "(progress, decisions, measured variances, the order of sums) is not "
        "compared unless --only asks for it.\n\n"
        "Exit status: 0 equal, 1 different, 2 a file is not a complete "
        "checkpoint.",
    .table = diff_flags,
};

/* The kinds to compare; 0 after an error message. */
static unsigned kinds_of(const struct args *args)
{
    char word[32];
    if (args->only == NULL)
        return TRAIN_STATE;
    unsigned kinds = train_kinds(args->only, word);
    if (kinds == 0)
        fprintf(stderr, "firn train: --only: '%s' is not one of %s\n", word,
                TRAIN_KINDS);
    return kinds;
}

/* 0 equal, 1 different, 2 nothing to compare. */
static int status_of(const struct train_diff *diff, const struct args *args)
{
    if (diff->nsections == 0)
        fprintf(stderr, "firn train: neither file has a section of %s\n",
                args->only != NULL ? args->only : "training state");
    return diff->nsections == 0 ? 2 : diff->n > 0;
}

static int compare(const struct args *args, char **paths)
{
    struct train_diff diff;
    unsigned kinds = kinds_of(args);
    if (kinds == 0)
        return 2;
    struct firn_buf out = {0};
    struct firn_ckpt *left = open_file(paths[0]), *right = open_file(paths[1]);
    int rc = 2;
    if (left != NULL && right != NULL) {
        train_diff_init(&diff, (const char *const[]){paths[0], paths[1]}, left,
                        right, kinds);
        if (args->is_json)
            train_diff_json(&diff, &out);
        else
            train_diff_page(&diff, args->is_all ? SIZE_MAX : LISTED, &out);
        rc = output_write("train", &out);
        rc = rc == 0 ? status_of(&diff, args) : 2;
        train_diff_release(&diff);
    }
    buf_release(&out);
    firn_ckpt_close(left);
    firn_ckpt_close(right);
    return rc;
}

static int run_diff(int argc, char **argv)
{
    struct args args = {0};
    int rc = flags_parse(&diff_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&diff_page, argc, argv, 2, 2, "checkpoint");
    return rc >= 0 ? rc : compare(&args, argv + 1);
}

/* --- show --- */

static const struct flag show_flags[] = {
    FORMAT_FLAG(offsetof(struct args, is_json)),
    {0},
};

static const struct flags_page show_page = {
    .command = "train show",
    .usage = "[options] FILE",
    .about = "Verifies the checksums of a checkpoint and lists its sections "
             "with type and shape.",
    .table = show_flags,
};

static int run_show(int argc, char **argv)
{
    struct args args = {0};
    struct firn_buf out = {0};
    int rc = flags_parse(&show_page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&show_page, argc, argv, 1, 1, "checkpoint");
    if (rc >= 0)
        return rc;
    struct firn_ckpt *c = open_file(argv[1]);
    if (c == NULL)
        return 2;
    (args.is_json ? train_show_json : train_show_page)(c, argv[1], &out);
    rc = output_write("train", &out);
    buf_release(&out);
    firn_ckpt_close(c);
    return rc;
}

static const struct flags_page train_page = {
    .command = "train",
    .usage = "diff A B     compare two checkpoints bit by bit\n"
             "show FILE    list the sections of a checkpoint",
    .about = "Each subcommand has its own --help.",
};

int cmd_train(int argc, char **argv)
{
    static const struct subcommand table[] = {
        {"diff", run_diff}, {"show", run_show}, {0}};
    return flags_subcommand(&train_page, table, argc, argv);
}
