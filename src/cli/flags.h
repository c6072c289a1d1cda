/* flags.h - the options of a command, described by one table.
 *
 * Each row of a table (struct flag) has an option's name, value, help text and
 * the place where the value is stored. Parsing, the help page and suggestions
 * for misspelt options read this table. `--name value`, `--name=value`,
 * `-n value` and `-nvalue` mean the same; `--` ends the options; every other
 * argument is an operand. `--help` and `-h` need no row.
 *
 *     struct args { double load; const char *out; bool is_quiet; };
 *     static const struct flag table[] = {
 *         {"load", 0, "X", "load of the cluster (default: 0.8)", flag_double,
 *          offsetof(struct args, load)},
 *         {"out", 'o', "FILE", "output file", flag_text,
 *          offsetof(struct args, out)},
 *         {"quiet", 'q', NULL, "no progress bar", flag_yes,
 *          offsetof(struct args, is_quiet)},
 *         {0},
 *     };
 *     static const struct flags_page page = {
 *         .command = "trace make", .usage = "[options] FILE",
 *         .about = "Makes a trace.", .table = table,
 *     };
 *     int rc = flags_parse(&page, &args, &argc, argv);
 *     if (rc >= 0)
 *         return rc;
 */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Stores `value` (NULL for an option without a value) at `at`. The message of a
 * failure describes the value; the caller adds the option's name. */
typedef enum firn_status flag_setter(void *at, const char *value,
                                     struct firn_error *err);

struct flag {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* short form; 0 for none */
    const char
        *metavar;     /* name of the value on the help page; NULL: no value */
    const char *help; /* noun phrase or imperative, then "(default: X)" */
    flag_setter *set;
    size_t offset; /* of the value in the state */
};

struct flags_page {
    const char *command; /* "sim", "trace stat" */
    const char *usage;   /* operands and options; one line per form */
    const char *about;   /* what the command does; printed as it is */
    const struct flag *table;
    const char *more; /* printed after the options; NULL: nothing */
    /* Options that several commands share: a table, its heading on the help
     * page, and where in the state the values go. NULL: none. */
    const struct flag *(*shared)(void);
    const char *shared_head;
    size_t shared_at;
};

/* Parses the options into `state` and moves the operands to argv[1] ..
 * argv[*argc - 1]. Returns -1 to go on; otherwise the exit status: 0 after the
 * help page, 2 after an error message. */
int flags_parse(const struct flags_page *page, void *state, int *argc,
                char **argv);

/* Checks that argv has from `least` to `most` operands, each of them a `what`
 * ("job"). Returns -1, or 2 after an error message. */
int flags_operands(const struct flags_page *page, int argc, char **argv,
                   int least, int most, const char *what);

/* A command with subcommands, such as `firn trace stat`. */
struct subcommand {
    const char *name; /* NULL ends the table */
    int (*run)(int argc, char **argv);
};

/* Runs the subcommand argv[1] with its own name as argv[0]; without a known one
 * prints the help page or an error message. Returns the exit status. */
int flags_subcommand(const struct flags_page *page,
                     const struct subcommand *table, int argc, char **argv);

/* Prints `firn COMMAND: message` and a pointer to --help on standard error;
 * returns 2. For errors that the table cannot find, such as a missing option.
 */
int flags_wrong(const struct flags_page *page, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Setters. */
flag_setter flag_yes;      /* bool: true when given */
flag_setter flag_text;     /* const char *: borrowed from argv; not empty */
flag_setter flag_double;   /* double: any finite number */
flag_setter flag_positive; /* double: > 0 */
flag_setter flag_duration; /* double, seconds: >= 0; 90, 90s, 1.5m, 2h, 1d */
flag_setter flag_count;    /* int: >= 1 */
flag_setter flag_whole;    /* long: >= 0 */
flag_setter flag_seed;     /* uint64_t */
flag_setter flag_words;    /* struct words: appends, split at commas */
flag_setter flag_word;     /* struct words: appends, not split */
flag_setter flag_format;   /* bool: true for "json", false for "table" */

/* -o FORMAT, for a bool at `offset`. */
/* clang-format off */
#define FORMAT_FLAG(offset)                                                  \
    {"output", 'o', "FORMAT", "output format: table or json (default: table)", \
     flag_format, offset}
/* clang-format on */

/* Parses "90", "90s", "1.5m", "2h" or "1d" as seconds. */
enum firn_status duration_parse(const char *text, double *out_s,
                                struct firn_error *err);

/* A growing list of owned strings; zeroed is empty. */
struct words {
    char **at;
    size_t n, cap;
};

void words_add(struct words *words, const char *text, size_t n);
void words_release(struct words *words);

#endif
