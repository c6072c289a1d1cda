/* flags.h - the options of a command, from one table.
 *
 * A table of struct flag says name, value, help and where the value goes;
 * parsing, the help page and the nearest name of a misspelt option all read
 * it. `--name value`, `--name=value`, `-n value` and `-nvalue` are the same;
 * `--` ends the options; what is no option is an operand. `--help` and `-h`
 * need no line in the table.
 *
 *     struct args { double load; const char *out; bool is_quiet; };
 *     static const struct flag table[] = {
 *         {"load", 0, "X", "share of the cluster in use", flag_double,
 *          offsetof(struct args, load)},
 *         {"out", 'o', "FILE", "where to write", flag_text,
 *          offsetof(struct args, out)},
 *         {"quiet", 'q', NULL, "say nothing", flag_yes,
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
#include <stddef.h>

/* Stores `value` (NULL for a flag without one) at `at`. On failure the
 * sentence says what is wrong with the value, without naming the option. */
typedef enum firn_status flag_setter(void *at, const char *value,
                                     struct firn_error *err);

struct flag {
    const char *name;    /* without the dashes; NULL ends the table */
    char letter;         /* short form; 0 for none */
    const char *metavar; /* what the value is called; NULL: takes none */
    const char *help;    /* wrapped on the help page */
    flag_setter *set;
    size_t offset; /* where the value goes in the state */
};

struct flags_page {
    const char *command; /* "sim", "trace stat" */
    const char *usage;   /* what follows it; further lines after \n */
    const char *about;   /* paragraphs; lines as they shall be printed */
    const struct flag *table;
    const char *more; /* behind the options; NULL for none */
    /* Options that several commands share: a table, its heading on the help
     * page, and where in the state the values go. NULL: none. */
    const struct flag *(*shared)(void);
    const char *shared_head;
    size_t shared_at;
};

/* Fills `state`. Returns -1 when the command shall go on: its operands are
 * then argv[1] .. argv[*argc - 1]. Otherwise an exit status: 0 after the help
 * page was printed, 2 after a sentence on standard error. */
int flags_parse(const struct flags_page *page, void *state, int *argc,
                char **argv);

/* Prints the help page to standard output. */
void flags_help(const struct flags_page *page);

/* Says `firn COMMAND: sentence` and where help is, on standard error; returns
 * 2. For what the table cannot see: a missing or a contradicting option. */
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

/* Reads "90", "90s", "1.5m", "2h" or "1d" as seconds. */
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
