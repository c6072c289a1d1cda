/* cmd_repro.c - firn repro: reproduces tables and figures of papers.
 *
 * Reads scenarios, runs their simulations and prints the paper's numbers beside
 * firn's, with a verdict on each claim. A claim that does not hold is a result,
 * not an error: the exit status is 0 if everything was run.
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
#include <firn/policy.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct repro_args {
    const char *papers, *report, *plant;
    int width, draws;
    bool is_list, is_quiet, is_json, is_mute;
};

static const struct flag table[] = {
    {"list", 'l', NULL, "list the scenarios without running them", flag_yes,
     offsetof(struct repro_args, is_list)},
    {"papers", 0, "DIR", "directory of scenarios (default: built in)",
     flag_text, offsetof(struct repro_args, papers)},
    {"report", 0, "FILE",
     "also write a report. FILE.html: one page with the verdicts and the "
     "charts of 'firn report'. Else Markdown; pages of papers and plots go to "
     "a directory named like FILE without its extension",
     flag_text, offsetof(struct repro_args, report)},
    {"draws", 0, "N",
     "use at most N draws of each workload (default: all; fewer give wider "
     "intervals)",
     flag_count, offsetof(struct repro_args, draws)},
    {"plant", 0, "POLICY",
     "test the claims: run POLICY, a wrong one, in place of each policy that a "
     "claim is about; then no claim may hold",
     flag_text, offsetof(struct repro_args, plant)},
    {"mute", 0, NULL,
     "test the claims: no noise at any point of a sweep of noise; then no "
     "claim of such a scenario may hold",
     flag_yes, offsetof(struct repro_args, is_mute)},
    FORMAT_FLAG(offsetof(struct repro_args, is_json)),
    {"jobs", 'j', "N",
     "simulations to run in parallel (default: number of processors)",
     flag_count, offsetof(struct repro_args, width)},
    {"quiet", 'q', NULL, "no progress bar", flag_yes,
     offsetof(struct repro_args, is_quiet)},
    {0},
};

static const struct flags_page page = {
    .command = "repro",
    .usage = "[NAME...] [options]",
    .about =
        "Runs the experiments of papers and prints the paper's numbers, "
        "firn's numbers and whether each claim of the paper holds. NAME is "
        "a scenario or a prefix that ends before a dash (icefrog selects "
        "icefrog-table7 and others); by default all are run. Traces and "
        "tables are read from the directory $FIRN_DATA; scenarios whose "
        "data are not there are skipped.",
    .table = table,
    .more = "A claim over a workload that is drawn at random is judged by the "
            "95 % interval of its effect over the draws; docs/results.md has "
            "the rules.\n\n"
            "Exit status: 0 everything was run, whether claims hold or not; 1 "
            "a run failed, or a claim holds with --plant or --mute; 2 usage "
            "error; 130 "
            "interrupted.",
};

/* "icefrog" selects "icefrog" and "icefrog-table7", not "icefrogs". */
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
    int rc =
        best >= 0
            ? flags_wrong(&page, "unknown scenario '%s'; did you mean '%s'?",
                          name, names[best])
            : flags_wrong(&page,
                          "unknown scenario '%s'; 'firn repro --list' "
                          "lists them",
                          name);
    mem_free(names);
    return rc;
}

/* Marks the selected scenarios. Returns -1, or an exit status. */
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

/* Sets the name of the policy to plant; loads it if it is a path. */
static bool find_planted(const char *text, const char **name,
                         struct firn_error *err)
{
    const struct firn_policy_def *def = strchr(text, '/') != NULL
                                            ? firn_policy_load(text, err)
                                            : firn_policy_find(text, err);
    if (def != NULL)
        *name = def->name;
    return def != NULL;
}

/* Names the scenarios whose claims hold although they must not; true if there
 * is one. */
static bool say_held(const struct repro_book *book)
{
    bool is_held = false;
    for (size_t i = 0; i < book->parts.n; i++) {
        struct repro_tally tally = tally_part(book, &book->parts.at[i]);
        if (tally.held == 0)
            continue;
        is_held = true;
        fprintf(stderr,
                "firn repro: %s: %d of %d claims hold although %s%s: they "
                "cannot fail\n",
                book->parts.at[i].scenario->name, tally.held, tally.claims,
                book->plant != NULL ? "the policy is " : "there is no noise",
                book->plant != NULL ? book->plant : "");
    }
    return is_held;
}

static bool is_html(const char *path)
{
    size_t n = path != NULL ? strlen(path) : 0;
    return n > 5 && strcmp(path + n - 5, ".html") == 0;
}

static enum firn_status prepare(const struct repro_args *args,
                                struct repro_book *book, struct firn_error *err)
{
    FIRN_TRY(book_plan(book, err));
    return is_html(args->report) ? book_keep_files(book, err) : FIRN_OK;
}

static int run(const struct repro_args *args, struct repro_shelf *shelf,
               const bool *is_chosen, struct firn_buf *out)
{
    struct repro_book book = {.draws_max = args->draws,
                              .is_mute = args->is_mute};
    struct firn_error err = {0};
    int rc = 0;
    if (args->plant != NULL && !find_planted(args->plant, &book.plant, &err))
        return flags_wrong(&page, "--plant: %s", err.text);
    for (size_t i = 0; i < shelf->n; i++) {
        if (!is_chosen[i])
            continue;
        book_add(&book, shelf->at[i]);
        shelf->at[i] = NULL; /* owned by the book now */
    }
    if (prepare(args, &book, &err) != FIRN_OK)
        rc = failed(&err);
    else if (!book_run(&book, args->width, args->is_quiet))
        rc = 130;
    bool is_tried = args->plant != NULL || args->is_mute;
    bool is_held = rc == 0 && is_tried && say_held(&book);
    if (rc != 1)
        (args->is_json ? page_json : page_text)(&book, out);
    if (rc == 0 && args->report != NULL &&
        (is_html(args->report) ? report_write_html : report_write)(
            &book, args->report, &err) != FIRN_OK)
        rc = failed(&err);
    if (rc == 130)
        fprintf(stderr, "firn repro: interrupted; unfinished runs count as "
                        "failed\n");
    book_release(&book);
    return is_held ? 1 : rc;
}

static int go(const struct repro_args *args, int argc, char **argv)
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
            (args->is_json ? list_json : list_table)(&shelf, is_chosen, &out);
        else
            rc = run(args, &shelf, is_chosen, &out);
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
    long nprocessors = sysconf(_SC_NPROCESSORS_ONLN);
    struct repro_args args = {
        .width = nprocessors > 0 ? (int)nprocessors : 1,
    };
    int rc = flags_parse(&page, &args, &argc, argv);
    return rc >= 0 ? rc : go(&args, argc, argv);
}
