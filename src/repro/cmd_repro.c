/* cmd_repro.c - firn repro: the papers' tables and figures by one command.
 *
 * Reads scenarios, runs what they need, and prints the paper's numbers beside
 * firn's with a verdict on each claim. That a claim does not hold is a result
 * like another: the exit status says only whether all was run.
 */
#include "base/buf.h"
#include "base/str.h"
#include "base/table.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "repro/repropage.h"
#include "repro/reproreport.h"
#include "repro/reproshelf.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct repro_args {
    const char *papers, *report, *format_name;
    int width;
    bool is_list, is_quiet;
};

static const struct flag table[] = {
    {"list", 'l', NULL, "lists the scenarios instead of running them", flag_yes,
     offsetof(struct repro_args, is_list)},
    {"papers", 0, "DIR", "scenarios of this folder, not those built in",
     flag_text, offsetof(struct repro_args, papers)},
    {"report", 0, "FILE",
     "writes a page of Markdown too, with a picture for each sweep in a folder "
     "beside it",
     flag_text, offsetof(struct repro_args, report)},
    {"output", 'o', "FORMAT", "table or json", flag_text,
     offsetof(struct repro_args, format_name)},
    {"jobs", 'j', "N", "processes at a time; as many as processors by default",
     flag_count, offsetof(struct repro_args, width)},
    {"quiet", 'q', NULL, "no progress bar", flag_yes,
     offsetof(struct repro_args, is_quiet)},
    {0},
};

static const struct flags_page page = {
    .command = "repro",
    .usage = "[NAME...] [options]",
    .about = "Runs the papers' experiments and prints what the paper has, what "
             "firn has, and\nwhether each claim holds. NAME is a scenario's or "
             "the beginning of several, up to\na dash; all by default. Traces "
             "and tables are looked for in $FIRN_DATA; what\nhas none there is "
             "skipped.",
    .table = table,
    .more = "The exit status is 0 when all was run, whatever holds; 1 when "
            "something could\nnot be; 2 for a wrong use; 130 when interrupted.",
};

/* "icefrog" is the beginning of "icefrog-table7", not of "icefrogs". */
static bool is_named(const char *scenario, const char *name)
{
    size_t n = strlen(name);
    return strncmp(scenario, name, n) == 0 &&
           (scenario[n] == '\0' || scenario[n] == '-');
}

static int say_unknown(const struct repro_shelf *shelf, const char *name)
{
    const char **names = mem_new(shelf->n, sizeof *names);
    for (size_t i = 0; i < shelf->n; i++)
        names[i] = shelf->at[i]->name;
    int best = str_nearest(name, names, shelf->n);
    int rc = best >= 0
                 ? flags_wrong(&page, "no scenario '%s'; did you mean '%s'?",
                               name, names[best])
                 : flags_wrong(&page, "no scenario '%s'", name);
    mem_free(names);
    return rc;
}

/* Marks the scenarios asked for; -1, or an exit status. */
static int choose(const struct repro_shelf *shelf, int argc, char **argv,
                  bool *is_chosen)
{
    for (size_t i = 0; i < shelf->n; i++)
        is_chosen[i] = argc == 1;
    for (int k = 1; k < argc; k++) {
        bool is_found = false;
        for (size_t i = 0; i < shelf->n; i++) {
            if (!is_named(shelf->at[i]->name, argv[k]))
                continue;
            is_chosen[i] = is_found = true;
        }
        if (!is_found)
            return say_unknown(shelf, argv[k]);
    }
    return -1;
}

static void list_table(const struct repro_shelf *shelf, const bool *is_chosen,
                       struct firn_buf *out)
{
    struct table rows;
    table_init(&rows, "lll");
    for (size_t i = 0; i < shelf->n; i++) {
        if (!is_chosen[i])
            continue;
        table_cell(&rows, shelf->at[i]->name);
        table_cell(&rows, shelf->at[i]->paper);
        table_cell(&rows, shelf->at[i]->shows);
    }
    table_print(&rows, out);
    table_release(&rows);
}

static void list_json(const struct repro_shelf *shelf, const bool *is_chosen,
                      struct firn_buf *out)
{
    const char *before = "\n";
    buf_puts(out, "{\"scenarios\":[");
    for (size_t i = 0; i < shelf->n; i++) {
        if (!is_chosen[i])
            continue;
        buf_printf(out, "%s{\"name\":", before);
        buf_json_string(out, shelf->at[i]->name);
        buf_puts(out, ",\"paper\":");
        buf_json_string(out, shelf->at[i]->paper);
        buf_puts(out, ",\"shows\":");
        buf_json_string(out, shelf->at[i]->shows);
        buf_putc(out, '}');
        before = ",\n";
    }
    buf_puts(out, "\n]}\n");
}

static int failed(const struct firn_error *err)
{
    fprintf(stderr, "firn repro: %s\n", err->text);
    return 1;
}

static int run(const struct repro_args *args, struct repro_shelf *shelf,
               const bool *is_chosen, bool is_json, struct firn_buf *out)
{
    struct repro_book book = {0};
    struct firn_error err = {0};
    int rc = 0;
    for (size_t i = 0; i < shelf->n; i++) {
        if (!is_chosen[i])
            continue;
        book_add(&book, shelf->at[i]);
        shelf->at[i] = NULL; /* the book's now */
    }
    if (book_plan(&book, &err) != FIRN_OK)
        rc = failed(&err);
    else if (!book_run(&book, args->width, args->is_quiet))
        rc = 130;
    if (rc != 1)
        (is_json ? page_json : page_text)(&book, out);
    if (rc == 0 && args->report != NULL &&
        report_write(&book, args->report, &err) != FIRN_OK)
        rc = failed(&err);
    if (rc == 130)
        fprintf(stderr, "firn repro: interrupted; what did not end counts as "
                        "failed\n");
    book_release(&book);
    return rc;
}

static int go(const struct repro_args *args, int argc, char **argv,
              bool is_json)
{
    struct repro_shelf shelf = {0};
    struct firn_error err = {0};
    struct firn_buf out = {0};
    if (shelf_read(&shelf, args->papers, &err) != FIRN_OK)
        return failed(&err);
    bool *is_chosen = mem_new(shelf.n, sizeof *is_chosen);
    int rc = choose(&shelf, argc, argv, is_chosen);
    if (rc < 0) {
        rc = 0;
        if (args->is_list)
            (is_json ? list_json : list_table)(&shelf, is_chosen, &out);
        else
            rc = run(args, &shelf, is_chosen, is_json, &out);
        int written = output_write("repro", &out);
        rc = rc != 0 ? rc : written;
    }
    mem_free(is_chosen);
    shelf_release(&shelf);
    buf_release(&out);
    return rc;
}

int cmd_repro(int argc, char **argv)
{
    static const char *const formats[] = {"table", "json", NULL};
    long nprocessors = sysconf(_SC_NPROCESSORS_ONLN);
    struct repro_args args = {
        .format_name = "table",
        .width = nprocessors > 0 ? (int)nprocessors : 1,
    };
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    int format = output_format(page.command, args.format_name, formats);
    if (format < 0)
        return 2;
    return go(&args, argc, argv, format == 1);
}
