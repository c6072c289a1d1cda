/* reprorun.h - the simulations behind scenarios, each run once.
 *
 * A scenario is a grid of cells: by whose rules (firn's own, or a published
 * simulator's), which policy, which point of the sweep. A cell's value is the
 * mean over its traces and seeds. Each simulation is one command line of
 * `firn sim`; cells that ask for the same one share it, also between
 * scenarios. A "policy" may be a model of memory instead, and its "traces"
 * tables of what was measured.
 *
 *     struct repro_book book = {0};
 *     book_add(&book, scenario);           for each
 *     book_plan(&book);
 *     book_run(&book, nprocesses, quiet);
 *     book_value(&book, part, REPRO_HONEST, policy, point, metric);
 *     book_release(&book);
 */
#ifndef REPRO_RUN_H
#define REPRO_RUN_H
#include "cli/flags.h"
#include "repro/reproscenario.h"
#include <firn/sim.h>

enum repro_rules { REPRO_HONEST, REPRO_COMPAT, REPRO_NRULES };

/* One simulation, or one evaluation of a model of memory. */
struct repro_run {
    struct words argv; /* of `firn sim`; or "memory", predictor, FILE#MODEL */
    const char *name;  /* of the first scenario that wants it */
    bool is_done;
    struct repro_result result; /* when it is done */
    char why[FIRN_ERROR_TEXT];  /* when it is not */
};

struct repro_cell {
    size_t *at; /* runs, by number */
    size_t n, cap;
    bool is_missing; /* no policy of that name */
    bool is_absent;  /* the scenario says that it cannot be had */
    char why[400];   /* why there is no run; empty: none was asked for */
};

struct repro_part {
    struct repro_scenario *scenario; /* owned */
    char skip[200];                  /* why nothing of it is run; or empty */
    struct repro_cell *cells;        /* by rules, policy, point */
};

struct repro_book {
    struct {
        struct repro_part *at;
        size_t n, cap;
    } parts;
    struct {
        struct repro_run *at;
        size_t n, cap;
    } runs;
    struct words made;       /* made-up traces: what they are made from */
    struct firn_buf scratch; /* their folder; empty: none yet */
};

void book_add(struct repro_book *book, struct repro_scenario *scenario);

/* Finds every run. Data that is not there makes a scenario skipped. FIRN_EIO
 * or FIRN_EINVAL when a trace cannot be made up. */
enum firn_status book_plan(struct repro_book *book, struct firn_error *err);

/* Runs all, `width` at a time. False when interrupted. */
bool book_run(struct repro_book *book, int width, bool is_quiet);

struct repro_cell *book_cell(const struct repro_part *part,
                             enum repro_rules rules, int policy, int point);

/* In seconds, or whatever the metric is in; NaN when there is none. */
double book_value(const struct repro_book *book, const struct repro_part *part,
                  enum repro_rules rules, int policy, int point, int metric);

/* Jobs finished in all runs of a cell; -1 when one of them failed. */
long book_jobs(const struct repro_book *book, const struct repro_cell *cell);

void book_release(struct repro_book *book);

#endif
